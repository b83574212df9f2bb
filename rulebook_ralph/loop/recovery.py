"""What a dead run left is brought to its end: every iteration that is not settled (DESIGN.md, The order of writing).

`executing`: the attempt is interrupted and not counted; its partial work is saved and stays in the tree, and what its
agent's raw output tells (tokens, cost, session, its last words) is taken over. `judged`: it is settled as it was
judged, skipping what was done already.
"""

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from msgspec.structs import replace

from rulebook_ralph.clock import Clock
from rulebook_ralph.core import parser
from rulebook_ralph.core.enumeration import some
from rulebook_ralph.core.evidence import Iteration, Verdict
from rulebook_ralph.core.redaction import Redactor, cleaned
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop import departure, leftovers
from rulebook_ralph.loop.crew import Crew
from rulebook_ralph.loop.iteration import redacted
from rulebook_ralph.loop.landing import Notice
from rulebook_ralph.loop.project import Project
from rulebook_ralph.loop.settler import Settler
from rulebook_ralph.loop.standing_work import is_on_the_way
from rulebook_ralph.state import disk, history, store
from rulebook_ralph.workspace import commits, isolated_workspace
from rulebook_ralph.workspace.git import GitError
from rulebook_ralph.workspace.isolated_clone import bring_commits
from rulebook_ralph.workspace.snapshot import Opening, Workspace
from rulebook_ralph.workspace.snapshot_refs import snapshot_reference

_INTERRUPTED = Verdict(
    action="stop",
    hook="recovery",
    reason="Ralph ended while the agent worked; its partial work is kept",
    stop_reason="interrupted",
    counts=False,
)
_PUT_BACK = (
    "The last attempt was interrupted with another commit checked out than the base, so the tree was put back to the "
    "base. What stood there is kept in commit {}: read it with `git show`, and take what is sound."
)
_FEEDBACK = "The last attempt was interrupted; its partial work stands in the tree. Look at it, then go on."
_ELSEWHERE = (
    "The last attempt was interrupted; its partial work is kept in commit {}. Look at it, then go on; where it does "
    "not stand in the tree, read it with `git show`."
)
_MAY_BE_TORN = (
    "The last attempt was interrupted when the machine went down. What was left of its work may be torn, so you start "
    "from the branch; it is kept in commit {}: read it with `git show`, and take what is sound."
)

_GRACE = 10.0
"""Seconds after an agent's last sign of life in which HEAD is still taken to be where the agent moved it."""


def restore_missing_state(project: Project, notice: Notice) -> None:
    """Bring the state folder back where its task list is gone: from the saved state, and what a dead run kept."""
    if project.folder.prd.exists() or project.folder.prd.is_symlink():
        return
    saved = [commits.saved_state(project.repository, name) for name in commits.state_references(project.repository)]
    kept = [leftover.state for leftover in leftovers.of_dead_runs(project)]
    files: dict[str, bytes] = {}
    for source in (*saved[:1], *kept):
        files |= source
    if "prd.json" not in files:
        return
    files.pop(store.BASE_NAME, None)
    for name, content in files.items():
        path = project.folder.path / name
        disk.make_folder(path.parent)
        if not path.exists():
            disk.replace_file(path, content)
    notice("warning", f"{project.folder.path} had lost its task list; it is restored")


