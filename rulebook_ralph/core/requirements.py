"""What holds for a task, from the PRD and the configuration: its stages, criteria, stop criteria, agent, attempts."""

from typing import cast

import msgspec

from rulebook_ralph.core.criteria import ACCEPTANCE_CRITERIA, ROLE_PROMISE, Criteria, Semantic, StringMatch
from rulebook_ralph.core.criteria_reading import read_criteria
from rulebook_ralph.core.evidence import Iteration
from rulebook_ralph.core.model import Prd, Stage, Task
from rulebook_ralph.core.review import Tier
from rulebook_ralph.core.settings import Config, InsistentConfig, Limits, Overrides, Role, StopCriteria
from rulebook_ralph.core.struct_reading import Tree, read_struct

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


def has_criteria(task: Task) -> bool:
    """Whether a task says itself what completes it."""
    return bool(task.completion or task.acceptance_criteria)


def tasks_without_criteria(prd: Prd) -> tuple[Task, ...]:
    """The tasks, still to be completed, that do not say themselves what completes them; in file order."""
    return tuple(task for task in prd.tasks if task.status != "completed" and not has_criteria(task))


def is_verified_by_itself(config: Config, task: Task) -> bool:
    """Whether a stage of the task has criteria that are more than a promise."""
    return any(criteria_for(config, task, stage).method != "string_match" for stage in stages_of(config, task))


def stages_of(config: Config, task: Task) -> tuple[Stage, ...]:
    """The stages a task goes through."""
    own = () if _insists(config, "stages") else _overrides(task).stages
    return own or config.stages


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


def reviewer_of(config: Config, task: Task, tier: Tier) -> str:
    """The id of the task's own reviewer; empty where the project's reviews it."""
    return "" if _insists(config, f"defaults.{tier}Reviewer") else _overrides(task).reviewer


def rules_for(config: Config, task: Task) -> tuple[str, ...]:
    """The project's rules and then the task's own."""
    return (*config.rules, *_overrides(task).rules)


def role_of(config: Config, stage: Stage) -> Role:
    """How a stage is configured."""
    return cast("Role", getattr(config.ralph.agents, stage))


def max_attempts(config: Config, task: Task, stage: Stage) -> int:
    """How many attempts a stage has: its criteria's, the task's, the role's, the configured default, else the role
    table's; one where the loop is switched off.
    """
    role = role_of(config, stage)
    if not (config.ralph.enabled and role.enabled):
        return 1
    own = criteria_for(config, task, stage).max_iterations
    if not _insists(config, *_MAX_ITERATIONS, f"ralph.agents.{stage}.maxIterations"):
        own = own or _overrides(task).max_iterations
    default = config.defaults.max_iterations or config.ralph.default_max_iterations
    return own or role.max_iterations or default or ROLE_MAX_ITERATIONS[stage]


_MAX_ITERATIONS = ("defaults.maxIterations", "ralph.defaultMaxIterations")


def _insists(config: Config, *keys: str) -> bool:
    """Whether a variable or a flag says it, before which a task's own word does not hold."""
    return isinstance(config, InsistentConfig) and not config.insisted.isdisjoint(keys)


def _overrides(task: Task) -> Overrides:
    if not task.overrides:
        return _NOTHING_SAID
    return msgspec.convert(read_struct(task.overrides, Overrides, (), []), Overrides)


_NOTHING_SAID = Overrides()


def attempts_left(config: Config, task: Task) -> int:
    """Attempts that remain over all stages before the task is blocked; a blocked task that is reopened starts anew."""
    used = {} if task.status == "blocked" else task.attempts
    return sum(max(0, max_attempts(config, task, stage) - used.get(stage, 0)) for stage in stages_of(config, task))


def over_budget(limits: Limits, task: Task, judged: Iteration) -> str:
    """Which budget of its own a task has used up with its part of an iteration that is not yet among its sums; empty
    for none.
    """
    parts = len(judged.tasks)
    cost, tokens = task.cost_usd + judged.spent_usd / parts, task.tokens + judged.spent_tokens // parts
    if limits.max_task_cost_usd is not None and cost >= limits.max_task_cost_usd:
        return f"its budget of ${limits.max_task_cost_usd:.2f} is used up (limits.maxTaskCostUsd; ${cost:.2f})"
    if limits.max_task_tokens is not None and tokens >= limits.max_task_tokens:
        return f"its {limits.max_task_tokens:,} tokens are used up (limits.maxTaskTokens; {tokens:,})"
    return ""


def has_spent_all(limits: Limits, task: Task) -> bool:
    """Whether nothing is left of a budget of the task's own, so that an agent would be paid for nothing."""
    money = limits.max_task_cost_usd is not None and task.cost_usd >= limits.max_task_cost_usd
    return money or (limits.max_task_tokens is not None and task.tokens >= limits.max_task_tokens)


def money_left(limits: Limits, task: Task, *, spent: float, share: float = 1.0) -> float | None:
    """What an agent may cost at most, in dollars, when the run has spent so much and the agent may take so large a part
    of what is left; None where nothing limits it.
    """
    of_run = None if limits.max_cost_usd is None else (limits.max_cost_usd - spent) * share
    of_task = None if limits.max_task_cost_usd is None else limits.max_task_cost_usd - task.cost_usd
    return min((left for left in (of_run, of_task) if left is not None), default=None)
