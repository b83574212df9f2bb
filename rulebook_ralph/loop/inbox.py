"""The running Ralph's end of the control socket: a person's edits and orders, taken while an agent works.

Nothing that comes in can end or hold up the run: who may send is decided before a byte is read, a message is bounded in
size and time, and whatever goes wrong becomes an answer.
"""

import os
import select
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Self

import msgspec

from rulebook_ralph import control, lineage
from rulebook_ralph.cancellation import Cancellation
from rulebook_ralph.control import Answer
from rulebook_ralph.core import edits, orders
from rulebook_ralph.core.edits import EditRefusedError, Sent
from rulebook_ralph.core.orders import Order
from rulebook_ralph.core.problem import escaped
from rulebook_ralph.errors import RalphError

_SENDING = 5.0
_ENDING = 5.0
_PAUSE = 0.1

INSIDE = "an agent may not change the task list or end the run; say in the report what should be changed"


class Inbox:
    """Listens from `with` to its end, for the project with that private git folder, whose lock must be held.

    `apply` is called in a thread of the inbox's own, once for each edit: it returns the line for the person, or raises
    RalphError; `obey` likewise for each order. Enter it before the first agent: what runs before could take its place.
    `problem` is a line where nothing can be taken, which is no reason to end a run.
    """

    def __init__(
        self,
        private: Path,
        apply: Callable[[Sent], str],
        obey: Callable[[Order], Answer] | None = None,
        *,
        seconds: float = _SENDING,
    ) -> None:
        self._place = control.address(private, os.getpid())
        self._apply = apply
        self._obey = obey
        self._seconds = seconds
        self._ended = Cancellation()
        self._listener: socket.socket | None = None
        self._thread = Thread(target=self._serve, name="ralph-inbox", daemon=True)
        self.problem = ""

    def __enter__(self) -> Self:
        try:
            self._listener = control.listen(self._place)
            self._thread.start()
        except (OSError, RuntimeError) as error:
            why = getattr(error, "strerror", None) or error
            self.problem = f"'ralph task', 'pause' and 'cancel' cannot reach this run: {why}"
            self._close()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._listener is not None:
            self._thread.join(_ENDING)
            self._close()

    def _close(self) -> None:
        if self._listener is not None:
            control.stop_listening(self._listener, self._place)
            self._listener = None

    def _serve(self) -> None:
        listener = self._listener
        if listener is None:
            return
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        poll.register(self._ended, select.POLLIN)
        while True:
            poll.poll()
            if self._ended.is_set():
                return
            try:
                connection, _ = listener.accept()
            except OSError:  # no more files may be open
                self._ended.wait(_PAUSE)
                continue
            with connection, suppress(OSError):  # the other end is gone
                self._serve_one(connection)

    def _serve_one(self, connection: socket.socket) -> None:
        answer = self._answer(connection)
        if answer is not None:
            control.send(connection, msgspec.json.encode(answer), seconds=self._seconds)

    def _answer(self, connection: socket.socket) -> Answer | None:
        """What the other end is told; another user is told nothing."""
        peer = control.peer_of(connection)
        if peer.uid != os.getuid():
            return None
        if problem := _refusal(peer.pid):
            return Answer(problem, refused=True)
        try:
            return self._done(control.receive(connection, seconds=self._seconds))
        except EditRefusedError as error:
            return Answer(str(error), refused=True, faults=error.faults)
        except RalphError as error:
            return Answer(str(error), refused=True)
        except Exception as error:  # noqa: BLE001 - whatever it is, the run goes on
            return Answer(f"unexpected error ({type(error).__name__}: {escaped(str(error), 200)})", refused=True)

    def _done(self, message: bytes) -> Answer:
        """Raises RalphError where it is refused."""
        order = orders.decode(message) if self._obey else None
        if order is None or self._obey is None:
            return Answer(self._apply(edits.decode(message)))
        return self._obey(order)


def _refusal(pid: int) -> str:
    """Why the process may send no edits; empty where it may."""
    found = lineage.inside(pid, os.getpid()) if pid > 0 else None
    if found is None:
        return "cannot tell whether an agent asks; do this in the same container and session as 'ralph run'"
    return INSIDE if found else ""
