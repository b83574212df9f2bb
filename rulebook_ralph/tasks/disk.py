"""Where the state files are, and the only ways one is written: replaced as a whole, or appended to; on disk
when the call returns. Files are opened without following links.
"""

import errno
import itertools
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.tasks.model import STATE_FOLDER

LARGEST = 256 * 1024 * 1024
"""Bytes of a state file that are read into memory."""

IS_LINK = "is a symbolic link; Ralph keeps its state in plain files: replace it by the file"
"""What is wrong with a file or folder of the state that is one."""

BEING_SAVED = timedelta(seconds=1)
"""A file this young may not be whole yet."""

_TEMPORARY = re.compile(r"\..+\.[0-9]+\.tmp")


@dataclass(frozen=True, slots=True)
class StateFolder:
    """The paths below `.rulebook-ralph/` of a project's root."""

    root: Path

    @property
    def path(self) -> Path:
        return self.root / STATE_FOLDER

    @property
    def prd(self) -> Path:
        return self.path / "prd.json"

    @property
    def progress(self) -> Path:
        return self.path / "progress.txt"

    @property
    def config(self) -> Path:
        return self.path / "config.yaml"

    @property
    def templates(self) -> Path:
        return self.path / "templates"

    @property
    def history(self) -> Path:
        return self.path / "history"

    def iteration(self, number: int) -> Path:
        return self.history / f"iteration-{number}.json"


def find_root(start: Path) -> Path | None:
    """The nearest folder upwards that has a state folder, no further than the repository's top, or None."""
    for folder in (start, *start.parents):
        if (folder / STATE_FOLDER).is_dir():
            return folder
        if (folder / ".git").exists():
            return None
    return None


Fingerprint = tuple[int, int, int]
"""Inode, size and time of a file: equal for one that nobody has written since."""


def fingerprint(path: Path) -> Fingerprint | None:
    """What tells whether a file was written meanwhile, without reading it; None where there is no plain file."""
    with suppress(OSError):
        status = path.lstat()
        return _fingerprint_of(status) if stat.S_ISREG(status.st_mode) else None
    return None


def is_being_saved(path: Path, now: datetime) -> bool:
    """Whether the file is so young that what cannot be read may be half of what an editor is writing."""
    try:
        changed = datetime.fromtimestamp(path.lstat().st_mtime, UTC)
    except (OSError, OverflowError, ValueError):
        return False
    return timedelta() <= now - changed < BEING_SAVED


def read_file(path: Path, *, largest: int = LARGEST, only_start: bool = False) -> bytes:
    """The content of a plain file of at most `largest` bytes; with `only_start` the first ones of a larger one.

    Raises OSError, also for a link and for what would never end, a pipe or a device; its `strerror` says what it is.
    """
    with _opened(path, os.O_RDONLY | os.O_NONBLOCK) as descriptor:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "is no regular file", str(path))
        if status.st_size > largest and not only_start:
            raise OSError(errno.EFBIG, f"is larger than {largest // 2**20} MB", str(path))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(largest)


def content_of(path: Path) -> bytes | None:
    """Of a plain file; None where none is, or none that can be read."""
    with suppress(OSError):
        return read_file(path)
    return None


def replace_file(path: Path, data: bytes, *, replaced: Path | None = None) -> Fingerprint:
    """Put `data` at `path` as a whole: temporary file, fsync, rename, fsync of the folder. Raises RalphError.

    What stood there is linked at `replaced`, in the same file system, so that a save of an editor in the last moment
    can still be read. Returns the fingerprint of what was written.
    """
    temporary = _temporary(path)
    try:
        with _writing(path):
            temporary.unlink(missing_ok=True)  # left by a dead process
            with _opened(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as descriptor:
                _write(descriptor, data)
                written = _fingerprint_of(os.fstat(descriptor))
            if replaced is not None:
                replaced.unlink(missing_ok=True)
                _link(path, replaced)
            temporary.rename(path)
            with _opened(path.parent, os.O_RDONLY | os.O_DIRECTORY, follow=True) as descriptor:
                os.fsync(descriptor)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    return written


def append_file(path: Path, data: bytes) -> None:
    """Append `data` and fsync it. Raises RalphError."""
    with _writing(path), _opened(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT) as descriptor:
        _write(descriptor, data)


def make_folder(path: Path) -> None:
    """Create a folder and those above it. Raises RalphError."""
    with _writing(path):
        path.mkdir(parents=True, exist_ok=True)


def remove_temporaries(*folders: Path) -> None:
    """Remove what a process that died had not finished writing there."""
    for path in itertools.chain.from_iterable(folder.glob(".*.tmp") for folder in folders):
        if _TEMPORARY.fullmatch(path.name):
            with suppress(OSError):
                path.unlink()


@contextmanager
def _opened(path: Path, flags: int, *, follow: bool = False) -> Iterator[int]:
    """The descriptor of a file that is no link, closed afterwards."""
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW), 0o644)
    except OSError as error:
        raise (OSError(errno.ELOOP, IS_LINK, str(path)) if error.errno == errno.ELOOP else error) from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise cannot_write(path, error) from error


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.fsync(descriptor)


def _fingerprint_of(status: os.stat_result) -> Fingerprint:
    return (status.st_ino, status.st_size, status.st_mtime_ns)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def _link(path: Path, other: Path) -> None:
    """Give a file a second name, where there is one, and its file system knows such names."""
    try:
        os.link(path, other, follow_symlinks=False)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOTSUP):
            raise


# What went wrong


_SURROUNDINGS = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EACCES, errno.EPERM),
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE),
}


def explained(error: OSError, *, of: Path) -> RalphError | None:
    """A failed call as a line for the person; None where the fault is neither the disk's nor a lack of rights. `of` is
    named where the call was not about a file.
    """
    if error.errno not in _SURROUNDINGS:
        return None
    path = error.filename2 or error.filename or of
    place = path if isinstance(path, Path) else Path(os.fsdecode(path)) if isinstance(path, (str, bytes)) else of
    return cannot_write(place, error)


def cannot_write(path: Path, error: OSError) -> RalphError:
    """Why a file cannot be written, and what to do."""
    if error.errno == errno.ELOOP:
        return RalphError(f"{path} {IS_LINK}")
    code = ExitCode.INVALID if isinstance(error, PermissionError) or error.errno == errno.EROFS else ExitCode.UNEXPECTED
    problem = f"cannot write {path}: {error.strerror or error}; make it writable or free some space"
    return RalphError(problem, exit_code=code)
