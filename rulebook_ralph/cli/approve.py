"""`ralph approve` and `ralph land`: work that waits, for a person's word or for the branch to follow."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import click

from rulebook_ralph.cli.app import App, interruptible
from rulebook_ralph.cli.delivery import prepared
from rulebook_ralph.cli.places import state_folder
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.report.console import Console
from rulebook_ralph.report.events import BranchWaiting, Event
from rulebook_ralph.run import approval
from rulebook_ralph.run.conclusion import commit_state
from rulebook_ralph.tasks import history
from rulebook_ralph.tasks.disk import StateFolder
from rulebook_ralph.tasks.history import Iteration
from rulebook_ralph.tasks.model import Task
from rulebook_ralph.tasks.prd_file import read_prd
from rulebook_ralph.tasks.results import Evidence
from rulebook_ralph.tasks.text import some


@click.command("approve")
@click.argument("task_ids", nargs=-1, metavar="[TASK…]")
@click.option("--list", "only_list", is_flag=True, help="List what waits.")
@click.option("--show", is_flag=True, help="Show what is open about the work, and how to see its diff.")
@click.option("--reject", metavar="REASON", help="Refuse the work: the next attempt is told REASON.")
@click.option("--json", is_flag=True, help="With --list or --show: print one JSON object.")
@click.pass_obj
def approve_command(
    app: App, task_ids: tuple[str, ...], *, only_list: bool, show: bool, reject: str | None, json: bool
) -> ExitCode:
    """Agree to the work at TASK, which waits for you: it is judged again on today's branch, all but what you answered
    for, and lands. Exit code 3 says that it does not hold.
    """
    if reject is not None and not reject.strip():
        raise RalphError("--reject says nothing; say what is wrong: the next attempt is told")
    folder = state_folder(app)
    prd = read_prd(folder.prd)
    tasks = tuple(approval.require_waiting(prd, task_id) for task_id in dict.fromkeys(task_ids))
    if only_list or show or not tasks:
        _look(app, folder, tasks or approval.waiting(prd), whole=show, json=json)
        return ExitCode.OK
    refused = []
    with (
        app.console() as console,
        interruptible() as cancelled,
        prepared(app, "approve", report=_but_for_the_branch(console), cancelled=cancelled) as run,
    ):
        for task in tasks:
            if reject is not None:
                approval.reject(run, task.id, reject)
                console.line(f"{task.id}: refused; its next attempt is told why: ralph resume")
                continue
            outcome = approval.approve(run, task.id)
            if outcome.commit is None:
                refused.append(task.id)
                console.line(f"{task.id}: does not hold on today's branch: {outcome.reason}")
            else:
                console.line(f"{task.id}: landed as {outcome.commit[:10]}")
        if run.branch.waiting is not None:
            refused.append(run.branch.name)
            console.error(f"{run.branch.why_it_waits}; {run.branch.way_on}")
        commit_state(run, f"ralph: state after approving {', '.join(task_ids)}")
    return ExitCode.BLOCKED if refused else ExitCode.OK


def _but_for_the_branch(console: Console) -> Callable[[Event], None]:
    """Show all but that the branch waits: that is said once, at the end."""
    return lambda event: None if isinstance(event, BranchWaiting) else console.report(event)


def _look(app: App, folder: StateFolder, tasks: Sequence[Task], *, whole: bool, json: bool) -> None:
    """What waits; with `whole` all that is open about it."""
    records = {task.id: _last(folder, task) for task in tasks}
    with app.console(json=json) as console:
        if json:
            console.json({"waiting": [_as_json(task, records[task.id]) for task in tasks]})
        elif whole and tasks:
            for task in tasks:
                _show(console, task, records[task.id])
        elif tasks:
            console.table(("task", "title", "what is open"), ((t.id, t.title, t.blocked_reason or "") for t in tasks))
            console.line("look at one: ralph approve --show TASK; agree: ralph approve TASK")
        else:
            console.line("no work waits for approval")


def _show(console: Console, task: Task, record: Iteration | None) -> None:
    if record is None:
        raise RalphError(f"the record of the work at {task.id} is gone; run it again: ralph task unblock {task.id}")
    console.line(f"{task.id}: {task.title}")
    console.line(f"  {task.blocked_reason or ''}")
    for label, told in _open(task, record):
        console.line(f"  {label:<10} {told}")
    number = record.iteration_number
    console.line(f"  the diff:  ralph show {number} --diff; all of it: ralph show {number}")
    console.line(f'  agree: ralph approve {task.id}; refuse: ralph approve {task.id} --reject "why"')


def _open(task: Task, record: Iteration) -> Iterator[tuple[str, str]]:
    """What is wanted, what was changed, and what nobody could decide."""
    for criterion in task.acceptance_criteria:
        yield "criterion", criterion
    for changed in record.changed_checks:
        yield changed.change, f"{changed.path}{f': {changed.reason}' if changed.reason else ''}"
    evidence = record.evidence or Evidence()
    broken = tuple(dict.fromkeys(evidence.broken))
    for name in broken:
        yield "fails now", f"{name}, with the checks of the base"
    for name in evidence.turned:
        yield "proof", name
    for item in evidence.asked:
        yield "open", item.item.removesuffix(f" ({some(broken)})")


def _last(folder: StateFolder, task: Task) -> Iteration | None:
    with suppress(RalphError):
        return None if task.settled_iteration is None else history.read(folder, task.settled_iteration)
    return None


def _as_json(task: Task, record: Iteration | None) -> dict[str, object]:
    return {
        "id": task.id,
        "title": task.title,
        "reason": task.blocked_reason,
        "iterationNumber": task.settled_iteration,
        "changedChecks": record.changed_checks if record else (),
        "evidence": record.evidence if record else None,
    }


@click.command("land")
@click.pass_obj
def land_command(app: App) -> ExitCode:
    """Bring in work that waits on Ralph's own ref, as something kept the branch from following. What a person committed
    meanwhile stays below it, and the gates run on both together. Exit code 3 says that it still waits.
    """
    with (
        app.console() as console,
        interruptible() as cancelled,
        prepared(app, "land", report=_but_for_the_branch(console), cancelled=cancelled) as run,
    ):
        branch = run.branch
        before = run.project.repository.commit_of(branch.reference)
        if before is None:
            console.line(f"nothing waits: {branch.name} has all of the work")
            return ExitCode.OK
        if not branch.follow():
            console.error(f"{branch.why_it_waits}; {branch.way_on}")
            return ExitCode.BLOCKED
        commit_state(run, "ralph: state")
        run.journal.write_files()
        console.line(f"{branch.name} has the work: git log --oneline {branch.name}")
    return ExitCode.OK
