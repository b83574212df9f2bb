"""What is done before the first agent: what could stop the run later is looked at, then recovery, then the parts."""

import re
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from threading import Event as Flag
from types import TracebackType
from typing import Self

import psutil
from msgspec.structs import replace as replaced

from rulebook_ralph.agents.agent import Agent
from rulebook_ralph.agents.prices import Ledger
from rulebook_ralph.agents.roster import Roster
from rulebook_ralph.clock import Clock
from rulebook_ralph.config import requirements
from rulebook_ralph.config.settings import Config
from rulebook_ralph.errors import RalphError
from rulebook_ralph.git import attempts, landing
from rulebook_ralph.git.cache import take_down
from rulebook_ralph.git.clone import Clones
from rulebook_ralph.git.repository import open_repository, unsupported
from rulebook_ralph.report.events import Event, Notice
from rulebook_ralph.run import preflight
from rulebook_ralph.run.branch import Branch, check_out
from rulebook_ralph.run.journal import Journal
from rulebook_ralph.run.opening import Opening
from rulebook_ralph.run.policy import RunTally
from rulebook_ralph.run.project import Project, RunOptions
from rulebook_ralph.run.prompt import TemplateFiles
from rulebook_ralph.run.recovery import bring_back_session, recover
from rulebook_ralph.run.retry import RetryPolicy
from rulebook_ralph.run.settling import Settling
from rulebook_ralph.run.summaries import NEEDS_APPROVAL
from rulebook_ralph.run.templates import require_good
from rulebook_ralph.run.verifying import verifiers_of, workspace_of
from rulebook_ralph.run.workers import Workers
from rulebook_ralph.tasks import disk, edits, prd_file, selection
from rulebook_ralph.tasks.importers import rulebook
from rulebook_ralph.tasks.model import Prd
from rulebook_ralph.tasks.results import CheckResult
from rulebook_ralph.tasks.text import cut, json_path
from rulebook_ralph.tasks.validation import near_misses
from rulebook_ralph.verify.case import Verifiers
from rulebook_ralph.verify.redaction import Redactor

Report = Callable[[Event], None]
Reread = Callable[[], Config | None]
_NOT_FOUND = 127
_NOT_FOUND_SAID = re.compile(r"(?:^|: )([\w.+-]+): (?:command )?not found$", re.MULTILINE)


