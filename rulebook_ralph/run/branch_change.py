"""What `ralph review` is about: a branch since it left the default one, with what is not committed yet."""

from dataclasses import dataclass

from rulebook_ralph.errors import RalphError
from rulebook_ralph.git.repository import Repository
from rulebook_ralph.run.verifying import standing_tree
from rulebook_ralph.tasks.model import STATE_FOLDER
from rulebook_ralph.verify.review import ReviewedChange

_DEFAULT_BRANCHES = (
    "refs/remotes/origin/HEAD",
    "refs/remotes/origin/main",
    "refs/remotes/origin/master",
    "refs/heads/main",
    "refs/heads/master",
)
_MOST_COMMITS = 200


@dataclass(frozen=True, slots=True)
class BranchChange:
    """The change since the commit `base`. `uncommitted`: the tree has more than the commits."""

    base: str
    change: ReviewedChange
    uncommitted: bool
    is_empty: bool


def branch_change(repository: Repository, base: str = "") -> BranchChange:
    """What the tree changes since `base`, by default since the default branch was left. Raises RalphError."""
    since = _since(repository, base)
    tree = standing_tree(repository)
    change = ReviewedChange(
        title="What the commit messages say",
        base=since,
        tree=tree,
        commit_messages=_messages(repository, since),
        with_secrets=True,
    )
    return BranchChange(
        since,
        change,
        uncommitted=_differ(repository, repository.head(), tree),
        is_empty=not _differ(repository, since, tree),
    )


def _differ(repository: Repository, one: str, other: str) -> bool:
    return bool(repository.run("diff-tree", "-r", "--name-only", one, other, "--", ".", f":(exclude){STATE_FOLDER}"))


def _since(repository: Repository, base: str) -> str:
    """The commit that the change is measured against: where the histories part. Raises RalphError."""
    candidates = (base,) if base else _DEFAULT_BRANCHES
    tip = next((commit for name in candidates if (commit := repository.commit_of(name))), None)
    if tip is None:
        told = f"there is no commit {base!r}" if base else "no default branch is found (origin/HEAD, main, master)"
        raise RalphError(f"{told}; name what to review against: ralph review --base REV")
    parting = repository.merge_base(tip, "HEAD")
    if parting is None:
        raise RalphError(f"{base or tip[:12]} has no history in common with what is checked out; name another --base")
    return parting


def _messages(repository: Repository, since: str) -> tuple[str, ...]:
    """The messages of the commits since then, the newest first."""
    told = repository.text("log", f"-{_MOST_COMMITS}", "--format=%B%x00", f"{since}..HEAD", "--")
    return tuple(message.strip() for message in told.split("\0") if message.strip())
