"""`ralph events`: what happens in the run that goes on, or happened in the last one, a line of JSON each."""

import click

from rulebook_ralph.cli.app import App, interruptible
from rulebook_ralph.cli.places import private_folder, state_folder
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.report.event_log import EventLogReader
from rulebook_ralph.run import lock

_LOOK = 0.1


@click.command()
@click.option("--follow", "-f", is_flag=True, help="Go on as long as the run does.")
@click.pass_obj
def events_command(app: App, *, follow: bool) -> ExitCode:
    """The events of the run that goes on, else of the last one, as `ralph run --events` prints them."""
    private = private_folder(state_folder(app))
    reader = EventLogReader(private)
    with app.console() as console, interruptible() as cancelled:
        while True:
            goes_on = follow and lock.holder(private / lock.LOCK) is not None
            try:
                for line in reader.lines():
                    console.raw(line.data + b"\n")
            except OSError as error:
                raise RalphError(f"the events cannot be read: {error}") from None
            if not goes_on:
                return ExitCode.OK
            if cancelled.wait(_LOOK):
                return ExitCode.INTERRUPTED
