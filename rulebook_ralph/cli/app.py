"""The surroundings of a command, made once at the edge: environment, folders, streams, clock."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from rulebook_ralph.clock import Clock
from rulebook_ralph.report.console import Console, open_console
from rulebook_ralph.verify.redaction import Redactor


@dataclass(frozen=True, slots=True)
class App:
    """What commands get instead of looking around for themselves."""

    environment: Mapping[str, str]
    cwd: Path
    home: Path
    stdout: TextIO
    stderr: TextIO
    clock: Clock

    @property
    def has_person(self) -> bool:
        """Whether somebody sits there who can be asked."""
        return self.stdout.isatty() and sys.stdin is not None and sys.stdin.isatty()

    def console(self, *, quiet: bool = False, json: bool = False, events: bool = False) -> Console:
        """The console for a command that shows something."""
        return open_console(
            self.stdout,
            self.stderr,
            environment=self.environment,
            now=self.clock.now,
            quiet=quiet,
            json=json,
            events=events,
            keyboard=sys.stdin.fileno() if self.has_person else None,
            clean=Redactor(self.environment).clean,
        )

    def error(self, text: str) -> None:
        """One line on stderr."""
        with self.console() as console:
            console.error(text)
