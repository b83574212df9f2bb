"""What the checks of integrity say of a change from some files to others, without git."""

from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from rulebook_ralph.checks.integrity.inspection import Inspection
from rulebook_ralph.core.diff import FileDiff, Line, Versions
from rulebook_ralph.core.evidence import ParsedIteration
from rulebook_ralph.core.model import Task
from rulebook_ralph.core.settings import VerificationStep
from rulebook_ralph.loop.evidence import Evidence, Gates
from rulebook_ralph.workspace.snapshot import Change
from tests.evidence import Attempt

Files = Mapping[str, str]

PYTEST = VerificationStep(name="tests", kind="test", command="python3 -m pytest -q")
SHELL = VerificationStep(name="tests", kind="test", command="sh check.sh")


def step(command: str, kind: str = "test", **values: Any) -> VerificationStep:
    return VerificationStep(name="tests", kind=kind, command=command, **values)  # type: ignore[arg-type]


def diff_of(before: Files, after: Files, moved: Mapping[str, str] | None = None) -> tuple[FileDiff, ...]:
    """The difference line by line; `moved` says which old names became which new ones."""
    moved = moved or {}
    found = []
    for path in sorted(before.keys() | after.keys()):
        if path in moved or (path in before and path in after and before[path] == after[path]):
            continue
        origin = next((old for old, new in moved.items() if new == path), path)
        old, new = before.get(origin, ""), after.get(path, "")
        added, removed = _lines(old, new)
        kind = "R" if origin != path else "M" if path in before and path in after else "A" if path in after else "D"
        found.append(FileDiff(kind, path, origin if origin in before else None, added, removed))  # type: ignore[arg-type]
    return tuple(found)


def _lines(old: str, new: str) -> tuple[tuple[Line, ...], tuple[Line, ...]]:
    a, b = old.splitlines(), new.splitlines()
    added: list[Line] = []
    removed: list[Line] = []
    for tag, start, end, to, until in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag != "equal":
            removed += [Line(number + 1, a[number]) for number in range(start, end)]
            added += [Line(number + 1, b[number]) for number in range(to, until)]
    return tuple(added), tuple(removed)


def versions_of(before: Files, after: Files) -> Callable[[Sequence[FileDiff]], dict[str, Versions]]:
    def versions(files: Sequence[FileDiff]) -> dict[str, Versions]:
        return {
            file.path: Versions(
                before.get(file.old_path) if file.old_path else None, after.get(file.path) if file.kind != "D" else None
            )
            for file in files
        }

    return versions


def folders_of(before: Files) -> Callable[[Sequence[str]], frozenset[str]]:
    return lambda paths: frozenset(path for path in paths if any(name.startswith(f"{path}/") for name in before))


def inspection(
    before: Files,
    after: Files,
    *,
    steps: Sequence[VerificationStep] = (PYTEST,),
    moved: Mapping[str, str] | None = None,
    red: frozenset[str] = frozenset(),
    allow: tuple[str, ...] = (),
    **task: Any,
) -> Inspection:
    about = {"title": "Do one", **task}
    return Inspection(
        Task(id="one", **about),
        diff_of(before, after, moved),
        versions_of(before, after),
        folders_of(before),
        tuple(steps),
        red,
        allow,
        lambda: tuple(before),
    )


def told(before: Files, after: Files, **values: Any) -> list[str]:
    """Everything that is objected to."""
    looked = inspection(before, after, **values)
    return [str(objection) for objection in (*looked.of_tests(), *looked.of_gates())]


def evidence(**values: Any) -> Evidence:
    """Of an attempt that claims nothing and changed nothing, where there are no gates."""
    nothing: dict[str, Any] = {"parsed": ParsedIteration(), "changes": (), "steps": (), "run_gates": Gates}
    return Attempt().evidence(**(nothing | values))


def changed(before: Files, after: Files, **values: Any) -> Evidence:
    """Evidence of an attempt that changed those files."""
    diff = diff_of(before, after)
    changes = tuple(Change(file.path, "M", is_gitlink=False) for file in diff)
    return evidence(
        changes=changes,
        **{
            "diff": lambda: diff,
            "versions": versions_of(before, after),
            "folders": folders_of(before),
            "files": lambda: tuple(before),
            **values,
        },
    )
