"""The tree of an attempt on its way to a commit: gates, the repository's hooks, the commit object."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rulebook_ralph.core.events import Notice
from rulebook_ralph.core.printable import printable
from rulebook_ralph.loop.checkout import UnusableError
from rulebook_ralph.loop.evidence import Gates, is_held
from rulebook_ralph.loop.ticking import Ticked, tick, untick
from rulebook_ralph.sources.source import COMMIT_MESSAGE
from rulebook_ralph.workspace import commits
from rulebook_ralph.workspace.git import GitError

if TYPE_CHECKING:
    from rulebook_ralph.core.model import Task
    from rulebook_ralph.loop.iteration import Assignment, Tools

_SUBJECT_LENGTH = 72
_ROUNDS = 2


class Candidate:
    """Runs gates and commit hooks on the tree; where they change it, the changed tree is judged instead, once."""

    def __init__(
        self,
        assignment: Assignment,
        tools: Tools,
        tree: str,
        *,
        put_back: Callable[[], object],
    ) -> None:
        self.tree = tree
        self.made: str | None = None
        self.objection: Callable[[], str | None] = lambda: None
        """Why the tree that stands now may not be committed, gates aside."""
        self.words: Callable[[], str] = lambda: ""
        """What the commit says of the work."""
        self._assignment = assignment
        self._tools = tools
        self._put_back = put_back
        self._gates: Gates | None = None
        self._ticked: list[Ticked] = []

    @property
    def standing(self) -> str:
        """The tree that stands in the work tree: the one that is judged, with its tasks' boxes ticked, and no other
        open task's, once it is made a commit (loop/ticking.py).
        """
        return self._ticked[-1].tree if self._ticked else self.tree

    def untick(self) -> None:
        """Put the boxes back as they were, the last one first, where no task is completed after all."""
        while self._ticked:
            self._ticked.pop().take_back()

    def gates(self) -> Gates:
        """The gates' results on the tree, run at most once."""
        if self._gates is None:
            self._gates = self._run_gates()
        return self._gates

    def commit(self) -> str | None:
        """Make the commit object after the repository's own hooks; returns why that is refused, or None."""
        message = commit_message(self._assignment, self.words())
        if (refused := self._pass_hooks(message)) is not None:
            return refused
        self._untick_others()
        changes = self._tools.workspace.changes(self._assignment.opening.tree, self.standing)
        if self._assignment.implements and not changes:
            why = "other tasks' boxes were all of it" if self._ticked else "the gates or hooks took it away again"
            return f"no change is left, for {why}: nothing differs from the base commit"
        for task in self._assignment.tasks:
            ticked = tick(self._tools.workspace, self.standing, task, self._tell)
            self._ticked += [ticked] if ticked else []
        try:
            self.made = commits.commit_tree(
                self._tools.workspace.repository,
                self.standing,
                self._assignment.opening.commit,
                message,
                sign=self._tools.sign,
            )
        except commits.SigningError as error:
            return f"the commit could not be signed: {error.stderr or error}"
        except GitError:  # no fault of the attempt's, whose tree has no box ticked
            self.untick()
            raise
        return None

    def _untick_others(self) -> None:
        own = {task.id for task in self._assignment.tasks}
        others = (task for task in self._tools.to_be_done() if task.id not in own)
        self._ticked += untick(self._tools.workspace, self._assignment.opening.tree, self.tree, others, self._tell)

    def _tell(self, text: str) -> None:
        self._tools.report(Notice("info", text))

    def _pass_hooks(self, message: str) -> str | None:
        run_hooks = self._tools.run_commit_hooks
        if run_hooks is None:
            return None
        for _ in range(_ROUNDS):
            problem = run_hooks(message)
            self._put_back()
            if problem is not None:
                return problem
            if not self._tree_moved(self._recaptured):
                return None
            if (failed := self._still_holds()) is not None:
                return failed
        return "the commit hooks change files each time they run; make the result stable"

    def _run_gates(self) -> Gates:
        workspace = self._tools.workspace
        for _ in range(_ROUNDS):
            results = self._tools.run_gates(self.tree)
            self._put_back()
            before = self.tree
            try:
                if not self._tree_moved(self._tools.tree_after_gates):
                    return Gates(results)
            except UnusableError as error:
                return Gates((*results, error.result))
        return Gates(results, tuple(change.path for change in workspace.changes(before, self.tree)))

    def _tree_moved(self, capture: Callable[[str], str]) -> bool:
        """Capture the tree again; whether it is another than the one judged so far."""
        before = self.tree
        self.tree = capture(before)
        return before != self.tree

    def _recaptured(self, tree: str) -> str:
        return self._tools.workspace.recapture(self._assignment.opening, tree)

    def _still_holds(self) -> str | None:
        """Why the tree that the commit hooks changed does not hold any more, or None."""
        if self._assignment.steps:
            self._gates = self._run_gates()
            red = [result.step for result in self._gates.results if is_held(result, self._assignment.excused)]
            if red:
                return f"after the commit hooks changed files, these gates failed: {', '.join(red)}"
        objection = self.objection()
        return None if objection is None else f"after the commit hooks changed files: {objection}"


def subject(task: Task) -> str:
    """The first line of a task's commit: the message that its plan asks for, else its title."""
    asked = task.metadata.get(COMMIT_MESSAGE)
    title = " ".join(printable(asked if isinstance(asked, str) and asked else task.title).split()) or task.id
    return title if len(title) <= _SUBJECT_LENGTH else title[: _SUBJECT_LENGTH - 1].rstrip() + "…"


def commit_message(assignment: Assignment, words: str) -> str:
    """The task's subject, what is said of the work, and the trailers by which the commit is recognised; of several
    tasks also each one's subject.
    """
    tasks = assignment.tasks
    each = "\n".join(f"- {subject(task)}" for task in tasks) if assignment.others else ""
    trailers = (
        "".join(f"Ralph-Task: {task.id}\n" for task in tasks) + f"Ralph-Iteration: {assignment.number}\n"
        f"Ralph-Attempt: {assignment.attempt}\n"
        f"Ralph-Agent: {assignment.environment.get('RALPH_AGENT', 'unknown')}\n"
    )
    said = " ".join(printable(words).split())
    return "\n\n".join(part for part in (subject(assignment.whole), each, said, trailers) if part)
