"""What a person asks of a run from another terminal, and what a run tells of itself there."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event as Flag
from threading import Lock
from typing import Literal, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from rulebook_ralph.clock import Clock
from rulebook_ralph.errors import RalphError
from rulebook_ralph.process.cancellation import Cancellation
from rulebook_ralph.report.events import Event, IterationOpened, IterationSettled, Notice, Waiting, WithinIteration
from rulebook_ralph.run import lock
from rulebook_ralph.run.inbox import Inbox, ask, post
from rulebook_ralph.run.lock import Holder
from rulebook_ralph.run.policy import Stop
from rulebook_ralph.tasks.model import Value
from rulebook_ralph.tasks.text import Fault, escaped

_ANSWER = 10.0
_LISTENING = 5.0
_STATUS = 1.0
_PAUSE = 0.05


Item = TypeVar("Item")


class Pause(Value, frozen=True, kw_only=True, tag_field="order", tag="pause"):
    """End the run after this iteration; with `undo`, go on after all."""

    undo: bool = False


class Cancel(Value, frozen=True, kw_only=True, tag_field="order", tag="cancel"):
    """End the run now."""


class Look(Value, frozen=True, kw_only=True, tag_field="order", tag="look"):
    """Say what the run does."""


class Edit(Value, frozen=True, kw_only=True, tag_field="order", tag="edit"):
    """Change the task list; `change` is read by whoever takes it."""

    change: msgspec.Raw


Order = Pause | Cancel | Look | Edit


class LimitWait(Value, frozen=True, kw_only=True):
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
    waiting: LimitWait | None = None


class RunSituation(Value, frozen=True, kw_only=True):
    """What a run does now: the iterations that are not settled, oldest first. With `waiting` nobody works.

    `ending` says by what word it was told to end at once; empty where it was not.
    """

    at_work: tuple[AtWork, ...] = ()
    waiting: LimitWait | None = None
    pausing: bool = False
    ending: Literal["", "cancelled", "interrupted"] = ""


class OrderReply(msgspec.Struct, frozen=True):
    """What the running Ralph says. With `refused` nothing was changed; `faults` are all that is wrong with an edit.

    `situation` is where the run stood when an order came.
    """

    text: str
    refused: bool = False
    faults: tuple[Fault, ...] = ()
    situation: RunSituation | None = None


PAUSED = Stop("paused", "paused as asked; 'ralph resume' goes on")
CANCELLED = Stop("cancelled", "cancelled as asked; what was made is saved as an attempt and not counted")
INTERRUPTED = Stop("interrupted", "interrupted; 'ralph resume' continues")


class Orders:
    """What one run was asked. Orders are obeyed in a thread of their own, edits in the run's (`take_edits`); ^C comes
    by `cancelled` alone.

    `paused` is set while a pause is asked for.
    """

    def __init__(self, cancelled: Flag, *, report: Callable[[Event], None], clock: Clock) -> None:
        self._cancelled = cancelled
        self._report = report
        self._clock = clock
        self._lock = Lock()
        self._situation = RunSituation()
        self._cancels = False
        self._to_stop: SimpleQueue[int] = SimpleQueue()
        self._edits: SimpleQueue[tuple[str, bytes]] = SimpleQueue()
        self._inbox: Inbox | None = None
        self._wake: Callable[[], None] = lambda: None
        self.paused = Cancellation()

    @contextmanager
    def heard(self, private: Path, *, name: str = lock.LOCK, wake: Callable[[], None] | None = None) -> Iterator[None]:
        """Take orders from other terminals meanwhile, in the name of the holder of that lock, which is this process.
        `wake` is called in another thread when there is something for the run's own.
        """
        me = lock.holder(private / name)
        if me is None:
            raise RalphError(f"the lock {private / name} is not held any more; give the command again")
        self._wake = wake or self._wake
        self._inbox = Inbox(private, me, self._take)
        with self._inbox.open() as problem:
            if problem:
                self._report(Notice("warning", problem))
            try:
                yield
            finally:
                self.take_edits(_refuse)

    def report(self, event: Event) -> None:
        """Pass on what happens in the run, keeping where it stands."""
        with self._lock:
            self._situation = after(self._situation, event, at=self._clock.iso())
        self._report(event)

    def take_edits(self, apply: Callable[[bytes], str]) -> None:
        """Apply what was sent since the last time. `apply` returns the line for the person, or raises RalphError, whose
        `faults`, if it has any, are passed on.
        """
        for token, change in _drained(self._edits):
            self._answer(token, apply, change)

    @property
    def situation(self) -> RunSituation:
        """Where the run stands."""
        with self._lock:
            situation = self._situation
        if not self._cancelled.is_set():
            return replace(situation, pausing=self.paused.is_set())
        return replace(situation, ending="cancelled" if self._cancels else "interrupted")

    def stop(self) -> Stop | None:
        """Why the run ends now, whatever there is to do."""
        if not self._cancelled.is_set():
            return None
        return CANCELLED if self._cancels else INTERRUPTED

    def pause(self) -> Stop | None:
        """Why nothing more is begun; None again when the pause is taken back."""
        return PAUSED if self.paused.is_set() else None

    def stop_attempt(self, number: int) -> None:
        """End the agent of that iteration; its work is kept, and judged to be unfinished."""
        self._to_stop.put(number)
        self._report(Notice("info", f"stopping the attempt of #{number}"))
        self._wake()

    def attempts_to_stop(self) -> list[int]:
        """The iterations whose attempts a person has stopped since the last time."""
        return list(_drained(self._to_stop))

    def obey(self, order: Pause | Cancel | Look) -> OrderReply:
        """Obey; what the person is told."""
        before = self.situation
        match order:
            case Look():
                return OrderReply("", situation=before)
            case Cancel():
                self._cancels = True
                self._cancelled.set()
                if before.ending != "cancelled":
                    self._report(Notice("info", "cancelled: ending now; the attempt is saved and not counted"))
                return OrderReply("cancelling", situation=before)
            case Pause():
                return self._pause(before, undo=order.undo)

    def _pause(self, before: RunSituation, *, undo: bool) -> OrderReply:
        if before.ending:
            return OrderReply(f"the run is ending already ({before.ending})", situation=before)
        if undo and not before.pausing:
            return OrderReply("no pause was asked for; the run goes on", situation=before)
        if undo:
            self.paused.clear()
            self._report(Notice("info", "the pause is taken back: the run goes on"))
            return OrderReply("the pause is taken back; the run goes on", situation=before)
        self.paused.set()
        self._wake()
        when = _when(before)
        if not before.pausing:
            self._report(Notice("info", f"pausing: the run ends {when}"))
        return OrderReply(f"the run ends {when}; go on later with: ralph resume", situation=before)

    def _take(self, token: str, data: bytes) -> None:
        """In the inbox's thread."""

        def taken(data: bytes) -> OrderReply | None:
            order = decode(data)
            if not isinstance(order, Edit):
                return self.obey(order)
            self._edits.put((token, bytes(order.change)))
            return None

        self._answer(token, taken, data)
        self._wake()

    def _answer(self, token: str, take: Callable[[bytes], OrderReply | str | None], data: bytes) -> None:
        """Answer what `take` says, if it says something now. Nothing that comes in can end or hold up the run."""
        try:
            told = take(data)
        except RalphError as error:
            told = OrderReply(str(error), refused=True, faults=getattr(error, "faults", ()))
        except Exception as error:  # noqa: BLE001 - whatever it is, the run goes on
            why = f"unexpected error ({type(error).__name__}: {escaped(str(error), 200)})"
            told = OrderReply(why, refused=True)
        if told is not None and self._inbox is not None:
            self._inbox.answer(token, msgspec.json.encode(OrderReply(told) if isinstance(told, str) else told))


