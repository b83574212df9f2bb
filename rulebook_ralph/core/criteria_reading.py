"""Reading criteria and overrides that a person wrote: all faults with their places, and the form that Ralph writes.

They may stand in snake_case or camelCase and are kept as plain values in the task; here they become typed
(core/criteria.py).
"""

import itertools
from collections.abc import Iterator, Mapping
from math import isfinite
from pathlib import PurePosixPath
from typing import Any, cast

import msgspec

from rulebook_ralph.core.criteria import (
    KINDS,
    ROLE_PROMISE,
    STAGES,
    Criteria,
    External,
    Method,
    MultiStage,
    Part,
    Semantic,
    Verification,
)
from rulebook_ralph.core.model import Json, Stage, Task
from rulebook_ralph.core.patterns import problem_with_pattern
from rulebook_ralph.core.problem import Fault, JsonPath, escaped
from rulebook_ralph.core.settings import Overrides, PositiveInt, Settings
from rulebook_ralph.core.struct_reading import Tree, camel, read_struct

LONGEST_PROMISE = 200
LONGEST_PART_NAME = 100
DEEPEST_NESTING = 5


class WrittenCriteria(Settings, frozen=True, kw_only=True):
    """Criteria as they stand in a PRD."""

    promise: str = ""
    description: str = ""
    verification_method: Method = "string_match"
    verification_config: Json = {}
    max_iterations: PositiveInt | None = None


class WrittenStages(Settings, frozen=True, kw_only=True):
    """A task's `completion`."""

    coder: Json = {}
    reviewer: Json = {}
    tester: Json = {}
    qa: Json = {}


def completion_faults(completion: Mapping[str, Any], path: JsonPath) -> Iterator[Fault]:
    """Everything wrong with a task's `completion`."""
    faults = [
        Fault((*path, key), "belongs to the task itself, beside `completion`")
        for key in completion
        if camel(key) in ("outcome", "acceptanceCriteria")
    ]
    misplaced = {fault.path[-1] for fault in faults}
    tree = _read({key: item for key, item in completion.items() if key not in misplaced}, WrittenStages, path, faults)
    for stage in STAGES:
        if isinstance(tree.get(stage), dict):
            read_criteria(tree[stage], stage, (*path, stage), faults)
    yield from faults


def override_faults(overrides: Any, path: JsonPath) -> Iterator[Fault]:
    """Everything wrong with a task's `overrides`."""
    faults: list[Fault] = []
    tree = _read(overrides, Overrides, path, faults)
    yield from faults
    if faults:
        return
    yield from stage_faults(tree.get("stages", ()), (*path, "stages"), may_be_empty=True)
    key = _as_written(overrides, "stopCriteria")
    yield from pattern_faults(tree.get("stopCriteria", {}), (*path, key), overrides.get(key))
    if "\0" in tree.get("executor", ""):
        yield Fault((*path, "executor"), "must not hold a NUL character")


def pattern_faults(stop_criteria: Tree, path: JsonPath, written: Any = None) -> Iterator[Fault]:
    """What is wrong with the regular expressions of stop criteria, as `read_struct` gives them from `written`."""
    for key in ("successRegex", "blockedRegex"):
        if (text := stop_criteria.get(key)) and (problem := problem_with_pattern(text)):
            yield Fault((*path, _as_written(written, key)), problem)


def stage_faults(stages: tuple[str, ...] | list[str], path: JsonPath, *, may_be_empty: bool = False) -> Iterator[Fault]:
    """What is wrong with an order of stages: each at most once, in the order coder, reviewer, tester, qa."""
    if not stages and not may_be_empty:
        yield Fault(path, "at least one stage is needed")
    places = [STAGES.index(cast("Stage", stage)) for stage in stages]
    if any(following <= place for place, following in itertools.pairwise(places)):
        yield Fault(path, f"each stage once, in the order {', '.join(STAGES)}")


def task_in_one_form(task: Task) -> Task:
    """A task whose criteria and overrides are valid, with them in the form that Ralph writes."""
    return msgspec.structs.replace(
        task, completion=canonical(task.completion), overrides=canonical_overrides(task.overrides)
    )


