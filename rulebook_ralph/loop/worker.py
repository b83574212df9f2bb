"""Where an iteration is worked on: in the user's own tree, one at a time, or in an isolated checkout (desk.py)."""

from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from rulebook_ralph.core import events
from rulebook_ralph.core.model import Task
from rulebook_ralph.core.settings import VerificationStep
from rulebook_ralph.loop.equipment import Equipment
from rulebook_ralph.loop.landing import Kept
from rulebook_ralph.loop.outside import Outside
from rulebook_ralph.loop.settler import Settler
from rulebook_ralph.workspace import guard, snapshot_guard
from rulebook_ralph.workspace.snapshot import Opening, Workspace


class Worker(Protocol):
    """A place to work in, with what is needed there."""

    @property
    def gear(self) -> Equipment: ...

    @property
    def workspace(self) -> Workspace: ...

    @property
    def place(self) -> str:
        """The name of the isolated checkout; empty for the user's own tree."""

    def begins(self, number: int) -> None:
        """The iteration of that number begins there."""

    def report(self, event: events.Event) -> None:
        """What happens there."""

    def unfinished(self, task: Task) -> Kept | None:
        """The work of earlier attempts that the task goes on from."""

    def open(self, kept: Kept | None) -> Opening:
        """Have the base stand there, or unfinished work on it. Raises GitError, UnusableError, Cancelled."""

    def own_commits(self) -> tuple[str, ...]:
        """Commits that the agent made where nobody else would find them."""

    def restore_state(self) -> tuple[str, ...]:
        """Put back what others changed beside the tree; returns what the agent must be told."""

    def guard(self, steps: Iterable[VerificationStep], opening: Opening) -> guard.Guard:
        """What nobody but Ralph and a person may change, as it is now; `steps` are all that judge the work."""


def restore_beside(worker: Worker) -> tuple[str, ...]:
    """Put back what others changed beside the tree, the project's lock too; returns what the agent must be told."""
    told = worker.restore_state()
    project = worker.gear.project
    if not project.put_back_lock():
        return told
    lock = project.repository.lock_file
    what = f"the lock {lock} was removed or changed while an agent, gate or check ran, and put back"
    worker.report(events.Notice("warning", what))
    return (*told, f"The lock {lock} was removed or changed; it was put back. Leave it alone.")


class InPlace:
    """The user's own tree."""

    place = ""

    def __init__(
        self,
        gear: Equipment,
        workspace: Workspace,
        outside: Outside,
        settler: Settler,
        report: Callable[[events.Event], None],
    ) -> None:
        self.gear = gear
        self.workspace = workspace
        self._report = report
        self._outside = outside
        self._settler = settler
        self._opening: Opening | None = None

    def begins(self, number: int) -> None:
        pass  # there is one at a time

    def report(self, event: events.Event) -> None:
        self._report(event)

    def unfinished(self, task: Task) -> Kept | None:
        """What stands in the tree; that of another task leaves it."""
        landing, past = self._settler.landing, self._settler.past
        landing.put_away_work_of_others(task.id)
        if landing.kept is None and (number := past.left_elsewhere(task)) is not None:
            told = f"{task.id} starts from the branch: its unfinished work is in a snapshot"
            self._report(events.Notice("info", f"{told} (to go on from that: ralph restore {number}, then run again)"))
        return landing.kept

    def open(self, kept: Kept | None) -> Opening:
        self._opening = self.workspace.open(kept.tree if kept else None, after=self._opening)
        self.gear.gatekeeper.make_ready(self._opening)
        return self._opening

    def own_commits(self) -> tuple[str, ...]:
        return ()  # the guard finds them

    def restore_state(self) -> tuple[str, ...]:
        return self._settler.restore_state()

    def guard(self, steps: Iterable[VerificationStep], opening: Opening) -> guard.Guard:
        files = (*self._outside.files(steps, opening), *self.gear.gatekeeper.copied_files())
        repository = self.gear.project.repository
        snapshots = snapshot_guard.remember(repository, self._settler.prd.project)
        return guard.remember(repository, files, snapshots=snapshots)

    def free(self, busy: Collection["Worker"]) -> "Worker":  # noqa: ARG002 - as of several
        """It is itself all there is."""
        return self

    def use(self, gear: Equipment, busy: Collection["Worker"]) -> None:  # noqa: ARG002
        """Go on with another configuration."""
        self.gear.gatekeeper.close()
        self.gear = gear

    def left(self, worker: "Worker") -> None:
        pass

    def close(self) -> None:
        """Remove what was made to work in."""
        self.gear.gatekeeper.close()
