"""What is done before the first agent: all that could stop the run later is looked at, then what a dead run left is
brought to its end, then the gates look at the base.

Of what a dead run left each iteration that is not settled is: `executing`, the attempt is interrupted and not counted;
what stands in its clone is saved and gone on from, and what its agent's raw output tells (tokens, cost, session, its
last words) is taken over. `judged`: it is settled as judged.
"""

import re
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

import psutil
from msgspec.structs import replace as replaced

from rulebook_ralph.clock import Clock
from rulebook_ralph.config import requirements
from rulebook_ralph.config.settings import Config
from rulebook_ralph.entry import SESSION_NOTE
from rulebook_ralph.errors import RalphError
from rulebook_ralph.git import attempts, landing
from rulebook_ralph.git.cache import take_down
from rulebook_ralph.git.repository import GitError, open_repository, unsupported
from rulebook_ralph.git.trees import changes
from rulebook_ralph.git.user_tree import UserTree
from rulebook_ralph.run import preflight
from rulebook_ralph.run.branch import check_out
from rulebook_ralph.run.parts import Parts
from rulebook_ralph.run.policy import RunTally
from rulebook_ralph.run.project import Project, RunContext, RunOptions
from rulebook_ralph.run.settling import resettle, settle_interrupted, with_result
from rulebook_ralph.run.summaries import NEEDS_APPROVAL
from rulebook_ralph.run.templates import require_good
from rulebook_ralph.tasks import disk, parser
from rulebook_ralph.tasks.history import Iteration
from rulebook_ralph.tasks.model import Prd
from rulebook_ralph.tasks.results import CheckResult, Verdict
from rulebook_ralph.tasks.text import cut, json_path
from rulebook_ralph.tasks.validation import near_misses
from rulebook_ralph.verify.redaction import cleaned

_NOT_FOUND = 127
_NOT_FOUND_SAID = re.compile(r"(?:^|: )([\w.+-]+): (?:command )?not found$", re.MULTILINE)
_INTERRUPTED = Verdict(
    action="stop",
    hook="recovery",
    reason="Ralph ended while the agent worked; its partial work is kept",
    stop_reason="interrupted",
    counts=False,
)
_FEEDBACK = "The last attempt was interrupted; its partial work stands in the tree. Look at it, then go on."


def prepare(project: Project, options: RunOptions, context: RunContext) -> Parts:
    """The parts of a run, with a dead run's work brought to its end and the branch checked out. Raises RalphError for
    whatever would stop the run; until the recovery nothing is changed.
    """
    preflight.require_writable(project)
    if problem := unsupported(project.repository):
        raise RalphError(problem)
    # The user's settings of git as they are now: an agent can reach the files.
    repository = open_repository(project.root, project.environment, config_copy=project.private / "git")
    parts = Parts(replace(project, repository=repository), options, context)
    project, journal, notice = parts.project, parts.journal, parts.notice
    for fault in near_misses(journal.prd):
        notice("warning", f"{project.folder.prd}: {json_path(fault.path)}: {fault.message}")
    require_good(project.root, project.config, journal.prd)
    preflight.require_something_to_verify(project, journal.prd)
    preflight.require_means(project.config, parts.roster, journal.prd, options, notice)
    if parts.workspace.why_unprotected:
        notice("warning", parts.workspace.why_unprotected)
    landing.clear_locks(repository, journal.prd.work_branch)
    landing.clear_up(repository)
    _bring_back_session(parts)
    if done := check_out(repository, journal.prd.work_branch):
        notice("info", f"{done}, which is checked out now; all commits of this run go there")
    if restored := journal.restore_files():
        notice("warning", f"files of {project.folder.path} were missing and are written again: {len(restored)}")
    left = _recover(parts)
    _clear_up(project)
    parts.branch.follow()
    if modified := repository.modified():
        notice("info", f"your uncommitted changes stay as they are, and are not part of the work: {modified[0]} …")
    parts.reopen = _reopened(journal.prd, project.config, options)
    parts.tally = RunTally(
        cost_usd=sum(record.spent_usd for record in left), tokens=sum(record.spent_tokens for record in left)
    )
    return parts


def take_baseline(parts: Parts) -> None:
    """What the gates say of the branch before anybody works. One whose command is not there ends the run here, and
    with `strict` any that is red. Raises RalphError.
    """
    gates, tip = parts.verifiers.gates, parts.branch.tip()
    for result in gates.red_on(tip):
        if missing := _missing_command(result, parts.config):
            told = f"its command is not found: {missing} (in: {cut(result.command, 200)})"
            raise RalphError(f"gate {result.step}: {told}; install it, or change verification.steps in config.yaml")
    red = gates.red_required(tip)
    if red and parts.options.strict:
        raise RalphError(f"required gates are red on the base: {', '.join(red)}; mend them, or run without --strict")


def _clear_up(project: Project) -> None:
    """Remove what dead processes had for a moment; all that they left to be recovered is recovered."""
    disk.remove_temporaries(project.folder.path, project.folder.history)
    for path in project.private.iterdir():
        found = re.fullmatch(r"output-\d+\.log|(?:marks|trees|nothing)-(\d+)-\w+", path.name)
        if found and not (found[1] and psutil.pid_exists(int(found[1]))):
            with suppress(OSError):
                take_down(path)


def _reopened(prd: Prd, config: Config, options: RunOptions) -> frozenset[str]:
    """The blocked tasks that are tried once more; not those that wait for a person."""
    if not options.retry_blocked:
        return frozenset()
    return frozenset(
        task.id
        for task in prd.tasks
        if task.status == "blocked"
        and (options.reopen is None or task.id in options.reopen)
        and not (task.blocked_reason or "").startswith(NEEDS_APPROVAL)
        and not requirements.over_budget(config, task)
    )


def _missing_command(result: CheckResult, config: Config) -> str:
    """The program that a required gate names and no shell finds; "" where work at a task may bring it: a path into the
    repository, or a dependency that `setup` installs.
    """
    if not result.required or result.exit_code != _NOT_FOUND or config.workspace.setup:
        return ""
    names = _NOT_FOUND_SAID.findall(result.output)
    return next((name for name in names if name in result.command.split()), "")


# Recovery


def _recover(parts: Parts) -> tuple[Iteration, ...]:
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
    return replaced(
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


def _bring_back_session(parts: Parts) -> None:
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