def canonical(completion: Mapping[str, Any]) -> dict[str, Json]:
    """A valid `completion` in the form that Ralph writes: camelCase keys, seconds, only what is set."""
    whole: dict[str, Json] = {}
    for stage, written in completion.items():
        read = _read(written, WrittenCriteria, (), [])
        tree = {key: value for key, value in read.items() if value is not None and value != {}}
        if "verificationConfig" in tree:
            tree["verificationConfig"] = _canonical_config(tree["verificationConfig"], tree["verificationMethod"])
        if tree:
            whole[stage] = tree
    return whole


def canonical_overrides(overrides: Json) -> Json:
    """Valid `overrides` in the form that Ralph writes: camelCase keys, only what is set."""
    return _read(overrides, Overrides, (), [])


def _canonical_config(config: Any, method: str) -> Json:
    tree = dict(_read(with_lists(config), KINDS[method], (), []))
    for key, item in tree.items():
        if isinstance(item, float) and item.is_integer():
            tree[key] = int(item)
    if method == "multi_stage":
        tree["stages"] = [
            {**part, "config": _canonical_config(part["config"], part["method"])} if part.get("config") else part
            for part in tree["stages"]
        ]
    return tree


def read_criteria(written: Any, stage: Stage, path: JsonPath, faults: list[Fault]) -> Criteria | None:
    """The criteria of a stage; None, and the reasons added to `faults`, where something is wrong."""
    before = len(faults)
    tree = _read(written, WrittenCriteria, path, faults)
    method: object = tree.get("verificationMethod", "string_match")
    config = tree.get("verificationConfig", {})
    verification: Verification | None = None
    if config and "verificationMethod" not in tree:
        faults.append(Fault(path, "`verificationMethod` is missing"))
    elif isinstance(method, str) and method in KINDS and isinstance(config, dict):
        place = (*path, _as_written(written, "verificationConfig"))
        verification = _verification(config, cast("Method", method), place, faults)
    promise = tree.get("promise", "")
    if isinstance(promise, str):
        promise = " ".join(promise.split()) or ROLE_PROMISE[stage]
        faults.extend(Fault((*path, "promise"), problem) for problem in _promise_problems(promise))
    if len(faults) > before or verification is None:
        return None
    form = msgspec.convert(tree, WrittenCriteria)
    return Criteria(
        promise=promise,
        description=form.description,
        verification=verification,
        max_iterations=form.max_iterations,
    )


def _promise_problems(promise: str) -> Iterator[str]:
    if any(char in promise for char in "<>") or len(promise) > LONGEST_PROMISE or not promise.isprintable():
        yield f"expected one line of printable text without < and >, at most {LONGEST_PROMISE} characters"


def _verification(
    config: Any, method: Method, path: JsonPath, faults: list[Fault], *, depth: int = 1
) -> Verification | None:
    before = len(faults)
    if method == "string_match" and config:
        faults.append(Fault(path, "`string_match` takes no settings: it looks for the promise alone"))
        return None
    tree = _read(with_lists(config), KINDS[method], path, faults)
    if len(faults) > before:
        return None
    verification = cast("Verification", msgspec.convert(tree, KINDS[method]))
    if isinstance(verification, External):
        faults.extend(_external_faults(verification, config, path))
    elif isinstance(verification, MultiStage):
        _read_parts(verification, path, faults, depth=depth)
    elif isinstance(verification, Semantic):
        faults.extend(_semantic_faults(verification, config, path))
    return verification if len(faults) == before else None


def part_verification(part: Part) -> Verification:
    """The verification of a part whose criteria were read without faults."""
    found = _verification(part.config, part.method, (), [])
    if found is None:
        raise ValueError(f"the part {part.name!r} was not validated")
    return found


def required_commands(verification: Verification, step: str) -> Iterator[tuple[str, External]]:
    """The commands without which a verification that was read without faults fails, each with the step that it is
    known as.
    """
    if isinstance(verification, External):
        yield step, verification
    elif isinstance(verification, MultiStage):
        for part in verification.stages:
            if part.required:
                yield from required_commands(part_verification(part), f"{step}/{part.name}")


