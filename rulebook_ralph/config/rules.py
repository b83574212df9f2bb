"""What a layer of configuration may say beyond the types of its structs, and the layer in one form.

The one form has camelCase keys, seconds as numbers, maps instead of the short forms, and the kind of every step.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from rulebook_ralph.config.settings import Config, StepKind
from rulebook_ralph.tasks.criteria_reading import pattern_faults, stage_faults
from rulebook_ralph.tasks.struct_reading import Tree, camel, read_struct
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
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
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


_NAMED: Mapping[str, tuple[str, ...]] = {
    "tools.executors": ("id", "name", "command"),
    "tools.planners": ("id", "name"),
    "tools.reviewers": ("id", "name"),
    "verification.steps": ("name",),
    "hooks": ("name",),
}
"""Lists of items with names of their own: the key of the name, and what else may be an empty text in them."""


def checked(value: Any) -> tuple[Tree, list[Fault]]:
    """The layer in one form, and everything wrong with it; the form may be used only when there are no faults."""
    faults: list[Fault] = []
    tree = read_struct(whole(_without_gone(value, (), faults)), Config, (), faults)
    misshapen = {camel(str(path[0])).removeprefix("+") if (path := fault.path) else "" for fault in faults}
    sound = {} if "" in misshapen else {key: tree[key] for key in tree if key.removeprefix("+") not in misshapen}
    faults += [Fault(as_written(value, fault.path), fault.message) for fault in content_faults(sound)]
    if not faults:
        for step in (step for form in ("steps", "+steps") for step in tree.get("verification", {}).get(form, ())):
            step.setdefault("kind", kind_of(step["name"], step["command"]))
    return tree, faults


def as_written(value: Any, path: JsonPath) -> JsonPath:
    """A path of the one form as the keys stand in the file, in snake_case or camelCase."""
    written: list[str | int] = []
    for step in path:
        if isinstance(value, dict) and isinstance(step, str):
            if step not in value:
                step = next((key for key in value if camel(key) == step), step)  # noqa: PLW2901 - respelled
            value = value.get(step)
        else:
            value = value[step] if isinstance(value, (list, tuple)) and isinstance(step, int) else None
        written.append(step)
    return tuple(written)


def kind_of(name: str, command: str) -> StepKind:
    """What a step verifies: by the first telling word of its name, else by the tools that its command runs."""
    for word in re.findall(r"[a-z0-9]+", name.lower()):
        if kind := next((kind for kind, words in _NAMES.items() if re.fullmatch(words, word)), None):
            return kind
    return next((kind for kind, tools in _COMMANDS.items() if re.search(tools, command)), "other")


def content_faults(tree: Tree) -> Iterator[Fault]:
    """What types cannot tell: names used twice, empty commands, folders outside the repository, bad patterns."""
    yield from pattern_faults(tree.get("stopCriteria", {}), ("stopCriteria",))
    if "\0" in tree.get("workspace", {}).get("setup", ""):
        yield Fault(("workspace", "setup"), "must not hold a NUL character")
    for path, items in _lists(tree, ()):
        key = ".".join(path).replace("+", "")
        if key in _NAMED:
            yield from _named_faults(items, path, *_NAMED[key])
        if key in ("protect", "checks"):
            yield from _glob_faults(items, path)
        elif key in ("workspace.copy", "workspace.link"):
            yield from _path_faults(items, path)
        elif key == "tools.executors":
            yield from _fallback_faults(items, path)
        elif key == "stages":
            yield from stage_faults(items, path)


def _lists(tree: Tree, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _lists(dict(value), (*path, key))
        elif isinstance(value, (list, tuple)):
            yield (*path, key), list(value)


def _path_faults(paths: Sequence[str], place: JsonPath) -> Iterator[Fault]:
    for index, path in enumerate(paths):
        if not PurePosixPath(path).parts or not _is_within(path):
            message = f"must be a path within the repository, from its root, got '{escaped(path)}'"
            yield Fault((*place, index), message)


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


def _without_gone(value: Any, path: JsonPath, faults: list[Fault]) -> Any:
    """The layer without keys of the first edition, which are faults."""
    if not isinstance(value, dict):
        return value
    kept = {}
    for key, item in value.items():
        here = (*path, key)
        dotted = ".".join(camel(str(step)).removeprefix("+") for step in here)
        if dotted in GONE:
            faults.append(Fault(here, f"{IS_GONE}{GONE[dotted]}"))
        elif dotted == "git.stateCommit" and item == "separate":
            faults.append(Fault(here, f"{IS_GONE}write `end` (once, at the end of a run) or `task`"))
        else:
            kept[key] = _without_gone(item, here, faults)
    return kept


def _is_within(path: str) -> bool:
    """Whether a path stays in the repository, as far as its text tells."""
    pure = PurePosixPath(path)
    return bool(path.strip()) and "\0" not in path and not pure.is_absolute() and ".." not in pure.parts


def _named_faults(items: Sequence[Tree], path: JsonPath, key: str, *may_be_empty: str) -> Iterator[Fault]:
    first_use: dict[str, int] = {}
    for index, item in enumerate(items):
        yield from _item_faults(item, (*path, index), may_be_empty)
        before = first_use.setdefault(item[key], index)
        if before != index:
            used = f"{str(path[-1]).removeprefix('+')}[{before}]"
            yield Fault((*path, index, key), f"'{escaped(item[key])}' is used already by {used}")


def _fallback_faults(executors: Sequence[Tree], path: JsonPath) -> Iterator[Fault]:
    """Fallbacks that lead back to where they began: nobody would take over in the end."""
    following = {executor["id"]: executor.get("fallback", "") for executor in executors}
    for index, executor in enumerate(executors):
        seen, name = [executor["id"]], executor.get("fallback", "")
        while name and name not in seen:
            seen.append(name)
            name = following.get(name, "")
        if name == executor["id"]:
            yield Fault((*path, index, "fallback"), f"leads back to itself: {escaped(' -> '.join([*seen, name]))}")


def _glob_faults(globs: Sequence[str], path: JsonPath) -> Iterator[Fault]:
    for index, glob in enumerate(globs):
        if not glob.strip("/! ") or "\0" in glob or ".." in PurePosixPath(glob).parts:
            message = f"must be a glob of paths of the repository, as in a .gitignore, got '{escaped(glob)}'"
            yield Fault((*path, index), message)


def _item_faults(item: Tree, path: JsonPath, may_be_empty: Collection[str]) -> Iterator[Fault]:
    for key in item:
        if key.startswith("+"):
            yield Fault((*path, key), f"`+` adds to a list of the files before; there is none here, write `{key[1:]}`")
    for key in ("id", "type", "name", "command"):
        if key in item and not item[key].strip() and key not in may_be_empty:
            yield Fault((*path, key), "must not be empty")
    texts = {key: [value] for key, value in item.items() if isinstance(value, str)}
    texts |= {"args": item.get("args", []), "checks": item.get("checks", []), "env": [*item.get("env", {}).values()]}
    for key, values in texts.items():
        if any("\0" in value for value in values):
            yield Fault((*path, key), "must not hold a NUL character")
    if not _is_within(folder := item.get("workingDir", ".")):
        message = f"must be a folder of the repository, from its root, got '{escaped(folder)}'"
        yield Fault((*path, "workingDir"), message)
    for name in item.get("env", {}):
        if not _VARIABLE.fullmatch(name):
            yield Fault((*path, "env"), f"'{escaped(name)}' is no name of an environment variable")
    yield from _glob_faults(item.get("when", ()), (*path, "when"))
