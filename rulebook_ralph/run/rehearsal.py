"""`--dry-run`: the plan of a run and its first prompt, touching nothing."""

from pathlib import Path
from tempfile import TemporaryDirectory

from rulebook_ralph.agents.roster import Roster
from rulebook_ralph.clock import Clock
from rulebook_ralph.config import requirements
from rulebook_ralph.config.settings import Config
from rulebook_ralph.git import attempts
from rulebook_ralph.process.cancellation import Cancellation
from rulebook_ralph.run import preflight, prompt, summaries, templates
from rulebook_ralph.run.edits import PrdFile
from rulebook_ralph.run.journal import saved_version
from rulebook_ralph.run.opening import RECENT_COMMITS
from rulebook_ralph.run.parts import load_prd
from rulebook_ralph.run.project import Project, RunOptions
from rulebook_ralph.tasks import edits, history, lifecycle, progress, selection
from rulebook_ralph.tasks.model import Prd, Stage, Task, Value
from rulebook_ralph.tasks.text import counted, printable, printable_block, span


class RehearsedStage(Value, frozen=True, kw_only=True):
    """`agent` works on it; `criteria` are in words what completes it."""

    stage: Stage
    agent: str
    criteria: tuple[str, ...]


class RehearsedTask(Value, frozen=True, kw_only=True):
    id: str
    title: str
    max_attempts: int
    stages: tuple[RehearsedStage, ...]


class RehearsedGate(Value, frozen=True, kw_only=True):
    name: str
    command: str


class Rehearsal(Value, frozen=True, kw_only=True):
    """What a run would do: the tasks in order with their most attempts, the most iterations, the first prompt; `reason`
    says why there is nothing to do, `judge` which model is asked, `unasked` why none can be.
    """

    agent: str
    branch: str
    tasks: tuple[RehearsedTask, ...]
    max_iterations: int
    max_wall_time: float | None
    max_cost_usd: float | None
    gates: tuple[RehearsedGate, ...]
    judge: str
    unasked: str
    reason: str | None
    prompt: str


def rehearse(project: Project, options: RunOptions, clock: Clock, prd: Prd | None = None) -> Rehearsal:
    """What a run would do with that task list, else with the one that is there. Raises RalphError for what would stop
    the run as well, as far as it can be seen without starting anything.
    """
    prd = prd or edited_list(project, clock)
    preflight.require_usable_name(project, prd)
    preflight.require_something_to_verify(project, prd)
    for task_id in options.only:
        edits.find(prd, task_id)
    config = project.config
    reopen = {task.id for task in prd.tasks if task.status == "blocked"} if options.retry_blocked else set[str]()
    roster = Roster(config, project.environment)
    order = selection.plan(prd, only=options.only, reopen=reopen)
    tasks = tuple(_task(config, roster, task) for task in order)
    most = config.limits.max_iterations or max(1, sum(task.max_attempts for task in tasks))
    judge = roster.judging_model(Cancellation())
    return Rehearsal(
        agent=config.defaults.executor,
        branch=options.branch or prd.work_branch,
        tasks=tasks,
        max_iterations=most,
        max_wall_time=config.limits.max_run_wall_time,
        max_cost_usd=config.limits.max_cost_usd,
        gates=tuple(RehearsedGate(name=step.name, command=step.command) for step in config.verification.gates),
        judge=judge.name,
        unasked=judge.missing,
        reason=None if order else summaries.why_nothing_is_left(prd, only=options.only).reason,
        prompt=_prompt(project, prd, order[0], most) if order else "",
    )


def edited_list(project: Project, clock: Clock) -> Prd:
    """The task list that a run would begin with: what is edited in the file is in it. Raises RalphError."""
    prd = load_prd(project, lambda _level, _text: None)
    repository = project.repository
    saved = repository.commit_of(attempts.state_reference(prd.project))
    with TemporaryDirectory(prefix="ralph-") as aside:
        file = PrdFile(
            project.folder.prd,
            prd,
            saved_version=lambda updated_at: saved_version(repository, saved, updated_at),
            clock=clock,
            notice=lambda _level, _text: None,
            aside=Path(aside),
        )
        file.take_edits()
    return file.prd


def _task(config: Config, roster: Roster, task: Task) -> RehearsedTask:
    stages = tuple(
        RehearsedStage(
            stage=stage,
            agent=roster.name_of(requirements.executor_for(config, task, stage)),
            criteria=(f"The promise {criteria.promise}.", *prompt.criteria_lines(criteria.verification, task)),
        )
        for stage in requirements.stages_of(config, task)
        for criteria in [requirements.criteria_for(config, task, stage)]
    )
    left = requirements.attempts_left(config, task)
    return RehearsedTask(id=task.id, title=task.title, max_attempts=left, stages=stages)


def as_text(found: Rehearsal) -> str:
    """What a run would do, for people."""
    if not found.tasks:
        return f"Nothing to do: {found.reason}"
    time = "no time limit" if found.max_wall_time is None else f"at most {span(found.max_wall_time)}"
    cost = "no cost limit" if found.max_cost_usd is None else f"at most ${found.max_cost_usd:.2f}"
    nobody = f"nobody can be asked ({found.unasked}), so the work waits for you"
    lines = [
        f"Would work on branch {found.branch} with {found.agent}.",
        f"At most {counted(found.max_iterations, 'iteration')}, {time}, {cost}.",
        f"Where a model is to judge, {f'{found.judge} is asked' if found.judge else nobody}.",
        "",
        "Tasks, in this order:",
    ]
    for task in found.tasks:
        lines.append(f"  {task.id}: {printable(task.title)} (at most {counted(task.max_attempts, 'attempt')})")
        for stage in task.stages:
            lines.append(f"    {stage.stage} by {printable(stage.agent)}:")
            lines += [f"      {printable(line)}" for line in stage.criteria]
    lines += ["", "Gates after each attempt:"]
    lines += [f"  {gate.name}: {printable(gate.command)}" for gate in found.gates] or ["  none"]
    return "\n".join([*lines, "", "The first prompt:", "", printable_block(found.prompt, tab="\t")])


def _prompt(project: Project, prd: Prd, task: Task, most: int) -> str:
    config, repository = project.config, project.repository
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