def _read_parts(verification: MultiStage, path: JsonPath, faults: list[Fault], *, depth: int) -> None:
    if depth > DEEPEST_NESTING:
        faults.append(Fault(path, f"is nested more than {DEEPEST_NESTING} deep"))
        return
    if not verification.stages:
        faults.append(Fault((*path, "stages"), "at least one stage is needed"))
    names: set[str] = set()
    for index, part in enumerate(verification.stages):
        place = (*path, "stages", index)
        if not part.name.strip() or part.name in names:
            faults.append(Fault((*place, "name"), "each stage needs a name of its own"))
        elif len(part.name) > LONGEST_PART_NAME or not part.name.isprintable():
            limit = f"at most {LONGEST_PART_NAME} characters"
            faults.append(Fault((*place, "name"), f"expected one line of printable text, {limit}"))
        if unknown := [name for name in part.needs if name not in names]:
            faults.append(Fault((*place, "needs"), f"'{escaped(unknown[0])}' is the name of no earlier stage"))
        names.add(part.name)
        _verification(part.config, part.method, (*place, "config"), faults, depth=depth + 1)


def _external_faults(external: External, config: Any, path: JsonPath) -> Iterator[Fault]:
    if not external.command.strip():
        yield Fault((*path, "command"), "must not be empty")
    folder_key = _as_written(config, "workingDir")
    for key, text in (("command", external.command), (folder_key, external.working_dir)):
        if "\0" in text:
            yield Fault((*path, key), "must not hold a NUL character")
    folder = PurePosixPath(external.working_dir)
    if folder.is_absolute() or ".." in folder.parts or not external.working_dir.strip():
        yield Fault((*path, folder_key), "must be a folder of the repository, from its root")


def _semantic_faults(semantic: Semantic, config: Any, path: JsonPath) -> Iterator[Fault]:
    if not semantic.check_for and not semantic.negative_patterns:
        yield Fault(path, "`checkFor` or `negativePatterns` is needed")
    for name, texts in (("checkFor", semantic.check_for), ("negativePatterns", semantic.negative_patterns)):
        key = _as_written(config, name)
        for index, text in enumerate(texts):
            if not text.strip():
                place = (*path, key) if isinstance(config[key], str) else (*path, key, index)
                yield Fault(place, "must not be empty")


_ONE_OR_MORE = ("checkFor", "negativePatterns")


def with_lists(config: Any) -> Any:
    """`check_for` may be one text, as in `check_for: "{{acceptance_criteria}}"`."""
    if not isinstance(config, dict):
        return config
    return {
        key: [item] if isinstance(item, str) and camel(key) in _ONE_OR_MORE else item for key, item in config.items()
    }


def _as_written(tree: Any, name: str) -> str:
    """The key as it stands in a file, in snake_case or camelCase."""
    return next((key for key in tree if camel(key) == name), name) if isinstance(tree, dict) else name


def _read(value: Any, struct: type[Settings], path: JsonPath, faults: list[Fault]) -> Tree:
    """The keys and values of a struct in the one form; not to be changed, they may be the very ones given.

    Like `read_struct`, a hundred times faster for what is in that form already, and without the `+` that adds to the
    lists of other files: criteria stand in one file alone.
    """
    if _fits(value, struct):
        return cast("Tree", value)
    tree = read_struct(value, struct, path, faults)
    places = [(path, tree)]
    if struct is MultiStage:
        places += [((*path, "stages", index), part) for index, part in enumerate(tree.get("stages", ()))]
    for place, keys in places:
        for key in [key for key in keys if key.startswith("+")]:
            faults.append(Fault((*place, key), f"`+` has no meaning here; write `{key[1:]}`"))
            del keys[key]
    return tree


def _fits(value: Any, struct: type[Settings]) -> bool:
    try:
        msgspec.convert(value, struct)
    except (msgspec.ValidationError, RecursionError):
        return False
    return all(not isinstance(item, float) or isfinite(item) for item in value.values())
