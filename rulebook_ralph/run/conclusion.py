"""The end of a run: a last review of the branch, required gates that are still red, and the commit of the state."""

from collections.abc import Iterator

from rulebook_ralph.config.template import CONFIG_SCHEMA_NAME
from rulebook_ralph.git import attempts
from rulebook_ralph.git.landing import commit_tree
from rulebook_ralph.git.objects import Entry
from rulebook_ralph.git.trees import changes, with_entries
from rulebook_ralph.run.journal import PROGRESS
from rulebook_ralph.run.parts import Parts
from rulebook_ralph.run.policy import Stop
from rulebook_ralph.tasks import disk
from rulebook_ralph.tasks.model import STATE_FOLDER
from rulebook_ralph.tasks.review import feedback
from rulebook_ralph.tasks.text import some
from rulebook_ralph.verify.review import ReviewedChange
from rulebook_ralph.verify.reviewers import TaskCommit, by_task, reviewer_of_branch

MOST_REVIEWS = 2
"""So often `finalReviewer` may send tasks of a run back."""
_LARGEST_FILE = 16 * 1024 * 1024


def final_review(parts: Parts) -> tuple[str, ...]:
    """Have the final reviewer look at the work of all tasks; those that its findings reopen."""
    reviewers, repository = parts.verifiers.reviewers, parts.project.repository
    if reviewers is None or not parts.config.defaults.final_reviewer:
        return ()
    journal, made = parts.journal, {}
    for task in journal.prd.tasks:
        last = journal.last(task)
        if task.status == "completed" and last is not None and last.commit:
            made[last.iteration_number] = (task.id, last.commit)
    if not made:
        return ()
    commits = [made[number] for number in sorted(made)]
    base, tip = f"{commits[0][1]}^", parts.branch.tip()
    change = ReviewedChange(title=f"all tasks of {journal.prd.project}", base=base, tree=tip)
    review = reviewers.review(reviewer_of_branch(parts.config), "final", change, parts.report)
    if review.decision != "REVISE":
        if review.decision == "UNDECIDED":
            parts.notice("warning", f"the final review came to no decision: {review.reason}")
        return ()
    files = (frozenset(each.path for each in changes(repository, f"{commit}^", commit)) for _, commit in commits)
    found = by_task(review, [TaskCommit(task_id, paths) for (task_id, _), paths in zip(commits, files, strict=True)])
    parts.notice("info", f"the final review sent back: {some(sorted(found))}")
    journal.reopen({task_id: feedback(own) for task_id, own in found.items()})
    return tuple(found)


def honest(parts: Parts, stop: Stop) -> Stop:
    """The stop as it may be said: nothing is complete while a required gate is red, or the branch waits."""
    if stop.stop_reason != "complete":
        return stop
    red = parts.verifiers.gates.red_required(parts.branch.tip())
    if red:
        return Stop("blocked", f"{stop.reason}, but required gates are red: {some(red)}")
    if parts.branch.waiting is not None:
        return Stop("blocked", f"{stop.reason}, but {parts.branch.why_it_waits}")
    return stop


def commit_state(parts: Parts, message: str) -> None:
    """Commit the state folder onto the branch, in a commit of its own; nothing where nothing of it changed."""
    repository, journal, branch = parts.project.repository, parts.journal, parts.branch
    if parts.config.git.state_commit == "none" or journal.saved is None or branch.waiting is not None:
        return
    if repository.branch() != branch.name and journal.is_here():
        return  # files that git does not know here would keep a person from switching to the branch
    if repository.answer("check-ignore", "-q", "--", f"{STATE_FOLDER}/prd.json") is not None:
        return
    tip = branch.tip()
    tree = with_entries(repository, tip, _changed(parts, tip))
    if tree == repository.tree_of(tip):
        return
    commit = commit_tree(repository, tree, (tip,), f"{message}\n", sign=parts.sign)
    branch.land(commit, tip, reason=message)


def _changed(parts: Parts, tip: str) -> Iterator[tuple[str, Entry | None]]:
    """The state's files that differ from the branch's: the saved ones, progress.txt, and those that a person keeps
    beside the state, unless they hold a secret.
    """
    repository, journal, folder = parts.project.repository, parts.journal, parts.project.folder
    there, saved = (attempts.entries_of_state(repository, each) for each in (tip, journal.saved or tip))
    beside = {PROGRESS: journal.progress_bytes}
    if repository.branch() == parts.branch.name:  # else it is another branch's files that stand in the folder
        beside[PROGRESS] = disk.content_of(folder.progress) or b""
        for path in (folder.config, folder.path / CONFIG_SCHEMA_NAME, *sorted(folder.templates.glob("*.j2"))):
            text = (data := disk.content_of(path) or b"").decode("utf-8", "replace")
            if parts.redactor.clean(text) == text:
                beside[path.relative_to(folder.path).as_posix()] = data
    for name, entry in saved.items():
        if there.get(name) != entry:
            yield f"{STATE_FOLDER}/{name}", entry
    for name, data in beside.items():
        if 0 < len(data) <= _LARGEST_FILE:
            yield f"{STATE_FOLDER}/{name}", Entry("100644", repository.objects.blob(data))
    for name in there.keys() - saved.keys():
        if name.startswith("history/"):
            yield f"{STATE_FOLDER}/{name}", None
