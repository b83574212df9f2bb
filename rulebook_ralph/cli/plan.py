"""`ralph plan`: what a person wants, in prose, becomes tasks, which they see whole before they are added."""

import json as json_module
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import click

from rulebook_ralph.agents.prices import Ledger
from rulebook_ralph.agents.question import names_agent
from rulebook_ralph.agents.roster import Roster
from rulebook_ralph.cli import run, wish
from rulebook_ralph.cli.app import App, interruptible
from rulebook_ralph.cli.delivery import deliver
from rulebook_ralph.cli.places import OpenedProject, open_project, refuse_agents
from rulebook_ralph.cli.trust import require_agreed
from rulebook_ralph.config.commands import whole
from rulebook_ralph.config.settings import AskedModel
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.report.console import Console
from rulebook_ralph.run import planning, templates
from rulebook_ralph.run.planning import NoPlanError, Planning
from rulebook_ralph.tasks.edits import Add
from rulebook_ralph.tasks.model import Json, Prd
from rulebook_ralph.tasks.plan import MOST_QUESTIONS, Plan
from rulebook_ralph.tasks.text import counted, money, tokens
from rulebook_ralph.verify.redaction import Redactor

_BYTES_PER_TOKEN = 3
_WHAT_TO_CHANGE = "What should be different in the plan?"
_INDENTED = 40


@click.command()
@click.argument("wanted", metavar="TEXT|FILE")
@click.option("--planner", metavar="ID", default="", help="Who plans (default: defaults.planner).")
@click.option("--model", metavar="NAME", default="", help="With which model.")
@click.option("--yes", "-y", is_flag=True, help="Add the tasks without asking: you agree to their commands unseen.")
@click.option("--run", "runs", is_flag=True, help="Work on the tasks as soon as they are added.")
@click.option("--json", is_flag=True, help="Print the plan as one JSON object; asks nothing.")
@click.pass_obj
def plan_command(app: App, *, wanted: str, planner: str, model: str, yes: bool, runs: bool, json: bool) -> int:
    """Have a model turn what you want into tasks: TEXT, a FILE of Markdown, or - for standard input.

    The tasks come with outcome, acceptance criteria, dependencies and commands that verify them. They are shown, and
    added once you agree, all or none, also while a run goes on; you may say what is to be different. Their commands
    come from a model and will be run as those that you write yourself: read them. On a terminal the planner may ask
    you up to three questions.

    The planner is one of tools.planners, an agent (--planner claude) or the Anthropic API (--planner anthropic). Claude
    and codex read the code in a copy of the project; others see names and some contents of your files. None can change
    anything.
    """
    if json and runs:
        raise RalphError("--json prints a plan and --run works on it; give one of them")
    opened = open_project(app)
    project = opened.project
    refuse_agents(app, "no plan may be made")
    prd = wish.list_of(app, project)
    who = planning.planner(project.config, named=planner, model=model)
    share = int(project.config.limits.prompt_tokens * planning.WANTED_SHARE)
    text = wish.text_of(app, wanted, most=share * _BYTES_PER_TOKEN, bare_files=True)
    roster = Roster(project.config, project.environment)
    clean = Redactor(roster.secrets()).clean
    material = planning.gather(project.repository, project.config, prd, text, clean)
    own = templates.read(project.folder.templates)[0]
    wished = Planning(project.config, prd, text, material, clean, own)
    with app.console(json=json) as console:
        ledger = Ledger()
        talk = _Talk(app, console, opened, roster, who, wished, ledger)
        try:
            plan = talk.plan(asks=not json and app.has_person)
            agreed = plan is not None and (yes if yes or json else talk.is_agreed(plan))
        finally:
            usage, cost = ledger.take()
            if usage.total or cost is not None:
                parts = [tokens(usage.total)] if usage.total else []
                parts.append("cost unknown" if cost is None else money(cost))
                console.line(f"planned with {', '.join(parts)}")
        if (plan := talk.latest) is None:
            return ExitCode.INTERRUPTED
        if agreed:
            wish.begin_list(app, prd)
        console.line(deliver(app, Add(tasks=plan.tasks)) if agreed else "nothing was added")
        if json:
            took = {"costUsd": cost, "tokens": usage.total}
            console.json({"success": True, "added": agreed, "tasks": plan.tasks, **took})
    if agreed and runs:
        return run.start(app, run.Flags(tasks=tuple(task["id"] for task in plan.tasks)), command="run")
    return ExitCode.OK


