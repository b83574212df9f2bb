"""One task folder of a rulebook: its files read and made one value. Raises for a folder that cannot be taken whole."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import msgspec

from rulebook_ralph.core.model import Complexity, Task
from rulebook_ralph.sources import rulebook_checklist, rulebook_metadata, rulebook_proposal, rulebook_spec
from rulebook_ralph.sources.rulebook_metadata import Metadata, Reference
from rulebook_ralph.sources.source import DONE_BEFORE, SourceProblem
from rulebook_ralph.sources.text_file import UnreadableError, read_text, read_text_if_there, refuse_link_out

PROPOSAL = "proposal.md"
CHECKLIST = rulebook_checklist.FILE_NAME
MARKS = (PROPOSAL, CHECKLIST)
"""The files by which a folder is known as a task's."""
METADATA = ".metadata.json"
DESIGN = "design.md"
SPECS = "specs"


@dataclass(frozen=True, slots=True)
class TaskFolder:
    """A task as its own folder tells it; priority and dependencies need the other tasks."""

    task: Task
    phase: int | None
    blocked_by: tuple[Reference, ...]
    blocks: tuple[Reference, ...]
    problems: tuple[SourceProblem, ...]


def read(folder: Path, *, within: Path, root: Path) -> TaskFolder:
    """Read a task folder. `within` is what no link may lead out of; paths in the task are relative to `root`.

    Raises UnreadableError for the first file that cannot be taken: a task with half its criteria would look finished
    too early.
    """
    refuse_link_out(folder, within=within)
    proposal_text = read_text_if_there(folder / PROPOSAL, within=within)
    checklist_text = read_text_if_there(folder / CHECKLIST, within=within)
    spec_files = list(_spec_files(folder / SPECS, within=within))
    if proposal_text is None and checklist_text is None and not spec_files:
        raise UnreadableError(folder, None, f"has no {PROPOSAL}, no {CHECKLIST} and no {SPECS}: it is not a task")
    proposal = rulebook_proposal.read(proposal_text or "")
    checklist = rulebook_checklist.read(checklist_text or "")
    specs = [rulebook_spec.read(read_text(file, within=within)) for file in spec_files]
    metadata = _metadata(folder / METADATA, within=within)
    design = [folder / DESIGN] if read_text_if_there(folder / DESIGN, within=within) is not None else []

    criteria = tuple(dict.fromkeys([*checklist.items, *(line for spec in specs for line in spec.criteria)]))
    design_paths = [path_from(root, file) for file in design]
    spec_paths = [path_from(root, file) for file in spec_files]
    named = rulebook_proposal.named_files(
        [proposal_text or "", checklist_text or ""], lambda name: _is_file(root / name, within=root)
    )
    own = {file.relative_to(folder).as_posix(): path_from(root, file) for file in (*design, *spec_files)}
    files = dict.fromkeys([*design_paths, *spec_paths, *(own.get(name, name) for name in named)])
    task = Task(
        id=folder.name,
        title=rulebook_proposal.readable_title(
            proposal.title or rulebook_proposal.clean_title(checklist.title), folder.name
        ),
        description=_description(
            proposal.description or (checklist.prose if proposal_text is None else ""),
            design_paths,
            spec_paths,
            path_from(root, folder / CHECKLIST) if checklist.prose and proposal_text is not None else "",
        ),
        status="completed" if checklist.completed else "pending",
        acceptance_criteria=criteria,
        estimated_complexity=complexity(len(checklist.items) + sum(spec.requirements for spec in specs)),
        relevant_files=tuple(files)[: rulebook_proposal.MAX_FILES],
        source=path_from(root, folder),
        metadata=metadata.kept | (DONE_BEFORE if checklist.completed else {}),
    )
    return TaskFolder(
        task, rulebook_proposal.phase_of(folder.name), metadata.blocked_by, metadata.blocks, metadata.problems
    )


def complexity(size: int) -> Complexity:
    """How complex a task is taken to be: by the number of its leaf items and requirements together.

    Up to 3 low, up to 8 medium, up to 20 high, more very-high.
    """
    if size <= 3:  # noqa: PLR2004 - the rule stated above
        return "low"
    if size <= 8:  # noqa: PLR2004
        return "medium"
    return "high" if size <= 20 else "very-high"  # noqa: PLR2004


def path_from(root: Path, path: Path) -> str:
    """The path relative to `root`, with slashes; absolute where it lies outside."""
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()


def with_place(task: Task, *, priority: int, dependencies: tuple[str, ...]) -> Task:
    """The task with what only the whole list could tell."""
    return msgspec.structs.replace(task, priority=priority, dependencies=dependencies)


def _description(body: str, design: list[str], specs: list[str], notes: str) -> str:
    pointers = [f"Design: {path}" for path in design]
    if specs:
        pointers.append(f"Specs: {', '.join(specs)}")
    if notes:
        pointers.append(f"Notes beside the checklist: {notes}")
    return "\n\n".join(part for part in (body, "\n".join(pointers)) if part)


def _metadata(file: Path, *, within: Path) -> Metadata:
    text = read_text_if_there(file, within=within)
    return Metadata() if text is None else rulebook_metadata.read(file, text)


def _spec_files(folder: Path, *, within: Path) -> Iterator[Path]:
    """Every spec.md below `specs/`, sorted. A link to a folder is refused: what it holds may be endless."""
    if not os.path.lexists(folder):
        return
    refuse_link_out(folder, within=within)
    found: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=_refuse):
        for name in folders:
            if (Path(parent) / name).is_symlink():
                raise UnreadableError(Path(parent) / name, None, "is a link to a folder: copy the folder instead")
        found += [Path(parent) / name for name in names if name == "spec.md"]
    yield from sorted(found)


def _refuse(error: OSError) -> NoReturn:
    raise UnreadableError(Path(error.filename), None, f"cannot be read: {error.strerror}") from error


def _is_file(path: Path, *, within: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode) and path.resolve().is_relative_to(within.resolve())
    except (OSError, RuntimeError, ValueError):
        return False
