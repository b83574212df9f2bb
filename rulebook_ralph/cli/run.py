"""`ralph run` and `ralph resume`: work on the tasks until all is proven done or a stated limit ends it."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import click
from msgspec.structs import replace as replaced

from rulebook_ralph.agents.roster import Roster
from rulebook_ralph.cli import wish
from rulebook_ralph.cli.app import App, Duration, interruptible, trust_commands
from rulebook_ralph.cli.delivery import TASKS_STAY, deliver
from rulebook_ralph.cli.places import OpenedProject, open_project, open_root, refuse_agents
from rulebook_ralph.cli.trust import require_agreed
from rulebook_ralph.config.settings import MOST_WORKERS, Config
from rulebook_ralph.errors import RalphError
from rulebook_ralph.git.landing import require_committer
from rulebook_ralph.process.cancellation import Cancellation
from rulebook_ralph.report import events, notify
from rulebook_ralph.report.console import Console
from rulebook_ralph.report.event_log import EventLog
from rulebook_ralph.run import lock, preflight, rehearsal, summaries
from rulebook_ralph.run.branch import branch_with_list, check_out
from rulebook_ralph.run.control import Orders, Pause
from rulebook_ralph.run.lock import Held
from rulebook_ralph.run.policy import RunTally
from rulebook_ralph.run.project import RunContext, RunOptions
from rulebook_ralph.run.renewal import limits_left
from rulebook_ralph.run.scheduler import Run
from rulebook_ralph.tasks import edits
from rulebook_ralph.tasks.criteria import STAGES
from rulebook_ralph.tasks.disk import StateFolder
from rulebook_ralph.tasks.model import Prd
from rulebook_ralph.tasks.text import counted, some
from rulebook_ralph.verify.redaction import Redactor, cleaned

INTERRUPTING = events.Notice("info", "ending: the attempt is saved and not counted; ^C ends at once")


def _flag(*names: str, default: Any = None, **settings: Any) -> Any:
    """A field of Flags, with its option."""
    return field(default=default, metadata={"option": click.option(*names, default=default, **settings)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What `run` and `resume` take from the command line; `run` alone takes a prompt."""

    prompt: str | None = None
    model: str | None = _flag("--model", metavar="NAME", help="The model of the default agent.")
    agent: str | None = _flag("--agent", metavar="ID", help="The agent to use, at every task and stage.")
    tasks: tuple[str, ...] = _flag(
        "--task", "tasks", default=(), metavar="ID", multiple=True, help="Only this task; may be given again."
    )
    max_iterations: int | None = _flag(
        "--max-iterations", type=click.IntRange(min=1), metavar="N", help="End after N iterations."
    )
    max_wall_time: float | None = _flag(
        "--max-wall-time", type=Duration(), metavar="TIME", help="End after TIME: 90s, 45m or 8h."
    )
    max_cost: float | None = _flag(
        "--max-cost", type=click.FloatRange(min=0, min_open=True), metavar="USD", help="End at USD."
    )
    branch: str = _flag("--branch", default="", metavar="NAME", help="The branch that the work happens on.")
    parallel: int | None = _flag(
        "--parallel", type=click.IntRange(min=1, max=MOST_WORKERS), metavar="N", help="Work on up to N tasks at once."
    )
    dry_run: bool = _flag("--dry-run", default=False, is_flag=True, help="Print the plan and the first prompt alone.")
    watch: bool = _flag("--watch", default=False, is_flag=True, help="Stay, and start again when an edit calls for it.")
    json: bool = _flag("--json", default=False, is_flag=True, help="Print one JSON object at the end.")
    events: bool = _flag("--events", default=False, is_flag=True, help="Print each event as a line of JSON.")
    quiet: bool = _flag("--quiet", "-q", default=False, is_flag=True, help="Only iteration ends, warnings and the end.")
    retry_blocked: bool | None = _flag(
        "--retry-blocked/--no-retry-blocked", help="Try blocked tasks once more (run: yes, resume: no)."
    )
    on_limit: str | None = _flag(
        "--on-limit",
        type=click.Choice(["wait", "stop", "fallback"]),
        help="At an agent's usage limit: wait until it resets, end, or go on with its fallback.",
    )
    strict: bool = _flag(
        "--strict", default=False, is_flag=True, help="Refuse tasks without criteria, and a red gate on the base."
    )
    trust_commands: bool = field(default=False, metadata={"option": trust_commands})

    @property
    def settings(self) -> dict[str, object]:
        """The configuration that the command line gives. What is asked for here wins over every role's own agent."""
        return {
            "limits": {
                "maxRunWallTime": self.max_wall_time,
                "maxIterations": self.max_iterations,
                "maxCostUsd": self.max_cost,
                "onLimit": self.on_limit,
            },
            "defaults": {"executor": self.agent, "model": self.model},
            "ralph": {"agents": {stage: {"executor": self.agent} for stage in STAGES}},
            "parallel": {"workers": self.parallel},
        }

    def options(self, command: str) -> RunOptions:
        return RunOptions(
            command=command,
            only=self.tasks,
            retry_blocked=command == "run" if self.retry_blocked is None else self.retry_blocked,
            strict=self.strict,
            branch=self.branch,
            again=f"ralph resume{f' --parallel {self.parallel}' if self.parallel else ''}",
        )


