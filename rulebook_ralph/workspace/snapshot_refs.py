"""The refs of snapshots, `refs/ralph/<project>/tasks/<task>/<number>`: how they are named, and which there are."""

import re

from rulebook_ralph.core.identifiers import ITERATION_NUMBER
from rulebook_ralph.workspace.repository import Repository

_NUMBERED = re.compile(f".+/{ITERATION_NUMBER}", re.DOTALL)


def snapshot_reference(project: str, task_id: str, number: int) -> str:
    """Where an attempt is saved. Below `tasks/`, so that a task may be named `state`."""
    return f"refs/ralph/{project}/tasks/{task_id}/{number}"


def snapshot_references(repository: Repository, project: str) -> dict[str, str]:
    """Every snapshot of the project: the ref's name -> its object."""
    listing = repository.git.text("for-each-ref", "--format=%(objectname) %(refname)", f"refs/ralph/{project}/tasks")
    pairs = (line.split(" ", 1) for line in listing.splitlines())
    return {name: commit for commit, name in pairs if _NUMBERED.fullmatch(name)}


def number_and_task(reference: str) -> tuple[int, str]:
    """What a snapshot's ref says: the iteration's number and the task's id."""
    *_, task_id, number = reference.split("/")
    return int(number), task_id


def highest_number(repository: Repository, project: str) -> int:
    """The highest iteration number that a snapshot's ref carries; 0 where there is none."""
    return max((number_and_task(name)[0] for name in snapshot_references(repository, project)), default=0)
