"""What a dead run left is brought to its end: every iteration that is not settled.

`executing`: the attempt is interrupted and not counted; what stands in its clone is saved and gone on from, and what
its agent's raw output tells (tokens, cost, session, its last words) is taken over. `judged`: it is settled as judged.
"""

from contextlib import suppress
from datetime import UTC, datetime

from msgspec.structs import replace

from rulebook_ralph.clock import Clock
from rulebook_ralph.entry import SESSION_NOTE
from rulebook_ralph.git import attempts
from rulebook_ralph.git.repository import GitError
from rulebook_ralph.git.trees import changes
from rulebook_ralph.git.user_tree import UserTree
from rulebook_ralph.run.parts import Parts
from rulebook_ralph.run.settling import resettle, settle_interrupted, with_result
from rulebook_ralph.tasks import parser
from rulebook_ralph.tasks.history import Iteration
from rulebook_ralph.tasks.results import Verdict
from rulebook_ralph.verify.redaction import cleaned

_INTERRUPTED = Verdict(
    action="stop",
    hook="recovery",
    reason="Ralph ended while the agent worked; its partial work is kept",
    stop_reason="interrupted",
    counts=False,
)
_FEEDBACK = "The last attempt was interrupted; its partial work stands in the tree. Look at it, then go on."


def recover(parts: Parts) -> tuple[Iteration, ...]:
    """Settle every iteration that a dead run left, oldest first; returns their records."""
    found = []
    for record in parts.journal.unsettled():
        if record.phase == "settled":
            parts.journal.close(record)
        elif record.phase == "judged":
            found.append(resettle(parts, record))
        else:
            found.append(settle_interrupted(parts, _cut_short(parts, record)))
    return tuple(found)


def _cut_short(parts: Parts, record: Iteration) -> Iteration:
    """The record of an attempt that Ralph did not see the end of, with its partial work and raw output saved."""
    number, repository = record.iteration_number, parts.project.repository
    snapshot, tree = repository.commit_of(_reference(parts, record)), None
    if snapshot is not None:
        tree = repository.tree_of(snapshot)
    elif repository.commit_of(record.base_commit) is not None:  # else a person's `git gc` has removed it
        tree = parts.workers.left_by(number) or repository.tree_of(record.tree or record.base_commit)
        snapshot = _save(parts, record, tree)
    changed: tuple[str, ...] = ()
    with suppress(GitError):
        changed = tuple(each.path for each in changes(repository, record.base_commit, tree)) if tree else ()
    clean, started = parts.redactor.clean_cut, _start_of(record, parts.clock)
    result = cleaned(parts.roster.taken_over(record.agent, parts.project.output_file(number), started=started), clean)
    at = parts.clock.iso()
    return replace(
        with_result(record, result, cleaned(parser.parse(result), clean)),
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
    )


def bring_back_session(parts: Parts) -> None:
    """Save what a session that died left in the person's tree as its attempt, and bring the tree back to the branch;
    nothing where none did. Raises RalphError, GitError.
    """
    repository, branch = parts.project.repository, parts.branch.name
    tree, tip = UserTree(repository), repository.tip(branch)
    if tree.is_begun and tip is not None and repository.branch() == branch:
        found = [record for record in parts.journal.unsettled() if tip in (record.base_commit, record.commit)]
        for record in found[-1:]:
            if repository.commit_of(_reference(parts, record)) is None:
                _save(parts, record, tree.capture().tree)
            tree.put_head_back(branch, tip)
            tree.hold(tip, tip)
            told = f"what a session left of {record.task_id} in your tree is saved, and taken out of it"
            parts.notice("info", told)
    tree.end()
    with suppress(OSError):
        (parts.project.private / SESSION_NOTE).unlink()


def _reference(parts: Parts, record: Iteration) -> str:
    return attempts.attempt_reference(parts.journal.prd.project, record.task_id, record.iteration_number)


def _save(parts: Parts, record: Iteration, tree: str) -> str:
    """Keep an interrupted attempt's work under its ref; returns the commit."""
    number = record.iteration_number
    attempt = attempts.Attempt(
        reference=_reference(parts, record),
        tree=tree,
        base=record.base_commit,
        prompt=record.prompt,
        output_file=parts.project.output_file(number),
        clean=parts.redactor.clean_blocks,
        message=f"ralph: interrupted attempt {record.attempt} at {record.task_id} (iteration {number})",
    )
    return attempts.save_attempt(parts.project.repository, attempt, seconds=parts.clock.seconds())


def _start_of(record: Iteration, clock: Clock) -> datetime:
    try:
        return datetime.fromisoformat(record.started_at).astimezone(UTC)
    except ValueError:  # a person garbled it
        return clock.now()
