"""Waiting between the runs of a watch, until an edit or a dead run gives it something to do.

Nobody holds the project's lock meanwhile. What is seen counts, not what is heard: events of the file system only bring
a look forward, which compares the files' fingerprints and reads what has changed.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

from rulebook_ralph.cancellation import Cancellation, Either
from rulebook_ralph.clock import Clock
from rulebook_ralph.control import Answer
from rulebook_ralph.core import events, renewal
from rulebook_ralph.core.edits import Sent
from rulebook_ralph.core.model import Prd
from rulebook_ralph.core.orders import Look, Order, Pause, Situation, Wait
from rulebook_ralph.core.renewal import Left, Start
from rulebook_ralph.core.settings import Config
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop.inbox import Inbox
from rulebook_ralph.loop.watched_place import WatchedPlace
from rulebook_ralph.state import codec, disk, lock, store
from rulebook_ralph.state.file_events import FolderEvents
from rulebook_ralph.state.store import StateFolder
from rulebook_ralph.workspace.git import GitError

_QUIET = 0.5
"""Seconds for which nothing is written any more: an editor's several events are one edit."""
_HELD, _LOOK = 0.3, 2.0
"""Seconds between looks: while another command holds the lock, and without any event."""
_REFUSED = timedelta(seconds=60)

_Seen = tuple[object, ...]


