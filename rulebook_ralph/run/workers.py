"""The workers of a run: each is a place where one agent works at a time, a clone with its box and environment."""

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from rulebook_ralph.git.cache import unwritable
from rulebook_ralph.git.capture import Captured
from rulebook_ralph.git.clone import Clone
from rulebook_ralph.git.repository import GitError, read_plain
from rulebook_ralph.process.cancellation import Cancellation
from rulebook_ralph.report.events import Event, OfOneIteration, WithinIteration
from rulebook_ralph.verify.workspace import Place

if TYPE_CHECKING:
    from rulebook_ralph.run.parts import VerifyTools


class Worker:
    """The place of one attempt: a clone, kept over attempts and runs, so that build caches stay warm. `stopped` is set
    where a person ends the attempt.
    """

    def __init__(self, clone: Clone, tools: "VerifyTools", number: int, report: Callable[[Event], None]) -> None:
        self.report = report
        self.roster = tools.roster
        self.ledger = tools.ledger
        self.stopped = Cancellation()
        self._clone = clone
        self._workspace = tools.workspace
        self._number = number
        self._note = clone.root.with_name(f"{clone.name}.iteration")

    @property
    def place(self) -> Place:
        """How the agent's process sees the clone."""
        return self._workspace.place(self._clone)

    @property
    def is_there(self) -> bool:
        """Whether the clone's folder is: without a box an agent can remove it."""
        return self._clone.is_there

    def prepare(self, base: str, tree: str) -> None:
        """Have that tree stand in the clone, set up; a recovery is told so. Raises RalphError where that fails."""
        try:
            self._note.unlink(missing_ok=True)  # another task list may have had this number
            self._workspace.prepare(self._clone, base, tree, keep=True)
            self._note.write_text(f"{self._number}\n", "ascii")
        except OSError as error:
            raise unwritable(self._note, error) from None

    def capture(self, *, anew: bool = False) -> Captured:
        """What stands there now; `anew` where git's objects of the last capture may be gone."""
        return self._clone.capture(anew=anew)

    def left(self) -> str | None:
        """The tree that the attempt of a dead run left there; None where another one was made there last."""
        if read_plain(self._note).strip() == str(self._number).encode():
            with suppress(GitError):  # a power cut tore the clone
                return self._clone.capture().tree
        return None


class Workers:
    """The pool, of `most` at most. A task goes on where it was worked on last, if that is free."""

    def __init__(self, tools: "VerifyTools", most: int) -> None:
        self.most = most
        self._tools = tools
        self._names: dict[str, str] = {}
        self._busy: set[str] = set()

    def take(self, task_id: str, number: int, report: Callable[[Event], None]) -> Worker:
        """A free worker for an attempt at the task."""
        names = (self._names.get(task_id, ""), *(f"agent-{index}" for index in range(1, self.most + 1)))
        name = self._names[task_id] = next(name for name in names if name and name not in self._busy)
        self._busy.add(name)
        if self.most == 1:
            return Worker(self._tools.clones.open(name), self._tools, number, report)

        def of_one(event: Event) -> None:
            report(WithinIteration(number, cast("OfOneIteration", event)))

        return Worker(self._tools.clones.open(name), self._tools, number, of_one)

    def give_back(self, task_id: str) -> None:
        """The attempt at the task is settled."""
        self._busy.discard(self._names[task_id])

    def left_by(self, number: int) -> str | None:
        """The tree that a dead run's attempt left in its clone, where it is still there."""
        tools = self._tools
        workers = (
            Worker(tools.clones.open(name), tools, number, tools.report) for name in tools.clones.names("agent-")
        )
        return next((tree for worker in workers if (tree := worker.left()) is not None), None)
