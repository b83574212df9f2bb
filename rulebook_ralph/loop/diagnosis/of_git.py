"""git, the repository and what of them would stop a run."""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from rulebook_ralph.core.enumeration import some
from rulebook_ralph.core.model import Prd
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop import preflight, standing_work
from rulebook_ralph.loop.diagnosis.diagnosis import Diagnosis, ok, refused, unknown, warning, wrong
from rulebook_ralph.loop.diagnosis.place import Place
from rulebook_ralph.loop.project import Project
from rulebook_ralph.workspace import commits
from rulebook_ralph.workspace.git import Git
from rulebook_ralph.workspace.repository import require_branch
from rulebook_ralph.workspace.standing_tree import onlooking

_OLDEST = (2, 24)
"""The first git that knows `--end-of-options`, which Ralph gives it."""

_HOOKS = ("pre-commit", "commit-msg")


def examine(place: Place) -> Iterator[Diagnosis]:
    """Everything about git, as far as there is a repository with a commit."""
    program = shutil.which("git", path=place.environment.get("PATH"))
    if program is None:
        yield wrong("git is not installed or not on PATH", "install git")
        return
    yield version(Git.at(Path("/"), place.environment).text("--version"), program)
    project = place.project
    if project is None or not place.has_commit:
        if place.no_repository is not None:
            yield refused(place.no_repository)
        return
    repository = project.repository
    yield ok(f"repository {project.root}, on {_where(project)}")
    yield _told(lambda: commits.identity(repository).author, "commits are made by {}")
    yield _told(lambda: preflight.require_nothing_unfinished(project), "no merge or rebase is unfinished")
    if place.prd is not None:
        yield branch(project, place.prd, place.prd_bytes)
    yield tree(project)
    yield hooks(project)
    if commits.wants_signing(repository):
        yield signing(project)


def version(told: str, program: str) -> Diagnosis:
    """What `git --version` says."""
    found = re.search(r"(\d+)\.(\d+)\S*", told)
    if found is None:
        return unknown(f"{program}: its version cannot be read from {told[:60]!r}")
    if (int(found[1]), int(found[2])) < _OLDEST:
        return wrong(f"git {found[0]} ({program}) is too old", f"install git {_OLDEST[0]}.{_OLDEST[1]} or newer")
    return ok(f"git {found[0]} ({program})")


def branch(project: Project, prd: Prd, data: bytes) -> Diagnosis:
    """Where the work is to happen, and whether a run gets there."""
    repository, wanted = project.repository, prd.work_branch
    if repository.is_on(wanted):
        return ok(f"on branch {wanted}, where the work happens")
    try:
        require_branch(repository, wanted)
        preflight.require_same_state(project, prd, data)
    except RalphError as error:
        return refused(error)
    if f"branch refs/heads/{wanted}" in repository.git.text("worktree", "list", "--porcelain").splitlines():
        return wrong(f"branch {wanted} is checked out in another work tree", "run there: git worktree list")
    there = repository.tip(wanted)
    return ok(f"the run {'switches to' if there else 'creates'} branch {wanted}, where the work happens")


def tree(project: Project) -> Diagnosis:
    """Whether tracked files are as HEAD has them, or as an unfinished attempt of Ralph's left them."""
    modified = project.repository.modified()
    if not modified:
        return ok("no tracked file is modified")
    try:
        kept = _kept_work(project)
    except RalphError as error:
        return refused(error)
    except OSError:  # of the history, which is told elsewhere
        kept = ""
    if kept:
        return ok(f"modified by the unfinished attempt at {kept}, which the next one goes on from: {some(modified)}")
    return wrong(f"tracked files have uncommitted changes: {some(modified)}", "commit or stash them: git stash")


def _kept_work(project: Project) -> str:
    with onlooking(project.repository) as workspace:
        kept = standing_work.kept_work(project, workspace)
    return kept.task_id if kept else ""


def hooks(project: Project) -> Diagnosis:
    """The commit hooks that every candidate must pass."""
    folder = project.repository.hooks_folder()
    there = [name for name in _HOOKS if (folder / name).is_file()]
    idle = [name for name in there if not os.access(folder / name, os.X_OK)]
    if idle:
        return warning(f"{some(idle)} in {folder} is not executable, so it is not run", f"chmod +x {folder / idle[0]}")
    if there:
        return ok(f"commit hooks: {some(there)} in {folder}; each commit must pass them, and they can ask nobody")
    return ok("no commit hooks")


def signing(project: Project) -> Diagnosis:
    """Tries to sign, as a run does before it starts."""
    problem = commits.signing_problem(project.repository)
    if problem is not None:
        return wrong(
            f"commits are to be signed (commit.gpgSign), but signing fails: {problem}",
            "unlock the key, or: git config commit.gpgSign false",
        )
    return unknown(
        "commits are signed, which works now; whether the key asks for a passphrase again at night nobody can tell",
        "use one that does not, or: git config commit.gpgSign false",
    )


def _told(look: Callable[[], str | None], text: str) -> Diagnosis:
    try:
        return ok(text.format(look()))
    except RalphError as error:
        return refused(error)


def _where(project: Project) -> str:
    repository = project.repository
    name = repository.branch()
    return f"{name} at {repository.head()[:8]}" if name else f"no branch, at {repository.head()[:8]}"
