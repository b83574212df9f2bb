"""What looking into one manifest gives, and how manifests are read: guarded, and never raising for their content."""

import json
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rulebook_ralph.core.settings import StepKind, VerificationStep
from rulebook_ralph.sources.source import SourceProblem
from rulebook_ralph.sources.text_file import UnreadableError, read_text_if_there

Table = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Found:
    """Steps (their names are given later) and problems of one manifest or language."""

    steps: tuple[VerificationStep, ...] = ()
    problems: tuple[SourceProblem, ...] = ()


def step(kind: StepKind, command: str, env: dict[str, str] | None = None) -> VerificationStep:
    """A required step, called by its kind until `gates.discover` has seen all."""
    return VerificationStep(name=kind, kind=kind, command=command, env=env or {})


def text_of(file: Path, problems: list[SourceProblem]) -> str:
    """The text of a manifest; empty where it is not there or, then with a problem, cannot be read."""
    try:
        return read_text_if_there(file, within=file.parent) or ""
    except UnreadableError as error:
        problems.append(error.problem)
        return ""


def toml_of(file: Path, problems: list[SourceProblem]) -> Table:
    """The table of a TOML manifest; empty as in `text_of`."""
    return _parsed(file, tomllib.loads, problems)


def json_of(file: Path, problems: list[SourceProblem]) -> Table:
    """The object of a JSON manifest; empty as in `text_of`."""
    return _parsed(file, json.loads, problems)


def table(value: object, *keys: str) -> Table:
    """The table below these keys; empty where anything on the way is missing or no table."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def strings(value: object) -> list[str]:
    """The strings in a list; none where it is no list."""
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _parsed(file: Path, parse: Callable[[str], object], problems: list[SourceProblem]) -> Table:
    text = text_of(file, problems)
    if not text.strip():
        return {}
    try:
        value = parse(text)
    except (ValueError, RecursionError) as error:
        line = re.search(r"line (\d+)", str(error))
        problems.append(SourceProblem(file, int(line[1]) if line else None, f"cannot be read: {error}"))
        return {}
    if not isinstance(value, dict):
        problems.append(SourceProblem(file, 1, "must hold an object"))
        return {}
    return value
