"""Manifests of a project, read guarded: whatever stands in them, the worst that comes of it is a problem to show."""

import configparser
import json
import re
import shutil
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rulebook_ralph.config.settings import StepKind, VerificationStep
from rulebook_ralph.tasks.importers.source import UnreadableError, read_text_if_there
from rulebook_ralph.tasks.text import Problem

Table = dict[str, Any]


@dataclass(slots=True)
class ManifestProject:
    """A project's root folder and the problems with its manifests so far. `search_path` is where programs are."""

    root: Path
    search_path: str | None
    problems: list[Problem] = field(default_factory=list)

    def has(self, *names: str) -> bool:
        """Whether one of these files is there."""
        return any((self.root / name).is_file() for name in names)

    def can_run(self, program: str) -> bool:
        return shutil.which(program, path=self.search_path) is not None

    def text(self, name: str) -> str:
        """The text of a manifest; empty where it is not there or, then with a problem, cannot be read."""
        try:
            return read_text_if_there(self.root / name, within=self.root) or ""
        except UnreadableError as error:
            self.problems.append(error.problem(self.root))
            return ""

    def toml(self, name: str) -> Table:
        """The table of a TOML manifest; empty as in `text`."""
        return self._parsed(name, tomllib.loads)

    def json(self, name: str) -> Table:
        """The object of a JSON manifest; empty as in `text`."""
        return self._parsed(name, json.loads)

    def ini(self, name: str) -> Table:
        """The sections of an INI file; empty as in `text`."""

        def parse(text: str) -> Table:
            parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
            parser.read_string(text)
            return {section: dict(parser.items(section)) for section in parser.sections()}

        return self._parsed(name, parse)

    def problem(self, name: str, message: str, line: int | None = None) -> None:
        self.problems.append(Problem(name, line, "", message))

    def _parsed(self, name: str, parse: Callable[[str], object]) -> Table:
        text = self.text(name)
        try:
            value = parse(text) if text.strip() else {}
        except (ValueError, RecursionError, configparser.Error) as error:
            line = re.search(r"line:? +(\d+)", str(error))
            self.problem(name, f"cannot be read: {str(error).splitlines()[0]}", int(line[1]) if line else None)
            return {}
        if not isinstance(value, dict):
            self.problem(name, "must hold an object", 1)
            return {}
        return value


@dataclass(frozen=True, slots=True)
class LanguageGates:
    """What one language's manifests tell: steps (named later), the setup of a clone or what is linked into it instead,
    and what a person has to know of that.
    """

    steps: tuple[VerificationStep, ...] = ()
    setup: str = ""
    link: tuple[str, ...] = ()
    note: str = ""


def step(kind: StepKind, command: str, env: dict[str, str] | None = None) -> VerificationStep:
    """A required step, called by its kind until all steps are known."""
    return VerificationStep(name=kind, kind=kind, command=command, env=env or {})


def table(value: object, *keys: str) -> Table:
    """The table below these keys; empty where anything on the way is missing or no table."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def strings(value: object) -> list[str]:
    """The strings in a list; none where it is no list."""
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
