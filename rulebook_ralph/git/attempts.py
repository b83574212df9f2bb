"""What Ralph keeps under `refs/ralph/<project>`: each attempt as a commit, and the saved state of the task list."""

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rulebook_ralph.errors import RalphError
from rulebook_ralph.git.landing import commit_tree
from rulebook_ralph.git.objects import Entry
from rulebook_ralph.git.repository import GitError, Repository
from rulebook_ralph.git.trees import tree_with, with_entries
from rulebook_ralph.tasks.model import ITERATION_NUMBER, STATE_FOLDER

MAX_OUTPUT_BYTES = 16 * 1024 * 1024
"""Bytes of an agent's raw output that are kept."""

_BLOCK = 1024 * 1024
_WHO = "ralph <ralph@localhost>"
_NUMBERED = re.compile(f".+/{ITERATION_NUMBER}", re.DOTALL)


def state_reference(project: str) -> str:
    """Where the state folder is saved: the base for recovery and for merging a person's edits."""
    return f"refs/ralph/{project}/state"


def candidate_reference(project: str) -> str:
    """The commit that was judged complete last: nothing else holds it before it lands."""
    return f"refs/ralph/{project}/candidate"


def attempt_reference(project: str, task_id: str, number: int) -> str:
    """Where an attempt is saved. Below `tasks/`, so that a task may be named `state`."""
    return f"refs/ralph/{project}/tasks/{task_id}/{number}"


# Attempts


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt to be saved: a tree that is a change of `base`, and the raw output, which `clean` frees of secrets."""

    reference: str
    tree: str
    base: str
    prompt: str
    output_file: Path
    clean: Callable[[Iterable[bytes]], Iterable[bytes]]
    message: str


def save_attempt(repository: Repository, attempt: Attempt, *, seconds: int) -> str:
    """Save an attempt under its ref; returns the commit. Raises RalphError.

    Its tree is the attempt's and its first parent the base, so `git diff` and `git checkout` work on it as they are.
    Its second parent holds `prompt.md` and `output.log`.
    """
    new = repository.objects.new()
    entries = {"prompt.md": Entry("100644", new.add("blob", attempt.prompt.encode("utf-8", "surrogateescape")))}
    if attempt.output_file.exists():
        output = b"".join(attempt.clean(_head_and_tail(attempt.output_file)))
        entries["output.log"] = Entry("100644", new.add("blob", output))
    try:
        beside = new.commit(new.tree(entries), (), "prompt and output of an attempt", who=_WHO, seconds=seconds)
        commit = new.commit(attempt.tree, (attempt.base, beside), attempt.message, who=_WHO, seconds=seconds)
        repository.objects.save(new, attempt.reference, commit)
    except GitError as error:
        raise _unsaved(repository, error) from None
    return commit


def attempts_of(repository: Repository, project: str) -> dict[str, str]:
    """Every attempt of the project: the ref's name -> its commit."""
    listing = repository.text("for-each-ref", "--format=%(objectname) %(refname)", f"refs/ralph/{project}/tasks")
    pairs = (line.split(" ", 1) for line in listing.splitlines())
    return {name: commit for commit, name in pairs if _NUMBERED.fullmatch(name)}


def number_and_task(reference: str) -> tuple[int, str]:
    """What an attempt's ref says: the iteration's number and the task's id."""
    *_, task_id, number = reference.split("/")
    return int(number), task_id


def highest_number(repository: Repository, project: str) -> int:
    """The highest iteration number that an attempt's ref carries; 0 where there is none."""
    return max((number_and_task(name)[0] for name in attempts_of(repository, project)), default=0)


def forget_attempts(repository: Repository, references: Mapping[str, str]) -> None:
    """Delete refs that are still what they were, all or none. Raises GitError."""
    if references:
        orders = b"".join(os.fsencode(f"delete {name}\0{commit}\0") for name, commit in references.items())
        repository.run("update-ref", "-z", "--stdin", stdin=orders)


# The saved state


def save_state(
    repository: Repository,
    reference: str,
    files: Mapping[str, bytes],
    *,
    parent: str | None,
    message: str,
    seconds: int,
) -> str:
    """Add files of the state folder (path within it -> content); returns the commit. Raises RalphError."""
    objects, new = repository.objects, repository.objects.new()
    entries = [(f"{STATE_FOLDER}/{name}", Entry("100644", new.add("blob", data))) for name, data in files.items()]
    try:
        before = repository.tree_of(parent) if parent else None
        tree = tree_with(objects, before, entries, new)
        commit = new.commit(tree, (parent,) if parent else (), message, who=_WHO, seconds=seconds)
        objects.save(new, reference, commit)
    except GitError as error:
        raise _unsaved(repository, error) from None
    return commit


def _unsaved(repository: Repository, error: GitError) -> RalphError:
    why = (error.stderr.splitlines() or ["it gave no reason"])[0][:300]
    return RalphError(f"git could not save to {repository.common_dir}: {why}; mend that, then run again")


def state_references(repository: Repository) -> tuple[str, ...]:
    """The saved states that there are."""
    return tuple(repository.text("for-each-ref", "--format=%(refname)", "refs/ralph/*/state").splitlines())


def entries_of_state(repository: Repository, revision: str) -> dict[str, Entry]:
    """The files of a commit's state folder, by their paths within it. Raises GitError."""
    folder = repository.entry(revision, STATE_FOLDER)
    return repository.entries(folder.oid) if folder else {}


def file_of_state(repository: Repository, reference: str, name: str) -> bytes | None:
    """One file of a saved state, or None."""
    return repository.file_of(reference, f"{STATE_FOLDER}/{name}")


def state_with_message(repository: Repository, reference: str, line: str) -> str | None:
    """The newest save whose message has that line, or None."""
    asked = ("log", "-1", "--format=%H", "--first-parent", "--fixed-strings", f"--grep={line}", reference, "--")
    return repository.text(*asked) or None


def forget_in_state(repository: Repository, reference: str, names: Collection[str]) -> bool:
    """Take files out of the saved state, where it has any of them; whether it had. Raises GitError."""
    before = repository.commit_of(reference)
    gone = [name for name in entries_of_state(repository, before) if name in names] if before else []
    if not before or not gone:
        return False
    entries = [(f"{STATE_FOLDER}/{name}", None) for name in gone]
    tree = with_entries(repository, repository.tree_of(before), entries)
    message = repository.text("log", "-1", "--format=%B", before, "--")
    commit = commit_tree(repository, tree, (before,), f"{message}\n", sign=False)
    repository.objects.move(reference, commit, before)
    return True


def _head_and_tail(path: Path) -> Iterator[bytes]:
    """A file in blocks; of one beyond the limit, its head and tail."""
    half, left_out = MAX_OUTPUT_BYTES // 2, path.stat().st_size - MAX_OUTPUT_BYTES
    with path.open("rb") as file:
        while file.tell() < half and (block := file.read(_BLOCK)):
            yield block
        if left_out > 0:
            yield b"\n[ralph: %d bytes left out here]\n" % left_out
            file.seek(-half, os.SEEK_END)
        yield from iter(partial(file.read, _BLOCK), b"")
