"""Everything a run writes to the state folder, in the write order; what goes to git is in landing.py.

Each step of settling is recognised when it was done already, so that a crash anywhere is mended by doing it again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from threading import RLock

import msgspec

from rulebook_ralph.clock import Clock
from rulebook_ralph.core import edits, merging, policy, settling
from rulebook_ralph.core.edits import Sent
from rulebook_ralph.core.enumeration import some
from rulebook_ralph.core.evidence import Iteration
from rulebook_ralph.core.identifiers import LAST_ITERATION
from rulebook_ralph.core.merging import differences
from rulebook_ralph.core.model import Prd
from rulebook_ralph.core.plan import AddAll
from rulebook_ralph.core.taking import Put, Take
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop import deciding, departure, leftovers, record, templates
from rulebook_ralph.loop.landing import Landing, Notice
from rulebook_ralph.loop.past import Past
from rulebook_ralph.loop.prd_file import PrdFile
from rulebook_ralph.loop.project import Project
from rulebook_ralph.loop.summary import reason_of
from rulebook_ralph.loop.unfinished import Unfinished
from rulebook_ralph.loop.watch import Watch
from rulebook_ralph.state import codec, disk, editable, history, progress, store
from rulebook_ralph.workspace import guard as git_guard
from rulebook_ralph.workspace.snapshot import Opening
from rulebook_ralph.workspace.snapshot_refs import highest_number


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
        self._progress: tuple[disk.Fingerprint | None, str] = (None, "")
        self.landing = landing
        self.past = Past(project.folder)
        self.writing = RLock()
        self.watch = Watch(project, fetch=landing.saved_content, take=self._take_meanwhile, notice=notice)
        self.file = PrdFile(project.folder, prd, prd_bytes, clock=clock, notice=notice)
        taken = self.count_numbers()
        self._require_number()
        if not landing.has_saved_state:
            landing.unsaved = set(map(history.name_of, taken))

    @property
    def prd(self) -> Prd:
        """The task list that the loop goes on with."""
        return self.file.prd

    @property
    def branch(self) -> str:
        return self.prd.work_branch

    def use(self, project: Project) -> None:
        """Go on with another configuration."""
        self._project = self.landing.project = project

    def tip(self) -> str:
        """The last commit on the branch. Raises RalphError where it is gone."""
        tip = self._project.repository.tip(self.branch)
        if tip is None:
            raise RalphError(f"branch {self.branch} is gone; bring it back, then: ralph resume")
        return tip

    def require_branch(self) -> None:
        """Raises RalphError where a person has checked out another branch meanwhile: the files of the state that stand
        there are those of that branch.
        """
        if not self._project.repository.is_on(self.branch):
            raise RalphError(
                f"{self.branch}, which the state is on, is not checked out any more in {self._project.root}; all work "
                f"is kept: git switch {self.branch}, then go on: ralph resume"
            )

    def move_out(self) -> None:
        """Before agents work elsewhere: unfinished work leaves the user's tree, and its task goes on from it there."""
        if (kept := self.landing.kept) is not None:
            self.past.bring_back(kept.task_id, Unfinished(kept.tree, self._project.repository.head()))
            self.landing.put_away_work_of_others("")

    # What an iteration is made of

    def count_numbers(self) -> list[int]:
        """Look which numbers are taken, in the history and the refs; returns those of the history, ascending."""
        taken = history.numbers(self._project.folder)
        self._number = max([*taken[-1:], highest_number(self._project.repository, self.prd.project)])
        return taken

    def take_number(self) -> int:
        """The next iteration number: above each in the history and the refs. Raises RalphError where none is left."""
        self._require_number()
        self._number += 1
        return self._number

    def _require_number(self) -> None:
        if self._number < LAST_ITERATION:
            return
        name = self._project.folder.iteration(self._number)
        raise RalphError(
            f"no iteration number is left after {self._number}; remove what is none of Ralph's own: {name}, or the "
            f"ref in refs/ralph/{self.prd.project}/tasks that ends with it (git update-ref -d)"
        )

    def progress_text(self) -> str:
        seen = disk.fingerprint(self._project.folder.progress)
        if seen is None or seen != self._progress[0]:
            self._progress = (seen, read_progress(self._project))
        return self._progress[1]

    # Write order, step 1

    def open(self, opened: Iteration, prd: Prd, opening: Opening, git_files: git_guard.Guard, *, place: str) -> None:
        """What the agent must leave alone is remembered, also against a crash; then the iteration file, prd.json. Of an
        agent that works in a checkout of its own (`place`) the state folder is out of the way: what changes there is a
        person's.
        """
        folder = self._project.folder
        if place and not self.landing.has_saved_state:
            self.landing.save_state()
        name = history.name_of(opened.iteration_number)
        data = self.file.encoded(prd)
        number, state = opened.iteration_number, {name: codec.encode_iteration(opened)}
        if not place:
            files, covered = leftovers.edited_by_people(folder)
            state |= {**files, "prd.json": data}
            self.landing.unsaved |= {name for name in files if templates.is_name(name.removeprefix("templates/"))}
            leftovers.save(self._project, number, opening, git_files, state, covered=covered)
        else:
            leftovers.save(self._project, number, opening, git_files, state, covered=(), place=place)
        history.create(folder, opened)
        self._put_prd(prd)
        self.landing.unsaved |= {"progress.txt", "config.yaml", name}
        if not place:
            self.landing.save_state(opened=number)
            self._begin_watch(number)

    def restore_state(self) -> tuple[str, ...]:
        """Put back what was changed in the state folder while others ran; returns what the agent must be told."""
        with self.writing:
            return self.watch.put_back()

    def _take_meanwhile(self, other: bytes) -> bytes | None:
        """Of an edit that was made while others ran: take over what does no harm, whoever made it.

        The rest is held, for it cannot be told from the agent's (DESIGN.md, Whose edit is it?): returns the list that
        it is an edit of, None where there is no rest.
        """
        path = self._project.folder.prd
        try:
            theirs = codec.decode_prd(other, name=str(path))
            base = self.file.base
            free = merging.harmless(base, theirs)
            together = self.file.with_edit(free)
        except RalphError as error:
            self._notice("warning", f"{error}; as it was written while an agent or gate worked, it is put aside")
            return codec.encode_prd(self.file.base)
        taken = [name for name, _ in groupby(found.task_id or "the description" for found in differences(base, free))]
        if self.file.problem:
            self._put_over_broken(together)
        elif taken:
            self._put_while_watched(together)
        if taken:
            self._notice("info", f"prd.json was edited while an agent or gate worked; taken over: {some(taken)}")
        held = [name for name, _ in groupby(found.task_id or "the list" for found in differences(free, theirs))]
        if not held:
            return None
        told = f"held, for it could be the agent's: what prd.json says of {some(held)}"
        self._notice("warning", f"{told}; if it was yours: ralph accept")
        return codec.encode_prd(free)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """While gates run on the base: what they change in the state folder is put back."""
        with self.writing:
            self._begin_watch(0)
        try:
            yield
        finally:
            with self.writing:
                self.watch.put_back()
                self.watch.end()

    def apply(self, edit: Sent) -> str:
        """Carry out a person's edit that reached the run, at once; returns a line for them. Raises RalphError."""
        with self.writing:
            if self.watch.is_on:
                self.watch.put_back_meanwhile()
            else:
                self.file.take_edits()
            if isinstance(edit, Put):
                return self._put_file(edit)
            if self.file.problem:
                raise RalphError(f"{self.file.problem}; mend it first")
            applied = edits.apply(self.prd, edit, at=self._clock.iso())
            for word in ("project", "branch"):
                if getattr(applied.prd, word) != getattr(self.prd, word):
                    raise RalphError(f"$.{word} cannot change while a run goes on; end it first (ralph pause)")
            self._put_while_watched(applied.prd)
            by = "accept" if isinstance(edit, Take) else "plan" if isinstance(edit, AddAll) else "task"
            self._notice("info", f"ralph {by}: {applied.answer}")
            return applied.answer

    def _put_file(self, edit: Put) -> str:
        """Write a file beside the task list; the loop reads the configuration again at the next boundary."""
        folder, name = self._project.folder, edit.name
        current = self.watch.content(name) if self.watch.is_on else editable.current(folder, name)
        if not edits.is_to_be_put(edit, current):
            return f"{name}: nothing changed"
        self.watch.keep(name, edit.content)
        editable.put(folder, name, edit.content)
        self.watch.take(name, edit.content)
        self.landing.unsaved.add(name)
        answer = f"{name}: taken over, from the next iteration on"
        self._notice("info", answer)
        return answer

    # Write order, steps 2 and 3

    def settle(self, judged: Iteration, opening: Opening, *, time_left: float) -> tuple[Iteration, policy.Settlement]:
        """Write the verdict down, then carry it out; returns the settled record and what followed."""
        judged, settlement = self.write_judged(self.with_past(judged), opening, time_left=time_left)
        return self._carry_out(judged, settlement, opening)

    def write_judged(
        self, judged: Iteration, opening: Opening, *, time_left: float
    ) -> tuple[Iteration, policy.Settlement]:
        """Step 2: the record with what is decided. What is kept against a crash has it first: from then on no other
        record is believed, and a run that dies in between finds the outcome there (loop/distrust.py).
        """
        settlement = deciding.settlement_of(judged, self._project, self.prd, time_left=time_left)
        judged = msgspec.structs.replace(judged, decision=deciding.written(settlement))
        self.landing.make_durable(judged, opening)
        leftovers.renew_record(self._project, judged.iteration_number, codec.encode_iteration(judged))
        history.update(self._project.folder, judged)
        return judged, settlement

    def with_past(self, judged: Iteration) -> Iteration:
        """The record with what the iterations before add."""
        task = next((task for task in self.prd.tasks if task.id == judged.task_id), None)
        return self.past.added_to(judged, task)

    def resettle(self, judged: Iteration, opening: Opening, *, keep_tree: bool) -> None:
        """Carry out what a dead run had judged. With `keep_tree` nothing is rolled back."""
        if judged.decision is not None:
            settlement = deciding.read(judged.decision)
        else:  # a record of an older version
            settlement = deciding.settlement_of(judged, self._project, self.prd, time_left=1.0)
        self._carry_out(judged, replace(settlement, rollback=False) if keep_tree else settlement, opening)

    def _carry_out(
        self, judged: Iteration, settlement: policy.Settlement, opening: Opening
    ) -> tuple[Iteration, policy.Settlement]:
        """Step 3, safe to repeat: the code commit or rollback, prd.json, progress, the record, the state commit."""
        self.watch.end()
        if settlement.trigger == "complete":
            settlement = self.landing.land(judged, deciding.task_of(judged, self.prd), self.branch, settlement)
        self.landing.keep_or_roll_back(judged, settlement, opening)
        self.file.take_edits()
        at = self._clock.iso()
        self._put_prd(settling.settled(self.prd, judged, settlement, at=at))
        final = msgspec.structs.replace(record.settled(judged, settlement), decision=None)
        self._append_progress(final, settlement)
        history.update(self._project.folder, final)
        self.landing.unsaved.add(history.name_of(final.iteration_number))
        self.past.add(final)
        if settlement.trigger in ("complete", "block"):
            self.landing.commit_state(self.branch, f"ralph: {final.names} {settlement.completion_status}")
        self.landing.save_state()
        departure.forget(self._project.repository, final.iteration_number)
        leftovers.remove(self._project, final.iteration_number)
        return final, settlement

    def finish(self) -> None:
        """The end of a run: everything is written, committed and saved."""
        self.file.tell_at_the_end()
        self._put_prd(self.prd)
        self.landing.commit_state(self.branch, "ralph: state")
        self.landing.save_state()

    # Parts

    def _put_prd(self, prd: Prd) -> None:
        if self.file.put(prd):
            self.landing.unsaved.add("prd.json")
        if self.file.problem:  # the saved state has the list, and what the person's began with
            base = codec.encode_prd(self.file.base)
            self.landing.held_back = {"prd.json": self.file.data, store.BASE_NAME: base}
        elif self.landing.held_back:
            self.landing.held_back = {store.BASE_NAME: b""}

    def _put_while_watched(self, prd: Prd) -> None:
        """Write the task list while others run, and remember that it was Ralph itself."""
        self.watch.keep("prd.json", self.file.encoded(prd))
        self._put_prd(prd)
        if self.file.stands_in_file:
            self.watch.take("prd.json", self.file.data)
        self.file.edited = True

    def _put_over_broken(self, prd: Prd) -> None:
        """The list in the file could not be read when the others began, and was mended meanwhile: it is in force again
        with what was taken over of that, and the broken text is kept, but never offered.
        """
        number, broken = self.watch.number, self.watch.content("prd.json")
        kept = leftovers.hold(self._project, number, "prd.json.unreadable", broken, base=None)
        self.watch.keep("prd.json", self.file.encoded(prd))
        self.file.put_over(prd)
        self._put_prd(prd)
        self.landing.unsaved.add("prd.json")
        self.watch.take("prd.json", self.file.data)
        self.file.edited = True
        self._notice("info", f"prd.json can be read again (the text that could not: {kept})")

    def _begin_watch(self, number: int) -> None:
        self.watch.begin(number, prd=None if self.file.problem else self.file.data)

    def _append_progress(self, final: Iteration, settlement: policy.Settlement) -> None:
        text = self.progress_text()
        if progress.has_entry(text, final.iteration_number):
            return
        addition = progress.closing(text) + progress.entry(
            final,
            gates=[f"{check.step} {check.ending}" for check in final.checks if check.method == "gate"],
            reason="" if settlement.trigger == "complete" else reason_of(final, settlement),
            learnings=progress.unheard(text, final.parsed.learnings if final.parsed else ()),
            summary=settling.words_of(final) if settlement.trigger == "complete" else "",
        )
        disk.append_file(self._project.folder.progress, addition.encode("utf-8", "replace"))
        self.landing.unsaved.add("progress.txt")


def read_progress(project: Project) -> str:
    """progress.txt; of one beyond reason, its end."""
    path = project.folder.progress
    try:
        return disk.read_file(path, largest=progress.LARGEST, only_end=True).decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise RalphError(f"cannot read {path}: {error.strerror}") from error
