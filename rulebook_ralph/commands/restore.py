"""`ralph restore N`: what an attempt made, brought back from its snapshot."""

import re
from dataclasses import dataclass
from pathlib import Path

import click

from rulebook_ralph.app import App
from rulebook_ralph.commands.exclusive import exclusive, is_on_branch
from rulebook_ralph.commands.projects import open_root
from rulebook_ralph.core.enumeration import counted, some
from rulebook_ralph.core.evidence import Iteration
from rulebook_ralph.core.model import Prd
from rulebook_ralph.core.settings import Config
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop import leftovers, preflight, restored, standing_work
from rulebook_ralph.loop.landing import Kept
from rulebook_ralph.loop.project import Project, refuse_second_state
from rulebook_ralph.loop.restored import Restored
from rulebook_ralph.state import history, store
from rulebook_ralph.state.store import StateFolder
from rulebook_ralph.workspace import commits, restoring
from rulebook_ralph.workspace.restoring import Attempt
from rulebook_ralph.workspace.snapshot import Workspace

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Found:
    """An iteration whose snapshot is there."""

    number: int
    task_id: str
    attempt: Attempt

    @property
    def name(self) -> str:
        return f"iteration {self.number} ({self.task_id})"


@click.command()
@click.argument("number", type=click.IntRange(min=1), metavar="N")
@click.option("--to", "folder", metavar="FOLDER", help="Write its whole tree into a new folder; touch nothing else.")
@click.option("--branch", metavar="NAME", help="Make a branch with a commit of it; touch no file.")
@click.option("--undo", is_flag=True, help="Take it out of the work tree again.")
@click.pass_obj
def command(app: App, number: int, *, folder: str | None, branch: str | None, undo: bool) -> int:
    """Bring back what the attempt of iteration N made.

    Puts the files that the attempt added, changed or deleted into the work tree, as it left them, uncommitted, for you
    or the next run to go on from: 'ralph resume' does where the task is open and nothing is changed meanwhile. Work of
    another attempt that stands in the tree, and is saved, makes room. Nothing of yours is overwritten: modified and
    untracked files in the way are named, and nothing is done, nor where a run goes on, or where the branch has other
    versions of those files since. --branch and --to bring it back beside your tree. State and git's index stay.
    """
    if sum((folder is not None, branch is not None, undo)) > 1:
        raise RalphError("give one of --to, --branch and --undo")
    root, repository = open_root(app)
    state = StateFolder(root)
    refuse_second_state(repository, state)
    project = Project(root, state, repository, Config(), app.environment)
    prd = store.read_prd(state)
    if undo:
        told = _take_out(app, project, prd, number)
    elif branch is not None:
        told = _make_branch(app, project, _find(project, prd, number), branch)
    elif folder is not None:
        told = _write(app, project, _find(project, prd, number), folder)
    else:
        told = _put_into_tree(app, project, prd, number)
    with app.console() as console:
        console.line(told)
    return 0


def _find(project: Project, prd: Prd, number: int) -> Found:
    """The iteration's attempt, by its file, else by its ref. Raises RalphError."""
    commit, task_id = _snapshot(project, prd, number)
    attempt = restoring.read_attempt(project.repository, commit)
    if attempt is None:
        raise RalphError(
            f"the snapshot {commit[:12]} of iteration {number} ({task_id}) is not whole in this repository any more: "
            "it was removed, or never fetched"
        )
    return Found(number, task_id, attempt)


def _snapshot(project: Project, prd: Prd, number: int) -> tuple[str, str]:
    """Commit and task."""
    record = history.read(project.folder, number) if project.folder.iteration(number).exists() else None
    refs = restoring.snapshots_of(project.repository, prd.project, number)
    if record is None:
        if len(refs) != 1:
            history.read(project.folder, number)  # which says why not
            raise RalphError(f"iteration {number} has no file, and more than one snapshot: {some(sorted(refs))}")
        ((task_id, commit),) = refs.items()
        return commit, task_id
    if commit := _named(record) or refs.get(record.task_id, ""):
        return commit, record.task_id
    raise RalphError(f"iteration {number} ({record.task_id}) has no snapshot: its agent has not ended")


def _named(record: Iteration) -> str:
    """The commit that a record names; what else a person wrote there is none."""
    return record.snapshot if record.snapshot and _COMMIT.fullmatch(record.snapshot) else ""


