"""A loop in an interactive session: each stop of its agent is one step of the scheduler.

Each stop is a process of its own, so an iteration is opened by one and judged by the next; what a run keeps in memory
stands in a note between them. The agent works in the person's own tree. Its work is captured there, and judged, settled
and landed as in any run; while no iteration is open the tree is as the branch has it.
"""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from dataclasses import replace as replaced
from datetime import datetime
from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import replace

from rulebook_ralph.agents.claude import EndedTurn, SessionAgent
from rulebook_ralph.clock import Clock
from rulebook_ralph.config.settings import InsistentConfig
from rulebook_ralph.entry import SESSION_NOTE
from rulebook_ralph.errors import RalphError
from rulebook_ralph.git.capture import Captured
from rulebook_ralph.git.user_tree import UserTree
from rulebook_ralph.process.cancellation import Cancellation
from rulebook_ralph.report.events import Event, Notice, RunEnded
from rulebook_ralph.run import lock
from rulebook_ralph.run.attempt import Outcome, attempt
from rulebook_ralph.run.control import CANCELLED, Orders
from rulebook_ralph.run.opening import Opened, assignment_of
from rulebook_ralph.run.parts import Parts
from rulebook_ralph.run.policy import RunTally, Stop
from rulebook_ralph.run.project import Project, RunContext, RunOptions
from rulebook_ralph.run.scheduler import Progress, Run, Wait, Worked
from rulebook_ralph.run.start import prepare, take_baseline
from rulebook_ralph.run.workers import Worker, Workers
from rulebook_ralph.tasks import disk
from rulebook_ralph.tasks.model import Value
from rulebook_ralph.tasks.results import Verdict
from rulebook_ralph.verify.execution import GateRun
from rulebook_ralph.verify.workspace import Place

AGENT = "claude"
"""The session does the work of every stage, whatever agents are configured."""
ENOUGH = Stop("paused", "as many tasks are done as were asked for; /ralph:implement goes on")
TOO_MANY = Stop(
    "max-iterations", "many answers in a row used no tool, and Claude Code ends such a turn; /ralph:implement goes on"
)
_WAITS = "the session cannot wait for it; /ralph:implement goes on later"
_LARGEST_NOTE = 1 << 26
_CANCELLED = Verdict(action="stop", reason="cancelled", stop_reason="cancelled", counts=False)


Driver = Literal["ralph", "ralph-loop"]
"""What keeps a session going: Ralph's Stop hook, or the official plugin."""


class SessionNote(Value, frozen=True, kw_only=True):
    """What a session's loop knows of itself between two stops: a file in Ralph's part of the git folder. `since` is an
    ISO time; `config` is the configuration as it stood then.

    `tasks` is how many tasks it works on at most; `iteration` the one at work, since `opened_at`; `transcripts_read`
    how many bytes of each transcript were taken into account; `row` after how many answers in a row no tool was used.
    `gates` is what the gates said of the commit that the iteration began on; `progress`, `spent` and `checks_base` are
    what a run keeps in memory.
    """

    session_id: str
    since: str
    config: InsistentConfig
    project: str
    driver: Driver = "ralph"
    tasks: int | None = None
    iteration: int | None = None
    opened_at: str = ""
    transcripts_read: dict[str, int] = {}
    row: int = 0
    progress: Progress | None = None
    spent: dict[str, float] = {}
    checks_base: str = ""
    gates: tuple[GateRun, ...] = ()


def read_note(private: Path) -> SessionNote | None:
    """None where no session's loop goes on. Raises RalphError for a note that cannot be read."""
    path = private / SESSION_NOTE
    try:
        return msgspec.json.decode(disk.read_file(path, largest=_LARGEST_NOTE), type=SessionNote)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RalphError(f"{path} cannot be read ({str(error)[:100]}); remove it, then: ralph resume") from None


