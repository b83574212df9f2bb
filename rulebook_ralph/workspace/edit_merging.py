"""A person's uncommitted edit of a text, merged with the version that takes the place of the one they edited."""

import hashlib
import os
import stat
from pathlib import Path

import msgspec

from rulebook_ralph.workspace.git import GitError
from rulebook_ralph.workspace.raw_files import contents, put
from rulebook_ralph.workspace.repository import Repository
from rulebook_ralph.workspace.restoring import Version
from rulebook_ralph.workspace.syncing import sync_file

_PLAIN, _EXECUTABLE = "100644", "100755"
_NAMES = ("mine", "before", "after")


class EditMerging:
    """Merges in the work tree of a repository, each once, though a crash be in the midst of them.

    What a merge begins with is noted before: lines that are alike could be merged twice without a conflict. `folder`
    keeps the notes, for one change of the tree that is called `name`.
    """

    def __init__(self, repository: Repository, folder: Path, name: str) -> None:
        self._repository = repository
        self._folder = folder
        self._notes = folder / f"merging-{name}"
        try:
            self._begun = msgspec.msgpack.decode(self._notes.read_bytes(), type=dict[bytes, bytes])
        except (OSError, msgspec.MsgspecError):
            self._begun = {}

    def merge(self, path: str, before: Version | None, after: Version | None) -> bool:
        """Merge what stands there, an edit of `before`, with `after`; whether that can be done. Raises OSError."""
        target = self._repository.root / path
        content, mode = contents([str(target)]).get(str(target), (b"", -1))
        if mode < 0 or before is None or after is None or not {before.mode, after.mode} <= {_PLAIN, _EXECUTABLE}:
            return False
        known, now = self._begun.get(os.fsencode(path)), hashlib.sha256(content).digest()
        if known is not None and known != now:  # it was merged, and perhaps edited since
            return True
        made = self._merged(content, self._written(path, before), self._written(path, after))
        wanted = _mode_of(mode, before, after)
        if made is not None and (made, wanted) != (content, mode):
            self._begun[os.fsencode(path)] = now
            put(self._notes, (msgspec.msgpack.encode(self._begun), 0o600))
            sync_file(self._folder)
            put(target, (made, wanted))
            sync_file(target.parent)
        return made is not None

    def _written(self, path: str, version: Version) -> bytes:
        """What git would write for a version of a file."""
        return self._repository.git.raw("cat-file", "--filters", f"--path={path}", version.name)

    def _merged(self, *contents_of: bytes) -> bytes | None:
        files = [self._folder / name for name in _NAMES]
        for file, content in zip(files, contents_of, strict=True):
            file.write_bytes(content)
        try:
            return self._repository.git.raw("merge-file", "-p", "-q", *map(str, files))
        except GitError:  # a conflict, or no text
            return None


def _mode_of(standing: int, before: Version, after: Version) -> int:
    """The permissions of a merged file: a change of the other version's counts, where the person made none."""
    if before.mode == after.mode or bool(standing & stat.S_IXUSR) != (before.mode == _EXECUTABLE):
        return standing
    return standing | (standing & 0o444) >> 2 if after.mode == _EXECUTABLE else standing & ~0o111
