"""The run: pick → brief → execute → parse → judge → settle, until all is completed or a stated limit ends it.

The manager is the only writer of the state folder. It opens each iteration, hands the work out (iteration.py), and
settles what came back (turns.py), in the order of DESIGN.md (The order of writing).
"""

from collections.abc import Callable
from functools import partial
from threading import Event

from rulebook_ralph.checks.shell import Cancelled
from rulebook_ralph.clock import Clock
from rulebook_ralph.core import events, policy, selection
from rulebook_ralph.core.model import Prd, Task
from rulebook_ralph.core.redaction import Redactor
from rulebook_ralph.core.settings import Config
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.loop import summary
from rulebook_ralph.loop.base_gates import gates_on_base
from rulebook_ralph.loop.checkout import UnusableError
from rulebook_ralph.loop.crew import Crew
from rulebook_ralph.loop.desk import Desks
from rulebook_ralph.loop.equipment import Outfitter
from rulebook_ralph.loop.in_flight import InFlight
from rulebook_ralph.loop.inbox import Inbox
from rulebook_ralph.loop.iteration import attempt
from rulebook_ralph.loop.options import RunOptions
from rulebook_ralph.loop.orders import Orders
from rulebook_ralph.loop.outside import Outside
from rulebook_ralph.loop.patience import Patience
from rulebook_ralph.loop.preflight_secrets import SecretToldError
from rulebook_ralph.loop.preparation import iterations_allowed, prepare
from rulebook_ralph.loop.project import Project
from rulebook_ralph.loop.settings_files import SettingsFiles
from rulebook_ralph.loop.turns import Turns
from rulebook_ralph.loop.worker import InPlace
from rulebook_ralph.state import disk
from rulebook_ralph.workspace.git import GitError
from rulebook_ralph.workspace.snapshot import Workspace


