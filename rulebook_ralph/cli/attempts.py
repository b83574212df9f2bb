"""`ralph restore` and `ralph prune`: an earlier attempt brought back, and old ones removed."""

import shlex
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import click

from rulebook_ralph.cli.app import App
from rulebook_ralph.cli.delivery import alone
from rulebook_ralph.cli.places import open_project, open_root, refuse_agents
from rulebook_ralph.errors import RalphError
from rulebook_ralph.git import attempts
from rulebook_ralph.git.cache import remove_vanished
from rulebook_ralph.git.landing import commit_tree, require_committer
from rulebook_ralph.git.repository import GitError, Repository
from rulebook_ralph.report.console import Console
from rulebook_ralph.run import pruning
from rulebook_ralph.run.pruning import Pruning
from rulebook_ralph.tasks import history
from rulebook_ralph.tasks.disk import StateFolder
from rulebook_ralph.tasks.prd_file import read_prd
from rulebook_ralph.tasks.text import counted, some

_KIB = 1024
_MOST_RANGES = 8


@click.command("restore")
@click.argument("number", type=click.IntRange(min=1), metavar="N")
@click.option("--branch", metavar="NAME", help="Make a new branch NAME at the attempt.")
@click.option("--to", "target", metavar="FOLDER", type=click.Path(path_type=Path), help="Write its files there.")
@click.pass_obj
def restore_command(app: App, number: int, *, branch: str | None, target: Path | None) -> None:
    """Bring back the attempt of iteration N: it is a commit whose parent is the base that it was made on.

    Without an option the commands are printed with which git itself brings it into your tree, as a whole or in part.
    """
    refuse_agents(app, "'ralph restore' is refused")
    root, repository = open_root(app)
    commit = _attempt(repository, StateFolder(root), number)
    with app.console() as console:
        if branch is not None:
            _make_branch(repository, branch, commit, number)
            name = shlex.quote(branch)
            console.line(
                f"#{number} is on the new branch {branch}; look at it: git show {name}; take it: git cherry-pick {name}"
            )
        if target is not None:
            _write(repository, commit, app.cwd / target)
            console.line(f"#{number} is written to {target}")
        if branch is None and target is None:
            console.line(f"#{number} is commit {commit[:12]}; bring it in with git:")
            console.line(f"  git cherry-pick --no-commit -m 1 {commit[:12]}    what it changed, onto your tree")
            console.line(f"  git restore --source={commit[:12]} -- PATH…       some of its files, as they were")


def _attempt(repository: Repository, folder: StateFolder, number: int) -> str:
    """The commit of an iteration's attempt. Raises RalphError."""
    project = read_prd(folder.prd).project
    for name, commit in attempts.attempts_of(repository, project).items():
        if name.endswith(f"/{number}"):
            return commit
    history.read(folder, number)  # says so where there is no such iteration
    raise RalphError(f"#{number} has no attempt in this repository: its agent has not ended, or it was pruned")


def _make_branch(repository: Repository, branch: str, attempt: str, number: int) -> None:
    """At a commit of the attempt's tree on its base, without what Ralph keeps beside it."""
    if not repository.can_name_branch(branch):
        raise RalphError(f"'{branch}' is no valid name of a branch; name another")
    if repository.tip(branch) is not None:
        raise RalphError(f"there is a branch {branch} already; name another")
    signs = require_committer(repository)
    message = f"Attempt of iteration {number}\n\nBrought back by ralph restore.\n"
    try:
        tree, base = repository.tree_of(attempt), f"{attempt}^1"
        commit = commit_tree(repository, tree, (base,), message, sign=signs)
        repository.run("update-ref", f"refs/heads/{branch}", commit, "")
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


@click.command("prune")
@click.option("--keep", type=click.IntRange(min=1), default=100, show_default=True, metavar="N", help="The newest N.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@click.option("--yes", "-y", is_flag=True, help="Do it without asking.")
@click.option("--json", is_flag=True, help="Print one JSON object; asks nothing.")
@click.pass_obj
def prune_command(app: App, *, keep: int, dry_run: bool, yes: bool, json: bool) -> None:
    """Remove old iterations: their files in history/ and their attempts under refs/ralph/.

    Kept are the newest N of each, all of tasks that are not completed, and what is not settled. Numbering, totals and
    progress.txt stay. Says what goes and asks; where nobody can be asked, nothing is removed without --yes. Git still
    has the files in its commits; the attempts are gone for good. Clones of repositories that are gone go, too.
    """
    with app.console(json=json) as console:
        if dry_run:
            project = open_project(app).project
            planned = pruning.plan(project, read_prd(project.folder.prd), keep=keep)
            _tell(console, planned)
        else:
            planned = _prune(app, console, keep=keep, yes=yes, asks=not json and app.has_person)
        if json:
            console.json(
                {
                    "removed": not dry_run and bool(planned.numbers),
                    "iterations": planned.numbers,
                    "files": [f"history/iteration-{number}.json" for number in planned.files],
                    "bytes": planned.size,
                    "attempts": sorted(planned.references),
                    "keptFiles": planned.kept_files,
                    "keptAttempts": planned.kept_attempts,
                }
            )


def _prune(app: App, console: Console, *, keep: int, yes: bool, asks: bool) -> Pruning:
    """Under the lock. Raises RalphError where nobody agrees to what there is to remove."""
    with alone(app, "prune") as (project, _, _):
        prd = read_prd(project.folder.prd)
        planned = pruning.plan(project, prd, keep=keep)
        _tell(console, planned)
        if planned.numbers:
            if not (yes or asks):
                raise RalphError("nothing was removed; give --yes to remove this, or --dry-run to only look")
            if not yes and not click.confirm("Remove this?"):
                raise RalphError("nothing was removed")
            pruning.carry_out(project, prd, planned)
            console.line("removed")
        if removed := remove_vanished(project.cache):
            console.line(f"removed the clones of {counted(removed, 'vanished repository', 'vanished repositories')}")
        return planned


def _tell(console: Console, planned: Pruning) -> None:
    stays = f"{counted(planned.kept_files, 'iteration file')} and {counted(planned.kept_attempts, 'attempt')} stay"
    if not planned.numbers:
        console.line(f"nothing to be removed; {stays}")
        return
    files = f"{counted(len(planned.files), 'iteration file')} ({planned.size / _KIB:,.0f} KiB)"
    of = f"of iterations {some(list(_ranges(planned.numbers)), _MOST_RANGES)}"
    console.line(f"to be removed: {files} and {counted(len(planned.references), 'attempt')}, {of}; {stays}")


def _ranges(numbers: tuple[int, ...]) -> Iterator[str]:
    """`1-3`, `7`, `9-12`."""
    for _, group in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        yield str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}"
