"""A loop in an interactive session: each stop of its agent is one step of the scheduler.

Each stop is a process of its own, so an iteration is opened by one and judged by the next; what a run keeps in memory
stands in a note between them. The agent works in the person's own tree. Its work is captured there, and judged, settled
and landed as in any run; while no iteration is open the tree is as the branch has it.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from dataclasses import replace as replaced
from datetime import datetime
from pathlib import Path
from threading import Event as Flag

from msgspec.structs import replace

from rulebook_ralph.agents.claude_session import EndedTurn, SessionAgent
from rulebook_ralph.agents.prices import Ledger
from rulebook_ralph.agents.roster import Roster
from rulebook_ralph.clock import Clock
from rulebook_ralph.config.settings import Config
from rulebook_ralph.errors import RalphError
from rulebook_ralph.git.capture import Captured
from rulebook_ralph.git.user_tree import UserTree
from rulebook_ralph.report.events import Event, Notice, RunEnded
from rulebook_ralph.run import lock
from rulebook_ralph.run.attempt import Outcome, attempt
from rulebook_ralph.run.control import CANCELLED, Orders
from rulebook_ralph.run.opening import Opened
from rulebook_ralph.run.policy import RunTally, Stop
from rulebook_ralph.run.project import Project, RunOptions
from rulebook_ralph.run.scheduler import Progress, Run, Settle, Start, Wait, Worked, next_action
from rulebook_ralph.run.session_note import SessionNote
from rulebook_ralph.run.start import Prepared, prepare
from rulebook_ralph.run.workers import Worker, Workers
from rulebook_ralph.tasks.model import Task
from rulebook_ralph.tasks.results import AgentResult, Verdict

AGENT = "claude"
"""The session does the work of every stage, whatever agents are configured."""
ENOUGH = Stop("paused", "as many tasks are done as were asked for; /ralph:implement goes on")
TOO_MANY = Stop(
    "max-iterations", "many answers in a row used no tool, and Claude Code ends such a turn; /ralph:implement goes on"
)
_WAITS = "the session cannot wait for it; /ralph:implement goes on later"
_CANCELLED = Verdict(action="stop", reason="cancelled", stop_reason="cancelled", counts=False)


@dataclass(frozen=True, slots=True)
class Step:
    """What came of a stop: the prompt that the session goes on with, or why its loop ends; and what it knows now."""

    note: SessionNote
    prompt: str = ""
    ended: RunEnded | None = None


@dataclass(frozen=True, slots=True)
class Stopped:
    """The session stops: what it said last, and where the transcript of what it did lies. `longest_row` is how often in
    a row it may be sent on without having used a tool.
    """

    said: str = ""
    transcript: Path | None = None
    longest_row: int | None = None


class SessionWorker(Worker):
    """The person's own tree as the place of an attempt. `project` tells the branch that stays checked out there."""

    def __init__(self, tree: UserTree, branch: str, roster: Roster, ledger: Ledger) -> None:
        self.name = "session"
        self.report: Callable[[Event], None] = lambda _: None
        self.base = ""
        self._tree = tree
        self._branch = branch
        self._roster = roster
        self._ledger = ledger

    @property
    def box(self) -> None:
        return None

    @property
    def root(self) -> Path:
        return self._tree.root

    def environment(self, given: Mapping[str, str]) -> Mapping[str, str]:
        return given

    def prepare(self, base: str, tree: str) -> None:  # noqa: ARG002 - it was held when the iteration was opened
        self.base = base

    def capture(self) -> Captured:
        """The work as a change of its base. What was done to HEAD, the branch and the index is undone."""
        captured = self._tree.capture()
        tree = self._tree.as_work_on(self.base, captured.tree)
        for said in self._tree.put_head_back(self._branch, self.base):
            self.report(Notice("warning", said))
        return replaced(captured, tree=tree)

    def priced(self, result: AgentResult, executor: str, model: str) -> AgentResult:
        return self._roster.completed(result, executor, model)

    def paying(self, number: int) -> AbstractContextManager[None]:
        return self._ledger.paying(number)


