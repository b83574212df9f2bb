"""The events of the last run, a line of JSON each, in a file of the git folder: another terminal can attach to a run
that goes on, and read what was before.
"""

import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import msgspec

from rulebook_ralph.report.events import AgentActivity, Event, WithinIteration, as_object

NAME = "events.jsonl"
"""The file, in Ralph's private folder."""

_MOST_ACTIVITY = 64 * 1024 * 1024
_MOST_AT_ONCE = 1024 * 1024


class EventLog:
    """Writes the events of one run, from `with` to its end; those of the run before are gone. Trouble with the file is
    no reason to end a run: `problem` says it, and no more is written.

    What an agent does is left out once the file has 64 MB; all else never is.
    """

    def __init__(self, private: Path, *, now: Callable[[], datetime]) -> None:
        self._path = private / NAME
        self._now = now
        self._file = -1
        self._size = 0
        self.problem = ""

    def __enter__(self) -> Self:
        try:
            with suppress(FileNotFoundError):  # readers of the old one keep it, and see that there is a new one
                self._path.unlink()
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            self._fail(error)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def write(self, event: Event) -> None:
        """Add an event, without secrets as it is shown."""
        within = event.event if isinstance(event, WithinIteration) else event
        if self._file < 0 or (self._size > _MOST_ACTIVITY and isinstance(within, AgentActivity)):
            return
        try:
            line = msgspec.json.encode(as_object(event, self._now())) + b"\n"
            self._size += os.write(self._file, line)
        except UnicodeEncodeError:  # a lone surrogate; the next event can be written
            return
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self.problem = f"events are not kept ({self._path}: {error.strerror or error}); 'ralph events' shows none"
        self.__exit__(None, None, None)


class KeptEvent(NamedTuple):
    """One event as JSON, and the place behind it, from which to go on. `begins`: it is the first of its run."""

    place: str
    data: bytes
    begins: bool


class EventLogReader:
    """Reads what was written so far, again and again; a new run's events follow those of the last.

    `place` is that of a line read earlier, by another reader too. Where its run is over, the new one is read from its
    beginning.
    """

    def __init__(self, private: Path, place: str = "") -> None:
        self._path = private / NAME
        self._run, _, offset = place.partition("-")
        self._offset = int(offset) if offset.isascii() and offset.isdigit() else 0

    def lines(self) -> Iterator[KeptEvent]:
        """The whole lines that are new; none before a first run. Raises OSError where the file cannot be read."""
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return
        with file:
            run = f"{zlib.crc32(file.readline(4096)):08x}"
            if run != self._run:
                self._run, self._offset = run, 0
            file.seek(self._offset)
            while block := file.read(_MOST_AT_ONCE):
                if not block.endswith(b"\n"):
                    block += file.readline()
                if not block.endswith(b"\n"):  # a line that is being written
                    block = block[: block.rfind(b"\n") + 1]
                    if not block:
                        return
                for line in block.removesuffix(b"\n").split(b"\n"):
                    begins = self._offset == 0
                    self._offset += len(line) + 1
                    yield KeptEvent(f"{run}-{self._offset}", line, begins)
                file.seek(self._offset)
