"""`ralph prune`: a long history cut to what is still needed."""

import click

from rulebook_ralph.cli.app import App
from rulebook_ralph.cli.delivery import alone
from rulebook_ralph.cli.places import open_project
from rulebook_ralph.errors import RalphError
from rulebook_ralph.git.cache import remove_vanished
from rulebook_ralph.report.console import Console
from rulebook_ralph.run import pruning
from rulebook_ralph.run.pruning import Pruning
from rulebook_ralph.tasks.prd_file import read_prd
from rulebook_ralph.tasks.text import counted

_KIB = 1024
_MOST_RANGES = 8


@click.command()
@click.option("--keep", type=click.IntRange(min=1), default=100, show_default=True, metavar="N", help="The newest N.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@click.option("--yes", "-y", is_flag=True, help="Do it without asking.")
@click.option("--json", is_flag=True, help="Print one JSON object; asks nothing.")
@click.pass_obj
def command(app: App, *, keep: int, dry_run: bool, yes: bool, json: bool) -> int:
    """Remove old iterations: their files in history/ and their attempts under refs/ralph/.

    Kept are the newest N of each, all of tasks that are not completed, and what is not settled. Numbering, totals and
    progress.txt stay. Says what goes and asks; where nobody can be asked, nothing is removed without --yes. Git still
    has the files in its commits; the attempts are gone for good. Clones of repositories that are gone go, too.
    """
    with app.console(json=json) as console:
        if dry_run:
            project = open_project(app).project
            planned = pruning.plan(project, read_prd(project.folder.prd), keep=keep)
            _tell(console, planned)
        else:
            planned = _prune(app, console, keep=keep, yes=yes, asks=not json)
        if json:
            console.json(_as_json(planned, removed=not dry_run))
    return 0


def _prune(app: App, console: Console, *, keep: int, yes: bool, asks: bool) -> Pruning:
    """Under the lock."""
    with alone(app, "prune") as (project, _, _):
        prd = read_prd(project.folder.prd)
        planned = pruning.plan(project, prd, keep=keep)
        _tell(console, planned)
        if planned.numbers:
            _require_consent(app, yes=yes, asks=asks)
            pruning.carry_out(project, prd, planned)
            console.line("removed")
        if removed := remove_vanished(project.cache):
            console.line(f"removed the clones of {counted(removed, 'vanished repository', 'vanished repositories')}")
        return planned


def _require_consent(app: App, *, yes: bool, asks: bool) -> None:
    """Raises RalphError without it; asks where there is somebody to ask, and stdout is not for an object alone."""
    if yes:
        return
    if not (asks and app.has_person):
        raise RalphError("nothing was removed; give --yes to remove this, or --dry-run to only look")
    if not click.confirm("Remove this?"):
        raise RalphError("nothing was removed")


def _tell(console: Console, planned: Pruning) -> None:
    stays = f"{counted(planned.kept_files, 'iteration file')} and {counted(planned.kept_attempts, 'attempt')} stay"
    if planned.numbers:
        console.line(
            f"to be removed: {counted(len(planned.files), 'iteration file')} ({_size(planned.size)}) and "
            f"{counted(len(planned.references), 'attempt')}, of {_iterations(planned.numbers)}; {stays}"
        )
    else:
        console.line(f"nothing to be removed; {stays}")


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


def _as_json(planned: Pruning, *, removed: bool) -> dict[str, object]:
    return {
        "removed": removed and bool(planned.numbers),
        "iterations": planned.numbers,
        "files": [f"history/iteration-{number}.json" for number in planned.files],
        "bytes": planned.size,
        "attempts": sorted(planned.references),
        "keptFiles": planned.kept_files,
        "keptAttempts": planned.kept_attempts,
    }
