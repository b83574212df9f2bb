"""The git folders of a clone: one beside it that Ralph works with, and one in it for whoever works there.

Both share the repository's objects and have none of its hooks and remotes. What stands in the clone is written anew
whenever a tree is put there, so nothing that was done to it lasts.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rulebook_ralph.git.cache import take_down
from rulebook_ralph.git.repository import Repository, config_entry, read_plain, users_file
from rulebook_ralph.tasks.model import STATE_FOLDER

_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_NO_CONVERSION = b"* !text !eol !crlf !ident !filter !working-tree-encoding !merge\n"
"""Attributes that decide what git writes for a file, unspecified: what follows in the list decides alone."""


def read_rules(repository: Repository, tree: str, name: str) -> bytes:
    """What all files called `name` in a tree say (`.gitignore` or `.gitattributes`), as one list at its top."""
    plain = (path for path, entry in repository.entries(tree).items() if entry.mode.startswith("100"))
    found = (path for path in plain if path.rpartition("/")[2] == name)  # git follows no link here
    moved = _ignoring if name == ".gitignore" else _attributes
    rules: list[str] = []
    for path in sorted(found, key=lambda path: (path.count("/"), path)):  # what is deeper decides, so it is last
        folder = path.rpartition("/")[0]
        content = (repository.file_of(tree, path) or b"").removeprefix(b"\xef\xbb\xbf")
        lines = (os.fsdecode(line.removesuffix(b"\r")) for line in content.split(b"\n"))
        rules += (moved(folder, line) if folder else line for line in lines)
    return b"".join(os.fsencode(f"{rule}\n") for rule in rules if rule)


def _ignoring(folder: str, line: str) -> str:
    if not line.strip(" /!") or line.startswith("#"):  # a slash alone names nothing
        return ""
    negated = line.startswith("!")
    return f"{'!' if negated else ''}{_below(folder)}{_beside(line[1:] if negated else line)}"


def _attributes(folder: str, line: str) -> str:
    """Macros count at the top alone."""
    line = line.lstrip(" \t")
    if not line or line.startswith(("#", "[attr]", "!")):
        return ""
    if quoted := _QUOTED.match(line):
        pattern, end = quoted[1], quoted.end()
    else:
        unquoted = re.split(r"[ \t]", line, maxsplit=1)[0]
        pattern, end = _c_quoted(unquoted), len(unquoted)
    return f'"{_c_quoted(_below(folder))}{_beside(pattern)}"{line[end:]}'


def _c_quoted(text: str) -> str:
    return "".join(f"\\{ord(char):03o}" if char < " " or char in '"\\' else char for char in text)


def _below(folder: str) -> str:
    return "/" + re.sub(r"([\\*?\[\]])", r"\\\1", folder)


def _beside(pattern: str) -> str:
    """A pattern as it goes on after the folder that it stands in."""
    return f"/{pattern.removeprefix('/')}" if "/" in pattern.rstrip("/") else f"/**/{pattern}"


_TAKEN = re.compile(
    r"core\.(?:autocrlf|eol|filemode|symlinks|ignorecase|precomposeunicode|longpaths|bigfilethreshold)"
    r"|filter\..*|lfs\..*|user\..*|extensions\.partialclone",
    re.IGNORECASE | re.DOTALL,
)
_OF_REMOTES = re.compile(r"(?:remote|http|credential|url|protocol)\..*", re.IGNORECASE | re.DOTALL)
_NOT_SHOWN = ("refs/ralph/", "refs/stash")
_SHA1_LENGTH = 40
_SPARSE = f"/*\n!/{STATE_FOLDER}/\n".encode()


@dataclass(frozen=True, slots=True)
class Shared:
    """What all clones of a repository have in common. `stores` are links to folders of objects, and these."""

    stores: tuple[tuple[Path, Path], ...]
    branch: str | None
    refs: Mapping[str, str]
    settings: tuple[str, ...]
    of_remotes: tuple[str, ...]
    excludes: bytes
    attributes: bytes

    def alternates(self) -> bytes:
        """The file that names the folders of objects."""
        return b"".join(os.fsencode(link) + b"\n" for link, _ in self.stores)


def read_shared(repository: Repository, folder: Path) -> Shared:
    """Read it from the repository; the links are made in `folder`. Raises GitError, OSError."""
    listing = repository.text("for-each-ref", "--format=%(objectname) %(refname)").splitlines()
    refs = {name: oid for oid, _, name in (line.partition(" ") for line in listing)}
    local = list(filter(None, os.fsdecode(repository.run("config", "--local", "--list", "-z")).split("\0")))
    common = repository.common_dir
    stores = []
    for number, objects in enumerate(_object_folders(common / "objects")):
        link = folder / (f"objects-{number}" if number else "objects")
        if not link.is_symlink() or link.readlink() != objects:
            take_down(link)
            link.symlink_to(objects)
        stores.append((link, objects))
    return Shared(
        stores=tuple(stores),
        branch=repository.branch(),
        refs={name: oid for name, oid in refs.items() if not name.startswith(_NOT_SHOWN)},
        settings=tuple(entry for entry in local if _TAKEN.fullmatch(entry.partition("\n")[0])),
        of_remotes=tuple(entry for entry in local if _OF_REMOTES.fullmatch(entry.partition("\n")[0])),
        excludes=b"%b\n%b\n"
        % (users_file(repository, "core.excludesFile", "ignore"), read_plain(common / "info/exclude")),
        attributes=users_file(repository, "core.attributesFile", "attributes") + b"\n",
    )


def own_repository(repository: Repository, folder: Path, root: Path) -> Repository:
    """Git in the work tree at `root` with Ralph's own git folder for it; objects are the repository's."""
    objects = str(repository.common_dir / "objects")
    places = {"GIT_DIR": str(folder), "GIT_WORK_TREE": str(root), "GIT_OBJECT_DIRECTORY": objects}
    environment = {**repository.environment, **places}
    return replace(repository, root=root, git_dir=folder, common_dir=folder, environment=environment)


def write_own(repository: Repository, shared: Shared, folder: Path) -> None:
    """Make Ralph's git folder of a clone. Raises OSError."""
    for name in ("refs/heads", "objects", "info"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    # A partial clone fetches what is missing; Git LFS keeps its files where the user's tree finds them.
    storage = f"lfs.storage\n{repository.common_dir / 'lfs'}"
    entries = (*shared.settings, *shared.of_remotes, storage)
    (folder / "config").write_bytes(_config(repository, entries))
    (folder / "HEAD").write_bytes(b"ref: refs/heads/none\n")
    (folder / "info" / "sparse-checkout").write_bytes(_SPARSE)
    if shallow := read_plain(repository.common_dir / "shallow"):
        (folder / "shallow").write_bytes(shallow)


def write_rules(repository: Repository, shared: Shared, folder: Path, tree: str) -> None:
    """Have Ralph's git folder ignore and convert as the rules of that tree say, and by no others."""
    own = read_plain(repository.common_dir / "info" / "attributes")
    attributes = _NO_CONVERSION + shared.attributes + read_rules(repository, tree, ".gitattributes") + own
    (folder / "info" / "exclude").write_bytes(shared.excludes + read_rules(repository, tree, ".gitignore"))
    (folder / "info" / "attributes").write_bytes(attributes)


def write_inner(repository: Repository, shared: Shared, root: Path, commit: str) -> None:
    """Make the git folder in the clone but for its index, in place of whatever stands there. Raises OSError."""
    folder = root / ".git"
    take_down(folder)
    for name in ("objects/info", "refs/heads", "info"):
        (folder / name).mkdir(parents=True)
    head = f"refs/heads/{shared.branch}" if shared.branch else ""
    refs = {**shared.refs, **({head: commit} if head else {})}
    # A signature would ask for a password in the middle of an agent's work.
    entries = (*shared.settings, "commit.gpgsign\nfalse", "tag.gpgsign\nfalse")
    files = {
        "HEAD": os.fsencode(f"ref: {head}\n" if head else f"{commit}\n"),
        "config": _config(repository, entries),
        "packed-refs": b"".join(os.fsencode(f"{oid} {name}\n") for name, oid in sorted(refs.items())),
        "objects/info/alternates": shared.alternates(),
        "info/exclude": read_plain(repository.common_dir / "info" / "exclude"),
        "info/attributes": read_plain(repository.common_dir / "info" / "attributes"),
        "info/sparse-checkout": _SPARSE,
        "shallow": read_plain(repository.common_dir / "shallow"),
    }
    for name, content in files.items():
        if content:
            (folder / name).write_bytes(content)


def _config(repository: Repository, entries: tuple[str, ...]) -> bytes:
    extensions = any(entry.lower().startswith("extensions.") for entry in entries)
    sha256 = repository.hash_length != _SHA1_LENGTH
    fixed = [
        f"core.repositoryformatversion\n{int(sha256 or extensions)}",
        "core.bare\nfalse",
        "core.hookspath\n/dev/null",
        "core.sparsecheckout\ntrue",
        "core.sparsecheckoutcone\nfalse",
        "sparse.expectfilesoutsideofpatterns\ntrue",
        *(["extensions.objectformat\nsha256"] if sha256 else []),
    ]
    return os.fsencode("".join(map(config_entry, (*fixed, *entries))))


def _object_folders(objects: Path) -> list[Path]:
    """The folder and those that it names, and they in turn; their relative lines count from themselves."""
    found: list[Path] = []
    left = [objects.resolve()]
    while left:
        folder = left.pop(0)
        if folder in found or not folder.is_dir():
            continue
        found.append(folder)
        lines = os.fsdecode(read_plain(folder / "info" / "alternates")).splitlines()
        left += [(folder / line).resolve() for line in lines if line and not line.startswith("#")]
    return found
