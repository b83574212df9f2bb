"""What a supervised process leaves behind, found wherever it went, and ended.

Every supervised process leads a session of its own and carries a mark: an environment variable with a name of its own,
which all that it starts inherits. On Linux Ralph is also the subreaper of everything below it, so whatever loses its
parent becomes Ralph's child. After a supervised process has ended, each child of Ralph is therefore one of these:

1. in Ralph's own session: started by Ralph in the ordinary way (git and the like), since nobody can join a session;
2. a supervised process that still runs: it stands in the household's register;
3. a leftover. It is this run's if it carries the mark or is in the run's session. One with neither (it cleared its
   environment and opened a session) is this run's if nothing else supervised is running; else the last to end takes it.

So nothing in Ralph may start a process in a session of its own other than through the supervisor. Where there is no
subreaper, all processes are searched for the mark and the session.
"""

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from subprocess import Popen

from rulebook_ralph import process_table as table

_KILL_WAIT = 5.0
_KILL_ROUND = 1.0
_LOOKS = 100


@dataclass(frozen=True, slots=True)
class Member:
    """A supervised process. `since` is the start time of the first of all that ran at the same time as it."""

    pid: int
    mark: str
    since: int


class Household:
    """The register of supervised processes that run now.

    It mirrors the kernel's list of Ralph's children, of which there is one per process: hence one `HOUSEHOLD`, below.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[int] = set()
        self._members = 0
        self._since = 0
        self._adopts: bool | None = None

    def start(self, launch: Callable[[], Popen[bytes]], mark: str) -> tuple[Popen[bytes], Member]:
        """Start a process that leads its own session and carries `mark`; what `launch` raises is passed on."""
        with self._lock:
            if self._adopts is None:
                self._adopts = table.become_subreaper()
            process = launch()
            entry = table.look(process.pid)
            if not self._members:
                self._since = entry.started if entry else 0
            self._members += 1
            self._running.add(process.pid)
            return process, Member(process.pid, mark, self._since)

    def main_ended(self, member: Member) -> None:
        """The process itself has been waited for; its leftovers may still run."""
        with self._lock:
            self._running.discard(member.pid)

    def leave(self, member: Member) -> None:
        with self._lock:
            self._running.discard(member.pid)
            self._members -= 1

    def end_leftovers(self, member: Member, *, grace: float, everywhere: bool) -> int:
        """End all that the member left, first asked to terminate if `grace` (seconds) is not 0; how many there were.

        `everywhere` searches for the mark outside Ralph's descendants too. Returns when none is left, or after 5 s
        with one that cannot be killed. Call it after `main_ended`.
        """
        seen: set[table.Entry] = set()
        out_of_reach: set[table.Entry] = set()
        deadline = time.monotonic() + grace + _KILL_WAIT
        order = signal.SIGTERM if grace > 0 else signal.SIGKILL
        while found := self._all_leftovers(member, everywhere=everywhere) - out_of_reach:
            seen |= found
            out_of_reach |= {entry for entry in found if not table.send(entry, order)}
            table.wait_until_gone(found - out_of_reach, grace if order is signal.SIGTERM else _KILL_ROUND)
            if time.monotonic() > deadline:
                break
            order = signal.SIGKILL
        return len(seen)

    def _all_leftovers(self, member: Member, *, everywhere: bool) -> set[table.Entry]:
        """What is left; nothing only if no child came or went meanwhile: one that forks and ends escapes a look."""
        found: set[table.Entry] = set()
        for _ in range(_LOOKS):
            before = table.children(os.getpid()) if self._adopts else []
            found = self._leftovers(member, everywhere=everywhere)
            if found or not self._adopts or table.children(os.getpid()) == before:
                break
        return found

    def _leftovers(self, member: Member, *, everywhere: bool) -> set[table.Entry]:
        found: set[int] = set()
        if self._adopts:
            with self._lock:
                roots = [pid for pid in table.children(os.getpid()) if self._is_leftover(pid, member)]
            while roots:
                found.update(roots)
                roots = [pid for root in roots for pid in table.children(root) if pid not in found]
        if everywhere or not self._adopts:
            from rulebook_ralph import process_search  # noqa: PLC0415 - psutil takes 20 ms and is seldom needed

            found.update(process_search.find(member.mark, session=member.pid))
        return {entry for pid in found if (entry := table.look(pid)) and not entry.is_zombie}

    def _is_leftover(self, pid: int, member: Member) -> bool:
        entry = table.look(pid)
        if entry is None or pid in self._running:
            return False
        if entry.session == os.getsid(0) or entry.started < member.since:
            return False
        if entry.is_zombie:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
            return False
        if entry.session == member.pid:
            return True
        marks = table.marks(pid)
        return member.mark in marks or (not marks and not self._running)


HOUSEHOLD = Household()


def end_what_was_left_by(ralph: int) -> tuple[int, int]:
    """End what a dead Ralph process left running, found by its mark and start time; how many there were, and how many
    remain.
    """
    from rulebook_ralph import process_search  # noqa: PLC0415 - psutil takes 20 ms and is seldom needed

    seen: set[table.Entry] = set()

    def left() -> set[table.Entry]:
        """What is found now, and what was found before and has lost its marked parent since."""
        now = {entry for pid in process_search.left_by(ralph) if (entry := table.look(pid))}
        return now | {entry for entry in seen if (same := table.look(entry.pid)) == entry and not same.is_zombie}

    for order, grace in ((signal.SIGTERM, 1.0), (signal.SIGKILL, _KILL_ROUND), (signal.SIGKILL, _KILL_WAIT)):
        found = left()
        if not found:
            break
        seen |= found
        for entry in found:
            table.send(entry, order)
        table.wait_until_gone(found, grace)
    return len(seen), len(left()) if seen else 0
