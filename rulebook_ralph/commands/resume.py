"""`ralph resume`: go on from the last incomplete task after a stop, ^C or a crash, with all learnings."""

import click

from rulebook_ralph.app import App
from rulebook_ralph.commands.run import Asked, options, start


@click.command()
@options(retry_blocked=False)
@click.pass_obj
def command(app: App, /, **given: object) -> int:
    """Go on after a stop, ^C or a crash.

    Nothing done is lost or done twice: an interrupted attempt is not counted, and its partial work stays in the tree.
    Blocked tasks stay blocked, unless --retry-blocked says otherwise.
    """
    return start(app, Asked(**given), command="resume")  # type: ignore[arg-type]  # click gives what `options` names
