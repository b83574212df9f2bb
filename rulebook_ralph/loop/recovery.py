"""What a dead run left is brought to its end: every iteration that is not settled (DESIGN.md, The order of writing).

`executing`: the attempt is interrupted and not counted; its partial work is saved and stays in the tree, and what its
agent's raw output tells (tokens, cost, session, its last words) is taken over. `judged`: it is settled as it was
judged, skipping what was done already.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from rulebook_ralph.clock import Clock
from rulebook_ralph.core import parser
from rulebook_ralph.core.enumeration import some
from rulebook_ralph.core.evidence import Iteration, Verdict
from rulebook_ralph.core.redaction import Redactor
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop import leftovers, restored
from rulebook_ralph.loop.crew import Crew
from rulebook_ralph.loop.iteration import redacted
from rulebook_ralph.loop.landing import Kept, Notice
from rulebook_ralph.loop.project import Project
from rulebook_ralph.loop.settler import Settler
from rulebook_ralph.state import disk, history, store
from rulebook_ralph.workspace import commits
from rulebook_ralph.workspace.snapshot import Opening, Workspace

_INTERRUPTED = Verdict(
    action="stop",
    hook="recovery",
    reason="Ralph ended while the agent worked; its partial work is kept in the tree",
    stop_reason="interrupted",
    counts=False,
)
_PUT_BACK = "The last attempt was interrupted on another commit than the base, so the tree was put back to the base."
_FEEDBACK = "The last attempt was interrupted; its partial work stands in the tree. Look at it, then go on."

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
        for record in history.unsettled(self.project.folder):
            saved = leftovers.load(self.project, record.iteration_number)
            tips: tuple[str, ...] = ()
            rollback = False
            if saved is None:
                tree = self.project.repository.tree_of(record.base_commit)
                now = self.workspace.open()
                opening = Opening(record.base_commit, tree, now.untracked, now.ignore_files)
            else:
                opening = saved.opening
                if record.phase == "executing":
                    rollback = self._left_the_base(saved)
                    tips = self._restore_git(saved)
            if record.phase == "executing":
                record = self._interrupted(record, opening, tips, rollback=rollback)  # noqa: PLW2901 - the same iteration, one phase on
                record, _ = self.settler.write_judged(  # noqa: PLW2901
                    self.settler.with_past(record), opening, time_left=1.0, rollback=rollback
                )
            self._settle(record, opening)
            found.append(record)
        return tuple(found)

    def _left_the_base(self, saved: leftovers.Leftovers) -> bool:
        """Whether HEAD left the base since opening: the tree is another commit's, not the attempt's alone.

        Raises RalphError where uncommitted changes on it may be a person's, who came after the agent.
        """
        repository, before = self.project.repository, saved.guarded.head_was()
        head = repository.git_folder / "HEAD"
        if (
            not before
            or head.read_text("utf-8", "replace").strip() == before
            or repository.contains(saved.opening.commit)
        ):
            return False
        lived = leftovers.last_sign_of_life(self.project, saved.number)
        if head.lstat().st_mtime > lived + _GRACE and repository.modified():
            there = before.removeprefix("ref: refs/heads/")
            raise RalphError(
                f"the run died on {there}, but {repository.branch() or 'another commit'} is checked out now, with "
                f"uncommitted changes; commit or stash them, run: git switch {there}, then: ralph resume"
            )
        return True

    def _restore_git(self, saved: leftovers.Leftovers) -> tuple[str, ...]:
        """Put git's own files back, HEAD among them; of the refs those that the agent wrote.

        Returns the commits that were found there, to be kept.
        """
        number = saved.number
        lived = leftovers.last_sign_of_life(self.project, number)
        restored = saved.guarded.restore_after_death(self.settler.branch, until=lived)
        others = restored.others
        folder = leftovers.keep_aside(self.project, number, {f"git/{name}": other for name, other in others.items()})
        if others:
            self.notice("warning", f"put back in the git folder after the dead run: {some(others)} (kept in {folder})")
        if restored.left:
            self.notice(
                "info", f"new in git since the dead run's agent began, and left, as yours: {some(restored.left)}"
            )
        return restored.new_tips

    def _settle(self, judged: Iteration, opening: Opening) -> None:
        """Carry out the verdict. A tree that somebody changed since is not rolled back: the work is in its snapshot."""
        self.workspace.open(judged.tree)
        standing = self.workspace.capture(opening)
        tree = judged.tree
        moved = tree is not None and not _is_on_the_way(self.project, self.workspace, standing, tree, opening.tree)
        self.settler.resettle(judged, opening, keep_tree=moved)

    def _interrupted(self, record: Iteration, opening: Opening, tips: tuple[str, ...], *, rollback: bool) -> Iteration:
        """The record of an attempt that was cut short, with its partial work and raw output saved."""
        self.workspace.open(opening.tree)
        tree = self.workspace.capture(opening)
        number = record.iteration_number
        snapshot = commits.Snapshot(
            reference=commits.snapshot_reference(self.settler.prd.project, record.task_id, number),
            tree=tree,
            base=opening.commit,
            prompt=record.prompt,
            output_file=leftovers.output_file(self.project, number),
            clean=self.redactor.clean_blocks,
            message=f"ralph: interrupted attempt {record.attempt} at {record.task_id} (iteration {number})",
            kept_tips=tips,
        )
        at = self.clock.iso()
        return replace(
            self._with_output(record),
            phase="judged",
            timestamp=at,
            ended_at=at,
            verdict=_INTERRUPTED,
            stop_reason="interrupted",
            feedback=_PUT_BACK if rollback else _FEEDBACK,
            context_loss=True,
            tree=tree,
            snapshot=commits.save_snapshot(self.project.repository, self.who, snapshot, seconds=self.clock.seconds()),
            files_changed=tuple(change.path for change in self.workspace.changes(opening.tree, tree)),
        )

    def _with_output(self, record: Iteration) -> Iteration:
        """The record with what the agent's raw output tells of the attempt: nothing of it may complete anything."""
        output_file = leftovers.output_file(self.project, record.iteration_number)
        result = self.crew.taken_over(record.agent, output_file, started=self._start_of(record))
        result = redacted(result, self.redactor)
        return replace(
            record,
            parsed=parser.parse(result),
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


def end_leaving(project: Project, workspace: Workspace) -> str | None:
    """Take away the rest of unfinished work that a dead run or `ralph restore --undo` had begun to take away, unless
    somebody changed the tree since; returns the tree with that work, None where there is none.
    """
    tree = leftovers.leaving(project)
    if tree is None:
        return None
    if project.repository.tree_exists(tree):
        opening = workspace.open(tree)
        standing = workspace.capture(opening)
        if _is_on_the_way(project, workspace, standing, tree, opening.tree):
            workspace.restore(opening, standing)
    leftovers.end_leaving(project)
    return tree


def kept_work(project: Project, workspace: Workspace) -> Kept | None:
    """The unfinished work that `ralph restore` brought back, or that the last iteration left, and that still stands as
    it was, or None.
    """
    return restored.kept(project, workspace) or work_of_last(project, workspace)


def work_of_last(project: Project, workspace: Workspace) -> Kept | None:
    """The unfinished work that the last iteration left and that still stands as it was, or None."""
    numbers = history.numbers(project.folder)
    if not numbers:
        return None
    try:
        last = history.read(project.folder, numbers[-1])
    except RalphError:
        return None
    goes_on = last.completion_status in ("failed", "interrupted", "limited", "cancelled") or _is_between_stages(last)
    if last.tree is None or not goes_on:
        return None
    if not project.repository.tree_exists(last.tree):
        return None
    opening = workspace.open(last.tree)
    stands = not workspace.changes(workspace.capture(opening), last.tree)
    unfinished = workspace.changes(opening.tree, last.tree)
    if stands or not unfinished:
        return Kept(last.task_id, last.tree) if unfinished else None
    new = [change.path for change in unfinished if change.kind == "A" and (project.root / change.path).exists()]
    if new:
        raise RalphError(
            f"unfinished work of {last.task_id} was changed since iteration {last.iteration_number}, and its new files "
            f"are not committed: {some(new)}; commit them, or move them away"
        )
    return None


def _is_on_the_way(project: Project, workspace: Workspace, standing: str, tree: str, base: str) -> bool:
    """Whether a rollback of `tree` to `base` was begun at the most: every path is as in one of them, or removed and not
    yet whole again.
    """
    changed = {change.path: change.kind for change in workspace.changes(tree, standing)}
    others = [change.path for change in workspace.changes(base, standing) if change.path in changed]
    return all(
        changed[path] == "D" or _begins(project.root / path, project.repository.file_of(base, path)) for path in others
    )


def _begins(path: Path, content: bytes | None) -> bool:
    """Whether a file has the beginning of that content: the rest was still to be written."""
    try:
        return content is not None and not path.is_symlink() and content.startswith(path.read_bytes())
    except OSError:
        return False


def _is_between_stages(last: Iteration) -> bool:
    """Whether a stage was verified, but not yet the whole task."""
    return last.completion_status == "completed" and not last.tasks_completed
