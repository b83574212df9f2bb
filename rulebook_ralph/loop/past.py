"""What the iterations before say to those to come: feedback, the best attempt so far, work that was left unfinished."""

from msgspec.structs import replace

from rulebook_ralph.core import best_attempt, repeats
from rulebook_ralph.core.evidence import Iteration
from rulebook_ralph.core.model import Task
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop.gatekeeper import Base
from rulebook_ralph.loop.unfinished import Unfinished, left_by
from rulebook_ralph.state import history
from rulebook_ralph.state.store import StateFolder


class Past:
    """For one run: what it settled itself is known, the rest is read from the history."""

    def __init__(self, folder: StateFolder) -> None:
        self._folder = folder
        self._last: dict[str, Iteration] = {}
        self._brought_back: dict[str, Unfinished] = {}

    def add(self, settled: Iteration) -> None:
        """An iteration was settled."""
        self._last |= dict.fromkeys(settled.tasks, settled)

    def bring_back(self, task_id: str, work: Unfinished) -> None:
        """Work that stood in the user's tree is what its task goes on from, whatever its last iteration left."""
        self._brought_back[task_id] = work

    def last(self, task: Task) -> Iteration | None:
        """The task's last iteration, where its record is still there."""
        if task.id in self._last:
            return self._last[task.id]
        return self._read(task.settled_iteration) if task.settled_iteration is not None else None

    def feedback_for(self, task: Task) -> str:
        """What the task's last attempt must be told."""
        last = self.last(task)
        return last.feedback if last else ""

    def last_agent(self, task: Task) -> str:
        """Who worked on the task last; empty where nobody did."""
        last = self.last(task)
        return last.agent if last else ""

    def unfinished(self, task: Task) -> Unfinished | None:
        """What the task's last iteration left to go on from, wherever that is."""
        if task.id in self._brought_back:
            return self._brought_back.pop(task.id)
        last = self.last(task)
        return left_by(last) if last is not None else None

    def left_elsewhere(self, task: Task) -> int | None:
        """The number of the task's last iteration, if its unfinished work never stood in the user's tree."""
        last = self.last(task)
        return last.iteration_number if last is not None and last.isolated and left_by(last) else None

    def base(self) -> Base:
        """What the gates said of the base of the last iteration, less what was green since."""
        numbers = history.numbers(self._folder)
        if not numbers:
            return Base()
        last = history.read(self._folder, numbers[-1])
        return Base(
            frozenset(last.red_on_base), last.tests_on_base, last.failing_on_base, frozenset(last.written_on_base)
        )

    def added_to(self, judged: Iteration, task: Task | None) -> Iteration:
        """The record with what the task's iterations before add, unless it starts anew: same failures in a row,
        feedback still to be answered, which attempt came furthest.
        """
        goes_on = task is not None and task.settled_iteration is not None and task.attempts
        last = self.last(task) if task is not None and goes_on else None
        judged = repeats.handed_on(repeats.counted(judged, last), last)
        further = best_attempt.better(judged, self._best_until(last))
        return replace(judged, best_attempt=further.iteration_number if further else None)

    def _best_until(self, last: Iteration | None) -> Iteration | None:
        """The attempt that had come furthest by then, where its record is still there."""
        if last is None or last.best_attempt is None:
            return None
        return last if last.best_attempt == last.iteration_number else self._read(last.best_attempt)

    def _read(self, number: int) -> Iteration | None:
        try:
            return history.read(self._folder, number)
        except RalphError:
            return None
