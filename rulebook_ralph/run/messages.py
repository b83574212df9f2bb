"""The messages of Ralph's commits: a task's subject, what is said of the work, and trailers to recognise it by."""

from typing import TYPE_CHECKING

from rulebook_ralph.tasks.model import Task
from rulebook_ralph.tasks.text import printable
from rulebook_ralph.verify.case import Judgement

if TYPE_CHECKING:
    from rulebook_ralph.run.attempt import Assignment

_SUBJECT_LENGTH = 72
COMMIT_MESSAGE = "commitMessage"
"""The key of a task's metadata for the commit's subject that its plan asks for."""


def subject(task: Task) -> str:
    """The first line of a task's commit: the message that its plan asks for, else its title."""
    asked = task.metadata.get(COMMIT_MESSAGE)
    title = " ".join(printable(asked if isinstance(asked, str) and asked else task.title).split()) or task.id
    return title if len(title) <= _SUBJECT_LENGTH else title[: _SUBJECT_LENGTH - 1].rstrip() + "…"


def commit_message(assignment: "Assignment", words: str, judgement: Judgement) -> str:
    """The whole message of a task's commit."""
    trailers = [
        f"Ralph-Task: {assignment.task.id}",
        f"Ralph-Iteration: {assignment.number}",
        f"Ralph-Attempt: {assignment.attempt}",
        f"Ralph-Agent: {assignment.agent.name}",
    ]
    evidence = judgement.evidence
    if evidence is not None and evidence.judged_by:
        trailers += [f"Ralph-Judged: {' '.join(printable(each.item).split())[:200]}" for each in evidence.asked]
    said = " ".join(printable(words).split())
    return "\n\n".join(part for part in (subject(assignment.task), said, "\n".join(trailers)) if part) + "\n"
