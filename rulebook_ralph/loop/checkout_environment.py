"""The environment of commands in a checkout: nothing in it leads back into the user's tree.

A package that is installed as editable is imported from the user's tree, whatever stands in the current folder. So the
same folders of the checkout come first on Python's path; only those, for a whole root there hides modules of others.
"""

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

_LARGEST = 1024 * 1024
_PACKAGES = ("lib/python3*/site-packages", "lib/python3*/dist-packages")
_QUOTED = re.compile(r"""(?:'([^'\n]+)'|"([^"\n]+)")""")


def environment_in(
    root: Path, environment: Mapping[str, str], *, instead_of: Path, given: Iterable[str]
) -> dict[str, str]:
    """The environment for the checkout at `root` of the tree `instead_of`; `given` are folders that it has links to."""
    moved = {name: _moved(value, instead_of, root) for name, value in environment.items()}
    environments = [instead_of / path for path in given if (instead_of / path / "pyvenv.cfg").is_file()]
    path = environment.get("PATH", os.defpath)
    pythons = (shutil.which(program, path=path) for program in ("python3", "python"))
    environments += [Path(found).parent.parent for found in pythons if found]
    folders = dict.fromkeys(folder for each in environments for folder in _editable(each, instead_of))
    if folders:
        paths = [str(root / folder) for folder in folders]
        moved["PYTHONPATH"] = os.pathsep.join([*paths, *filter(None, [moved.get("PYTHONPATH", "")])])
    return moved


def _moved(value: str, old: Path, new: Path) -> str:
    """A path, or a list of paths, with those below `old` below `new`."""
    if str(old) not in value:
        return value
    entries = value.split(os.pathsep)
    return os.pathsep.join(
        str(new) + entry[len(str(old)) :] if entry == str(old) or entry.startswith(f"{old}/") else entry
        for entry in entries
    )


def _editable(environment: Path, tree: Path) -> Iterator[str]:
    """Folders of the tree that packages of a Python environment are imported from, as paths in the tree."""
    for pattern in _PACKAGES:
        for packages in sorted(environment.glob(pattern)):
            for file in (*sorted(packages.glob("*.pth")), *sorted(packages.glob("__editable__*.py"))):
                yield from _inside(_named_in(file), tree)


def _named_in(file: Path) -> Iterator[Path]:
    """The folders to import from: lines of a path file; of a finder the folders around the packages that it maps."""
    with suppress(OSError, ValueError):
        if file.stat().st_size > _LARGEST:
            return
        text = file.read_text("utf-8", "replace")
        if file.suffix == ".pth":
            yield from (Path(line) for line in text.splitlines() if line.startswith("/"))
        else:
            yield from (Path(found[1] or found[2]).parent for found in _QUOTED.finditer(text))


def _inside(folders: Iterable[Path], tree: Path) -> Iterator[str]:
    for folder in folders:
        with suppress(OSError, RuntimeError):
            if folder.is_absolute() and (resolved := folder.resolve()).is_relative_to(tree.resolve()):
                yield resolved.relative_to(tree.resolve()).as_posix()
