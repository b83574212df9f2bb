"""Files that a person declared to be out of bounds."""

from collections.abc import Iterable, Iterator, Sequence

from rulebook_ralph.checks.integrity.globs import Globs
from rulebook_ralph.checks.integrity.objection import Objection
from rulebook_ralph.core.diff import FileDiff

_DONE = {"A": "added", "M": "changed", "D": "deleted", "R": "renamed"}


def protected_files(diff: Iterable[FileDiff], protect: Sequence[str]) -> Iterator[Objection]:
    """Changed files that a `protect` glob matches, by their old name or their new one."""
    if not protect:
        return
    globs = Globs(protect)
    for file in diff:
        if file.old_path is not None and file.old_path != file.path and globs.match(file.old_path):
            yield Objection(file.old_path, None, f"is protected, and was renamed to {file.path}")
        elif globs.match(file.path):
            yield Objection(file.path, None, f"is protected, and was {_DONE[file.kind]}")
