"""Where completed work lands: the user's branch, or a ref of Ralph's own while the branch cannot follow."""

from collections.abc import Callable

from rulebook_ralph.errors import RalphError
from rulebook_ralph.git import attempts, landing
from rulebook_ralph.git.repository import GitError, Repository
from rulebook_ralph.git.trees import merge_trees
from rulebook_ralph.report.events import BranchWaiting, Event
from rulebook_ralph.tasks.model import STATE_FOLDER, Prd
from rulebook_ralph.tasks.prd_file import decode_prd
from rulebook_ralph.tasks.text import some
from rulebook_ralph.verify.workspace import Cancelled


class Branch:
    """The branch of one run. `holds` says whether a tree that Ralph put together holds before it goes on the branch."""

    def __init__(
        self, repository: Repository, prd: Prd, *, holds: Callable[[str], bool], report: Callable[[Event], None]
    ) -> None:
        self.name = prd.work_branch
        self.reference = f"refs/ralph/{prd.project}/tip"
        self.waiting: landing.NotAdvanced | None = None
        self._repository = repository
        self._holds = holds
        self._report = report

    def tip(self) -> str:
        """The commit that further work starts from. Raises RalphError where the branch is gone."""
        own, there = self._refs()
        return own or there

    @property
    def why_it_waits(self) -> str:
        """What keeps the branch from following, and where the work is, in a line; empty where nothing does."""
        if self.waiting is None:
            return ""
        files = f" ({some(self.waiting.files)})" if self.waiting.files else ""
        return f"{self.name} waits: {self.waiting.reason}{files}; the work is on {self.reference}"

    @property
    def way_on(self) -> str:
        """What a person does so that the branch can follow; empty where nothing keeps it."""
        if self.waiting is None:
            return ""
        remedy = self.waiting.remedy
        return f"{remedy}, then: ralph land" if remedy else "when nothing is in the way any more: ralph land"

    @property
    def holder(self) -> str:
        """The name under which git finds all of the work now."""
        return self.reference if self.waiting else self.name

    def land(self, commit: str, base: str, *, reason: str) -> str | None:
        """Put a commit whose parent is `base` onto the branch, or onto Ralph's own ref where the branch waits; safe to
        be done again after a crash. The commit as it landed, None where the branch moved: the work is to be judged on
        top of that first.
        """
        own, there = self._refs()
        if (own or there) != base:
            landed = self._landed(commit, base, within=own or there)
            if landed is not None:
                self.follow()
            return landed
        if own is not None or not self._advance(commit, base, reason):
            self._repository.objects.move(self.reference, commit)
            self.follow()
        return commit

    def follow(self) -> bool:
        """Bring in what waits on Ralph's own ref, if there is any; whether nothing waits any more."""
        own, there = self._refs()
        if own is None:
            self.waiting = None
            return True
        if there != own and self._repository.contains(own, within=there):
            own = there  # somebody merged it
        elif there != own and not self._repository.contains(there, within=own):
            moved = self._put_onto(there, own)
            if moved is None:
                return False
            own = moved
        if there != own and not self._advance(own, there, "ralph: bring in what waited"):
            return False
        self._repository.objects.move(self.reference, None)
        self.waiting = None
        return True

    def _advance(self, new: str, old: str, reason: str) -> bool:
        advanced = landing.advance(self._repository, self.name, new, old, reason=reason)
        if advanced is not None:
            self._wait(advanced)
            return False
        self.waiting = None
        return True

    def _wait(self, waiting: landing.NotAdvanced) -> None:
        if waiting != self.waiting:
            self.waiting = waiting
            self._report(
                BranchWaiting(branch=self.name, reason=waiting.reason, files=waiting.files, ref=self.reference)
            )

    def _landed(self, commit: str, base: str, *, within: str) -> str | None:
        """The commit as it landed before a crash: itself, or with a person's commits below it since."""
        if self._repository.contains(commit, within=within):
            return commit
        message = self._repository.text("log", "-1", "--format=%B", commit, "--")
        listing = self._repository.text("log", "-z", "--format=%H %B", f"{base}..{within}", "--")
        made = {text.rstrip(): name for name, _, text in (each.partition(" ") for each in listing.split("\0"))}
        return made.get(message.rstrip())

    def _put_onto(self, onto: str, own: str) -> str | None:
        """Ralph's commits on top of those a person made meanwhile, where they can be merged and hold there."""
        made = onto
        commits = self._repository.text("rev-list", "--reverse", "--first-parent", f"{onto}..{own}").split()
        for commit in commits:
            merged = merge_trees(self._repository, f"{commit}^", made, commit)
            if merged.tree is None:
                told = f"your commits and Ralph's cannot be merged; git merge {self.reference}"
                self._wait(landing.NotAdvanced(told, merged.conflicts))
                return None
            message = self._repository.text("log", "-1", "--format=%B", commit)
            made = landing.commit_tree(self._repository, merged.tree, (made,), message, sign=False)
        try:
            problem = "" if self._holds(made) else "the gates fail with your commits and Ralph's together"
        except Cancelled:
            problem = "the run ended before the gates had looked at your commits and Ralph's together"
        if problem:
            self._wait(landing.NotAdvanced(problem, ()))
            return None
        self._repository.objects.move(self.reference, made, own)
        return made

    def _refs(self) -> tuple[str | None, str]:
        """Ralph's own ref, where there is one, and the branch's tip. Raises RalphError where the branch is gone."""
        there = self._repository.tip(self.name)
        if there is None:
            raise RalphError(f"branch {self.name} is gone; bring it back, then: ralph resume")
        return self._repository.commit_of(self.reference), there


def check_out(repository: Repository, branch: str) -> str:
    """Put HEAD on the branch, creating it once from HEAD; says what was done, "" where nothing. Raises RalphError.

    A branch that is new, or whose commits are all in HEAD (it was merged), goes to where HEAD is, and neither files nor
    index move.
    """
    before = repository.branch() or repository.head()
    if before == branch:
        return ""
    if not repository.can_name_branch(branch):
        raise RalphError(f"'{branch}' is no name for a branch; set `branch` in .rulebook-ralph/prd.json, or --branch")
    if elsewhere := repository.elsewhere(branch):
        raise RalphError(f"branch {branch} is checked out in {elsewhere}; run ralph there, or give --branch another")
    reference, there = f"refs/heads/{branch}", repository.tip(branch)
    try:
        if there is None or repository.contains(there):
            head = repository.head()
            repository.run("update-ref", "-m", "ralph: begin", reference, head, there or "0" * len(head))
            moving = f"checkout: moving from {before} to {branch}"  # what makes `git switch -` lead back
            repository.run("symbolic-ref", "-m", moving, "HEAD", reference)
            return f"created branch {branch}" if there is None else f"branch {branch} goes on from {before}"
        repository.run("switch", "--no-guess", branch)
    except GitError as error:
        problem = " ".join(error.stderr.split())[:300] or "git refused"
        told = f"cannot switch {repository.root} to branch {branch}: {problem}"
        raise RalphError(f"{told}; switch yourself, then run again") from None
    return f"switched from {before} to branch {branch}"


def branch_with_list(repository: Repository) -> str:
    """The branch of a saved task list that has the list in its files, or "". Raises RalphError."""
    for reference in attempts.state_references(repository):
        data = attempts.file_of_state(repository, reference, "prd.json")
        branch = decode_prd(data, name=f"{reference}:prd.json").work_branch if data is not None else ""
        if branch and repository.file_of(f"refs/heads/{branch}", f"{STATE_FOLDER}/prd.json"):
            return branch
    return ""
