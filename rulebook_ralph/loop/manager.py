"""The run: pick → brief → execute → parse → judge → settle, until all is completed or a stated limit ends it.

The manager is the only writer of the state folder. It opens each iteration, hands the work out (iteration.py), and
settles what came back, in the order of DESIGN.md (The order of writing).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Event

from rulebook_ralph.agents.agent import Agent, AgentLimits
from rulebook_ralph.clock import Clock
from rulebook_ralph.core import events, policy, selection, settling
from rulebook_ralph.core.enumeration import some
from rulebook_ralph.core.evidence import Iteration
from rulebook_ralph.core.model import Prd, Stage, Task
from rulebook_ralph.core.redaction import Redactor
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.loop import brief, leftovers, record, summary
from rulebook_ralph.loop.gatekeeper import Gatekeeper
from rulebook_ralph.loop.iteration import Assignment, Outcome, Tools, attempt
from rulebook_ralph.loop.options import RunOptions
from rulebook_ralph.loop.pipeline import built_in_hooks
from rulebook_ralph.loop.preparation import prepare
from rulebook_ralph.loop.project import Project
from rulebook_ralph.workspace import guard
from rulebook_ralph.workspace.git import GitError
from rulebook_ralph.workspace.snapshot import Opening, Workspace

STAGE: Stage = "coder"


@dataclass(frozen=True, slots=True)
class Opened:
    """An iteration that was opened: the assignment, its record, and git's own files as they were."""

    assignment: Assignment
    record: Iteration
    guarded: guard.Guard


