"""A loop in an agent's interactive session: at each of its stops the turn is judged, settled, and the next one opened.

Each stop is a process of its own, so an iteration is opened by one and judged by the next: what the work is measured
against, and what is put back, stand in the private files of the iteration (leftovers.py). All else is as in a run:
the same brief, the same `attempt` with an agent that has worked already, the same settling (turns.py).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from dataclasses import replace as replaced
from datetime import datetime
from threading import Event

from msgspec.structs import replace

from rulebook_ralph.clock import Clock
from rulebook_ralph.core import events, policy, selection
from rulebook_ralph.core.evidence import Iteration
from rulebook_ralph.core.group import group_of
from rulebook_ralph.core.model import Task
from rulebook_ralph.core.orders import Cancel
from rulebook_ralph.core.redaction import Redactor
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop import leftovers, preflight, summary
from rulebook_ralph.loop.assigner import Pass
from rulebook_ralph.loop.base_gates import gates_on_base
from rulebook_ralph.loop.equipment import Outfitter
from rulebook_ralph.loop.inbox import Inbox
from rulebook_ralph.loop.iteration import attempt
from rulebook_ralph.loop.landing import Landing
from rulebook_ralph.loop.opened import Opened
from rulebook_ralph.loop.options import RunOptions
from rulebook_ralph.loop.orders import CANCELLED, PAUSED, Orders
from rulebook_ralph.loop.outside import Outside
from rulebook_ralph.loop.patience import Patience
from rulebook_ralph.loop.preparation import prepare
from rulebook_ralph.loop.project import Project, load_prd
from rulebook_ralph.loop.session_crew import SessionCrew
from rulebook_ralph.loop.session_note import Order, SessionNote
from rulebook_ralph.loop.settler import Settler
from rulebook_ralph.loop.turns import Turns
from rulebook_ralph.loop.worker import InPlace
from rulebook_ralph.state import history
from rulebook_ralph.workspace import guard
from rulebook_ralph.workspace.snapshot import Workspace

ENOUGH = policy.Stop("paused", "as many tasks are done as were asked for; /ralph:implement goes on")
TOO_MANY = policy.Stop(
    "max-iterations", "many answers in a row used no tool, and Claude Code ends such a turn; /ralph:implement goes on"
)


@dataclass(frozen=True, slots=True)
class Step:
    """What came of a stop: the brief that the session goes on with, or why it ends; and what it knows from now on."""

    note: SessionNote
    brief: str = ""
    ended: events.RunEnded | None = None


class SessionLoop:
    """One stop of a session's loop. The project's lock must be held for the session; it hands out up to `at_once` tasks
    that are marked [P] together. `restored` is what was put back in the git folder before git could be asked.
    """

    def __init__(
        self,
        project: Project,
        crew: SessionCrew,
        note: SessionNote,
        *,
        at_once: int,
        restored: guard.Restored,
        report: Callable[[events.Event], None],
        clock: Clock,
        cancelled: Event,
    ) -> None:
        self._note = note
        self._at_once = at_once
        self._restored = restored
        self._orders = Orders(cancelled, report=report, clock=clock)
        self._report, self._notice = self._orders.report, self._orders.notice
        self._clock = clock
        self._cancelled = cancelled
        self._workspace = Workspace(project.repository)
        self._options = RunOptions(command="session")
        outfitter = Outfitter.of(
            project, self._workspace, self._options, self._orders, cancelled=cancelled, clock=clock
        )
        self._gear = outfitter.equip(project, crew)
        self._patience = Patience(project.config, crew, clock=clock, cancelled=self._orders.either, report=self._report)

    @property
    def redactor(self) -> Redactor:
        """Takes out the secrets that are known."""
        return self._gear.redactor

    def begin(self, order: Order, *, after_death: bool) -> Step:
        """The first stop: look at all that could stop a run, mend what a dead one left, open the first iteration."""
        prepared = prepare(
            self._gear,
            self._workspace,
            self._options,
            after_death=after_death,
            clock=self._clock,
            notice=self._notice,
        )
        note = replace(
            self._note,
            cost_usd=self._note.cost_usd + prepared.cost_usd,
            tokens=self._note.tokens + prepared.tokens,
            reopen=tuple(sorted(prepared.reopen)),
        )
        self._take_place(note, prepared.settler, prepared.ready)
        with self._inbox():
            self._turns.base = gates_on_base(self._worker, self._settler, strict=False)
            with self._settler.writing:
                return self._go_on(None, order)

    def judge(self, order: Order, *, row: int, longest_row: int | None) -> Step:
        """Every other stop: judge the turn that has ended, settle it, go on. `row` blocks came before in a row."""
        prd, data = load_prd(self._gear.project.folder)
        ready = preflight.require_committer(self._gear.project)
        landing = Landing(
            self._gear.project, self._workspace, ready, name=prd.project, clock=self._clock, notice=self._notice
        )
        settler = Settler(self._gear.project, landing, prd, data, clock=self._clock, notice=self._notice)
        self._take_place(self._note, settler, ready)
        self._turns.base = settler.past.base()
        opened = self._opened_before()
        if order == "cancel":
            self._orders.take(Cancel())
        settler.watch.begin(opened.assignment.number, prd=data)
        with self._inbox():
            outcome = attempt(opened.assignment, replaced(self._turns.tools(opened), restored=self._restored))
            row = 0 if outcome.result.tool_results else row + 1
            with settler.writing:
                stop = self._turns.settle(opened, outcome)
                self._note = replace(self._note, row=row)
                if stop is None and longest_row is not None and row >= longest_row:
                    stop = TOO_MANY
                return self._go_on(stop, order)

    def close(self) -> None:
        """Remove what was made to judge in."""
        self._gear.gatekeeper.close()

    # Parts

    def _take_place(self, note: SessionNote, settler: Settler, ready: preflight.Ready) -> None:
        outside = Outside.of(self._gear.project, self._workspace)
        self._note, self._settler = note, settler
        self._worker = InPlace(self._gear, self._workspace, outside, settler, self._report)
        self._turns = Turns(
            settler,
            ready,
            self._orders,
            self._patience,
            clock=self._clock,
            cancelled=self._cancelled,
            tally=policy.RunTally(note.iterations, self._elapsed(), note.cost_usd, note.tokens),
            max_iterations=note.max_iterations,
            reopen=set(note.reopen),
        )
        self._turns.stuck = set(note.stuck)
        self._turns.spent = dict(note.spent)

    def _opened_before(self) -> Opened:
        """The iteration that the stop before this one opened. Raises RalphError where what was kept of it is gone."""
        project, number = self._gear.project, self._note.iteration
        left = leftovers.load(project, number) if number is not None else None
        if number is None or left is None:
            raise RalphError(f"what was kept of iteration {number} is gone; run: ralph resume")
        record = history.read(project.folder, number)
        task, *others = self._tasks_of(record)
        self._workspace.open(left.opening.tree)
        self._gear.gatekeeper.remember(self._turns.base)
        this = Pass(number, task, record.stage, self._gear.crew.member(self._note.executor), tuple(others))
        assignment = self._gear.assigner.assignment(
            this,
            left.opening,
            self._turns.base,
            project=self._settler.prd.project,
            prompt=record.prompt,
            wall_time=self._gear.config.limits.iteration_timeout,
            money_left=None,
            run_limited=False,
            seconds=self._clock.seconds(),
        )
        return Opened(assignment, record, self._note.executor, this.member.agent, left.guarded, self._worker)

    def _tasks_of(self, record: Iteration) -> Iterator[Task]:
        """The tasks that were handed out, less those that were removed since; the first is needed."""
        yield self._settler.prd.task(record.task_id)
        others = set(record.tasks) - {record.task_id}
        yield from (task for task in self._settler.prd.tasks if task.id in others)

    def _inbox(self) -> Inbox:
        return Inbox(self._gear.project.repository.private, self._settler.apply, self._orders.take)

    def _go_on(self, ending: policy.Stop | None, order: Order) -> Step:
        following = ending or self._pick(order)
        if isinstance(following, policy.Stop):
            return Step(self._noted(None), ended=self._turns.finish(following))
        task, *others = following
        opened = self._turns.open(task, self._worker, others=others)
        return Step(self._noted(opened), brief=opened.assignment.prompt)

    def _pick(self, order: Order) -> tuple[Task, ...] | policy.Stop:
        """The tasks that the session works on now, one or a group, or why its loop ends."""
        if (stop := self._orders.stop()) is not None:
            return stop
        if order == "cancel":
            return CANCELLED
        self._settler.file.take_edits()
        prd, kept = self._settler.prd, self._settler.landing.kept
        begun = selection.next_task(prd, only=(kept.task_id,)) if kept else None
        task = begun or selection.next_task(prd, reopen=self._turns.reopen)
        if task is None:
            return summary.why_nothing_is_left(prd, only=(), stuck=self._turns.stuck)
        if order == "pause" or self._orders.pause() is not None:
            return PAUSED
        if self._note.tasks is not None and self._done() >= self._note.tasks:
            return ENOUGH
        return self._turns.limit_reached(self._gear.config.limits) or self._with_others(task)

    def _with_others(self, task: Task) -> tuple[Task, ...]:
        """The task and those that are handed out with it. A person's own templates speak of one task."""
        most = self._at_once if self._gear.assigner.templates.are_built_in else 1
        if self._note.tasks is not None:
            most = min(most, self._note.tasks - self._done())
        all_may = self._gear.config.parallel.all
        return group_of(self._settler.prd, task, most=most, all_may=all_may, alike=self._gear.assigner.are_alike)

    def _elapsed(self) -> float:
        """Seconds since the session's loop began."""
        return (self._clock.now() - datetime.fromisoformat(self._note.since)).total_seconds()

    def _done(self) -> int:
        """How many tasks the session has brought to an end, here and before."""
        return self._note.completed + len(self._ended())

    def _ended(self) -> list[str]:
        statuses = {task.id: task.status for task in self._settler.prd.tasks}
        return [task for task in self._turns.touched if statuses.get(task) in ("completed", "blocked")]

    def _noted(self, opened: Opened | None) -> SessionNote:
        tally, turns = self._turns.tally, self._turns
        return replace(
            self._note,
            iterations=tally.iterations,
            completed=self._done(),
            cost_usd=tally.cost_usd,
            tokens=tally.tokens,
            max_iterations=turns.max_iterations,
            iteration=opened.assignment.number if opened else None,
            executor=opened.executor if opened else "",
            opened_at=self._clock.iso(),
            reopen=tuple(sorted(turns.reopen)),
            stuck=tuple(sorted(turns.stuck)),
            spent=turns.spent,
        )
