"""`--watch`: one run after another, each under the project's lock; between them an edit is waited for."""

import sys
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Literal

from rulebook_ralph.cli.app import App, interruptible
from rulebook_ralph.cli.places import open_project, open_root
from rulebook_ralph.cli.run import INTERRUPTING, Flags, run_once, steering
from rulebook_ralph.config.layers import user_config
from rulebook_ralph.config.settings import Config, Limits
from rulebook_ralph.errors import RalphError
from rulebook_ralph.git.repository import GitError
from rulebook_ralph.process.cancellation import Cancellation
from rulebook_ralph.report import events
from rulebook_ralph.report.console import Console
from rulebook_ralph.run import lock, renewal
from rulebook_ralph.run.control import PAUSED, Orders
from rulebook_ralph.run.policy import RunTally, limit_reached
from rulebook_ralph.run.project import RunOptions
from rulebook_ralph.run.renewal import LastRun, Renewal
from rulebook_ralph.tasks.disk import Fingerprint, StateFolder, fingerprint
from rulebook_ralph.tasks.model import Task
from rulebook_ralph.tasks.prd_file import read_prd

_LOOK = timedelta(seconds=60)
_WITHOUT_EVENT = 5.0
_QUIET = 0.5
"""Seconds for which nothing is written any more: an editor's several writes are one edit."""

Seen = tuple[Fingerprint | None, ...]


def watch(app: App, flags: Flags, options: RunOptions, console: Console) -> events.RunEnded:
    """Run, and again whenever there is something to do; returns how the last run ended. Raises RalphError where the
    first run cannot start, or a later one breaks off.
    """
    root, repository = open_root(app)
    with (
        interruptible(lambda: console.report(INTERRUPTING)) as ended,
        lock.hold(repository.private, f"{options.command} --watch", since=app.clock.iso(), name=lock.WATCH),
    ):
        return _Watch(replace(app, cwd=root), flags, options, console, ended, StateFolder(root)).run()


