"""What follows from a verdict: decided once, written down with the record, and read from there by whoever goes on."""

from dataclasses import fields, replace

from rulebook_ralph.core import policy, requirements
from rulebook_ralph.core.evidence import Decision, Iteration
from rulebook_ralph.core.group import as_one
from rulebook_ralph.core.model import Prd, Task
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop.project import Project
from rulebook_ralph.workspace.snapshot_refs import snapshot_reference

_DECIDED = tuple(field.name for field in fields(policy.Settlement) if field.name != "stop")


def settlement_of(judged: Iteration, project: Project, prd: Prd, *, time_left: float) -> policy.Settlement:
    """What follows; `time_left` are the seconds that its task may still take. Raises RalphError for a record without a
    verdict.
    """
    if judged.verdict is None:
        raise RalphError(
            f"{project.folder.iteration(judged.iteration_number)}: $.verdict is missing in phase judged; "
            "set its phase to settled to leave that iteration as it is"
        )
    settlement = policy.settle(
        judged.verdict,
        _standing(judged, project, prd, time_left=time_left),
        feedback=judged.feedback,
        rollback=project.config.git.rollback,
    )
    given_up = settlement.trigger == "block" and settlement.stop_reason in policy.GIVEN_UP
    if not given_up or judged.best_attempt is None:
        return settlement
    best = snapshot_reference(prd.project, judged.task_id, judged.best_attempt)
    return replace(settlement, blocked_reason=f"{settlement.blocked_reason}; the best attempt: {best}")


def _standing(judged: Iteration, project: Project, prd: Prd, *, time_left: float) -> policy.Standing:
    config, task = project.config, task_of(judged, prd)
    stages = requirements.stages_of(config, task)
    return policy.Standing(
        stage=judged.stage,
        stages=stages,
        attempt=judged.attempt,
        allowed={stage: requirements.max_attempts(config, task, stage) for stage in {*stages, judged.stage}},
        used=task.attempts,
        time_left=time_left,
        repeats=judged.repeats,
        restarted=judged.restarted,
        over_budget=requirements.over_budget(config.limits, task, judged),
        retry_after=judged.fault.resets_at if judged.fault and judged.fault.kind == "usage-limit" else None,
    )


def task_of(judged: Iteration, prd: Prd) -> Task:
    """The task, also where it was removed meanwhile; several as one."""
    known = {task.id: task for task in prd.tasks}
    return as_one([known.get(name) or Task(id=name, title=name) for name in judged.tasks])


def written(settlement: policy.Settlement) -> Decision:
    """The settlement as it is written down."""
    values = {name: getattr(settlement, name) for name in _DECIDED}
    stop = settlement.stop
    if stop is None:
        return Decision(**values)
    return Decision(**values, run_stop_reason=stop.stop_reason, run_stop_text=stop.reason)


def read(decision: Decision) -> policy.Settlement:
    """The settlement that was written down."""
    reason = decision.run_stop_reason
    stop = policy.Stop(reason, decision.run_stop_text) if reason else None
    return policy.Settlement(**{name: getattr(decision, name) for name in _DECIDED}, stop=stop)
