"""`ralph restore`: an earlier attempt, on a branch of its own or in a folder; the tree is git's own business."""

import shlex
from pathlib import Path

import click

from rulebook_ralph.cli.app import App
from rulebook_ralph.cli.places import open_root, refuse_agents
from rulebook_ralph.errors import RalphError
from rulebook_ralph.git import attempts
from rulebook_ralph.git.landing import commit_tree
from rulebook_ralph.git.repository import GitError, Repository
from rulebook_ralph.tasks import history
from rulebook_ralph.tasks.disk import StateFolder
from rulebook_ralph.tasks.prd_file import read_prd


@click.command()
@click.argument("number", type=click.IntRange(min=1), metavar="N")
@click.option("--branch", metavar="NAME", help="Make a new branch NAME at the attempt.")
@click.option("--to", "target", metavar="FOLDER", type=click.Path(path_type=Path), help="Write its files there.")
@click.pass_obj
def command(app: App, number: int, *, branch: str | None, target: Path | None) -> int:
    """Bring back the attempt of iteration N: it is a commit whose parent is the base that it was made on.

    Without an option the commands are printed with which git itself brings it into your tree, as a whole or in part.
    """
    refuse_agents(app, "'ralph restore' is refused")
    root, repository = open_root(app)
    commit = _attempt(repository, StateFolder(root), number)
    with app.console() as console:
        if branch is not None:
            _make_branch(repository, branch, commit, number)
            console.line(
                f"#{number} is on the new branch {branch}; look at it: git show {shlex.quote(branch)}; "
                f"take it: git cherry-pick {shlex.quote(branch)}"
            )
        if target is not None:
            _write(repository, commit, app.cwd / target)
            console.line(f"#{number} is written to {target}")
        if branch is None and target is None:
            console.line(f"#{number} is commit {commit[:12]}; bring it in with git:")
            console.line(f"  git cherry-pick --no-commit -m 1 {commit[:12]}    what it changed, onto your tree")
            console.line(f"  git restore --source={commit[:12]} -- PATH…       some of its files, as they were")
    return 0


def _attempt(repository: Repository, folder: StateFolder, number: int) -> str:
    """The commit of an iteration's attempt. Raises RalphError."""
    project = read_prd(folder.prd).project
    found = [
        commit for name, commit in attempts.attempts_of(repository, project).items() if name.endswith(f"/{number}")
    ]
    if not found:
        history.read(folder, number)  # says so where there is no such iteration
        raise RalphError(f"#{number} has no attempt in this repository: its agent has not ended, or it was pruned")
    return found[0]


def _make_branch(repository: Repository, branch: str, attempt: str, number: int) -> None:
    """At a commit of the attempt's tree on its base, without what Ralph keeps beside it."""
    if not repository.can_name_branch(branch):
        raise RalphError(f"'{branch}' is no valid name of a branch; name another")
    if repository.tip(branch) is not None:
        raise RalphError(f"there is a branch {branch} already; name another")
    attempts.require_identity(repository)
    message = f"Attempt of iteration {number}\n\nBrought back by ralph restore.\n"
    try:
        tree, base = repository.tree_of(attempt), f"{attempt}^1"
        commit = commit_tree(repository, tree, (base,), message, sign=attempts.wants_signing(repository))
        repository.run("update-ref", f"refs/heads/{branch}", commit, repository.no_object)
    except GitError as error:
        raise RalphError(f"the branch {branch} cannot be made: {error.stderr or error}; name another") from None


def _write(repository: Repository, commit: str, target: Path) -> None:
    """The attempt's files into a new or empty folder, by git's own checkout of an index of its own."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise RalphError(f"{target} exists already; name an empty or new folder")
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RalphError(f"cannot make {target}: {error.strerror}; name another folder") from None
    index = repository.private / "restore-index"
    repository.private.mkdir(parents=True, exist_ok=True)
    try:
        repository.run("read-tree", commit, index=index)
        repository.run("checkout-index", "-a", f"--prefix={target.resolve()}/", index=index)
    finally:
        index.unlink(missing_ok=True)
