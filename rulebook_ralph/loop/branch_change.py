"""What `ralph review` is about: a branch since it left the default one, with what is not committed yet."""

from collections.abc import Sequence
from dataclasses import dataclass

from rulebook_ralph.checks.integrity.globs import Globs
from rulebook_ralph.checks.reviewed_change import ReviewedChange
from rulebook_ralph.errors import RalphError
from rulebook_ralph.workspace.diff import read_diff, read_versions
from rulebook_ralph.workspace.repository import Repository
from rulebook_ralph.workspace.standing_tree import standing_tree

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


def branch_change(repository: Repository, base: str = "", *, allow: Sequence[str] = ()) -> BranchChange:
    """What the tree changes since `base`, by default since the default branch was left; files that match `allow` may
    hold secrets. Raises RalphError.
    """
    since = _since(repository, base)
    opening, tree = standing_tree(repository, with_new_files=True)
    before = repository.tree_of(since)
    files = read_diff(repository, before, tree)
    change = ReviewedChange(
        title="What the commit messages say",
        files=files,
        versions=lambda wanted: read_versions(repository, before, tree, wanted),
        commit_messages=_messages(repository, since),
        may_hold_secrets=Globs(allow).match,
    )
    return BranchChange(since, change, uncommitted=tree != opening.tree)  # both with the state folder as HEAD has it


def _since(repository: Repository, base: str) -> str:
    """The commit that the change is measured against: where the histories part. Raises RalphError."""
    candidates = (base,) if base else _DEFAULT_BRANCHES
    tip = next((commit for name in candidates if (commit := repository.commit_of(name))), None)
    if tip is None:
        told = f"there is no commit {base!r}" if base else "no default branch is found (origin/HEAD, main, master)"
        raise RalphError(f"{told}; name what to review against: ralph review --base REV")
    parting = repository.parting(tip)
    if parting is None:
        raise RalphError(f"{base or tip[:12]} has no history in common with what is checked out; name another --base")
    return parting


def _messages(repository: Repository, since: str) -> tuple[str, ...]:
    """The messages of the commits since then, the newest first."""
    told = repository.git.text("log", f"-{_MOST_COMMITS}", "--format=%B%x00", f"{since}..HEAD", "--")
    return tuple(message.strip() for message in told.split("\0") if message.strip())
