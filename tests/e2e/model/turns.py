"""What a scripted model answers, in words that are no API's and no agent's."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

_TASK = re.compile(r"^# Your task: (.+)$", re.MULTILINE)
_ATTEMPT = re.compile(r"attempt (\d+) of \d+ at this task")


@dataclass(frozen=True, slots=True)
class Say:
    """A final message."""

    text: str


@dataclass(frozen=True, slots=True)
class Write:
    """A new file, at a path below the root, with the tool the agent offers for that."""

    path: str
    content: str


@dataclass(frozen=True, slots=True)
class Shell:
    """A command, with the tool the agent offers for that."""

    command: str


@dataclass(frozen=True, slots=True)
class Use:
    """One tool by its own name; `input` is text for a tool that takes no object. Those `beside` it are used in the same
    message (claude).
    """

    tool: str
    input: dict[str, object] | str
    beside: tuple["Use", ...] = ()


@dataclass(frozen=True, slots=True)
class Refuse:
    """An error of the provider's. `resets` is when a usage limit ends."""

    why: Literal["authentication", "rate-limit", "usage-limit"]
    resets: datetime | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """An answer with all its text but without what tells its end; then the connection is gone."""

    answer: Say


@dataclass(frozen=True, slots=True)
class Hang:
    """No answer, until the agent hangs up."""


Turn = Say | Write | Shell | Use | Refuse | Cut | Hang
Script = Mapping[str, Sequence[Sequence[Turn]]]
"""For each task its attempts, each a list of turns."""


@dataclass(frozen=True, slots=True)
class Request:
    """What an agent sent for an attempt at a task."""

    task: str
    attempt: int
    prompt: str


def request_in(texts: Iterable[str]) -> Request | None:
    """The request, if one of the user's texts is a prompt of Ralph's."""
    for text in texts:
        task, attempt = _TASK.search(text), _ATTEMPT.search(text)
        if task and attempt:
            return Request(task[1], int(attempt[1]), text)
    return None