def write_note(private: Path, note: SessionNote) -> None:
    """Raises RalphError where it cannot be written."""
    disk.make_folder(private)
    disk.replace_file(private / SESSION_NOTE, msgspec.json.encode(note))


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
    """The person's own tree as the place of an attempt, where the run's branch stays checked out."""

    def __init__(self, tree: UserTree, parts: Parts) -> None:
        self.report: Callable[[Event], None] = parts.report
        self.base = ""
        self.stopped = Cancellation()
        self.roster = parts.roster
        self.ledger = parts.ledger
        self._tree = tree
        self._branch = parts.branch.name

    @property
    def place(self) -> Place:
        return Place(self._tree.root, self._tree.root, None, lambda given: given)

    @property
    def is_there(self) -> bool:
        return True

    def prepare(self, base: str, tree: str) -> None:  # noqa: ARG002 - it was held when the iteration was opened
        self.base = base

    def capture(self, *, anew: bool = False) -> Captured:  # noqa: ARG002 - as of clones
        """The work as a change of its base. What was done to HEAD, the branch and the index is undone."""
        captured = self._tree.capture()
        tree = self._tree.as_work_on(self.base, captured.tree)
        for said in self._tree.put_head_back(self._branch, self.base):
            self.report(Notice("warning", said))
        return replaced(captured, tree=tree)


class SessionWorkers(Workers):
    """The one place where a session works."""

    def __init__(self, worker: SessionWorker) -> None:
        self.most = 1
        self._worker = worker

    def take(self, task_id: str, number: int, report: Callable[[Event], None]) -> Worker:  # noqa: ARG002 - as of clones
        return self._worker

    def give_back(self, task_id: str) -> None:
        """It stays the session's."""


