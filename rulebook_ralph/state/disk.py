"""The only ways a state file is written. Each is atomic or append-only, and on disk when it returns (DESIGN.md)."""

import errno
import itertools
import os
import re
import stat
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from msgspec.structs import replace

from rulebook_ralph.errors import ExitCode, RalphError


class Fingerprint(msgspec.Struct, frozen=True, gc=False):
    """Equal for a file that nobody has written since; times in nanoseconds. Thousands of them are nothing to Python's
    garbage collector.
    """

    inode: int
    size: int
    content_changed: int
    inode_changed: int


def fingerprint(path: Path) -> Fingerprint | None:
    """What tells whether a file was written meanwhile, without reading it; None where there is no plain file."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return fingerprint_of(status)


def fingerprint_of(status: os.stat_result) -> Fingerprint | None:
    """The same from what `lstat` gave."""
    if not stat.S_ISREG(status.st_mode):
        return None
    return Fingerprint(status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


BEING_SAVED = timedelta(seconds=1)
"""A file this young may not be whole yet."""


def is_being_saved(path: Path, now: datetime) -> bool:
    """Whether the file is so young that what cannot be read may be half of what an editor is writing; no for one that
    is not there. `now` has a time zone.
    """
    try:
        changed = datetime.fromtimestamp(path.lstat().st_mtime, UTC)
    except (OSError, OverflowError, ValueError):
        return False
    return timedelta() <= now - changed < BEING_SAVED


LARGEST = 256 * 1024 * 1024
"""Bytes of a state file that are read into the memory."""

IS_LINK = "is a symbolic link; Ralph keeps its state in plain files: replace it by the file"
"""What is wrong with a file or folder of the state that is one."""

_TEMPORARY = re.compile(r"\..+\.[0-9]+\.tmp")


def content_of(path: Path) -> bytes | None:
    """Of a plain file; None where none is, or none that can be read."""
    if path.is_symlink() or not path.is_file():
        return None
    with suppress(OSError):
        return read_file(path)
    return None


def replace_file(path: Path, data: bytes) -> Fingerprint:
    """Put `data` at `path` as a whole: temporary file, fsync, rename, fsync of the folder. Raises RalphError.

    Returns the fingerprint of what was written, taken before anybody else could reach it: renaming changes the last
    of its times, so `is_what_was_written` compares it.
    """
    temporary = _temporary(path)
    try:
        written = _write_whole(temporary, data)
        temporary.rename(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise _explained(path, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    return written


def is_what_was_written(found: Fingerprint | None, written: Fingerprint) -> bool:
    """Whether the file found there is the one that `replace_file` wrote, unchanged."""
    return found is not None and replace(found, inode_changed=written.inode_changed) == written


def create_file(path: Path, data: bytes) -> None:
    """Like `replace_file`, but fails with FileExistsError where `path` exists: a number is never used twice."""
    temporary = _temporary(path)
    try:
        _write_whole(temporary, data)
        os.link(temporary, path)
        _sync_folder(path.parent)
    except FileExistsError:
        raise
    except OSError as error:
        raise _explained(path, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def append_file(path: Path, data: bytes) -> None:
    """Append `data` in one write and fsync it. Raises RalphError."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        try:
            _write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _explained(path, error) from error


def remove_temporaries(*folders: Path) -> None:
    """Remove what a process that died had not finished writing there."""
    for path in itertools.chain.from_iterable(folder.glob(".*.tmp") for folder in folders):
        if _TEMPORARY.fullmatch(path.name):
            with suppress(OSError):
                path.unlink()


def read_file(path: Path, *, largest: int = LARGEST, only_end: bool = False) -> bytes:
    """The content of a plain file of at most `largest` bytes. Raises OSError, also for what would never end: a pipe, a
    device; its `strerror` follows "cannot be read: ". With `only_end` a larger file gives its last bytes.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        if only_end:
            os.lseek(descriptor, max(0, status.st_size - largest), os.SEEK_SET)
        elif status.st_size > largest:
            raise OSError(errno.EFBIG, f"it is larger than {largest // 2**20} MB")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(largest)
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> None:
    """Create a folder and those above it. Raises RalphError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _explained(path, error) from error


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def _write_whole(path: Path, data: bytes) -> Fingerprint:
    path.unlink(missing_ok=True)  # left by a dead process, or planted by an agent
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    try:
        _write_all(descriptor, data)
        os.fsync(descriptor)
        status = os.fstat(descriptor)
        return Fingerprint(status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_SURROUNDINGS = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EACCES, errno.EPERM),
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE),
}


def is_of_surroundings(error: BaseException) -> bool:
    """Whether it says that the disk or the rights of this user do not let Ralph work."""
    return isinstance(error, OSError) and error.errno in _SURROUNDINGS


def explained(error: OSError, *, of: Path) -> RalphError | None:
    """A failed call of a run as a line for the person; None where the fault is not in the surroundings. `of` is named
    where the call was not about a file.
    """
    if not is_of_surroundings(error):
        return None
    path = error.filename2 or error.filename or of
    place = path if isinstance(path, Path) else Path(os.fsdecode(path)) if isinstance(path, (str, bytes)) else of
    return _explained(place, error, "; then: ralph resume")


def _explained(path: Path, error: OSError, then: str = "") -> RalphError:
    if error.errno == errno.ELOOP:
        return RalphError(f"{path} {IS_LINK}")
    code = ExitCode.INVALID if isinstance(error, PermissionError) or error.errno == errno.EROFS else ExitCode.UNEXPECTED
    problem = f"cannot write {path}: {error.strerror or error}; make it writable or free some space{then}"
    return RalphError(problem, exit_code=code)
