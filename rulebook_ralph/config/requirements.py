"""What holds for a task, from the PRD and the configuration: its stages, criteria, limits, agent and attempts.

A task's own word goes before the files' settings, and a variable or flag goes before the task's word.
"""

from typing import Literal

import msgspec

from rulebook_ralph.config.settings import Config, InsistentConfig, Overrides, Role, StopCriteria, TaskLimits
from rulebook_ralph.tasks.criteria import ACCEPTANCE_CRITERIA, ROLE_PROMISE, STAGES, Criteria, Semantic, StringMatch
from rulebook_ralph.tasks.criteria_reading import read_criteria
from rulebook_ralph.tasks.history import Iteration
from rulebook_ralph.tasks.model import Prd, Stage, Task
from rulebook_ralph.tasks.review import Tier
from rulebook_ralph.tasks.struct_reading import Tree, read_struct

ROLE_MAX_ITERATIONS: dict[Stage, int] = {"coder": 15, "reviewer": 5, "tester": 10, "qa": 5}
"""Attempts of a stage for which nothing else is said (spec completion-criteria, Per-Agent Defaults)."""


def criteria_for(config: Config, task: Task, stage: Stage) -> Criteria:
    """The criteria of a task's stage: its own, else the role's promise verified by `ralph.defaultVerification`."""
    if stage in task.completion:
        found = read_criteria(task.completion[stage], stage, (), [])
        if found is None:
            raise ValueError(f"the criteria of {task.id} were not validated")
        return found
    semantic = config.ralph.default_verification == "semantic" and bool(task.acceptance_criteria)
    return Criteria(
        promise=ROLE_PROMISE[stage],
        description=task.outcome,
        verification=Semantic(check_for=(ACCEPTANCE_CRITERIA,)) if semantic else StringMatch(),
    )


def tasks_without_criteria(prd: Prd) -> tuple[Task, ...]:
    """The tasks, still to be completed, that do not say themselves what completes them; in file order."""
    open_tasks = (task for task in prd.tasks if task.status != "completed")
    return tuple(task for task in open_tasks if not task.completion and not task.acceptance_criteria)


def is_verified_by_itself(config: Config, task: Task) -> bool:
    """Whether a stage of the task has criteria that are more than a promise."""
    return any(criteria_for(config, task, stage).method != "string_match" for stage in stages_of(config, task))


def stages_of(config: Config, task: Task) -> tuple[Stage, ...]:
    """The stages a task goes through: its own or the configured ones, and every role that its `completion` names."""
    own = () if _insists(config, "stages") else _overrides(task).stages
    chosen = {*(own or config.stages), *task.completion}
    return tuple(stage for stage in STAGES if stage in chosen)


def implements(config: Config, task: Task) -> bool:
    """Whether the task is to change files: one with no other stages than of a reviewer and the qa only checks."""
    return any(stage in ("coder", "tester") for stage in stages_of(config, task))


def stop_criteria_for(config: Config, task: Task) -> StopCriteria:
    """The project's stop criteria with what the task says of its own."""
    said: Tree = read_struct(task.overrides, Overrides, (), []).get("stopCriteria", {})
    own = {key: value for key, value in said.items() if not _insists(config, f"stopCriteria.{key}")}
    return msgspec.convert({**msgspec.to_builtins(config.stop_criteria), **own}, StopCriteria)


def executor_for(config: Config, task: Task, stage: Stage) -> str:
    """The id of the agent that works on a task's stage: the task's own, else the stage's, else the default one."""
    insists = _insists(config, "defaults.executor", f"ralph.agents.{stage}.executor")
    own = "" if insists else _overrides(task).executor
    return own or role_of(config, stage).executor or config.defaults.executor


def model_for(config: Config, task: Task, stage: Stage) -> str:
    """The model for a task's stage: the task's own, else `defaults.model` for the default agent, else the one that
    the agent is configured with; empty leaves it to the agent.
    """
    executor = executor_for(config, task, stage)
    own = "" if _insists(config, "defaults.model") else _overrides(task).model
    default = config.defaults.model if executor == config.defaults.executor else ""
    return own or default or next((each.model for each in config.tools.executors if each.id == executor), "")


