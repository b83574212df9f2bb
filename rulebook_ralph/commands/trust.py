"""`ralph trust`: look at every command that could be run here, and agree to what came with a clone or an import."""

import click

from rulebook_ralph.app import App
from rulebook_ralph.commands import trusting
from rulebook_ralph.commands.person_only import refuse_inside
from rulebook_ralph.commands.projects import open_project
from rulebook_ralph.console import Console
from rulebook_ralph.core.enumeration import counted
from rulebook_ralph.core.whole_text import whole
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.loop.crew import Crew


@click.command()
@click.option("--yes", "-y", is_flag=True, help="Agree without being asked.")
@click.option("--json", is_flag=True, help="Print one JSON object; the rest goes to stderr; asks nothing.")
@click.pass_obj
def command(app: App, *, yes: bool, json: bool) -> int:
    """Show every command that gates, hooks, agents and criteria of this project would run, and agree to them once.

    What came with a clone, a pull or an import is run only after that; what you configure here yourself needs none.
    Kept outside the repository, for this folder. Without --yes it asks, and only where there is somebody to ask.
    """
    project = open_project(app, overrides={})
    refuse_inside(app, project.repository.lock_file, "'ralph trust' is refused")
    found = trusting.commands_of(app, project)
    clean = Crew(project.config, project.environment).redactor().clean
    strange = {each.digest for each in found.strange}
    with app.console(json=json) as console:
        for each in found.all:
            mark = "new   " if each.digest in strange else "agreed"
            console.line(f"  {mark}  {whole(clean(str(each)))}")
        if strange:
            _require_consent(app, console, len(strange), yes=yes, asks=not json)
        trusting.agree(app, project, found.all)
        if json:
            listed = [
                {"place": each.place, "command": clean(each.text), "new": each.digest in strange} for each in found.all
            ]
            console.json({"success": True, "commands": listed})
        elif strange:
            console.line(f"agreed to {counted(len(strange), 'command')} in {project.root}")
        else:
            console.line(f"nothing to agree to in {project.root}: {counted(len(found.all), 'command')}, none of it new")
    return ExitCode.OK


def _require_consent(app: App, console: Console, count: int, *, yes: bool, asks: bool) -> None:
    """Raises RalphError without it; asks where there is somebody to ask, and stdout is not for an object alone."""
    if yes:
        return
    if not (asks and app.has_person):
        raise RalphError("nothing was agreed to; look at the commands, then give --yes")
    console.line("They run under your account, with all it may do.")
    if not click.confirm(f"Let Ralph run the {counted(count, 'new command')}?"):
        raise RalphError("nothing was agreed to")
