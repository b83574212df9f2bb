"""`--dry-run`: the plan of a run and its first prompt, touching nothing."""

from dataclasses import dataclass

from rulebook_ralph.core import requirements, selection, settling
from rulebook_ralph.core.enumeration import counted
from rulebook_ralph.core.model import Prd
from rulebook_ralph.loop import brief, prd_file, preflight, summary, template_check, templates
from rulebook_ralph.loop.codebase import Codebase
from rulebook_ralph.loop.landing import RECENT_COMMITS
from rulebook_ralph.loop.options import RunOptions
from rulebook_ralph.loop.past import Past
from rulebook_ralph.loop.preparation import iterations_allowed
from rulebook_ralph.loop.project import Project, load_prd
from rulebook_ralph.loop.settler import read_progress
from rulebook_ralph.state import history
from rulebook_ralph.workspace.repository import require_branch


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a run would do: the tasks in order with their most attempts, the most iterations, the first prompt."""

    agent: str
    branch: str
    tasks: tuple[tuple[str, str, int], ...]
    max_iterations: int
    max_wall_time: float | None
    max_cost_usd: float | None
    gates: tuple[tuple[str, str], ...]
    reason: str
    prompt: str
    notices: tuple[str, ...] = ()


def rehearse(project: Project, options: RunOptions) -> Rehearsal:
    """Raises RalphError for what would stop the run as well."""
    notices: list[str] = []
    prd, data = load_prd(project.folder)
    prd = prd_file.reunited(project, prd, lambda _, text: notices.append(text))
    preflight.require_usable_name(project, prd)
    require_branch(project.repository, prd.work_branch)
    preflight.require_same_state(project, prd, data)
    preflight.require_something_to_verify(project, prd, trust_agent=options.trust_agent)
    preflight.require_known_tasks(prd, options.only)
    config = project.config
    template_check.require_good(project.root, config, prd)
    reopen = {task.id for task in prd.tasks if task.status == "blocked"} if options.retry_blocked else set[str]()
    order = selection.plan(prd, only=options.only, reopen=reopen)
    first = selection.next_task(prd, only=options.only, reopen=reopen)
    attempts = [requirements.attempts_left(config, task) for task in order]
    most = iterations_allowed(project, prd, options, reopen)
    return Rehearsal(
        agent=config.defaults.executor,
        branch=prd.work_branch,
        tasks=tuple((task.id, task.title, left) for task, left in zip(order, attempts, strict=True)),
        max_iterations=most,
        max_wall_time=config.limits.max_run_wall_time,
        max_cost_usd=config.limits.max_cost_usd,
        gates=tuple((step.name, step.command) for step in config.verification.gates),
        reason="" if first else summary.why_nothing_is_left(prd, only=options.only).reason,
        prompt=_prompt(project, prd, first.id, most) if first else "",
        notices=tuple(notices),
    )


def as_text(found: Rehearsal) -> str:
    """What a run would do, for people."""
    if not found.tasks:
        return "\n".join([*found.notices, f"Nothing to do: {found.reason}"])
    time = "no time limit" if found.max_wall_time is None else f"at most {found.max_wall_time:.0f} s"
    cost = "no cost limit" if found.max_cost_usd is None else f"at most ${found.max_cost_usd:.2f}"
    lines = [
        *found.notices,
        f"Would work on branch {found.branch} with {found.agent}.",
        f"At most {counted(found.max_iterations, 'iteration')}, {time}, {cost}.",
        "",
        "Tasks, in this order:",
        *(f"  {task_id}: {title} (at most {counted(left, 'attempt')})" for task_id, title, left in found.tasks),
        "",
        "Gates after each attempt:",
        *([f"  {name}: {command}" for name, command in found.gates] or ["  none"]),
        "",
        "The first prompt:",
        "",
        found.prompt,
    ]
    return "\n".join(lines)


def as_json(found: Rehearsal) -> dict[str, object]:
    """The same as one object."""
    return {
        "agent": found.agent,
        "branch": found.branch,
        "tasks": [{"id": task_id, "title": title, "maxAttempts": left} for task_id, title, left in found.tasks],
        "maxIterations": found.max_iterations,
        "maxWallTime": found.max_wall_time,
        "maxCostUsd": found.max_cost_usd,
        "gates": [{"name": name, "command": command} for name, command in found.gates],
        "notices": found.notices,
        "reason": found.reason or None,
        "prompt": found.prompt,
    }


def _prompt(project: Project, prd: Prd, task_id: str, most: int) -> str:
    config, task = project.config, prd.task(task_id)
    number = max(history.numbers(project.folder)[-1:], default=0) + 1
    stages = requirements.stages_of(config, task)
    stage = task.stage if task.stage in stages else stages[0]
    opened = settling.opened(task, stage=stage, number=number, at="")
    return brief.render(
        brief.Situation(
            prd=prd.replacing(opened),
            task=opened,
            stage=stage,
            criteria=requirements.criteria_for(config, task, stage),
            stop_criteria=requirements.stop_criteria_for(config, task),
            base=project.repository.head(),
            changed=(),
            progress=read_progress(project),
            commits=project.repository.recent_commits(RECENT_COMMITS),
            rules=requirements.rules_for(config, task),
            steps=config.verification.gates,
            feedback=Past(project.folder).feedback_for(task),
            iteration=1,
            max_iterations=most,
            attempt=opened.attempts.get(stage, 0) + 1,
            max_attempts=requirements.max_attempts(config, task, stage),
            prompt_tokens=config.limits.prompt_tokens,
            codebase=Codebase(project.repository).facts(project.repository.head()),
        ),
        templates.read(project.folder.templates)[0],
    ).prompt
