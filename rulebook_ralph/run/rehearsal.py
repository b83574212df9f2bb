"""`--dry-run`: the plan of a run and its first prompt, touching nothing."""

from rulebook_ralph.config import requirements
from rulebook_ralph.run import preflight, prompt, summaries, templates
from rulebook_ralph.run.opening import RECENT_COMMITS
from rulebook_ralph.run.project import Project, RunOptions
from rulebook_ralph.run.start import load_prd
from rulebook_ralph.tasks import history, lifecycle, progress, selection
from rulebook_ralph.tasks.model import Prd, Value
from rulebook_ralph.tasks.text import counted


class RehearsedTask(Value, frozen=True, kw_only=True):
    id: str
    title: str
    max_attempts: int


class RehearsedGate(Value, frozen=True, kw_only=True):
    name: str
    command: str


class Rehearsal(Value, frozen=True, kw_only=True):
    """What a run would do: the tasks in order with their most attempts, the most iterations, the first prompt; `reason`
    says why there is nothing to do.
    """

    agent: str
    branch: str
    tasks: tuple[RehearsedTask, ...]
    max_iterations: int
    max_wall_time: float | None
    max_cost_usd: float | None
    gates: tuple[RehearsedGate, ...]
    reason: str | None
    prompt: str


def rehearse(project: Project, options: RunOptions, prd: Prd | None = None) -> Rehearsal:
    """What a run would do with that task list, else with the one that is there. Raises RalphError for what would stop
    the run as well, as far as it can be seen without starting anything.
    """
    prd = prd or load_prd(project, lambda _level, _text: None)
    preflight.require_usable_name(project, prd)
    preflight.require_something_to_verify(project, prd)
    preflight.require_known_tasks(prd, options.only)
    config = project.config
    reopen = {task.id for task in prd.tasks if task.status == "blocked"} if options.retry_blocked else set[str]()
    order = selection.plan(prd, only=options.only, reopen=reopen)
    first = selection.next_task(prd, only=options.only, reopen=reopen)
    attempts = [requirements.attempts_left(config, task) for task in order]
    most = config.limits.max_iterations or max(1, sum(attempts))
    return Rehearsal(
        agent=config.defaults.executor,
        branch=options.branch or prd.work_branch,
        tasks=tuple(
            RehearsedTask(id=task.id, title=task.title, max_attempts=left)
            for task, left in zip(order, attempts, strict=True)
        ),
        max_iterations=most,
        max_wall_time=config.limits.max_run_wall_time,
        max_cost_usd=config.limits.max_cost_usd,
        gates=tuple(RehearsedGate(name=step.name, command=step.command) for step in config.verification.gates),
        reason=None if first else summaries.why_nothing_is_left(prd, only=options.only).reason,
        prompt=_prompt(project, prd, first.id, most) if first else "",
    )


def as_text(found: Rehearsal) -> str:
    """What a run would do, for people."""
    if not found.tasks:
        return f"Nothing to do: {found.reason}"
    time = "no time limit" if found.max_wall_time is None else f"at most {found.max_wall_time:.0f} s"
    cost = "no cost limit" if found.max_cost_usd is None else f"at most ${found.max_cost_usd:.2f}"
    lines = [
        f"Would work on branch {found.branch} with {found.agent}.",
        f"At most {counted(found.max_iterations, 'iteration')}, {time}, {cost}.",
        "",
        "Tasks, in this order:",
        *(f"  {each.id}: {each.title} (at most {counted(each.max_attempts, 'attempt')})" for each in found.tasks),
        "",
        "Gates after each attempt:",
        *([f"  {gate.name}: {gate.command}" for gate in found.gates] or ["  none"]),
        "",
        "The first prompt:",
        "",
        found.prompt,
    ]
    return "\n".join(lines)


def _prompt(project: Project, prd: Prd, task_id: str, most: int) -> str:
    config, task, repository = project.config, prd.task(task_id), project.repository
    number = max(history.numbers(project.folder)[-1:], default=0) + 1
    stages = requirements.stages_of(config, task)
    stage = task.stage if task.stage in stages else stages[0]
    opened = lifecycle.opened(task, stage=stage, number=number, at="")
    base = repository.tip(prd.work_branch) or repository.head()
    situation = prompt.Situation(
        config=config,
        prd=prd.replacing(opened),
        task=opened,
        stage=stage,
        base=base,
        progress=progress.read(project.folder.progress) if project.folder.progress.exists() else "",
        commits=repository.recent_commits(RECENT_COMMITS, until=base),
        iteration=1,
        max_iterations=most,
        attempt=opened.attempts.get(stage, 0) + 1,
    )
    return prompt.render(situation, templates.read(project.folder.templates)[0]).prompt