class Prepared:
    """The parts of a run that may begin; what a changed configuration makes anew is made here."""

    def __init__(
        self,
        project: Project,
        options: RunOptions,
        *,
        report: Report,
        clock: Clock,
        cancelled: Flag,
        reread: Reread,
        session: Agent | None = None,
    ) -> None:
        self.project = project
        self.options = options
        self.config = project.config
        self.report = report
        self._clock = clock
        self._cancelled = cancelled
        self._reread = reread
        self._settings_seen = _fingerprints(project)
        self._sign = preflight.require_committer(project.repository)
        self.journal = Journal(
            project,
            load_prd(project, self.notice, name=options.session_of),
            clock=clock,
            notice=self.notice,
            takes_edits=not options.session_of,
        )
        self.journal.take_edits()
        if options.branch and options.branch != self.journal.prd.work_branch:
            self.journal.edit(lambda prd: replaced(prd, branch=options.branch))
        prd = self.journal.prd
        preflight.require_usable_name(project, prd)
        self.roster = Roster(project.config, project.environment, session=session)
        self.redactor = Redactor(self.roster.secrets())
        self.ledger = Ledger()
        self.clones = Clones(project.repository, project.cache)
        self.workspace = workspace_of(project, self.roster, cancelled=cancelled, report=report)
        self.templates = TemplateFiles(project.folder.templates, self.notice)
        self.branch = Branch(project.repository, prd.work_branch, prd.project, holds=self._holds, report=report)
        self.workers = Workers(self.clones, self.workspace, self.roster, self.ledger, project.config.parallel.workers)
        self.retry = RetryPolicy(project.config, self.roster, clock=clock, cancelled=cancelled, report=report)
        self.verifiers = self._verifiers()
        self.opening = self._opening()
        self.settling = self._settling()
        self.reopen: frozenset[str] = frozenset()
        self.tally = RunTally()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.journal.end()
        self.clones.close()

    def notice(self, level: str, text: str) -> None:
        """Say something to the person outside the rhythm of iterations."""
        self.report(Notice("warning" if level == "warning" else "info", text))

    @property
    def max_iterations(self) -> int:
        """The run's limit: as configured, else what all open tasks may need together."""
        return self.config.limits.max_iterations or self.iterations_allowed(self.reopen)

    def iterations_allowed(self, reopen: Collection[str]) -> int:
        """How many attempts all open tasks have left together; at least one."""
        order = selection.plan(self.journal.prd, only=self.options.only, reopen=reopen)
        return max(1, sum(requirements.attempts_left(self.config, task) for task in order))

    def apply_edit(self, data: bytes) -> str:
        """Make a change of the task list that was sent by a command; returns the line for the person."""
        edit = edits.decode(data)
        self.journal.take_edits()  # what a person saved before counts first
        applied = edits.apply(self.journal.prd, edit, at=self.journal.now())
        for word in ("project", "branch"):
            if getattr(applied.prd, word) != getattr(self.journal.prd, word):
                raise RalphError(f"$.{word} cannot change while a run goes on; end it first: ralph pause")
        self.journal.edit(lambda _: applied.prd)
        self.notice("info", f"ralph task: {applied.answer}")
        return applied.answer

    def take_baseline(self) -> None:
        """What the gates say of the branch before anybody works. One whose command is not there ends the run here, and
        with `strict` any that is red. Raises RalphError.
        """
        for result in self.verifiers.gates.red_on(self.branch.tip()):
            if missing := _missing_command(result, self.config):
                told = f"its command is not found: {missing} (in: {cut(result.command, 200)})"
                raise RalphError(f"gate {result.step}: {told}; install it, or change verification.steps in config.yaml")
        red = self.verifiers.gates.red_required(self.branch.tip())
        if red and self.options.strict:
            raise RalphError(
                f"required gates are red on the base: {', '.join(red)}; mend them, or run without --strict"
            )

    def take_settings(self) -> None:
        """Go on with the configuration as a person edited it; with the last good one where that cannot be."""
        seen = _fingerprints(self.project)
        if seen == self._settings_seen:
            return
        self._settings_seen = seen
        try:
            config = self._reread()
            if config is None or config == self.config:
                return
            roster = Roster(config, self.project.environment, before=self.roster)
            preflight.require_means(config, roster, self.journal.prd, self.options, self.notice)
        except RalphError as error:
            self.notice("warning", f"{error}; going on with the configuration as it was")
            return
        self.notice("info", "the configuration was edited: going on with it")
        self.config, self.roster, self.redactor = config, roster, Redactor(roster.secrets())
        self.workers.use(roster)
        self.retry.use(config, roster)
        self.verifiers = self._verifiers()
        before = self.opening
        self.opening = self._opening()
        self.opening.spent, self.opening.checks_base = before.spent, before.checks_base
        self.settling = self._settling()

    def _verifiers(self) -> Verifiers:
        return verifiers_of(
            replace(self.project, config=self.config),
            self.roster,
            self.ledger,
            self.clones,
            self.workspace,
            scratch=self.project.cache,
            cancelled=self._cancelled,
            report=self.report,
            asking=self.retry.asked_again,
        )

    def _opening(self) -> Opening:
        return Opening(
            project=self.project,
            config=self.config,
            journal=self.journal,
            branch=self.branch,
            workers=self.workers,
            roster=self.roster,
            verifiers=self.verifiers,
            templates=self.templates,
            redactor=self.redactor,
            clock=self._clock,
            report=self.report,
            sign=self._sign,
        )

    def _settling(self) -> Settling:
        return Settling(
            config=self.config,
            journal=self.journal,
            branch=self.branch,
            opening=self.opening,
            retry=self.retry,
            ledger=self.ledger,
            redactor=self.redactor,
            clock=self._clock,
            report=self.report,
        )

    def _holds(self, commit: str) -> bool:
        return not self.verifiers.gates.red_required(commit)


