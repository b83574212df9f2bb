"""Learning at once that a file was written, where the system can tell.

What a system tells is never complete: a lost event, a moved folder, another machine's edit on a shared disk. So this
only wakes; whoever is woken looks at the files, and looks now and then without being woken.
"""

import os
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rulebook_ralph.process.cancellation import Cancellation, Either
from rulebook_ralph.tasks import disk

if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent
    from watchdog.observers.api import BaseObserver

QUIET = 0.5
"""Seconds for which nothing is written any more: an editor's several events are one edit."""

LOOK = 2.0
"""Seconds between looks without any event."""

_ENDING = 5.0

Seen = tuple[disk.Fingerprint | None, ...]
_Place = tuple[str, int, int]


def seen(paths: Iterable[Path]) -> Seen:
    """What tells the present contents of these files from other ones."""
    return tuple(disk.fingerprint(path) for path in paths)


def wait_for_change(
    paths: Collection[Path], cancelled: Cancellation, timeout: float | None = None, *, since: Seen | None = None
) -> bool:
    """Wait until one of the files is written, made or removed, and nothing is written any more.

    `since` is what `seen` gave when they were read; without it changes count from now. False when the time (seconds)
    is over or `cancelled` is set. Their folders need not be there yet.
    """
    since = seen(paths) if since is None else since
    deadline = None if timeout is None else time.monotonic() + timeout
    woken = Cancellation()
    names: dict[Path, set[str]] = defaultdict(set)
    for path in paths:
        names[path.parent].add(path.name)
    with ExitStack() as stack:
        folders = [stack.enter_context(FolderEvents(folder, files, woken)) for folder, files in names.items()]
        while not cancelled.is_set():
            woken.clear()
            for folder in folders:
                folder.follow()
            if seen(paths) != since and _is_settled(paths, cancelled):
                return True
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            Either(cancelled, woken).wait(LOOK if left is None else min(LOOK, left))
    return False


def _is_settled(paths: Collection[Path], cancelled: Cancellation) -> bool:
    before = seen(paths)
    while not cancelled.wait(QUIET):
        now = seen(paths)
        if now == before:
            return True
        before = now
    return False


class FolderEvents:
    """From `with` to its end `woken` is set when a file in the folder is written, made or removed: one of `names`, or
    any where these are None.

    Call `follow` at every look: a folder that was deleted and made again is another one to the system, and while there
    is none the one above it is listened to. `problem` says why nothing is heard; it is empty where events come.
    """

    def __init__(
        self,
        folder: Path,
        names: Collection[str] | None,
        woken: Event,
        *,
        observer: "Callable[[], BaseObserver] | None" = None,
    ) -> None:
        self._folder = folder
        self._names = None if names is None else frozenset(names)
        self._woken = woken
        self._make = observer or _observer
        self._observer: BaseObserver | None = None
        self._place: _Place | None = None
        self._gone = False
        self.problem = ""

    def __enter__(self) -> Self:
        self.follow()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def follow(self) -> None:
        """Listen to the folder as it is now. Never raises."""
        place = self._place_now()
        if place == self._place and (self.problem or self._listens()):
            return
        self._stop()
        self._place, self.problem = place, ""
        if place is None:
            return
        try:
            self._listen(Path(place[0]))
        except Exception as error:  # noqa: BLE001 - by whatever it fails, looking now and then is left
            self._stop()
            self._place = place
            self.problem = getattr(error, "strerror", None) or str(error) or type(error).__name__

    def _place_now(self) -> _Place | None:
        for folder in (self._folder, self._folder.parent):
            with suppress(OSError):
                status = folder.lstat()
                if folder.is_dir() and not folder.is_symlink():
                    return (str(folder), status.st_dev, status.st_ino)
        return None

    def _listens(self) -> bool:
        """Whether something still listens: a thread that died says nothing, nor does one whose folder was deleted."""
        observer = self._observer
        return (
            observer is not None
            and not self._gone
            and observer.is_alive()
            and all(emitter.is_alive() for emitter in observer.emitters)
        )

    def _listen(self, folder: Path) -> None:
        from watchdog import events  # noqa: PLC0415 - 40 ms, only where something is waited for

        kinds: list[type[FileSystemEvent]] = [  # reading is none of them: a look would wake the next one
            events.FileCreatedEvent,
            events.FileModifiedEvent,
            events.FileMovedEvent,
            events.FileDeletedEvent,
            events.FileClosedEvent,
            events.DirCreatedEvent,
            events.DirMovedEvent,
            events.DirDeletedEvent,
        ]
        wake = self._wake

        class Handler(events.FileSystemEventHandler):
            def on_any_event(self, event: events.FileSystemEvent) -> None:
                with suppress(Exception):  # one that escapes ends the observer, unheard
                    wake(event.src_path, event.dest_path)

        self._gone = False
        self._observer = observer = self._make()
        observer.schedule(Handler(), str(folder), recursive=False, event_filter=kinds)
        observer.start()

    def _wake(self, *paths: bytes | str) -> None:
        for path in (os.fsdecode(each) for each in paths if each):
            folder, _, name = path.rpartition("/")
            if path == str(self._folder):
                self._gone = True  # or it is there again: either way to be listened to anew
                self._woken.set()
            elif folder == str(self._folder) and (self._names is None or name in self._names):
                self._woken.set()

    def _stop(self) -> None:
        observer, self._observer, self._place = self._observer, None, None
        if observer is None:
            return
        with suppress(Exception):  # one that could not start cannot be stopped like others
            observer.stop()
            if observer.is_alive():
                observer.join(_ENDING)


def _observer() -> "BaseObserver":
    from watchdog.observers import Observer  # noqa: PLC0415 - see above

    return Observer()