@dataclass(frozen=True, slots=True)
class Recovery:
    """Brings what a dead run left to its end."""

    project: Project
    workspace: Workspace
    settler: Settler
    crew: Crew
    who: commits.Identity
    clock: Clock
    notice: Notice
    redactor: Redactor

    def recover(self) -> tuple[Iteration, ...]:
        """Settle every iteration that a dead run left open, oldest first; the records as they were judged."""
        found = []
        for left in history.unsettled(self.project.folder):
            record = left
            saved = leftovers.load(self.project, record.iteration_number)
            tips: tuple[str, ...] = ()
            if saved is None:
                tree = self.project.repository.tree_of(record.base_commit)
                now = self.workspace.open()
                opening = Opening(record.base_commit, tree, now.untracked, now.ignore_files)
            else:
                opening = saved.opening
                if record.phase == "executing" and not record.isolated:
                    self._require_no_work_of_others(saved)
                    departure.note(self.project.repository, saved.number, opening.commit)
                    tips = self._restore_git(saved)
            if record.phase == "executing":
                judged = self.settler.with_past(self._interrupted(record, saved, opening, tips))
                record, _ = self.settler.write_judged(judged, opening, time_left=1.0)
            self._settle(record, opening)
            found.append(record)
        return tuple(found)

    def _require_no_work_of_others(self, saved: leftovers.Leftovers) -> None:
        """Raises RalphError where HEAD left the base and uncommitted changes there may be a person's, who came after
        the agent.
        """
        repository, before = self.project.repository, saved.guarded.head_was()
        head = repository.git_folder / "HEAD"
        if (
            not before
            or head.read_text("utf-8", "replace").strip() == before
            or repository.contains(saved.opening.commit)
        ):
            return
        lived = leftovers.last_sign_of_life(self.project, saved.number)
        if head.lstat().st_mtime > lived + _GRACE and repository.modified():
            there = before.removeprefix("ref: refs/heads/")
            raise RalphError(
                f"the run died on {there}, but {repository.branch() or 'another commit'} is checked out now, with "
                f"uncommitted changes; commit or stash them, run: git switch {there}, then: ralph resume"
            )

    def _restore_git(self, saved: leftovers.Leftovers) -> tuple[str, ...]:
        """Put git's own files back, HEAD among them; of the refs those that the agent wrote.

        Returns the commits that were found there, to be kept.
        """
        number = saved.number
        lived = leftovers.last_sign_of_life(self.project, number)
        restored = saved.guarded.restore_after_death(self.settler.branch, until=lived, number=number)
        others = restored.others
        folder = leftovers.keep_aside(self.project, number, {f"git/{name}": other for name, other in others.items()})
        if others:
            self.notice("warning", f"put back in the git folder after the dead run: {some(others)} (kept in {folder})")
        if restored.lost:
            self.notice("warning", f"gone from git for good, with what was saved there: {some(restored.lost)}")
        if restored.left:
            self.notice(
                "info", f"new in git since the dead run's agent began, and left, as yours: {some(restored.left)}"
            )
        self.settler.count_numbers()
        return restored.new_tips

    def _settle(self, judged: Iteration, opening: Opening) -> None:
        """Carry out the verdict. A tree that somebody changed since is not rolled back: the work is in its snapshot."""
        if judged.isolated:
            self.settler.resettle(judged, opening, keep_tree=False)
            return
        self.workspace.open(judged.tree)
        standing = self.workspace.capture(opening)
        tree = judged.tree
        moved = tree is not None and not is_on_the_way(self.project, self.workspace, standing, tree, opening.tree)
        self.settler.resettle(judged, opening, keep_tree=moved)

    def _left(self, record: Iteration, saved: leftovers.Leftovers | None, opening: Opening) -> tuple[str, bool]:
        """The tree that the attempt left, and whether it has left the base; the base's where its checkout is gone. The
        checkout stays until all is recovered: this recovery may die, too.
        """
        repository, number = self.project.repository, record.iteration_number
        if not record.isolated:
            self.workspace.open(opening.tree)
            tree = self.workspace.capture(opening)
            return tree, departure.shows_other_commit(
                self.workspace, departure.noted(repository, number), opening, tree
            )
        place = isolated_workspace.take_over(repository, saved.place) if saved and saved.place else None
        if place is None:
            return opening.tree, False
        try:
            workspace = isolated_workspace.reopen(repository, place, opening)
            if workspace is None:
                return opening.tree, False
            inside = workspace.repository
            gone_to = departure.gone_to(inside, number, opening.commit)
            with suppress(GitError, OSError):  # whatever the agent did to its git folder
                bring_commits(inside)
            tree = workspace.capture(opening)
            return tree, departure.shows_other_commit(workspace, gone_to, opening, tree)
        finally:
            place.leave()

    def _saved(
        self, record: Iteration, saved: leftovers.Leftovers | None, opening: Opening, tips: tuple[str, ...]
    ) -> tuple[str, str, bool]:
        """The tree to go on from, the snapshot with what the attempt left, and whether that has left the base. Of a
        checkout a snapshot that was made already is believed: what stands there since may be a merge that was begun;
        and so it is where the tree has gone back, or is to. What may be torn is kept, no more.
        """
        repository, number = self.project.repository, record.iteration_number
        reference = snapshot_reference(self.settler.prd.project, record.task_id, number)
        made = repository.commit_of(reference)
        if made is not None and repository.commit_of(f"{made}^") != opening.commit:  # it was no more than begun
            made = None
        if record.isolated and made is not None:
            tree = repository.tree_of(made)
            departed = departure.shows_other_commit(self.workspace, departure.noted(repository, number), opening, tree)
        else:
            tree, departed = self._left(record, saved, opening)
        if made is None or not (record.isolated or tree in (opening.tree, repository.tree_of(made))):
            snapshot = commits.Snapshot(
                reference=reference,
                tree=tree,
                base=opening.commit,
                prompt=record.prompt,
                output_file=leftovers.output_file(self.project, number),
                clean=self.redactor.clean_blocks,
                message=f"ralph: interrupted attempt {record.attempt} at {record.task_id} (iteration {number})",
                kept_tips=(*tips, made) if made is not None else tips,
            )
            made = commits.save_snapshot(repository, self.who, snapshot, seconds=self.clock.seconds())
        if departed and not record.isolated:
            self.workspace.restore(opening, tree)
        may_be_torn = saved is not None and saved.may_be_torn
        return opening.tree if departed or may_be_torn else tree, made, departed

    def _interrupted(
        self, record: Iteration, saved: leftovers.Leftovers | None, opening: Opening, tips: tuple[str, ...]
    ) -> Iteration:
        """The record of an attempt that was cut short, with its partial work and raw output saved."""
        tree, snapshot, departed = self._saved(record, saved, opening, tips)
        feedback = _ELSEWHERE if record.isolated else _FEEDBACK
        if departed:
            feedback = _PUT_BACK
            told = f"iteration {record.iteration_number} died with another commit checked out than the base, so its"
            self.notice("warning", f"{told} tree went back to the base (what stood there is kept in {snapshot[:10]})")
        elif record.isolated and saved and saved.may_be_torn:
            feedback = _MAY_BE_TORN
        at = self.clock.iso()
        return replace(
            self._with_output(record),
            phase="judged",
            timestamp=at,
            ended_at=at,
            verdict=_INTERRUPTED,
            stop_reason="interrupted",
            feedback=feedback.format(snapshot),
            context_loss=True,
            tree=tree,
            snapshot=snapshot,
            files_changed=tuple(change.path for change in self.workspace.changes(opening.tree, tree)),
        )

    def _with_output(self, record: Iteration) -> Iteration:
        """The record with what the agent's raw output tells of the attempt: nothing of it may complete anything."""
        output_file = leftovers.output_file(self.project, record.iteration_number)
        result = self.crew.taken_over(record.agent, output_file, started=self._start_of(record))
        result = redacted(result, self.redactor)
        return replace(
            record,
            parsed=cleaned(parser.parse(result), self.redactor.clean_cut),
            tool_results=result.tool_results,
            usage=result.usage,
            cost_usd=result.cost_usd,
            duration_ms=result.duration_ms,
            agent_status=result.status,
            fault=result.fault,
            session_id=result.session_id,
            output=result.output,
        )

    def _start_of(self, record: Iteration) -> datetime:
        try:
            return datetime.fromisoformat(record.started_at).astimezone(UTC)
        except ValueError:  # a person garbled it
            return self.clock.now()
