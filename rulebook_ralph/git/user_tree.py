"""A person's own work tree in which an agent works: read, and brought to another tree, with an index of Ralph's own.

HEAD, the branch and the person's index are not touched by that. The state folder is in no tree that is moved here.
"""

import os
from dataclasses import replace
from pathlib import Path

from rulebook_ralph.errors import RalphError
from rulebook_ralph.git import git_folder
from rulebook_ralph.git.cache import take_down
from rulebook_ralph.git.capture import Captured, capture_in_place, listed
from rulebook_ralph.git.in_the_way import InTheWayError
from rulebook_ralph.git.landing import bring_files, refresh
from rulebook_ralph.git.repository import Repository, read_plain, within_state
from rulebook_ralph.git.trees import merge_trees, with_entries
from rulebook_ralph.tasks.model import STATE_FOLDER
from rulebook_ralph.tasks.text import some


class UserTree:
    """The tree, from `begin` to `end`, over as many processes as that takes."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._folder = repository.private / "session"
        self._own = git_folder.own_repository(repository, self._folder / "git", repository.root)

    @property
    def root(self) -> Path:
        return self._repository.root

    @property
    def is_begun(self) -> bool:
        """Whether an agent works or worked there, and it was not put back since."""
        return (self._folder / "base").is_file()

    def begin(self) -> None:
        """What git does not know there now is left out from here on. Raises RalphError for edits: whose are they?"""
        take_down(self._folder)
        self._folder.mkdir(mode=0o700, parents=True)
        base = self._repository.head()
        shared = self._follow(base)
        git_folder.write_own(self._repository, shared, self._own.git_dir)
        self._own.run("config", "core.sparseCheckout", "false")
        self._own.run("read-tree", self._with_state(base, None))
        self._leave_out_what_is_not_checked_out()
        refresh(self._own)
        with_edits = self._repository.modified()
        if with_edits:
            take_down(self._folder)
            told = f"uncommitted changes in {some(with_edits)}; commit or stash them first"
            raise RalphError(f"{told}: the session works in the same tree")
        self._leave_out_the_rest()
        (self._folder / "base").write_text(base, "ascii")

    def capture(self) -> Captured:
        """What stands there, with the state folder of the commit that the work began on. Raises GitError, OSError."""
        (self._own.git_dir / "index.lock").unlink(missing_ok=True)
        captured = capture_in_place(self._own, self._left_out())
        return replace(captured, tree=self._with_state(captured.tree, self._base()))

    def hold(self, commit: str, tree: str) -> None:
        """Have that tree stand there, and the commit's rules hold. Raises RalphError for another's file in the way."""
        stands, wanted = self._with_state(self.capture().tree, None), self._with_state(tree, None)
        if stands != wanted:
            try:
                bring_files(self._own, wanted, stands)
            except InTheWayError as error:
                told = f"the files in {self.root} cannot be brought to where the work stands: {error}"
                raise RalphError(f"{told} {some(error.waiting.files)}".rstrip()) from None
            self._leave_out_the_rest()
        self._follow(commit)
        (self._folder / "base").write_text(self._repository.text("rev-parse", commit), "ascii")

    def as_work_on(self, base: str, tree: str) -> str:
        """The tree as a change of `base`, also where the agent has checked out a commit that does not contain it."""
        head = self._repository.head()
        if self._repository.contains(base, within=head):
            return tree
        begun = self._repository.merge_base(head, base)
        merged = merge_trees(self._repository, begun, base, tree) if begun else None
        return merged.tree if merged and merged.tree else tree

    def put_head_back(self, branch: str, commit: str) -> tuple[str, ...]:
        """Have the branch checked out and at that commit, index and all, but no file; says what was done."""
        repository, said = self._repository, []
        head, tip = repository.branch(), repository.tip(branch)
        if head != branch:
            said.append(f"{head or 'another commit'} was checked out; it is {branch} again")
            repository.run("symbolic-ref", "-m", "ralph: back", "HEAD", f"refs/heads/{branch}")
        if tip != commit:
            said.append(f"{branch} was moved and is back at {commit[:7]}; what was committed is {tip or 'gone'}")
        beside = ("--", ".", f":(exclude){STATE_FOLDER}")
        staged = repository.run("diff-index", "--cached", "--name-only", commit, *beside)
        if tip != commit or staged:
            repository.run("update-ref", "-m", "ralph: back", f"refs/heads/{branch}", commit)
            repository.run("reset", "-q", "--mixed", commit)
        return tuple(said)

    def end(self) -> None:
        """Whatever stands there is a person's again."""
        take_down(self._folder)

    # Parts

    def _left_out(self) -> frozenset[str]:
        return frozenset(filter(None, os.fsdecode(read_plain(self._folder / "untracked")).split("\0")))

    def _leave_out_the_rest(self) -> None:
        """What stands there now beside the tree is none of the work: a person's, or what an agent had git ignore."""
        unknown = {*listed(self._own, ())[1], *self._left_out()}
        (self._folder / "untracked").write_bytes(os.fsencode("\0".join(sorted(unknown))))

    def _base(self) -> str:
        return (self._folder / "base").read_text("ascii")

    def _follow(self, commit: str) -> git_folder.Shared:
        shared = git_folder.read_shared(self._repository, self._folder)
        (self._own.git_dir / "info").mkdir(parents=True, exist_ok=True)
        git_folder.write_rules(self._repository, shared, self._own.git_dir, commit)
        return shared

    def _leave_out_what_is_not_checked_out(self) -> None:
        """A person's sparse checkout stays one."""
        listing = os.fsdecode(self._repository.run("ls-files", "-t", "-z")).split("\0")
        absent = (line[2:] for line in listing if line.startswith("S ") and not within_state(line[2:]))
        names = os.fsencode("".join(f"{path}\0" for path in absent))
        self._own.run("update-index", "--skip-worktree", "-z", "--stdin", stdin=names)

    def _with_state(self, tree: str, source: str | None) -> str:
        """The tree with the state folder of another one, or with none."""
        state = self._repository.entry(source, STATE_FOLDER) if source else None
        return with_entries(self._repository, tree, [(STATE_FOLDER, state)])
