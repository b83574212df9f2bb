"""The files of the state folder that people edit beside the task list, read and written where no link leads away."""

import os
import stat
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from rulebook_ralph.core.problem import escaped
from rulebook_ralph.errors import RalphError
from rulebook_ralph.state import disk
from rulebook_ralph.state.store import StateFolder

_TEMPLATES = "templates/"


def is_editable(name: str) -> bool:
    """Whether people edit that file of the state folder, the task list included: an edit of it is held."""
    return name in ("prd.json", "config.yaml") or name.startswith(_TEMPLATES)


def current(folder: StateFolder, name: str) -> bytes | None:
    """What stands there; None where nothing does. Raises RalphError."""
    path = _path(folder, name)
    try:
        return path.read_bytes() if os.path.lexists(path) else None
    except OSError as error:
        raise RalphError(f"cannot read {path}: {error.strerror}; check its permissions") from error


def put(folder: StateFolder, name: str, content: bytes) -> None:
    """Replace the file. Raises RalphError."""
    path = _path(folder, name)
    disk.make_folder(path.parent)
    disk.replace_file(path, content)


def _path(folder: StateFolder, name: str) -> Path:
    """Raises RalphError where the name is no such file's, or where a link or a file stands in its way."""
    parts = PurePosixPath(name).parts
    proper = "/".join(parts) == name and ".." not in parts and "\0" not in name
    if not proper or name == "prd.json" or not is_editable(name):
        raise RalphError(f"'{escaped(name)}' is no file that can be put there: config.yaml or templates/…")
    path = folder.path
    for part in parts:
        _require(path, stat.S_ISDIR)
        path /= part
    _require(path, stat.S_ISREG)
    return path


def _require(path: Path, is_kind: Callable[[int], bool]) -> None:
    """Raises RalphError where something of another kind stands there."""
    try:
        fits = is_kind(path.lstat().st_mode)
    except FileNotFoundError:
        return
    except OSError as error:
        raise RalphError(f"cannot read {path}: {error.strerror}") from error
    if not fits:
        what = "folder" if is_kind is stat.S_ISDIR else "file"
        raise RalphError(f"{path} is no plain {what}; Ralph keeps its state in plain files: move it away")
