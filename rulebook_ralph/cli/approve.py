"""`ralph approve` and `ralph land`: work that waits, for a person's word or for the branch to follow."""

from collections.abc import Callable

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
from rulebook_ralph.tasks.iteration import Iteration
from rulebook_ralph.tasks.model import Prd, Task
from rulebook_ralph.tasks.prd_file import read_prd
from rulebook_ralph.tasks.text import some
from rulebook_ralph.verify.workspace import Cancelled


@click.command("approve")
@click.argument("task_ids", nargs=-1, metavar="[TASK…]")
@click.option("--list", "only_list", is_flag=True, help="List what waits.")
@click.option("--show", is_flag=True, help="Show what is open about the work, and how to see its diff.")
@click.option("--reject", metavar="REASON", help="Refuse the work: the next attempt is told REASON.")
@click.option("--json", is_flag=True, help="With --list or --show: print one JSON object.")
@click.pass_obj
def approve_command(
    app: App, task_ids: tuple[str, ...], *, only_list: bool, show: bool, reject: str | None, json: bool
) -> int:
    """Agree to the work at TASK, which waits for you: it is judged again on today's branch, all but what you answered
    for, and lands. Exit code 3 says that it does not hold.
    """
    if reject is not None and not reject.strip():
        raise RalphError("--reject says nothing; say what is wrong: the next attempt is told")
    folder = state_folder(app)
    prd = read_prd(folder.prd)
    if only_list or not task_ids:
        return _list(app, folder, prd, json=json)
    for task_id in task_ids:
        approval.require_waiting(prd, task_id)
    if show:
        return _show(app, folder, [prd.task(task_id) for task_id in task_ids], json=json)
    refused = []
    with app.console() as console, interruptible() as cancelled:
        try:
            with prepared(app, "approve", report=_but_for_the_branch(console), cancelled=cancelled) as run:
                for task_id in dict.fromkeys(task_ids):
                    if reject is not None:
                        approval.reject(run, task_id, reject)
                        console.line(f"{task_id}: refused; its next attempt is told why: ralph resume")
                        continue
                    outcome = approval.approve(run, task_id)
                    if outcome.commit is None:
                        refused.append(task_id)
                        console.line(f"{task_id}: does not hold on today's branch: {outcome.reason}")
                    else:
                        console.line(f"{task_id}: landed as {outcome.commit[:10]}")
                if run.branch.waiting is not None:
                    refused.append(run.branch.name)
                    console.error(f"{run.branch.why_it_waits}; {run.branch.way_on}")
                commit_state(run, f"ralph: state after approving {', '.join(task_ids)}")
        except Cancelled:
            return ExitCode.INTERRUPTED
    return ExitCode.BLOCKED if refused else ExitCode.OK


def _but_for_the_branch(console: Console) -> Callable[[Event], None]:
    """Show all but that the branch waits: that is said once, at the end."""
    return lambda event: None if isinstance(event, BranchWaiting) else console.report(event)


def _list(app: App, folder: StateFolder, prd: Prd, *, json: bool) -> int:
    tasks = approval.waiting(prd)
    with app.console(json=json) as console:
        if json:
            console.json({"waiting": [_as_json(task, _last(folder, task)) for task in tasks]})
        elif tasks:
            console.table(("task", "title", "what is open"), ((t.id, t.title, t.blocked_reason or "") for t in tasks))
            console.line("look at one: ralph approve --show TASK; agree: ralph approve TASK")
        else:
            console.line("no work waits for approval")
    return ExitCode.OK


def _show(app: App, folder: StateFolder, tasks: list[Task], *, json: bool) -> int:
    with app.console(json=json) as console:
        for task in tasks:
            record = _last(folder, task)
            if record is None:
                raise RalphError(
                    f"the record of the work at {task.id} is gone; run it again: ralph task unblock {task.id}"
                )
            if json:
                console.json(_as_json(task, record))
            else:
                _show_one(console, task, record)
    return ExitCode.OK


def _show_one(console: Console, task: Task, record: Iteration) -> None:
    console.line(f"{task.id}: {task.title}")
    console.line(f"  {task.blocked_reason or ''}")
    for criterion in task.acceptance_criteria:
        console.line(f"  criterion  {criterion}")
    for changed in record.changed_checks:
        console.line(f"  {changed.change:<10} {changed.path}{f': {changed.reason}' if changed.reason else ''}")
    evidence = record.evidence
    broken = tuple(dict.fromkeys(evidence.broken)) if evidence else ()
    for name in broken:
        console.line(f"  fails now  {name}, with the checks of the base")
    for name in evidence.turned if evidence else ():
        console.line(f"  proof      {name}")
    for item in evidence.asked if evidence else ():
        console.line(f"  open       {item.item.removesuffix(f' ({some(broken)})')}")
    number = record.iteration_number
    console.line(f"  the diff:  ralph show {number} --diff; all of it: ralph show {number}")
    console.line(f'  agree: ralph approve {task.id}; refuse: ralph approve {task.id} --reject "why"')


def _last(folder: StateFolder, task: Task) -> Iteration | None:
    try:
        return None if task.settled_iteration is None else history.read(folder, task.settled_iteration)
    except RalphError:
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
def land_command(app: App) -> int:
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
