"""What every source of tasks gives, whatever its files look like."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rulebook_ralph.core.model import Json, Task
from rulebook_ralph.core.problem import Problem, escaped
from rulebook_ralph.errors import RalphError

LONGEST_SHOWN = 1000
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

    `folders` are the folders read whole, written as in `Task.source`: a known task from one of them that is neither in
    `tasks` nor in `refused` is no longer there.
    """

    tasks: tuple[Task, ...] = ()
    problems: tuple[SourceProblem, ...] = ()
    folders: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


class RefusedTasksError(RalphError):
    """Files of tasks that cannot be taken. The message is the first of `problems` and says how many more there are."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(f"{problems[0]}{more}")
        self.problems = tuple(problems)


def shown_path(path: Path, root: Path) -> str:
    """How a file that a person named is called in `Task.source` and in messages: from `root`, where it lies below."""
    whole, root = path.resolve(), root.resolve()
    return escaped(whole.relative_to(root).as_posix() if whole.is_relative_to(root) else str(path), 200)
