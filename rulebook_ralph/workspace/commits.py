"""Commits and refs that Ralph makes: snapshots, the saved state, and what lands on the branch."""

import functools
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from rulebook_ralph.core.identifiers import ITERATION_NUMBER
from rulebook_ralph.core.model import STATE_FOLDER
from rulebook_ralph.errors import RalphError
from rulebook_ralph.workspace.git import OPTIONS, GitError
from rulebook_ralph.workspace.repository import Repository

MAX_OUTPUT_BYTES = 32 * 1024 * 1024
_BLOCK = 1024 * 1024
_LARGE = 1024 * 1024
"""Bytes beyond which a file is stored by itself: an import compresses it twice, for a pack and for the loose object."""

_STATE_DEPTH = 3
_OPEN = re.compile(rf"ralph: state, iteration ({ITERATION_NUMBER}) is open")
_SIGNING_TIMEOUT = 60


def state_reference(project: str) -> str:
    """Where the state folder is saved: the base for restoring and merging."""
    return f"refs/ralph/{project}/state"


def state_references(repository: Repository) -> tuple[str, ...]:
    """The saved states that there are."""
    names = repository.git.text("for-each-ref", "--format=%(refname)", "refs/ralph").splitlines()
    return tuple(name for name in names if name.endswith("/state") and name.count("/") == _STATE_DEPTH)


def open_iterations(repository: Repository) -> dict[str, int]:
    """The saved states that there are: the ref's name -> the iteration whose agent began in the state folder when it
    was saved, 0 for none.
    """
    listing = repository.git.text("for-each-ref", "--format=%(refname) %(contents:subject)", "refs/ralph/*/state")
    pairs = (line.partition(" ") for line in listing.splitlines())
    return {name: int(found[1]) if (found := _OPEN.fullmatch(said)) else 0 for name, _, said in pairs}


class SigningError(GitError):
    """A commit could be made, but not signed."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Author and committer as git wants them in a commit, without the time."""

    author: str
    committer: str


