"""Isolated checkouts to work in: one for each iteration that goes on, with equipment of its own.

An agent there is out of the way of a person and of other agents: its checkout shares nothing but objects. What its own
git says is not asked; Ralph's git looks at the checkout's files with the repository's git folder.
"""

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from rulebook_ralph.core import events
from rulebook_ralph.core.enumeration import some
from rulebook_ralph.core.events import WithinIteration
from rulebook_ralph.core.model import Task
from rulebook_ralph.core.settings import VerificationStep
from rulebook_ralph.loop.checkout import Checkout, UnusableError
from rulebook_ralph.loop.equipment import Equipment, Outfitter
from rulebook_ralph.loop.landing import Kept
from rulebook_ralph.loop.settler import Settler
from rulebook_ralph.loop.worker import Worker
from rulebook_ralph.workspace import guard
from rulebook_ralph.workspace.git import GitError
from rulebook_ralph.workspace.isolated_clone import bring_commits
from rulebook_ralph.workspace.rebasing import rebased
from rulebook_ralph.workspace.snapshot import Opening, Workspace


class Desk:
    """One checkout, made when it is first needed. Its equipment is its own: what its judges cost is known apart from
    what others do.
    """

    def __init__(
        self,
        gear: Equipment,
        outfitter: Outfitter,
        settler: Settler,
        guarded: Callable[[], guard.Guard],
        *,
        is_one_of_several: bool,
    ) -> None:
        self._common = gear
        self._outfitter = replace(outfitter, report=self.report)
        self._settler = settler
        self._guarded = guarded
        self._is_one_of_several = is_one_of_several
        self._report = outfitter.report
        self._number = 0
        self._checkout = self._made()
        self._gear: Equipment | None = None
        self._workspace: Workspace | None = None
        self.place = ""

    @property
    def gear(self) -> Equipment:
        """Its own as soon as there is a checkout."""
        return self._gear or self._common

    @property
    def workspace(self) -> Workspace:
        """There is one from the first `open` on."""
        if self._workspace is None:
            raise LookupError("nothing was opened here")
        return self._workspace

    def report(self, event: events.Event) -> None:
        """Pass on what happens here, saying in which iteration, where there are several."""
        if self._is_one_of_several and self._number and isinstance(event, events.OfOneIteration):
            event = WithinIteration(self._number, event)
        self._report(event)

    def begins(self, number: int) -> None:
        """0 is none."""
        self._number = number

    def unfinished(self, task: Task) -> Kept | None:
        """What the task's last iteration left, on top of what the branch is by now; None where it does not merge,
        or nothing can be set up there.
        """
        left = self._settler.past.unfinished(task)
        if left is None:
            return None
        tip = self._settler.tip()
        merged = rebased(self._common.project.repository, left.tree, base=left.base, onto=tip)
        if merged.conflicts:
            self._say_left_out(task, "does not merge with what landed since", some(list(merged.conflicts)))
            return None
        try:
            self._checkout.lend(merged.tree, tip)
        except UnusableError as error:
            self._say_left_out(task, "is nothing to go on from", f"{error.result.step}: {error.result.reason}")
            return None
        return Kept(task.id, merged.tree, tip)

    def _say_left_out(self, task: Task, why: str, told: str) -> None:
        what = f"the unfinished work at {task.id} {why}, its snapshots keep it: {told}"
        self._report(events.Notice("info", what))

    def open(self, kept: Kept | None) -> Opening:
        tip = kept.base if kept else self._settler.tip()
        tree = kept.tree if kept else self._common.project.repository.tree_of(tip)
        lent = self._checkout.lend(tree, tip)
        if self._gear is None or lent.workspace is not self._workspace:
            self._workspace, self.place = lent.workspace, lent.name
            self._gear = replace(self._outfitter, workspace=lent.workspace).equip_at(lent.standing, self._common)
        opening = lent.workspace.open(kept.tree if kept else None, base=tip)
        self._gear.gatekeeper.make_ready(opening)
        return opening

    def own_commits(self) -> tuple[str, ...]:
        if self._wrong_folders():
            return ()
        with suppress(GitError, OSError):  # whatever it did to its git folder
            return bring_commits(self.workspace.repository)
        return ()

    def restore_state(self) -> tuple[str, ...]:
        """What changes in the state folder is a person's; but what git says here, and where it stands, is no agent's to
        decide.
        """
        if wrong := self._wrong_folders():
            for folder in wrong:
                folder.unlink(missing_ok=True)
                folder.mkdir()
            return ("The folder that the work is done in was removed, or something else put in its place.",)
        self._checkout.renew_git_folder()
        return ()

    def _wrong_folders(self) -> list[Path]:
        """Of the folders that the checkout stands in, those that are none."""
        root = self.workspace.repository.root
        folders = (root.parent.parent, root.parent, root)
        return [folder for folder in folders if folder.is_symlink() or not folder.is_dir()]

    def guard(self, steps: Iterable[VerificationStep], opening: Opening) -> guard.Guard:  # noqa: ARG002 - as of any place
        return self._guarded()

    def close(self) -> None:
        if self._gear is not None:
            self._gear.gatekeeper.close()
        if self._number:  # it ends in the midst of an iteration, and recovery saves what stands there
            self._checkout.leave()
        else:
            self._checkout.close()
        self._gear = self._workspace = None

    def _made(self) -> Checkout:
        gear, cancelled = self._common, self._outfitter.cancelled
        return Checkout(gear.project, gear.redactor.clean, cancelled, self.report, keeps_work=True)


class Desks:
    """All of them. `files` are outside the repository and decide how work is judged: nobody but a person may change
    them, and what they are is remembered while nobody works, since an agent may change what another one would find.
    """

    def __init__(self, gear: Equipment, outfitter: Outfitter, settler: Settler, files: Iterable[Path]) -> None:
        self._gear = gear
        self._outfitter = outfitter
        self._settler = settler
        self._files = tuple(files)
        self._guard: guard.Guard | None = None
        self._desks: list[Desk] = []
        self._earlier: list[Desk] = []

    def free(self, busy: Collection[Worker]) -> Desk:
        """One at which nobody works; `busy` are the others."""
        if not busy:
            self._guard = None
        for desk in self._desks:
            if desk not in busy:
                return desk
        several = self._gear.config.parallel.workers > 1
        desk = Desk(self._gear, self._outfitter, self._settler, self._guarded, is_one_of_several=several)
        self._desks.append(desk)
        return desk

    def use(self, gear: Equipment, busy: Collection[Worker]) -> None:
        """Go on with another configuration, where nobody works yet."""
        self._gear = gear
        for desk in self._desks:
            if desk not in busy:
                desk.close()
        self._earlier += [desk for desk in self._desks if desk in busy]
        self._desks.clear()

    def left(self, worker: Worker) -> None:
        """Nobody works there any more. One that is set up for an earlier configuration is removed."""
        if isinstance(worker, Desk):
            worker.begins(0)
            if worker in self._earlier:
                self._earlier.remove(worker)
                worker.close()

    def close(self) -> None:
        """Remove all of them."""
        for desk in (*self._desks, *self._earlier):
            desk.close()
        self._desks.clear()
        self._earlier.clear()

    def _guarded(self) -> guard.Guard:
        if self._guard is None:
            self._guard = guard.remember_outside(self._gear.project.repository, self._files)
        return self._guard
