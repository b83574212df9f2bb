"""Bringing work to the user's branch: a commit, the branch by compare-and-swap, and the user's tree as a pull does.

Where the branch is checked out, git's two-way merge moves index and files from the old commit to the new one, under
the index's own lock, and leaves alone whatever the user changed. Where that is in the way nothing is done at all.
Every step can be done again after a kill.
"""

import os
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rulebook_ralph.errors import RalphError
from rulebook_ralph.git.capture import TIME_LIMIT
from rulebook_ralph.git.command import Conversation, EndedError
from rulebook_ralph.git.in_the_way import InTheWayError, NotAdvanced, look_around
from rulebook_ralph.git.objects import Entry, sync
from rulebook_ralph.git.repository import GitError, Repository, read_plain, within_state
from rulebook_ralph.git.trees import Change, changes, folders_of
from rulebook_ralph.process.tree import own_start, started_at

__all__ = ["NotAdvanced", "advance", "commit_tree"]

_SIGNING_TIMEOUT = 60.0
_LOCK_SECONDS = 5.0
"""Seconds that another git command's lock of the index is waited for."""
_MOST_SYNCED = 200
"""Files; of more, all that is unwritten is written through at once."""
_LOCK_HELD = 3.0
"""Seconds for which no git command holds the lock of a ref."""
_LOCK_MARK = "ralph is moving the index"
_HELD_BY = {
    "rebase-merge/head-name": "a rebase",
    "rebase-merge/update-refs": "a rebase",
    "rebase-apply/head-name": "a rebase",
    "BISECT_START": "a bisect",
}
"""Files in a git folder that name branches which come back, or move, when that ends."""
_IN_PROGRESS = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "rebase-apply/applying": "git am",
}


def require_committer(repository: Repository) -> bool:
    """Git's identity and signing, tried out; returns whether commits are to be signed. Raises RalphError."""
    try:
        for name in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"):
            repository.run("var", name)
    except GitError:
        who = "git config user.name 'Your Name' && git config user.email you@example.com"
        raise RalphError(f"git does not know who commits; run: {who}") from None
    signs = repository.answer("config", "--type=bool", "--get", "commit.gpgSign") == "true"
    try:
        if signs:
            commit_tree(repository, repository.tree_of("HEAD"), (), "ralph: can this be signed?\n", sign=True)
    except GitError as error:
        why = error.stderr.partition("\n")[0]
        told = f"commits are to be signed (commit.gpgSign), but signing fails: {why}"
        raise RalphError(f"{told}; unlock the key or turn it off") from None
    return signs


def commit_tree(repository: Repository, tree: str, parents: Sequence[str], message: str, *, sign: bool) -> str:
    """A commit of exactly that tree, by the user. Raises GitError."""
    command = (
        "commit-tree",
        tree,
        *(word for parent in parents for word in ("-p", parent)),
        *(("-S",) if sign else ()),
    )
    told, timeout = message.encode("utf-8", "surrogateescape"), _SIGNING_TIMEOUT if sign else None
    return os.fsdecode(repository.run(*command, stdin=told, timeout=timeout, terminal=sign)).strip()


def advance(repository: Repository, branch: str, new: str, old: str, *, reason: str = "ralph") -> NotAdvanced | None:
    """Move the branch from `old` to `new`, and the user's tree with it where that is checked out; or say why not.

    To be done again after a kill with the same commits: what was done by then is recognised. Raises GitError.
    """
    clear_up(repository)
    tip = repository.tip(branch)
    if tip == new:
        _following(repository).unlink(missing_ok=True)
        return None
    if tip != old:
        return NotAdvanced("it was moved by somebody else" if tip else "it is gone")
    try:
        if _is_checked_out(repository, branch):
            with _index_lock(repository) as index:
                _follow(repository, index, branch, new, old, reason=reason)
        else:
            with _moving(repository, branch, new, old, reason):
                pass
    except InTheWayError as error:
        return error.waiting
    return None


def clear_locks(repository: Repository, branch: str) -> None:
    """Remove the locks that a git command left which was killed, of the branch and of Ralph's own refs.

    A living one holds such a lock for an instant, so a younger one is waited for.
    """
    common = repository.common_dir
    locks = {common / f"refs/heads/{branch}.lock", common / "packed-refs.lock", repository.git_dir / "HEAD.lock"}
    for lock in (*locks, *(common / "refs/ralph").rglob("*.lock")):
        with suppress(OSError):
            while (age := time.time() - lock.stat().st_mtime) < _LOCK_HELD:
                time.sleep(min(max(_LOCK_HELD - age, 0.0), 0.1))
            lock.unlink()


def clear_up(repository: Repository) -> None:
    """Remove the lock that a killed Ralph left, and its note where the landing had come to its end."""
    lock, note = repository.git_dir / "index.lock", _following(repository)
    said = read_plain(lock).decode("utf-8", "replace")
    if said.startswith(_LOCK_MARK):
        holder = re.search(r": (\d+) (\d+)$", said.strip())
        if holder and started_at(int(holder[1])) == int(holder[2]):
            return
        lock.unlink(missing_ok=True)
    (repository.private / "index.lock").unlink(missing_ok=True)
    new = read_plain(note).decode("ascii", "replace").strip().rpartition(" ")[2]
    if note.exists() and (not repository.objects.is_id(new) or new == repository.head()):
        note.unlink(missing_ok=True)


# Who has the branch


