"""The run: which step is next, and the loop that takes it, until all is done or a stated limit ends it.

`next_action` is a pure function of the run's state; `Run` carries out what it says, with one worker or with several.
A task's way is read here and in `run/attempt.py`: started (`open_iteration`), worked on and judged in a worker's thread
(`attempt`), settled here (`settle`), and landed (`Branch`).
"""

from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from queue import Empty, SimpleQueue

from msgspec.structs import replace as replaced

from rulebook_ralph.config.settings import Limits
from rulebook_ralph.report import events
from rulebook_ralph.run import conclusion, summaries
from rulebook_ralph.run.attempt import Outcome, attempt, on_top_of
from rulebook_ralph.run.control import CANCELLED, Orders
from rulebook_ralph.run.opening import Opened, Turn, executor_of, open_iteration
from rulebook_ralph.run.policy import RunTally, Stop, limit_reached
from rulebook_ralph.run.project import Project, RunContext, RunOptions
from rulebook_ralph.run.retry import Response
from rulebook_ralph.run.settling import Settled, settle
from rulebook_ralph.run.start import prepare, take_baseline
from rulebook_ralph.tasks import selection
from rulebook_ralph.tasks.model import Prd
from rulebook_ralph.tasks.results import Verdict
from rulebook_ralph.verify.workspace import Cancelled

ALIKE_BLOCKED = 3
"""So many tasks in a row blocked for one reason: it looks like the agent, so the run ends."""
_LONGEST_WAIT = 1.0
"""Seconds after which a wait looks again for edits and orders."""


@dataclass(frozen=True, slots=True)
class Start:
    """Begin an attempt at that task."""

    task_id: str


