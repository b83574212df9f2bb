"""What is done before the first agent: whatever could stop the run later is looked at, then recovery, the branch."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from rulebook_ralph.clock import Clock
from rulebook_ralph.core import requirements, selection
from rulebook_ralph.core.model import PARALLEL, Prd, Task
from rulebook_ralph.core.settings import Config, Parallel
from rulebook_ralph.loop import (
    distrust,
    leftovers,
    prd_file,
    preflight,
    recovery,
    session_note,
    standing_work,
    template_check,
    ticking,
)
from rulebook_ralph.loop.crew import Crew
from rulebook_ralph.loop.equipment import Equipment
from rulebook_ralph.loop.landing import Landing
from rulebook_ralph.loop.options import RunOptions
from rulebook_ralph.loop.preflight import Ready
from rulebook_ralph.loop.project import Project, load_prd
from rulebook_ralph.loop.settler import Settler
from rulebook_ralph.state import disk, lock
from rulebook_ralph.workspace.rebasing import require_merge
from rulebook_ralph.workspace.repository import check_out_branch
from rulebook_ralph.workspace.snapshot import Workspace


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that may begin. `open_tasks` is how many tasks there are to do, `reopen` are blocked ones among them that
    are tried once more; `cost_usd` and `tokens` are what the iterations took that a dead run left open, which count in
    this run's budget.
    """

    ready: Ready
    settler: Settler
    reopen: frozenset[str]
    open_tasks: int
    max_iterations: int
    cost_usd: float = 0.0
    tokens: int = 0


def prepare(
    gear: Equipment,
    workspace: Workspace,
    options: RunOptions,
    *,
    after_death: bool,
    clock: Clock,
    notice: Callable[[str, str], None],
) -> Prepared:
    """Raises RalphError for whatever would stop the run; until the recovery of a dead run nothing is changed."""
    project = gear.project
    prd, data = load_prd(project.folder)
    prd = prd_file.reunited(project, prd, notice)
    preflight.require_writable(project)
    preflight.require_something_to_verify(project, prd, trust_agent=options.trust_agent)
    ready = preflight.require_committer(project)
    leftovers.remove_locks(project, prd.work_branch, after_death=after_death)
    disk.remove_temporaries(project.folder.path, project.folder.history)
    preflight.require_usable_name(project, prd)
    if not distrust.goes_back_to(project, prd.work_branch):
        preflight.require_same_state(project, prd, data)
    _require_means(project, gear.crew, prd, options, notice)
    landing = Landing(project, workspace, ready, name=prd.project, clock=clock, notice=notice)
    settler = Settler(project, landing, prd, data, clock=clock, notice=notice)
    left = recovery.Recovery(project, workspace, settler, gear.crew, ready.who, clock, notice, gear.redactor).recover()
    if left or after_death:
        landing.reset_user_index(worked_elsewhere=standing_work.worked_elsewhere(project, left))
        leftovers.clear_passing(project)
    if after_death and options.command != lock.SESSION:
        session_note.remove(project.repository.private)  # of a session that died, whose work was taken over
    leftovers.clear(project)
    preflight.require_nothing_unfinished(project)
    standing_work.end_leaving(project, workspace)
    landing.kept = standing_work.kept_work(project, workspace)
    if landing.kept is None and not project.config.is_isolated:
        preflight.require_unmodified(project)
    if project.config.is_isolated:
        require_merge(project.repository)
        preflight.require_no_submodules(project)
    if done := check_out_branch(project.repository, settler.branch):
        notice("info", f"{done}; all commits of this run go there")
    if project.config.is_isolated:
        settler.move_out()
        if _none_may_join(project.config.parallel, settler.prd):
            notice("info", "no open task is marked [P], so they run one after the other; parallel.all would let them")
    for line in ticking.said_to_be_done(project.root, settler.prd):
        notice("info", line)
    reopen = _reopened(project, settler.prd, options)
    order = selection.plan(settler.prd, only=options.only, reopen=reopen)
    return Prepared(
        ready,
        settler,
        reopen,
        len(order),
        _allowed_for(order, project.config),
        cost_usd=sum(record.spent_usd for record in left),
        tokens=sum(record.spent_tokens for record in left),
    )


def _none_may_join(parallel: Parallel, prd: Prd) -> bool:
    """Whether several were asked for, and no two of the tasks could be worked on at once."""
    open_tasks = selection.open_tasks(prd)
    return parallel.workers > 1 and not parallel.all and not any(PARALLEL in task.markers for task in open_tasks)


def _require_means(
    project: Project, crew: Crew, prd: Prd, options: RunOptions, notice: Callable[[str, str], None]
) -> None:
    """Raises RalphError where what is asked for cannot be worked on: its tasks, agents, prompts, criteria."""
    preflight.require_known_tasks(prd, options.only)
    preflight.require_agents(project, crew, prd, notice)
    template_check.require_good(project.root, project.config, prd)
    preflight.look_at_criteria(prd, strict=options.strict, notice=notice)


def _reopened(project: Project, prd: Prd, options: RunOptions) -> frozenset[str]:
    """The blocked tasks that are tried once more."""
    if not options.retry_blocked:
        return frozenset()
    return frozenset(
        task.id
        for task in prd.tasks
        if task.status == "blocked"
        and (options.reopen is None or task.id in options.reopen)
        and not requirements.has_spent_all(project.config.limits, task)
    )


def iterations_allowed(project: Project, prd: Prd, options: RunOptions, reopen: Collection[str]) -> int:
    """The run's limit: as configured, else what all open tasks may need together."""
    return _allowed_for(selection.plan(prd, only=options.only, reopen=reopen), project.config)


def _allowed_for(order: Iterable[Task], config: Config) -> int:
    return config.limits.max_iterations or max(1, sum(requirements.attempts_left(config, task) for task in order))