class SessionWorkers(Workers):
    """The one place where a session works."""

    def __init__(self, worker: SessionWorker) -> None:
        self.most = 1
        self._worker = worker

    def take(self, task: Task, number: int, report: Callable[[Event], None]) -> Worker:  # noqa: ARG002 - as of clones
        self._worker.report = report
        return self._worker

    def give_back(self, worker: Worker) -> None:
        """It stays the session's."""


class SessionRun(Run):
    """One stop of a session's loop; the project's lock is held for the session, which has ended the turn `stopped`."""

    def __init__(
        self,
        project: Project,
        note: SessionNote,
        stopped: Stopped,
        *,
        report: Callable[[Event], None],
        clock: Clock,
        cancelled: Flag,
        orders: Orders,
    ) -> None:
        goes_on = note.iteration is not None
        options = RunOptions(command=lock.SESSION, again="/ralph:implement", session_of=note.project if goes_on else "")
        super().__init__(
            project, options, report=report, clock=clock, cancelled=cancelled, orders=orders, reread=_as_it_was
        )
        self._note = note
        self._stopped = stopped
        self._tree = UserTree(project.repository)
        self._handed_out: Opened | None = None
        self._started -= (clock.now() - datetime.fromisoformat(note.since)).total_seconds()

    def begin(self) -> Step:
        """The first stop, or one after a hook that died: look at all that could stop a run, bring what is left to its
        end, and open an iteration.
        """
        self._options = replaced(self._options, session_of="")
        prepared = prepare(
            self._project,
            self._options,
            report=self._report,
            clock=self._clock,
            cancelled=self._cancelled,
            reread=_as_it_was,
            session=self._agent(),
        )
        with prepared:
            if prepared.branch.waiting is not None:
                raise RalphError(f"{prepared.branch.why_it_waits}; bring it in first: ralph land")
            self._tree.begin()
            note = self._note
            self._note = replace(
                note,
                cost_usd=note.cost_usd + prepared.tally.cost_usd,
                tokens=note.tokens + prepared.tally.tokens,
                reopen=note.reopen if note.max_iterations else tuple(sorted(prepared.reopen)),
                max_iterations=note.max_iterations or prepared.max_iterations,
            )
            self._take_place(prepared)
            with self._heard():
                if self._orders.stop() is None:
                    prepared.take_baseline()
                return self._go_on()

    def judge(self) -> Step:
        """Every other stop: judge the turn that has ended, settle it, go on."""
        with Prepared(
            self._project,
            self._options,
            report=self._report,
            clock=self._clock,
            cancelled=self._cancelled,
            reread=_as_it_was,
            session=self._agent(),
        ) as prepared:
            self._take_place(prepared)
            record = prepared.journal.read(self._note.iteration or 0)
            prepared.verifiers.gates.recall(record.base_commit, self._note.gates)
            assignment = prepared.opening.again(record, number=record.iteration_number)
            task = assignment.task
            worker = prepared.workers.take(task, record.iteration_number, self._report)
            with self._heard():
                outcome = self._attempted(attempt(assignment, worker, prepared.verifiers))
                done: Future[Outcome] = Future()
                done.set_result(outcome)
                self._working[task.id] = Worked(Opened(record, assignment, worker), done)
                row = 0 if outcome.result.tool_results else self._note.row + 1
                self._note = replace(self._note, row=row)
                return self._go_on()

    # The scheduler's steps, of which one is taken

    def _go_on(self) -> Step:
        """Up to the next task for the agent, or to the end."""
        while True:
            self._boundary()
            match next_action(self._state()):
                case Start(task_id):
                    self._progress.ending = self._why_enough()
                    if self._progress.ending is None:
                        self._start(task_id)
                    if self._handed_out is not None:
                        prompt = self._handed_out.assignment.prompt
                        return Step(self._noted(self._handed_out), prompt)
                case Settle(task_id):
                    self._settle(task_id)
                case Wait() as wait:
                    self._progress.ending = Stop("rate-limited", f"{wait.reason}; {_WAITS}")
                case Stop() as stop:
                    self._put_back()
                    if (ended := self._finish(stop)) is not None:
                        self._tree.end()
                        return Step(self._noted(None), ended=ended)

    def _submit(self, opened: Opened, work: Callable[..., Outcome], *arguments: object) -> None:
        if work is attempt:  # the agent begins when this process has answered
            self._tree.hold(opened.assignment.base, opened.assignment.tree)
            self._handed_out = opened
            return
        done: Future[Outcome] = Future()
        done.set_result(work(*arguments, opened.worker, self._prepared.verifiers))
        self._working[opened.assignment.task.id] = Worked(opened, done)

    def _settle(self, task_id: str) -> None:
        """Before a commit lands its tree stands there already: landing finds nothing of the agent's in the way."""
        outcome = self._working[task_id].future.result()
        if outcome.lands and outcome.commit and self._prepared.branch.tip() == outcome.assignment.base:
            self._tree.hold(outcome.assignment.base, outcome.commit)
        super()._settle(task_id)
        if self._prepared.branch.waiting is not None:
            self._progress.ending = Stop("blocked", self._prepared.branch.why_it_waits)

    def _why_enough(self) -> Stop | None:
        touched = (task for task in self._prepared.journal.prd.tasks if task.id in self._progress.touched)
        ended = sum(task.status in ("completed", "blocked") for task in touched)
        if self._note.tasks is not None and ended >= self._note.tasks:
            return ENOUGH
        longest = self._stopped.longest_row
        return TOO_MANY if longest is not None and self._note.row >= longest else None

    # Parts

    def _agent(self) -> SessionAgent:
        since = datetime.fromisoformat(self._note.opened_at or self._note.since)
        turn = EndedTurn(
            session_id=self._note.session_id,
            said=self._stopped.said,
            transcript=self._stopped.transcript,
            read=self._note.transcripts_read,
            milliseconds=round((self._clock.now() - since).total_seconds() * 1000),
        )
        return SessionAgent(AGENT, turn)

    def _attempted(self, outcome: Outcome) -> Outcome:
        """The outcome; of a turn in which the loop was cancelled, nothing but that."""
        if self._orders.stop() is not CANCELLED:
            return outcome
        return replaced(outcome, judgement=replaced(outcome.judgement, verdict=_CANCELLED), commit=None)

    def _heard(self) -> AbstractContextManager[None]:
        me = lock.holder(self._project.private / lock.LOCK)
        if me is None:
            raise RalphError("the project's lock is not held")
        return self._orders.heard(self._project.private, me, wake=self._wake)

    def _put_back(self) -> None:
        """The tree is the branch's again; work that goes on later is kept in its attempt."""
        tip = self._project.repository.tip(self._prepared.branch.name)
        if tip is not None:
            self._tree.hold(tip, tip)

    def _take_place(self, prepared: Prepared) -> None:
        """Have the run stand where the stop before left it."""
        note = self._note
        self._prepared = prepared
        worker = SessionWorker(self._tree, prepared.branch.name, prepared.roster, prepared.ledger)
        prepared.workers = prepared.opening.workers = SessionWorkers(worker)
        prepared.opening.spent = dict(note.spent)
        prepared.opening.checks_base = note.checks_base
        self._progress = Progress(
            tally=RunTally(note.iterations, 0.0, note.cost_usd, note.tokens),
            max_iterations=note.max_iterations,
            reopen=set(note.reopen),
            touched=dict(note.touched),
            alone=set(note.alone),
            stuck=set(note.stuck),
            reviews=note.reviews,
            blocked_for=note.blocked_for,
            blocked_alike=note.blocked_alike,
        )

    def _noted(self, opened: Opened | None) -> SessionNote:
        progress, opening = self._progress, self._prepared.opening
        return replace(
            self._note,
            iteration=opened.assignment.number if opened else None,
            opened_at=self._clock.iso(),
            iterations=progress.tally.iterations,
            max_iterations=progress.max_iterations,
            cost_usd=progress.tally.cost_usd,
            tokens=progress.tally.tokens,
            reopen=tuple(sorted(progress.reopen)),
            touched=progress.touched,
            alone=tuple(sorted(progress.alone)),
            stuck=tuple(sorted(progress.stuck)),
            reviews=progress.reviews,
            blocked_for=progress.blocked_for,
            blocked_alike=progress.blocked_alike,
            spent=opening.spent,
            checks_base=opening.checks_base,
            gates=self._prepared.verifiers.gates.known_of(opened.assignment.base) if opened else (),
        )


def _as_it_was() -> Config | None:
    """The configuration of a session stays the one of its start: its agent can write the file."""
    return None
