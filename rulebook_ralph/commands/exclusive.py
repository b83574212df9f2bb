"""The project's lock for a command that changes git or the history while no run goes on."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rulebook_ralph import lineage
from rulebook_ralph.app import App
from rulebook_ralph.commands.projects import end_orphans
from rulebook_ralph.core.model import Prd
from rulebook_ralph.errors import RalphError
from rulebook_ralph.state import history, lock
from rulebook_ralph.state.store import StateFolder
from rulebook_ralph.workspace.repository import Repository


class _StillToMendError(RalphError):
    """Leaves the lock as that of a dead run: the next start has to know."""


@contextmanager
def exclusive(app: App, repository: Repository, folder: StateFolder, *, command: str) -> Iterator[None]:
    """Hold the lock. Raises RalphError where a run goes on, where one died in the middle of an iteration, and within
    what an agent or a gate started. What a dead run left running is ended; to mend the rest is left to the next run.
    """
    if lineage.carries_mark(app.environment):
        raise RalphError(f"this runs inside an agent's process tree, where 'ralph {command}' is refused")
    with (
        suppress(_StillToMendError),
        lock.held(repository.lock_file, since=app.clock.iso(), command=command) as died,
    ):
        if died is not None:
            end_orphans(died, lambda _: None)  # of what may be a dead run's the next one tells
        for record in history.unsettled(folder):
            raise RalphError(
                f"the last run ended in the middle of iteration {record.iteration_number} ({record.names}); "
                "run 'ralph resume' first"
            )
        yield
        if died is not None:
            raise _StillToMendError("")


def is_on_branch(repository: Repository, prd: Prd, *, otherwise: str = "") -> bool:
    """Whether the project's branch is checked out; False where there is none any more. Raises RalphError where it is
    another; `otherwise` is what else can be done.
    """
    branch, here = prd.work_branch, repository.branch()
    if here == branch:
        return True
    if repository.tip(branch) is None:
        return False
    raise RalphError(
        f"{here or 'no branch'} is checked out, and the work happens on {branch}; run: git switch {branch}{otherwise}"
    )
