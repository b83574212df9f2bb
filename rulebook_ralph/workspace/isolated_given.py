"""What a checkout is given of the user's tree beside what git holds: copies, and links that lead there."""

import hashlib
import os
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from rulebook_ralph.core.enumeration import some
from rulebook_ralph.errors import RalphError
from rulebook_ralph.workspace.clearing import is_below
from rulebook_ralph.workspace.isolated_files import files_below
from rulebook_ralph.workspace.repository import Repository, within_state


class SpoiltError(Exception):
    """What was to be copied is not any more what it was when the first copy was made."""


@dataclass(frozen=True, slots=True)
class Given:
    """Files to copy and paths to link, of the tree at `root`; `missing` is what was asked for and is not there.

    `named` are the copies as they were asked for, and `hidden` is what a sparse checkout leaves out. The digests are of
    what was copied first: later copies must be of the same.
    """

    root: Path
    copies: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    hidden: frozenset[str] = frozenset()
    digests: dict[str, bytes] = field(default_factory=dict)

    @property
    def paths(self) -> tuple[str, ...]:
        return (*self.copies, *self.links)

    def put(self, folder: Path, path: str) -> bool:
        """Put one of the paths into a checkout at `folder`; whether it was there. Raises SpoiltError, OSError."""
        source, target = self.root / path, folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if path in self.links:
            target.symlink_to(source)
            return True
        content = _copied(source, target)
        digest = hashlib.sha256(b"" if content is None else content).digest()
        if self.digests.setdefault(path, digest) != digest:
            raise SpoiltError(f"{path} (workspace.copy) was changed, in the checkout and in the user's tree")
        return content is not None


def find(repository: Repository, *, copy: Sequence[str], link: Sequence[str]) -> Given:
    """Look for what is configured. Raises RalphError for what git holds, GitError."""
    root = repository.root
    missing: list[str] = []
    named: list[str] = []
    for pattern in copy:
        found = [pattern] if os.path.lexists(root / pattern) else _matching(root, pattern)
        named += found
        missing += [] if found else [pattern]
    links = [path.rstrip("/") for path in link]
    missing += [path for path in links if not (root / path).exists()]
    links = [path for path in links if path not in missing]
    _refuse_tracked(repository, "copy", named)
    _refuse_tracked(repository, "link", links)
    copies = [each for path in dict.fromkeys(named) if not _is_outside(root, path) for each in files_below(root, path)]
    kept = [path for path in dict.fromkeys(copies) if not is_below(path, links)]
    return Given(
        root, tuple(kept), tuple(dict.fromkeys(links)), tuple(missing), tuple(dict.fromkeys(named)), _hidden(repository)
    )


def _hidden(repository: Repository) -> frozenset[str]:
    """What a sparse checkout leaves out of the user's tree."""
    if not (repository.git_folder / "info" / "sparse-checkout").is_file():
        return frozenset()
    listing = repository.git.raw("ls-files", "-t", "-z").split(b"\0")
    return frozenset(os.fsdecode(entry[2:]) for entry in listing if entry.startswith(b"S "))


def _copied(source: Path, target: Path) -> bytes | None:
    """Copy a file, or a link as it is; returns what is in it, None where there is no such file any more."""
    try:
        if source.is_symlink():
            target.symlink_to(content := os.readlink(source))  # noqa: PTH115 - as it is written
            return os.fsencode(content)
        shutil.copy2(source, target)
    except FileNotFoundError:
        return None
    return target.read_bytes()


def _matching(root: Path, pattern: str) -> list[str]:
    with suppress(ValueError, NotImplementedError, OSError):
        return sorted(path.relative_to(root).as_posix() for path in root.glob(pattern))
    return []


def _is_outside(root: Path, path: str) -> bool:
    """Whether a link on the way leads elsewhere."""
    return any(
        parent.is_symlink() for parent in (root / path).parents if parent.is_relative_to(root) and parent != root
    )


def _refuse_tracked(repository: Repository, key: str, paths: Iterable[str]) -> None:
    asked = list(paths)
    for path in asked:
        if within_state(path) or is_below(path, (".git",)):
            raise RalphError(f"workspace.{key}: {path} is no file of yours; name files that git does not hold")
    if not asked:
        return
    listing = repository.git.raw("--literal-pathspecs", "ls-files", "-z", "--", *asked).split(b"\0")
    if tracked := [os.fsdecode(name) for name in listing if name]:
        raise RalphError(
            f"workspace.{key}: git holds {some(tracked)}, so the checkout has it already; name what git does not hold"
        )