def _is_checked_out(repository: Repository, branch: str) -> bool:
    """Whether the branch is checked out here. Raises InTheWayError where something or somebody else has it."""
    for folder in (repository.common_dir, *sorted((repository.common_dir / "worktrees").glob("*"))):
        for name, what in _HELD_BY.items():
            named = os.fsdecode(read_plain(folder / name)).splitlines()
            if branch in (line.strip().removeprefix("refs/heads/") for line in named):
                raise InTheWayError(f"{what} of it is in progress; end it or give it up")
    if repository.branch() == branch:
        for name, what in _IN_PROGRESS.items():
            if (repository.git_dir / name).exists():
                raise InTheWayError(f"{what} is in progress on it; end it or give it up")
        return True
    if there := repository.elsewhere(branch):
        raise InTheWayError(f"it is checked out in another work tree, {there}")
    return False


# The index


@contextmanager
def _index_lock(repository: Repository) -> Iterator[Path]:
    """Hold git's lock of the user's index; gives a copy of the index to work on. Raises InTheWayError."""
    lock, ends = repository.git_dir / "index.lock", time.monotonic() + _LOCK_SECONDS
    repository.private.mkdir(parents=True, exist_ok=True)
    own = repository.private / "index.lock"
    own.write_text(f"{_LOCK_MARK}: {os.getpid()} {own_start()}\n", "ascii")
    sync(own)  # after a power cut, too, it is to say whose it is
    while True:
        try:
            lock.hardlink_to(own)  # it says whose it is from the first moment
            break
        except FileExistsError:
            if time.monotonic() > ends:
                raise InTheWayError(f"another git command has locked the index ({lock})") from None
            time.sleep(0.02)
    try:
        index = repository.private / "landing-index"
        for path in (index, index.with_name(f"{index.name}.lock")):
            path.unlink(missing_ok=True)
        if (repository.git_dir / "index").exists():
            shutil.copy2(repository.git_dir / "index", index)
        yield index
    finally:
        for path in (lock, own):
            path.unlink(missing_ok=True)


def _following(repository: Repository) -> Path:
    """The note that files are being written; it names the commits."""
    return repository.private / "following"


def _follow(repository: Repository, index: Path, branch: str, new: str, old: str, *, reason: str) -> None:
    every = changes(repository, old, new)
    work = [each for each in every if not within_state(each.path)]
    note, mark = _following(repository), f"{old} {new}\n".encode()
    same, torn = look_around(repository, index, work, was_begun=read_plain(note) == mark)
    _enter(repository, index, [*(each for each in every if within_state(each.path)), *same])
    with _moving(repository, branch, new, old, reason):
        note.write_bytes(mark)
        sync(note)
        for each in torn:
            (repository.root / each.path).unlink()
        bring_files(repository, new, old, index=index)
        if same:
            refresh(repository, index=index)
        _sync_tree(repository.root, [each.path for each in work])
        sync(index)
        index.replace(repository.git_dir / "index")
        sync(repository.git_dir)
    note.unlink(missing_ok=True)


def bring_files(repository: Repository, new: str, old: str, *, index: Path | None = None) -> None:
    """Bring index and files from one tree or commit to another. Raises InTheWayError where edits stand in the way."""
    order = ("read-tree", "-m", "-u", "--no-recurse-submodules", old, new)
    try:
        try:
            repository.run(*order, index=index, timeout=TIME_LIMIT)
        except GitError:  # what is as it was may have another time
            refresh(repository, index=index)
            repository.run(*order, index=index, timeout=TIME_LIMIT)
    except GitError as error:
        said = error.stderr.splitlines() or ["git gave no reason"]
        files = [line.strip() for line in said if line.startswith("\t")]
        raise InTheWayError(f"git cannot bring the tree along: {said[0][:200]}", files) from None


def refresh(repository: Repository, *, index: Path | None = None) -> None:
    """Have the index know the files that are as it says, whatever their times."""
    with suppress(GitError):  # where something differs
        repository.run("update-index", "-q", "--ignore-submodules", "--refresh", index=index, timeout=TIME_LIMIT)


def _enter(repository: Repository, index: Path, wanted: Sequence[Change]) -> None:
    """Have the index hold the new versions of those paths, without touching their files."""
    if wanted:
        ordered = sorted(wanted, key=lambda each: each.after is not None)
        named = ((each.path, each.after or Entry("0", "0" * repository.hash_length)) for each in ordered)
        told = b"".join(os.fsencode(f"{entry.mode} {entry.oid}\t{path}\0") for path, entry in named)
        repository.run("update-index", "--add", "--replace", "-z", "--index-info", stdin=told, index=index)


@contextmanager
def _moving(repository: Repository, branch: str, new: str, old: str, reason: str) -> Iterator[None]:
    """Hold the branch's own lock, with `old` found in it, and move it at the end. If Ralph dies, git lets go."""
    git = Conversation(("update-ref", "-m", reason, "--stdin"), repository.root, repository.environment)
    try:
        with git.asked(os.fsencode(f"start\nupdate refs/heads/{branch} {new} {old}\nprepare\n")):
            git.line(), git.line()
            yield
            git.say(b"commit\n")
            git.line()
    except EndedError:
        if repository.tip(branch) != old:
            raise InTheWayError("it was moved by somebody else") from None
        raise GitError(("update-ref",), 128, git.last_words) from None
    finally:
        git.stop()


def _sync_tree(root: Path, paths: Sequence[str]) -> None:
    """Have what git wrote and removed outlive a power cut: the index that says that all is as committed does."""
    if len(paths) > _MOST_SYNCED:
        os.sync()
        return
    for path in {*paths, *folders_of(paths), "."}:
        with suppress(OSError):  # it was removed, or is a link
            sync(root / path, os.O_NONBLOCK | os.O_NOFOLLOW)