@dataclass(slots=True)
class _Watch:
    """The runs of one watch. `spent` is what they have used together of the limits that a person set."""

    app: App
    flags: Flags
    options: RunOptions
    console: Console
    ended: Cancellation
    folder: StateFolder
    spent: RunTally = field(default_factory=RunTally)
    tried: dict[str, Task] = field(default_factory=dict)

    def run(self) -> events.RunEnded:
        """Run after run, until one ends the watch or a person does."""
        last = self._one(self.options)
        refused = ""
        while self._goes_on(last) and (again := self._wait(refused)) is not None:
            self._say("info", f"starting again: {again.reason}")
            options = replace(self.options, command="resume", retry_blocked=bool(again.reopen), reopen=again.reopen)
            try:
                last, refused = self._one(options), ""
            except (RalphError, GitError) as error:
                if str(error) != refused:
                    self._say("warning", f"{error}; waiting for an edit")
                refused = str(error)
        return last

    def _one(self, options: RunOptions) -> events.RunEnded:
        cancelled = Cancellation(self.ended)  # a run that breaks off ends its agents by it, and the watch goes on
        ended = run_once(
            self.app, self.flags, options, self.console, cancelled, report=self._reported, spent=self.spent
        )
        self.spent = RunTally(
            iterations=self.spent.iterations + ended.iterations,
            elapsed=self.spent.elapsed + ended.duration_ms / 1000,
            cost_usd=self.spent.cost_usd + ended.cost_usd,
            tokens=self.spent.tokens + ended.tokens,
        )
        return ended

    def _reported(self, event: events.Event) -> None:
        """Passes on what a run reports, and keeps each task as it was when its iteration was opened."""
        if isinstance(event, events.IterationOpened):
            with suppress(RalphError, KeyError):
                self.tried[event.task_id] = read_prd(self.folder.prd).task(event.task_id)
        self.console.report(event)

    def _goes_on(self, last: events.RunEnded) -> bool:
        """Whether the watch stays after that run; a limit that its runs have used up together is said."""
        limits = Limits()
        with suppress(RalphError):  # what is wrong with the configuration is said while it is waited for
            limits = self._config().limits
        if renewal.ends_watch(last.stop_reason, limits):
            return False
        reached = limit_reached(limits, self.spent, max_iterations=limits.max_iterations or sys.maxsize)
        if reached:
            self._say("warning", f"the watch ends, as of all its runs {reached.reason}")
        return not reached

    def _wait(self, refused: str) -> Renewal | None:
        """Until there is something to do; None where a person ends the watch. `refused` is why no run could start."""
        orders = Orders(self.ended, report=self.console.report, clock=self.app.clock)
        private = open_root(self.app)[1].private
        paths = (self.folder.prd, self.folder.config, user_config(self.app.home, self.app.environment))
        stop = Cancellation(self.ended)

        def heard() -> None:
            if orders.paused.is_set():
                stop.set()

        steer = steering(orders, self.ended, self.console.report)
        with orders.heard(private, name=lock.WATCH, wake=heard), self.console.steered_by(steer):
            found = self._look(paths, stop, refused)
        if orders.paused.is_set():
            self._say("info", PAUSED.reason)
        return found

    def _look(self, paths: tuple[Path, ...], stop: Cancellation, told: str) -> Renewal | None:
        """Look at the files whenever one was written; `told` is what was said last of what is wrong with them."""
        since = seen(paths)
        left: LastRun | None = None
        while not stop.is_set():
            try:
                prd, config = read_prd(self.folder.prd), self._config()
                if left is None:
                    self._say("info", renewal.waiting_for(prd, only=self.flags.tasks))
                    left = LastRun(prd, config, self.app.clock.now(), dict(self.tried))
                found = renewal.renewal(left, prd, config, now=self.app.clock.now(), only=self.flags.tasks)
                if found is not None:
                    return found
            except (RalphError, GitError) as error:  # the folder may have been moved away for a while
                if str(error) != told:
                    self._say("warning", f"{error}; waiting")
                told = str(error)
            wait_for_change(paths, stop, self._until(left, _LOOK.total_seconds()), since=since)
            since = seen(paths)
        return None

    def _until(self, left: LastRun | None, longest: float) -> float:
        """Seconds until a task may go on whose agent was limited."""
        at = renewal.next_look(left, left.prd, only=self.flags.tasks) if left else None
        return longest if at is None else min(longest, max(0.1, (at - self.app.clock.now()).total_seconds()))

    def _config(self) -> Config:
        return open_project(self.app, self.flags.settings).project.config

    def _say(self, level: Literal["info", "warning"], text: str) -> None:
        self.console.report(events.Notice(level, text))


def seen(paths: Iterable[Path]) -> Seen:
    """What tells the present contents of these files from other ones."""
    return tuple(fingerprint(path) for path in paths)


def wait_for_change(paths: Collection[Path], stop: Cancellation, seconds: float, *, since: Seen) -> bool:
    """Wait until one of the files is another than `since` says, and stays so for a moment.

    The system may lose an event, or have no room for one more that listens: so it is looked now and then without any.
    """
    woken, ends = Cancellation(), time.monotonic() + seconds
    with _woken_by({path.parent for path in paths}, woken):
        while (left := ends - time.monotonic()) > 0 and not stop.is_set():
            woken.clear()
            if (now := seen(paths)) == since:
                Cancellation(stop, woken).wait(min(_WITHOUT_EVENT, left))
            elif not stop.wait(_QUIET) and seen(paths) == now:
                return True
    return False


@contextmanager
def _woken_by(folders: Iterable[Path], woken: Cancellation) -> Iterator[None]:
    """From `with` to its end `woken` is set when a file in one of the folders is written, made or removed."""
    from watchdog import events as written  # noqa: PLC0415 - 40 ms, only for a watch
    from watchdog.observers import Observer  # noqa: PLC0415

    class Waker(written.FileSystemEventHandler):
        def on_any_event(self, event: written.FileSystemEvent) -> None:
            if event.event_type not in ("opened", "closed_no_write"):  # a look would wake the next one
                woken.set()

    observer = Observer()
    observer.start()
    try:
        for folder in folders:
            with suppress(OSError):  # there is no such folder yet, or no room
                observer.schedule(Waker(), str(folder))
        yield
    finally:
        observer.stop()
        observer.join()
