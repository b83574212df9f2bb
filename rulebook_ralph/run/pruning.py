"""Removing old iterations, in an order in which a crash leaves a valid state and `ralph prune` can be given again.

First the iteration files, then the saved state without them, the attempts last: of all of it only they cannot be had
again from git.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.git import attempts
from rulebook_ralph.git.repository import GitError
from rulebook_ralph.run.project import Project
from rulebook_ralph.tasks import history
from rulebook_ralph.tasks.disk import StateFolder
from rulebook_ralph.tasks.history import Iteration
from rulebook_ralph.tasks.model import Prd


@dataclass(frozen=True, slots=True)
class Pruning:
    """What goes and what stays. `numbers` are the iterations that go, of which `files` have a file, of `size` bytes
    together, and `references` are the attempts.
    """

    numbers: tuple[int, ...]
    files: tuple[int, ...]
    size: int
    references: Mapping[str, str]
    kept_files: int
    kept_attempts: int


def plan(project: Project, prd: Prd, *, keep: int) -> Pruning:
    """What would be removed; touches nothing. Raises RalphError.

    What stays are the newest `keep` (at least 1) of files and of attempts, so that no number is used twice; all of
    tasks that are not completed, with the iterations they name; and what is not settled or unreadable.
    """
    folder = project.folder
    records = {number: _read(folder, number) for number in history.numbers(folder)}
    references = attempts.attempts_of(project.repository, prd.project)
    made = {name: attempts.number_and_task(name) for name in references}
    numbers = {number for number, _ in made.values()}
    going_on = [task for task in prd.tasks if task.status != "completed"]
    open_ids = {task.id for task in going_on}
    stay = {number for each in (records, numbers) for number in sorted(each)[-max(1, keep) :]}
    stay |= {number for task in going_on for number in (task.settled_iteration, task.iteration_number) if number}
    stay |= {number for number, task_id in made.values() if task_id in open_ids}
    stay |= {number for number, record in records.items() if not _is_over(record, open_ids)}
    gone = (records.keys() | numbers) - stay
    files = tuple(sorted(gone & records.keys()))
    forgotten = {name: commit for name, commit in references.items() if made[name][0] in gone}
    return Pruning(
        numbers=tuple(sorted(gone)),
        files=files,
        size=sum(folder.iteration(number).stat().st_size for number in files),
        references=forgotten,
        kept_files=len(records) - len(files),
        kept_attempts=len(references) - len(forgotten),
    )


def carry_out(project: Project, prd: Prd, planned: Pruning) -> None:
    """Remove what was planned. The project's lock must be held. Raises RalphError; once more does the rest."""
    repository = project.repository
    try:
        for number in planned.files:
            project.folder.iteration(number).unlink(missing_ok=True)
        names = [history.name_of(number) for number in planned.numbers]
        attempts.forget_in_state(repository, attempts.state_reference(prd.project), names)
        attempts.forget_attempts(repository, planned.references)
    except (GitError, OSError) as error:
        raise RalphError(
            f"not all was removed: {error}; mend that in {project.root}, then give the command again",
            exit_code=ExitCode.UNEXPECTED,
        ) from error


def _read(folder: StateFolder, number: int) -> Iteration | None:
    with suppress(RalphError):
        return history.read(folder, number)
    return None


def _is_over(record: Iteration | None, open_ids: set[str]) -> bool:
    return record is not None and record.phase == "settled" and open_ids.isdisjoint(record.tasks)
