"""All that follows from a configuration, made as one value: a run that goes on with another one swaps it whole."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event

from rulebook_ralph.agents.models import FoundModel
from rulebook_ralph.clock import Clock
from rulebook_ralph.core import events
from rulebook_ralph.core.model import Prd
from rulebook_ralph.core.redaction import Redactor
from rulebook_ralph.core.review import Memory
from rulebook_ralph.core.settings import Config
from rulebook_ralph.core.spending import Ledger
from rulebook_ralph.loop import preflight
from rulebook_ralph.loop.assigner import Assigner
from rulebook_ralph.loop.checkout import Standing
from rulebook_ralph.loop.codebase import Codebase
from rulebook_ralph.loop.crew import Crew
from rulebook_ralph.loop.gate_runner import GateRunner
from rulebook_ralph.loop.gatekeeper import Gatekeeper
from rulebook_ralph.loop.options import RunOptions
from rulebook_ralph.loop.orders import Orders
from rulebook_ralph.loop.pipeline import CompletionHook
from rulebook_ralph.loop.preflight_secrets import require_no_secret
from rulebook_ralph.loop.project import Project
from rulebook_ralph.loop.reviewing import Reviewing
from rulebook_ralph.loop.rules.built_in import built_in_hooks
from rulebook_ralph.loop.rules.user_hooks import HookTools, load_plugins, user_hooks
from rulebook_ralph.loop.summarizer import Summarizer
from rulebook_ralph.loop.template_files import TemplateFiles
from rulebook_ralph.workspace.snapshot import Workspace


@dataclass(frozen=True, slots=True)
class Equipment:
    """What a run works with: project, agents, gates, hooks and the model that judges."""

    project: Project
    crew: Crew
    redactor: Redactor
    gatekeeper: Gatekeeper
    assigner: Assigner
    plugins: Mapping[str, CompletionHook]
    judging: Ledger
    model: FoundModel
    reviewing: Reviewing
    summarizer: Summarizer

    @property
    def config(self) -> Config:
        return self.project.config

    def hooks(self, cancelled: Event, put_back: Callable[[], None]) -> tuple[CompletionHook, ...]:
        """Ralph's own rules and the user's."""
        tools = HookTools(self.project.root, self.project.environment_given, self.redactor.clean, cancelled, put_back)
        return (*built_in_hooks(), *user_hooks(self.config.hooks, self.plugins, tools))


@dataclass(frozen=True, slots=True)
class Outfitter:
    """Makes equipment for one run: what of it no configuration changes."""

    workspace: Workspace
    hooks_folder: Path
    options: RunOptions
    codebase: Codebase
    templates: TemplateFiles
    cancelled: Event
    report: Callable[[events.Event], None]
    reviews: Memory = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        project: Project,
        workspace: Workspace,
        options: RunOptions,
        orders: Orders,
        *,
        cancelled: Event,
        clock: Clock,
    ) -> "Outfitter":
        """For a run over that project."""
        repository = project.repository
        templates = TemplateFiles(project.folder.templates, orders.notice, clock=clock)
        hooks_folder, codebase = repository.hooks_folder(), Codebase(repository)
        return cls(workspace, hooks_folder, options, codebase, templates, cancelled, orders.report)

    def equip(self, project: Project, crew: Crew) -> Equipment:
        """For work in the user's tree. Raises RalphError for what cannot be made."""
        return self._equip(project, crew, checked_out=project)

    def equip_at(self, standing: Standing, common: Equipment) -> Equipment:
        """For work in the checkout that stands there, at `workspace`, in place of the tree of `common`. Raises
        RalphError.
        """
        user = common.project
        repository, environment = self.workspace.repository, standing.environment
        project = replace(user, root=standing.root, repository=repository, environment=environment)
        return self._equip(project, common.crew, checked_out=user)

    def _equip(self, project: Project, crew: Crew, *, checked_out: Project) -> Equipment:
        redactor, judging = crew.redactor(), Ledger()
        runner = GateRunner.of(project, redactor.clean, self.cancelled, self.report, checked_out=checked_out)
        gatekeeper = Gatekeeper(project, self.workspace, self.hooks_folder, runner)
        return Equipment(
            project=project,
            crew=crew,
            redactor=redactor,
            gatekeeper=gatekeeper,
            assigner=Assigner(
                project,
                crew,
                gatekeeper,
                self.options,
                self.codebase,
                self.templates,
                user_tree=None if checked_out is project else checked_out.root,
            ),
            plugins=load_plugins(project.config.hooks),
            judging=judging,
            model=crew.judging_model(self.cancelled, spend=judging.spend),
            reviewing=Reviewing(
                project.config, crew, redactor.clean, self.cancelled, judging.spend, self.report, self.reviews
            ),
            summarizer=Summarizer(
                crew.summarizing_model(self.cancelled, spend=judging.spend),
                warn=lambda text: self.report(events.Notice("warning", text)),
                clean=redactor.clean,
            ),
        )

    def anew(self, before: Equipment, config: Config, prd: Prd, notice: Callable[[str, str], None]) -> Equipment:
        """The same for a configuration that a person edited, looked at like that of a start. Raises RalphError."""
        project = replace(before.project, config=config)
        crew = before.crew.succeeded_by(config)
        require_no_secret(project, crew)
        preflight.require_something_to_verify(project, prd, trust_agent=self.options.trust_agent)
        preflight.require_agents(project, crew, prd, notice)
        return self.equip(project, crew)
