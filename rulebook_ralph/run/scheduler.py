"""The run: which step is next, and the loop that takes it, until all is done or a stated limit ends it.

`next_action` is a pure function of the run's state; `Run` carries out what it says, with one worker or with several.
A task's way is read here and in `run/attempt.py`: started (`Opening`), worked on and judged in a worker's thread
(`attempt`), settled here (`Settling`), and landed (`Branch`).
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from queue import Empty, SimpleQueue
from threading import Event

from msgspec.structs import replace as replaced

from rulebook_ralph.clock import Clock
from rulebook_ralph.config.settings import Limits
from rulebook_ralph.errors import RalphError
from rulebook_ralph.report import events
from rulebook_ralph.run import conclusion, summaries
from rulebook_ralph.run.attempt import Outcome, attempt, on_top_of
from rulebook_ralph.run.control import CANCELLED, Orders
from rulebook_ralph.run.lock import LOCK, holder
from rulebook_ralph.run.opening import Opened
from rulebook_ralph.run.policy import RunTally, Stop, limit_reached
from rulebook_ralph.run.project import Project, RunOptions
from rulebook_ralph.run.start import Reread, prepare
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """All that decides what is next.

    `running` are the tasks that are worked on, oldest first; `ended` those among them whose attempt has come back.
    `only` restricts to those ids; `reopen` are blocked tasks that are tried once more, after the pending ones; `alone`
    are tasks that could not be merged with others, so nothing runs beside them. `ending` is why the run ends once all
    attempts are settled. `blocked_alike` counts the tasks blocked in a row for one reason.
    """

    prd: Prd
    now: datetime
    running: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    workers: int = 1
    tally: RunTally
    limits: Limits
    max_iterations: int = 1
    only: frozenset[str] = frozenset()
    reopen: frozenset[str] = frozenset()
    alone: frozenset[str] = frozenset()
    ending: Stop | None = None
    wait: Wait | None = None
    blocked_alike: int = 0
    stuck: frozenset[str] = frozenset()


def next_action(state: RunState) -> Start | Settle | Wait | Stop:
    """What a run does next."""
    if state.ended:
        return Settle(state.ended[0])
    if (stop := _why_it_ends(state)) is not None:
        return Wait() if state.running else stop
    if state.wait is not None and state.wait.until is not None and state.wait.until > state.now:
        return state.wait
    if len(state.running) < state.workers and (task_id := _to_start(state)) is not None:
        return Start(task_id)
    if state.running:
        return Wait()
    return summaries.why_nothing_is_left(state.prd, only=state.only, stuck=state.stuck)


def _why_it_ends(state: RunState) -> Stop | None:
    if state.ending is not None:
        return state.ending
    begun = replace(state.tally, iterations=state.tally.iterations + len(state.running))
    could_begin = selection.next_task(state.prd, only=state.only, reopen=state.reopen, busy=state.running) is not None
    if could_begin and (stop := limit_reached(state.limits, begun, max_iterations=state.max_iterations)) is not None:
        return stop
    if state.blocked_alike >= ALIKE_BLOCKED:
        return Stop(
            "error", f"{state.blocked_alike} tasks in a row were blocked for the same reason; look at the agent"
        )
    return None


def _to_start(state: RunState) -> str | None:
    """The next task, if it may be worked on beside those that are."""
    if state.running and any(task_id in state.alone for task_id in state.running):
        return None
    beside = [state.prd.task(task_id) for task_id in state.running if state.prd.has(task_id)]
    task = selection.next_beside(state.prd, beside, only=state.only, reopen=state.reopen)
    if task is None or (state.running and task.id in state.alone):
        return None
    return task.id


@dataclass(slots=True)
class Worked:
    """An attempt that goes on, or has come back."""

    opened: Opened
    future: Future[Outcome]


@dataclass(slots=True)
class Progress:
    """What a run has come to so far; only its own thread changes it."""

    tally: RunTally
    max_iterations: int
    reopen: set[str]
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


class Run:
    """One run over one project, whose lock is held. `run` is called once, in the thread that stays until it returns."""

    def __init__(
        self,
        project: Project,
        options: RunOptions,
        *,
        report: Callable[[events.Event], None],
        clock: Clock,
        cancelled: Event,
        orders: Orders,
        reread: Reread,
    ) -> None:
        self._project = project
        self._options = options
        self._report = report
        self._clock = clock
        self._cancelled = cancelled
        self._orders = orders
        self._reread = reread
        self._happened: SimpleQueue[None] = SimpleQueue()
        self._pool: ThreadPoolExecutor | None = None
        self._working: dict[str, Worked] = {}
        self._started = clock.monotonic()
        self._listed: events.TasksListed | None = None
        self._listed_of: Prd | None = None

    def run(self) -> events.RunEnded:
        """Work until nothing is left or a limit ends it; always leaves a state to resume from. Raises RalphError."""
        self._prepared = prepared = prepare(
            self._project,
            self._options,
            report=self._report,
            clock=self._clock,
            cancelled=self._cancelled,
            reread=self._reread,
        )
        me = holder(self._project.private / LOCK)
        if me is None:
            raise RalphError("the project's lock is not held")
        self._progress = Progress(prepared.tally, prepared.max_iterations, set(prepared.reopen))
        self._started -= prepared.tally.elapsed
        with (
            prepared,
            self._orders.heard(self._project.private, me, wake=self._wake),
            ThreadPoolExecutor(prepared.workers.most, thread_name_prefix="worker") as self._pool,
        ):
            self._say_plan()
            try:
                with suppress(Cancelled):  # the first step is told of it
                    self._aside(prepared.take_baseline)
                while (ended := self._step()) is None:
                    pass
            except BaseException:
                self._cancelled.set()  # no agent goes on without a run
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
        prepared, prd = self._prepared, self._prepared.journal.prd
        self._report(
            summaries.run_planned(
                prd,
                prepared.config,
                branch=prepared.branch.name,
                agent=prepared.roster.name_of(prepared.config.defaults.executor),
                open_tasks=len(selection.plan(prd, only=self._options.only, reopen=prepared.reopen)),
                max_iterations=self._progress.max_iterations,
                workers=prepared.workers.most,
            )
        )

    def _state(self) -> RunState:
        progress, config = self._progress, self._prepared.config
        progress.tally = replace(progress.tally, elapsed=self._clock.monotonic() - self._started)
        return RunState(
            prd=self._prepared.journal.prd,
            now=self._clock.now(),
            running=tuple(self._working),
            ended=tuple(task_id for task_id, worked in self._working.items() if worked.future.done()),
            workers=self._prepared.workers.most,
            tally=progress.tally,
            limits=config.limits,
            max_iterations=progress.max_iterations,
            only=frozenset(self._options.only),
            reopen=frozenset(progress.reopen),
            alone=frozenset(progress.alone),
            ending=progress.ending or self._orders.pause(),
            wait=progress.wait,
            blocked_alike=progress.blocked_alike,
            stuck=frozenset(progress.stuck),
        )

    def _boundary(self) -> None:
        """Between two steps a person's word counts: orders, edits of the task list, of the configuration, commits."""
        prepared, progress = self._prepared, self._progress
        progress.ending = progress.ending or self._orders.stop()
        self._orders.take_edits(prepared.apply_edit)
        prepared.journal.take_edits()
        prepared.take_settings()
        prepared.branch.follow()
        self._list_tasks()
        for number in self._orders.attempts_to_stop():
            for worked in self._working.values():
                if worked.opened.assignment.number == number:
                    worked.opened.worker.stopped.set()
        allowed = prepared.iterations_allowed(progress.reopen)
        limit = prepared.config.limits.max_iterations
        progress.max_iterations = limit or max(progress.max_iterations, progress.tally.iterations + allowed)
        wait = progress.wait
        if wait is not None and (wait.until is None or wait.until <= self._clock.now()):
            progress.wait = progress.waited_until = None
            if wait.until is not None:
                self._report(events.Waiting(wait.reason, wait.until, 0.0))

    def _list_tasks(self) -> None:
        """Said whenever the list is another one than it was."""
        prd = self._prepared.journal.prd
        if prd is self._listed_of:
            return
        self._listed_of = prd
        listed = summaries.tasks_listed(prd, only=self._options.only, reopen=self._progress.reopen)
        if listed != self._listed:
            self._listed = listed
            self._report(listed)

    def _start(self, task_id: str) -> None:
        """Open an iteration and have a worker work on it; nothing is opened where the agent is to be waited for."""
        prepared, progress = self._prepared, self._progress
        base = prepared.branch.tip()
        try:
            self._aside(lambda: prepared.verifiers.gates.red_on(base))
        except Cancelled:  # the next step is told of it
            return
        if _to_start(self._state()) != task_id:  # a person changed the list meanwhile
            return
        task = prepared.journal.prd.task(task_id)
        response = prepared.retry.before(task, prepared.opening.executor_of(task))
        if response is not None and (response.remedy == "stop" or response.until is not None):
            self._bear(response.remedy, response.reason, response.until)
            return
        progress.reopen.discard(task_id)
        opened = prepared.opening.open(
            task,
            index=progress.tally.iterations + len(self._working) + 1,
            max_iterations=progress.max_iterations,
            tally=progress.tally,
            budgets=[worked.opened.assignment.limits.cost_usd or 0.0 for worked in self._working.values()],
        )
        self._submit(opened, attempt, opened.assignment)

    def _aside(self, gates: Callable[[], object]) -> None:
        """Have gates run in a thread of the pool, as long as they take; a person's changes are made meanwhile."""
        if self._pool is None:
            gates()
            return
        future = self._pool.submit(gates)
        future.add_done_callback(lambda _: self._wake())
        while not future.done():
            self._orders.take_edits(self._prepared.apply_edit)
            with suppress(Empty):
                self._happened.get(timeout=_LONGEST_WAIT)
        future.result()

    def _submit(self, opened: Opened, work: Callable[..., Outcome], *arguments: object) -> None:
        if self._pool is None:
            raise RuntimeError("no run goes on")
        future = self._pool.submit(work, *arguments, opened.worker, self._prepared.verifiers)
        self._working[opened.assignment.task.id] = Worked(opened, future)
        future.add_done_callback(lambda _: self._wake())

    def _settle(self, task_id: str) -> None:
        """Settle what came back; work that holds, but not on top of today's branch, is judged there first."""
        prepared, progress = self._prepared, self._progress
        worked = self._working.pop(task_id)
        opened, outcome = worked.opened, self._as_ordered(self._if_wanted(worked.future.result()))
        has_moved = outcome.lands and prepared.branch.tip() != outcome.assignment.base
        settled = None if has_moved else prepared.settling.settle(opened, outcome)
        if settled is None:
            opened, tip = replace(opened, assignment=outcome.assignment), prepared.branch.tip()
            self._submit(opened, on_top_of, tip, prepared.opening.checks_base or tip, outcome)
            return
        prepared.workers.give_back(opened.worker)
        record = settled.record
        progress.tally = replace(
            progress.tally,
            iterations=progress.tally.iterations + 1,
            cost_usd=progress.tally.cost_usd + record.spent_usd,
            tokens=progress.tally.tokens + record.spent_tokens,
        )
        completes = settled.decision.trigger == "complete"
        progress.touched[task_id] = record.commit if completes else None
        attempts, usd = progress.spent.get(task_id, (0, 0.0))
        progress.spent[task_id] = attempts + settled.decision.counts, usd + record.spent_usd
        (progress.alone.add if outcome.unmerged else progress.alone.discard)(task_id)
        if settled.decision.stop_reason == "stuck":
            progress.stuck.add(task_id)
        if completes and prepared.config.git.state_commit == "task":
            conclusion.commit_state(prepared, f"ralph: state after {task_id}")
        self._count_alike(settled.decision.trigger, settled.cause)
        if settled.is_free and prepared.config.limits.max_iterations is None:
            progress.max_iterations += 1  # an attempt that does not count takes none away
        self._report(summaries.settled_event(record, settled.decision, prepared.journal.prd, progress.tally))
        if settled.response is not None:
            self._bear(settled.response.remedy, settled.response.reason, settled.response.until)
        elif (reason := settled.decision.run_stop_reason) is not None:
            progress.ending = progress.ending or Stop(reason, settled.decision.run_stop_text)

    def _if_wanted(self, outcome: Outcome) -> Outcome:
        """Work at a task that a person took out of the list, or gave another id, does not land."""
        if not outcome.lands or self._prepared.journal.prd.has(outcome.assignment.task.id):
            return outcome
        told = f"{outcome.assignment.task.id} is not in the task list any more; its work is kept in {outcome.snapshot}"
        verdict = Verdict(action="continue", hook="task", reason=told, counts=False)
        return replace(outcome, judgement=replace(outcome.judgement, verdict=verdict), commit=None)

    def _as_ordered(self, outcome: Outcome) -> Outcome:
        """An attempt that 'ralph cancel' cut short is said to be cancelled."""
        if outcome.verdict.stop_reason != "interrupted" or self._orders.stop() != CANCELLED:
            return outcome
        verdict = replaced(outcome.verdict, stop_reason="cancelled", reason="cancelled by 'ralph cancel'")
        return replace(outcome, judgement=replace(outcome.judgement, verdict=verdict))

    def _bear(self, remedy: str, reason: str, until: datetime | None) -> None:
        """What follows from an agent that failed: the run waits for it, or ends."""
        if remedy == "stop":
            limited = self._prepared.retry.is_limited
            self._progress.ending = self._progress.ending or Stop("rate-limited" if limited else "error", reason)
        elif remedy == "wait" and until is not None:
            left = self._time_left()
            if left is not None and (until - self._clock.now()).total_seconds() >= left:
                told = f"the run's time limit comes before the agent can go on: {reason}"
                self._progress.ending = self._progress.ending or Stop("max-wall-time", told)
            else:
                self._progress.wait = Wait(until, reason)

    def _time_left(self) -> float | None:
        limit = self._prepared.config.limits.max_run_wall_time
        return None if limit is None else limit - (self._clock.monotonic() - self._started)

    def _count_alike(self, trigger: str, cause: str) -> None:
        """Tasks blocked in a row for one reason."""
        progress = self._progress
        if trigger == "block" and cause:
            progress.blocked_alike = progress.blocked_alike + 1 if cause == progress.blocked_for else 1
            progress.blocked_for = cause
        elif trigger in ("complete", "advance"):
            progress.blocked_alike, progress.blocked_for = 0, ""

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
        prepared, progress = self._prepared, self._progress
        all_done = all(task.status == "completed" for task in prepared.journal.prd.tasks)
        if stop.stop_reason == "complete" and all_done and progress.reviews < conclusion.MOST_REVIEWS:
            progress.reviews += 1
            if conclusion.final_review(prepared):
                return None
        stop = conclusion.honest(prepared, stop)
        prepared.journal.restore_files()
        conclusion.commit_state(prepared, "ralph: state")
        ended = summaries.run_ended(
            stop,
            prepared.journal.prd,
            touched=progress.touched,
            spent=progress.spent,
            only=self._options.only,
            tally=progress.tally,
            duration=self._clock.monotonic() - self._started,
            branch=prepared.branch.holder,
            waiting=prepared.branch.way_on,
            again=self._options.again,
        )
        if prepared.journal.problem:
            saved = "what this run did is saved, and merged once the file is mended"
            prepared.notice("warning", f"{prepared.journal.problem}; {saved}: mend it, then: ralph resume")
        self._report(ended)
        return ended
