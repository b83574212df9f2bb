"""What one iteration begins with: stage, base, what the agent finds, prompt and limits, as values; and its record."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace as replaced

from rulebook_ralph.agents.agent import AgentLimits
from rulebook_ralph.config import requirements
from rulebook_ralph.git.trees import changes, merge_trees
from rulebook_ralph.report.events import IterationOpened
from rulebook_ralph.run import prompt
from rulebook_ralph.run.attempt import Assignment
from rulebook_ralph.run.parts import Parts
from rulebook_ralph.run.policy import RunTally
from rulebook_ralph.run.workers import Worker
from rulebook_ralph.tasks.history import Iteration
from rulebook_ralph.tasks.model import Stage, Task
from rulebook_ralph.verify.case import Case, StageCriteria

RECENT_COMMITS = 20


@dataclass(frozen=True, slots=True)
class Opened:
    """An iteration that goes on: its record, what is worked on, and where."""

    record: Iteration
    assignment: Assignment
    worker: Worker


@dataclass(frozen=True, slots=True)
class Turn:
    """Where the run stands: which iteration of how many this is, and what was used. `budgets` are those of the agents
    at work.
    """

    index: int
    max_iterations: int
    tally: RunTally
    budgets: Sequence[float]


def open_iteration(parts: Parts, task: Task, turn: Turn) -> Opened:
    """Write the record and the task list, and say so; the agent has not begun yet."""
    journal, last, base = parts.journal, parts.journal.last(task), parts.branch.tip()
    left = _left_on(parts, task, last, base)
    stage = _stage(parts, task, last) if left else requirements.stages_of(parts.config, task)[0]
    meant = requirements.executor_for(parts.config, task, stage)
    executor = parts.roster.acting(meant, parts.clock.now())
    model = requirements.model_for(parts.config, task, stage) if executor == meant else ""
    attempt = (0 if task.status == "blocked" else task.attempts.get(stage, 0)) + 1
    agent = parts.roster.agent(executor, model)[0].name
    record = new_record(parts, task, stage, attempt, agent=agent, base=base, tree=left or base)
    text = _prompt(parts, record, task, turn, last)
    digest = hashlib.sha256(text.stable.encode("utf-8", "replace")).hexdigest()
    record = replaced(record, prompt=parts.redactor.clean(text.moving), prompt_digest=f"sha256:{digest}")
    journal.open(record)
    parts.report(_event(parts, record, task, turn, executor))
    limits, run_limited = _limits(parts, task, turn)
    assignment = assignment_of(
        parts, record, prompt=text.prompt, acting=(executor, model), limits=limits, run_limited=run_limited
    )
    return Opened(record, assignment, parts.workers.take(task.id, record.iteration_number, parts.report))


def new_record(parts: Parts, task: Task, stage: Stage, attempt: int, *, agent: str, base: str, tree: str) -> Iteration:
    """The record of an iteration that begins now, under the next number."""
    at = parts.clock.iso()
    return Iteration(
        iteration_number=parts.journal.take_number(),
        phase="executing",
        task_id=task.id,
        stage=stage,
        attempt=attempt,
        agent=agent,
        timestamp=at,
        started_at=at,
        base_commit=base,
        tree=tree,
        tasks_attempted=(task.id,),
    )


def assignment_of(
    parts: Parts,
    record: Iteration,
    *,
    prompt: str = "",
    acting: tuple[str, str] | None = None,
    limits: AgentLimits = AgentLimits(),  # noqa: B008 - frozen
    run_limited: bool = False,
    approved: bool = False,
) -> Assignment:
    """What is worked on in an iteration that was opened, here or by another process. `acting` are the agent and the
    model, where it is known who acts for the task's own.
    """
    config, task, stage = parts.config, parts.journal.prd.task(record.task_id), record.stage
    meant = requirements.executor_for(config, task, stage), requirements.model_for(config, task, stage)
    executor, model = acting or meant
    agent, environment = parts.roster.agent(executor, model)
    case = Case(
        project=parts.journal.prd.project,
        task=task,
        stage=stage,
        attempt=record.attempt,
        iteration=record.iteration_number,
        last_stage=requirements.stages_of(config, task)[-1] == stage,
        implements=requirements.implements(config, task),
        criteria=_criteria(parts, task, stage),
        stop_criteria=requirements.stop_criteria_for(config, task),
        base=record.base_commit,
        checks_base=parts.checks_base or record.base_commit,
        tree=parts.project.repository.tree_of(record.tree or record.base_commit),
        run_limited=run_limited,
        approved=approved,
    )
    own = {
        "RALPH_TASK": task.id,
        "RALPH_STAGE": stage,
        "RALPH_ATTEMPT": str(record.attempt),
        "RALPH_ITERATION": str(record.iteration_number),
        "RALPH_PROMISE": case.criteria[0].criteria.promise,
        "RALPH_AGENT": agent.name,
    }
    return Assignment(
        case=case,
        prompt=prompt or record.prompt,
        agent=agent,
        executor=executor,
        model=model,
        environment={**environment, **own},
        limits=limits,
        output_file=parts.project.output_file(record.iteration_number),
        seconds=parts.clock.seconds(),
        sign=parts.sign,
    )


def executor_of(parts: Parts, task: Task) -> str:
    """The id of the agent that is to work on a task now, whoever acts for it."""
    return requirements.executor_for(parts.config, task, _stage(parts, task, parts.journal.last(task)))


def _left_on(parts: Parts, task: Task, last: Iteration | None, tip: str) -> str | None:
    """What the task's attempts before left, as a tree on today's branch, where it can still be put onto that."""
    tree = _left_by(task, last)
    if last is None or tree is None or last.base_commit == tip:
        return tree
    return merge_trees(parts.project.repository, last.base_commit, tip, tree).tree


def _left_by(task: Task, last: Iteration | None) -> str | None:
    """The tree that a settled iteration left to go on from; None where it was completed, or put back to the base."""
    if last is None or last.tree is None or last.rolled_back or task.status == "blocked":
        return None
    verified = last.completion_status == "completed" and not last.tasks_completed
    return last.tree if verified or last.completion_status in ("failed", "interrupted", "limited") else None


def _stage(parts: Parts, task: Task, last: Iteration | None) -> Stage:
    """The stage to work on: the one the task had come to while its work is kept, else the first."""
    stages = requirements.stages_of(parts.config, task)
    return task.stage if _left_by(task, last) is not None and task.stage in stages else stages[0]


def _criteria(parts: Parts, task: Task, stage: Stage) -> tuple[StageCriteria, ...]:
    """The stage's own; in the last one also those of earlier stages that are more than a promise."""
    stages = requirements.stages_of(parts.config, task)
    of = {each: StageCriteria(each, requirements.criteria_for(parts.config, task, each)) for each in (stage, *stages)}
    own = of.pop(stage)
    more = [each for each in of.values() if each.criteria.method != "string_match"]
    return (own, *more) if stage == stages[-1] else (own,)