@dataclass(slots=True)
class _Talk:
    """The talk with a planner; `ledger` has what it took, `latest` is the last plan that came of it."""

    app: App
    console: Console
    opened: OpenedProject
    roster: Roster
    who: AskedModel
    wished: Planning
    ledger: Ledger
    answers: list[tuple[str, str]] = field(default_factory=list)
    latest: Plan | None = None

    def plan(self, *, asks: bool) -> Plan | None:
        """The plan, after the questions that it needs; None where a person interrupted it. Raises NoPlanError."""
        left = MOST_QUESTIONS if asks else 0
        shown = self.latest.tasks if self.latest else ()
        self.latest = None
        while True:
            plan = self._asked(left, shown)
            if plan is None or plan.tasks:
                break
            left -= len(plan.questions)
            for question in plan.questions:
                self.console.line(question)
                given = click.prompt("Your answer (empty: decide yourself)", default="", show_default=False)
                self.answers.append((question, given.strip() or "decide yourself"))
        self.latest = plan
        if plan is not None:
            for line in _lines(plan, self.wished.prd):
                self.console.line(line)
        return plan

    def is_agreed(self, plan: Plan | None) -> bool:
        """Whether a person wants these tasks; they may have the plan changed before. Raises RalphError where nobody can
        be asked.
        """
        if not self.app.has_person:
            raise RalphError("nothing was added, as nobody can be asked; --yes adds a plan without asking")
        while plan is not None:
            said = click.prompt("Add these tasks? (yes, no, or revise: what to change)", default="no").strip()
            word, colon, changes = said.partition(":")
            if said.casefold() in ("y", "yes", "n", "no"):
                return said.casefold() in ("y", "yes")
            if word.strip().casefold() == "revise" and colon and changes.strip():
                self.answers.append((_WHAT_TO_CHANGE, changes.strip()))
                plan = self.plan(asks=True)
            else:
                self.console.line('Answer yes, no, or "revise: " and what is to be different.')
        return False

    def _asked(self, left: int, shown: Sequence[Json]) -> Plan | None:
        project = self.opened.project
        with (
            interruptible() as cancelled,
            planning.reading_place(project, self.roster, cancelled=cancelled) as reads,
        ):
            model = self.roster.model(
                self.who, cancelled, spend=self.ledger.spend, named_by=planning.key_of(self.who), reads=reads
            )
            if model.ask is None:
                raise NoPlanError(f"there is nobody to plan: {model.missing}; or name another: --planner ID")
            if names_agent(self.who.executor) or model.name == project.config.defaults.executor:
                require_agreed(self.app, self.opened)
            name = self.who.name or self.who.id
            named = f"{name} ({model.name})" if name not in ("", model.name) else model.name
            self.console.line(f"asking {named} for a plan …")
            try:
                return self.wished.plan(model.ask, self.answers, questions_left=left, shown=shown)
            except NoPlanError as error:
                if cancelled.is_set():
                    return None
                for fault in error.faults:
                    self.console.error(planning.told(fault))
                raise


# A plan as a person sees it before agreeing: nothing in it unseen


def _lines(plan: Plan, prd: Prd) -> Iterator[str]:
    """What the plan adds to the task list: a line with `+` for each that it brings."""
    yield f"prd.json: {counted(len(plan.tasks), 'new task')} beside the {len(prd.tasks)} there"
    for task in plan.tasks:
        yield ""
        yield from (f"+ {line}".rstrip() for line in _task(task))


def _task(task: Json) -> Iterator[str]:
    yield _whole(f"{task['id']}: {task['title']}")
    facts = [f"priority {task['priority']}", task.get("estimatedComplexity", "")]
    if task["dependencies"]:
        facts.append(f"after {', '.join(task['dependencies'])}")
    yield f"  {_whole(', '.join(filter(None, facts)))}"
    yield from (f"  {_whole(line)}" for line in task["description"].strip().splitlines())
    yield f"  outcome: {_whole(task['outcome'])}"
    yield from (f"  - {_whole(criterion)}" for criterion in task["acceptanceCriteria"])
    if task["relevantFiles"]:
        yield f"  reads first: {_whole(', '.join(task['relevantFiles']))}"
    for stage, criteria in task.get("completion", {}).items():
        yield from (f"  {stage}: {line}" for line in _criteria(criteria))


def _criteria(criteria: Json) -> Iterator[str]:
    """What verifies a stage, a command in plain words; whatever else stands there follows."""
    rest = dict(criteria)
    config = dict(rest.pop("verificationConfig", {}))
    method = rest.pop("verificationMethod", "")
    if "command" in config:
        yield f"runs: {_whole(str(config.pop('command')))}"
    elif method:
        yield f"verified: {_whole(str(method))}"
    for key, value in (config | rest).items():
        text = value if isinstance(value, str) else json_module.dumps(value, ensure_ascii=False)
        yield f"{_whole(key)}: {_whole(text)}"


def _whole(text: str) -> str:
    """The text uncut, in one line. Three or more blanks are told by their number, unless they only indent it."""
    margin = len(text) - len(text.lstrip(" "))
    indent, rest = (text[:margin], text[margin:]) if margin <= _INDENTED else ("", text)
    return indent + whole(rest)
