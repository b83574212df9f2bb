"""What a planner answered: read strictly, or refused with everything that is wrong (schemas/plan.schema.json)."""

from typing import Any

import msgspec

from rulebook_ralph.checks.model_answer import UnusableAnswerError, decoded
from rulebook_ralph.core.plan import MOST_TASKS, Answer, Plan
from rulebook_ralph.core.problem import Fault
from rulebook_ralph.core.struct_reading import read_struct

LONGEST_PLAN = 200_000
"""Characters; a run takes no larger edit (control.MOST_BYTES)."""

_LONGEST_QUESTION = 500


class UnusablePlanError(Exception):
    """The answer is no plan: every fault with its place, as the planner and a person can be told."""

    def __init__(self, *faults: Fault) -> None:
        super().__init__(f"{len(faults)} faults")
        self.faults = faults


class _Parts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer before anything in it is looked at."""

    questions: Any
    tasks: Any


def read_plan(text: str, *, questions_left: int) -> Plan:
    """The plan, or up to `questions_left` questions. Its tasks are not compared with anything yet.

    Raises UnusablePlanError.
    """
    if len(text) > LONGEST_PLAN:
        raise UnusablePlanError(Fault((), f"the answer is longer than {LONGEST_PLAN:,} characters"))
    try:
        parts = decoded(text, _Parts)
    except UnusableAnswerError as error:
        raise UnusablePlanError(Fault((), str(error))) from error
    if isinstance(parts.tasks, list) and len(parts.tasks) > MOST_TASKS:
        raise UnusablePlanError(Fault(("tasks",), f"expected at most {MOST_TASKS} tasks, got {len(parts.tasks):,}"))
    faults: list[Fault] = []
    tree = read_struct({"questions": parts.questions, "tasks": parts.tasks}, Answer, (), faults)
    if not faults:
        faults = _faults(tree["questions"], tree["tasks"], questions_left)
    if faults:
        raise UnusablePlanError(*faults)
    return Plan(tuple(tree["questions"]), tuple(tree["tasks"]))


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
