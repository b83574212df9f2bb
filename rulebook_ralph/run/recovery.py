"""What a dead run left is brought to its end: every iteration that is not settled.

`executing`: the attempt is interrupted and not counted; what stands in its clone is saved and gone on from, and what
its agent's raw output tells (tokens, cost, session, its last words) is taken over. `judged`: it is settled as judged.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

from msgspec.structs import replace

from rulebook_ralph.agents.roster import Roster
from rulebook_ralph.clock import Clock
from rulebook_ralph.entry import SESSION_NOTE
from rulebook_ralph.git import attempts
from rulebook_ralph.git.repository import GitError
from rulebook_ralph.git.trees import changes
from rulebook_ralph.git.user_tree import UserTree
from rulebook_ralph.run.journal import Journal
from rulebook_ralph.run.project import Project
from rulebook_ralph.run.settling import Settling
from rulebook_ralph.run.workers import Workers
from rulebook_ralph.tasks import parser
from rulebook_ralph.tasks.iteration import Iteration
from rulebook_ralph.tasks.results import Verdict
from rulebook_ralph.verify.redaction import Redactor, cleaned

_INTERRUPTED = Verdict(
    action="stop",
    hook="recovery",
    reason="Ralph ended while the agent worked; its partial work is kept",
    stop_reason="interrupted",
    counts=False,
)
_FEEDBACK = "The last attempt was interrupted; its partial work stands in the tree. Look at it, then go on."


def recover(
    project: Project,
    settling: Settling,
    workers: Workers,
    roster: Roster,
) -> tuple[Iteration, ...]:
    """Settle every iteration that a dead run left, oldest first; returns their records."""
    found = []
    journal = settling.journal
    for record in journal.unsettled():
        if record.phase == "settled":
            journal.close(record)
        elif record.phase == "judged":
            found.append(settling.resettle(record))
        else:
            found.append(settling.interrupted(_cut_short(project, settling, workers, roster, record)))
    return tuple(found)


def _cut_short(
    project: Project,
    settling: Settling,
    workers: Workers,
    roster: Roster,
    record: Iteration,
) -> Iteration:
    """The record of an attempt that Ralph did not see the end of, with its partial work and raw output saved."""
    journal, redactor, clock = settling.journal, settling.redactor, settling.clock
    number, repository, name = record.iteration_number, project.repository, journal.prd.project
    reference = attempts.attempt_reference(name, record.task_id, number)
    snapshot, tree = repository.commit_of(reference), None
    if snapshot is not None:
        tree = repository.tree_of(snapshot)
    elif repository.commit_of(record.base_commit) is not None:  # else a person's `git gc` has removed it
        tree = workers.left_by(number) or repository.tree_of(record.tree or record.base_commit)
        snapshot = _save(project, journal, redactor, record, tree, seconds=clock.seconds())
    changed: tuple[str, ...] = ()
    with suppress(GitError):
        changed = tuple(each.path for each in changes(repository, record.base_commit, tree)) if tree else ()
    result = cleaned(
        roster.taken_over(record.agent, project.output_file(number), started=_start_of(record, clock)),
        redactor.clean_cut,
    )
    at = clock.iso()
    return replace(
        record,
        phase="judged",
        timestamp=at,
        ended_at=at,
        verdict=_INTERRUPTED,
        stop_reason="interrupted",
        feedback=_FEEDBACK,
        context_loss=True,
        tree=tree,
        snapshot=snapshot,
        files_changed=changed,
        parsed=cleaned(parser.parse(result), redactor.clean_cut),
        tool_results=result.tool_results,
        usage=result.usage,
        cost_usd=result.cost_usd,
        duration_ms=result.duration_ms,
        agent_status=result.status,
        fault=result.fault,
        session_id=result.session_id,
        output=result.output,
    )


def bring_back_session(
    project: Project, journal: Journal, redactor: Redactor, *, seconds: int, notice: Callable[[str, str], None]
) -> None:
    """Save what a session that died left in the person's tree as its attempt, and bring the tree back to the branch;
    nothing where none did. Raises RalphError, GitError.
    """
    repository, tree = project.repository, UserTree(project.repository)
    branch = journal.prd.work_branch
    tip = repository.tip(branch)
    if tree.is_begun and tip is not None and repository.branch() == branch:
        found = [record for record in journal.unsettled() if tip in (record.base_commit, record.commit)]
        for record in found[-1:]:
            reference = attempts.attempt_reference(journal.prd.project, record.task_id, record.iteration_number)
            if repository.commit_of(reference) is None:
                _save(project, journal, redactor, record, tree.capture().tree, seconds=seconds)
            tree.put_head_back(branch, tip)
            tree.hold(tip, tip)
            notice("info", f"what a session left of {record.task_id} in your tree is saved, and taken out of it")
    tree.end()
    with suppress(OSError):
        (project.private / SESSION_NOTE).unlink()


def _save(project: Project, journal: Journal, redactor: Redactor, record: Iteration, tree: str, *, seconds: int) -> str:
    """Keep an interrupted attempt's work under its ref; returns the commit."""
    number = record.iteration_number
    attempt = attempts.Attempt(
        reference=attempts.attempt_reference(journal.prd.project, record.task_id, number),
        tree=tree,
        base=record.base_commit,
        prompt=record.prompt,
        output_file=project.output_file(number),
        clean=redactor.clean_blocks,
        message=f"ralph: interrupted attempt {record.attempt} at {record.task_id} (iteration {number})",
    )
    return attempts.save_attempt(project.repository, attempt, seconds=seconds)


def _start_of(record: Iteration, clock: Clock) -> datetime:
    try:
        return datetime.fromisoformat(record.started_at).astimezone(UTC)
    except ValueError:  # a person garbled it
        return clock.now()
