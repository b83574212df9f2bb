"""What every source of tasks gives, and how files that nobody vouches for are read."""

import hashlib
import re
import stat
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks.model import Complexity, Json, Task
from rulebook_ralph.tasks.text import Problem, escaped

MAX_BYTES = 2 * 1024 * 1024
LONGEST_SHOWN = 1000
_LONGEST_ID = 30
IN_YAML = (".yaml", ".yml")
IN_MARKDOWN = (".md", ".markdown")
IN_JSON = (".json",)
SUFFIXES = (*IN_YAML, *IN_MARKDOWN, *IN_JSON)
"""How the names of files of tasks end; any other source is a folder."""
COMMIT_MESSAGE = "commitMessage"
"""Where a task's metadata has the subject of its commit."""
DONE_BEFORE: Json = {"imported": "completed"}
"""The metadata of a task that was done when it was imported."""


@dataclass(frozen=True, slots=True)
class SourceProblem:
    """Something in a user's file that cannot be taken as it stands. `line` counts from 1; None is the whole file."""

    file: Path
    line: int | None
    message: str

    def told(self, root: Path) -> str:
        """`path:line: message`, the path relative to `root` where it lies below, always printable on one line."""
        bases = (root, root.resolve())
        file = next((self.file.relative_to(base) for base in bases if self.file.is_relative_to(base)), self.file)
        place = file.as_posix() if self.line is None else f"{file.as_posix()}:{self.line}"
        return escaped(f"{place}: {self.message}", LONGEST_SHOWN)


@dataclass(frozen=True, slots=True)
class SourceReading:
    """What was read. A malformed task is left out of `tasks`, named in `problems`, and its id stands in `refused`.

    `folders` are the folders and files read whole, written as in `Task.source`: a known task from one of them that is
    neither in `tasks` nor in `refused` is no longer there. `project`, `description` and `branch` are what a file says
    of the list itself.
    """

    tasks: tuple[Task, ...] = ()
    problems: tuple[SourceProblem, ...] = ()
    folders: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    project: str = ""
    description: str = ""
    branch: str = ""


def joined(readings: Sequence[SourceReading]) -> SourceReading:
    """Several readings as one, in their order; of the list itself the first that says something counts."""
    return SourceReading(
        tasks=tuple(task for each in readings for task in each.tasks),
        problems=tuple(problem for each in readings for problem in each.problems),
        folders=tuple(folder for each in readings for folder in each.folders),
        refused=tuple(one for each in readings for one in each.refused),
        project=next((each.project for each in readings if each.project), ""),
        description=next((each.description for each in readings if each.description), ""),
        branch=next((each.branch for each in readings if each.branch), ""),
    )


class RefusedTasksError(RalphError):
    """Files of tasks that cannot be taken. The message is the first of `problems` and says how many more there are."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(f"{problems[0]}{more}")
        self.problems = tuple(problems)


class UnreadableError(Exception):
    """A file that cannot be taken, with the problem to show."""

    def __init__(self, file: Path, line: int | None, message: str) -> None:
        super().__init__(message)
        self.problem = SourceProblem(file, line, message)


def shown_path(path: Path, root: Path) -> str:
    """How a file that a person named is called in `Task.source` and in messages: from `root`, where it lies below."""
    whole, root = path.resolve(), root.resolve()
    return escaped(whole.relative_to(root).as_posix() if whole.is_relative_to(root) else str(path), 200)


def word_id(title: str, *place: str, several: bool = False) -> str:
    """An id of a title's first words, at most 30 characters. Where `several` begin alike it ends with a digest of the
    title, and of its `place` where that is needed too.
    """
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode("ascii").lower()
    words = "-".join(re.findall(r"[a-z0-9]+", plain.replace("'", "")))
    whole = "\0".join((title, *place)).encode("utf-8", "surrogatepass")
    end = f"-{hashlib.sha256(whole).hexdigest()[:4]}" if several or not words else ""
    room = _LONGEST_ID - len(end)
    if len(words) > room:
        words = words[: room + 1].rpartition("-")[0] or words[:room]
    return f"{words or 'item'}{end}"


def is_of_words(task_id: str, title: str) -> bool:
    """Whether an id is made of a title: then a task with another title is another one."""
    return task_id.startswith(word_id(title)[:10])


def complexity(size: int) -> Complexity:
    """How complex a task is taken to be, by the number of its items: up to 3 low, 8 medium, 20 high."""
    levels: tuple[tuple[int, Complexity], ...] = ((3, "low"), (8, "medium"), (20, "high"))
    return next((level for most, level in levels if size <= most), "very-high")


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

    Raises UnreadableError for a link that leads out of `within`, anything but a regular file, a file that is too large,
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
        told = f"leads nowhere ({_reason(error)})" if path.is_symlink() else "there is no such file"
        raise UnreadableError(path, None, told) from error
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
