"""A task's `.metadata.json`: what it says of other tasks, and the rest to be kept."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from rulebook_ralph.core.model import Json
from rulebook_ralph.sources.source import SourceProblem
from rulebook_ralph.sources.text_file import UnreadableError

_READ_ELSEWHERE = ("status", "blocks", "blockedBy")


@dataclass(frozen=True, slots=True)
class Reference:
    """Another task named in a file. `line` counts from 1."""

    task_id: str
    file: Path
    line: int | None


@dataclass(frozen=True, slots=True)
class Metadata:
    """`kept` is everything but the status (the checkboxes are the truth) and the references."""

    kept: Json = field(default_factory=dict)
    blocked_by: tuple[Reference, ...] = ()
    blocks: tuple[Reference, ...] = ()
    problems: tuple[SourceProblem, ...] = ()


def read(file: Path, text: str) -> Metadata:
    """Read the text of a .metadata.json. Raises UnreadableError, with the line, if it is no JSON object."""
    try:
        value = msgspec.json.decode(text)
        msgspec.json.encode(value)  # what cannot be written to prd.json again is refused here
    except (ValueError, OverflowError, RecursionError) as error:
        line, reason = _explained(text)
        raise UnreadableError(file, line, f"is not valid JSON: {reason or error}") from error
    if not isinstance(value, dict):
        raise UnreadableError(file, 1, "must hold a JSON object")
    problems: list[SourceProblem] = []
    return Metadata(
        kept={key: kept for key, kept in value.items() if key not in _READ_ELSEWHERE},
        blocked_by=_references(file, text, value, "blockedBy", problems),
        blocks=_references(file, text, value, "blocks", problems),
        problems=tuple(problems),
    )


def _references(file: Path, text: str, value: Json, key: str, problems: list[SourceProblem]) -> tuple[Reference, ...]:
    listed = value.get(key)
    if listed is None:
        return ()
    if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
        problems.append(
            SourceProblem(file, _line_of(text, key, ""), f"{key} must be a list of task ids: it is left out")
        )
        return ()
    return tuple(Reference(one, file, _line_of(text, key, one)) for one in dict.fromkeys(listed))


def _line_of(text: str, key: str, task_id: str) -> int | None:
    start = text.find(f'"{key}"')
    named = text.find(json.dumps(task_id, ensure_ascii=False), start) if task_id else start
    position = named if named >= 0 else start
    return text.count("\n", 0, position) + 1 if position >= 0 else None


def _explained(text: str) -> tuple[int | None, str]:
    """Line and reason of what is wrong, from the reader that knows lines."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return error.lineno, f"{error.msg} (column {error.colno})"
    except (ValueError, RecursionError):
        pass
    return None, ""