def identity(repository: Repository) -> Identity:
    """Who commits. Raises RalphError where git has no name or address for it."""
    try:
        answers = [repository.git.text("var", name) for name in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT")]
    except GitError:
        raise RalphError(
            "git does not know who commits; run: git config user.name 'Your Name' && "
            "git config user.email you@example.com"
        ) from None
    author, committer = (answer.rsplit(" ", 2)[0] for answer in answers)
    return Identity(author, committer)


def signing_problem(repository: Repository) -> str | None:
    """Why a signed commit cannot be made here; None where all is well."""
    try:
        commit_tree(repository, repository.tree_of("HEAD"), "HEAD", "ralph: can this be signed?\n", sign=True)
    except SigningError as error:
        return error.stderr.splitlines()[0] if error.stderr else "signing failed"
    return None


def wants_signing(repository: Repository) -> bool:
    """Whether commits are to be signed (commit.gpgSign)."""
    return repository.git.answer("config", "--type=bool", "--get", "commit.gpgSign") == "true"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An attempt to be saved: the tree, and beside it the prompt and the raw output, which `clean` frees of secrets."""

    reference: str
    tree: str
    base: str
    prompt: str
    output_file: Path
    clean: Callable[[Iterable[bytes]], Iterable[bytes]]
    message: str
    kept_tips: Sequence[str] = ()


def save_snapshot(repository: Repository, who: Identity, snapshot: Snapshot, *, seconds: int) -> str:
    """Save an attempt under its ref; returns the commit.

    Its tree is the attempt's and its first parent the base, so `git diff` and `git checkout` work on it as they are.
    Its second parent holds `prompt.md` and `output.log`, and keeps the agent's own commits reachable, but for those
    whose messages tell a secret.
    """

    def lines() -> Iterator[bytes]:
        prompt = snapshot.prompt.encode("utf-8", "surrogateescape")
        yield from _commit_head(snapshot.reference, 1, who, seconds, b"prompt and output of an attempt")
        for tip in _commits_among(repository, snapshot.kept_tips):
            if _tells_a_secret(repository, snapshot, tip):
                continue
            yield f"merge {tip}\n".encode()
        yield b"M 100644 inline prompt.md\n" + _data(prompt)
        if snapshot.output_file.exists():
            with tempfile.TemporaryFile(dir=repository.private) as cleaned:
                cleaned.writelines(snapshot.clean(_head_and_tail(snapshot.output_file)))
                yield b"M 100644 inline output.log\ndata %d\n" % cleaned.tell()
                cleaned.seek(0)
                yield from iter(functools.partial(cleaned.read, _BLOCK), b"")
                yield b"\n"
        message = snapshot.message.encode("utf-8", "replace")
        yield from _commit_head(snapshot.reference, 2, who, seconds, message, start=snapshot.base)
        yield b"merge :1\n"
        yield f'M 040000 {snapshot.tree} ""\n'.encode()

    return _import(repository, lines(), mark=2)


def _tells_a_secret(repository: Repository, snapshot: Snapshot, tip: str) -> bool:
    """Whether a commit of the agent's own says one in its words; a ref would keep them for good."""
    said = repository.git.raw("log", "--format=%an%n%ae%n%B", tip, "--not", snapshot.base, "--")
    return b"".join(snapshot.clean([said])) != said


def _commits_among(repository: Repository, names: Sequence[str]) -> list[str]:
    """The commits that those names of objects, trees and absent ones among them, stand for."""
    if not names:
        return []
    questions = "".join(f"{name}^{{commit}}\n" for name in names).encode()
    answers = repository.git.text("cat-file", "--batch-check=%(objectname)", stdin=questions).splitlines()
    return sorted({answer for answer in answers if " " not in answer})


def save_state(
    repository: Repository,
    who: Identity,
    reference: str,
    files: Mapping[str, bytes],
    *,
    parent: str | None,
    seconds: int,
    opened: int = 0,
) -> str:
    """Add changed files of the state folder (path within it -> content) to the saved state; returns the commit.

    `opened` is the iteration whose agent begins now (`open_iterations`).
    """
    message = f"ralph: state, iteration {opened} is open" if opened else "ralph: state"
    stored = {name: _stored(repository, content) for name, content in files.items() if len(content) > _LARGE}

    def lines() -> Iterator[bytes]:
        yield from _commit_head(reference, 1, who, seconds, message.encode(), start=parent)
        for name, content in files.items():
            if name in stored:
                yield f"M 100644 {stored[name]} {STATE_FOLDER}/{name}\n".encode()
            else:
                yield f"M 100644 inline {STATE_FOLDER}/{name}\n".encode() + _data(content)

    return _import(repository, lines(), mark=1)


def _stored(repository: Repository, content: bytes) -> str:
    """The object of that content. Raises RalphError."""
    try:
        return repository.git.text("hash-object", "-w", "--stdin", stdin=content)
    except GitError as error:
        raise _not_saved(repository, error.stderr) from None


def saved_state(repository: Repository, reference: str) -> dict[str, bytes]:
    """The files of the saved state: path within the state folder -> content."""
    listing = repository.git.raw("ls-tree", "-r", "-z", "--name-only", reference, f"{STATE_FOLDER}/")
    names = [os.fsdecode(name) for name in listing.split(b"\0") if name]
    return {
        name.removeprefix(f"{STATE_FOLDER}/"): repository.git.raw("cat-file", "blob", f"{reference}:{name}")
        for name in names
    }


def blobs_of_state(repository: Repository, reference: str) -> dict[str, str]:
    """The files of the saved state: path within the state folder -> object id; nothing where no state is saved."""
    try:
        listing = repository.git.raw("ls-tree", "-r", "-z", reference, f"{STATE_FOLDER}/")
    except GitError:
        return {}
    entries = (os.fsdecode(entry).split("\t", 1) for entry in listing.split(b"\0") if entry)
    return {name.removeprefix(f"{STATE_FOLDER}/"): described.split()[2] for described, name in entries}


def blobs_of_files(repository: Repository, names: Sequence[str]) -> dict[str, str]:
    """The object ids that those files of the state folder would have; they must be plain ones."""
    paths = "".join(f"{STATE_FOLDER}/{name}\n" for name in names)
    found = repository.git.text("hash-object", "--no-filters", "--stdin-paths", stdin=os.fsencode(paths)).split()
    return dict(zip(names, found, strict=True))


def commit_tree(repository: Repository, tree: str, parent: str, message: str, *, sign: bool) -> str:
    """A commit of exactly that tree. Raises GitError; SigningError where it cannot be signed."""
    command, told = ("commit-tree", "-p", parent, tree), message.encode("utf-8", "surrogateescape")
    if not sign:
        return repository.git.raw(*command, stdin=told).decode("ascii").strip()
    try:
        output = repository.git.raw(*command, "-S", stdin=told, timeout=_SIGNING_TIMEOUT)
    except GitError as error:
        repository.git.raw(*command, stdin=told)  # where this fails too, it was not for the signature
        raise SigningError(repository.root, command, error.code, error.stderr) from None
    return output.decode("ascii").strip()


def move_branch(
    repository: Repository, branch: str, new: str, old: str, *, reason: str, saved: str | None = None
) -> None:
    """Compare-and-swap of the branch; raises GitError where it is not at `old` any more.

    `saved` names the ref of the saved state, to be moved to `new` with it.
    """
    orders = f"update refs/heads/{branch} {new} {old}\n" + (f"update {saved} {new}\n" if saved else "")
    repository.git.raw("update-ref", "-m", reason, "--stdin", stdin=orders.encode())


def file_of_snapshot(repository: Repository, snapshot: str, name: str) -> bytes:
    """`prompt.md` or `output.log` of a snapshot. Raises GitError where the snapshot is gone."""
    return repository.git.raw("cat-file", "blob", f"{snapshot}^2:{name}")


def file_of_state(repository: Repository, reference: str, name: str) -> bytes | None:
    """One file of the saved state, or None."""
    try:
        return repository.git.raw("cat-file", "blob", f"{reference}:{STATE_FOLDER}/{name}")
    except GitError:
        return None


def _commit_head(
    reference: str, mark: int, who: Identity, seconds: int, message: bytes, *, start: str | None = None
) -> Iterator[bytes]:
    if start is None:
        yield f"reset {reference}\n".encode()
    yield f"commit {reference}\nmark :{mark}\n".encode()
    for role, person in (("author", who.author), ("committer", who.committer)):
        yield f"{role} {person} {seconds} +0000\n".encode("utf-8", "surrogateescape")
    yield _data(message)
    if start is not None:
        yield f"from {start}\n".encode()


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
    """Feed a stream to `git fast-import`, block by block; returns the commit of that mark. Raises RalphError."""
    private = repository.private
    private.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.NamedTemporaryFile(dir=private, prefix="marks-") as marks,
        tempfile.TemporaryFile(dir=private) as problems,
    ):
        process = subprocess.Popen(
            ["git", *OPTIONS, "fast-import", "--quiet", "--force", f"--export-marks={marks.name}"],
            cwd=repository.root,
            env=dict(repository.git.environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=problems,
            process_group=0,
        )
        with process, suppress(BrokenPipeError):  # git's own words say why
            for line in lines:
                cast("IO[bytes]", process.stdin).write(line)
        if process.returncode != 0:
            problems.seek(0)
            raise _not_saved(repository, problems.read().decode("utf-8", "replace"))
        found = dict(line.split() for line in Path(marks.name).read_text("ascii").splitlines())
        return found[f":{mark}"]


def _not_saved(repository: Repository, stderr: str) -> RalphError:
    told = stderr.strip().splitlines() or ["it gave no reason"]
    where = repository.common_folder
    return RalphError(f"git could not save to {where}: {told[0][:300]}; mend that, then give the command again")
