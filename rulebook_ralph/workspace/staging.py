"""Staging path by path, for work that `git add` refuses as a whole because of one path in it.

Such are a file that a filter or an encoding rejects, a name that git forbids (`.GIT`, `git~1`), a repository without a
commit, a pipe in place of a file, two names that differ in case alone.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rulebook_ralph.workspace.git import GitError
from rulebook_ralph.workspace.repository import Repository

GITLINK = "160000"


@dataclass(frozen=True, slots=True)
class Staging:
    """Puts paths of the work tree into an index. `no_commit` stands for the commit of a repository that has none."""

    repository: Repository
    index: Path
    no_commit: str

    def stage(self, paths: Sequence[str]) -> None:
        """Make the index hold the paths as they stand; what no tree can hold is left out, and out of the tree."""
        if not paths:
            return
        with suppress(GitError):
            names = os.fsencode("\0".join(paths))
            self._git("update-index", "--add", "--remove", "--replace", "-z", "--stdin", stdin=names)
            return
        if len(paths) > 1:
            half = len(paths) // 2
            self.stage(paths[:half])
            self.stage(paths[half:])
            return
        with suppress(GitError, OSError):
            self._stage_as_it_is(paths[0])

    def _stage_as_it_is(self, path: str) -> None:
        """A repository without a commit as a link as if it had one, for the judge to see; a file without filters."""
        standing = self.repository.root / path
        if standing.is_dir() and not standing.is_symlink() and os.path.lexists(standing / ".git"):
            self._enter(GITLINK, self.no_commit, path)
        elif standing.is_file() and not standing.is_symlink():
            mode = standing.stat().st_mode
            if not os.access(standing, os.R_OK):
                standing.chmod(mode | 0o400)
            content = self._git("hash-object", "-w", "--no-filters", "--", path).decode().strip()
            self._enter("100755" if mode & 0o100 else "100644", content, path)
        else:
            self._git("update-index", "--force-remove", "--", path)

    def _enter(self, mode: str, name: str, path: str) -> None:
        self._git("update-index", "--add", "--replace", "--cacheinfo", f"{mode},{name},{path}")

    def _git(self, *arguments: str, stdin: bytes = b"") -> bytes:
        return self.repository.git.raw(*arguments, stdin=stdin, index=self.index)
