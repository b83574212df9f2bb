"""Reading criteria and overrides that a person wrote: all faults with their places, and the form that Ralph writes.

They may stand in snake_case or camelCase and are kept as plain values in the task; here they become typed
(tasks/criteria.py).
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, cast

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
from rulebook_ralph.tasks.struct_reading import PositiveInt, Settings, Tree, camel, matching, read_struct, unknown_key
from rulebook_ralph.tasks.text import Fault, JsonPath, escaped

DEEPEST_NESTING = 5
Promise = Annotated[
    str,
    matching(
        r"^[^<>\x00-\x08\x0e-\x1f\x7f-\x9f]{0,200}$",
        "expected one line of text without < and >, at most 200 characters",
    ),
]
_ONE_OR_MORE = ("checkFor", "negativePatterns")
"""Lists for which a single text may stand."""


class WrittenCriteria(Settings, frozen=True, kw_only=True):
    """Criteria as they stand in a PRD."""

    promise: Promise = ""
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
            faults.append(Fault((*path, key), unknown_key(key, STAGES)))
    yield from faults


def read_criteria(written: Any, stage: Stage, path: JsonPath, faults: list[Fault]) -> Criteria | None:
    """The criteria of a stage; None, and the reasons added to `faults`, where something is wrong."""
    found: list[Fault] = []
    tree = _criteria_tree(written, path, found)
    faults += found
    if found:
        return None
    form = msgspec.convert(tree, WrittenCriteria)
    return Criteria(
        promise=" ".join(form.promise.split()) or ROLE_PROMISE[stage],
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


def required_commands(verification: Verification, step: str) -> Iterator[tuple[str, External]]:
    """The commands without which a verification that was read without faults fails, each with the step that it is
    known as.
    """
    if isinstance(verification, External):
        yield step, verification
    elif isinstance(verification, MultiStage):
        for part in verification.stages:
            if part.required:
                yield from required_commands(part.verification, f"{step}/{part.name}")


def _criteria_tree(written: Any, path: JsonPath, faults: list[Fault]) -> Tree:
    if not isinstance(written, dict):
        faults.append(Fault(path, "expected keys and values, such as `promise: DONE`"))
        return {}
    tree = read_struct(written, WrittenCriteria, path, faults)
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
    lists = {
        key: [item] if isinstance(item, str) and camel(key) in _ONE_OR_MORE else item for key, item in config.items()
    }
    tree = read_struct(lists, KINDS[method], path, found)
    tree = {key: int(item) if isinstance(item, float) and item.is_integer() else item for key, item in tree.items()}
    if not found:
        found += _rules(_verification(tree, method), path)
    for index, part in enumerate(tree.get("stages", ()) if method == "multi_stage" else ()):
        inner, kind = part.get("config", {}), part.get("method")
        if kind in KINDS and isinstance(inner, dict) and (inner or kind != "string_match"):
            place = (*path, "stages", index, "config")
            part["config"] = _config_tree(inner, kind, place, found, depth=depth + 1)
    faults += found
    return tree


def _verification(config: Json, method: str) -> Verification:
    """The verification in a configuration without faults."""
    return cast("Verification", msgspec.convert(config, KINDS[method]))


def _rules(verification: Verification, path: JsonPath) -> Iterator[Fault]:
    """What types cannot tell."""
    match verification:
        case Semantic(check_for=(), negative_patterns=()):
            yield Fault(path, "`checkFor` or `negativePatterns` is needed")
        case MultiStage(stages=parts):
            yield from _part_rules(parts, (*path, "stages"))


def _part_rules(parts: tuple[Part, ...], path: JsonPath) -> Iterator[Fault]:
    if not parts:
        yield Fault(path, "at least one stage is needed")
    names: set[str] = set()
    for index, part in enumerate(parts):
        if part.name in names:
            yield Fault((*path, index, "name"), "each stage needs a name of its own")
        if unknown := [name for name in part.needs if name not in names]:
            yield Fault((*path, index, "needs"), f"'{escaped(unknown[0])}' is the name of no earlier stage")
        names.add(part.name)


# Overrides


def override_faults(overrides: Any, path: JsonPath) -> Iterator[Fault]:
    """Everything wrong with a task's `overrides`."""
    faults: list[Fault] = []
    tree = read_struct(_of_this_edition(overrides), Overrides, path, faults)
    yield from faults
    if not faults:
        yield from stage_faults(tree.get("stages", ()), (*path, "stages"), may_be_empty=True)
        yield from pattern_faults(tree.get("stopCriteria", {}), (*path, "stopCriteria"))


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
    overrides = read_struct(_of_this_edition(task.overrides), Overrides, (), [])
    return msgspec.structs.replace(task, completion=canonical(task.completion), overrides=overrides)


def _of_this_edition(overrides: Any) -> Any:
    """The overrides with `maxIterations` among the limits: in the first edition it stood beside them."""
    if not isinstance(overrides, dict) or not {"maxIterations", "max_iterations"} & overrides.keys():
        return overrides
    rest = {key: value for key, value in overrides.items() if camel(key) != "maxIterations"}
    most = overrides.get("maxIterations", overrides.get("max_iterations"))
    limits = rest.get("limits", {})
    return {**rest, "limits": {"maxIterations": most, **limits}} if isinstance(limits, dict) else overrides
