"""The run: pick → brief → execute → parse → judge → settle, until all is completed or a stated limit ends it.

The manager is the only writer of the state folder. It opens each iteration, hands the work out (iteration.py), and
settles what came back, in the order of DESIGN.md (The order of writing).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from threading import Event

from rulebook_ralph.agents.agent import Agent
from rulebook_ralph.checks.reviewed_change import ReviewedChange
from rulebook_ralph.checks.shell import ResultCache
from rulebook_ralph.clock import Clock
from rulebook_ralph.core import events, policy, requirements, selection, settling
from rulebook_ralph.core.enumeration import some
from rulebook_ralph.core.evidence import Iteration
from rulebook_ralph.core.faults import Response
from rulebook_ralph.core.model import Prd, Task
from rulebook_ralph.core.question import Ask
from rulebook_ralph.core.redaction import Redactor
from rulebook_ralph.core.review import Review, Tier
from rulebook_ralph.core.settings import Config, VerificationStep
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.loop import leftovers, record, summary
from rulebook_ralph.loop.assigner import Now, Pass
from rulebook_ralph.loop.codebase import Codebase
from rulebook_ralph.loop.crew import Crew
from rulebook_ralph.loop.equipment import Outfitter
from rulebook_ralph.loop.gatekeeper import Base
from rulebook_ralph.loop.inbox import Inbox
from rulebook_ralph.loop.iteration import Assignment, Outcome, Tools, attempt
from rulebook_ralph.loop.options import RunOptions
from rulebook_ralph.loop.orders import Orders
from rulebook_ralph.loop.outside import Outside
from rulebook_ralph.loop.patience import Patience
from rulebook_ralph.loop.preflight_secrets import SecretToldError
from rulebook_ralph.loop.preparation import iterations_allowed, prepare
from rulebook_ralph.loop.project import Project
from rulebook_ralph.loop.settings_files import SettingsFiles
from rulebook_ralph.loop.template_files import TemplateFiles
from rulebook_ralph.state import disk
from rulebook_ralph.workspace import guard
from rulebook_ralph.workspace.git import GitError
from rulebook_ralph.workspace.snapshot import Opening, Workspace


@dataclass(frozen=True, slots=True)
class Opened:
    """An iteration that was opened: the assignment, its record, its agent, and git's own files as they were."""

    assignment: Assignment
    record: Iteration
    executor: str
    agent: Agent
    guarded: guard.Guard


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
        self._report = report = self._orders.report
        self._clock = clock
        self._cancelled = cancelled
        self._workspace = Workspace(project.repository)
        own = [file for file in project.settings_files if not file.is_relative_to(project.folder.path)]
        own += [project.trust_file, project.review_memory]
        self._outside = Outside(self._workspace, project.environment, own)
        self._settings = SettingsFiles(project.settings_files, project.reread or (lambda: project.config), clock=clock)
        self._outfitter = Outfitter(
            self._workspace,
            project.repository.hooks_folder(),
            options,
            Codebase(project.repository),
            TemplateFiles(project.folder.templates, self._notice, clock=clock),
            cancelled,
            report,
        )
        self._gear = self._outfitter.equip(project, crew)
        self._patience = Patience(project.config, crew, clock=clock, cancelled=self._orders.either, report=report)
        self._started = clock.monotonic()
        self._tally = policy.RunTally()
        self._spent: dict[str, float] = {}
        self._touched: dict[str, str | None] = {}
        self._opening: Opening | None = None
        self._stuck: set[str] = set()
        self._base = Base()
        self._base_is_old = False

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
            self._gear.gatekeeper.close()

    def _work(self) -> events.RunEnded:
        """The loop. While an agent works, a person's edit may be written; at any other time only the loop writes."""
        writing = self._settler.writing
        self._base = self._gates_on_base()
        with writing:
            following = self._pick()
        while not isinstance(following, policy.Stop):
            if self._base_is_old:  # other gates than before
                self._base_is_old, self._base = False, self._gates_on_base()
                with writing:
                    following = self._pick()
                continue
            if self._patience.is_waiting:
                stop = self._patience.wait(seconds_left=self._run_time_left())
                with writing:
                    following = stop or self._pick()
                continue
            with writing:
                opened = self._open(following)
            outcome = attempt(opened.assignment, self._tools(opened))
            with writing:
                following = self._settle(opened, outcome) or self._pick()
        with writing:
            return self._finish(following)

    # Before the first agent

    def _prepare(self, *, after_death: bool) -> None:
        prepared = prepare(
            self._gear.project,
            self._workspace,
            self._gear.crew,
            self._options,
            after_death=after_death,
            clock=self._clock,
            notice=self._notice,
            redactor=self._gear.redactor,
        )
        self._ready, self._settler = prepared.ready, prepared.settler
        self._landing = prepared.settler.landing
        self._reopen, self._max_iterations = set(prepared.reopen), prepared.max_iterations
        self._tally = policy.RunTally(cost_usd=prepared.cost_usd, tokens=prepared.tokens)
        self._say_plan()

    def _say_plan(self) -> None:
        prd, limits = self._settler.prd, self._gear.config.limits
        completed = sum(task.status == "completed" for task in prd.tasks)
        default = self._gear.crew.acting(self._gear.config.defaults.executor, self._clock.now())
        self._report(
            events.RunPlanned(
                project=prd.project,
                branch=self._settler.branch,
                agent=self._gear.crew.name_of(default),
                open_tasks=len(selection.plan(prd, only=self._options.only, reopen=self._reopen)),
                total_tasks=len(prd.tasks),
                completed_tasks=completed,
                max_iterations=self._max_iterations,
                max_wall_time=limits.max_run_wall_time,
                max_cost_usd=limits.max_cost_usd,
            )
        )

    def _gates_on_base(self) -> Base:
        """The gates run once on the base before any agent works, unless kept work stands in the tree."""
        if not self._gear.gatekeeper.steps or self._pickable() is None:
            return Base()
        if self._landing.kept is not None:
            base = self._settler.base_of_last()
            self._gear.gatekeeper.remember(base)
            return base
        self._opening = self._workspace.open()
        if untracked := sorted(self._opening.untracked):
            self._notice("info", f"untracked, so an agent's changes to it do not count: {some(untracked)}")
        with self._settler.watched():
            guarded = self._guard(self._gear.gatekeeper.steps, self._opening)
            return self._gear.gatekeeper.run_on_base(self._opening, guarded, strict=self._options.strict)

    # The loop

    def _pick(self) -> Task | policy.Stop:
        """The task to work on now, or why the run ends."""
        if (stop := self._orders.stop()) is not None:
            return stop
        self._settler.file.take_edits()
        self._take_settings()
        self._allow_for_edits()
        task = self._pickable()
        if task is None:
            return summary.why_nothing_is_left(self._settler.prd, only=self._options.only, stuck=self._stuck)
        if (stop := self._orders.pause()) is not None:
            return stop
        limits = self._gear.config.limits
        if (stop := policy.limit_reached(limits, self._tally, max_iterations=self._max_iterations)) is not None:
            return stop
        if (stop := self._expect(task)) is not None:
            return stop
        return task

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
            self._gear = gear = self._outfitter.anew(before, config, self._settler.prd, self._notice)
            before.gatekeeper.close()
        except RalphError as error:
            self._landing.config_tells_secret = isinstance(error, SecretToldError)
            self._notice("warning", f"{error}; going on with the configuration as it was")
            return
        self._settler.use(gear.project)
        self._patience.use(gear.config, gear.crew)
        self._notice("info", "the configuration was edited: going on with it")
        needed = iterations_allowed(gear.project, self._settler.prd, self._options, self._reopen)
        self._max_iterations = config.limits.max_iterations or self._tally.iterations + needed
        self._base_is_old = self._base_is_old or not gear.gatekeeper.judges_as(before.gatekeeper)

    def _expect(self, task: Task) -> policy.Stop | None:
        """An agent that was limited in an earlier run may be so still."""
        if task.retry_after is None:
            return None
        executor = self._gear.assigner.executor(task, self._gear.assigner.stage(task, self._landing.kept))
        return self._patience.expect(task, executor, self._settler.last_agent(task))

    def _allow_for_edits(self) -> None:
        """What a person added, or set back to pending, has its attempts too, unless the limit is a configured one."""
        if self._settler.file.edited and self._gear.config.limits.max_iterations is None:
            needed = iterations_allowed(self._gear.project, self._settler.prd, self._options, self._reopen)
            self._max_iterations = max(self._max_iterations, self._tally.iterations + needed)
        self._settler.file.edited = False

    def _pickable(self) -> Task | None:
        """The next task; first the one whose unfinished work stands in the tree."""
        prd, only = self._settler.prd, self._options.only
        kept = self._landing.kept
        if kept is not None and (not only or kept.task_id in only):
            begun = selection.next_task(prd, only=(kept.task_id,))
            if begun is not None:
                return begun
        return selection.next_task(prd, only=only, reopen=self._reopen)

    def _open(self, task: Task) -> Opened:
        """Write order, step 1: the iteration file, prd.json, the saved state."""
        self._reopen.discard(task.id)
        self._landing.put_away_work_of_others(task.id)
        number, at, kept = self._settler.take_number(), self._clock.iso(), self._landing.kept
        stage = self._gear.assigner.stage(task, kept)
        task = settling.opened(task, stage=stage, number=number, at=at)
        executor = self._gear.crew.acting(self._gear.assigner.executor(task, stage), self._clock.now())
        this = Pass(number, task, stage, self._gear.crew.member(executor))
        self._opening = opening = self._workspace.open(kept.tree if kept else None, after=self._opening)
        self._gear.gatekeeper.make_ready(opening)
        guarded = self._guard((*self._gear.gatekeeper.steps, *self._gear.assigner.judging(task, stage)), opening)
        now = self._now(self._settler.prd.replacing(task), task, opening)
        text = self._gear.assigner.brief(this, now, opening)
        opened = record.opened(
            task,
            text,
            number=number,
            stage=stage,
            attempt=this.attempt,
            agent=this.member.agent.name,
            at=at,
            opening=opening,
            base=self._base,
            clean=self._gear.redactor.clean,
        )
        self._settler.open(opened, now.prd, opening, guarded)
        self._report(self._opened_event(this))
        wall_time, run_limited = self._time_left(task)
        assignment = self._gear.assigner.assignment(
            this,
            opening,
            self._base,
            project=now.prd.project,
            prompt=text.prompt,
            wall_time=wall_time,
            money_left=requirements.money_left(self._gear.config.limits, task, spent=self._tally.cost_usd),
            run_limited=run_limited,
            seconds=self._clock.seconds(),
        )
        return Opened(assignment, opened, executor, this.member.agent, guarded)

    def _settle(self, opened: Opened, outcome: Outcome) -> policy.Stop | None:
        """Write order, steps 2 and 3: the judged record, then commit, prd.json, progress, record, state commit."""
        gates = [result for result in outcome.checks if result.method == "gate"]
        self._base = replace(self._base, red=self._base.red - {result.step for result in gates if result.passed})
        judged = record.judged(
            opened.record, outcome, base=self._base, at=self._clock.iso(), clean=self._gear.redactor.clean
        )
        judged = record.with_judging(judged, *self._gear.judging.take())
        judged = self._orders.judged(judged)
        response = self._patience.look_at(judged, opened.executor)
        if response is not None and response.remedy == "give-up-task":
            judged = record.given_up(judged, response.reason)
        spent = self._spent.get(judged.task_id, 0.0) + judged.duration_ms / 1000
        self._spent[judged.task_id] = spent
        final, settlement = self._settler.settle(
            judged,
            opened.assignment.opening,
            time_left=self._gear.config.limits.max_wall_time - spent,
        )
        self._tally = policy.RunTally(
            iterations=self._tally.iterations + 1,
            elapsed=self._clock.monotonic() - self._started,
            cost_usd=self._tally.cost_usd + final.spent_usd,
            tokens=self._tally.tokens + final.spent_tokens,
        )
        completes = settlement.trigger == "complete"
        if completes:
            self._base = self._base.after(gates)
        if settlement.stop_reason == "stuck":
            self._stuck.add(final.task_id)
        self._touched[final.task_id] = final.commit if completes else None
        self._report(summary.settled_event(final, settlement, self._settler.prd, self._tally))
        return self._stop(settlement, response)

    def _stop(self, settlement: policy.Settlement, response: Response | None) -> policy.Stop | None:
        """Why the run ends after an iteration, if it does: an agent's failure is looked upon with patience."""
        if response is None:
            return settlement.stop
        if self._gear.config.limits.max_iterations is None:
            self._max_iterations += 1  # an iteration that does not count takes none away
        if response.remedy != "stop":
            return None
        return policy.Stop("rate-limited" if response.limited else "error", response.reason)

    def _finish(self, stop: policy.Stop) -> events.RunEnded:
        if stop.stop_reason == "cancelled":
            self._landing.put_away_work_of_others("")
        self._settler.finish()
        ended = summary.run_ended(
            stop,
            self._settler.prd,
            touched=self._touched,
            tally=self._tally,
            duration=self._clock.monotonic() - self._started,
            branch=self._settler.branch,
            held=self._settler.watch.held,
        )
        self._report(ended)
        return ended

    # Parts of an iteration

    def _guard(self, steps: Iterable[VerificationStep], opening: Opening) -> guard.Guard:
        """What nobody but Ralph and a person may change, as it is now; `steps` are all that judge the work."""
        files = (*self._outside.files(steps, opening), *self._gear.gatekeeper.copied_files())
        return guard.remember(self._gear.project.repository, files)

    def _now(self, prd: Prd, task: Task, opening: Opening) -> Now:
        kept = self._landing.kept
        return Now(
            prd=prd,
            progress=self._settler.progress_text(),
            commits=self._landing.recent_commits(),
            feedback=self._settler.feedback_for(task),
            changed=self._workspace.changes(opening.tree, kept.tree) if kept else (),
            iteration=self._tally.iterations + 1,
            max_iterations=self._max_iterations,
        )

    def _time_left(self, task: Task) -> tuple[float, bool]:
        """How long the agent may take, in seconds, and whether it is the run's limit that says so."""
        limits = self._gear.config.limits
        own = min(limits.iteration_timeout, limits.max_wall_time - self._spent.get(task.id, 0.0))
        of_run = self._run_time_left()
        return (max(1.0, own), False) if of_run is None else (max(1.0, min(own, of_run)), of_run <= own)

    def _run_time_left(self) -> float | None:
        """What the run's own limit leaves, in seconds; None without one."""
        limit = self._gear.config.limits.max_run_wall_time
        return None if limit is None else limit - (self._clock.monotonic() - self._started)

    def _tools(self, opened: Opened) -> Tools:
        results, gear = ResultCache(), self._gear
        return Tools(
            agent=opened.agent,
            priced=lambda result: gear.crew.completed(result, opened.executor),
            workspace=self._workspace,
            who=self._ready.who,
            hooks=lambda put_back: gear.hooks(self._cancelled, put_back),
            run_gates=lambda tree: gear.gatekeeper.run_for(opened.assignment, tree, results),
            tree_after_gates=lambda tree: gear.gatekeeper.tree_after(opened.assignment.opening, tree),
            stand=lambda tree: gear.gatekeeper.stand(opened.assignment.opening, tree),
            results=results,
            ask=gear.model.ask,
            no_model=gear.model.missing,
            review=self._review,
            summarizer=gear.summarizer,
            run_commit_hooks=gear.gatekeeper.commit_hooks(),
            guarded=opened.guarded,
            restore_state=self._settler.restore_state,
            keep_aside=lambda files: leftovers.keep_aside(gear.project, opened.assignment.number, files),
            redactor=gear.redactor,
            sign=self._ready.sign,
            cancelled=self._cancelled,
            report=self._report,
        )

    def _review(self, task: Task, tier: Tier, change: ReviewedChange) -> Review | None:
        def patiently(ask: Ask, reviewer: str) -> Ask:
            return self._patience.patiently(ask, reviewer, task, seconds_left=self._run_time_left)

        return self._gear.reviewing.in_loop(task, tier, change, patiently=patiently)

    def _opened_event(self, this: Pass) -> events.IterationOpened:
        prd = self._settler.prd
        return events.IterationOpened(
            iteration_number=this.number,
            index=self._tally.iterations + 1,
            max_iterations=self._max_iterations,
            task_id=this.task.id,
            title=this.task.title,
            stage=this.stage,
            attempt=this.attempt,
            max_attempts=self._gear.assigner.max_attempts(this.task, this.stage),
            completed_tasks=sum(other.status == "completed" for other in prd.tasks),
            total_tasks=len(prd.tasks),
            agent=self._gear.crew.name_of(this.member.agent.name),
        )

    def _notice(self, level: str, text: str) -> None:
        self._report(events.Notice("warning" if level == "warning" else "info", text))