@dataclass(frozen=True, slots=True)
class Settle:
    """Settle the attempt at that task, which has come back."""

    task_id: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing can be done before something happens, or before `until`."""

    until: datetime | None = None
    reason: str = ""


@dataclass(slots=True)
class Progress:
    """What a run has come to so far; only its own thread changes it.

    `reopen` are blocked tasks that are tried once more, after the pending ones; `alone` are tasks that could not be
    merged with others, so nothing runs beside them; `stuck` those that were blocked for it. `ending` is why the run
    ends once all attempts are settled. `blocked_alike` counts the tasks blocked in a row for one reason.
    """

    tally: RunTally
    max_iterations: int
    reopen: set[str] = field(default_factory=set)
    touched: dict[str, str | None] = field(default_factory=dict)
    spent: dict[str, tuple[int, float]] = field(default_factory=dict)
    alone: set[str] = field(default_factory=set)
    stuck: set[str] = field(default_factory=set)
    reviews: int = 0
    ending: Stop | None = None
    wait: Wait | None = None
    waited_until: datetime | None = None
    blocked_for: str = ""
    blocked_alike: int = 0

    def end(self, stop: Stop) -> None:
        """End the run, unless something ends it already."""
        self.ending = self.ending or stop

    def take(self, settled: Settled, *, unmerged: bool) -> None:
        """Take a settled iteration into account."""
        record, decision, task_id = settled.record, settled.decision, settled.record.task_id
        self.tally = replace(
            self.tally,
            iterations=self.tally.iterations + 1,
            cost_usd=self.tally.cost_usd + record.spent_usd,
            tokens=self.tally.tokens + record.spent_tokens,
        )
        self.touched[task_id] = record.commit if decision.trigger == "complete" else None
        attempts, usd = self.spent.get(task_id, (0, 0.0))
        self.spent[task_id] = attempts + decision.counts, usd + record.spent_usd
        (self.alone.add if unmerged else self.alone.discard)(task_id)
        if decision.stop_reason == "stuck":
            self.stuck.add(task_id)
        if settled.cause:
            self.blocked_alike = self.blocked_alike + 1 if settled.cause == self.blocked_for else 1
            self.blocked_for = settled.cause
        elif decision.trigger in ("complete", "advance"):
            self.blocked_alike, self.blocked_for = 0, ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """All that decides what is next. `running` are the tasks that are worked on, oldest first; `ended` those among them
    whose attempt has come back. `only` restricts to those ids; `paused` is why nothing more is begun.
    """

    prd: Prd
    progress: Progress
    limits: Limits
    now: datetime
    running: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    workers: int = 1
    only: Collection[str] = ()
    paused: Stop | None = None


def next_action(state: RunState) -> Start | Settle | Wait | Stop:
    """What a run does next."""
    if state.ended:
        return Settle(state.ended[0])
    if (stop := _why_it_ends(state)) is not None:
        return Wait() if state.running else stop
    wait = state.progress.wait
    if wait is not None and wait.until is not None and wait.until > state.now:
        return wait
    if len(state.running) < state.workers and (task_id := _to_start(state)) is not None:
        return Start(task_id)
    if state.running:
        return Wait()
    return summaries.why_nothing_is_left(state.prd, only=state.only, stuck=state.progress.stuck)


def _why_it_ends(state: RunState) -> Stop | None:
    progress, only = state.progress, state.only
    if progress.ending or state.paused:
        return progress.ending or state.paused
    begun = replace(progress.tally, iterations=progress.tally.iterations + len(state.running))
    could_begin = selection.next_task(state.prd, only=only, reopen=progress.reopen, busy=state.running) is not None
    stop = limit_reached(state.limits, begun, max_iterations=progress.max_iterations) if could_begin else None
    if stop is None and progress.blocked_alike >= ALIKE_BLOCKED:
        told = f"{progress.blocked_alike} tasks in a row were blocked for the same reason; look at the agent"
        return Stop("error", told)
    return stop


def _to_start(state: RunState) -> str | None:
    """The next task, if it may be worked on beside those that are."""
    alone = state.progress.alone
    if not alone.isdisjoint(state.running):
        return None
    beside = [state.prd.task(task_id) for task_id in state.running if state.prd.has(task_id)]
    task = selection.next_beside(state.prd, beside, only=state.only, reopen=state.progress.reopen)
    return None if task is None or (state.running and task.id in alone) else task.id


@dataclass(slots=True)
class Worked:
    """An attempt that goes on, or has come back."""

    opened: Opened
    future: Future[Outcome]


class Run:
    """One run over one project, whose lock is held. `run` is called once, in the thread that stays until it returns."""

    def __init__(self, project: Project, options: RunOptions, context: RunContext, orders: Orders) -> None:
        self._project = project
        self._options = options
        self._context = context
        self._report = context.report
        self._clock = context.clock
        self._orders = orders
        self._happened: SimpleQueue[None] = SimpleQueue()
        self._pool: ThreadPoolExecutor | None = None
        self._working: dict[str, Worked] = {}
        self._started = context.clock.monotonic()
        self._listed: events.TasksListed | None = None
        self._listed_of: Prd | None = None

    def run(self) -> events.RunEnded:
        """Work until nothing is left or a limit ends it; always leaves a state to resume from. Raises RalphError."""
        self._parts = parts = prepare(self._project, self._options, self._context)
        self._progress = Progress(parts.tally, parts.max_iterations, set(parts.reopen))
        self._started -= parts.tally.elapsed
        with (
            parts,
            self._orders.heard(self._project.private, wake=self._wake),
            ThreadPoolExecutor(parts.workers.most, thread_name_prefix="worker") as self._pool,
        ):
            self._say_plan()
            try:
                with suppress(Cancelled):  # the first step is told of it
                    self._aside(lambda: take_baseline(parts))
                while (ended := self._step()) is None:
                    pass
            except BaseException:
                self._context.cancelled.set()  # no agent goes on without a run
                raise
            return ended

    def _step(self) -> events.RunEnded | None:
        """Look at what a person said, and do what is next; the end, where that was it."""
        self._boundary()
        match next_action(self._state()):
            case Start(task_id):
                self._start(task_id)
            case Settle(task_id):
                self._settle(task_id)
            case Wait() as wait:
                self._wait(wait)
            case Stop() as stop:
                with suppress(Cancelled):  # while gates or reviewers looked at the whole once more
                    return self._finish(stop)
        return None

    def _say_plan(self) -> None:
        parts, prd, config = self._parts, self._parts.journal.prd, self._parts.config
        self._report(
            events.RunPlanned(
                project=prd.project,
                branch=parts.branch.name,
                agent=parts.roster.name_of(config.defaults.executor),
                open_tasks=len(selection.plan(prd, only=self._options.only, reopen=parts.reopen)),
                total_tasks=len(prd.tasks),
                completed_tasks=sum(task.status == "completed" for task in prd.tasks),
                max_iterations=self._progress.max_iterations,
                max_wall_time=config.limits.max_run_wall_time,
                max_cost_usd=config.limits.max_cost_usd,
                workers=parts.workers.most,
            )
        )

    def _state(self) -> RunState:
        self._progress.tally = replace(self._progress.tally, elapsed=self._clock.monotonic() - self._started)
        return RunState(
            prd=self._parts.journal.prd,
            progress=self._progress,
            limits=self._parts.config.limits,
            now=self._clock.now(),
            running=tuple(self._working),
            ended=tuple(task_id for task_id, worked in self._working.items() if worked.future.done()),
            workers=self._parts.workers.most,
            only=self._options.only,
            paused=self._orders.pause(),
        )

    def _boundary(self) -> None:
        """Between two steps a person's word counts: orders, edits of the task list, of the configuration, commits."""
        parts, progress = self._parts, self._progress
        if stop := self._orders.stop():
            progress.end(stop)
        before = parts.journal.prd
        self._orders.take_edits(parts.apply_edit)
        parts.journal.take_edits()
        edited = parts.journal.prd is not before
        parts.take_settings()
        parts.branch.follow()
        self._list_tasks()
        stopped = self._orders.attempts_to_stop()
        for worked in self._working.values():
            if worked.opened.record.iteration_number in stopped:
                worked.opened.worker.stopped.set()
        if limit := parts.config.limits.max_iterations:
            progress.max_iterations = limit
        elif edited or progress.tally.iterations >= progress.max_iterations:
            allowed = progress.tally.iterations + parts.iterations_allowed(progress.reopen)
            progress.max_iterations = max(progress.max_iterations, allowed)
        wait = progress.wait
        if wait is not None and (wait.until is None or wait.until <= self._clock.now()):
            progress.wait = progress.waited_until = None
            if wait.until is not None:
                self._report(events.Waiting(wait.reason, wait.until, 0.0))

    def _list_tasks(self) -> None:
        """Said whenever the list is another one than it was."""
        prd = self._parts.journal.prd
        if prd is self._listed_of:
            return
        self._listed_of = prd
        listed = summaries.tasks_listed(prd, only=self._options.only, reopen=self._progress.reopen)
        if listed != self._listed:
            self._listed = listed
            self._report(listed)

    def _start(self, task_id: str) -> None:
        """Open an iteration and have a worker work on it; nothing is opened where the agent is to be waited for."""
        parts, progress = self._parts, self._progress
        base = parts.branch.tip()
        try:
            self._aside(lambda: parts.verifiers.gates.red_on(base))
        except Cancelled:  # the next step is told of it
            return
        if _to_start(self._state()) != task_id:  # a person changed the list meanwhile
            return
        task = parts.journal.prd.task(task_id)
        response = parts.retry.before(task, executor_of(parts, task))
        if response is not None and (response.remedy == "stop" or response.until is not None):
            self._bear(response)
            return
        progress.reopen.discard(task_id)
        turn = Turn(
            index=progress.tally.iterations + len(self._working) + 1,
            max_iterations=progress.max_iterations,
            tally=progress.tally,
            budgets=[worked.opened.assignment.limits.cost_usd or 0.0 for worked in self._working.values()],
        )
        opened = open_iteration(parts, task, turn)
        self._submit(opened, attempt, opened.assignment)

    def _aside(self, gates: Callable[[], object]) -> None:
        """Have gates run in a thread of the pool, as long as they take; a person's changes are made meanwhile."""
        if self._pool is None:
            gates()
            return
        future = self._pool.submit(gates)
        future.add_done_callback(lambda _: self._wake())
        while not future.done():
            self._orders.take_edits(self._parts.apply_edit)
            with suppress(Empty):
                self._happened.get(timeout=_LONGEST_WAIT)
        future.result()

    def _submit(self, opened: Opened, work: Callable[..., Outcome], *arguments: object) -> None:
        if self._pool is None:
            raise RuntimeError("no run goes on")
        future = self._pool.submit(work, *arguments, opened.worker, self._parts.verifiers)
        self._working[opened.record.task_id] = Worked(opened, future)
        future.add_done_callback(lambda _: self._wake())

    def _settle(self, task_id: str) -> None:
        """Settle what came back; work that holds, but not on top of today's branch, is judged there first."""
        parts, progress = self._parts, self._progress
        worked = self._working.pop(task_id)
        opened, outcome = worked.opened, self._as_ordered(worked.future.result())
        has_moved = outcome.lands and parts.branch.tip() != outcome.case.base
        settled = None if has_moved else settle(parts, opened.record, outcome)
        if settled is None:
            tip = parts.branch.tip()
            self._submit(opened, on_top_of, tip, parts.checks_base or tip, outcome)
            return
        parts.workers.give_back(task_id)
        progress.take(settled, unmerged=outcome.unmerged)
        if settled.decision.trigger == "complete" and parts.config.git.state_commit == "task":
            conclusion.commit_state(parts, f"ralph: state after {task_id}")
        if settled.is_free and parts.config.limits.max_iterations is None:
            progress.max_iterations += 1  # an attempt that does not count takes none away
        decision = settled.decision
        self._report(summaries.settled_event(settled.record, decision, parts.journal.prd, progress.tally))
        if settled.response is not None:
            self._bear(settled.response)
        elif decision.run_stop_reason is not None:
            progress.end(Stop(decision.run_stop_reason, decision.run_stop_text))

    def _as_ordered(self, outcome: Outcome) -> Outcome:
        """Work at a task that a person took out of the list, or gave another id, does not land; an attempt that 'ralph
        cancel' cut short is said to be cancelled.
        """
        task_id, verdict = outcome.case.task.id, outcome.verdict
        if outcome.lands and not self._parts.journal.prd.has(task_id):
            told = f"{task_id} is not in the task list any more; its work is kept in {outcome.snapshot}"
            return outcome.said(Verdict(action="continue", hook="task", reason=told, counts=False))
        if verdict.stop_reason == "interrupted" and self._orders.stop() == CANCELLED:
            return outcome.said(replaced(verdict, stop_reason="cancelled", reason="cancelled by 'ralph cancel'"))
        return outcome

    def _bear(self, response: Response) -> None:
        """What follows from an agent that failed: the run waits for it, or ends."""
        reason, until = response.reason, response.until
        if response.remedy == "stop":
            self._progress.end(Stop("rate-limited" if response.limited else "error", reason))
        elif response.remedy == "wait" and until is not None:
            limit, elapsed = self._parts.config.limits.max_run_wall_time, self._clock.monotonic() - self._started
            if limit is not None and (until - self._clock.now()).total_seconds() >= limit - elapsed:
                told = f"the run's time limit comes before the agent can go on: {reason}"
                self._progress.end(Stop("max-wall-time", told))
            else:
                self._progress.wait = Wait(until, reason)

    def _wait(self, wait: Wait) -> None:
        """Until an attempt comes back, an order is given, or the time has come; edits are looked for meanwhile."""
        left = _LONGEST_WAIT
        if wait.until is not None:
            seconds = (wait.until - self._clock.now()).total_seconds()
            begins, self._progress.waited_until = wait.until != self._progress.waited_until, wait.until
            self._report(events.Waiting(wait.reason, wait.until, max(0.0, seconds), begins))
            left = max(0.0, min(left, seconds))
        try:
            self._happened.get(timeout=left)
        except Empty:
            return

    def _wake(self) -> None:
        self._happened.put(None)

    def _finish(self, stop: Stop) -> events.RunEnded | None:
        """All is written, committed and told; None where the final review gives the run more to do."""
        parts, progress = self._parts, self._progress
        all_done = all(task.status == "completed" for task in parts.journal.prd.tasks)
        if stop.stop_reason == "complete" and all_done and progress.reviews < conclusion.MOST_REVIEWS:
            progress.reviews += 1
            if conclusion.final_review(parts):
                return None
        stop = conclusion.honest(parts, stop)
        parts.journal.restore_files()
        conclusion.commit_state(parts, "ralph: state")
        ended = summaries.run_ended(
            stop,
            parts.journal.prd,
            touched=progress.touched,
            spent=progress.spent,
            only=self._options.only,
            tally=progress.tally,
            duration=self._clock.monotonic() - self._started,
            branch=parts.branch.holder,
            waiting=parts.branch.way_on,
            again=self._options.again,
        )
        if parts.journal.problem:
            saved = "what this run did is saved, and merged once the file is mended"
            parts.notice("warning", f"{parts.journal.problem}; {saved}: mend it, then: ralph resume")
        self._report(ended)
        return ended
