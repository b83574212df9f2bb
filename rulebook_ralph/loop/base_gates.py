"""The gates on the base, once before any agent works: what is red there is not held against a task."""

from contextlib import nullcontext

from rulebook_ralph.checks.shell import Cancelled
from rulebook_ralph.core.enumeration import some
from rulebook_ralph.core.events import Notice
from rulebook_ralph.loop.checkout import UnusableError
from rulebook_ralph.loop.gatekeeper import Base
from rulebook_ralph.loop.settler import Settler
from rulebook_ralph.loop.worker import Worker


def gates_on_base(worker: Worker, settler: Settler, *, strict: bool) -> Base:
    """What they say; where unfinished work stands in the tree, what they said before. Raises RalphError, also for red
    ones when `strict`.
    """
    if not worker.gear.gatekeeper.steps:
        return Base()
    if settler.landing.kept is not None:
        return settler.past.base()
    try:
        opening = worker.open(None)
    except (UnusableError, Cancelled):  # the first iteration will say so
        return Base()
    gatekeeper = worker.gear.gatekeeper
    if not worker.place and (untracked := sorted(opening.untracked)):
        worker.report(Notice("info", f"untracked, so an agent's changes to it do not count: {some(untracked)}"))
    guarded = worker.guard(gatekeeper.steps, opening)
    with nullcontext() if worker.place else settler.watched():
        return gatekeeper.run_on_base(opening, guarded, strict=strict)