def reviewer_of(config: Config, task: Task, tier: Tier) -> str:
    """The id of the task's own reviewer; empty where the project's reviews it."""
    return "" if _insists(config, f"defaults.{tier}Reviewer") else _overrides(task).reviewer


def rules_for(config: Config, task: Task) -> tuple[str, ...]:
    """The project's rules and then the task's own."""
    return (*config.rules, *_overrides(task).rules)


def role_of(config: Config, stage: Stage) -> Role:
    """How the stage is configured."""
    role: Role = getattr(config.ralph.agents, stage)
    return role


def max_attempts(config: Config, task: Task, stage: Stage) -> int:
    """How often a stage may be attempted: criteria > the task's limit > the role's > the default > the role table."""
    own = criteria_for(config, task, stage).max_iterations
    if not _insists(config, "defaults.maxIterations", f"ralph.agents.{stage}.maxIterations"):
        own = own or _overrides(task).limits.max_iterations
    return own or role_of(config, stage).max_iterations or config.defaults.max_iterations or ROLE_MAX_ITERATIONS[stage]


def attempts_left(config: Config, task: Task) -> int:
    """Attempts that remain over all stages before the task is blocked; a blocked task that is reopened starts anew."""
    used = {} if task.status == "blocked" else task.attempts
    return sum(max(0, max_attempts(config, task, stage) - used.get(stage, 0)) for stage in stages_of(config, task))


def limits_of(config: Config, task: Task) -> TaskLimits:
    """The task's own limits; its time is the project's where it says none."""
    own = _overrides(task).limits
    if _insists(config, "limits.maxWallTime") or own.max_wall_time is None:
        own = msgspec.structs.replace(own, max_wall_time=config.limits.max_wall_time)
    return own


def wall_time_for(config: Config, task: Task) -> float:
    """How long a task may be worked on, in seconds, summed over its iterations."""
    return limits_of(config, task).max_wall_time or config.limits.max_wall_time


def over_budget(config: Config, task: Task, judged: Iteration | None = None) -> str:
    """Which budget of its own a task has used up, with its part of an iteration that is not yet among its sums; empty
    for none.
    """
    limits, parts = limits_of(config, task), 1 if judged is None else len(judged.tasks)
    cost = task.cost_usd + (0.0 if judged is None else judged.spent_usd / parts)
    tokens = task.tokens + (0 if judged is None else judged.spent_tokens // parts)
    if limits.max_cost_usd is not None and cost >= limits.max_cost_usd:
        return f"its budget of ${limits.max_cost_usd:.2f} is used up (overrides.limits.maxCostUsd; ${cost:.2f})"
    if limits.max_tokens is not None and tokens >= limits.max_tokens:
        return f"its {limits.max_tokens:,} tokens are used up (overrides.limits.maxTokens; {tokens:,})"
    return ""


def rollback_for(config: Config, task: Task) -> Literal["keep", "reset"]:
    """What becomes of the work of a failed attempt: the task's own word, else the project's."""
    own = None if _insists(config, "git.rollback") else _overrides(task).git.rollback
    return own or config.git.rollback


def money_left(config: Config, task: Task, *, spent: float, share: float = 1.0) -> float | None:
    """What an agent may cost at most, in dollars, when the run has spent so much and the agent may take so large a part
    of what is left; None where nothing limits it.
    """
    run, own = config.limits.max_cost_usd, limits_of(config, task).max_cost_usd
    of_run = None if run is None else (run - spent) * share
    of_task = None if own is None else own - task.cost_usd
    return min((left for left in (of_run, of_task) if left is not None), default=None)


def _insists(config: Config, *keys: str) -> bool:
    """Whether a variable or a flag says it, before which a task's own word does not hold."""
    return isinstance(config, InsistentConfig) and not config.insisted.isdisjoint(keys)


def _overrides(task: Task) -> Overrides:
    return msgspec.convert(read_struct(task.overrides, Overrides, (), []), Overrides)
