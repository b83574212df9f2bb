"""Changing a project's state or branch from a command that is no run, under the project's lock."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rulebook_ralph.cli.app import App
from rulebook_ralph.cli.delivery import require_settled
from rulebook_ralph.cli.places import OpenedProject, open_project, refuse_agents, require_agreed
from rulebook_ralph.process.cancellation import Cancellation
from rulebook_ralph.report.events import Event
from rulebook_ralph.run import lock
from rulebook_ralph.run.project import RunOptions
from rulebook_ralph.run.start import Prepared


@contextmanager
def alone(app: App, command: str) -> Iterator[OpenedProject]:
    """The project under its lock, while no run goes on and none is to be recovered. Raises RalphError."""
    refuse_agents(app, f"'ralph {command}' is refused")
    opened = open_project(app)
    with lock.hold(opened.project.private, command, since=app.clock.iso()):
        require_settled(opened.project.folder)
        yield opened


@contextmanager
def prepared(app: App, command: str, *, report: Callable[[Event], None], cancelled: Cancellation) -> Iterator[Prepared]:
    """The parts of a run, without any agent's work. Raises RalphError."""
    with alone(app, command) as opened:
        require_agreed(app, opened)
        parts = Prepared(
            opened.project,
            RunOptions(command=command),
            report=report,
            clock=app.clock,
            cancelled=cancelled,
            reread=lambda: None,
        )
        with parts:
            yield parts
