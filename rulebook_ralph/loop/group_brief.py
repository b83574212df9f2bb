"""What a brief says of several tasks that are worked on at once: to the templates they are one, with a section each."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from rulebook_ralph.core.criteria import Criteria
from rulebook_ralph.core.group import as_one
from rulebook_ralph.core.model import Task
from rulebook_ralph.core.token_estimate import tokens
from rulebook_ralph.loop import expectations
from rulebook_ralph.loop.token_budget import cut

RULE = "Several tasks are named below: where these rules speak of the task, each of them is meant."
_MOST_FILES = 20
_HOW = (
    "These are {many} tasks, and none needs another of them. Give each to a subagent of its own, all of them in ONE "
    "message with {many} Task calls: they work at once, in this tree. Tell each subagent its own section below whole, "
    "the rules, the gates and, where there is feedback, what of it is about its task; and that it keeps to the files "
    "its task needs. Wait for all. They are judged together and committed together: one task that does not hold sends "
    "all of them back, and the work of the others stays. The report and the promise are given once, for all of them."
)


def shown_as_one(tasks: Sequence[tuple[Task, Criteria]], limit: int) -> Task:
    """The tasks as one whose description has a section for each, in `limit` tokens together."""
    how = _HOW.format(many=len(tasks))
    room = max(0, limit - tokens(how)) // len(tasks) - 2
    sections = (cut("\n\n".join(_section(task, criteria)), room) for task, criteria in tasks)
    return replace(
        as_one([task for task, _ in tasks]),
        id=", ".join(task.id for task, _ in tasks),
        title=f"{len(tasks)} tasks at once",
        description="\n\n".join([how, *sections]),
        outcome="",
        notes="",
        acceptance_criteria=(),
        relevant_files=(),
    )


def _section(task: Task, criteria: Criteria) -> Iterator[str]:
    yield f"## Task {task.id}: {' '.join(task.title.split())}"
    if task.description:
        yield task.description
    if task.outcome:
        yield f"Outcome: {task.outcome}"
    if criteria.description not in ("", task.outcome):
        yield f"What it must bring about: {criteria.description}"
    if task.acceptance_criteria:
        yield _listed("Acceptance criteria:", task.acceptance_criteria)
    if task.notes:
        yield f"Notes from a person:\n{task.notes}"
    if task.relevant_files:
        yield _listed("Files to look at first:", task.relevant_files[:_MOST_FILES])
    if checks := expectations.told(criteria, task):
        yield _listed("How it will be verified, besides the gates:", checks)


def _listed(heading: str, lines: Sequence[str]) -> str:
    return "\n".join([heading, *(f"- {line}" for line in lines)])
