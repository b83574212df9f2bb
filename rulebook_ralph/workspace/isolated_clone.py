"""The git folder of a checkout: written by Ralph alone, with the repository's refs and objects, not its settings.

It stands in the work tree, where anything may change it, so it is made anew whenever it is not as it was written.
"""

import os
import re
import shutil
import stat
from dataclasses import dataclass, replace
from pathlib import Path

from rulebook_ralph.workspace.git import GitError
from rulebook_ralph.workspace.isolated_files import files_below
from rulebook_ralph.workspace.isolated_place import take_down
from rulebook_ralph.workspace.raw_files import contents
from rulebook_ralph.workspace.ref_files import tips_named
from rulebook_ralph.workspace.repository import Repository

_TAKEN = re.compile(
    r"core\.(?:autocrlf|eol|filemode|symlinks|ignorecase|precomposeunicode|safecrlf)|filter\..*",
    re.IGNORECASE | re.DOTALL,
)
_NOT_SHOWN = ("refs/ralph/", "refs/stash")
_SHA1_LENGTH = 40
_MOST_BYTES = 64 * 1024 * 1024
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
        "config": _config(repository, base),
        "packed-refs": b"".join(os.fsencode(f"{commit} {name}\n") for name, commit in sorted(refs.items())),
        "objects/info/alternates": os.fsencode(shared / "objects") + b"\n",
        "info/exclude": _content(shared / "info" / "exclude") + b"\n" + os.fsencode(hiding),
        "info/attributes": _content(shared / "info" / "attributes"),
    }
    shallow = _content(shared / "shallow")
    return Clone(files | ({"shallow": shallow} if shallow else {}))


def bring_commits(inside: Repository) -> tuple[str, ...]:
    """Bring into the repository the commits that an agent made in the git folder of a checkout and that HEAD or a ref
    of it names; returns them, none where they are very large. `inside` is the repository with the checkout as its root.

    Of that folder only the refs and the objects are read, and the objects' names are computed anew. Raises GitError,
    where an object is missing too; OSError.
    """
    folder, objects = inside.root / ".git", inside.root / ".git" / "objects"
    if folder.is_symlink() or objects.is_symlink() or not objects.is_dir() or not _holds_files_alone(objects):
        return ()
    listed = ["HEAD", "packed-refs", *(files_below(folder, "refs") if (folder / "refs").is_dir() else ())]
    files = contents(f"{folder}/{name}" for name in listed)
    there = replace(
        inside.git, environment={**inside.git.environment, "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(objects)}
    )
    asked = "".join(f"{name}\n" for name in sorted(tips_named(files, files))).encode()
    kinds = (line.split() for line in there.text("cat-file", "--batch-check", stdin=asked).splitlines())
    known = inside.git.text("cat-file", "--batch-check", stdin=asked)
    tips = tuple(name for name, kind, *_ in kinds if kind == "commit" and f"{name} missing" in known)
    if not tips or int(there.text("rev-list", "--objects", "--disk-usage", *tips, "^HEAD")) > _MOST_BYTES:
        return ()
    wanted = "".join(f"{name}\n" for name in (*tips, "^HEAD")).encode()
    pack = there.raw("pack-objects", "--revs", "--stdout", "-q", stdin=wanted)
    inside.git.raw("index-pack", "--stdin", "--strict", stdin=pack)
    return tips


def _holds_files_alone(folder: Path) -> bool:
    """Whether nothing there is a pipe or the like, which git would wait for without end."""
    inner = (Path(parent, name) for parent, _, names in os.walk(folder) for name in names)
    return all(stat.S_ISREG(path.lstat().st_mode) for path in inner)


def format_settings(commit: str) -> str:
    """The settings that a git folder needs where commits are named like this one; no hook is run by them."""
    sha256 = len(commit) != _SHA1_LENGTH
    core = f"[core]\n\trepositoryformatversion = {1 if sha256 else 0}\n\tbare = false\n\thooksPath = /dev/null\n"
    return f"{core}[extensions]\n\tobjectFormat = sha256\n" if sha256 else core


def _config(repository: Repository, base: str) -> bytes:
    """Settings that say how files are written, in git's own format; everything else is git's default."""
    lines = [format_settings(base)]
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
