"""What a person may ask of a run from another terminal, and what a run tells of itself. Values and pure functions."""

from datetime import UTC
from typing import Literal

import msgspec
from msgspec.structs import replace

from rulebook_ralph.core.events import Event, IterationOpened, IterationSettled, Waiting
from rulebook_ralph.core.evidence import Iteration
from rulebook_ralph.core.model import Value
from rulebook_ralph.core.problem import escaped
from rulebook_ralph.errors import RalphError


class Pause(Value, frozen=True, kw_only=True, tag_field="order", tag="pause"):
    """End the run after this iteration; with `undo`, go on after all."""

    undo: bool = False


class Cancel(Value, frozen=True, kw_only=True, tag_field="order", tag="cancel"):
    """End the run now."""


class Look(Value, frozen=True, kw_only=True, tag_field="order", tag="look"):
    """Say what the run does."""


Order = Pause | Cancel | Look


class AtWork(Value, frozen=True, kw_only=True):
    """The iteration that an agent works on, or whose work is judged; `since` is an ISO time."""

    iteration_number: int
    task_id: str
    title: str
    stage: str
    attempt: int
    agent: str
    since: str


class Situation(Value, frozen=True, kw_only=True):
    """What a run does now. `waiting_until` is the ISO time at which a limited agent is asked again, empty without one.

    `ending` says by what word it was told to end at once; empty where it was not.
    """

    at_work: AtWork | None = None
    waiting_until: str = ""
    waiting_for: str = ""
    pausing: bool = False
    ending: Literal["", "cancelled", "interrupted"] = ""


def after(situation: Situation, event: Event, *, at: str) -> Situation:
    """The situation after what a run reported at the ISO time `at`."""
    match event:
        case IterationOpened():
            at_work = AtWork(
                iteration_number=event.iteration_number,
                task_id=event.task_id,
                title=event.title,
                stage=event.stage,
                attempt=event.attempt,
                agent=event.agent,
                since=at,
            )
            return replace(situation, at_work=at_work, waiting_until="", waiting_for="")
        case IterationSettled():
            return replace(situation, at_work=None)
        case Waiting() if event.seconds > 0:
            until = event.until.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
            return replace(situation, waiting_until=until, waiting_for=event.reason)
        case Waiting():
            return replace(situation, waiting_until="", waiting_for="")
        case _:
            return situation


def cancelled(judged: Iteration) -> Iteration:
    """The record of an attempt that a cancelled run cut short; the same where it came to an end of its own."""
    verdict = judged.verdict
    if verdict is None or verdict.stop_reason != "interrupted":
        return judged
    reason = "cancelled by 'ralph cancel'"
    told = "The last attempt was cancelled by a person, and the tree put back to the base."
    return replace(
        judged,
        verdict=replace(verdict, reason=reason, stop_reason="cancelled"),
        stop_reason="cancelled",
        feedback=told,
    )


class _Kind(msgspec.Struct):
    order: str = ""


def decode(data: bytes) -> Order | None:
    """An order that was sent; None where the message is no order at all. Raises RalphError for one that is unknown."""
    try:
        if not msgspec.json.decode(data, type=_Kind).order:
            return None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    try:
        order: Order = msgspec.json.decode(data, type=Order)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RalphError(f"this is no order to a run: {escaped(str(error), 200)}") from None
    return order