def _options(function: Callable[..., int]) -> Callable[..., int]:
    for each in reversed(fields(Flags)):
        function = each.metadata.get("option", lambda same: same)(function)
    return function


@click.command("run")
@click.option("-p", "--prompt", metavar="TEXT|@FILE|-", help="Work on this alone, as a new task, in any repository.")
@_options
@click.pass_obj
def run_command(app: App, /, **given: object) -> int:
    """Work on the tasks of .rulebook-ralph/prd.json until all is proven done or a limit ends it.

    Ends with 0 when all is complete, 3 with blocked tasks, 4 at a limit, 5 when the agent cannot work, 130 after ^C.
    """
    return start(app, Flags(**given), command="run")  # type: ignore[arg-type]  # click gives what Flags names


@click.command("resume")
@_options
@click.pass_obj
def resume_command(app: App, /, **given: object) -> int:
    """Go on after a stop, ^C or a crash.

    Nothing done is lost or done twice: an interrupted attempt is not counted, and the next one goes on from its work.
    Blocked tasks stay blocked, unless --retry-blocked says otherwise.
    """
    return start(app, Flags(**given), command="resume")  # type: ignore[arg-type]  # click gives what Flags names


def start(app: App, flags: Flags, *, command: str) -> int:
    """Run or rehearse; returns the exit code. Raises RalphError."""
    options = flags.options(command)
    with app.console(quiet=flags.quiet, json=flags.json, events=flags.events) as console:
        prd = None
        if flags.prompt is not None:
            prd, task_id = _wished(app, flags, flags.prompt, console.report)
            options = replace(options, only=(task_id,), again=f"{options.again} --task {task_id}")
        if flags.dry_run:
            rehearsed = rehearsal.rehearse(open_project(app, flags.settings).project, options, app.clock, prd)
            if flags.json:
                console.json(rehearsed)
            else:
                console.verbatim(rehearsal.as_text(rehearsed))
            return 0
        try:
            if flags.watch:
                from rulebook_ralph.cli import watch  # noqa: PLC0415 - only for a watch

                ended = watch.watch(app, flags, options, console)
            else:
                with interruptible(lambda: console.report(INTERRUPTING)) as cancelled:
                    ended = run_once(app, flags, options, console, cancelled)
        except KeyboardInterrupt:
            console.error(f"ended at once; what the agent made is saved by: {options.again}")
            raise
        except RalphError as error:
            if flags.json:
                console.json(summaries.refused_as_json(str(error)))
            raise
        if flags.json:
            console.json(summaries.as_json(ended))
        return summaries.exit_code(ended)


def _wished(app: App, flags: Flags, prompt: str, report: Callable[[events.Event], None]) -> tuple[Prd, str]:
    """The task list with the wish as a task of it, and its id; a rehearsal writes nothing. Raises RalphError."""
    if not flags.dry_run:
        _check_out_state(app, report)
    project = open_project(app, flags.settings).project
    prd = wish.list_of(app, project)
    task = wish.as_task(wish.text_of(app, prompt), prd, project.config)
    if prd.has(task["id"]):
        return prd, task["id"]
    add = edits.Add(tasks=(task,))
    after = edits.apply(prd, add, at=app.clock.iso()).prd
    if not flags.dry_run:
        refuse_agents(app, TASKS_STAY)
        require_committer(project.repository)  # else the list would be there, and no run
        wish.begin_list(app, prd)
        report(events.Notice("info", deliver(app, add)))
    return after, task["id"]


