"""`ralph land`: the branch follows work that waits for it."""

import click

from rulebook_ralph.cli.app import App
from rulebook_ralph.cli.options import interruptible
from rulebook_ralph.cli.writing import prepared
from rulebook_ralph.errors import ExitCode
from rulebook_ralph.run.conclusion import commit_state


@click.command()
@click.pass_obj
def command(app: App) -> int:
    """Bring in work that waits on Ralph's own ref, as something kept the branch from following. What a person committed
    meanwhile stays below it, and the gates run on both together. Exit code 3 says that it still waits.
    """
    with (
        app.console() as console,
        interruptible() as cancelled,
        prepared(app, "land", report=console.report, cancelled=cancelled) as run,
    ):
        branch = run.branch
        before = run.project.repository.commit_of(branch.reference)
        if before is None:
            console.line(f"nothing waits: {branch.name} has all of the work")
            return ExitCode.OK
        if not branch.follow():
            console.error(branch.why_it_waits)
            return ExitCode.BLOCKED
        commit_state(run, "ralph: state")
        run.journal.write_files()
        console.line(f"{branch.name} has the work: git log --oneline {branch.name}")
    return ExitCode.OK
