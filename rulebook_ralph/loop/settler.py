"""Everything a run writes to the state folder, in the write order; what goes to git is in landing.py.

Each step of settling is recognised when it was done already, so that a crash anywhere is mended by doing it again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import RLock

from rulebook_ralph.clock import Clock
from rulebook_ralph.core import edits, policy, repeats, requirements, settling
from rulebook_ralph.core.edits import Edit
from rulebook_ralph.core.evidence import Iteration
from rulebook_ralph.core.model import Prd, Task
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop import leftovers, record
from rulebook_ralph.loop.gatekeeper import Base
from rulebook_ralph.loop.landing import Landing, Notice
from rulebook_ralph.loop.project import Project
from rulebook_ralph.loop.summary import reason_of
from rulebook_ralph.loop.watch import Watch
from rulebook_ralph.state import codec, disk, guard, history, progress, store
from rulebook_ralph.workspace import commits
from rulebook_ralph.workspace import guard as git_guard
from rulebook_ralph.workspace.snapshot import Opening

MAX_PROGRESS_BYTES = 64 * 1024 * 1024


class Settler:
    """The only writer of a project's state, for one run. Whoever writes holds `writing`: the loop between agents, and a
    person's edit that reaches the run while others work.
    """

    def __init__(
        self,
        project: Project,
        landing: Landing,
        prd: Prd,
        prd_bytes: bytes,
        *,
        clock: Clock,
        notice: Notice,
    ) -> None:
        self._project = project
        self._clock = clock
        self._notice = notice
        self._prd_bytes = prd_bytes
        self._encoder = codec.PrdEncoder()
        self._prd_seen: disk.Fingerprint | None = None
        self._progress: tuple[disk.Fingerprint | None, str] = (None, "")
        self._last: dict[str, Iteration] = {}
        self.landing = landing
        self.writing = RLock()
        self.watch = Watch(project, fetch=landing.saved_content, notice=notice)
        self.prd = prd
        self.edited = False
        taken = history.numbers(project.folder)
        self._number = max([*taken[-1:], commits.highest_number(project.repository, prd.project)])
        if not landing.has_saved_state:
            landing.unsaved = {f"history/iteration-{number}.json" for number in taken}

    @property
    def branch(self) -> str:
        return self.prd.work_branch

    # What an iteration is made of

    def take_number(self) -> int:
        """The next iteration number: above every one in the history and the refs."""
        self._number += 1
        return self._number

    def progress_text(self) -> str:
        seen = disk.fingerprint(self._project.folder.progress)
        if seen is None or seen != self._progress[0]:
            self._progress = (seen, read_progress(self._project))
        return self._progress[1]

    def feedback_for(self, task: Task) -> str:
        """What the task's last attempt must be told, from this run or from the history."""
        last = self._last.get(task.id)
        return last.feedback if last else last_feedback(self._project, task)

    def last_agent(self, task: Task) -> str:
        """Who worked on the task last; empty where nobody did."""
        number = task.settled_iteration
        last = self._last.get(task.id) or (_read(self._project, number) if number is not None else None)
        return last.agent if last else ""

    def base_of_last(self) -> Base:
        """What the gates said of the base of the last iteration, less what was green since."""
        numbers = history.numbers(self._project.folder)
        if not numbers:
            return Base()
        last = history.read(self._project.folder, numbers[-1])
        return Base(frozenset(last.red_on_base), last.tests_on_base)

    def _before(self, judged: Iteration) -> Iteration | None:
        """The task's iteration before this one, None where it starts anew."""
        task = next((task for task in self.prd.tasks if task.id == judged.task_id), None)
        if task is None or task.settled_iteration is None or not task.attempts:
            return None
        return self._last.get(task.id) or _read(self._project, task.settled_iteration)

    # Between agents

    def take_edits(self) -> None:
        """Read prd.json again; what a person changed since it was written is taken over. Raises RalphError."""
        seen = disk.fingerprint(self._project.folder.prd)
        if seen is not None and seen == self._prd_seen:
            return
        data = store.read_prd_bytes(self._project.folder)
        self._prd_seen = seen
        if data == self._prd_bytes:
            return
        theirs = codec.decode_prd(data, name=str(self._project.folder.prd))
        if (theirs.project, theirs.branch) != (self.prd.project, self.prd.branch):
            name = "project" if theirs.project != self.prd.project else "branch"
            raise RalphError(
                f"{self._project.folder.prd}: $.{name} was changed while a run went on, so it ended; run 'ralph resume'"
            )
        self.prd = settling.with_edit(self.prd, theirs)
        self._prd_bytes = data
        self.edited = True
        self._notice("info", "prd.json was edited: the changes are taken over")

    # Write order, step 1

    def open(self, opened: Iteration, prd: Prd, opening: Opening, git_files: git_guard.Guard) -> None:
        """What the agent must leave alone is remembered, also against a crash; then the iteration file, prd.json."""
        folder = self._project.folder
        if not self.landing.has_saved_state:
            self.landing.save_state()
        name = f"history/iteration-{opened.iteration_number}.json"
        data = self._encoder.encode(prd)
        state = {**guard.contents_at_top(folder), "prd.json": data, name: codec.encode_iteration(opened)}
        leftovers.save(self._project, opened.iteration_number, opening, git_files, state)
        history.create(folder, opened)
        self._put_prd(prd, data)
        self.landing.unsaved |= {"progress.txt", "config.yaml", name}
        self.watch.begin(opened.iteration_number, prd=data)

    def restore_state(self) -> tuple[str, ...]:
        """Put back what was changed in the state folder while others ran; returns what the agent must be told."""
        with self.writing:
            return self.watch.put_back()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """While gates run on the base: what they change in the state folder is put back."""
        with self.writing:
            self.watch.begin(0, prd=self._prd_bytes)
        try:
            yield
        finally:
            with self.writing:
                self.watch.put_back()
                self.watch.end()

    def apply(self, edit: Edit) -> str:
        """Carry out a person's edit that reached the run, at once; returns a line for them. Raises RalphError."""
        with self.writing:
            if self.watch.is_on:
                self.watch.put_back_meanwhile()
            else:
                self.take_edits()
            applied = edits.apply(self.prd, edit, at=self._clock.iso())
            data = self._encoder.encode(applied.prd)
            self.watch.keep(data)
            self._put_prd(applied.prd, data)
            self.watch.take(data)
            self.edited = True
            self._notice("info", f"ralph task: {applied.answer}")
            return applied.answer

    # Write order, steps 2 and 3

    def settle(self, judged: Iteration, opening: Opening, *, time_left: float) -> tuple[Iteration, policy.Settlement]:
        """Write the verdict down, then carry it out; returns the settled record and what followed."""
        judged = self.with_past(judged)
        history.update(self._project.folder, judged)
        return self._carry_out(judged, self._settlement(judged, time_left=time_left), opening)

    def with_past(self, judged: Iteration) -> Iteration:
        """The record with what the iteration before adds: same failures in a row, feedback still to be answered."""
        last = self._before(judged)
        return repeats.handed_on(repeats.counted(judged, last), last)

    def resettle(self, judged: Iteration, opening: Opening, *, keep_tree: bool) -> None:
        """Carry out what a dead run had judged. With `keep_tree` nothing is rolled back."""
        settlement = self._settlement(judged, time_left=1.0)
        self._carry_out(judged, replace(settlement, rollback=False) if keep_tree else settlement, opening)

    def _settlement(self, judged: Iteration, *, time_left: float) -> policy.Settlement:
        if judged.verdict is None:
            raise RalphError(
                f"{self._project.folder.iteration(judged.iteration_number)}: $.verdict is missing in phase judged; "
                "set its phase to settled to leave that iteration as it is"
            )
        return policy.settle(
            judged.verdict,
            self._standing(judged, time_left=time_left),
            feedback=judged.feedback,
            rollback=self._project.config.git.rollback,
        )

    def _standing(self, judged: Iteration, *, time_left: float) -> policy.Standing:
        config = self._project.config
        task = self._task_of(judged)
        stages = requirements.stages_of(config, task)
        return policy.Standing(
            stage=judged.stage,
            stages=stages,
            attempt=judged.attempt,
            allowed={stage: requirements.max_attempts(config, task, stage) for stage in {*stages, judged.stage}},
            used=task.attempts,
            time_left=time_left,
            repeats=judged.repeats,
            restarted=judged.restarted,
            over_budget=requirements.over_budget(config.limits, task, judged),
            retry_after=judged.fault.resets_at if judged.fault and judged.fault.kind == "usage-limit" else None,
        )

    def _task_of(self, judged: Iteration) -> Task:
        """The task, also where it was removed meanwhile."""
        task = next((task for task in self.prd.tasks if task.id == judged.task_id), None)
        return task or Task(id=judged.task_id, title=judged.task_id)

    def _carry_out(
        self, judged: Iteration, settlement: policy.Settlement, opening: Opening
    ) -> tuple[Iteration, policy.Settlement]:
        """Step 3, safe to repeat: the code commit or rollback, prd.json, progress, the record, the state commit."""
        self.watch.end()
        if settlement.trigger == "complete":
            settlement = self.landing.land(judged, self._task_of(judged), self.branch, settlement)
        self.landing.keep_or_roll_back(judged, settlement, opening)
        self.take_edits()
        at = self._clock.iso()
        self._write_prd(settling.settled(self.prd, judged, settlement, at=at))
        final = record.settled(judged, settlement)
        self._append_progress(final, settlement)
        history.update(self._project.folder, final)
        self.landing.unsaved.add(f"history/iteration-{final.iteration_number}.json")
        self._last[final.task_id] = final
        if settlement.trigger in ("complete", "block"):
            self.landing.commit_state(self.branch, f"ralph: {final.task_id} {settlement.completion_status}")
        self.landing.save_state()
        leftovers.remove(self._project, final.iteration_number)
        return final, settlement

    def finish(self) -> None:
        """The end of a run: everything is committed and saved."""
        self.landing.commit_state(self.branch, "ralph: state")
        self.landing.save_state()

    # Parts

    def _write_prd(self, prd: Prd) -> None:
        self._put_prd(prd, self._encoder.encode(prd))

    def _put_prd(self, prd: Prd, data: bytes) -> None:
        if data != self._prd_bytes:
            disk.replace_file(self._project.folder.prd, data)
            self._prd_bytes = data
            self._prd_seen = disk.fingerprint(self._project.folder.prd)
            self.landing.unsaved.add("prd.json")
        self.prd = prd

    def _append_progress(self, final: Iteration, settlement: policy.Settlement) -> None:
        text = self.progress_text()
        if progress.has_entry(text, final.iteration_number):
            return
        addition = progress.closing(text) + progress.entry(
            final,
            gates=[
                f"{check.step} {'passed' if check.passed else 'failed'}"
                for check in final.checks
                if check.method == "gate"
            ],
            reason="" if settlement.trigger == "complete" else reason_of(final, settlement),
            learnings=final.parsed.learnings if final.parsed else (),
            summary=final.parsed.summary if final.parsed and settlement.trigger == "complete" else "",
        )
        disk.append_file(self._project.folder.progress, addition.encode("utf-8", "replace"))
        self.landing.unsaved.add("progress.txt")


def last_feedback(project: Project, task: Task) -> str:
    """What the history says the task's last attempt must be told; empty for a task that starts anew."""
    last = _read(project, task.settled_iteration) if task.settled_iteration is not None else None
    return last.feedback if last else ""


def _read(project: Project, number: int) -> Iteration | None:
    try:
        return history.read(project.folder, number)
    except RalphError:
        return None


def read_progress(project: Project) -> str:
    """progress.txt; of one beyond reason, its end."""
    path = project.folder.progress
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            file.seek(max(0, size - MAX_PROGRESS_BYTES))
            return file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise RalphError(f"cannot read {path}: {error.strerror}") from error