class Vigil:
    """For one watch. `read_config` gives the configuration as it stands or raises RalphError, `settings` are the files
    that it comes from. `ended` is set when the watch is to end; orders from another terminal set it too.
    """

    def __init__(
        self,
        folder: StateFolder,
        place: WatchedPlace,
        read_config: Callable[[], Config],
        settings: tuple[Path, ...],
        *,
        only: tuple[str, ...],
        report: Callable[[events.Event], None],
        clock: Clock,
        ended: Cancellation,
    ) -> None:
        self.read_config = read_config
        self._folder = folder
        self._place = place
        self._settings = settings
        self._only = only
        self._report = report
        self._clock = clock
        self._ended = ended
        self._woken = Cancellation()
        self._said = ""
        self._told_deaf = False
        self._seen: _Seen | None = None
        self._due: datetime | None = None
        self._other_ran = False
        self._rebased: Left | None = None

    def until_free(self) -> None:
        """Wait until no other run goes on, or the watch is to end."""
        while not self._ended.is_set() and self._is_held():
            self._ended.wait(_HELD)

    def wait(self, left: Left, *, refused: str = "") -> Start | None:
        """Wait until there is something to do; None where the watch is to end. `refused` says why what this called for
        last could not start: it is called for again after an edit, and every minute.
        """
        self._due = None
        if refused:
            self._due = self._clock.now() + _REFUSED
            self._say(f"{refused}; trying again after an edit, and every minute", level="warning")
        else:
            self._seen, self._said, self._other_ran, self._rebased = None, "", False, None
        names = (self._folder.prd.name, self._folder.config.name)
        while self.until_whole():
            with (
                Inbox(self._place.repository.private, _take_no_edit, self._obey) as inbox,
                FolderEvents(self._folder.path, names, self._woken) as heard,
            ):
                if inbox.problem:
                    self._say(inbox.problem, level="warning")
                if (start := self._listen(left, heard)) is not None:
                    return start
        return None

    def until_whole(self) -> bool:
        """Wait until the folder is there, as it was or made anew; False where the watch is to end."""
        while not self._ended.is_set() and not self._place.is_whole():
            there = self._place.is_there()
            self._seen = ()  # what comes back may not be whole yet
            try:
                self._place.reopen()
            except RalphError as error:
                self._say(f"waiting: {error}", level="warning")
                self._ended.wait(_LOOK if there else _HELD)
        return not self._ended.is_set()

    def _listen(self, left: Left, heard: FolderEvents) -> Start | None:
        """What there is to do; None where the folder is gone, or the watch is to end."""
        while not self._ended.is_set() and self._place.is_whole():
            self._woken.clear()
            heard.follow()
            self._tell_deaf(heard.problem)
            if self._is_held():
                self._seen = None  # whatever it does is to be looked at
                self._ended.wait(_HELD)
                continue
            if self._is_time():
                self._rebase()
                if (start := self._look(self._rebased or left)) is not None:
                    return start
            Either(self._ended, self._woken).wait(_LOOK)
        return None

    @property
    def _files(self) -> tuple[Path, ...]:
        """What decides whether there is something to do."""
        return (self._folder.prd, *self._settings, self._place.repository.git_folder / "HEAD")

    # Other runs

    def _is_held(self) -> bool:
        """Whether another command holds the lock; of a run it is said."""
        holder = lock.holder(self._place.repository.lock_file)
        if holder is not None and holder.command in lock.RUNS:
            self._other_ran = True
            self._say(f"waiting: {holder.told()} is working on this project")
        return holder is not None

    def _names_dead_run(self) -> bool:
        """Whether the lock, which nobody holds, still names a run: it died."""
        with suppress(OSError):
            return self._place.repository.lock_file.stat().st_size > 0
        return False

    def _rebase(self) -> None:
        """After a run of another terminal that one left what there is, knowing of every edit; not one that died."""
        if not self._other_ran or self._names_dead_run():
            return
        with suppress(RalphError):
            prd, config = self._prd(), self.read_config()
            self._rebased = renewal.as_it_stands(prd, config, at=self._clock.now(), only=self._only)
            self._other_ran = False

    # Looking

    def _is_time(self) -> bool:
        """Whether something was changed since the last look, and is not being changed any more, or a time has come."""
        seen = self._fingerprints()
        if seen == self._seen:
            return self._due is not None and self._due <= self._clock.now()
        while self._seen is not None and not self._ended.wait(_QUIET):
            before, seen = seen, self._fingerprints()
            if seen == before:
                break
        self._seen = seen
        return not self._ended.is_set()

    def _fingerprints(self) -> _Seen:
        """Not the lock's, which every start writes, a refused one too."""
        return (*(disk.fingerprint(file) for file in self._files), self._names_dead_run())

    def _look(self, left: Left) -> Start | None:
        """What there is to do; where there is nothing, it is said what is waited for."""
        self._due = None
        branch = left.prd.work_branch
        try:
            here = self._place.repository.branch()
        except (GitError, RalphError) as error:
            if self._place.is_whole():
                self._say(f"{error}; waiting until it is mended", level="warning")
            return None
        if here != branch:
            self._say(
                f"waiting: {here or 'no branch'} is checked out, and the work is on {branch}: git switch {branch}"
            )
            return None
        if self._names_dead_run():
            return Start("a run that died left work")
        try:
            prd, config = self._prd(), self.read_config()
        except RalphError as error:
            self._tell_unreadable(error)
            return None
        start = renewal.start(left, prd, config, now=self._clock.now(), only=self._only)
        if start is None:
            self._due = renewal.next_look(left, prd, only=self._only)
            self._say(renewal.waiting_for(left, prd, only=self._only))
        return start

    def _prd(self) -> Prd:
        return codec.decode_prd(store.read_prd_bytes(self._folder), name=str(self._folder.prd))

    def _tell_unreadable(self, error: RalphError) -> None:
        if not os.path.lexists(self._folder.prd):
            self._say(f"waiting: {self._folder.prd} is gone; put it back, or end this (^C) and: ralph resume")
        elif any(disk.is_being_saved(file, self._clock.now()) for file in self._files):
            self._due = self._clock.now() + disk.BEING_SAVED
        else:
            self._say(f"{error}; waiting until it is mended", level="warning")

    # Saying and hearing

    def _say(self, text: str, *, level: Literal["info", "warning"] = "info") -> None:
        if text != self._said:
            self._said = text
            self._report(events.Notice(level, text))

    def _tell_deaf(self, problem: str) -> None:
        if problem and not self._told_deaf:
            self._told_deaf = True
            told = f"the system does not tell of edits ({problem}): looking every {_LOOK:.0f} s"
            self._report(events.Notice("warning", told))

    def _obey(self, order: Order) -> Answer:
        """An order while no run goes on; both that end a run end the watch."""
        if isinstance(order, Look):
            waiting = Wait(reason=self._said) if self._said else None
            return Answer("", situation=Situation(waiting=waiting))
        if isinstance(order, Pause) and order.undo:
            return Answer("no pause was asked for; the watch goes on", situation=Situation())
        self._ended.set()
        return Answer("no run was going on; the watch ends now", situation=Situation(ending="cancelled"))


def _take_no_edit(_edit: Sent) -> str:
    raise RalphError("a run has just ended; say it again")