class Manager:
    """One run over one project."""

    def __init__(
        self,
        project: Project,
        agent: Agent,
        options: RunOptions,
        *,
        agent_environment: Mapping[str, str],
        report: Callable[[events.Event], None],
        clock: Clock,
        cancelled: Event,
    ) -> None:
        self._project = project
        self._agent = agent
        self._options = options
        self._agent_environment = agent_environment
        self._report = report
        self._clock = clock
        self._cancelled = cancelled
        self._redactor = Redactor(agent_environment)
        self._workspace = Workspace(project.repository)
        self._gatekeeper = Gatekeeper(
            project, self._workspace, project.repository.hooks_folder(), self._redactor, cancelled, report
        )
        self._started = clock.monotonic()
        self._tally = policy.RunTally()
        self._spent: dict[str, float] = {}
        self._touched: dict[str, str | None] = {}
        self._opening: Opening | None = None

    def run(self, *, after_death: bool) -> events.RunEnded:
        """Work until nothing is left or a limit ends it; always leaves a resumable state. Raises RalphError.

        The project's lock must be held; `after_death` says that its last holder died.
        """
        try:
            self._prepare(after_death=after_death)
            while not isinstance(following := self._pick(), policy.Stop):
                opened = self._open(following)
                outcome = attempt(opened.assignment, self._tools(opened))
                if (stop := self._settle(opened, outcome)) is not None:
                    return self._finish(stop)
            return self._finish(following)
        except GitError as error:
            problem = f"{error}; mend the repository {self._project.root}, then: ralph resume"
            raise RalphError(problem, exit_code=ExitCode.UNEXPECTED) from error

    # Before the first agent

    def _prepare(self, *, after_death: bool) -> None:
        prepared = prepare(
            self._project,
            self._workspace,
            self._agent,
            self._options,
            stage=STAGE,
            after_death=after_death,
            clock=self._clock,
            notice=self._notice,
            redactor=self._redactor,
        )
        self._ready, self._settler = prepared.ready, prepared.settler
        self._landing = prepared.settler.landing
        self._reopen, self._max_iterations = set(prepared.reopen), prepared.max_iterations
        self._say_plan()
        self._excused = self._red_on_base()

    def _say_plan(self) -> None:
        prd, limits = self._settler.prd, self._project.config.limits
        completed = sum(task.status == "completed" for task in prd.tasks)
        self._report(
            events.RunPlanned(
                project=prd.project,
                branch=self._settler.branch,
                agent=self._agent.name,
                open_tasks=len(selection.plan(prd, only=self._options.only, reopen=self._reopen)),
                total_tasks=len(prd.tasks),
                completed_tasks=completed,
                max_iterations=self._max_iterations,
                max_wall_time=limits.max_run_wall_time,
                max_cost_usd=limits.max_cost_usd,
            )
        )

    def _red_on_base(self) -> frozenset[str]:
        """The gates that are red before any agent worked; run once on the base, unless kept work stands in the tree."""
        if not self._gatekeeper.steps or self._pickable() is None:
            return frozenset()
        if self._landing.kept is not None:
            return self._settler.red_on_base_of_last()
        self._opening = self._workspace.open()
        if untracked := sorted(self._opening.untracked):
            self._notice("info", f"untracked, so an agent's changes to it do not count: {some(untracked)}")
        return self._gatekeeper.red_on(self._opening, strict=self._options.strict)

    # The loop

    def _pick(self) -> Task | policy.Stop:
        """The task to work on now, or why the run ends."""
        if self._cancelled.is_set():
            return policy.Stop("interrupted", "interrupted; 'ralph resume' continues")
        self._settler.take_edits()
        task = self._pickable()
        if task is None:
            return summary.why_nothing_is_left(self._settler.prd, only=self._options.only)
        limits = self._project.config.limits
        if (stop := policy.limit_reached(limits, self._tally, max_iterations=self._max_iterations)) is not None:
            return stop
        self._reopen.discard(task.id)
        self._landing.put_away_work_of_others(task.id)
        return task

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
        number, at = self._settler.take_number(), self._clock.iso()
        task = settling.opened(task, stage=STAGE, number=number, at=at)
        attempt_number = task.attempts.get(STAGE, 0) + 1
        kept = self._landing.kept
        self._opening = opening = self._workspace.open(kept.tree if kept else None, after=self._opening)
        guarded = guard.remember(self._project.repository)
        prd = self._settler.prd.replacing(task)
        text = brief.render(self._situation(prd, task, attempt_number))
        opened = record.opened(
            task,
            text,
            number=number,
            stage=STAGE,
            attempt=attempt_number,
            agent=self._agent.name,
            at=at,
            opening=opening,
            red_on_base=self._excused,
        )
        self._settler.open(opened, prd, opening, guarded)
        self._report(self._opened_event(task, number, attempt_number))
        return Opened(self._assignment(task, number, attempt_number, text.prompt, opening), opened, guarded)

    def _settle(self, opened: Opened, outcome: Outcome) -> policy.Stop | None:
        """Write order, steps 2 and 3: the judged record, then commit, prd.json, progress, record, state commit."""
        self._excused -= {result.step for result in outcome.checks if result.passed}
        judged = record.judged(opened.record, outcome, red_on_base=self._excused, at=self._clock.iso())
        spent = self._spent.get(judged.task_id, 0.0) + judged.duration_ms / 1000
        self._spent[judged.task_id] = spent
        final, settlement = self._settler.settle(
            judged,
            opened.assignment.opening,
            time_left=self._project.config.limits.max_wall_time - spent,
        )
        self._tally = policy.RunTally(
            iterations=self._tally.iterations + 1,
            elapsed=self._clock.monotonic() - self._started,
            cost_usd=self._tally.cost_usd + (final.cost_usd or 0.0),
            tokens=self._tally.tokens + final.usage.total,
        )
        completes = settlement.trigger == "complete"
        self._touched[final.task_id] = final.commit if completes else None
        self._report(summary.settled_event(final, settlement, self._settler.prd, self._tally))
        return settlement.stop

    def _finish(self, stop: policy.Stop) -> events.RunEnded:
        self._settler.finish()
        ended = summary.run_ended(
            stop,
            self._settler.prd,
            touched=self._touched,
            tally=self._tally,
            duration=self._clock.monotonic() - self._started,
            branch=self._settler.branch,
            held=self._settler.held,
        )
        self._report(ended)
        return ended

    # Parts of an iteration

    def _situation(self, prd: Prd, task: Task, attempt_number: int) -> brief.Situation:
        config = self._project.config
        return brief.Situation(
            prd=prd,
            task=task,
            stage=STAGE,
            progress=self._settler.progress_text(),
            commits=self._landing.recent_commits(),
            rules=config.rules,
            steps=self._gatekeeper.steps,
            promise=policy.ROLE_PROMISE[STAGE],
            feedback=self._settler.feedback_for(task),
            iteration=self._tally.iterations + 1,
            max_iterations=self._max_iterations,
            attempt=attempt_number,
            max_attempts=policy.max_attempts(config, STAGE),
            prompt_tokens=config.limits.prompt_tokens,
        )

    def _assignment(self, task: Task, number: int, attempt_number: int, prompt: str, opening: Opening) -> Assignment:
        wall_time, run_limited = self._time_left(task)
        promise = policy.ROLE_PROMISE[STAGE]
        marks = {
            "RALPH_TASK": task.id,
            "RALPH_STAGE": STAGE,
            "RALPH_ATTEMPT": str(attempt_number),
            "RALPH_ITERATION": str(number),
            "RALPH_PROMISE": promise,
            "RALPH_AGENT": self._agent.name,
        }
        return Assignment(
            project=self._settler.prd.project,
            number=number,
            task=task,
            stage=STAGE,
            attempt=attempt_number,
            prompt=prompt,
            promise=promise,
            opening=opening,
            steps=self._gatekeeper.steps,
            excused=self._excused,
            trust_agent=self._options.trust_agent,
            run_limited=run_limited,
            limits=AgentLimits(wall_time=wall_time, idle_time=self._project.config.limits.idle_timeout),
            environment={**self._agent_environment, **marks},
            output_file=leftovers.output_file(self._project, number),
            seconds=self._clock.seconds(),
        )

    def _time_left(self, task: Task) -> tuple[float, bool]:
        """How long the agent may take, in seconds, and whether it is the run's limit that says so."""
        limits = self._project.config.limits
        own = min(limits.iteration_timeout, limits.max_wall_time - self._spent.get(task.id, 0.0))
        if limits.max_run_wall_time is None:
            return max(1.0, own), False
        of_run = limits.max_run_wall_time - (self._clock.monotonic() - self._started)
        return max(1.0, min(own, of_run)), of_run <= own

    def _tools(self, opened: Opened) -> Tools:
        return Tools(
            agent=self._agent,
            workspace=self._workspace,
            who=self._ready.who,
            hooks=built_in_hooks(),
            run_gates=lambda: self._gatekeeper.run_gates(excused=self._excused),
            run_commit_hooks=self._gatekeeper.commit_hooks(),
            guarded=opened.guarded,
            restore_state=lambda: self._settler.restore_state(opened.assignment.number),
            keep_aside=lambda files: leftovers.keep_aside(self._project, opened.assignment.number, files),
            redactor=self._redactor,
            sign=self._ready.sign,
            cancelled=self._cancelled,
            report=self._report,
        )

    def _opened_event(self, task: Task, number: int, attempt_number: int) -> events.IterationOpened:
        prd = self._settler.prd
        return events.IterationOpened(
            iteration_number=number,
            index=self._tally.iterations + 1,
            max_iterations=self._max_iterations,
            task_id=task.id,
            title=task.title,
            stage=STAGE,
            attempt=attempt_number,
            max_attempts=policy.max_attempts(self._project.config, STAGE),
            completed_tasks=sum(other.status == "completed" for other in prd.tasks),
            total_tasks=len(prd.tasks),
        )

    def _notice(self, level: str, text: str) -> None:
        self._report(events.Notice("warning" if level == "warning" else "info", text))
