"""What one iteration begins with: stage, base, what the agent finds, prompt and limits, as values; and its record."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from rulebook_ralph.agents.agent import AgentLimits
from rulebook_ralph.agents.roster import Roster
from rulebook_ralph.clock import Clock
from rulebook_ralph.config import requirements
from rulebook_ralph.config.settings import Config
from rulebook_ralph.git.trees import changes, merge_trees
from rulebook_ralph.report.events import Event, IterationOpened
from rulebook_ralph.run import prompt
from rulebook_ralph.run.attempt import Assignment
from rulebook_ralph.run.branch import Branch
from rulebook_ralph.run.journal import Journal
from rulebook_ralph.run.policy import RunTally
from rulebook_ralph.run.project import Project
from rulebook_ralph.run.prompt import TemplateFiles
from rulebook_ralph.run.workers import Worker, Workers
from rulebook_ralph.tasks.iteration import Iteration
from rulebook_ralph.tasks.model import Stage, Task
from rulebook_ralph.verify.case import StageCriteria, Verifiers
from rulebook_ralph.verify.redaction import Redactor

RECENT_COMMITS = 20


@dataclass(frozen=True, slots=True)
class Opened:
    """An iteration that goes on: its record, what is worked on, and where."""

    record: Iteration
    assignment: Assignment
    worker: Worker


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """What an attempt starts from: a commit to be measured against, and the tree that stands in the clone."""

    base: str
    tree: str
    kept: bool = False


@dataclass(slots=True)
class Opening:
    """Opens the iterations of one run. `spent` is how long each task was worked on in it, in seconds; `checks_base`
    the commit whose check files count as the base's, for tasks beyond the one that changed them.
    """

    project: Project
    config: Config
    journal: Journal
    branch: Branch
    workers: Workers
    roster: Roster
    verifiers: Verifiers
    templates: TemplateFiles
    redactor: Redactor
    clock: Clock
    report: Callable[[Event], None]
    sign: bool = False
    checks_base: str = ""
    spent: dict[str, float] = field(default_factory=dict)

    def executor_of(self, task: Task) -> str:
        """The id of the agent that is to work on a task now, whoever acts for it."""
        return requirements.executor_for(self.config, task, self._stage(task, self.journal.last(task)))

    def open(self, task: Task, *, index: int, max_iterations: int, tally: RunTally, budgets: Sequence[float]) -> Opened:
        """Write the record and the task list, and say so; the agent has not begun yet. `budgets` are those of
        the agents at work.
        """
        last = self.journal.last(task)
        found = self._found(task, last)
        stage = self._stage(task, last) if found.kept else requirements.stages_of(self.config, task)[0]
        number, at = self.journal.take_number(), self.clock.iso()
        attempt = (0 if task.status == "blocked" else task.attempts.get(stage, 0)) + 1
        meant = requirements.executor_for(self.config, task, stage)
        executor = self.roster.acting(meant, self.clock.now())
        model = requirements.model_for(self.config, task, stage) if executor == meant else ""
        agent, _ = self.roster.agent(executor, model)
        text = self._prompt(task, stage, found, last, attempt=attempt, index=index, max_iterations=max_iterations)
        record = Iteration(
            iteration_number=number,
            phase="executing",
            task_id=task.id,
            stage=stage,
            attempt=attempt,
            agent=agent.name,
            timestamp=at,
            started_at=at,
            base_commit=found.base,
            tree=found.tree,
            tasks_attempted=(task.id,),
            prompt=self.redactor.clean(text.moving),
            prompt_digest="sha256:" + hashlib.sha256(text.stable.encode("utf-8", "replace")).hexdigest(),
        )
        self.journal.open(record, stage)
        task = self.journal.prd.task(task.id)
        self.report(self._event(record, task, index=index, max_iterations=max_iterations, executor=executor))
        wall_time, run_limited = self._time_left(task, tally)
        assignment = replace(
            self.assignment(record, number=number, prompt=text.prompt, acting=(executor, model)),
            limits=AgentLimits(
                wall_time=wall_time,
                idle_time=self.config.limits.idle_timeout,
                cost_usd=self._money_left(task, tally, budgets),
            ),
            run_limited=run_limited,
        )
        return Opened(record, assignment, self.workers.take(task, number, self.report))

    def assignment(
        self,
        record: Iteration,
        *,
        number: int,
        prompt: str = "",
        acting: tuple[str, str] | None = None,
        approved: bool = False,
    ) -> Assignment:
        """What is worked on in an iteration that was opened, here or by another process, to be judged as the iteration
        `number`. `acting` are the agent and the model, where it is known who acts for the task's own.
        """
        config, task, stage = self.config, self.journal.prd.task(record.task_id), record.stage
        meant = requirements.executor_for(config, task, stage), requirements.model_for(config, task, stage)
        executor, model = acting or meant
        agent, environment = self.roster.agent(executor, model)
        criteria = self.criteria(task, stage)
        own = {
            "RALPH_TASK": task.id,
            "RALPH_STAGE": stage,
            "RALPH_ATTEMPT": str(record.attempt),
            "RALPH_ITERATION": str(number),
            "RALPH_PROMISE": criteria[0].criteria.promise,
            "RALPH_AGENT": agent.name,
        }
        return Assignment(
            project=self.journal.prd.project,
            number=number,
            task=task,
            stage=stage,
            attempt=record.attempt,
            last_stage=requirements.stages_of(config, task)[-1] == stage,
            implements=requirements.implements(config, task),
            criteria=criteria,
            stop_criteria=requirements.stop_criteria_for(config, task),
            base=record.base_commit,
            checks_base=self.checks_base or record.base_commit,
            tree=record.tree or record.base_commit,
            prompt=prompt or record.prompt,
            agent=agent,
            executor=executor,
            model=model,
            environment={**environment, **own},
            limits=AgentLimits(),
            run_limited=False,
            output_file=self.project.output_file(number),
            seconds=self.clock.seconds(),
            sign=self.sign,
            approved=approved,
        )

    # What the agent finds

    def _found(self, task: Task, last: Iteration | None) -> StartingPoint:
        """Today's branch, with what the task's attempts before left, where that can still be put onto it."""
        tip = self.branch.tip()
        tree = None if last is None or task.status == "blocked" else left_by(last)
        if last is None or tree is None:
            return StartingPoint(tip, tip)
        if last.base_commit == tip:
            return StartingPoint(tip, tree, kept=True)
        merged = merge_trees(self.project.repository, last.base_commit, tip, tree)
        return StartingPoint(tip, merged.tree, kept=True) if merged.tree is not None else StartingPoint(tip, tip)

    def _stage(self, task: Task, last: Iteration | None) -> Stage:
        """The stage to work on: the one the task had come to while its work is kept, else the first."""
        stages = requirements.stages_of(self.config, task)
        goes_on = last is not None and left_by(last) is not None and task.status != "blocked"
        return task.stage if goes_on and task.stage in stages else stages[0]

    def criteria(self, task: Task, stage: Stage) -> tuple[StageCriteria, ...]:
        """The stage's own; in the last one also those of earlier stages that are more than a promise."""
        stages = requirements.stages_of(self.config, task)
        own = StageCriteria(stage, requirements.criteria_for(self.config, task, stage))
        if stage != stages[-1]:
            return (own,)
        before = (StageCriteria(each, requirements.criteria_for(self.config, task, each)) for each in stages)
        return (own, *(each for each in before if each.stage != stage and each.criteria.method != "string_match"))

    def _prompt(
        self,
        task: Task,
        stage: Stage,
        found: StartingPoint,
        last: Iteration | None,
        *,
        attempt: int,
        index: int,
        max_iterations: int,
    ) -> prompt.Prompt:
        repository = self.project.repository
        standing = self._standing(last, found.base)
        changed = [change.path for change in changes(repository, found.base, found.tree)] if found.kept else []
        return self.templates.prompt(
            prompt.Situation(
                config=self.config,
                prd=self.journal.prd,
                task=task,
                stage=stage,
                base=found.base,
                changed=changed,
                progress=self.journal.progress,
                commits=repository.recent_commits(RECENT_COMMITS, until=found.base),
                feedback=last.feedback if last else "",
                last=last if found.kept or standing or (last and last.feedback) else None,
                standing=standing,
                red=self.verifiers.gates.red_on(found.base),
                iteration=index,
                max_iterations=max_iterations,
                attempt=attempt,
                beside=self.workers.most > 1,
            )
        )

    def _standing(self, last: Iteration | None, base: str) -> str:
        """The commit that completed the task before it was reopened, where all of its work still stands at the base."""
        repository = self.project.repository
        commit = last.commit if last is not None and last.commit else ""
        if last is None or not commit or not repository.contains(commit, within=base):
            return ""
        moved = {change.path for change in changes(repository, commit, base)}
        return "" if moved & set(last.files_changed) else commit

    def _event(
        self, record: Iteration, task: Task, *, index: int, max_iterations: int, executor: str
    ) -> IterationOpened:
        prd = self.journal.prd
        return IterationOpened(
            iteration_number=record.iteration_number,
            index=index,
            max_iterations=max_iterations,
            task_id=task.id,
            title=task.title,
            stage=record.stage,
            attempt=record.attempt,
            max_attempts=requirements.max_attempts(self.config, task, record.stage),
            completed_tasks=sum(each.status == "completed" for each in prd.tasks),
            total_tasks=len(prd.tasks),
            agent=self.roster.name_of(executor),
            idle_timeout=self.config.limits.idle_timeout,
        )

    # Limits

    def _time_left(self, task: Task, tally: RunTally) -> tuple[float, bool]:
        """How long the agent may take, in seconds, and whether it is the run's limit that says so."""
        own = self.task_time_left(task)
        if self.config.limits.max_run_wall_time is None:
            return max(1.0, own), False
        of_run = self.config.limits.max_run_wall_time - tally.elapsed
        return max(1.0, min(own, of_run)), of_run <= own

    def task_time_left(self, task: Task) -> float:
        """What is left of a task's own time in this run, in seconds."""
        return requirements.wall_time_for(self.config, task) - self.spent.get(task.id, 0.0)

    def _money_left(self, task: Task, tally: RunTally, budgets: Sequence[float]) -> float | None:
        """Of what nobody has spent or may still spend the agent has its share: those that can begin beside it want
        theirs.
        """
        share = 1 / max(1, self.workers.most - len(budgets))
        return requirements.money_left(self.config, task, spent=tally.cost_usd + sum(budgets), share=share)


def left_by(last: Iteration) -> str | None:
    """The tree that a settled iteration left to go on from; None where it was completed, or put back to the base."""
    if last.tree is None or last.rolled_back:
        return None
    verified = last.completion_status == "completed" and not last.tasks_completed
    return last.tree if verified or last.completion_status in ("failed", "interrupted", "limited") else None
