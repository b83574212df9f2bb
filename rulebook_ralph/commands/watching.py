"""`--watch`: one run after another, each under the project's lock; between them nothing is held."""

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from rulebook_ralph import config
from rulebook_ralph.app import App
from rulebook_ralph.cancellation import Cancellation
from rulebook_ralph.commands.interrupting import interruptible
from rulebook_ralph.commands.projects import open_root
from rulebook_ralph.commands.run import Asked, overrides, run_once
from rulebook_ralph.core import events, renewal
from rulebook_ralph.core.model import Task, Totals
from rulebook_ralph.core.policy import RunTally
from rulebook_ralph.core.renewal import Left, Ran
from rulebook_ralph.core.settings import Config, Limits
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop.manager import Manager
from rulebook_ralph.loop.options import RunOptions
from rulebook_ralph.loop.vigil import Vigil
from rulebook_ralph.loop.watched_place import WatchedPlace
from rulebook_ralph.state import lock
from rulebook_ralph.state.store import StateFolder
from rulebook_ralph.workspace.git import GitError

Report = Callable[[events.Event], None]

_NEVER_BEGAN = events.RunEnded("interrupted", "ended before the first run began", (), 0, 0, 0, 0.0, 0, 0)


def watch(app: App, asked: Asked, options: RunOptions, report: Report) -> events.RunEnded:
    """Run, and again whenever there is something to do; returns how the last run ended. Raises RalphError where the
    first run cannot start, or a later one breaks off.
    """
    root, repository = open_root(app)

    def hold(file: Path) -> AbstractContextManager[object]:
        return lock.held(file, since=app.clock.iso(), command=f"{options.command} --watch")

    with interruptible() as ended, WatchedPlace(repository, hold) as place:
        vigil = _vigil(app, asked, root, place, report=report, ended=ended)
        vigil.until_free()
        if ended.is_set():
            return _NEVER_BEGAN
        return _Watch(replace(app, cwd=root), asked, options, report, ended, place, vigil).run()


def _vigil(app: App, asked: Asked, root: Path, place: WatchedPlace, *, report: Report, ended: Cancellation) -> Vigil:
    folder = StateFolder(root)

    def read() -> Config:
        return config.load(root, environment=app.environment, home=app.home, overrides=overrides(asked))

    settings = (folder.config, config.user_config(app.environment, app.home))
    return Vigil(folder, place, read, settings, only=asked.tasks, report=report, clock=app.clock, ended=ended)


class _Witness:
    """Passes on what one run reports, and keeps which tasks it began with and worked on.

    With `again` it holds back what is said before the run is planned, as the last attempt to start it said the same.
    """

    def __init__(self, report: Report, *, again: bool) -> None:
        self._report = report
        self._held: list[events.Event] | None = [] if again else None
        self.manager: Manager | None = None
        self.planned = False
        self.before = Totals()
        self.began: dict[str, Task] = {}
        self.opened: dict[str, Task] = {}

    def begins(self, manager: Manager) -> None:
        self.manager = manager

    def report(self, event: events.Event) -> None:
        if isinstance(event, events.RunPlanned) and self.manager is not None:
            self.planned = True
            self.before = self.manager.prd.totals
            self.began = {task.id: task for task in self.manager.prd.tasks}
            self.flush()
        elif isinstance(event, events.IterationOpened) and self.manager is not None:
            self.opened[event.task_id] = self.manager.prd.task(event.task_id)
        if self._held is None:
            self._report(event)
        else:
            self._held.append(event)

    def flush(self) -> None:
        """Say what was held back."""
        held, self._held = self._held or [], None
        for event in held:
            self._report(event)


@dataclass(slots=True)
class _Watch:
    """The runs of one watch. `spent` is what they have used together of the limits that a person set; `broke_off` says
    that the last one ended as its folder went away.
    """

    app: App
    asked: Asked
    options: RunOptions
    report: Report
    ended: Cancellation
    place: WatchedPlace
    vigil: Vigil
    spent: RunTally = field(default_factory=RunTally)
    broke_off: bool = False

    def run(self) -> events.RunEnded:
        """Run after run, until one ends the watch or a person does."""
        last, left = self._one(self.options, None, _Witness(self.report, again=False))
        refused = ""
        while self._goes_on(last) and (start := self.vigil.wait(left, refused=refused)) is not None:
            if not self._may_spend():
                break
            options = replace(self.options, command="resume", retry_blocked=bool(start.reopen), reopen=start.reopen)
            witness = _Witness(self.report, again=bool(refused))
            witness.report(events.Notice("info", f"starting again: {start.reason}"))
            try:
                last, left = self._one(options, left, witness)
            except RalphError as error:
                if witness.planned:
                    raise
                if str(error) != refused:
                    witness.flush()
                refused = str(error)
            else:
                refused = ""
        return last

    def _one(self, options: RunOptions, before: Left | None, witness: _Witness) -> tuple[events.RunEnded, Left]:
        """Raises RalphError; `witness` knows whether the run was planned by then."""
        last = self._ran(options, witness)
        used = RunTally(last.iterations, last.duration_ms / 1000, last.cost_usd, last.tokens)
        self.spent = renewal.added(self.spent, used)
        manager = witness.manager
        if manager is None:
            raise AssertionError("a run ended that never began")
        ran = Ran(
            stop_reason=last.stop_reason,
            iterations=last.iterations,
            prd=manager.prd,
            config=manager.config,
            at=self.app.clock.now(),
            began=witness.began,
            opened=witness.opened,
            given=options.reopen or frozenset(),
        )
        left = renewal.left(ran, before, only=self.asked.tasks)
        return last, replace(left, workable=frozenset()) if self.broke_off else left

    def _ran(self, options: RunOptions, witness: _Witness) -> events.RunEnded:
        """How the run ended; one whose folder went away meanwhile was interrupted, which is said. Raises RalphError."""
        begun = self.app.clock.monotonic()
        cancelled = self.ended.follower()  # a run that breaks off ends its agents by it, and the watch goes on
        try:
            last = run_once(
                self.app, self.asked, options, witness.report, cancelled, spent=self.spent, begins=witness.begins
            )
        except (RalphError, GitError, OSError) as error:
            manager, before = witness.manager, witness.before
            if self.place.is_whole():
                raise
            if manager is None or not witness.planned:
                raise RalphError(str(error)) from error
            self.broke_off = True
            self.report(events.Notice("warning", f"the run broke off, and goes on when its folder is back: {error}"))
            totals = manager.prd.totals
            return events.RunEnded(
                "interrupted",
                "its folder went away",
                (),
                totals.iterations - before.iterations,
                totals.completed - before.completed,
                totals.failed - before.failed,
                totals.cost_usd - before.cost_usd,
                totals.tokens - before.tokens,
                round((self.app.clock.monotonic() - begun) * 1000),
            )
        self.broke_off = last.stop_reason == "error" and not self.place.is_whole()
        return last

    def _goes_on(self, last: events.RunEnded) -> bool:
        """Whether the watch stays after that run."""
        if self.broke_off:
            return self._may_spend()
        with suppress(RalphError):  # what is wrong with the configuration is said by those who wait
            if renewal.ends_watch(last.stop_reason, self.vigil.read_config().limits):
                return False
        return not renewal.ends_watch(last.stop_reason, Limits()) and self._may_spend()

    def _may_spend(self) -> bool:
        """Whether the limits that a person set leave anything; else it is said."""
        try:
            used = renewal.used_up(self.vigil.read_config().limits, self.spent)
        except RalphError:
            return True
        if used:
            self.report(events.Notice("warning", f"the watch ends: its runs together have used up {used}"))
        return not used
