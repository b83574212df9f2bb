"""Removing old iterations, in an order in which a crash leaves a valid state and `ralph prune` can be given again.

First the iteration files, then the commit and the saved state without them, the snapshots last: of all of it only they
cannot be had again from git.
"""

import shutil
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rulebook_ralph.core.model import Prd
from rulebook_ralph.core.pruning import superfluous
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.loop import prd_file
from rulebook_ralph.loop.landing import Landing
from rulebook_ralph.loop.project import Project
from rulebook_ralph.state import pruning as files
from rulebook_ralph.workspace import commits
from rulebook_ralph.workspace import pruning as snapshots
from rulebook_ralph.workspace.git import GitError
from rulebook_ralph.workspace.snapshot_refs import number_and_task, snapshot_references


@dataclass(frozen=True, slots=True)
class Pruning:
    """What goes and what stays. `numbers` are the iterations that go, of which `files` have a file of `bytes` together
    and `references` are the snapshots; `held` are the folders with what Ralph put back during them.
    """

    numbers: tuple[int, ...]
    files: tuple[int, ...]
    bytes: int
    references: Mapping[str, str]
    held: tuple[Path, ...]
    kept_files: int
    kept_snapshots: int


def plan(project: Project, prd: Prd, *, keep: int) -> Pruning:
    """What would be removed; touches nothing. Raises RalphError."""
    past = files.look_over(project.folder)
    references = snapshot_references(project.repository, prd.project)
    tasks_of: dict[int, set[str]] = defaultdict(set)
    for reference in references:
        number, task_id = number_and_task(reference)
        tasks_of[number].add(task_id)
    gone = superfluous(past, tasks_of, prd.tasks, keep=keep)
    going = tuple(sorted(gone & past.keys()))
    forgotten = {name: commit for name, commit in references.items() if number_and_task(name)[0] in gone}
    return Pruning(
        numbers=tuple(sorted(gone)),
        files=going,
        bytes=files.size(project.folder, going),
        references=forgotten,
        held=_held(project, past.keys() | tasks_of.keys(), gone),
        kept_files=len(past) - len(going),
        kept_snapshots=len(references) - len(forgotten),
    )


def require_whole_state(project: Project, prd: Prd) -> None:
    """Raises RalphError while facts of the last run wait in the saved state alone: a state commit would lose them."""
    if prd_file.waiting(project.repository, prd) is not None:
        raise RalphError(
            f"{project.folder.prd} could not be read by the last run, whose results are still to be merged into it; "
            "run 'ralph resume' first"
        )


def carry_out(project: Project, prd: Prd, planned: Pruning, landing: Landing | None, *, with_held: bool) -> None:
    """Remove what was planned; without a `landing` the state is not committed. The project's lock must be held.

    Raises RalphError; giving the command again does the rest.
    """
    repository = project.repository
    files.remove(project.folder, planned.files)
    try:
        if landing is not None:
            landing.commit_state(prd.work_branch, "ralph: prune the history")
        snapshots.forget_in_saved_state(repository, commits.state_reference(prd.project), planned.numbers)
        snapshots.forget(repository, planned.references)
    except GitError as error:
        raise RalphError(
            f"not all was removed: {error}; mend the repository {project.root}, then give the command again",
            exit_code=ExitCode.UNEXPECTED,
        ) from error
    for folder in planned.held if with_held else ():
        shutil.rmtree(folder, ignore_errors=True)


def _held(project: Project, known: set[int], gone: frozenset[int]) -> tuple[Path, ...]:
    """Folders of iterations that go, or went with an earlier `ralph prune`."""
    prefix, oldest = "iteration-", min(known - gone, default=0)
    found = []
    for folder in (project.repository.private / "held").glob(f"{prefix}*"):
        number = folder.name.removeprefix(prefix).removesuffix(".base")
        is_gone = number.isdecimal() and (int(number) in gone or (int(number) not in known and int(number) < oldest))
        if is_gone and folder.is_dir() and not folder.is_symlink():
            found.append(folder)
    return tuple(sorted(found))