def _drained(queue: "SimpleQueue[Item]") -> Iterator[Item]:
    """What is in the queue now."""
    with suppress(Empty):
        while True:
            yield queue.get_nowait()


def _refuse(_: bytes) -> str:
    raise RalphError("the run is ending; say it again when it has ended")


def _when(situation: RunSituation) -> str:
    """A wait ends as soon as a pause is asked for."""
    working = [each for each in situation.at_work if each.waiting is None]
    if situation.waiting or (situation.at_work and not working):
        return "now, as no agent works"
    return f"after {named(working)}" if working else "before the next iteration"


def named(iterations: Sequence[AtWork]) -> str:
    """`iteration #7 (t2)`, `iterations #7, #8 (t2, t3)`."""
    numbers = ", ".join(f"#{each.iteration_number}" for each in iterations)
    tasks = ", ".join(each.task_id for each in iterations)
    return f"iteration{'s' if len(iterations) > 1 else ''} {numbers} ({tasks})"


def after(situation: RunSituation, event: Event, *, at: str) -> RunSituation:
    """The situation after what a run reported at the ISO time `at`."""
    match event:
        case IterationOpened():
            begun = AtWork(
                iteration_number=event.iteration_number,
                task_id=event.task_id,
                title=event.title,
                stage=event.stage,
                attempt=event.attempt,
                agent=event.agent,
                since=at,
            )
            return replace(situation, at_work=(*situation.at_work, begun), waiting=None)
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
    return situation


