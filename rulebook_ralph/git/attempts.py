"""What Ralph keeps under `refs/ralph/<project>`: each attempt as a commit, and the saved state of the task list."""

import functools
import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rulebook_ralph.errors import RalphError
from rulebook_ralph.git.landing import SigningError, commit_tree
from rulebook_ralph.git.repository import GitError, Repository
from rulebook_ralph.git.trees import with_entries
from rulebook_ralph.tasks.model import ITERATION_NUMBER, STATE_FOLDER

MAX_OUTPUT_BYTES = 32 * 1024 * 1024
"""Bytes of an agent's raw output that are kept."""

_WHO = "ralph <ralph@localhost>"
_BLOCK = 1024 * 1024
_NUMBERED = re.compile(f".+/{ITERATION_NUMBER}", re.DOTALL)
_STATE_DEPTH = 3


def state_reference(project: str) -> str:
    """Where the state folder is saved: the base for recovery and for merging a person's edits."""
    return f"refs/ralph/{project}/state"


def attempt_reference(project: str, task_id: str, number: int) -> str:
    """Where an attempt is saved. Below `tasks/`, so that a task may be named `state`."""
    return f"refs/ralph/{project}/tasks/{task_id}/{number}"


# Who commits


def require_identity(repository: Repository) -> None:
    """Raises RalphError where git has no name or address for commits."""
    try:
        for name in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"):
            repository.run("var", name)
    except GitError:
        raise RalphError(
            "git does not know who commits; run: git config user.name 'Your Name' && "
            "git config user.email you@example.com"
        ) from None


def wants_signing(repository: Repository) -> bool:
    """Whether commits are to be signed (commit.gpgSign)."""
    return repository.answer("config", "--type=bool", "--get", "commit.gpgSign") == "true"


def signing_problem(repository: Repository) -> str | None:
    """Why a signed commit cannot be made here; None where all is well."""
    try:
        tree, parents = repository.tree_of("HEAD"), ("HEAD",)
        commit_tree(repository, tree, parents, "ralph: can this be signed?\n", sign=True)
    except SigningError as error:
        return error.stderr.splitlines()[0] if error.stderr else "signing failed"
    return None


# Attempts


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt to be saved: its tree, the commit it is a change of, the prompt, and the raw output, which `clean`
    frees of secrets.
    """

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

    def lines() -> Iterator[bytes]:
        yield from _head(attempt.reference, 1, seconds, "prompt and output of an attempt")
        yield b"M 100644 inline prompt.md\n" + _data(attempt.prompt.encode("utf-8", "surrogateescape"))
        if attempt.output_file.exists():
            with tempfile.TemporaryFile() as cleaned:
                cleaned.writelines(attempt.clean(_head_and_tail(attempt.output_file)))
                yield b"M 100644 inline output.log\ndata %d\n" % cleaned.tell()
                cleaned.seek(0)
                yield from iter(functools.partial(cleaned.read, _BLOCK), b"")
                yield b"\n"
        yield from _head(attempt.reference, 2, seconds, attempt.message, parent=attempt.base)
        yield f'merge :1\nM 040000 {attempt.tree} ""\n'.encode()

    return _import(repository, lines(), mark=2)


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
    """Add files of the state folder (path within it -> content) to the saved state; returns the commit. Raises
    RalphError.
    """

    def lines() -> Iterator[bytes]:
        yield from _head(reference, 1, seconds, message, parent=parent)
        for name, content in files.items():
            yield os.fsencode(f"M 100644 inline {STATE_FOLDER}/{name}\n") + _data(content)

    return _import(repository, lines(), mark=1)


def state_references(repository: Repository) -> tuple[str, ...]:
    """The saved states that there are."""
    names = repository.text("for-each-ref", "--format=%(refname)", "refs/ralph").splitlines()
    return tuple(name for name in names if name.endswith("/state") and name.count("/") == _STATE_DEPTH)


def names_of_state(repository: Repository, reference: str) -> tuple[str, ...]:
    """The files of a saved state, as paths within the state folder. Raises GitError."""
    listing = repository.run("ls-tree", "-r", "-z", "--name-only", reference, "--", f"{STATE_FOLDER}/")
    return tuple(os.fsdecode(name).removeprefix(f"{STATE_FOLDER}/") for name in listing.split(b"\0") if name)


def files_of_state(repository: Repository, reference: str, names: Sequence[str]) -> dict[str, bytes]:
    """Those files of a saved state that are in it."""
    found = ((name, file_of_state(repository, reference, name)) for name in names)
    return {name: content for name, content in found if content is not None}


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
    gone = [name for name in names_of_state(repository, before) if name in names] if before else []
    if not before or not gone:
        return False
    entries = [(f"{STATE_FOLDER}/{name}", None) for name in gone]
    tree = with_entries(repository, repository.tree_of(before), entries)
    message = repository.text("log", "-1", "--format=%B", before, "--")
    commit = commit_tree(repository, tree, (before,), f"{message}\n", sign=False)
    repository.run("update-ref", reference, commit, before)
    return True


def store(repository: Repository, content: bytes) -> str:
    """The object of that content, unchanged by any filter. Raises GitError."""
    return repository.text("hash-object", "-w", "--no-filters", "--stdin", stdin=content)


# git fast-import


def _head(reference: str, mark: int, seconds: int, message: str, *, parent: str | None = None) -> Iterator[bytes]:
    if parent is None:
        yield os.fsencode(f"reset {reference}\n")
    yield os.fsencode(f"commit {reference}\nmark :{mark}\ncommitter {_WHO} {seconds} +0000\n")
    yield _data(message.encode("utf-8", "replace"))
    if parent is not None:
        yield f"from {parent}\n".encode()


def _data(content: bytes) -> bytes:
    return b"data %d\n%b\n" % (len(content), content)


def _head_and_tail(path: Path) -> Iterator[bytes]:
    """A file in blocks; of one beyond the limit, its head and tail."""
    size = path.stat().st_size
    half = MAX_OUTPUT_BYTES // 2
    with path.open("rb") as file:
        if size <= MAX_OUTPUT_BYTES:
            yield from iter(functools.partial(file.read, _BLOCK), b"")
            return
        for _ in range(half // _BLOCK):
            yield file.read(_BLOCK)
        yield b"\n[ralph: %d bytes left out here]\n" % (size - 2 * half)
        file.seek(size - half)
        yield from iter(functools.partial(file.read, _BLOCK), b"")


def _import(repository: Repository, lines: Iterator[bytes], *, mark: int) -> str:
    """Have git write what a stream says; returns the commit of that mark. Raises RalphError."""
    repository.private.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=repository.private, prefix=f"marks-{os.getpid()}-") as marks:
        try:
            repository.run("fast-import", "--quiet", "--force", f"--export-marks={marks.name}", lines=lines)
        except GitError as error:
            told = error.stderr.splitlines() or ["it gave no reason"]
            where = repository.common_dir
            raise RalphError(f"git could not save to {where}: {told[0][:300]}; mend that, then run again") from None
        found = dict(line.split() for line in Path(marks.name).read_text("ascii").splitlines())
    return found[f":{mark}"]
