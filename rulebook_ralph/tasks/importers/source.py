"""What every source of tasks gives, and how files that nobody vouches for are read."""

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks import disk
from rulebook_ralph.tasks.model import Complexity, Json, Task
from rulebook_ralph.tasks.text import Problem, escaped

MAX_BYTES = 2 * 1024 * 1024
MAX_FILES = 20
"""Files that a task names as relevant."""
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
class SourceReading:
    """What was read. A malformed task is left out of `tasks`, named in `problems`, and its id stands in `refused`.

    `folders` are the folders and files read whole, written as in `Task.source`: a known task from one of them that is
    neither in `tasks` nor in `refused` is no longer there. `project`, `description` and `branch` are what a file says
    of the list itself.
    """

    tasks: tuple[Task, ...] = ()
    problems: tuple[Problem, ...] = ()
    folders: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    project: str = ""
    description: str = ""
    branch: str = ""

    def __add__(self, other: "SourceReading") -> "SourceReading":
        """Both as one, in their order; of the list itself the first that says something counts."""
        return SourceReading(
            (*self.tasks, *other.tasks),
            (*self.problems, *other.problems),
            (*self.folders, *other.folders),
            (*self.refused, *other.refused),
            self.project or other.project,
            self.description or other.description,
            self.branch or other.branch,
        )


class RefusedTasksError(RalphError):
    """Files of tasks that cannot be taken. The message is the first of `problems` and says how many more there are."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(f"{problems[0]}{more}")
        self.problems = tuple(problems)


class UnreadableError(Exception):
    """A file that cannot be taken. `line` counts from 1; None is the whole file."""

    def __init__(self, file: Path, line: int | None, message: str) -> None:
        super().__init__(message)
        self.file = file
        self.line = line

    def problem(self, root: Path) -> Problem:
        """What to show, the path from `root` where it lies below, printable on one line."""
        return Problem(shown_path(self.file, root), self.line, "", escaped(str(self), LONGEST_SHOWN))


def shown_path(path: Path, root: Path) -> str:
    """How a file is called in `Task.source` and in messages: from `root`, where it lies below."""
    bases = (base for base in (root, root.resolve()) if path.is_relative_to(base))
    return escaped(next((path.relative_to(base) for base in bases), path).as_posix(), LONGEST_SHOWN)


def word_id(title: str, *places: str, several: bool = False) -> str:
    """An id of a title's first words, at most 30 characters. Where `several` begin alike it ends with a digest of the
    title, and of the places where it stands.
    """
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode("ascii").lower()
    words = "-".join(re.findall(r"[a-z0-9]+", plain.replace("'", "")))
    whole = "\0".join((title, *places)).encode("utf-8", "surrogatepass")
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
        raise UnreadableError(file, None, error.strerror or str(error)) from error
    return read_text(file, within=within)


def read_text(file: Path, *, within: Path) -> str:
    """The text of a UTF-8 file with LF line ends and without a byte order mark.

    Raises UnreadableError for a link that leads out of `within`, anything but a regular file, a file that is too large,
    bytes that are not UTF-8, and NUL characters.
    """
    try:
        raw = disk.read_file(refuse_link_out(file, within=within), largest=MAX_BYTES)
        text = raw.decode("utf-8")
    except OSError as error:
        raise UnreadableError(file, None, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        message = f"is not UTF-8 (byte 0x{raw[error.start]:02x}): save it as UTF-8"
        raise UnreadableError(file, line, message) from error
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise UnreadableError(file, line, "holds a NUL character: it is not a text file")
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def refuse_link_out(path: Path, *, within: Path) -> Path:
    """What the path leads to. Raises UnreadableError if it is a broken link, a loop, or leads out of `within`."""
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: how Python 3.11 names a loop of links
        told = "is a link that leads nowhere" if path.is_symlink() else "there is no such file"
        raise UnreadableError(path, None, told) from error
    if not target.is_relative_to(within.resolve()):
        raise UnreadableError(path, None, f"is a link that leads out of {within}: copy what it points to instead")
    return target
