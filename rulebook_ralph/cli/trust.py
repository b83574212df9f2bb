"""`ralph trust`: look at every command that could be run here, and agree to what came with a clone or an import."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from rulebook_ralph.cli.app import App
from rulebook_ralph.cli.places import OpenedProject, open_project, refuse_agents
from rulebook_ralph.config import trust
from rulebook_ralph.config.commands import ConfiguredCommand
from rulebook_ralph.errors import RalphError
from rulebook_ralph.git.repository import GitError, Repository
from rulebook_ralph.process.tree import carries_mark
from rulebook_ralph.report.console import Console
from rulebook_ralph.tasks import prd_file
from rulebook_ralph.tasks.disk import StateFolder
from rulebook_ralph.tasks.model import Task
from rulebook_ralph.tasks.text import counted, escaped, some

_SHOWN = 3


@click.command()
@click.option("--yes", "-y", is_flag=True, help="Agree without being asked.")
@click.option("--json", is_flag=True, help="Print one JSON object; the rest goes to stderr; asks nothing.")
@click.pass_obj
def trust_command(app: App, *, yes: bool, json: bool) -> None:
    """Show every command that gates, hooks, agents and criteria of this project would run, and agree to them once.

    What came with a clone, a pull or an import is run only after that; what you write here yourself needs none. Kept
    outside the repository, for this folder. Without --yes it asks, and only where there is somebody to ask.
    """
    refuse_agents(app, "'ralph trust' is refused")
    opened = open_project(app)
    place, found = look(app, opened)
    new = {each.digest for each in found.new}
    with app.console(json=json) as console:
        _show(console, found.all, new)
        if new and not yes:
            _require_consent(app, console, len(new), asks=not json)
        trust.agree(place, found.all)
        if json:
            listed = [{"place": each.place, "command": each.text, "new": each.digest in new} for each in found.all]
            console.json({"success": True, "commands": listed})
        elif new:
            console.line(f"agreed to {counted(len(new), 'command')} in {place.root}")
        else:
            console.line(f"nothing to agree to in {place.root}: {counted(len(found.all), 'command')}, none new")


def require_agreed(app: App, opened: OpenedProject, *, trusted: bool = False, asks: bool = True) -> None:
    """Raises RalphError where a command came from others and nobody agreed to it; at a terminal a person is asked.

    `trusted` is `--trust-commands`; without `asks` nobody is asked, as where a display is on the screen.
    """
    if trusted:
        return
    place, found = look(app, opened)
    if not found.new:
        return
    if not (asks and app.has_person) or carries_mark(app.environment):
        told = some([escaped(f"{each.place}: {each.text}") for each in found.new], _SHOWN, "; ")
        raise RalphError(
            f"{counted(len(found.new), 'command')} in {place.root} came from others and need your consent ({told}); to "
            "look and agree: ralph trust (in CI: --trust-commands)"
        )
    with app.console() as console:
        console.line(f"These commands in {place.root} came from others:")
        _show(console, found.new, {each.digest for each in found.new})
        _require_consent(app, console, len(found.new), asks=True)
    trust.agree(place, found.new)


def note_import(
    app: App, root: Path, repository: Repository, tasks: Iterable[Task], sources: Sequence[Path]
) -> tuple[ConfiguredCommand, ...]:
    """The commands of imported tasks that wait for `ralph trust`, as others wrote the files. Raises RalphError."""
    return trust.imported(scope(app, root, repository), tasks, sources, _asking(repository))


def look(app: App, opened: OpenedProject) -> tuple[trust.TrustScope, trust.ProjectCommands]:
    """All commands of the project, and those among them that nobody agreed to. Raises RalphError."""
    project = opened.project
    place = scope(app, project.root, project.repository)
    return place, trust.look(place, opened.loaded, tasks_of(project.folder), _asking(project.repository))


def scope(app: App, root: Path, repository: Repository) -> trust.TrustScope:
    """What an agreement here is about, and where it is kept."""
    return trust.TrustScope(root, repository.common_dir, trust.records_folder(app.environment, app.home))


def _asking(repository: Repository) -> trust.Ask:
    def ask(*arguments: str, stdin: bytes | None = None) -> bytes | None:
        try:
            return repository.run(*arguments, stdin=stdin)
        except GitError:
            return None

    return ask


def tasks_of(folder: StateFolder) -> tuple[Task, ...]:
    """The tasks that may have commands. Raises RalphError where the list cannot be read."""
    if not folder.prd.exists() and not folder.prd.is_symlink():
        return ()
    return prd_file.decode_prd_quick(prd_file.read_prd_bytes(folder.prd), name=str(folder.prd)).tasks


def _show(console: Console, commands: Iterable[ConfiguredCommand], new: set[str]) -> None:
    for each in commands:
        console.line(f"  {'new   ' if each.digest in new else 'agreed'}  {each}")


def _require_consent(app: App, console: Console, count: int, *, asks: bool) -> None:
    """Raises RalphError without it; asks where there is somebody to ask, and stdout is not for an object alone."""
    if not (asks and app.has_person):
        raise RalphError("no command was agreed to; look at them, then give --yes")
    console.line("They run under your account.")
    if not click.confirm(f"Let Ralph run the {counted(count, 'new command')}?"):
        raise RalphError("no command was agreed to")
