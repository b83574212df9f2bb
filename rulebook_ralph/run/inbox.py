"""Messages to a running Ralph, as files in its folder within the git folder, and the answers to them.

A message is addressed to one process, or one session, by the beginning of its name, so that no later run takes it. It
is put there whole; whoever takes it removes it, and its sender removes the answer.
"""

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

from rulebook_ralph.errors import RalphError
from rulebook_ralph.run.lock import Holder
from rulebook_ralph.tasks import disk

MOST_BYTES = 1024 * 1024
"""The longest message."""

_FOLDER = "orders"
_LOOK = 0.1
_POLL = 0.02
_ENDING = 5.0
_MESSAGE, _ANSWER = ".message", ".answer"


class NoAnswerError(RalphError):
    """The message was taken and not answered in time: whether the run did what it was asked is not known."""


class Inbox:
    """Takes messages to `me` in the private folder of a project whose lock is held, while `open` lasts.

    `take` is called for each in a thread of the inbox's own with a token for `answer`, which may be called later and
    in any thread.
    """

    def __init__(self, private: Path, me: Holder, take: Callable[[str, bytes], None]) -> None:
        self._folder = private / _FOLDER
        self._address = _address(me)
        self._take = take
        self._ended = Event()

    @contextmanager
    def open(self) -> Iterator[str]:
        """Gives a line where nothing can be taken, which is no reason to end a run; else nothing."""
        thread = Thread(target=self._serve, name="ralph-inbox", daemon=True)
        problem = ""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for old in self._folder.iterdir():
                mine = old.name.startswith(self._address) and old.suffix == _MESSAGE
                if old.suffix in (_MESSAGE, _ANSWER) and not mine:
                    old.unlink()
            self._look()  # what was left for a session is taken before anything else is done
            thread.start()
        except (OSError, RuntimeError) as error:
            why = getattr(error, "strerror", None) or error
            problem = f"'ralph task', 'pause' and 'cancel' cannot reach this run ({self._folder}: {why})"
        try:
            yield problem
        finally:
            self._ended.set()
            if thread.ident is not None:
                thread.join(_ENDING)

    def answer(self, token: str, data: bytes) -> None:
        """Answer a message; a sender that is gone hears nothing."""
        with suppress(RalphError, OSError):
            disk.replace_file(self._folder / f"{token}{_ANSWER}", data)

    def _serve(self) -> None:
        while not self._ended.wait(_LOOK):
            self._look()

    def _look(self) -> None:
        try:
            found = sorted(self._folder.glob(f"{self._address}*{_MESSAGE}"))
        except OSError:
            return
        for path in found:
            data = b""
            with suppress(RalphError, OSError):
                data = disk.read_file(path, largest=MOST_BYTES)
            try:
                path.unlink()
            except OSError:  # its sender took it back
                continue
            self._take(path.name.removesuffix(_MESSAGE), data)


def post(private: Path, to: Holder, data: bytes) -> str:
    """Leave a message, and return the token of its answer. Raises RalphError."""
    if len(data) > MOST_BYTES:
        raise RalphError(f"this edit is longer than {MOST_BYTES // 1024} KB; make it with an editor")
    folder = private / _FOLDER
    token = f"{_address(to)}{time.time_ns():020d}-{os.urandom(4).hex()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise disk.cannot_write(folder, error) from error
    disk.replace_file(folder / f"{token}{_MESSAGE}", data)
    return token


def ask(private: Path, to: Holder, data: bytes, *, seconds: float) -> bytes | None:
    """The answer to a message; None where it was not taken, and is taken back. Raises RalphError."""
    token = post(private, to, data)
    message, answer = (private / _FOLDER / f"{token}{suffix}" for suffix in (_MESSAGE, _ANSWER))
    deadline = time.monotonic() + seconds
    while (told := disk.content_of(answer)) is None:
        if time.monotonic() < deadline and (to.lives() or answer.exists()):
            time.sleep(_POLL)
            continue
        try:
            message.unlink()
        except FileNotFoundError:
            if (told := disk.content_of(answer)) is not None:
                break
            raise NoAnswerError(
                f"{to.told()} has not answered within {seconds:.0f} s and may obey later; look with: ralph status"
            ) from None
        else:
            return None
    with suppress(OSError):
        answer.unlink()
    return told


def _address(who: Holder) -> str:
    """How the names of messages to a session, or else a process, begin."""
    name = re.sub(r"[^A-Za-z0-9]", "-", who.session) if who.session else f"{who.pid}-{who.started}"
    return f"{name}."
