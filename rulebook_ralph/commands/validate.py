"""`ralph validate`: every problem of prd.json, the iteration files, progress.txt and config.yaml, with its place."""

import click

from rulebook_ralph import config
from rulebook_ralph.app import App
from rulebook_ralph.commands.state_folders import state_folder
from rulebook_ralph.core.enumeration import counted
from rulebook_ralph.errors import ExitCode
from rulebook_ralph.state import progress, validation


@click.command()
@click.option("--json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def command(app: App, *, json: bool) -> int:
    """Look at every state and configuration file; print each problem with file, line and path.

    Ends with 0 when there is none, 2 when there are some.
    """
    folder = state_folder(app)
    problems = validation.validate(folder.root, others=(progress.problems, config.project_problems), thorough=True)
    with app.console(json=json) as console:
        if json:
            console.json({"valid": not problems, "problems": problems})
        else:
            for problem in problems:
                console.line(str(problem))
            console.line(counted(len(problems), "problem") if problems else "no problems")
    return ExitCode.INVALID if problems else ExitCode.OK