class Manager:
    """One run over one project."""

    def __init__(
        self,
        project: Project,
        crew: Crew,
        options: RunOptions,
        *,
        report: Callable[[events.Event], None],
        clock: Clock,
        cancelled: Event,
    ) -> None:
        self._options = options
        self._orders = Orders(cancelled, report=report, clock=clock)
        self._report, self._notice = self._orders.report, self._orders.notice
        self._clock = clock
        self._cancelled = cancelled
        self._workspace = Workspace(project.repository)
        self._settings = SettingsFiles(project.settings_files, project.reread or (lambda: project.config), clock=clock)
        self._outfitter = Outfitter.of(
            project, self._workspace, options, self._orders, cancelled=cancelled, clock=clock
        )
        self._gear = self._outfitter.equip(project, crew)
        self._is_isolated = project.config.is_isolated
        self._in_flight = InFlight(isolated=self._is_isolated)
        self._patience = Patience(project.config, crew, clock=clock, cancelled=self._orders.either, report=self._report)
        self._base_is_old = True
        self._close_places = self._gear.gatekeeper.close

    @property
    def prd(self) -> Prd:
        """The task list that the run goes on with, once it is planned."""
        return self._settler.prd

    @property
    def config(self) -> Config:
        """The configuration that it goes on with."""
        return self._gear.config

    @property
    def redactor(self) -> Redactor:
        """Takes out the secrets that the run knows of now."""
        return self._gear.redactor

    def run(self, *, after_death: bool) -> events.RunEnded:
        """Work until nothing is left or a limit ends it; always leaves a resumable state. Raises RalphError.

        The project's lock must be held; `after_death` says that its last holder died.
        """
        try:
            self._prepare(after_death=after_death)
            with Inbox(self._gear.project.repository.private, self._settler.apply, self._orders.take) as inbox:
                if inbox.problem:
                    self._notice("warning", inbox.problem)
                return self._work()
        except GitError as error:
            problem = f"{error}; mend the repository {self._gear.project.root}, then: ralph resume"
            raise RalphError(problem, exit_code=ExitCode.UNEXPECTED) from error
        except OSError as error:
            if (told := disk.explained(error, of=self._gear.project.root)) is None:
                raise
            raise told from error
        finally:
            self._end_work()

    def _work(self) -> events.RunEnded:
        """The loop. While an agent works, a person's edit may be written; at any other time only the loop writes."""
        ending: policy.Stop | None = None
        while True:
            with self._settler.writing:
                following = ending or self._pick()
                if isinstance(following, Task) and not self._has_to_wait:
                    ending = self._begin(following)
                    continue
            if self._in_flight.opened:
                stop = self._settle_next()
                ending = ending or stop
            elif isinstance(following, policy.Stop):
                with self._settler.writing:
                    return self._turns.finish(following, again=self._options.again)
            else:
                ending = self._get_ready()

    # Before the first agent

    def _prepare(self, *, after_death: bool) -> None:
        prepared = prepare(
            self._gear,
            self._workspace,
            self._options,
            after_death=after_death,
            clock=self._clock,
            notice=self._notice,
        )
        self._settler = prepared.settler
        self._landing = prepared.settler.landing
        self._turns = Turns(
            prepared.settler,
            prepared.ready,
            self._orders,
            self._patience,
            clock=self._clock,
            cancelled=self._cancelled,
            tally=policy.RunTally(cost_usd=prepared.cost_usd, tokens=prepared.tokens),
            max_iterations=prepared.max_iterations,
            reopen=set(prepared.reopen),
        )
        self._places = self._make_places()
        self._close_places = self._places.close
        self._say_plan(prepared.open_tasks)

    def _make_places(self) -> InPlace | Desks:
        outside = Outside.of(self._gear.project, self._workspace)
        if self._is_isolated:
            return Desks(self._gear, self._outfitter, self._settler, outside.settings)
        return InPlace(self._gear, self._workspace, outside, self._settler, self._report)

    def _say_plan(self, open_tasks: int) -> None:
        prd, limits = self._settler.prd, self._gear.config.limits
        completed = sum(task.status == "completed" for task in prd.tasks)
        default = self._gear.crew.acting(self._gear.config.defaults.executor, self._clock.now())
        self._report(
            events.RunPlanned(
                project=prd.project,
                branch=self._settler.branch,
                agent=self._gear.crew.name_of(default),
                open_tasks=open_tasks,
                total_tasks=len(prd.tasks),
                completed_tasks=completed,
                max_iterations=self._turns.max_iterations,
                max_wall_time=limits.max_run_wall_time,
                max_cost_usd=limits.max_cost_usd,
                workers=self._gear.config.parallel.workers,
            )
        )

    # The loop

    def _pick(self) -> Task | policy.Stop | None:
        """The task to work on now, or why the run ends when those that go on are settled; None while there is no room
        beside them.
        """
        if not self._in_flight.has_room(self._gear.config.parallel.workers):
            return None
        if (stop := self._orders.stop()) is not None:
            return stop
        if self._is_isolated:
            self._settler.require_branch()
        self._settler.file.take_edits()
        self._take_settings()
        self._allow_for_edits()
        task = self._pickable()
        if task is None:
            prd, stuck = self._settler.prd, self._turns.stuck
            return summary.why_nothing_is_left(prd, only=self._options.only, stuck=stuck)
        if (stop := self._orders.pause()) is not None:
            return stop
        stop = self._turns.limit_reached(self._gear.config.limits, beside=self._in_flight.beside)
        return stop or self._expect(task) or task

    @property
    def _has_to_wait(self) -> bool:
        """Whether there is something before the next agent, when nobody works: a limited agent, gates on the base."""
        return self._patience.is_waiting or self._base_is_old

    def _get_ready(self) -> policy.Stop | None:
        """Do that; why the run ends instead, if it does."""
        if self._base_is_old:
            self._base_is_old = False
            self._turns.base = gates_on_base(self._places.free(()), self._settler, strict=self._options.strict)
        return self._patience.wait(seconds_left=self._turns.time_left(self._gear.config.limits))

    def _begin(self, task: Task) -> policy.Stop | None:
        """Have the task worked on; why the run ends, where it cannot be."""
        worker = self._places.free([opened.worker for opened in self._in_flight.opened])
        try:
            begun = self._turns.open(task, worker, beside=self._in_flight.beside)
        except UnusableError as error:
            told = f"{error.result.step}: {error.result.reason}"
            return policy.Stop("error", f"no workspace can be made for {task.id}: {told}")
        except Cancelled:
            return None
        self._in_flight.begin(begun, partial(attempt, begun.assignment, self._turns.tools(begun)))
        return None

    def _settle_next(self) -> policy.Stop | None:
        """Wait until an iteration has ended, and settle the oldest if it has; why the run ends, if it does."""
        ended = self._in_flight.next_ended()
        if ended is None:
            return None
        opened, outcome = self._turns.onto_branch(*ended)
        with self._settler.writing:
            if self._is_isolated:
                self._settler.require_branch()
            stop = self._turns.settle(opened, outcome)
        self._places.left(opened.worker)
        return stop

    def _take_settings(self) -> None:
        """Go on with the configuration as a person edited it; with the last good one where that cannot be."""
        before = self._gear
        try:
            config = self._settings.edited()
            if config is None:
                return
            self._landing.config_tells_secret = False
            if config == before.config:
                return
            gear = self._outfitter.anew(before, config, self._settler.prd, self._notice)
        except RalphError as error:
            self._landing.config_tells_secret = isinstance(error, SecretToldError)
            self._notice("warning", f"{error}; going on with the configuration as it was")
            return
        self._gear = gear
        self._places.use(gear, [opened.worker for opened in self._in_flight.opened])
        self._settler.use(gear.project)
        self._patience.use(gear.config, gear.crew)
        self._notice("info", "the configuration was edited: going on with it")
        if config.is_isolated != self._is_isolated:
            self._notice("warning", "where agents work (git.workspace, parallel) is another from the next run on only")
        needed = iterations_allowed(gear.project, self._settler.prd, self._options, self._turns.reopen)
        self._turns.max_iterations = config.limits.max_iterations or self._turns.tally.iterations + needed
        self._base_is_old = self._base_is_old or not gear.gatekeeper.judges_as(before.gatekeeper)

    def _expect(self, task: Task) -> policy.Stop | None:
        """An agent that was limited in an earlier run may be so still."""
        if task.retry_after is None:
            return None
        executor = self._gear.assigner.executor(task, self._gear.assigner.stage(task, self._landing.kept))
        return self._patience.expect(task, executor, self._settler.past.last_agent(task))

    def _allow_for_edits(self) -> None:
        """What a person added, or set back to pending, has its attempts too, unless the limit is a configured one."""
        turns = self._turns
        if self._settler.file.edited and self._gear.config.limits.max_iterations is None:
            needed = iterations_allowed(self._gear.project, self._settler.prd, self._options, turns.reopen)
            turns.max_iterations = max(turns.max_iterations, turns.tally.iterations + needed)
        self._settler.file.edited = False

    def _pickable(self) -> Task | None:
        """The next task that may begin beside those that go on; first one whose unfinished work stands in the tree."""
        prd, only = self._settler.prd, self._options.only
        kept = self._landing.kept
        if kept is not None and (not only or kept.task_id in only):
            begun = selection.next_task(prd, only=(kept.task_id,))
            if begun is not None:
                return begun
        beside = [opened.assignment.task for opened in self._in_flight.opened]
        task = selection.next_beside(
            prd, beside, only=only, reopen=self._turns.reopen, all_may=self._gear.config.parallel.all
        )
        if beside and task is not None and task.id in self._turns.not_merged:
            return None  # beside an older one it might not be merged again
        return task

    def _end_work(self) -> None:
        """Whatever happened: no agent goes on, and no checkout stays."""
        if self._in_flight.opened:
            self._cancelled.set()
        self._in_flight.end()
        self._close_places()
