"""Whether an agent, gate or hook ended with another commit checked out than its work is measured against.

HEAD is put back like all of git's own files, but what switching took out of the tree, or brought in, stays so, and
would be captured as the attempt's own. Where HEAD was is noted before it is put back, also against a crash in between.
What then stands as in that commit, and not as in the base, is nobody's work: the tree goes back to the base.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from rulebook_ralph.state import disk
from rulebook_ralph.workspace import commits
from rulebook_ralph.workspace.raw_files import contents
from rulebook_ralph.workspace.ref_files import packed_refs, tips_named
from rulebook_ralph.workspace.repository import Repository
from rulebook_ralph.workspace.snapshot import Opening, Workspace

_HELD = "refs/ralph/held"
_STOOD_THERE = "ralph: what stood there when another commit was checked out while gates or hooks ran"


def note(repository: Repository, number: int, base: str) -> str:
    """The commit that is checked out, if it is another than `base`, noted for the iteration; else empty, also where it
    cannot be told. Files are read, no git is run: its configuration may be an agent's. Raises RalphError.
    """
    left = _checked_out(repository)
    if left == base:
        return ""
    if left:
        disk.make_folder(repository.private)  # it may be gone with all else
        disk.replace_file(_file(repository, number), left.encode("ascii"))
    return left


def noted(repository: Repository, number: int) -> str:
    """What was noted last for the iteration; empty where nothing was."""
    with suppress(OSError, UnicodeDecodeError):
        return _file(repository, number).read_text("ascii")
    return ""


def gone_to(repository: Repository, number: int, base: str) -> str:
    """The commit that is checked out, if it is another than `base`, else the one noted before it was put back."""
    return note(repository, number, base) or noted(repository, number)


def forget(repository: Repository, number: int) -> None:
    """The iteration is settled. What cannot go harms nobody."""
    with suppress(OSError):
        _file(repository, number).unlink(missing_ok=True)


def shows_other_commit(workspace: Workspace, gone_to: str, opening: Opening, tree: str) -> bool:
    """Whether the tree, captured with `gone_to` checked out, has anything of the commit that was gone to and not of the
    base's. Commits that were made meanwhile are work; what they were made on is what was gone to.
    """
    repository = workspace.repository
    if not gone_to or tree == opening.tree or repository.commit_of(gone_to) is None:
        return False
    if repository.contains(opening.commit, within=gone_to):
        return False
    listing = repository.git.text("rev-list", "--boundary", gone_to, "--not", "--branches", "--tags").split()
    places = [name[1:] for name in listing if name.startswith("-")] if listing else [gone_to]
    if not places:  # a history of its own: begun with nothing
        return any(change.kind == "D" for change in workspace.changes(opening.tree, tree))
    return any(_has_of(workspace, workspace.tree_of(place), opening, tree) for place in places)


def _has_of(workspace: Workspace, there: str, opening: Opening, tree: str) -> bool:
    differs_there = {change.path for change in workspace.changes(opening.tree, there)}
    return not differs_there <= {change.path for change in workspace.changes(there, tree)}


@dataclass(frozen=True, slots=True)
class Anchor:
    """The base of one iteration, and the place where it is worked on."""

    workspace: Workspace
    opening: Opening
    number: int

    def note(self) -> str:
        """As `note`, before anything is put back."""
        return note(self.workspace.repository, self.number, self.opening.commit)

    def bring_back(self, gone_to: str, tree: str, tips: Iterable[str] = ()) -> str:
        """Where gates or hooks left the commit, what they did to the tree is undone: it stands as `tree` again. It may
        have been a person, so a ref keeps what stood there, as others keep the commits `tips`; returns that ref, empty
        where nothing was undone.
        """
        if not gone_to:
            return ""
        now = self.workspace.recapture(self.opening, tree)
        if now == tree or not shows_other_commit(self.workspace, gone_to, self.opening, now):
            return ""
        repository = self.workspace.repository
        made = commits.commit_tree(repository, now, self.opening.commit, f"{_STOOD_THERE}\n", sign=False)
        references = {f"{_HELD}/iteration-{self.number}-{each[:12]}": each for each in (*tips, made)}
        for reference, commit in references.items():
            if repository.commit_of(commit) is not None:
                repository.git.raw("update-ref", reference, commit)
        self.workspace.restore(replace(self.opening, commit=tree, tree=tree), now)
        return next(reversed(references))


def _checked_out(repository: Repository) -> str:
    """The commit that HEAD names where the tree is: a checkout's own, the repository's or a work tree's of it."""
    own, shared = repository.git_folder, repository.common_folder
    if (inside := repository.root / ".git").is_dir():
        own = inside
        shared = inside if inside.resolve() != repository.git_folder.resolve() else shared
    head = str(own / "HEAD")
    said = contents([head])
    name = said[head][0].decode("utf-8", "replace").strip() if head in said else ""
    if not name.startswith("ref: refs/") or ".." in name:
        return next(iter(tips_named(said, said)), "")
    return next(_commits_of(shared, name.removeprefix("ref: ")), "")


def _commits_of(shared: Path, ref: str) -> Iterator[str]:
    """The commit of a ref, of its file before packed-refs."""
    loose, packed = str(shared / ref), str(shared / "packed-refs")
    files = contents([loose, packed])
    yield from tips_named(files, [loose])
    if (name := packed_refs(files.get(packed)).get(ref)) is not None:
        yield name


def _file(repository: Repository, number: int) -> Path:
    return repository.private / f"opening-{number}.departed"  # leftovers.clear knows it by its beginning
