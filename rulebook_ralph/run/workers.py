"""The workers of a run: each is a place where one agent works at a time, a clone with its box and environment."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import cast

from rulebook_ralph.agents.prices import Ledger
from rulebook_ralph.agents.roster import Roster
from rulebook_ralph.git.cache import unwritable
from rulebook_ralph.git.capture import Captured
from rulebook_ralph.git.clone import Clone, Clones
from rulebook_ralph.git.repository import GitError, read_plain
from rulebook_ralph.process.box import Box
from rulebook_ralph.process.cancellation import Cancellation
from rulebook_ralph.report.events import Event, OfOneIteration, WithinIteration
from rulebook_ralph.tasks.model import Task
from rulebook_ralph.tasks.results import AgentResult
from rulebook_ralph.verify.workspace import ClonePreparer


class Worker:
    """One clone, kept over attempts and runs, so that build caches stay warm. `stopped` is set where a person ends the
    attempt that is made here.
    """

    def __init__(self, clone: Clone, workspace: ClonePreparer, roster: Roster, ledger: Ledger) -> None:
        self.name = clone.name
        self.report: Callable[[Event], None] = lambda _: None
        self._clone = clone
        self._workspace = workspace
        self._roster = roster
        self._ledger = ledger
        self._number = 0
        self.stopped = Cancellation()
        self._note = clone.root.with_name(f"{clone.name}.iteration")

    @property
    def box(self) -> Box | None:
        return self._workspace.place(self._clone).box

    @property
    def root(self) -> Path:
        """The folder that the agent works in, as the agent sees it."""
        return self._workspace.place(self._clone).inside

    def environment(self, given: Mapping[str, str]) -> Mapping[str, str]:
        """The environment of a process in the clone."""
        return self._workspace.place(self._clone).environment(given)

    @property
    def is_there(self) -> bool:
        """Whether the clone's folder is: without a box an agent can remove it."""
        return self._clone.is_there

    def begins(self, number: int, report: Callable[[Event], None], *, alone: bool) -> None:
        """The iteration of that number is worked on here."""
        self._note.unlink(missing_ok=True)
        self._number = number
        self.stopped.clear()
        self.report = report if alone else lambda event: report(WithinIteration(number, cast("OfOneIteration", event)))

    def prepare(self, base: str, tree: str) -> None:
        """Have that tree stand in the clone, set up; a recovery is told so. Raises RalphError where that fails."""
        try:
            self._workspace.prepare(self._clone, base, tree, keep=True)
            self._note.write_text(f"{self._number}\n", "ascii")
        except OSError as error:
            raise unwritable(self._note, error) from None

    def capture(self, *, anew: bool = False) -> Captured:
        """What stands there now; `anew` where git's objects of the last capture may be gone."""
        return self._clone.capture(anew=anew)

    def priced(self, result: AgentResult, executor: str, model: str) -> AgentResult:
        return self._roster.completed(result, executor, model)

    def paying(self, number: int) -> AbstractContextManager[None]:
        """What models take meanwhile is that iteration's."""
        return self._ledger.paying(number)

    def left_by(self, number: int) -> str | None:
        """The tree that a dead run's attempt left in the clone; None where it worked on another one last."""
        if read_plain(self._note).strip() == str(number).encode():
            with suppress(GitError):  # a power cut tore the clone
                return self._clone.capture().tree
        return None


class Workers:
    """The pool. Clones are made when they are first needed."""

    def __init__(self, clones: Clones, workspace: ClonePreparer, roster: Roster, ledger: Ledger, most: int) -> None:
        self.most = most
        self._clones = clones
        self._workspace = workspace
        self._roster = roster
        self._ledger = ledger
        self._free: dict[str, Worker] = {}
        self._busy: dict[str, Worker] = {}
        self._last: dict[str, str] = {}

    def use(self, roster: Roster) -> None:
        """Go on with another configuration's agents."""
        self._roster = roster
        self._free.clear()

    def take(self, task: Task, number: int, report: Callable[[Event], None]) -> Worker:
        """A free worker for the task; the one that worked on it last, where that is free."""
        name = self._last.get(task.id, "")
        names = [f"agent-{index}" for index in range(1, self.most + 1)]
        free = [each for each in names if each not in self._busy]
        chosen = name if name in free else free[0]
        worker = self._free.pop(chosen, None) or self._made(chosen)
        self._busy[chosen] = worker
        self._last[task.id] = chosen
        worker.begins(number, report, alone=self.most == 1)
        return worker

    def give_back(self, worker: Worker) -> None:
        """The worker's attempt is settled."""
        self._free[worker.name] = self._busy.pop(worker.name)

    def left_by(self, number: int) -> str | None:
        """The tree that a dead run's attempt left in its clone, where it is still there."""
        for name in self._clones.names("agent-"):
            tree = self._made(name).left_by(number)
            if tree is not None:
                return tree
        return None

    def _made(self, name: str) -> Worker:
        return Worker(self._clones.open(name), self._workspace, self._roster, self._ledger)
