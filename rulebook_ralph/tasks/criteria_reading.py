"""Reading criteria and overrides that a person wrote: all faults with their places, and the form that Ralph writes.

They may stand in snake_case or camelCase and are kept as plain values in the task; here they become typed
(tasks/criteria.py).
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, cast

import msgspec

from rulebook_ralph.tasks.criteria import (
    KINDS,
    ROLE_PROMISE,
    STAGES,
    Criteria,
    External,
    Method,
    MultiStage,
    Overrides,
    Part,
    Semantic,
    Verification,
)
from rulebook_ralph.tasks.model import Json, Stage, Task
from rulebook_ralph.tasks.patterns import problem_with_pattern
from rulebook_ralph.tasks.struct_reading import PositiveInt, Settings, Tree, camel, explained, read_struct
from rulebook_ralph.tasks.text import Fault, JsonPath, escaped, nearest

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


# Criteria


def completion_faults(completion: Mapping[str, Any], path: JsonPath) -> Iterator[Fault]:
    """Everything wrong with a task's `completion`."""
    faults: list[Fault] = []
    for key, written in completion.items():
        if key in STAGES:
            read_criteria(written, key, (*path, key), faults)
        elif camel(key) in ("outcome", "acceptanceCriteria"):
            faults.append(Fault((*path, key), "belongs to the task itself, beside `completion`"))
        else:
            near = nearest(str(key), STAGES)
            hint = f"did you mean `{near}`?" if near else f"known: {', '.join(STAGES)}"
            faults.append(Fault((*path, key), f"unknown key; {hint}"))
    yield from faults


def read_criteria(written: Any, stage: Stage, path: JsonPath, faults: list[Fault]) -> Criteria | None:
    """The criteria of a stage; None, and the reasons added to `faults`, where something is wrong."""
    found: list[Fault] = []
    tree = _criteria_tree(written, path, found)
    promise = tree.get("promise", "")
    if isinstance(promise, str):
        promise = " ".join(promise.split()) or ROLE_PROMISE[stage]
        if set("<>") & set(promise) or len(promise) > LONGEST_PROMISE or not promise.isprintable():
            limit = f"without < and >, at most {LONGEST_PROMISE} characters"
            found.append(Fault((*path, "promise"), f"expected one line of printable text {limit}"))
    faults += found
    if found:
        return None
    form = msgspec.convert(tree, WrittenCriteria)
    return Criteria(
        promise=promise,
        description=form.description,
        verification=_verification(form.verification_config, form.verification_method),
        max_iterations=form.max_iterations,
    )


def canonical(completion: Mapping[str, Any]) -> dict[str, Json]:
    """A valid `completion` in the form that Ralph writes: camelCase keys, seconds, only what is set."""
    whole = {}
    for stage, written in completion.items():
        tree = _criteria_tree(written, (), [])
        if kept := {key: value for key, value in tree.items() if value is not None and value != {}}:
            whole[stage] = kept
    return whole


def part_verification(part: Part) -> Verification:
    """The verification of a part whose criteria were read without faults."""
    return _verification(part.config, part.method)


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


def _criteria_tree(written: Any, path: JsonPath, faults: list[Fault]) -> Tree:
    if not isinstance(written, dict):
        faults.append(Fault(path, "expected keys and values, such as `promise: DONE`"))
        return {}
    tree = _read(written, WrittenCriteria, path, faults)
    config, method = tree.get("verificationConfig", {}), tree.get("verificationMethod", "string_match")
    if config and "verificationMethod" not in tree:
        faults.append(Fault(path, "`verificationMethod` is missing"))
    elif isinstance(method, str) and method in KINDS and isinstance(config, dict):
        key = next((key for key in written if camel(key) == "verificationConfig"), "verificationConfig")
        tree["verificationConfig"] = _config_tree(config, method, (*path, key), faults)
    return tree


def _config_tree(config: Json, method: str, path: JsonPath, faults: list[Fault], *, depth: int = 1) -> Tree:
    """The settings of a verification in the one form, those of its parts too."""
    if depth > DEEPEST_NESTING:
        faults.append(Fault(path, f"is nested more than {DEEPEST_NESTING} deep"))
        return {}
    if method == "string_match" and config:
        faults.append(Fault(path, "`string_match` takes no settings: it looks for the promise alone"))
        return {}
    found: list[Fault] = []
    one_or_more = ("checkFor", "negativePatterns")
    lists = {
        key: [item] if isinstance(item, str) and camel(key) in one_or_more else item for key, item in config.items()
    }
    tree = _read(lists, KINDS[method], path, found)
    tree = {key: int(item) if isinstance(item, float) and item.is_integer() else item for key, item in tree.items()}
    if not found:
        found += _rules(_verification(tree, method), path)
    for index, part in enumerate(tree.get("stages", ()) if method == "multi_stage" else ()):
        if (inner := part.get("config", {})) or part.get("method") in ("external", "semantic", "multi_stage"):
            place = (*path, "stages", index, "config")
            if part.get("method") in KINDS and isinstance(inner, dict):
                part["config"] = _config_tree(inner, part["method"], place, found, depth=depth + 1)
    faults += found
    return tree


