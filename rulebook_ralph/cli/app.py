"""The surroundings of a command, made once at the edge: environment, folders, streams, clock; the options that several
take, and how ^C reaches them.
"""

import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import TextIO, cast

import click

from rulebook_ralph.clock import Clock
from rulebook_ralph.errors import RalphError
from rulebook_ralph.process.cancellation import Cancellation
from rulebook_ralph.report.console import Console
from rulebook_ralph.tasks.struct_reading import seconds
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
                Console(
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

    def edit(self, file: Path, *, otherwise: str) -> None:
        """Have the person edit a file. Raises RalphError, which ends with what else to do."""
        editor = self.environment.get("VISUAL") or self.environment.get("EDITOR") or None
        if editor is None and not self.has_person:
            raise RalphError(f"no editor is set; set EDITOR, or {otherwise}")
        try:
            click.edit(filename=str(file), editor=editor, env=self.environment)
        except (click.ClickException, ValueError) as error:
            raise RalphError(f"{error}; set EDITOR, or {otherwise}") from None

    def error(self, text: str) -> None:
        """One line on stderr."""
        with self.console() as console:
            console.error(text)


trust_commands = click.option(
    "--trust-commands", is_flag=True, help="Run what is configured without 'ralph trust': for CI."
)
json_object = click.option("--json", is_flag=True, help="Print one JSON object.")


class Duration(click.ParamType[float]):
    """Seconds: a number, or parts such as 90s, 45m, 1h30m, as in the configuration."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        given = str(value)
        total = float(given) if given.replace(".", "", 1).isdecimal() else seconds(given)
        if not total:
            self.fail(f"'{given}' is no length of time; write 90s, 45m or 1h30m", param, ctx)
        return total


@contextmanager
def interruptible(say: Callable[[], None] | None = None) -> Iterator[Cancellation]:
    """^C (or SIGTERM, or a closed terminal) once asks to end after cleaning up, which `say` says; twice ends at once.

    Only signals count: the first ^C of a run that was cancelled from elsewhere does not cut its cleaning up short.
    """
    cancelled, over = Cancellation(), Cancellation()
    cancelled.at_once = at_once = Cancellation()
    asked = False

    def handle(_number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            at_once.set()
            raise KeyboardInterrupt
        asked = True
        cancelled.set()

    def tell() -> None:
        Cancellation(cancelled, over).wait()  # a signal handler must not write
        if asked and say is not None:
            say()

    orders = [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup wants to outlive the terminal
        orders.append(signal.SIGHUP)
    before = {number: signal.signal(number, handle) for number in orders}
    telling = Thread(target=tell, name="ralph-interrupt", daemon=True)
    telling.start()
    try:
        yield cancelled
    finally:
        over.set()
        telling.join()
        for number, handler in before.items():
            signal.signal(number, handler)
