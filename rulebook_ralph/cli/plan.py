"""`ralph plan`: what a person wants, in prose, becomes tasks, which they see before they are added."""

from collections.abc import Sequence
from dataclasses import dataclass

import click

from rulebook_ralph.agents.prices import Ledger
from rulebook_ralph.agents.question import names_agent
from rulebook_ralph.agents.roster import Roster
from rulebook_ralph.cli import plan_text
from rulebook_ralph.cli.app import App
from rulebook_ralph.cli.delivery import deliver
from rulebook_ralph.cli.options import interruptible
from rulebook_ralph.cli.places import OpenedProject, open_project, refuse_agents, require_agreed
from rulebook_ralph.config.settings import AskedModel
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.report.console import Console
from rulebook_ralph.run import plan_material, planning, templates
from rulebook_ralph.run.planning import NoPlanError, Planning
from rulebook_ralph.tasks.edits import Add
from rulebook_ralph.tasks.importers import rulebook
from rulebook_ralph.tasks.model import Prd
from rulebook_ralph.tasks.plan import MOST_QUESTIONS, Plan
from rulebook_ralph.tasks.prd_file import read_prd
from rulebook_ralph.verify.redaction import Redactor

_BYTES_PER_TOKEN = 3


@click.command()
@click.argument("wanted", metavar="TEXT|FILE")
@click.option("--planner", metavar="ID", default="", help="Who plans (default: defaults.planner).")
@click.option("--model", metavar="NAME", default="", help="With which model.")
@click.option("--yes", "-y", is_flag=True, help="Add the tasks without asking: you agree to their commands unseen.")
@click.option("--json", is_flag=True, help="Print the plan as one JSON object; asks nothing.")
@click.pass_obj
def command(app: App, *, wanted: str, planner: str, model: str, yes: bool, json: bool) -> int:
    """Have a model turn what you want into tasks: TEXT, a FILE of Markdown, or - for standard input.

    The tasks come with outcome, acceptance criteria, dependencies and commands that verify them. They are shown, and
    added once you agree, all or none, also while a run goes on. Their commands come from a model and will be run as
    those that you write yourself: read them. On a terminal the planner may ask you up to three questions.

    The planner sees names and some contents of your files; it works in an empty folder and can change nothing. It is
    one of tools.planners, an agent (--planner claude) or the Anthropic API (--planner anthropic).
    """
    opened = open_project(app)
    project = opened.project
    refuse_agents(app, "no plan may be made")
    prd = _task_list(opened)
    who = planning.planner(project.config, named=planner, model=model)
    share = int(project.config.limits.prompt_tokens * plan_material.WANTED_SHARE)
    text = plan_text.text_of(app, wanted, most=share * _BYTES_PER_TOKEN)
    roster = Roster(project.config, project.environment)
    clean = Redactor(roster.secrets()).clean
    material = plan_material.gather(project.repository, project.config, prd, text, clean)
    own = templates.read(project.folder.templates)[0]
    wish = Planning(project.config, prd, text, material, clean, own)
    with app.console(json=json) as console:
        ledger = Ledger()
        try:
            plan = _Session(app, console, opened, roster, who, wish, ledger).plan(asks=not json and app.has_person)
        finally:
            usage, cost = ledger.take()
            if usage.total or cost is not None:
                console.line(f"planned with {plan_text.spent(usage, cost)}")
        if plan is None:
            return ExitCode.INTERRUPTED
        for line in plan_text.lines_of(plan, prd):
            console.line(line)
        added = _agreed(app, yes=yes, json=json)
        console.line(deliver(app, Add(tasks=plan.tasks)) if added else "nothing was added")
        if json:
            console.json({"success": True, "added": added, "tasks": plan.tasks, "costUsd": cost, "tokens": usage.total})
    return ExitCode.OK


@dataclass(frozen=True, slots=True)
class _Session:
    """The talk with a planner; `ledger` has what it took."""

    app: App
    console: Console
    opened: OpenedProject
    roster: Roster
    who: AskedModel
    wish: Planning
    ledger: Ledger

    def plan(self, *, asks: bool) -> Plan | None:
        """The plan, after the questions that it needs; None where a person interrupted it. Raises NoPlanError."""
        answers: list[tuple[str, str]] = []
        left = MOST_QUESTIONS if asks else 0
        while True:
            plan = self._asked(answers, left)
            if plan is None or plan.tasks:
                return plan
            left -= len(plan.questions)
            for question in plan.questions:
                self.console.line(question)
                given = click.prompt("Your answer (empty: decide yourself)", default="", show_default=False)
                answers.append((question, given.strip() or "decide yourself"))

    def _asked(self, answers: Sequence[tuple[str, str]], left: int) -> Plan | None:
        named_by = planning.key_of(self.who)
        with interruptible() as cancelled:
            model = self.roster.model(self.who, cancelled, spend=self.ledger.spend, named_by=named_by)
            if model.ask is None:
                raise NoPlanError(f"there is nobody to plan: {model.missing}; or name another: --planner ID")
            if names_agent(self.who.executor) or model.name == self.opened.project.config.defaults.executor:
                require_agreed(self.app, self.opened)
            self.console.line(f"asking {_name(self.who, model.name)} for a plan …")
            try:
                return self.wish.plan(model.ask, answers, questions_left=left)
            except NoPlanError as error:
                if cancelled.is_set():
                    return None
                for fault in error.faults:
                    self.console.error(planning.told(fault))
                raise


def _name(who: AskedModel, model: str) -> str:
    """Who plans, for people; a planner of the configuration with its model."""
    name = who.name or who.id
    return f"{name} ({model})" if name not in ("", model) else model


def _task_list(opened: OpenedProject) -> Prd:
    """Raises RalphError with the command that makes one."""
    folder = opened.project.folder
    if not folder.prd.exists() and rulebook.find(folder.root) is None:
        raise RalphError("there is no task list yet; make an empty one, and have the gates found: ralph init --empty")
    return read_prd(folder.prd)


def _agreed(app: App, *, yes: bool, json: bool) -> bool:
    """Asks where there is somebody to ask. Raises RalphError where there is nobody; with `json` it only looks."""
    if yes or json:
        return yes
    if not app.has_person:
        raise RalphError("nothing was added, as nobody can be asked; --yes adds a plan without asking")
    return click.confirm("Add these tasks?")
