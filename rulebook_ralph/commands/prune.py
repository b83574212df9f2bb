"""`ralph prune`: a long history cut to what is still needed."""

import click

from rulebook_ralph.app import App
from rulebook_ralph.commands.exclusive import exclusive, is_on_branch
from rulebook_ralph.commands.projects import open_project
from rulebook_ralph.console import Console
from rulebook_ralph.core import events
from rulebook_ralph.core.enumeration import counted
from rulebook_ralph.core.model import Prd
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop import preflight, pruning
from rulebook_ralph.loop.landing import Landing
from rulebook_ralph.loop.project import Project
from rulebook_ralph.loop.pruning import Pruning
from rulebook_ralph.state import store
from rulebook_ralph.workspace import isolated_place
from rulebook_ralph.workspace.snapshot import Workspace

_KIB = 1024
_MOST_RANGES = 8


@click.command()
@click.option("--keep", type=click.IntRange(min=1), default=100, show_default=True, metavar="N", help="The newest N.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@click.option("--yes", "-y", is_flag=True, help="Do it without asking.")
@click.option("--held", is_flag=True, help="Also what Ralph put back during them (.git/ralph/held).")
@click.option("--json", is_flag=True, help="Print one JSON object; asks nothing.")
@click.pass_obj
def command(app: App, *, keep: int, dry_run: bool, yes: bool, held: bool, json: bool) -> int:
    """Remove old iterations: their files in history/ and their snapshots under refs/ralph/.

    Kept are the newest N of each, all of tasks that are not completed, and what is not settled. Numbering, totals and
    progress.txt stay. Says what goes and asks; where nobody can be asked, nothing is removed without --yes. The files
    are removed by a commit, so git still has them; the snapshots, and with them the attempts, are gone for good.
    """
    with app.console(json=json) as console:
        project = open_project(app, overrides={})
        prd = store.read_prd(project.folder)
        if dry_run:
            planned = pruning.plan(project, prd, keep=keep)
            _tell(console, planned, with_held=held)
            committed = False
        else:
            planned, committed = _prune(app, console, project, keep=keep, yes=yes, with_held=held, asks=not json)
            if removed := isolated_place.remove_vanished(app.environment):
                console.line(f"removed {counted(removed, 'checkout')} of dead runs and vanished repositories")
        if json:
            console.json(_as_json(planned, removed=not dry_run, committed=committed, with_held=held))
    return 0


def _prune(
    app: App, console: Console, project: Project, *, keep: int, yes: bool, with_held: bool, asks: bool
) -> tuple[Pruning, bool]:
    """Under the lock: the plan, and whether the state was committed."""
    with exclusive(app, project.repository, project.folder, command="prune"):
        prd = store.read_prd(project.folder)
        preflight.require_usable_name(project, prd)
        preflight.require_nothing_unfinished(project)
        pruning.require_whole_state(project, prd)
        on_branch = is_on_branch(project.repository, prd)
        planned = pruning.plan(project, prd, keep=keep)
        _tell(console, planned, with_held=with_held)
        if not planned.numbers and not (with_held and planned.held):
            return planned, False
        _require_consent(app, yes=yes, asks=asks)
        landing = _landing(app, console, project, prd) if on_branch else None
        pruning.carry_out(project, prd, planned, landing, with_held=with_held)
        console.line(
            "removed" + ("" if on_branch else "; commit .rulebook-ralph/ yourself, as the run's branch is gone")
        )
        return planned, on_branch and project.config.git.state_commit != "none"


def _landing(app: App, console: Console, project: Project, prd: Prd) -> Landing:
    def notice(level: str, text: str) -> None:
        console.report(events.Notice("warning" if level == "warning" else "info", text))

    ready = preflight.require_committer(project)
    return Landing(project, Workspace(project.repository), ready, name=prd.project, clock=app.clock, notice=notice)


def _require_consent(app: App, *, yes: bool, asks: bool) -> None:
    """Raises RalphError without it; asks where there is somebody to ask, and stdout is not for an object alone."""
    if yes:
        return
    if not (asks and app.has_person):
        raise RalphError("nothing was removed; give --yes to remove this, or --dry-run to only look")
    if not click.confirm("Remove this?"):
        raise RalphError("nothing was removed")


def _tell(console: Console, planned: Pruning, *, with_held: bool) -> None:
    stays = f"{counted(planned.kept_files, 'iteration file')} and {counted(planned.kept_snapshots, 'snapshot')} stay"
    if planned.numbers:
        console.line(
            f"to be removed: {counted(len(planned.files), 'iteration file')} ({_size(planned.bytes)}) and "
            f"{counted(len(planned.references), 'snapshot')}, of {_iterations(planned.numbers)}; {stays}"
        )
    else:
        console.line(f"nothing to be removed; {stays}")
    if planned.held:
        where = planned.held[0].parent
        does = "to be removed too" if with_held else "stays, --held removes it"
        console.line(f"what Ralph put back during {counted(len(planned.held), 'old iteration')} ({does}): {where}")


def _iterations(numbers: tuple[int, ...]) -> str:
    """`iterations 1-3, 7 and 9-12`."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    shown = [str(first) if first == last else f"{first}-{last}" for first, last in ranges[:_MOST_RANGES]]
    more = f" and {counted(len(ranges) - _MOST_RANGES, 'more range')}" if len(ranges) > _MOST_RANGES else ""
    return f"{'iteration' if len(numbers) == 1 else 'iterations'} {', '.join(shown)}{more}"


def _size(count: int) -> str:
    if count < _KIB:
        return f"{count} bytes"
    return f"{count / _KIB:.0f} KiB" if count < _KIB**2 else f"{count / _KIB**2:.1f} MiB"


def _as_json(planned: Pruning, *, removed: bool, committed: bool, with_held: bool) -> dict[str, object]:
    return {
        "removed": removed and bool(planned.numbers or (with_held and planned.held)),
        "committed": committed,
        "iterations": planned.numbers,
        "files": [f"history/iteration-{number}.json" for number in planned.files],
        "bytes": planned.bytes,
        "snapshots": sorted(planned.references),
        "held": [str(folder) for folder in planned.held],
        "keptFiles": planned.kept_files,
        "keptSnapshots": planned.kept_snapshots,
    }
