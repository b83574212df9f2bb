"""Snapshots of a long history, and the saved state, less what was removed."""

from collections.abc import Collection, Mapping

from rulebook_ralph.core.model import STATE_FOLDER
from rulebook_ralph.workspace.repository import Repository

_HISTORY = f"{STATE_FOLDER}/history"


def forget(repository: Repository, references: Mapping[str, str]) -> None:
    """Delete refs that are still what they were, all or none. Raises GitError."""
    if references:
        orders = b"".join(f"delete {name}\0{commit}\0".encode() for name, commit in references.items())
        repository.git.raw("update-ref", "-z", "--stdin", stdin=orders)


def forget_in_saved_state(repository: Repository, reference: str, numbers: Collection[int]) -> bool:
    """Take iteration files out of the saved state, where it has any; whether it had. Raises GitError."""
    before = repository.commit_of(reference)
    if before is None:
        return False
    saved = repository.git.raw("ls-tree", "-r", "-z", "--name-only", before, "--", f"{_HISTORY}/").split(b"\0")
    gone = {f"{_HISTORY}/iteration-{number}.json".encode() for number in numbers}
    names = [name for name in saved if name in gone]
    if not names:
        return False
    index = repository.private / "prune-index"
    index.parent.mkdir(parents=True, exist_ok=True)
    index.unlink(missing_ok=True)
    try:
        repository.git.raw("read-tree", before, index=index)
        removals = b"".join(b"0 %s\t%s\0" % (b"0" * len(before), name) for name in names)
        repository.git.raw("update-index", "-z", "--index-info", index=index, stdin=removals)
        tree = repository.git.raw("write-tree", index=index).decode().strip()
    finally:
        index.unlink(missing_ok=True)
    said = repository.git.text("log", "-1", "--format=%s", before, "--")  # it may tell of an open iteration
    commit = repository.git.text("commit-tree", "-p", before, "-m", said, tree)
    repository.git.raw("update-ref", reference, commit, before)
    return True
