"""`ralph plan`: which model plans, what it is asked, and its answer held against the project before anyone sees it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from rulebook_ralph import resources
from rulebook_ralph.agents import registry
from rulebook_ralph.agents.question import ANTHROPIC, Ask, ModelError, Question, names_agent
from rulebook_ralph.config.settings import AskedModel, Config
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.run.template_sandbox import rendered
from rulebook_ralph.run.templates import BUILT_IN_ALONE, PLAN, Templates
from rulebook_ralph.tasks.edits import extended
from rulebook_ralph.tasks.model import Json, Prd
from rulebook_ralph.tasks.plan import MOST_TASKS, Plan, PlanAnswer, unfit
from rulebook_ralph.tasks.struct_reading import read_struct
from rulebook_ralph.tasks.text import Fault, json_path
from rulebook_ralph.verify.material import UnusableAnswerError, decoded, envelope

LONGEST_PLAN = 200_000
"""Characters; a run takes no larger edit."""

_LONGEST_QUESTION = 500
_MOST_TOLD = 30
_LONGEST_REFUSED = 60_000
"""Characters of a refused answer that are shown to the one who gave it."""


class NoPlanError(RalphError):
    """No plan came: the model could not be asked, or what it answers cannot be used (`faults`, with their places)."""

    def __init__(self, message: str, *faults: Fault) -> None:
        super().__init__(message, exit_code=ExitCode.AGENT)
        self.faults = faults


class _UnusablePlanError(Exception):
    """The answer is no plan: every fault with its place, as the planner and a person can be told."""

    def __init__(self, *faults: Fault) -> None:
        super().__init__(f"{len(faults)} faults")
        self.faults = faults


class _Parts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer before anything in it is looked at."""

    questions: Any
    tasks: Any


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
    """Which key of the configuration names the executor of a planner, or could."""
    return f"tools.planners.{who.id}.executor" if who.id not in ("", who.executor) else "defaults.planner"


@dataclass(frozen=True, slots=True)
class Planning:
    """One wish. `material` is what is shown of the project; `clean` takes secrets out of a text; `templates` are a
    person's own.
    """

    config: Config
    prd: Prd
    wanted: str
    material: Mapping[str, Any]
    clean: Callable[[str], str]
    templates: Templates = BUILT_IN_ALONE

    def plan(
        self, ask: Ask, answers: Sequence[tuple[str, str]], *, questions_left: int, shown: Sequence[Json] = ()
    ) -> Plan:
        """Tasks that can be added as they are, or questions. `answers` are a person's to earlier questions, and to the
        tasks that were `shown`, which are to be other ones.

        An answer that is refused is asked for again, once. Raises NoPlanError, and BrokenTemplateError.
        """
        said, faults = "", tuple[Fault, ...]()
        for _ in range(2):
            try:
                said = ask(self.question(answers, questions_left, said, faults, shown))
                return self._accepted(read_plan(said, questions_left=questions_left))
            except ModelError as error:
                raise NoPlanError(f"the planner gave no answer: {error}") from error
            except _UnusablePlanError as error:
                faults = error.faults
        raise NoPlanError("the planner's answer cannot be used, and nothing was added", *faults)

    @property
    def _has_gates(self) -> bool:
        return any(step.required for step in self.config.verification.gates)

    def _accepted(self, plan: Plan) -> Plan:
        """Raises _UnusablePlanError."""
        faults = list(unfit(plan, stages=self.config.stages, has_gates=self._has_gates, clean=self.clean))
        extended(self.prd, plan.tasks, faults)
        if faults:
            raise _UnusablePlanError(*dict.fromkeys(faults))
        return plan

    def question(
        self,
        answers: Sequence[tuple[str, str]] = (),
        questions_left: int = 0,
        refused: str = "",
        faults: Sequence[Fault] = (),
        shown: Sequence[Json] = (),
    ) -> Question:
        """What the planner is asked; `faults` are those of the answer that was refused. Raises BrokenTemplateError."""
        clean = self.clean
        instructions = rendered(
            self.templates,
            PLAN,
            {
                "most_tasks": MOST_TASKS,
                "has_gates": self._has_gates,
                "stages": self.config.stages,
                "questions_left": questions_left,
                "faults": [clean(told(fault)) for fault in faults[:_MOST_TOLD]],
            },
        )
        data: dict[str, Any] = {
            "wanted": clean(self.wanted),
            "answers": [{"question": clean(asked), "answer": clean(answer)} for asked, answer in answers],
            **self.material,
        }
        if shown:
            data["planShown"] = list(shown)
        if refused:
            data["lastAnswer"] = clean(refused[:_LONGEST_REFUSED])
        return Question(instructions, envelope(**data), resources.schema("plan"))


def read_plan(text: str, *, questions_left: int) -> Plan:
    """The plan, or up to `questions_left` questions. Its tasks are not compared with anything yet.

    Raises _UnusablePlanError.
    """
    if len(text) > LONGEST_PLAN:
        raise _UnusablePlanError(Fault((), f"the answer is longer than {LONGEST_PLAN:,} characters"))
    try:
        parts = decoded(text, _Parts)
    except UnusableAnswerError as error:
        raise _UnusablePlanError(Fault((), str(error))) from error
    if isinstance(parts.tasks, list) and len(parts.tasks) > MOST_TASKS:
        raise _UnusablePlanError(Fault(("tasks",), f"expected at most {MOST_TASKS} tasks, got {len(parts.tasks):,}"))
    faults: list[Fault] = []
    tree = read_struct({"questions": parts.questions, "tasks": parts.tasks}, PlanAnswer, (), faults)
    if not faults:
        faults = _faults(tree["questions"], tree["tasks"], questions_left)
    if faults:
        raise _UnusablePlanError(*faults)
    return Plan(tuple(tree["questions"]), tuple(tree["tasks"]))


def told(fault: Fault) -> str:
    """A fault of an answer in one line, its place first."""
    return f"{json_path(fault.path)}: {fault.message}"


def _faults(questions: list[str], tasks: list[Any], questions_left: int) -> list[Fault]:
    faults = []
    if questions and not questions_left:
        faults.append(
            Fault(("questions",), "nobody can be asked any more: decide, and say in the task what you decided")
        )
    elif len(questions) > questions_left:
        faults.append(Fault(("questions",), f"expected at most {questions_left}, got {len(questions)}"))
    for index, question in enumerate(questions):
        if not question.strip() or len(question) > _LONGEST_QUESTION:
            faults.append(Fault(("questions", index), f"expected a question of at most {_LONGEST_QUESTION} characters"))
    if questions and tasks:
        faults.append(Fault(("tasks",), "must be empty while there are questions"))
    if not questions and not tasks:
        faults.append(Fault(("tasks",), "nothing is planned"))
    return faults
