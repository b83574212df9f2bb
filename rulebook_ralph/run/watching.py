"""Learning at once that a file was written, where the system can tell.

What a system tells is never complete: a lost event, a folder that was made anew, another machine's edit on a shared
disk. So this only wakes; whoever is woken looks at the files, and looks now and then without being woken.
"""

import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event

from rulebook_ralph.process.cancellation import Cancellation, Either
from rulebook_ralph.tasks import disk

QUIET = 0.5
"""Seconds for which nothing is written any more: an editor's several events are one edit."""

LOOK = 1.0
"""Seconds between looks without any event."""

_ENDING = 5.0
_READING = ("opened", "closed_no_write")
"""Events that nobody wrote anything for."""

Seen = tuple[disk.Fingerprint | None, ...]


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
    with ExitStack() as stack:
        for folder in {path.parent for path in paths}:
            stack.enter_context(woken_by(folder, woken))
        while not cancelled.is_set():
            woken.clear()
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


@contextmanager
def woken_by(folder: Path, woken: Event) -> Iterator[None]:
    """From `with` to its end `woken` is set when a file in the folder is written, made or removed, as far as the system
    tells: it may have no room for one more that listens.
    """
    from watchdog import events  # noqa: PLC0415 - 40 ms, only where something is waited for
    from watchdog.observers import Observer  # noqa: PLC0415

    class Handler(events.FileSystemEventHandler):
        def on_any_event(self, event: events.FileSystemEvent) -> None:
            if event.event_type not in _READING:  # a look would wake the next one
                woken.set()

    observer = Observer()
    with suppress(OSError):  # there is no such folder yet, or no room
        observer.schedule(Handler(), str(folder), recursive=False)
        observer.start()
    try:
        yield
    finally:
        if observer.is_alive():
            observer.stop()
            observer.join(_ENDING)