def _put_into_tree(app: App, project: Project, prd: Prd, number: int) -> str:
    repository = project.repository
    with exclusive(app, repository, project.folder, command="restore"):
        found = _find(project, prd, number)
        preflight.require_nothing_unfinished(project)
        is_on_branch(repository, prd, otherwise=" (or give --branch NAME or --to FOLDER)")
        workspace = Workspace(repository)
        standing_work.end_leaving(project, workspace)
        kept = _standing(project, workspace, number)
        standing, wanted = (
            kept.tree if kept else repository.tree_of("HEAD"),
            restoring.upon_head(repository, found.attempt),
        )
        modified = () if kept else repository.modified()
        if others := restoring.in_the_way(repository, standing, wanted, modified):
            raise RalphError(
                f"files of yours are modified, or not committed and in the way: {some(others)}; commit, stash or move "
                "them first, or give --branch NAME or --to FOLDER"
            )
        note = Restored(number, found.task_id, wanted, restored.newest_number(project))
        restored.remember(project, note)
        restoring.place(workspace, standing, wanted)
        changed = len(restoring.differences(repository, repository.tree_of("HEAD"), wanted))
        return _told(found, note, prd, changed)


def _told(found: Found, note: Restored, prd: Prd, changed: int) -> str:
    if changed == 0:
        return f"{found.name} left nothing that the branch does not have; the tree is as HEAD"
    task = next((task for task in prd.tasks if task.id == note.task_id), None)
    left_out = found.attempt.repositories
    besides = f" (without what git does not keep, of the repositories in it: {some(left_out)})" if left_out else ""
    return (
        f"{found.name} stands in the work tree again, {counted(changed, 'file')} changed{besides}; "
        f"{restored.go_on(task, note)}; look at it: ralph show {note.number} --diff; "
        f"take it out: ralph restore {note.number} --undo"
    )


def _standing(project: Project, workspace: Workspace, number: int) -> Kept | None:
    """The saved work of an attempt that stands in the tree; where one was half brought back, each file is looked at."""
    note = restored.noted(project)
    if note is not None and restored.stands(workspace, note):
        return Kept(note.task_id, note.tree)
    try:
        return standing_work.work_of_last(project, workspace)
    except RalphError:
        if note is None or note.number != number:
            raise
        return None


def _take_out(app: App, project: Project, prd: Prd, number: int) -> str:
    repository = project.repository
    with exclusive(app, repository, project.folder, command="restore"):
        is_on_branch(repository, prd)
        workspace = Workspace(repository)
        note = restored.noted(project)
        begun = standing_work.end_leaving(project, workspace)
        if begun is None or begun != _tree(project, prd, note, number):
            kept = _standing(project, workspace, number)
            whose = note.number if note and kept and note.tree == kept.tree else restored.newest_number(project)
            if kept is None or whose != number:
                raise RalphError(f"what iteration {number} left does not stand in the tree as it was; see: git status")
            leftovers.begin_leaving(project, kept.tree)
            restoring.place(workspace, kept.tree, repository.tree_of("HEAD"))
            leftovers.end_leaving(project)
        restored.forget(project)
    return f"the work of iteration {number} left the tree; bring it back: ralph restore {number}"


def _tree(project: Project, prd: Prd, note: Restored | None, number: int) -> str:
    """With the work of that iteration in it."""
    if note is not None and note.number == number:
        return note.tree
    return project.repository.tree_of(_snapshot(project, prd, number)[0])


def _make_branch(app: App, project: Project, found: Found, branch: str) -> str:
    repository = project.repository
    preflight.require_committer(project)
    message = f"Attempt at {found.task_id} (iteration {found.number})\n\nBrought back by ralph restore.\n"
    with exclusive(app, repository, project.folder, command="restore"):
        sign = commits.wants_signing(repository)
        commit = restoring.make_branch(repository, found.attempt, branch, message, sign=sign)
    return (
        f"{found.name} is commit {commit[:10]} on the new branch {branch}; look at it: git show {branch}; "
        f"take it: git cherry-pick {branch}; forget it: git branch -D {branch}"
    )


def _write(app: App, project: Project, found: Found, folder: str) -> str:
    target = app.cwd / Path(folder)
    restoring.write_to(project.repository, found.attempt, target)
    return f"{found.name} is written to {folder}; what it changed: ralph show {found.number} --diff"
