"""What a run puts on the branch and under `refs/ralph`: code commits, state commits, the saved state."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rulebook_ralph.clock import Clock
from rulebook_ralph.core import policy
from rulebook_ralph.core.enumeration import some
from rulebook_ralph.core.evidence import Iteration
from rulebook_ralph.core.model import STATE_FOLDER, Task
from rulebook_ralph.loop import leftovers
from rulebook_ralph.loop.candidate import subject
from rulebook_ralph.loop.preflight import Ready
from rulebook_ralph.loop.project import Project
from rulebook_ralph.state import disk
from rulebook_ralph.workspace import commits
from rulebook_ralph.workspace.git import GitError
from rulebook_ralph.workspace.snapshot import Opening, Workspace
from rulebook_ralph.workspace.syncing import sync_paths
from rulebook_ralph.workspace.user_index import UserIndex
from rulebook_ralph.workspace.user_tree import bring_along, bring_state_along

Notice = Callable[[str, str], None]
RECENT_COMMITS = 20
_LONGEST_WAIT, _PAUSE = 120.0, 0.1
"""For a person's git, in seconds."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Unfinished work of a task that stands where it is worked on: the tree with it. In a checkout it is a change of
    the commit `base`, whatever the branch is by then.
    """

    task_id: str
    tree: str
    base: str = ""


class Landing:
    """The git side of settling, for one run. `unsaved` are files of the state folder that the saved state lacks;
    `held_back` has the contents of those that it must have otherwise; with any of them, and with a configuration that
    tells a secret, no state is committed.
    """

    def __init__(
        self, project: Project, workspace: Workspace, ready: Ready, *, name: str, clock: Clock, notice: Notice
    ) -> None:
        self.project = project
        self._workspace = workspace
        self._ready = ready
        self._clock = clock
        self._notice = notice
        self._index = UserIndex(project.repository, workspace)
        self._reference = commits.state_reference(name)
        self._saved = project.repository.commit_of(self._reference)
        self._commits: tuple[str, tuple[str, ...]] = ("", ())
        self._is_ignored = project.repository.git.succeeds("check-ignore", "-q", "--", f"{STATE_FOLDER}/prd.json")
        self.unsaved: set[str] = set()
        self.held_back: Mapping[str, bytes] = {}
        self.config_tells_secret = False
        self.kept: Kept | None = None

    @property
    def has_saved_state(self) -> bool:
        return self._saved is not None

    @property
    def saved_state(self) -> Mapping[str, str]:
        """The ref of the saved state, with the commit that was saved last."""
        return {self._reference: self._saved} if self._saved is not None else {}

    def recent_commits(self, base: str) -> tuple[str, ...]:
        """The last commits up to the one that is worked on, one line each."""
        if self._commits[0] != base:
            self._commits = (base, self.project.repository.recent_commits(RECENT_COMMITS, until=base))
        return self._commits[1]

    def land(self, judged: Iteration, task: Task, branch: str, settlement: policy.Settlement) -> policy.Settlement:
        """Move the branch to the candidate commit, from its base only."""
        repository = self.project.repository
        if judged.commit is None:  # the stages were edited after it was judged as the last but one
            why = "the task's stages were changed while its work was judged"
            return policy.judged_again(why, restarted=judged.restarted)
        commit = judged.commit
        try:
            commits.move_branch(repository, branch, commit, judged.base_commit, reason=f"ralph: complete {task.id}")
        except GitError:
            if repository.contains(commit, within=f"refs/heads/{branch}"):
                if judged.isolated:  # a dead run may not have come to this
                    self._bring_along(judged, branch)
                return settlement
            if repository.tip(branch) != judged.base_commit:
                return policy.branch_moved(branch, restarted=judged.restarted)
            raise
        if judged.isolated:
            self._bring_along(judged, branch)
        else:
            self._index.publish(self._workspace.index)
        self._workspace.remember_commit(commit, judged.tree or "")
        self._remember(commit, subject(task), on=judged.base_commit)
        return settlement

    def wait_for_index(self) -> None:
        """Before the branch moves: a commit that a person is writing ends on it as it is."""
        lock = self.project.repository.git_folder / "index.lock"
        if not lock.exists():
            return
        self._notice("info", f"a git of yours is at work ({lock}): waiting for its end, {_LONGEST_WAIT:.0f} s at most")
        until = self._clock.monotonic() + _LONGEST_WAIT
        while lock.exists() and self._clock.monotonic() < until:
            time.sleep(_PAUSE)

    def _bring_along(self, judged: Iteration, branch: str) -> None:
        """The user's tree, where the branch is checked out, follows what landed on it from elsewhere."""
        repository = self.project.repository
        if judged.commit is None or not repository.is_on(branch):
            return
        left = bring_along(repository, judged.base_commit, judged.commit)
        if left:
            told = f"{judged.task_id} changed what you have changed, too; yours is left as it is: {some(list(left))}"
            self._notice("warning", f"{told}; see: git diff {judged.commit[:10]} -- {left[0]}")

    def make_durable(self, judged: Iteration, opening: Opening) -> None:
        """What the attempt left in the tree outlives a power cut from here on, as its record does."""
        if judged.tree is None or judged.isolated:
            return
        # what goes back to the base was written, too
        before = [self.kept.tree, opening.tree] if self.kept else [opening.tree]
        changes = [change for tree in before for change in self._workspace.changes(tree, judged.tree)]
        sync_paths(self.project.root, dict.fromkeys(change.path for change in changes))

    def keep_or_roll_back(self, judged: Iteration, settlement: policy.Settlement, opening: Opening) -> None:
        """Unfinished work stays for the next attempt, or the tree goes back to the base."""
        if judged.isolated:
            return
        self.kept = None
        if settlement.trigger == "complete" or judged.tree is None or judged.tree == opening.tree:
            return
        if settlement.rollback:
            self._workspace.restore(opening, judged.tree)
        else:
            self.kept = Kept(judged.task_id, judged.tree)

    def put_away_work_of_others(self, task_id: str) -> None:
        """Before another task is worked on, unfinished work leaves the tree; it stays in its snapshot. A run that dies
        within is mended by `standing_work.end_leaving`.
        """
        if self.kept is None or self.kept.task_id == task_id:
            return
        leftovers.begin_leaving(self.project, self.kept.tree)
        self._workspace.restore(self._workspace.open(self.kept.tree), self.kept.tree)
        leftovers.end_leaving(self.project)
        self._notice("info", f"the unfinished work at {self.kept.task_id} left the tree; its snapshots keep it")
        self.kept = None

    def commit_state(self, branch: str, message: str) -> None:
        """Commit the state folder on the branch, on its own; nothing where nothing changed or it is not wanted."""
        repository = self.project.repository
        if self.project.config.git.state_commit == "none" or self._is_ignored:
            return
        if any(self.held_back.values()) or self.config_tells_secret:
            return
        how = self._index.commit_state
        if self.project.config.is_isolated:
            self.wait_for_index()
            how = self._index.commit_state_alone
        head = repository.head()
        made = how(head, f"{message}\n", sign=self._ready.sign)
        if made is None:
            self._bring_state_along(branch)
            return
        try:
            commits.move_branch(repository, branch, made.commit, head, reason=message, saved=self._reference)
        except GitError:
            if repository.tip(branch) == head:
                raise
            self._notice("warning", f"branch {branch} moved; the state is committed next time")
            return
        self._saved, self.unsaved = made.commit, set()
        if self.project.config.is_isolated:
            self._bring_state_along(branch)
        else:
            self._index.publish(made.index)
            if self.kept is None:
                self._workspace.take_index(made.index, made.commit)
        self._remember(made.commit, message, on=head)

    def _bring_state_along(self, branch: str) -> None:
        """The user's index follows, where the branch is checked out; what a person has staged stays so."""
        if self.project.config.is_isolated and self.project.repository.is_on(branch):
            bring_state_along(self.project.repository)

    def save_state(self, *, opened: int = 0) -> None:
        """Add to the saved state what it lacks; `opened` is the iteration whose agent begins in the tree now."""
        folder = self.project.folder.path
        wanted = self.unsaved - {"config.yaml"} if self.config_tells_secret else self.unsaved
        standing = {name: content for name in sorted(wanted) if (content := _content(folder / name)) is not None}
        files = {**standing, **self.held_back}
        if files:
            self._saved = commits.save_state(
                self.project.repository,
                self._ready.who,
                self._reference,
                files,
                parent=self._saved,
                seconds=self._clock.seconds(),
                opened=opened,
            )
        self.unsaved = set()
        if not any(self.held_back.values()):
            self.held_back = {}

    def saved_content(self, name: str) -> bytes | None:
        """One file of the saved state, or None."""
        return commits.file_of_state(self.project.repository, self._saved or self._reference, name)

    def reset_user_index(self, *, worked_elsewhere: bool) -> None:
        """Make the user's index that of HEAD, after a run that died; where it worked elsewhere, of the state alone."""
        if worked_elsewhere:
            bring_state_along(self.project.repository)
        else:
            self._index.reset()

    def _remember(self, commit: str, message: str, *, on: str) -> None:
        """A commit of Ralph's own, if it is on top of those that are known."""
        if self._commits[0] == on:
            self._commits = (commit, (f"{commit[:7]} {message}", *self._commits[1])[:RECENT_COMMITS])


def _content(path: Path) -> bytes | None:
    try:
        return None if path.is_symlink() else disk.read_file(path)
    except OSError:
        return None
