"""The folder for Ralph's clones: outside every repository, the user's own, and below no folder with a dot in front.

Tools leave out what lies in hidden folders: tests of web servers serve nothing from there.
"""

import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from rulebook_ralph.errors import RalphError
from rulebook_ralph.git.repository import Repository, read_plain

_OF = "repository"
"""The file in a repository's folder that says which git folder it belongs to."""
_VARIABLE = "RALPH_CACHE_DIR"


def cache_root(environment: Mapping[str, str], home: Path) -> Path:
    """Where all clones are: in `RALPH_CACHE_DIR`, else where caches go, else where files outlive a reboot."""
    configured = environment.get(_VARIABLE, "")
    if configured:
        if not Path(configured).is_absolute() or is_hidden(Path(configured)):
            raise RalphError(f"{_VARIABLE}={configured}: name an absolute path in which no folder begins with a dot")
        return Path(configured)
    base = Path(environment.get("XDG_CACHE_HOME", ""))
    if base.is_absolute() and not is_hidden(base):
        return base / "rulebook-ralph"
    if sys.platform == "darwin" and not is_hidden(home):
        return home / "Library" / "Caches" / "rulebook-ralph"
    return Path("/var/tmp") / f"rulebook-ralph-{os.getuid()}"  # noqa: S108 - made for the user alone, and looked at


def is_hidden(path: Path) -> bool:
    """Whether a folder on the way begins with a dot."""
    return any(part.startswith(".") for part in path.parts)


def folder_for(repository: Repository, root: Path) -> Path:
    """The folder of one repository in the cache, made where it is not there. Raises RalphError."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", repository.root.name).strip("-")[:40] or "repository"
    folder = root / f"{name}-{hashlib.sha256(os.fsencode(repository.git_dir)).hexdigest()[:16]}"
    inside = (repository.root.resolve(), repository.common_dir.resolve())
    if any(folder.resolve().is_relative_to(each) for each in inside):
        raise RalphError(f"{root} would lie within the repository; set {_VARIABLE} to a folder outside of it")
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = root.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            raise RalphError(f"{root} is not a folder of yours; set {_VARIABLE} to one that is")
        if status.st_mode & 0o022:
            root.chmod(0o700)
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / _OF).write_bytes(os.fsencode(repository.git_dir))
    except OSError as error:
        raise unwritable(root, error) from None
    return folder


def unwritable(path: Path, error: OSError) -> RalphError:
    """What is said where the cache cannot be written."""
    return RalphError(
        f"cannot write {path}: {error.strerror or error}; mend that, or set {_VARIABLE} to another folder"
    )


def remove_vanished(root: Path) -> int:
    """Remove the folders of repositories that are not there any more; how many."""
    removed = 0
    for folder in sorted(root.glob("*")):
        of = read_plain(folder / _OF)
        if of and not folder.is_symlink() and not Path(os.fsdecode(of)).exists():
            with suppress(OSError):
                take_down(folder)
                removed += 1
    return removed


_COPY = ("cp", "-a", "--reflink=auto", "--") if sys.platform == "linux" else ("cp", "-a", "--")
"""On a disk that can, a copy shares its blocks with the original until one of them is changed."""


def put_copy(source: Path, target: Path) -> None:
    """Copy a file or a folder, without a git folder in it. Raises OSError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if not os.path.lexists(source):
        return
    done = subprocess.run((*_COPY, str(source), str(target)), capture_output=True, check=False)
    if done.returncode != 0:
        raise OSError(0, done.stderr.decode("utf-8", "replace").strip()[:300] or "cp failed")
    with suppress(OSError):
        if is_folder(target):
            take_down(target / ".git")


def take_down(path: Path) -> None:
    """Remove a file, a link or a whole folder, also one with folders that may not be written. Raises OSError."""
    if not is_folder(path):
        path.unlink(missing_ok=True)
        return
    try:
        shutil.rmtree(path)
    except (OSError, RecursionError):
        with suppress(OSError):
            open_up(path)
        # Folders within each other without end have paths that only `rm` comes to the end of.
        subprocess.run(("rm", "-rf", "--", str(path)), capture_output=True, check=False)
        if path.exists():
            shutil.rmtree(path)


def is_folder(path: Path) -> bool:
    """Whether there is a folder, and no link to one."""
    return path.is_dir() and not path.is_symlink()


def open_up(path: Path) -> None:
    """Make every folder there, and itself, one that its owner can read and write. Raises OSError."""
    path.chmod(path.stat().st_mode | 0o700)
    for parent, folders, _ in os.walk(path):
        for name in folders:
            if not (inner := Path(parent, name)).is_symlink():
                inner.chmod(inner.stat().st_mode | 0o700)
