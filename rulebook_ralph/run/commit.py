"""The commit of a completed task: the judged tree with the task's box ticked, and a message to recognise it by.

Nothing is judged by a box, and a box is never believed.
"""

from pathlib import PurePosixPath

from rulebook_ralph.git.landing import commit_tree
from rulebook_ralph.git.objects import Entry
from rulebook_ralph.git.repository import within_state
from rulebook_ralph.git.trees import with_entries
from rulebook_ralph.report.events import Notice
from rulebook_ralph.tasks.model import Task
from rulebook_ralph.tasks.text import printable
from rulebook_ralph.verify.case import Case, Judgement, Verifiers

_SUBJECT_LENGTH = 72
_COMMIT_MESSAGE = "commitMessage"
"""The key of a task's metadata for the commit's subject that its plan asks for."""


def commit_of(case: Case, judgement: Judgement, verifiers: Verifiers, *, agent: str, sign: bool) -> str:
    """What lands. The case keeps the tree without the tick: boxes side by side would be in each other's way where work
    is merged. Raises GitError where the commit cannot be made.
    """
    repository = verifiers.repository
    tree = _with_box_ticked(case, verifiers)
    commit = commit_tree(repository, tree, (case.base,), _message(case, judgement, agent), sign=sign)
    for ticked in (tree, commit):  # no gate looks at the box, so nothing is run again on it
        verifiers.gates.known_as(case.tree, ticked)
    return commit


def _message(case: Case, judgement: Judgement, agent: str) -> str:
    """A task's subject, what is said of the work, and trailers."""
    trailers = [
        f"Ralph-Task: {case.task.id}",
        f"Ralph-Iteration: {case.iteration}",
        f"Ralph-Attempt: {case.attempt}",
        f"Ralph-Agent: {agent}",
    ]
    evidence = judgement.evidence
    if evidence is not None and evidence.judged_by:
        trailers += [f"Ralph-Judged: {' '.join(printable(each.item).split())[:200]}" for each in evidence.asked]
    said = " ".join(printable(case.parsed.summary).split())
    return "\n\n".join(part for part in (_subject(case.task), said, "\n".join(trailers)) if part) + "\n"


def _subject(task: Task) -> str:
    """The message that the task's plan asks for, else its title."""
    asked = task.metadata.get(_COMMIT_MESSAGE)
    title = " ".join(printable(asked if isinstance(asked, str) and asked else task.title).split()) or task.id
    return title if len(title) <= _SUBJECT_LENGTH else title[: _SUBJECT_LENGTH - 1].rstrip() + "…"


def _with_box_ticked(case: Case, verifiers: Verifiers) -> str:
    """The tree with the box ticked in the file that the task came from; the same tree where there is none."""
    task, repository = case.task, verifiers.repository
    if not task.source or within_state(task.source):
        return case.tree
    from rulebook_ralph.tasks.importers import task_files  # noqa: PLC0415 - a Markdown parser

    name = task_files.file_of(task)
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts:
        return case.tree
    entry, before = repository.entry(case.tree, name), repository.file_of(case.tree, name)
    is_file = entry is not None and before is not None and entry.mode in ("100644", "100755")
    ticked = task_files.ticked(before, task) if is_file and before is not None else None
    if entry is None or ticked is None:
        if is_file or name == task.source:
            why = "it has no line of the task" if is_file else "git has no such file"
            verifiers.report(Notice("info", f"the box of {task.id} is not ticked in {name}: {why}"))
        return case.tree
    return with_entries(repository, case.tree, [(name, Entry(entry.mode, repository.objects.blob(ticked)))])
