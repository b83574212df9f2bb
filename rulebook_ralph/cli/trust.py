"""`ralph trust`: look at every command that could be run here, and agree to what came with a clone or an import."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from rulebook_ralph.cli.app import App
from rulebook_ralph.cli.places import open_project, refuse_agents
from rulebook_ralph.config import trust
from rulebook_ralph.config.commands import ConfiguredCommand
from rulebook_ralph.config.layers import LoadedConfig
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.git.repository import GitError, Repository
from rulebook_ralph.process.orphans import carries_mark
from rulebook_ralph.report.console import Console
from rulebook_ralph.run.project import Project
from rulebook_ralph.tasks import prd_file
from rulebook_ralph.tasks.disk import StateFolder
from rulebook_ralph.tasks.model import Task
from rulebook_ralph.tasks.text import counted, escaped, some
from rulebook_ralph.verify.redaction import Redactor

_SHOWN = 3


@click.command()
@click.option("--yes", "-y", is_flag=True, help="Agree without being asked.")
@click.option("--json", is_flag=True, help="Print one JSON object; the rest goes to stderr; asks nothing.")
@click.pass_obj
def command(app: App, *, yes: bool, json: bool) -> int:
    """Show every command that gates, hooks, agents and criteria of this project would run, and agree to them once.

    What came with a clone, a pull or an import is run only after that; what you write here yourself needs none. Kept
    outside the repository, for this folder. Without --yes it asks, and only where there is somebody to ask.
    """
    refuse_agents(app, "'ralph trust' is refused")
    opened = open_project(app)
    place = _place(app, opened.project.root, opened.project.repository)
    found = _look(app, opened.project, opened.loaded)
    clean = Redactor(app.environment).clean
    new = {each.digest for each in found.new}
    with app.console(json=json) as console:
        _show(console, found.all, new, clean=Redactor(app.environment))
        if new:
            _require_consent(app, console, len(new), yes=yes, asks=not json)
        trust.agree(place, found.all)
        if json:
            listed = [
                {"place": each.place, "command": clean(each.text), "new": each.digest in new} for each in found.all
            ]
            console.json({"success": True, "commands": listed})
        elif new:
            console.line(f"agreed to {counted(len(new), 'command')} in {place.root}")
        else:
            console.line(f"nothing to agree to in {place.root}: {counted(len(found.all), 'command')}, none new")
    return ExitCode.OK


def require_agreed(
    app: App, project: Project, loaded: LoadedConfig, *, trusted: bool = False, asks: bool = True
) -> None:
    """Raises RalphError where a command came from others and nobody agreed to it; at a terminal a person is asked.

    `trusted` is `--trust-commands`; without `asks` nobody is asked, as where a display is on the screen.
    """
    if trusted:
        return
    found = _look(app, project, loaded)
    if not found.new:
        return
    if not (asks and app.has_person) or carries_mark(app.environment):
        raise RalphError(refusal(project.root, found.new))
    with app.console() as console:
        console.line(f"These commands in {project.root} came from others:")
        _show(console, found.new, {each.digest for each in found.new}, clean=Redactor(app.environment))
        _require_consent(app, console, len(found.new), yes=False, asks=True)
    trust.agree(_place(app, project.root, project.repository), found.new)


def refusal(root: Path, new: Sequence[ConfiguredCommand]) -> str:
    """The line that says which commands came from others, and how to agree to them."""
    told = some([escaped(f"{each.place}: {each.text}") for each in new], _SHOWN, "; ")
    return (
        f"{counted(len(new), 'command')} in {root} came from others and need your consent ({told}); to look and agree: "
        "ralph trust (in CI: --trust-commands)"
    )


def note_import(
    app: App, root: Path, repository: Repository, tasks: Iterable[Task], sources: Sequence[Path]
) -> tuple[ConfiguredCommand, ...]:
    """The commands of imported tasks that wait for `ralph trust`, as others wrote the files. Raises RalphError."""
    return trust.imported(_place(app, root, repository), tasks, sources, _asking(repository))


def _look(app: App, project: Project, loaded: LoadedConfig) -> trust.ProjectCommands:
    place = _place(app, project.root, project.repository)
    return trust.look(place, loaded, _tasks(project.folder), _asking(project.repository))


def _place(app: App, root: Path, repository: Repository) -> trust.TrustScope:
    return trust.TrustScope(root, repository.common_dir, trust.records_folder(app.environment, app.home))


def _asking(repository: Repository) -> trust.Ask:
    def ask(*arguments: str, stdin: bytes | None = None) -> bytes | None:
        try:
            return repository.run(*arguments, stdin=stdin)
        except GitError:
            return None

    return ask


def _tasks(folder: StateFolder) -> tuple[Task, ...]:
    """The tasks that may have commands. Raises RalphError where the list cannot be read."""
    if not folder.prd.exists() and not folder.prd.is_symlink():
        return ()
    data = prd_file.read_prd_bytes(folder.prd)
    found = trust.tasks_with_criteria(data)
    return prd_file.decode_prd_quick(data, name=str(folder.prd)).tasks if found is None else found


def _show(console: Console, commands: Iterable[ConfiguredCommand], new: set[str], *, clean: Redactor) -> None:
    for each in commands:
        console.line(f"  {'new   ' if each.digest in new else 'agreed'}  {clean.clean(str(each))}")


def _require_consent(app: App, console: Console, count: int, *, yes: bool, asks: bool) -> None:
    """Raises RalphError without it; asks where there is somebody to ask, and stdout is not for an object alone."""
    if yes:
        return
    if not (asks and app.has_person):
        raise RalphError("no command was agreed to; look at them, then give --yes")
    console.line("They run under your account.")
    if not click.confirm(f"Let Ralph run the {counted(count, 'new command')}?"):
        raise RalphError("no command was agreed to")
