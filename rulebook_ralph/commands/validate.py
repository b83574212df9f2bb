"""`ralph validate`: every problem of the state and configuration files, with its place."""

from collections.abc import Iterator
from contextlib import suppress

import click

from rulebook_ralph import config
from rulebook_ralph.app import App
from rulebook_ralph.commands.projects import open_root
from rulebook_ralph.commands.state_folders import state_folder
from rulebook_ralph.core.enumeration import counted
from rulebook_ralph.core.problem import Problem
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.loop import refusals, template_check
from rulebook_ralph.loop.project import Project
from rulebook_ralph.state import progress, store, validation
from rulebook_ralph.state.store import StateFolder


@click.command()
@click.option("--json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def command(app: App, *, json: bool) -> int:
    """Look at every state and configuration file, and at what a run would refuse of what they say together; print each
    problem with file, line and path.

    Ends with 0 when there is none, 2 when there are some.
    """
    folder = state_folder(app)
    looks = (progress.problems, config.project_problems, template_check.problems)
    problems = validation.validate(folder.root, others=looks, thorough=True)
    problems = (*problems, *_together(app, folder, has_problems=bool(problems)))
    with app.console(json=json) as console:
        if json:
            console.json({"valid": not problems, "problems": problems})
        else:
            for problem in problems:
                console.line(str(problem))
            console.line(counted(len(problems), "problem") if problems else "no problems")
    return ExitCode.INVALID if problems else ExitCode.OK


def _together(app: App, folder: StateFolder, *, has_problems: bool) -> Iterator[Problem]:
    """What is wrong outside of the project's files, and with what they say together, where each can be read."""
    if found := config.user_problems(app.environment, app.home):
        yield from found
        return
    if has_problems:
        return
    try:
        settings, prd = config.load(folder.root, environment=app.environment, home=app.home), store.read_prd(folder)
    except RalphError as error:
        where, _, message = str(error).partition(": ")
        yield Problem(where, None, "", message)
        return
    yield from refusals.of_agents(settings, prd, app.environment)
    yield from refusals.of_tasks(settings, prd)
    with suppress(RalphError):  # without a repository there are no names to look at
        repository = open_root(app)[1]
        yield from refusals.of_names(Project(folder.root, folder, repository, settings, app.environment), prd)
