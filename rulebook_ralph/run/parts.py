"""The parts of a run. What a person's edit of the configuration changes of them is made anew here."""

from collections.abc import Callable, Collection
from dataclasses import replace
from threading import Event as Flag
from types import TracebackType
from typing import Literal, Self

from msgspec.structs import replace as replaced

from rulebook_ralph.agents.prices import Ledger
from rulebook_ralph.agents.question import Ask, ModelError
from rulebook_ralph.agents.roster import Roster
from rulebook_ralph.config import requirements
from rulebook_ralph.config.settings import Config, Reviewer
from rulebook_ralph.errors import RalphError
from rulebook_ralph.git import attempts
from rulebook_ralph.git.clone import Clones
from rulebook_ralph.git.landing import require_committer
from rulebook_ralph.report.events import Event, Notice
from rulebook_ralph.run import preflight
from rulebook_ralph.run.branch import Branch
from rulebook_ralph.run.journal import Journal
from rulebook_ralph.run.policy import RunTally
from rulebook_ralph.run.project import Project, RunContext, RunOptions, Say
from rulebook_ralph.run.prompt import TemplateFiles
from rulebook_ralph.run.retry import RetryPolicy
from rulebook_ralph.run.workers import Workers
from rulebook_ralph.tasks import disk, edits, prd_file, selection
from rulebook_ralph.tasks.importers import rulebook
from rulebook_ralph.tasks.model import Prd, Task
from rulebook_ralph.verify.case import Verifiers
from rulebook_ralph.verify.gates import GateRunner
from rulebook_ralph.verify.hooks import user_hooks
from rulebook_ralph.verify.redaction import Redactor
from rulebook_ralph.verify.review import Reviewers
from rulebook_ralph.verify.reviewers import key_of
from rulebook_ralph.verify.workspace import ClonePreparer, GateClones


def workspace_of(
    project: Project, roster: Roster, *, report: Callable[[Event], None], cancelled: Flag
) -> ClonePreparer:
    """What sets up clones as the project's configuration says."""
    return ClonePreparer(
        project.repository,
        project.config,
        roster.given,
        hidden=project.private_folders,
        clean=Redactor(roster.secrets()).clean,
        cancelled=cancelled,
        report=report,
    )


class VerifyTools:
    """What trees of a project are verified with, in its clones. `ledger` has what models took."""

    def __init__(
        self, project: Project, roster: Roster, clones: Clones, *, report: Callable[[Event], None], cancelled: Flag
    ) -> None:
        self.project = project
        self.roster = roster
        self.clones = clones
        self.report = report
        self.cancelled = cancelled
        self.ledger = Ledger()
        self.redactor = Redactor(roster.secrets())
        self.workspace = workspace_of(project, roster, report=report, cancelled=cancelled)
        self.gate_clones = GateClones(clones, self.workspace)
        self.verifiers = self._verifiers()

    @property
    def config(self) -> Config:
        return self.project.config

    def asked(self, ask: Ask, who: str) -> Ask:  # noqa: ARG002 - a run asks again
        """How a model is asked that is named to people so."""
        return ask

    def use(self, config: Config, roster: Roster) -> None:
        """Go on with another configuration and its agents."""
        self.project, self.roster, self.redactor = (
            replace(self.project, config=config),
            roster,
            Redactor(roster.secrets()),
        )
        self.verifiers = self._verifiers()

    def _verifiers(self) -> Verifiers:
        config, repository, redactor = self.config, self.project.repository, self.redactor
        model = self.roster.judging_model(self.cancelled, spend=self.ledger.spend)
        gates = GateRunner(
            self.gate_clones,
            config,
            environment=self.roster.given,
            redactor=redactor,
            cancelled=self.cancelled,
            report=self.report,
        )
        return Verifiers(
            repository=repository,
            config=config,
            gates=gates,
            ask=self.asked(model.ask, "the judging model") if model.ask else None,
            no_model=model.missing,
            reviewers=Reviewers(config, repository, self._ask_of, redactor, self.cancelled),
            hooks=user_hooks(config.hooks),
            redactor=redactor,
            scratch=self.project.cache,
            cancelled=self.cancelled,
            report=self.report,
        )

    def _ask_of(self, reviewer: Reviewer) -> Ask:
        model = self.roster.model(reviewer, self.cancelled, spend=self.ledger.spend, named_by=key_of(reviewer))
        if model.ask is None:
            raise ModelError(model.missing)
        return self.asked(model.ask, f"the reviewer {reviewer.id}")


