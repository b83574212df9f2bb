"""Having a model plan: which one, what it is asked, and its answer held against the project before anyone sees it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from rulebook_ralph import resources
from rulebook_ralph.agents import registry
from rulebook_ralph.checks.model_answer import asked_twice
from rulebook_ralph.checks.plan_answer import UnusablePlanError, read_plan
from rulebook_ralph.core.model import Prd
from rulebook_ralph.core.plan import MOST_TASKS, Plan, extended, unfit
from rulebook_ralph.core.problem import Fault, Problem, json_path
from rulebook_ralph.core.question import ANTHROPIC, Ask, ModelError, Question, names_agent
from rulebook_ralph.core.settings import AskedModel, Config
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.loop.plan_material import Material
from rulebook_ralph.loop.templates import PLAN, Templates, shown

DATA_BEGINS = "# The data"

_MOST_TOLD = 30
_LONGEST_REFUSED = 60_000
"""Characters of a refused answer that are shown to the one who gave it."""


class NoPlanError(RalphError):
    """No plan came: the model could not be asked, or what it answers cannot be used (`faults`, with their places)."""

    def __init__(self, message: str, *faults: Fault) -> None:
        super().__init__(message, exit_code=ExitCode.AGENT)
        self.faults = faults


def planner(config: Config, *, named: str = "", model: str = "") -> AskedModel:
    """Who plans: `named`, else `defaults.planner`, else the first of `tools.planners`, else whoever is there.

    An agent plans with the model it has. `model` goes before all. Raises RalphError for a name of neither.
    """
    name = named or config.defaults.planner
    found = next((each for each in config.tools.planners if each.id == name or not name), None)
    if found is None and not names_agent(name):
        found = AskedModel(id=ANTHROPIC if name else "", executor=name)
    elif found is None:
        agents = {*registry.known_types(), *(each.id for each in config.tools.executors)}
        if name not in agents:
            planners = ", ".join(each.id for each in config.tools.planners) or "none is configured"
            raise RalphError(
                f"there is no planner '{name}' (tools.planners: {planners}); it may also be {ANTHROPIC} or an agent"
            )
        found = AskedModel(id=name, executor=name, model="")
    return replace(found, model=model) if model else found


def key_of(who: AskedModel) -> str:
    """Under which key of the configuration a planner stands, or could."""
    return f"tools.planners.{who.id}" if who.id else "tools.planners"


@dataclass(frozen=True, slots=True)
class Planning:
    """One wish. `nonce` is a word that nobody could foresee; `clean` takes secrets out of a text; `templates` are a
    person's own.
    """

    config: Config
    prd: Prd
    wanted: str
    material: Material
    nonce: str
    clean: Callable[[str], str]
    templates: Templates = field(default_factory=Templates)

    def plan(self, ask: Ask, answers: Sequence[tuple[str, str]], *, questions_left: int) -> Plan:
        """Tasks that can be added as they are, or questions. `answers` are a person's to earlier questions.

        An answer that is refused is asked for again, once. Raises NoPlanError, and BrokenTemplateError.
        """
        said = ""

        def asked(refused: UnusablePlanError | None) -> Plan:
            nonlocal said
            said = ask(self.question(answers, questions_left, said, refused.faults if refused else ()))
            return self._accepted(read_plan(said, questions_left=questions_left))

        try:
            return asked_twice(asked, UnusablePlanError)
        except ModelError as error:
            raise NoPlanError(f"the planner gave no answer: {error}") from error
        except UnusablePlanError as error:
            raise NoPlanError("the planner's answer cannot be used, and nothing was added", *error.faults) from error

    @property
    def _has_gates(self) -> bool:
        return any(step.required for step in self.config.verification.gates)

    def _accepted(self, plan: Plan) -> Plan:
        """Raises UnusablePlanError."""
        faults = list(unfit(plan, stages=self.config.stages, has_gates=self._has_gates, clean=self.clean))
        extended(self.prd, plan.tasks, faults)
        if faults:
            raise UnusablePlanError(*dict.fromkeys(faults))
        return plan

    def question(
        self,
        answers: Sequence[tuple[str, str]] = (),
        questions_left: int = 0,
        refused: str = "",
        faults: Sequence[Fault] = (),
    ) -> Question:
        """What the planner is asked; `faults` are those of the answer that was refused. Raises BrokenTemplateError."""
        from rulebook_ralph.loop.template_sandbox import BrokenTemplateError, rendered  # noqa: PLC0415 - jinja2

        material, clean = self.material, self.clean
        values = {
            "nonce": self.nonce,
            "most_tasks": MOST_TASKS,
            "has_gates": self._has_gates,
            "stages": self.config.stages,
            "questions_left": questions_left,
            "faults": [clean(told(fault)) for fault in faults[:_MOST_TOLD]],
            "data_begins": DATA_BEGINS,
            "wanted": clean(self.wanted),
            "answers": [(clean(question), clean(answer)) for question, answer in answers],
            "facts": material.facts,
            "rules": material.rules,
            "gates": material.gates,
            "tasks": material.tasks,
            "listing": material.listing,
            "files": material.files,
            "refused": clean(refused[:_LONGEST_REFUSED]),
        }
        instructions, _, data = rendered(self.templates, PLAN, values).partition(f"\n{DATA_BEGINS}\n")
        if clean(self.wanted) not in data:
            missing = "has no {{ wanted }} after a line that is {{ data_begins }}"
            raise BrokenTemplateError(Problem(shown(PLAN), None, "", missing))
        return Question(instructions, data, resources.schema("plan"))


def told(fault: Fault) -> str:
    """A fault of an answer in one line, its place first."""
    return f"{json_path(fault.path)}: {fault.message}"
