"""What a layer of configuration may say beyond the types of its structs, and the layer in one form.

The one form has camelCase keys, seconds as numbers, maps instead of the short forms, and the kind of every step.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rulebook_ralph.config.settings import Config, StepKind
from rulebook_ralph.tasks.criteria_reading import pattern_faults, stage_faults
from rulebook_ralph.tasks.struct_reading import Tree, camel, read_struct, values_in
from rulebook_ralph.tasks.text import Fault, JsonPath, escaped

GONE: Mapping[str, str] = {
    "defaults.summarizer": "completed tasks are summed up by the agent that did them",
    "verification.clean": "gates always run in clones of Ralph's own; `workspace` says what these need",
    "git.workspace": "agents always work in clones of Ralph's own",
    "parallel.all": "any tasks whose dependencies are completed may run at once; `parallel: 3` says how many",
    "limits.maxTaskCostUsd": "a task's own budget is `limits: {maxCostUsd: …}` in its `overrides`",
    "limits.maxTaskTokens": "a task's own limit is `limits: {maxTokens: …}` in its `overrides`",
    "limits.iterationTimeout": "time is limited by `limits.maxWallTime` (a task), `maxRunWallTime` and `idleTimeout`",
    "integrity.enabled": "use `integrity: {changed: allow, unproven: allow}`",
    "integrity.allow": "use `mayChange` of the task, or `integrity.changed`",
    "integrity.contradictions": "what an agent says beside its claim decides nothing",
    "review": "large changes are reviewed in parts that fit the reviewer",
    "ralph.enabled": "use `defaults: {maxIterations: 1}`",
    "ralph.defaultMaxIterations": "use `defaults.maxIterations`",
    **{f"ralph.agents.{role}.enabled": f"use `ralph.agents.{role}.maxIterations: 1`"
       for role in ("coder", "reviewer", "tester", "qa")},
}  # fmt: skip
"""Keys of the first edition, and what took their place."""
IS_GONE = "is gone: "
"""How the fault of such a key begins."""

_RUNNER = (
    r"\b(?:npm|pnpm|yarn|bun|deno|make|just|cargo|go|mix|dotnet|swift|gradlew?|mvnw?|rake|task|hatch|poe|pdm|bazel)"
    r"(?: +-\S+| +run| +task)* +"
)
_NAMES: Mapping[StepKind, str] = {
    "typecheck": r"types?|typecheck\w*|typing|mypy|pyright|tsc",
    "lint": r"\w*lint\w*|format\w*|fmt|style|ruff|flake8|clippy|vet",
    "build": r"build\w*|compil\w*|bundle",
    "test": r"tests?|testing|specs?|unit|e2e|pytest|unittest",
}
_COMMANDS: Mapping[StepKind, str] = {
    "test": rf"\b(?:pytest|py\.test|unittest|tox|nox|vitest|jest|mocha|ava|ctest|nextest|rspec|phpunit|run_?tests?)\b"
    rf"|{_RUNNER}tests?\b|\bmake +check\b|\bnode\b.* --test\b",
    "typecheck": rf"\b(?:mypy|(?:based)?pyright|tsc)\b|\bcargo +check\b|{_RUNNER}(?:types?|type-?check|check-types)\b",
    "lint": rf"\b(?:ruff|flake8|pylint|black|isort|eslint|clippy|prettier|golangci-lint|shellcheck|biome)\b"
    rf"|\bgo +vet\b|{_RUNNER}(?:lint|fmt|format)\b",
    "build": rf"{_RUNNER}build\b|\bcompileall\b",
}


def checked(value: Any) -> tuple[Tree, list[Fault]]:
    """The layer in one form, and everything wrong with it; the form may be used only when there are no faults."""
    faults: list[Fault] = []
    tree = read_struct(whole(value), Config, (), faults, layered=True)
    misshapen = {camel(str(fault.path[0])).removeprefix("+") if fault.path else "" for fault in faults}
    sound = {} if "" in misshapen else {key: tree[key] for key in tree if key.removeprefix("+") not in misshapen}
    faults = [*map(replaced, faults), *content_faults(sound)]
    if not faults:
        for step in (step for form in ("steps", "+steps") for step in tree.get("verification", {}).get(form, ())):
            step.setdefault("kind", kind_of(step["name"], step["command"]))
    return tree, faults


def replaced(fault: Fault) -> Fault:
    """The fault of a key that nobody knows; for one of the first edition, what took its place."""
    key = ".".join(camel(str(step)).removeprefix("+") for step in fault.path)
    return Fault(fault.path, f"{IS_GONE}{GONE[key]}") if key in GONE else fault


def whole(value: Any) -> Any:
    """The layer with `sandbox` and `parallel` as maps."""
    if not isinstance(value, dict):
        return value
    whole = dict(value)
    if isinstance(mode := value.get("sandbox"), str | bool):
        whole["sandbox"] = {"mode": {True: "auto", False: "off"}.get(mode, mode) if isinstance(mode, bool) else mode}
    if isinstance(workers := value.get("parallel"), int) and not isinstance(workers, bool):
        whole["parallel"] = {"workers": workers}
    return whole


def kind_of(name: str, command: str) -> StepKind:
    """What a step verifies: by the first telling word of its name, else by the tools that its command runs."""
    for word in re.findall(r"[a-z0-9]+", name.lower()):
        if kind := next((kind for kind, words in _NAMES.items() if re.fullmatch(words, word)), None):
            return kind
    return next((kind for kind, tools in _COMMANDS.items() if re.search(tools, command)), "other")


def content_faults(tree: Tree) -> Iterator[Fault]:
    """What types cannot tell: names used twice, fallbacks in a circle, the order of stages, bad patterns."""
    yield from pattern_faults(tree.get("stopCriteria", {}), ("stopCriteria",))
    for path, value in values_in(tree, ()):
        if isinstance(value, str) and "\0" in value:
            yield Fault(path, "must not hold a NUL character")
        if path[-1:] == ("stages",) and isinstance(value, (list, tuple)):
            yield from stage_faults(value, path)
        elif isinstance(value, (list, tuple)):
            yield from _item_faults([item for item in value if isinstance(item, dict)], path)


def _item_faults(items: Sequence[Tree], path: JsonPath) -> Iterator[Fault]:
    """Of a list of agents, models, steps or hooks: each has a name of its own, and no fallback leads back."""
    first_use: dict[str, int] = {}
    following = {item.get("id", ""): item.get("fallback", "") for item in items}
    for index, item in enumerate(items):
        for key in item:
            if key.startswith("+"):
                message = f"`+` adds to a list of the files before; there is none here, write `{key[1:]}`"
                yield Fault((*path, index, key), message)
        name = "id" if "id" in item else "name"
        before = first_use.setdefault(item[name], index)
        if before != index:
            used = f"{str(path[-1]).removeprefix('+')}[{before}]"
            yield Fault((*path, index, name), f"'{escaped(item[name])}' is used already by {used}")
        seen = [item[name]]
        while (after := following.get(seen[-1], "")) and after not in seen:
            seen.append(after)
        if after and after == item[name]:
            yield Fault((*path, index, "fallback"), f"leads back to itself: {escaped(' -> '.join([*seen, after]))}")
