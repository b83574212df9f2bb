"""What only a person may agree to: refused to whatever an agent, a gate or a check started."""

import os
from pathlib import Path

from rulebook_ralph import lineage
from rulebook_ralph.app import App
from rulebook_ralph.errors import RalphError
from rulebook_ralph.state import lock


def refuse_inside(app: App, lock_file: Path, what: str) -> None:
    """Raises RalphError within the process tree of the run that holds the lock, whatever environment was left there,
    and where it cannot be told which run that is.

    `what` ends the sentence: what is refused.
    """
    told = f"this runs inside an agent's process tree, where {what}"
    if lineage.carries_mark(app.environment):
        raise RalphError(told)
    running = lock.holder(lock_file)
    if running is None:
        return
    if not running.pid:
        raise RalphError(lock.unnamed(lock_file, running))
    if lineage.inside(os.getpid(), running.pid):
        raise RalphError(told)