def prepare(
    project: Project,
    options: RunOptions,
    *,
    report: Report,
    clock: Clock,
    cancelled: Flag,
    reread: Reread,
    session: Agent | None = None,
) -> Prepared:
    """The parts of a run, with a dead run's work brought to its end and the branch checked out.

    `session` is an agent that works in the person's own tree.

    Raises RalphError for whatever would stop the run; until the recovery nothing is changed.
    """
    preflight.require_writable(project)
    if problem := unsupported(project.repository):
        raise RalphError(problem)
    # The user's settings of git as they are now: an agent can reach the files.
    repository = open_repository(project.root, project.environment, config_copy=project.private / "git")
    project = replace(project, repository=repository)
    prepared = Prepared(
        project, options, report=report, clock=clock, cancelled=cancelled, reread=reread, session=session
    )
    journal, notice = prepared.journal, prepared.notice
    for fault in near_misses(journal.prd):
        notice("warning", f"{project.folder.prd}: {json_path(fault.path)}: {fault.message}")
    require_good(project.root, project.config, journal.prd)
    preflight.require_something_to_verify(project, journal.prd)
    preflight.require_means(project.config, prepared.roster, journal.prd, options, notice)
    if prepared.workspace.why_unprotected:
        notice("warning", prepared.workspace.why_unprotected)
    landing.clear_locks(project.repository, journal.prd.work_branch)
    landing.clear_up(project.repository)
    bring_back_session(project, journal, prepared.redactor, seconds=clock.seconds(), notice=notice)
    if done := check_out(project.repository, journal.prd.work_branch):
        notice("info", f"{done}, which is checked out now; all commits of this run go there")
    if restored := journal.restore_files():
        notice("warning", f"files of {project.folder.path} were missing and are written again: {len(restored)}")
    left = recover(project, prepared.settling, prepared.workers, prepared.roster)
    _clear_up(project)
    prepared.branch.follow()
    if modified := project.repository.modified():
        notice("info", f"your uncommitted changes stay as they are, and are not part of the work: {modified[0]} …")
    prepared.reopen = _reopened(journal.prd, prepared.config, options)
    prepared.tally = RunTally(
        cost_usd=sum(record.spent_usd for record in left), tokens=sum(record.spent_tokens for record in left)
    )
    return prepared


def _clear_up(project: Project) -> None:
    """Remove what dead processes had for a moment; all that they left to be recovered is recovered."""
    disk.remove_temporaries(project.folder.path, project.folder.history)
    for path in project.private.iterdir():
        found = re.fullmatch(r"output-\d+\.log|(?:marks|trees|nothing)-(\d+)-\w+", path.name)
        if found and not (found[1] and psutil.pid_exists(int(found[1]))):
            with suppress(OSError):
                take_down(path)


def load_prd(project: Project, notice: Callable[[str, str], None], *, name: str = "") -> Prd:
    """The task list to begin with: the saved state's where there is one, which the file is merged into; else the
    file's. A file that is gone is written again. Where the project's `name` is known, the file is not asked for it.
    Raises RalphError.
    """
    if name and (data := attempts.file_of_state(project.repository, attempts.state_reference(name), "prd.json")):
        return prd_file.decode_prd(data, name=f"{attempts.state_reference(name)}:prd.json")
    there = project.folder.prd.exists() or project.folder.prd.is_symlink()
    named = prd_file.read_prd(project.folder.prd) if there else None
    references = [attempts.state_reference(named.project)] if named else attempts.state_references(project.repository)
    for reference in references:
        data = attempts.file_of_state(project.repository, reference, "prd.json")
        if data is not None:
            if named is None:
                notice("warning", f"{project.folder.prd} was missing; it is written again from {reference}")
            saved = prd_file.decode_prd(data, name=f"{reference}:prd.json")
            return replaced(saved, branch=named.branch) if named else saved  # between two runs it may change
    if named is None:
        if rulebook.places(project.root):
            raise RalphError(f"there is no task list in {project.root} yet; have its tasks read: ralph init")
        ways = 'ralph run -p "what you want", ralph init --from FILE (a file of tasks), or ralph plan "what you want"'
        raise RalphError(f"there is no task list in {project.root} yet; begin with one of: {ways}")
    return named


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


def _fingerprints(project: Project) -> tuple[disk.Fingerprint | None, ...]:
    """Of the files that the configuration is read from."""
    return tuple(
        map(disk.fingerprint, (project.folder.config, project.private_folders[0] / project.folder.config.name))
    )
