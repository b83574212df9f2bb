"""Single processes: their marks, parents and sessions as the kernel tells them, and signals that reach no other."""

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Collection
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

MARK = "RALPH_MARK_"
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, slots=True)
class Entry:
    """A process. Its id and start time (clock ticks since boot; 0 where unknown) are never reused together."""

    pid: int
    started: int = 0
    session: int = field(default=0, compare=False)
    is_zombie: bool = field(default=False, compare=False)


def new_mark() -> str:
    """The name of an environment variable that nothing else carries; it tells which Ralph process set it."""
    return f"{MARK}{os.getpid()}_{os.urandom(8).hex()}"


def become_subreaper() -> bool:
    """Make this process the parent of every orphan below it; whether the system can do that."""
    if sys.platform != "linux":
        return False
    import ctypes  # noqa: PLC0415 - 5 ms, and only here

    if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        return False
    return os.access(f"/proc/self/task/{threading.get_native_id()}/children", os.R_OK)


def look(pid: int) -> Entry | None:
    """The process of that id, if there is one."""
    if sys.platform != "linux":
        return Entry(pid)
    stat = _read(f"/proc/{pid}/stat")
    if not stat:
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()
    return Entry(pid, started=int(fields[19]), session=int(fields[3]), is_zombie=fields[0] in (b"Z", b"X"))


def children(pid: int) -> list[int]:
    """The children of all threads of a process (Linux)."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - names are all that is wanted, for every iteration
    except OSError:
        return []
    return [int(child) for thread in threads for child in _read(f"/proc/{pid}/task/{thread}/children").split()]


def marks(pid: int) -> frozenset[str]:
    """The marks a process carries that this Ralph process set (Linux)."""
    own = f"{MARK}{os.getpid()}_".encode()
    entries = _read(f"/proc/{pid}/environ").split(b"\0")
    return frozenset(entry.partition(b"=")[0].decode("ascii", "replace") for entry in entries if entry.startswith(own))


def send(entry: Entry, signal_number: signal.Signals) -> bool:
    """Send a signal to that very process; False if that is not permitted. One that is gone is no failure."""
    with suppress(ProcessLookupError):
        try:
            if sys.platform == "linux":
                _send_to_file(entry, signal_number)
            else:
                os.kill(entry.pid, signal_number)
        except PermissionError:
            return False
    return True


def wait_until_gone(entries: Collection[Entry], seconds: float) -> None:
    """Return as soon as all of them have ended, or after that time."""
    if sys.platform != "linux":
        import psutil  # noqa: PLC0415 - only where the kernel offers nothing to wait on

        processes = []
        for entry in entries:
            with suppress(psutil.Error):
                processes.append(psutil.Process(entry.pid))
        psutil.wait_procs(processes, timeout=seconds)
        return
    deadline = time.monotonic() + seconds
    with ExitStack() as stack:
        poll = select.poll()
        waiting = set()
        for entry in entries:
            with suppress(ProcessLookupError):
                file = os.pidfd_open(entry.pid)
                stack.callback(os.close, file)
                poll.register(file, select.POLLIN)
                waiting.add(file)
        while waiting and (left := deadline - time.monotonic()) > 0:
            for file, _ in poll.poll(left * 1000):
                poll.unregister(file)
                waiting.discard(file)


def _send_to_file(entry: Entry, signal_number: signal.Signals) -> None:
    file = os.pidfd_open(entry.pid)
    try:
        if look(entry.pid) == entry:
            signal.pidfd_send_signal(file, signal_number)
    finally:
        os.close(file)


def _read(path: str) -> bytes:
    try:
        with Path(path).open("rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""