def run_once(
    app: App,
    flags: Flags,
    options: RunOptions,
    console: Console,
    cancelled: Cancellation,
    *,
    report: Callable[[events.Event], None] | None = None,
    spent: RunTally = RunTally(),  # noqa: B008 - frozen
) -> events.RunEnded:
    """One run under the project's lock, shown on the console unless somebody else is to `report`; `spent` is what other
    runs have used of the same limits. Raises RalphError.
    """
    report = report or console.report
    _check_out_state(app, report)
    opened = open_project(app, flags.settings)
    console.rest()
    require_agreed(app, opened, trusted=flags.trust_commands)
    project = replace(opened.project, config=_within(opened.project.config, spent))

    def warn(text: str) -> None:
        report(events.Notice("warning", text))

    def reread() -> Config | None:
        edited = open_project(app, flags.settings)
        require_agreed(app, edited, trusted=flags.trust_commands, asks=False)
        return _within(edited.project.config, spent)

    redactor = Redactor(Roster(project.config, app.environment).secrets())
    with (
        notify.Notifier(
            project.config.notify, project.folder, app.environment, warn=warn, clean=redactor.clean
        ) as notifier,
        lock.hold(project.private, options.command, since=app.clock.iso()) as held,
        EventLog(project.private, now=app.clock.now) as log,
    ):
        end_orphans(held, warn)
        preflight.require_no_secret(project, redactor.clean)
        _say(opened, report)
        if log.problem:
            warn(log.problem)
        for problem in notify.problems(project.config.notify, app.environment):
            warn(problem)

        def happened(event: events.Event) -> None:
            event = cleaned(event, redactor.clean_cut)
            report(event)
            log.write(event)
            notifier.heard(event)

        orders = Orders(cancelled, report=happened, clock=app.clock)
        context = RunContext(report=orders.report, clock=app.clock, cancelled=cancelled, reread=reread)
        with console.steered_by(steering(orders, cancelled, happened)):
            return cleaned(Run(project, options, context, orders).run(), redactor.clean_cut)


def steering(
    orders: Orders, cancelled: Cancellation, report: Callable[[events.Event], None]
) -> Callable[[str, int], None]:
    """What keys do to a run: each with the iteration that it is about, or 0."""

    def steer(key: str, number: int) -> None:
        if key == "p":
            orders.obey(Pause(undo=orders.paused.is_set()))
        elif key == "s":
            orders.stop_attempt(number)
        elif not cancelled.is_set():
            report(INTERRUPTING)
            cancelled.set()

    return steer


def _within(config: Config, spent: RunTally) -> Config:
    return replaced(config, limits=limits_left(config.limits, spent))


def end_orphans(held: Held, warn: Callable[[str], None]) -> None:
    """End what dead runs left running: it would work beside the new one. Raises RalphError where that fails."""
    ended, remain = held.end_orphans()
    if remain:
        many = counted(remain, "process", "processes")
        raise RalphError(f"{many} that a dead run left cannot be ended; end what is left first: ralph doctor")
    if ended:
        warn(f"ended {counted(ended, 'process', 'processes')} that a dead run left running")


def _say(opened: OpenedProject, report: Callable[[events.Event], None]) -> None:
    """What Ralph chose itself, as nobody configured it."""
    if opened.loaded.chosen_executor:
        report(events.Notice("info", opened.loaded.chosen_executor))
    if opened.found is not None:
        gates = some([f"{step.name}: {step.command}" for step in opened.found.steps])
        report(events.Notice("info", f"no gate is configured; found in the project: {gates}"))


def _check_out_state(app: App, report: Callable[[events.Event], None]) -> None:
    """Where another branch is checked out, on which there is no task list: the branch that has it, before anything is
    read from it.
    """
    root, repository = open_root(app)
    if not StateFolder(root).path.exists() and (branch := branch_with_list(repository)):
        report(events.Notice("info", f"{check_out(repository, branch)}, which has the task list"))