def _prompt(parts: Parts, record: Iteration, task: Task, turn: Turn, last: Iteration | None) -> prompt.Prompt:
    repository, base, tree = parts.project.repository, record.base_commit, record.tree or record.base_commit
    standing = _standing(parts, last, base)
    return parts.templates.prompt(
        prompt.Situation(
            config=parts.config,
            prd=parts.journal.prd,
            task=task,
            stage=record.stage,
            base=base,
            changed=[change.path for change in changes(repository, base, tree)],
            progress=parts.journal.progress,
            commits=repository.recent_commits(RECENT_COMMITS, until=base),
            feedback=last.feedback if last else "",
            last=last if tree != base or standing or (last and last.feedback) else None,
            standing=standing,
            red=parts.verifiers.gates.red_on(base),
            iteration=turn.index,
            max_iterations=turn.max_iterations,
            attempt=record.attempt,
            beside=parts.workers.most > 1,
        )
    )


def _standing(parts: Parts, last: Iteration | None, base: str) -> str:
    """The commit that completed the task before it was reopened, where all of its work still stands at the base."""
    repository = parts.project.repository
    if last is None or not last.commit or not repository.contains(last.commit, within=base):
        return ""
    moved = {change.path for change in changes(repository, last.commit, base)}
    return "" if moved & set(last.files_changed) else last.commit


def _event(parts: Parts, record: Iteration, task: Task, turn: Turn, executor: str) -> IterationOpened:
    prd = parts.journal.prd
    return IterationOpened(
        iteration_number=record.iteration_number,
        index=turn.index,
        max_iterations=turn.max_iterations,
        task_id=task.id,
        title=task.title,
        stage=record.stage,
        attempt=record.attempt,
        max_attempts=requirements.max_attempts(parts.config, task, record.stage),
        completed_tasks=sum(each.status == "completed" for each in prd.tasks),
        total_tasks=len(prd.tasks),
        agent=parts.roster.name_of(executor),
        idle_timeout=parts.config.limits.idle_timeout,
    )


def _limits(parts: Parts, task: Task, turn: Turn) -> tuple[AgentLimits, bool]:
    """The agent's limits, and whether it is the run's that ends its time. Of the money that nobody has spent or may
    still spend it has its share: those that can begin beside it want theirs.
    """
    limits, seconds, tally = parts.config.limits, parts.time_left(task), turn.tally
    of_run = None if limits.max_run_wall_time is None else limits.max_run_wall_time - tally.elapsed
    run_limited = of_run is not None and of_run <= seconds
    share = 1 / max(1, parts.workers.most - len(turn.budgets))
    return AgentLimits(
        wall_time=max(1.0, seconds if of_run is None else min(seconds, of_run)),
        idle_time=limits.idle_timeout,
        cost_usd=requirements.money_left(parts.config, task, spent=tally.cost_usd + sum(turn.budgets), share=share),
    ), run_limited
