"""Gates of a Node project: the scripts of its package.json, run by the package manager its lock file names."""

import re
from itertools import pairwise
from pathlib import Path

from rulebook_ralph.core.settings import StepKind, VerificationStep
from rulebook_ralph.sources.gates_found import Found, Table, json_of, step, table
from rulebook_ralph.sources.source import SourceProblem

_MANAGERS = (
    ("pnpm-lock.yaml", "pnpm"),
    ("yarn.lock", "yarn"),
    ("bun.lock", "bun"),
    ("bun.lockb", "bun"),
    ("package-lock.json", "npm"),
    ("npm-shrinkwrap.json", "npm"),
)
_SCRIPTS: tuple[tuple[StepKind, tuple[str, ...]], ...] = (
    ("test", ("test", "test:ci", "test:run", "test:unit")),
    ("lint", ("lint", "lint:check", "lint:ci")),
    ("typecheck", ("typecheck", "type-check", "types:check", "check-types", "check:types", "tsc")),
    ("build", ("build",)),
)
_PLACEHOLDER = "no test specified"
_WATCHES = re.compile(r"--watch(?:All)?(?:=(?!false$).*)?|-w")
_WORKSPACE_TOOLS = ("npm", "pnpm", "yarn", "bun")
_ONE_RUN = {"vitest": "--run", "ng": "--watch=false", "karma": "--single-run"}
_ENDING = frozenset(("run", "--run", "related", "bench", "list", "--watch=false", "--no-watch", "--single-run"))


def discover(root: Path) -> Found:
    """A step for each kind that a script is defined for. A script that watches would never end: it is passed over."""
    problems: list[SourceProblem] = []
    file = root / "package.json"
    manifest = json_of(file, problems)
    scripts = {
        name: command
        for name, command in table(manifest, "scripts").items()
        if isinstance(command, str) and command.strip() and _PLACEHOLDER not in command
    }
    manager = _manager(root, manifest)
    steps = [
        found
        for kind, names in _SCRIPTS
        if (found := _step(kind, {name: scripts[name] for name in names if name in scripts}, manager, file, problems))
    ]
    return Found(tuple(steps), tuple(problems))


def _step(
    kind: StepKind, scripts: dict[str, str], manager: str, file: Path, problems: list[SourceProblem]
) -> VerificationStep | None:
    """The step of the first of these scripts that ends by itself."""
    ending = [name for name, command in scripts.items() if not any(map(_watches, _commands(command)))]
    if not ending:
        if scripts:
            name = next(iter(scripts))
            message = f'the script "{name}" watches for changes and never ends: no {kind} step made of it'
            problems.append(SourceProblem(file, None, message))
        return None
    gentle = [name for name in ending if "--fix" not in scripts[name]]  # a gate should look, not change the tree
    name = (gentle or ending)[0]
    once = _to_run_once(_commands(scripts[name])[-1])
    dashes = "-- " if once and manager == "npm" else ""  # only npm needs, and only npm removes them
    return step(kind, f"{manager} run {name} {dashes}{once}".rstrip(), {"CI": "1"})


def _commands(script: str) -> list[list[str]]:
    """The words of each command of a script; what is appended to a script goes to its last one."""
    return [words for part in re.split(r"&&|\|\||[;|&]", script) if (words := part.split())] or [[]]


def _watches(words: list[str]) -> bool:
    if "nodemon" in words or any(
        pair in (["vitest", "watch"], ["vitest", "dev"]) for pair in map(list, pairwise(words))
    ):
        return True
    if words[:1] and words[0] in _WORKSPACE_TOOLS:  # their -w names a workspace
        words = [word for word in words if word != "-w"]
    return any(_WATCHES.fullmatch(word) for word in words)


def _to_run_once(words: list[str]) -> str:
    """What makes a command end that watches unless told otherwise; empty where nothing is needed."""
    tool = next((name for word in words if (name := word.rpartition("/")[2]) in _ONE_RUN), "")
    if not tool or not _ENDING.isdisjoint(words) or (tool == "ng" and "test" not in words):
        return ""
    return _ONE_RUN[tool]


def _manager(root: Path, manifest: Table) -> str:
    for lock, manager in _MANAGERS:
        if (root / lock).is_file():
            return manager
    named = str(manifest.get("packageManager", "")).partition("@")[0]
    return named if named in ("pnpm", "yarn", "bun") else "npm"
