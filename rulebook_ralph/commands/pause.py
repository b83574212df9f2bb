"""`ralph pause`: the run that goes on ends after this iteration."""

import click

from rulebook_ralph.app import App
from rulebook_ralph.commands.ordering import order
from rulebook_ralph.commands.projects import open_root
from rulebook_ralph.core.orders import Pause
from rulebook_ralph.errors import ExitCode, RalphError


@click.command()
@click.option("--undo", is_flag=True, help="Take it back: the run goes on after all.")
@click.pass_obj
def command(app: App, *, undo: bool) -> int:
    """Let the run that goes on end after this iteration, from another terminal; 'ralph resume' goes on.

    The iteration is judged and settled as always, with --parallel all that go on; a run that waits for an agent's
    limit ends at once. The run itself ends with exit code 0. This command does not wait for it; it ends with 2 where
    no run is going on.
    """
    private = open_root(app)[1].private
    obeyed = order(app, private, Pause(undo=undo))
    if obeyed is None:
        raise RalphError("no run is going on in this project")
    with app.console() as console:
        console.line(obeyed.answer.text)
    return ExitCode.OK