class SessionRun(Run):
    """One stop of a session's loop; the project's lock is held for the session, which has ended the turn `stopped`."""

    def __init__(
        self,
        project: Project,
        note: SessionNote,
        stopped: Stopped,
        context: RunContext,
        orders: Orders,
    ) -> None:
        goes_on = note.iteration is not None
        options = RunOptions(command=lock.SESSION, again="/ralph:implement", session_of=note.project if goes_on else "")
        super().__init__(project, options, replaced(context, session=_agent(note, stopped, context.clock)), orders)
        self._note = note
        self._stopped = stopped
        self._tree = UserTree(project.repository)
        self._handed_out: Opened | None = None
        self._started -= (context.clock.now() - datetime.fromisoformat(note.since)).total_seconds()

    def begin(self) -> Step:
        """The first stop, or one after a hook that died: look at all that could stop a run, bring what is left to its
        end, and open an iteration.
        """
        self._options = replaced(self._options, session_of="")
        with prepare(self._project, self._options, self._context) as parts:
            if parts.branch.waiting is not None:
                raise RalphError(f"{parts.branch.why_it_waits}; bring it in first: ralph land")
            self._tree.begin()
            begun = self._note.progress or Progress(RunTally(), parts.max_iterations, set(parts.reopen))
            tally, left = begun.tally, parts.tally
            tally = replaced(tally, cost_usd=tally.cost_usd + left.cost_usd, tokens=tally.tokens + left.tokens)
            self._take_place(parts, replaced(begun, tally=tally))
            with self._orders.heard(self._project.private, wake=self._wake):
                if self._orders.stop() is None:
                    take_baseline(parts)
                return self._go_on()

    def judge(self) -> Step:
        """Every other stop: judge the turn that has ended, settle it, go on."""
        if self._note.progress is None:
            raise RalphError("the session's note has no progress; cancel the loop and begin again: /ralph:cancel")
        with Parts(self._project, self._options, self._context) as parts:
            self._take_place(parts, self._note.progress)
            record = parts.journal.read(self._note.iteration or 0)
            parts.verifiers.gates.recall(record.base_commit, self._note.gates)
            assignment = assignment_of(parts, record)
            worker = parts.workers.take(record.task_id, record.iteration_number, self._report)
            with self._orders.heard(self._project.private, wake=self._wake):
                outcome = attempt(assignment, worker, parts.verifiers)
                if self._orders.stop() is CANCELLED:  # then nothing else is said of the turn
                    outcome = outcome.said(_CANCELLED)
                self._has_worked(Opened(record, assignment, worker), outcome)
                self._note = replace(self._note, row=0 if outcome.result.tool_results else self._note.row + 1)
                return self._go_on()

    # The scheduler's steps, of which one is taken

    def _go_on(self) -> Step:
        """Up to the next task for the agent, or to the end."""
        ended = None
        while ended is None and self._handed_out is None:
            ended = self._step()
        prompt = self._handed_out.assignment.prompt if self._handed_out else ""
        return Step(self._noted(self._handed_out), prompt, ended)

    def _start(self, task_id: str) -> None:
        self._progress.ending = self._why_enough()
        if self._progress.ending is None:
            super()._start(task_id)

    def _wait(self, wait: Wait) -> None:
        self._progress.ending = Stop("rate-limited", f"{wait.reason}; {_WAITS}")

    def _finish(self, stop: Stop) -> RunEnded | None:
        """Where it is the end, the tree is the branch's again; work that goes on later is kept in its attempt."""
        tip = self._project.repository.tip(self._parts.branch.name)
        if tip is not None:
            self._tree.hold(tip, tip)
        ended = super()._finish(stop)
        if ended is not None:
            self._tree.end()
        return ended

    def _submit(self, opened: Opened, work: Callable[..., Outcome], *arguments: object) -> None:
        if work is attempt:  # the agent begins when this process has answered
            self._tree.hold(opened.assignment.case.base, opened.assignment.case.tree)
            self._handed_out = opened
            return
        self._has_worked(opened, work(*arguments, opened.worker, self._parts.verifiers))

    def _has_worked(self, opened: Opened, outcome: Outcome) -> None:
        done: Future[Outcome] = Future()
        done.set_result(outcome)
        self._working[opened.record.task_id] = Worked(opened, done)

    def _settle(self, task_id: str) -> None:
        """Before a commit lands its tree stands there already: landing finds nothing of the agent's in the way."""
        outcome = self._working[task_id].future.result()
        if outcome.lands and outcome.commit and self._parts.branch.tip() == outcome.case.base:
            self._tree.hold(outcome.case.base, outcome.commit)
        super()._settle(task_id)
        if self._parts.branch.waiting is not None:
            self._progress.ending = Stop("blocked", self._parts.branch.why_it_waits)

    def _why_enough(self) -> Stop | None:
        touched = (task for task in self._parts.journal.prd.tasks if task.id in self._progress.touched)
        ended = sum(task.status in ("completed", "blocked") for task in touched)
        if self._note.tasks is not None and ended >= self._note.tasks:
            return ENOUGH
        longest = self._stopped.longest_row
        return TOO_MANY if longest is not None and self._note.row >= longest else None

    # Parts

    def _take_place(self, parts: Parts, progress: Progress) -> None:
        """Have the run stand where the stop before left it."""
        self._parts, self._progress = parts, progress
        parts.workers = SessionWorkers(SessionWorker(self._tree, parts))
        parts.spent = dict(self._note.spent)
        parts.checks_base = self._note.checks_base

    def _noted(self, opened: Opened | None) -> SessionNote:
        parts = self._parts
        return replace(
            self._note,
            iteration=opened.record.iteration_number if opened else None,
            opened_at=self._clock.iso(),
            progress=self._progress,
            spent=parts.spent,
            checks_base=parts.checks_base,
            gates=parts.verifiers.gates.known_of(opened.record.base_commit) if opened else (),
        )


def _agent(note: SessionNote, stopped: Stopped, clock: Clock) -> SessionAgent:
    since = datetime.fromisoformat(note.opened_at or note.since)
    turn = EndedTurn(
        session_id=note.session_id,
        said=stopped.said,
        transcript=stopped.transcript,
        read=note.transcripts_read,
        milliseconds=round((clock.now() - since).total_seconds() * 1000),
    )
    return SessionAgent(AGENT, turn)
