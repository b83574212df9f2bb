"""Reading a text file that nobody vouches for: links, sizes, encodings and line ends are looked at first."""

import stat
from pathlib import Path

from rulebook_ralph.sources.source import SourceProblem

MAX_BYTES = 5 * 1024 * 1024


class UnreadableError(Exception):
    """A file that cannot be taken, with the problem to show."""

    def __init__(self, file: Path, line: int | None, message: str) -> None:
        super().__init__(message)
        self.problem = SourceProblem(file, line, message)


def read_text_if_there(file: Path, *, within: Path) -> str | None:
    """`read_text`, or None where there is nothing of that name."""
    try:
        file.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UnreadableError(file, None, _reason(error)) from error
    return read_text(file, within=within)


def read_text(file: Path, *, within: Path) -> str:
    """The text of a UTF-8 file with LF line ends and without a byte order mark.

    Raises UnreadableError for a link that leads out of `within`, anything but a regular file, a file of more than 5 MB,
    bytes that are not UTF-8, and NUL characters.
    """
    refuse_link_out(file, within=within)
    try:
        about = file.stat()
        if not stat.S_ISREG(about.st_mode):
            raise UnreadableError(file, None, "is not a regular file")
        if about.st_size > MAX_BYTES:
            raise UnreadableError(file, None, f"is larger than {MAX_BYTES // 1024 // 1024} MB: too large to be read")
        raw = file.read_bytes()
    except OSError as error:
        raise UnreadableError(file, None, _reason(error)) from error
    return _decoded(file, raw)


def refuse_link_out(path: Path, *, within: Path) -> None:
    """Raise UnreadableError if the path is a broken link, a loop, or leads out of `within`."""
    try:
        target = path.resolve(strict=True)
        inside = target.is_relative_to(within.resolve())
    except (OSError, RuntimeError) as error:  # RuntimeError: how Python 3.11 names a loop of links
        raise UnreadableError(path, None, f"leads nowhere ({_reason(error)})") from error
    if not inside:
        raise UnreadableError(path, None, f"is a link that leads out of {within}: copy what it points to instead")


def _decoded(file: Path, raw: bytes) -> str:
    nul = raw.find(b"\0")
    if nul >= 0:
        raise UnreadableError(file, raw.count(b"\n", 0, nul) + 1, "holds a NUL character: it is not a text file")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        message = f"is not UTF-8 (byte 0x{raw[error.start]:02x}): save it as UTF-8"
        raise UnreadableError(file, line, message) from error
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _reason(error: OSError | RuntimeError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
