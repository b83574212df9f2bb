"""Unfinished work in the user's tree, at a start: what stands there, and what was on its way out."""

from collections.abc import Sequence
from pathlib import Path

from rulebook_ralph.core.enumeration import some
from rulebook_ralph.core.evidence import Iteration
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop import leftovers, restored
from rulebook_ralph.loop.landing import Kept
from rulebook_ralph.loop.project import Project
from rulebook_ralph.loop.unfinished import goes_on
from rulebook_ralph.state import history
from rulebook_ralph.workspace.snapshot import Workspace


def end_leaving(project: Project, workspace: Workspace) -> str | None:
    """Take away the rest of unfinished work that a dead run or `ralph restore --undo` had begun to take away, unless
    somebody changed the tree since; returns the tree with that work, None where there is none.
    """
    tree = leftovers.leaving(project)
    if tree is None:
        return None
    if project.repository.tree_exists(tree):
        opening = workspace.open(tree)
        standing = workspace.capture(opening)
        if is_on_the_way(project, workspace, standing, tree, opening.tree):
            workspace.restore(opening, standing)
    leftovers.end_leaving(project)
    return tree


def kept_work(project: Project, workspace: Workspace) -> Kept | None:
    """The unfinished work that `ralph restore` brought back, or that the last iteration left, and that still stands as
    it was, or None.
    """
    return restored.kept(project, workspace) or work_of_last(project, workspace)


def worked_elsewhere(project: Project, left: Sequence[Iteration]) -> bool:
    """Whether a dead run, which left these iterations open, worked in checkouts of its own, so that the user's tree and
    index were a person's alone.
    """
    if left or project.config.is_isolated:
        return all(record.isolated for record in left)
    last = _last(project)
    return last is not None and last.isolated


def work_of_last(project: Project, workspace: Workspace) -> Kept | None:
    """The unfinished work that the last iteration left and that still stands as it was, or None."""
    last = _last(project)
    if last is None:
        return None
    cancelled = last.completion_status == "cancelled"  # the run may have died before it had put the tree back
    if last.tree is None or last.isolated or last.rolled_back or not (cancelled or goes_on(last)):
        return None
    if not project.repository.tree_exists(last.tree):
        return None
    opening = workspace.open(last.tree)
    stands = not workspace.changes(workspace.capture(opening), last.tree)
    unfinished = workspace.changes(opening.tree, last.tree)
    if stands or not unfinished:
        return Kept(last.task_id, last.tree) if unfinished else None
    new = [change.path for change in unfinished if change.kind == "A" and (project.root / change.path).exists()]
    if new:
        raise RalphError(
            f"unfinished work of {last.task_id} was changed since iteration {last.iteration_number}, and its new files "
            f"are not committed: {some(new)}; commit them, or move them away"
        )
    return None


def _last(project: Project) -> Iteration | None:
    numbers = history.numbers(project.folder)
    try:
        return history.read(project.folder, numbers[-1]) if numbers else None
    except RalphError:
        return None


def is_on_the_way(project: Project, workspace: Workspace, standing: str, tree: str, base: str) -> bool:
    """Whether a rollback of `tree` to `base` was begun at the most: every path is as in one of them, or removed and not
    yet whole again.
    """
    changed = {change.path: change.kind for change in workspace.changes(tree, standing)}
    others = [change.path for change in workspace.changes(base, standing) if change.path in changed]
    return all(
        changed[path] == "D" or _begins(project.root / path, project.repository.file_of(base, path)) for path in others
    )


def _begins(path: Path, content: bytes | None) -> bool:
    """Whether a file has the beginning of that content: the rest was still to be written."""
    try:
        return content is not None and not path.is_symlink() and content.startswith(path.read_bytes())
    except OSError:
        return False