def _wait(event: Waiting) -> LimitWait | None:
    """None where it is over."""
    until = event.until.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return LimitWait(until=until, reason=event.reason) if event.seconds > 0 else None


def decode(data: bytes) -> Order:
    """An order that was sent. Raises RalphError."""
    try:
        order: Order = msgspec.json.decode(data, type=Order)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RalphError(f"this is no order to a run: {escaped(str(error), 200)}") from None
    return order


# The other terminal


class Obeyed(NamedTuple):
    """The run that took an order, and what it said."""

    holder: Holder
    answer: OrderReply


def give(private: Path, order: Order, *, clock: Clock, listening: float = _LISTENING) -> Obeyed | None:
    """Give an order to the run that goes on; None where none does. Raises RalphError where it cannot be reached.

    `listening` is how long a run that has only begun is waited for. An edit that is refused comes back as an answer.
    """
    deadline = clock.monotonic() + listening
    while True:
        holder = lock.holder(private / lock.LOCK) or lock.holder(private / lock.WATCH)
        if holder is None:
            return None
        if problem := _out_of_reach(holder):
            raise RalphError(problem)
        if holder.is_agent:
            post(private, holder, msgspec.json.encode(order))
            return Obeyed(holder, OrderReply("the session takes it at its next stop"))
        answer = _asked(private, holder, order, seconds=_ANSWER)
        if answer is not None:
            if answer.refused and not isinstance(order, Edit):
                raise RalphError(answer.text)
            return Obeyed(holder, answer)
        if clock.monotonic() >= deadline:
            raise RalphError(f"{holder.told()} cannot be reached; interrupt it with: kill -INT {holder.pid}")
        time.sleep(_PAUSE)  # it has only just begun, or is about to end


def situation(private: Path, holder: Holder) -> RunSituation | None:
    """What the run does now; None where it does not tell, as an agent's process. Takes at most a second."""
    if holder.is_agent or _out_of_reach(holder):
        return None
    try:
        answer = _asked(private, holder, Look(), seconds=_STATUS)
    except RalphError:
        return None
    return answer.situation if answer is not None else None


def _asked(private: Path, holder: Holder, order: Order, *, seconds: float) -> OrderReply | None:
    told = ask(private, holder, msgspec.json.encode(order), seconds=seconds)
    try:
        return None if told is None else msgspec.json.decode(told, type=OrderReply)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise RalphError(f"{holder.told()} gave an answer that cannot be read; look with: ralph status") from None


def _out_of_reach(holder: Holder) -> str:
    """Why it cannot take orders; empty where it may."""
    if not holder.pid:
        return "something holds the project's lock that is not named in it; find it: fuser .git/ralph/lock"
    if holder.is_elsewhere:
        return f"{holder.told()} takes orders on its own host only"
    if holder.command not in lock.RUNS:
        return f"{holder.told()} is working on this project; it is no run and ends by itself"
    if holder.is_stopped:
        return f"{holder.told()} was stopped: let it go on with kill -CONT {holder.pid}, then ask again"
    return ""
