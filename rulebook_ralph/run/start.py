"""What is done before the first agent: what could stop the run later is looked at, then recovery, then the baseline."""

import re
from contextlib import suppress
from dataclasses import replace

import psutil

from rulebook_ralph.config import requirements
from rulebook_ralph.config.settings import Config
from rulebook_ralph.errors import RalphError
from rulebook_ralph.git import landing
from rulebook_ralph.git.cache import take_down
from rulebook_ralph.git.repository import open_repository, unsupported
from rulebook_ralph.run import preflight
from rulebook_ralph.run.branch import check_out
from rulebook_ralph.run.parts import Parts
from rulebook_ralph.run.policy import RunTally
from rulebook_ralph.run.project import Project, RunContext, RunOptions
from rulebook_ralph.run.recovery import bring_back_session, recover
from rulebook_ralph.run.summaries import NEEDS_APPROVAL
from rulebook_ralph.run.templates import require_good
from rulebook_ralph.tasks import disk
from rulebook_ralph.tasks.model import Prd
from rulebook_ralph.tasks.results import CheckResult
from rulebook_ralph.tasks.text import cut, json_path
from rulebook_ralph.tasks.validation import near_misses

_NOT_FOUND = 127
_NOT_FOUND_SAID = re.compile(r"(?:^|: )([\w.+-]+): (?:command )?not found$", re.MULTILINE)


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
    bring_back_session(parts)
    if done := check_out(repository, journal.prd.work_branch):
        notice("info", f"{done}, which is checked out now; all commits of this run go there")
    if restored := journal.restore_files():
        notice("warning", f"files of {project.folder.path} were missing and are written again: {len(restored)}")
    left = recover(parts)
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
