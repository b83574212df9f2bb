"""What a person may ask of a run from another terminal, and what a run tells of itself. Values and pure functions."""

from collections.abc import Sequence
from datetime import UTC
from typing import Literal

import msgspec
from msgspec.structs import replace

from rulebook_ralph.core.events import Event, IterationOpened, IterationSettled, Waiting, WithinIteration
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


class Wait(Value, frozen=True, kw_only=True):
    """`until` is the ISO time at which a limited agent or reviewer is asked again, empty where nothing says when."""

    until: str = ""
    reason: str


class AtWork(Value, frozen=True, kw_only=True):
    """An iteration that an agent works on, or whose work is judged; `since` is an ISO time. With `waiting` it is held
    up while others go on.
    """

    iteration_number: int
    task_id: str
    title: str
    stage: str
    attempt: int
    agent: str
    since: str
    waiting: Wait | None = None


class Situation(Value, frozen=True, kw_only=True):
    """What a run does now: the iterations that are not settled, oldest first. With `waiting` nobody works.

    `ending` says by what word it was told to end at once; empty where it was not.
    """

    at_work: tuple[AtWork, ...] = ()
    waiting: Wait | None = None
    pausing: bool = False
    ending: Literal["", "cancelled", "interrupted"] = ""


def after(situation: Situation, event: Event, *, at: str) -> Situation:
    """The situation after what a run reported at the ISO time `at`."""
    match event:
        case IterationOpened():
            return replace(situation, at_work=(*situation.at_work, _begun(event, at)), waiting=None)
        case IterationSettled():
            others = (each for each in situation.at_work if each.iteration_number != event.iteration_number)
            return replace(situation, at_work=tuple(others))
        case Waiting():
            return replace(situation, waiting=_wait(event))
        case WithinIteration(number, Waiting() as waiting):
            at_work = (
                replace(each, waiting=_wait(waiting)) if each.iteration_number == number else each
                for each in situation.at_work
            )
            return replace(situation, at_work=tuple(at_work))
        case _:
            return situation


def _begun(event: IterationOpened, at: str) -> AtWork:
    return AtWork(
        iteration_number=event.iteration_number,
        task_id=event.task_id,
        title=event.title,
        stage=event.stage,
        attempt=event.attempt,
        agent=event.agent,
        since=at,
    )


def _wait(event: Waiting) -> Wait | None:
    """None where it is over."""
    if event.seconds <= 0:
        return None
    until = event.until.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return Wait(until=until, reason=event.reason)


def named(iterations: Sequence[AtWork | Iteration]) -> str:
    """`iteration 7 (t2)`, `iterations 7, 8 (t2, t3)`."""
    numbers = ", ".join(str(each.iteration_number) for each in iterations)
    tasks = ", ".join(each.task_id for each in iterations)
    return f"iteration{'s' if len(iterations) > 1 else ''} {numbers} ({tasks})"


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