def _verification(config: Json, method: str) -> Verification:
    """The verification in a configuration without faults."""
    return cast("Verification", msgspec.convert(config, KINDS[method]))


def _rules(verification: Verification, path: JsonPath) -> Iterator[Fault]:
    match verification:
        case External(command=command, working_dir=folder):
            if not command.strip():
                yield Fault((*path, "command"), "must not be empty")
            if "\0" in command + folder:
                yield Fault((*path, "command"), "must not hold a NUL character")
            where = PurePosixPath(folder)
            if where.is_absolute() or ".." in where.parts or not folder.strip():
                yield Fault((*path, "workingDir"), "must be a folder of the repository, from its root")
        case Semantic(check_for=wanted, negative_patterns=unwanted):
            if not wanted and not unwanted:
                yield Fault(path, "`checkFor` or `negativePatterns` is needed")
            for key, texts in (("checkFor", wanted), ("negativePatterns", unwanted)):
                yield from (
                    Fault((*path, key, at), "must not be empty") for at, text in enumerate(texts) if not text.strip()
                )
        case MultiStage(stages=parts):
            yield from _part_rules(parts, (*path, "stages"))


def _part_rules(parts: tuple[Part, ...], path: JsonPath) -> Iterator[Fault]:
    if not parts:
        yield Fault(path, "at least one stage is needed")
    names: set[str] = set()
    for index, part in enumerate(parts):
        if not part.name.strip() or part.name in names:
            yield Fault((*path, index, "name"), "each stage needs a name of its own")
        elif len(part.name) > LONGEST_PART_NAME or not part.name.isprintable():
            limit = f"at most {LONGEST_PART_NAME} characters"
            yield Fault((*path, index, "name"), f"expected one line of printable text, {limit}")
        if unknown := [name for name in part.needs if name not in names]:
            yield Fault((*path, index, "needs"), f"'{escaped(unknown[0])}' is the name of no earlier stage")
        names.add(part.name)


# Overrides


def override_faults(overrides: Any, path: JsonPath) -> Iterator[Fault]:
    """Everything wrong with a task's `overrides`."""
    faults: list[Fault] = []
    tree = _read(_of_this_edition(overrides), Overrides, path, faults)
    yield from faults
    if faults:
        return
    yield from stage_faults(tree.get("stages", ()), (*path, "stages"), may_be_empty=True)
    yield from pattern_faults(tree.get("stopCriteria", {}), (*path, "stopCriteria"))
    if "\0" in tree.get("executor", ""):
        yield Fault((*path, "executor"), "must not hold a NUL character")


def pattern_faults(stop_criteria: Tree, path: JsonPath) -> Iterator[Fault]:
    """What is wrong with the regular expressions of stop criteria, as `read_struct` gives them."""
    for key in ("successRegex", "blockedRegex"):
        if (text := stop_criteria.get(key)) and (problem := problem_with_pattern(text)):
            yield Fault((*path, key), problem)


def stage_faults(stages: Sequence[str], path: JsonPath, *, may_be_empty: bool = False) -> Iterator[Fault]:
    """What is wrong with an order of stages: each at most once, in the order coder, reviewer, tester, qa."""
    if not stages and not may_be_empty:
        yield Fault(path, "at least one stage is needed")
    places = [STAGES.index(cast("Stage", stage)) for stage in stages]
    if any(following <= place for place, following in itertools.pairwise(places)):
        yield Fault(path, f"each stage once, in the order {', '.join(STAGES)}")


def task_in_one_form(task: Task) -> Task:
    """A task whose criteria and overrides are valid, with them in the form that Ralph writes."""
    overrides = _read(_of_this_edition(task.overrides), Overrides, (), [])
    return msgspec.structs.replace(task, completion=canonical(task.completion), overrides=overrides)


def _of_this_edition(overrides: Any) -> Any:
    """The overrides with `maxIterations` among the limits: in the first edition it stood beside them."""
    if not isinstance(overrides, dict) or not {"maxIterations", "max_iterations"} & overrides.keys():
        return overrides
    rest = {key: value for key, value in overrides.items() if camel(key) != "maxIterations"}
    most = overrides.get("maxIterations", overrides.get("max_iterations"))
    limits = rest.get("limits", {})
    return {**rest, "limits": {"maxIterations": most, **limits}} if isinstance(limits, dict) else overrides


def _read(value: Any, struct: type[Settings], path: JsonPath, faults: list[Fault]) -> Tree:
    """Like `read_struct`, without the `+` that adds to the lists of other files: criteria stand in one file alone."""
    before = len(faults)
    tree = read_struct(value, struct, path, faults)
    if len(faults) == before:
        try:
            msgspec.convert(tree, struct)
        except msgspec.ValidationError as error:
            place, message = explained(error, struct)
            faults.append(Fault((*path, *place), message))
    return tree
