"""Giving an order to the run that goes on, from another terminal; what is said where it cannot be reached."""

import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from rulebook_ralph import control, lineage
from rulebook_ralph.app import App
from rulebook_ralph.control import Answer, NoAnswerError
from rulebook_ralph.core.orders import Cancel, Look, Order, Pause, Situation
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop import session_note
from rulebook_ralph.state import lock
from rulebook_ralph.state.holder import here, is_stopped
from rulebook_ralph.state.lock import Holder

_ANSWER = 10.0
_LISTENING = 5.0
_LOOK = 1.0
_PAUSE = 0.05


@dataclass(frozen=True, slots=True)
class Obeyed:
    """The run that took an order, and what it said."""

    holder: Holder
    answer: Answer


def order(app: App, private: Path, order: Pause | Cancel, *, listening: float | None = None) -> Obeyed | None:
    """Give the order; None where no run is going on. `listening` is how long a run that has only begun is waited for
    (5 s). Raises RalphError where the run refuses or cannot be reached.
    """
    if lineage.carries_mark(app.environment):
        raise RalphError("this runs inside an agent's process tree, where a run may not be paused or cancelled")
    deadline = app.clock.monotonic() + (_LISTENING if listening is None else listening)
    while True:
        holder = lock.holder(private / "lock") or lock.holder(private / lock.WATCH)
        if holder is None:
            return None
        if holder.pid == 0:
            raise RalphError(lock.unnamed(private / "lock", holder))
        if problem := _out_of_reach(holder):
            raise RalphError(problem)
        if holder.is_agent:
            return Obeyed(holder, Answer(_noted(private, order)))
        answer = _asked(private, holder, order, seconds=_ANSWER)
        if answer is not None and answer.refused:
            raise RalphError(answer.text)
        if answer is not None:
            return Obeyed(holder, answer)
        if app.clock.monotonic() >= deadline:
            raise RalphError(f"{holder.told(here())} cannot be reached; interrupt it with: kill -INT {holder.pid}")
        time.sleep(_PAUSE)  # it has only just begun, or is about to end


def _noted(private: Path, order: Pause | Cancel) -> str:
    """Between two stops of a session none of Ralph's processes can be asked: the next one finds it."""
    match order:
        case Pause(undo=True):
            session_note.give_order(private, "")
            return "the pause is taken back; the session goes on"
        case Pause():
            session_note.give_order(private, "pause")
            return "the session ends its loop at its next stop, when the task at hand is judged"
        case Cancel():
            session_note.give_order(private, "cancel")
            return "the session ends its loop at its next stop; its attempt is kept in a snapshot and not counted"


def situation(private: Path, holder: Holder) -> Situation | None:
    """What the run does now; None where it does not tell, as to an agent's process. Takes at most a second."""
    if holder.is_agent or _out_of_reach(holder):
        return None
    try:
        answer = control.ask(
            control.address(private, holder.pid), msgspec.json.encode(Look()), server=holder.pid, seconds=_LOOK
        )
    except RalphError:
        return None
    return answer.situation if answer is not None else None


def _out_of_reach(holder: Holder) -> str:
    """Why it cannot take orders; empty where it may."""
    if here().is_other(holder):
        return f"{holder.told(here())} takes orders on its own host only"
    if holder.command not in lock.RUNS:
        return f"{holder.told()} is working on this project; it is no run and ends by itself"
    if is_stopped(holder):
        return f"{holder.told()} was stopped: let it go on with kill -CONT {holder.pid}, then ask again"
    return ""


def _asked(private: Path, holder: Holder, order: Order, *, seconds: float) -> Answer | None:
    place = control.address(private, holder.pid)
    try:
        return control.ask(place, msgspec.json.encode(order), server=holder.pid, seconds=seconds)
    except NoAnswerError:
        raise RalphError(
            f"{holder.told()} did not answer within {seconds:.0f} s and may obey later; "
            f"look with ralph status, or interrupt it with: kill -INT {holder.pid}"
        ) from None
