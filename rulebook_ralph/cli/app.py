"""The surroundings of a command, made once at the edge: environment, folders, streams, clock."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO, cast

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

    @contextmanager
    def console(
        self,
        *,
        quiet: bool = False,
        json: bool = False,
        events: bool = False,
        paged: bool = False,
        clean: Callable[[str], str] | None = None,
    ) -> Iterator[Console]:
        """The console for a command that shows something; `paged` through a pager where that is a terminal."""
        with ExitStack() as stack:
            pager = stack.enter_context(self._pager()) if paged and not json and self.stdout.isatty() else None
            yield stack.enter_context(
                open_console(
                    pager or self.stdout,
                    self.stderr,
                    environment=self.environment,
                    now=self.clock.now,
                    quiet=quiet,
                    json=json,
                    events=events,
                    keyboard=sys.stdin.fileno() if self.has_person else None,
                    terminal=self.stdout if pager else None,
                    clean=clean or Redactor(self.environment).clean,
                )
            )

    @contextmanager
    def _pager(self) -> "Iterator[TextIO | None]":
        """The input of the pager that git would use; None where there is to be none. Waits until it is left."""
        import subprocess  # noqa: PLC0415 - only at a terminal

        told = subprocess.run(
            ["git", "var", "GIT_PAGER"], capture_output=True, text=True, check=False, cwd=self.cwd, env=self.environment
        )
        command = told.stdout.strip() or "cat"
        if command == "cat" or self.environment.get("TERM", "dumb") == "dumb":
            yield None
            return
        pager = subprocess.Popen(
            ["sh", "-c", command],
            stdin=subprocess.PIPE,
            encoding=self.stdout.encoding,
            errors="replace",
            env={"LESS": "FRX", "LV": "-c", **self.environment},
        )
        try:
            yield cast("TextIO", pager.stdin)
        finally:
            with suppress(OSError):
                cast("TextIO", pager.stdin).close()
            while pager.poll() is None:
                with suppress(KeyboardInterrupt):  # ^C is the pager's own
                    pager.wait()

    def error(self, text: str) -> None:
        """One line on stderr."""
        with self.console() as console:
            console.error(text)
