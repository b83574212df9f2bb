"""`ralph validate`: every problem of the state and configuration files, with its place."""

from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path

import click

from rulebook_ralph import resources
from rulebook_ralph.cli.app import App, json_object
from rulebook_ralph.cli.places import open_project, state_folder
from rulebook_ralph.config.layers import PROJECT_CONFIG, load_config, problems_in, user_config
from rulebook_ralph.config.settings import Config
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.run import preflight, templates
from rulebook_ralph.tasks import prd_file, progress, validation
from rulebook_ralph.tasks.disk import StateFolder
from rulebook_ralph.tasks.text import Problem, counted, json_path


@click.command()
@json_object
@click.pass_obj
def validate_command(app: App, *, json: bool) -> int:
    """Look at every state and configuration file, and at what a run would refuse of what they say together; print each
    problem with file, line and path.

    Ends with 0 when there is none, 2 when there are some.
    """
    folder = state_folder(app)
    problems = all_problems(app, folder)
    misses = () if problems else validation.near_misses(prd_file.read_prd(folder.prd))  # which are kept, and do nothing
    warnings = [Problem(prd_file.PRD_NAME, None, json_path(path), message) for path, message in misses]
    with app.console(json=json) as console:
        if json:
            console.json({"valid": not problems, "problems": problems, "warnings": warnings})
        else:
            for problem in (*problems, *warnings):
                console.line(str(problem))
            console.line(counted(len(problems), "problem") if problems else "no problems")
    return ExitCode.INVALID if problems else ExitCode.OK


def all_problems(app: App, folder: StateFolder) -> tuple[Problem, ...]:
    """Everything that is wrong with the files of a project, and with what they say together, each once."""
    own, root = user_config(app.home, app.environment), folder.root
    of_configs = (*problems_in(root / PROJECT_CONFIG, PROJECT_CONFIG), *templates.problems(root))
    of_state = (*validation.validate(root, resources.schema), *progress.problems(root))
    found = (*of_state, *of_configs, *problems_in(own, str(own)))
    return tuple(dict.fromkeys((*found, *_together(app, folder, told=bool(found)))))


def agent_problems(app: App, root: Path | None, config: Config) -> tuple[Problem, ...]:
    """The agents and reviewers that a configuration names and that cannot be made, with those that tasks name."""
    prd = None
    with suppress(RalphError):
        prd = prd_file.read_prd(StateFolder(root).prd) if root else None
    return tuple(dict.fromkeys(preflight.problems_with_agents(config, prd, app.environment)))


def _together(app: App, folder: StateFolder, *, told: bool) -> Iterator[Problem]:
    """What is wrong with what the files say together, as far as they can be read; why one cannot, unless it is `told`
    already.
    """
    prd = None
    try:
        config = load_config(folder.root, app.home, app.environment).config
        with suppress(RalphError) if told else nullcontext():
            prd = prd_file.read_prd(folder.prd)
    except RalphError as error:
        where, _, message = str(error).partition(": ")
        if not told:
            yield Problem(where, None, "", message)
        return
    if prd is not None:
        with suppress(RalphError):  # without a repository there are no names to look at, and no gates to find
            project = open_project(app).project
            config = project.config
            yield from preflight.problems_with_names(project, prd)
    yield from preflight.problems_with_agents(config, prd, app.environment)
    if prd is not None:
        yield from preflight.problems_with_tasks(config, prd)
