"""`ralph accept`: edits that were held, as they could be an agent's, are shown, applied or forgotten."""

from collections.abc import Sequence

import click

from rulebook_ralph.app import App
from rulebook_ralph.commands import accept_views
from rulebook_ralph.commands.accept_views import View
from rulebook_ralph.commands.person_only import refuse_inside
from rulebook_ralph.commands.projects import open_root
from rulebook_ralph.commands.task_delivery import deliver
from rulebook_ralph.console import Console
from rulebook_ralph.core import taking
from rulebook_ralph.core.edits import EditRefusedError
from rulebook_ralph.core.enumeration import counted
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.state import held, lock
from rulebook_ralph.state.lock import RUNS
from rulebook_ralph.state.store import StateFolder


@click.command()
@click.argument("numbers", type=click.IntRange(min=0), nargs=-1, metavar="[N]...")
@click.option("--yes", is_flag=True, help="Do it without asking.")
@click.option("--discard", is_flag=True, help="Forget the edits instead.")
@click.option("--json", is_flag=True, help="Print one JSON object; asks nothing.")
@click.pass_obj
def command(app: App, *, numbers: tuple[int, ...], yes: bool, discard: bool, json: bool) -> int:
    """Show the edits of prd.json, config.yaml and templates/ that are held, and apply them.

    What is written there while an agent works could be the agent's: Ralph puts it back and holds it. If it was yours,
    accept it; also while a run goes on, which takes over the list at once and the configuration with the next
    iteration. What was changed since is merged, task by task and field by field. With N only the edits that were made
    during these iterations. 'ralph task' needs none of this: what it changes counts at once.
    """
    root, repository = open_root(app)
    folder = StateFolder(root)
    refuse_inside(app, repository.lock_file, "no edit may be accepted")
    running = lock.holder(repository.lock_file)
    places = held.find(repository.private / held.FOLDER, numbers)
    is_running = running is not None and running.command in RUNS
    views = accept_views.views(app, folder, places, is_running=is_running)
    with app.console(json=json) as console:
        _tell(console, views)
        agreed = bool(views) and _agreed(app, console, yes=yes, discard=discard, json=json)
        done: list[View] = []
        refused: dict[str, str] = {}
        if agreed:
            done = _discard(console, views) if discard else _accept(app, console, folder, views, refused)
        if json:
            console.json(_as_json(views, done, refused, discard=discard))
    return ExitCode.INVALID if refused else ExitCode.OK


def _tell(console: Console, views: Sequence[View]) -> None:
    if not views:
        console.line("no edit is held")
    for view in views:
        console.line(f"{view.name} ({view.held.place.path})")
        for line in view.lines:
            console.line(f"  {line}")
        if view.problem:
            console.line(f"  cannot be accepted: {view.problem}")
        elif view.sent is None:
            console.line("  all of it is so already")


def _agreed(app: App, console: Console, *, yes: bool, discard: bool, json: bool) -> bool:
    """Asks where there is somebody to ask."""
    if yes:
        return True
    what, option = ("Forget", "--discard ") if discard else ("Apply", "")
    if not json and app.has_person:
        return click.confirm(f"{what} this?")
    others = "" if discard else "; ralph accept --discard --yes forgets it"
    console.line(f"nothing was changed; ralph accept {option}--yes {'forgets' if discard else 'applies'} it{others}")
    return False


def _discard(console: Console, views: Sequence[View]) -> list[View]:
    for view in views:
        _remove(view)
    console.line(f"{counted(len(views), 'edit')} forgotten")
    return list(views)


def _accept(
    app: App, console: Console, folder: StateFolder, views: Sequence[View], refused: dict[str, str]
) -> list[View]:
    """Each by itself: what cannot be is said and stays held."""
    done = []
    for view in views:
        path = str(view.held.place.path)
        if view.problem:
            refused[path] = view.problem
            continue
        try:
            if view.sent is not None:
                console.line(f"{view.name}: {deliver(app, view.sent)}")
        except RalphError as error:
            refused[path] = _told(folder, view, error)
            console.error(f"{view.name}: {refused[path]}")
            continue
        if view.waits:
            console.line(f"{view.name}: the rest is still held; accept it again when that attempt has ended")
            continue
        _remove(view)
        done.append(view)
    if refused:
        console.error(f"still held, as it could not be accepted: {counted(len(refused), 'edit')}")
    return done


def _told(folder: StateFolder, view: View, error: RalphError) -> str:
    changed = isinstance(error, EditRefusedError) and error.faults == (taking.CHANGED_SINCE,)
    return accept_views.by_hand(folder, view.held) if changed else str(error)


def _remove(view: View) -> None:
    try:
        held.remove(view.held)
    except OSError as error:
        raise RalphError(f"cannot remove {view.held.place.path}: {error.strerror or error}; remove it") from error


def _as_json(
    views: Sequence[View], done: Sequence[View], refused: dict[str, str], *, discard: bool
) -> dict[str, object]:
    paths = [str(view.held.place.path) for view in done]
    return {
        "held": [
            {
                "iteration": view.held.place.number,
                "file": view.held.place.name,
                "path": str(view.held.place.path),
                "changes": view.lines,
                "problem": view.problem or None,
            }
            for view in views
        ],
        "accepted": [] if discard else paths,
        "discarded": paths if discard else [],
        "refused": refused,
    }
