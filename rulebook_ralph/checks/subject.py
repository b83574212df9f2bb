"""What a check is given to verify, and what it may use for it. Values and functions that the loop hands in."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from rulebook_ralph.core.diff import FileDiff
from rulebook_ralph.core.model import Stage
from rulebook_ralph.core.question import Ask, ModelError, Question

__all__ = ["Ask", "ModelError", "Question", "Subject"]


@dataclass(frozen=True, slots=True)
class Subject:
    """The work of one attempt, as its checks see it.

    `promises` are those given alone on a line in the final message. `diff` is against the base; `relevant_files` are
    texts by path, as they stand in the tree. `tree` is the object id of what is judged: checks with the same command
    on the same tree have the same result. `put_back` undoes what a check changed in the tree or the state folder.
    `clean` takes secrets out of a text. `ask` is None where no model is to be had (`no_model` says why).
    """

    root: Path
    stage: Stage
    promise: str
    promises: tuple[str, ...]
    final_message: str
    commit_messages: tuple[str, ...]
    title: str
    description: str
    acceptance_criteria: tuple[str, ...]
    diff: Callable[[], tuple[FileDiff, ...]]
    relevant_files: Callable[[], Mapping[str, str]]
    tree: Callable[[], str]
    put_back: Callable[[], object]
    environment: Mapping[str, str]
    clean: Callable[[str], str]
    cancelled: Event
    ask: Ask | None = None
    no_model: str = ""