class Parts(VerifyTools):
    """The parts of one run. `tally` is what the recovery of a dead run took, `reopen` the blocked tasks that are tried
    once more. `spent` is how long each task was worked on, in seconds; `checks_base` the commit whose check files count
    as the base's, for tasks beyond the one that changed them.
    """

    def __init__(self, project: Project, options: RunOptions, context: RunContext) -> None:
        self.options = options
        self.context = context
        self.clock = context.clock
        self.report = context.report
        self.sign = require_committer(project.repository)
        self.journal = Journal(
            project,
            load_prd(project, self.notice, name=options.session_of),
            clock=context.clock,
            notice=self.notice,
            takes_edits=not options.session_of,
        )
        self.journal.take_edits()
        if options.branch and options.branch != self.journal.prd.work_branch:
            self.journal.edit(lambda prd: replaced(prd, branch=options.branch))
        prd = self.journal.prd
        preflight.require_usable_name(project, prd)
        roster = Roster(project.config, project.environment, session=context.session)
        self.retry = RetryPolicy(
            project.config, roster, clock=context.clock, cancelled=context.cancelled, report=context.report
        )
        clones = Clones(project.repository, project.cache)
        super().__init__(project, roster, clones, report=context.report, cancelled=context.cancelled)
        self.templates = TemplateFiles(project.folder.templates, self.notice)
        self.branch = Branch(project.repository, prd, holds=self._holds, report=context.report)
        self.workers = Workers(self, project.config.parallel.workers)
        self.reopen: frozenset[str] = frozenset()
        self.tally = RunTally()
        self.spent: dict[str, float] = {}
        self.checks_base = ""
        self._settings_seen = _fingerprints(project)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.journal.end()
        self.clones.close()

    def notice(self, level: Literal["info", "warning"], text: str) -> None:
        """Say something to the person outside the rhythm of iterations."""
        self.report(Notice(level, text))

    def asked(self, ask: Ask, who: str) -> Ask:
        return self.retry.asked_again(ask, who)

    @property
    def max_iterations(self) -> int:
        """The run's limit: as configured, else what all open tasks may need together."""
        return self.config.limits.max_iterations or self.iterations_allowed(self.reopen)

    def iterations_allowed(self, reopen: Collection[str]) -> int:
        """How many attempts all open tasks have left together; at least one."""
        order = selection.plan(self.journal.prd, only=self.options.only, reopen=reopen)
        return max(1, sum(requirements.attempts_left(self.config, task) for task in order))

    def time_left(self, task: Task) -> float:
        """What is left of a task's own time in this run, in seconds."""
        return requirements.wall_time_for(self.config, task) - self.spent.get(task.id, 0.0)

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

    def take_settings(self) -> None:
        """Go on with the configuration as a person edited it; with the last good one where that cannot be."""
        seen = _fingerprints(self.project)
        if seen == self._settings_seen:
            return
        self._settings_seen = seen
        try:
            config = self.context.reread()
            if config is None or config == self.config:
                return
            roster = Roster(config, self.project.environment, before=self.roster)
            preflight.require_means(config, roster, self.journal.prd, self.options, self.notice)
        except RalphError as error:
            self.notice("warning", f"{error}; going on with the configuration as it was")
            return
        self.notice("info", "the configuration was edited: going on with it")
        self.retry.use(config, roster)
        self.use(config, roster)

    def _holds(self, commit: str) -> bool:
        return not self.verifiers.gates.red_required(commit)


def load_prd(project: Project, notice: Say, *, name: str = "") -> Prd:
    """The task list to begin with: the saved state's where there is one, which the file is merged into; else the
    file's. A file that is gone is written again. Where the project's `name` is known, the file is not asked for it.
    Raises RalphError.
    """
    there = not name and (project.folder.prd.exists() or project.folder.prd.is_symlink())
    named = prd_file.read_prd(project.folder.prd) if there else None
    name = named.project if named else name
    references = [attempts.state_reference(name)] if name else attempts.state_references(project.repository)
    for reference in references:
        data = attempts.file_of_state(project.repository, reference, "prd.json")
        if data is not None:
            if not name:
                notice("warning", f"{project.folder.prd} was missing; it is written again from {reference}")
            saved = prd_file.decode_prd(data, name=f"{reference}:prd.json")
            return replaced(saved, branch=named.branch) if named else saved  # between two runs it may change
    if named is not None:
        return named
    if rulebook.places(project.root):
        raise RalphError(f"there is no task list in {project.root} yet; have its tasks read: ralph init")
    ways = 'ralph run -p "what you want", ralph init --from FILE (a file of tasks), or ralph plan "what you want"'
    raise RalphError(f"there is no task list in {project.root} yet; begin with one of: {ways}")


def _fingerprints(project: Project) -> tuple[disk.Fingerprint | None, ...]:
    """Of the files that the configuration is read from."""
    return tuple(
        map(disk.fingerprint, (project.folder.config, project.private_folders[0] / project.folder.config.name))
    )
