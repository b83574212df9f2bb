"""Ignore rules as they were at an opening: found, compared, and replayed after an agent has changed them."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rulebook_ralph.workspace.git import GitError
from rulebook_ralph.workspace.repository import Repository

_MARKS = ("CACHEDIR.TAG", "pyvenv.cfg")


def ignore_files(repository: Repository, index: Path) -> dict[str, bytes]:
    """Every ignore file that counts: tracked and untracked `.gitignore`, as paths in the tree, and the repository's own
    exclude file, as an absolute path.

    git does not read a `.gitignore` that is a link.
    """
    output = repository.git.raw("ls-files", "-c", "-o", "-z", "--", ":(top,glob)**/.gitignore", index=index)
    names = {os.fsdecode(name) for name in output.split(b"\0") if name}
    names.add(exclude := str(repository.common_folder / "info" / "exclude"))
    found = {}
    for name in names:
        path = repository.root / name
        with suppress(OSError):
            if path.is_file() and (name == exclude or not path.is_symlink()):  # a pipe would block for ever
                found[name] = path.read_bytes()
    return found


def caches(repository: Repository, index: Path, rules: dict[str, bytes]) -> dict[str, bytes]:
    """Those of the ignore files that lie in a folder of a tool (a cache, a virtual environment) that ignores itself.

    Nothing in it may be tracked, and it must look like one: an agent's new source folder is none.
    """
    root = repository.root
    found = {(root / name).parent for name, content in rules.items() if content.strip().splitlines()[-1:] == [b"*"]}
    folders = [folder for folder in found if root in folder.parents and _is_of_a_tool(folder)]
    if not folders:
        return {}
    paths = (f":(top,literal){folder.relative_to(root)}" for folder in folders)
    tracked = repository.git.raw("ls-files", "-c", "-z", "--", *paths, index=index).split(b"\0")
    used = {parent for path in tracked if path for parent in (root / os.fsdecode(path)).parents}
    own = {folder for folder in folders if folder not in used}
    return {name: content for name, content in rules.items() if not own.isdisjoint((root / name).parents)}


def _is_of_a_tool(folder: Path) -> bool:
    return folder.name.startswith(".") or any((folder / mark).is_file() for mark in _MARKS)


def ignored_by(repository: Repository, rules: dict[str, bytes], names: Sequence[bytes]) -> frozenset[bytes]:
    """Which of the paths those rules ignore, whatever the rules in the tree are now."""
    if not names:
        return frozenset()
    with _folder_of(repository, rules) as folder:
        try:
            asked = b"\0".join(b"./" + name for name in names)  # a leading ':' would be taken for magic
            output = repository.git.raw("check-ignore", "--no-index", "-z", "--stdin", stdin=asked, work_tree=folder)
        except GitError as error:
            if error.stderr:
                raise
            return frozenset()  # none of them is
    return frozenset(name.removeprefix(b"./") for name in output.split(b"\0"))


@contextmanager
def _folder_of(repository: Repository, rules: dict[str, bytes]) -> Iterator[Path]:
    """A folder that holds the ignore files of the rules, and nothing else."""
    folder = repository.scratch / "ignore-rules"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        for name, content in rules.items():
            if not Path(name).is_absolute():
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
