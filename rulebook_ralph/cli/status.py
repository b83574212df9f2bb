"""`ralph status`: where the tasks stand, and what a run does now. Reads one file and lists one folder, to be quick."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec

from rulebook_ralph.cli.app import App, json_object
from rulebook_ralph.cli.places import open_root, private_folder, state_folder
from rulebook_ralph.errors import RalphError
from rulebook_ralph.report.console import Console
from rulebook_ralph.tasks import prd_file, text
from rulebook_ralph.tasks.disk import StateFolder
from rulebook_ralph.tasks.model import PRD_VERSION, Prd, Status, Totals, Value
from rulebook_ralph.tasks.text import counted

if TYPE_CHECKING:
    from rulebook_ralph.run.control import LimitWait, RunSituation  # sockets, only while a run goes on
    from rulebook_ralph.run.lock import Holder

_ROWS = 40
_STATUSES = ("completed", "in_iteration", "pending", "blocked")
_STYLES = {"status": {"completed": "green", "in iteration": "bold", "blocked": "red", "pending": "dim"}}


class TaskRow(Value, frozen=True, kw_only=True):
    """A task as a row of the table: of a large list, to decode the rest is most of the cost."""

    id: str
    title: str
    status: Status = "pending"
    stage: str | None = None
    attempts: dict[str, int] = {}
    blocked_reason: str | None = None
    cost_usd: float = 0.0
    settled_iteration: int | None = None


class Overview(Value, frozen=True, kw_only=True):
    """The task list as a table."""

    version: int
    project: str
    branch: str = ""
    tasks: tuple[TaskRow, ...] = ()
    totals: Totals = Totals()


@click.command()
@click.option("--all", "everything", is_flag=True, help="List every task, however many.")
@json_object
@click.pass_obj
def command(app: App, *, everything: bool, json: bool) -> int:
    """Where the tasks stand, what they cost so far, and whether a run goes on and what it does."""
    folder = state_folder(app)
    prd, problem = _list(app, folder)
    running, watching, situation, dead = _at_work(folder)
    with app.console(json=json, paged=True) as console:
        if json:
            console.json(
                _as_json(prd, running, situation, folder)
                | {"watching": watching, "dead": dead, "problem": problem or None}
            )
        else:
            lines = _run_lines(running or watching, situation, watching=not running, now=app.clock.now())
            lines += _dead_lines(folder, dead) if dead else []
            _print(console, prd, everything=everything, lines=[*lines, *([problem] if problem else [])])
    return 0


def _list(app: App, folder: StateFolder) -> tuple[Overview, str]:
    """The list, and what is wrong with its file where it is the saved one instead. Raises RalphError."""
    try:
        return decoded(prd_file.read_prd_bytes(folder.prd), name=str(folder.prd)), ""
    except RalphError as error:
        saved = _saved_list(app, folder)
        if saved is None:
            raise
        return saved, f"{error}; this is the list as Ralph saved it, the next run merges both"


def _saved_list(app: App, folder: StateFolder) -> Overview | None:
    from rulebook_ralph.git import attempts  # noqa: PLC0415 - git, only where something is amiss

    _, repository = open_root(app)
    for reference in attempts.state_references(repository):
        if (data := attempts.file_of_state(repository, reference, folder.prd.name)) is not None:
            return decoded(data, name=f"{reference}:{folder.prd.name}")
    return None


def decoded(data: bytes, *, name: str) -> Overview:
    """The overview in the bytes of prd.json. Raises RalphError with file, line and what is wrong with what it reads."""
    try:
        overview = msgspec.json.decode(data, type=Overview)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _of(prd_file.decode_prd_quick(data, name=name))
    if overview.version > PRD_VERSION:
        raise RalphError(f"{name}: {prd_file.NEWER}")
    if len({task.id.casefold() for task in overview.tasks}) < len(overview.tasks):
        return _of(prd_file.decode_prd(data, name=name))  # which says where one is there twice
    return overview


def _of(prd: Prd) -> Overview:
    return msgspec.convert(msgspec.to_builtins(prd), Overview)


class _Work(NamedTuple):
    """The run that goes on, or the watch that waits for something to do, and what it says of itself; else the run that
    died.
    """

    running: "Holder | None" = None
    watching: "Holder | None" = None
    situation: "RunSituation | None" = None
    dead: "Holder | None" = None


def _at_work(folder: StateFolder) -> _Work:
    private = private_folder(folder)
    if not any(_says_something(private / name) for name in ("lock", "watching")):
        return _Work()
    from rulebook_ralph.run import control, lock  # noqa: PLC0415 - not where nothing ever ran

    running = lock.holder(private / "lock")
    watching = None if running else lock.holder(private / lock.WATCH)
    holder = running or watching
    return _Work(
        running,
        watching,
        control.situation(private, holder) if holder else None,
        None if running else lock.dead_run(private / lock.LOCK),
    )


def _says_something(lock_file: Path) -> bool:
    """Whether a lock names somebody: who lets go of it leaves it empty."""
    try:
        return lock_file.lstat().st_size > 0
    except OSError:
        return False


def _run_lines(
    holder: "Holder | None", situation: "RunSituation | None", *, watching: bool, now: datetime
) -> list[str]:
    """Who works on the project, and what a run says of itself."""
    if holder is None:
        return []
    lines = [f"{'watching' if watching else 'running'}: {holder.told()}"]
    if situation is None:
        return lines
    for work in situation.at_work:
        stage = "" if work.stage == "coder" else f" ({work.stage})"
        lines.append(f"at work: #{work.iteration_number}, {work.task_id}: {work.title}{stage}")
        lines.append(f"  attempt {work.attempt}, agent {work.agent}, for {_since(work.since, now)}")
        if work.waiting:
            lines.append(f"  {_waiting_line(work.waiting, now)}")
    if situation.waiting:
        lines.append(_waiting_line(situation.waiting, now))
    if situation.pausing:
        these = "these iterations" if len(situation.at_work) > 1 else "this iteration"
        lines.append(f"pausing: it ends after {these}")
    if situation.ending:
        lines.append(f"ending now: {situation.ending}")
    return lines


def _dead_lines(folder: StateFolder, dead: "Holder") -> list[str]:
    from rulebook_ralph.tasks import history  # noqa: PLC0415 - only after a crash

    left = ", ".join(f"#{number}" for number in history.unsettled_numbers(folder))
    where = f" in {left}" if left else ""
    return [f"the last run is dead: {dead.told()} ended{where}", "  ralph resume saves its work and goes on"]


def _waiting_line(waiting: "LimitWait", now: datetime) -> str:
    if not waiting.until:
        return waiting.reason
    until = datetime.fromisoformat(waiting.until).astimezone(now.tzinfo)
    left = text.duration((until - now).total_seconds())
    return f"waiting until {until:%H:%M:%S} ({left} more): {waiting.reason}"


def _since(moment: str, now: datetime) -> str:
    return text.duration((now - datetime.fromisoformat(moment)).total_seconds())


def _print(console: Console, prd: Overview, *, everything: bool, lines: list[str]) -> None:
    places: dict[str, list[int]] = {status: [] for status in _STATUSES}
    for index, task in enumerate(prd.tasks):
        places[task.status].append(index)
    console.line(f"{prd.project}: {len(places['completed'])} of {counted(len(prd.tasks), 'task')} completed")
    console.line(
        "  "
        + ", ".join(
            f"{len(places[status])} {status.replace('_', ' ')}" for status in _STATUSES if status != "completed"
        )
    )
    totals = prd.totals
    spent = f"{text.cost(totals.cost_usd, totals.tokens or totals.iterations)}, {text.tokens(totals.tokens)}"
    console.line(f"  {counted(totals.iterations, 'iteration')}, {spent}")
    for line in lines:
        console.line(f"  {line}")
    all_of_them = everything or len(prd.tasks) <= _ROWS
    shown = range(len(prd.tasks)) if all_of_them else _most_telling(places)
    console.line("")
    rows = [_row(prd.tasks[index]) for index in shown]
    console.table(("status", "task", "title", "attempts", "why"), rows, styles=_STYLES)
    if len(shown) < len(prd.tasks):
        console.line(f"… {len(prd.tasks) - len(shown)} more; --all lists them")


def _most_telling(places: dict[str, list[int]]) -> list[int]:
    """Of many tasks: those at work, blocked ones, the next pending and the last completed, in file order."""
    return sorted(
        places["in_iteration"][:_ROWS] + places["blocked"][:15] + places["pending"][:10] + places["completed"][-10:]
    )


def _row(task: TaskRow) -> tuple[str, ...]:
    later = task.status == "in_iteration" and task.stage not in (None, "coder")
    status = task.status.replace("_", " ")
    return (
        f"{status} ({task.stage})" if later else status,
        task.id,
        task.title,
        str(sum(task.attempts.values()) or ""),
        task.blocked_reason or "",
    )


def _running_as_json(running: "Holder | None", situation: "RunSituation | None") -> dict[str, object] | None:
    """The run, and with `answers` what it says of itself: `waiting` and `ending` are null without one."""
    if running is None:
        return None
    told: dict[str, object] = {
        "pid": running.pid,
        "since": running.since,
        "command": running.command,
        "answers": situation is not None,
    }
    if situation is not None:
        told["iterations"] = msgspec.to_builtins(situation.at_work)
        told["waiting"] = msgspec.to_builtins(situation.waiting)
        told["pausing"] = situation.pausing
        told["ending"] = situation.ending or None
    return told


def _as_json(
    prd: Overview, running: "Holder | None", situation: "RunSituation | None", folder: StateFolder
) -> dict[str, object]:
    """What other systems keep in files of their own: `taskIndex` is the task at work, or the next, from 0."""
    from rulebook_ralph.tasks import history  # noqa: PLC0415 - a tenth of the time that the table takes

    numbers = history.numbers(folder)
    at_work = next((index for index, task in enumerate(prd.tasks) if task.status == "in_iteration"), None)
    following = next((index for index, task in enumerate(prd.tasks) if task.status == "pending"), None)
    totals, used = prd.totals, prd.totals.tokens or prd.totals.iterations
    return {
        "project": prd.project,
        "branch": prd.branch or f"ralph/{prd.project}",
        "phase": "execution" if running else "idle",
        "taskIndex": at_work if at_work is not None else following,
        "totalTasks": len(prd.tasks),
        "completed": sum(task.status == "completed" for task in prd.tasks),
        "blocked": sum(task.status == "blocked" for task in prd.tasks),
        "iterationNumber": numbers[-1] if numbers else 0,
        "totals": {**msgspec.to_builtins(totals), "costUsd": text.known_cost(totals.cost_usd, used)},
        "running": _running_as_json(running, situation),
        "tasks": [
            {
                "id": task.id,
                "title": task.title,
                "status": task.status,
                "stage": task.stage,
                "attempts": task.attempts,
                "blockedReason": task.blocked_reason,
                "costUsd": text.known_cost(task.cost_usd, task.settled_iteration or 0),
            }
            for task in prd.tasks
        ],
    }
