"""The git folder of a checkout: written by Ralph alone, with the repository's refs and objects, not its settings.

It stands in the work tree, where anything may change it, so it is made anew whenever it is not as it was written.
"""

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from rulebook_ralph.workspace.git import GitError
from rulebook_ralph.workspace.isolated_place import take_down
from rulebook_ralph.workspace.repository import Repository

_TAKEN = re.compile(
    r"core\.(?:autocrlf|eol|filemode|symlinks|ignorecase|precomposeunicode|safecrlf)|filter\..*",
    re.IGNORECASE | re.DOTALL,
)
_NOT_SHOWN = ("refs/ralph/", "refs/stash")
_SHA1_LENGTH = 40
EMPTY_FOLDERS = ("objects", "refs", "refs/heads")
"""Folders of the git folder that need not hold a file."""


@dataclass(frozen=True, slots=True)
class Clone:
    """What the git folder holds beside the index: each file's path in it, and its content."""

    files: dict[str, bytes]

    def write(self, root: Path, index: Path) -> None:
        """Make the git folder in the work tree, in place of what stands there. Raises OSError."""
        folder = root / ".git"
        take_down(folder)
        for name in (*EMPTY_FOLDERS, "objects/info", "info"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        for name, content in self.files.items():
            (folder / name).write_bytes(content)
        shutil.copyfile(index, folder / "index")


def clone_of(repository: Repository, base: str, *, hidden: tuple[str, ...]) -> Clone:
    """A clone whose branch, called as the one that is checked out, stands at `base`. `hidden` are paths to ignore.

    Raises GitError, OSError.
    """
    branch = repository.branch()
    head = f"refs/heads/{branch}"
    listing = repository.git.text("for-each-ref", "--format=%(objectname) %(refname)").splitlines()
    refs = {name: commit for commit, _, name in (line.partition(" ") for line in listing)}
    refs = {name: commit for name, commit in refs.items() if not name.startswith(_NOT_SHOWN)}
    if branch:
        refs[head] = base
    shared = repository.common_folder
    hiding = "".join(f"/{_literal(path)}\n" for path in hidden)
    files = {
        "HEAD": os.fsencode(f"ref: {head}\n" if branch else f"{base}\n"),
        "config": _config(repository, sha256=len(base) != _SHA1_LENGTH),
        "packed-refs": b"".join(os.fsencode(f"{commit} {name}\n") for name, commit in sorted(refs.items())),
        "objects/info/alternates": os.fsencode(shared / "objects") + b"\n",
        "info/exclude": _content(shared / "info" / "exclude") + b"\n" + os.fsencode(hiding),
        "info/attributes": _content(shared / "info" / "attributes"),
    }
    shallow = _content(shared / "shallow")
    return Clone(files | ({"shallow": shallow} if shallow else {}))


def _config(repository: Repository, *, sha256: bool) -> bytes:
    """Settings that say how files are written, in git's own format; everything else is git's default."""
    lines = [f"[core]\n\trepositoryformatversion = {1 if sha256 else 0}\n\tbare = false\n\thooksPath = /dev/null\n"]
    if sha256:
        lines.append("[extensions]\n\tobjectFormat = sha256\n")
    try:
        listing = os.fsdecode(repository.git.raw("config", "--local", "--list", "-z"))
    except GitError:
        listing = ""
    for entry in filter(None, listing.split("\0")):
        key, has_value, value = entry.partition("\n")
        if has_value and _TAKEN.fullmatch(key):
            section, _, name = key.rpartition(".")
            first, _, inner = section.partition(".")
            lines.append(f"[{first}{f' {_quoted(inner)}' if inner else ''}]\n\t{name} = {_quoted(value)}\n")
    return os.fsencode("".join(lines))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _literal(path: str) -> str:
    return re.sub(r"([\\*?\[ ])", r"\\\1", path)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.is_file() else b""
    except OSError:
        return b""
