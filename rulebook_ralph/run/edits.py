"""prd.json, which the loop and a person both write: read at every boundary, merged, never overwritten unread.

The base of a merge is the version that the editor had loaded, told by its `updatedAt`: one of this run's, or one found
among the saved states. What was taken in is known too: an editor that saves again, with the same `updatedAt`, had that.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from rulebook_ralph.clock import Clock
from rulebook_ralph.errors import RalphError
from rulebook_ralph.run.project import Say
from rulebook_ralph.tasks import disk, merge, prd_file
from rulebook_ralph.tasks.model import LOOP_FIELDS, Prd, Task
from rulebook_ralph.tasks.prd_file import problems_of
from rulebook_ralph.tasks.text import json_path

MOST_VERSIONS = 64
"""So many of this run's own versions are known without asking git."""
_MOST_OF_ONE = 32
"""So many saves of buffers that had one version."""


class PrdFile:
    """The task list that the loop goes on with, and what of it stands in the file.

    As long as the file cannot be read, or says what cannot be, it is left as it is (`problem` says why), and what the
    run did is in the saved state alone. `saved_version` finds a version by its `updatedAt`, or gives None; `aside` is
    a folder for what was replaced, in the same file system.
    """

    def __init__(
        self,
        path: Path,
        prd: Prd,
        *,
        saved_version: Callable[[str], Prd | None],
        clock: Clock,
        notice: Say,
        aside: Path | None = None,
    ) -> None:
        self.prd = prd
        self.problem = ""
        self._path = path
        self._saved_version = saved_version
        self._clock = clock
        self._notice = notice
        self._versions: dict[str, list[Prd]] = {prd.updated_at: [prd]}
        self._in_file = b""
        self._read: disk.Fingerprint | None = None
        self._seen: disk.Fingerprint | None = None
        self._behind = (aside or path.parent) / f".{path.name}.replaced"
        self._behind_seen: disk.Fingerprint | None = None
        self._is_behind_unread = False
        self._told = ""
        self.close()

    def take_edits(self) -> None:
        """Read the file again; what a person changed is merged. A file that is gone is no edit, it is written anew."""
        self._look_behind()
        seen = disk.fingerprint(self._path)
        if seen is None and not os.path.lexists(self._path):
            self._in_file, self._read, self._seen, self.problem, self._told = b"", None, None, "", ""
            return
        if seen is not None and seen == self._seen:
            return
        try:
            data = disk.read_file(self._path)
            if data != self._in_file or self.problem:
                self._take(data)
        except (RalphError, OSError) as error:
            self._leave_alone(str(error), seen)
            return
        self._read, self.problem, self._told = seen, "", ""
        # two saves within a moment may have one time: a young file is read once more
        self._seen = None if disk.is_being_saved(self._path, self._clock.now()) else seen

    @property
    def is_gone(self) -> bool:
        """Whether somebody removed the file since it was read or written, or it could not be written."""
        return (not self._in_file or self._is_behind_unread) and not self.problem

    def put(self, prd: Prd) -> bytes:
        """Go on with that list; returns its text, to be saved before `write`."""
        self.prd = prd
        self._remember(prd.updated_at, prd)
        return prd_file.encode_prd(prd)

    def write(self) -> None:
        """Write the list, unless the file is to be left alone. What an editor saved in the last moment is merged."""
        self.take_edits()
        data = prd_file.encode_prd(self._for_file())
        if data == self._in_file or self.problem or self._is_behind_unread:
            return
        self._behind_seen = self._read
        self._read = self._seen = disk.replace_file(self._path, data, replaced=self._behind)
        self._in_file = data
        if self._look_behind():
            self.write()

    def close(self) -> None:
        """No more is read or written."""
        with suppress(OSError):
            self._behind.unlink(missing_ok=True)

    def _look_behind(self) -> bool:
        """What was replaced has a second name until the next look. An editor may have saved it between the look before
        and the rename, or have held it open and saved since: that is an edit too. Whether there was one.
        """
        behind, self._is_behind_unread = disk.fingerprint(self._behind), False
        if behind is None:
            return False
        if behind == self._behind_seen:
            if not disk.is_being_saved(self._behind, self._clock.now()):
                self.close()
            return False
        in_file = self._in_file
        try:
            self._take(disk.read_file(self._behind))
        except (RalphError, OSError) as error:
            if disk.is_being_saved(self._behind, self._clock.now()):
                self._is_behind_unread = True
                return False
            os.replace(self._behind, self._path)  # noqa: PTH105 - it stands where the person saved it
            self._leave_alone(str(error), disk.fingerprint(self._path))
            return False
        self._behind_seen, self._in_file = behind, in_file
        return True

    def _for_file(self) -> Prd:
        """What is to stand in the file."""
        return self.prd

    def _take(self, data: bytes) -> None:
        edited = prd_file.decode_prd(data, name=str(self._path))
        taken = merge.merge(self._base_of(edited), edited, self.prd)
        merged = taken.prd
        for name in ("project", "branch"):
            if getattr(merged, name) != getattr(self.prd, name):
                raise RalphError(f"{self._path}: $.{name} cannot change while a run goes on; end it first: ralph pause")
        for place, message in problems_of(merged):
            raise RalphError(f"{self._path}: {json_path(place)}: {message}")
        if self.problem:
            self._notice("info", "prd.json can be read again: what was changed is taken over")
        elif merged != self.prd:
            self._notice("info", "prd.json was edited: the changes are taken over")
        for task_id in taken.overtaken:
            self._notice("warning", f"task {task_id} was completed meanwhile, and stays completed")
        self._remember(edited.updated_at, edited)
        self.prd, self._in_file = merged, data

    def _base_of(self, edited: Prd) -> Prd | None:
        """What the editor had. Where several had the same version, it is the one of which the text takes back least,
        and then the nearest; a text that is back as it was takes back what was saved last.
        """
        if edited.updated_at not in self._versions:
            found = self._saved_version(edited.updated_at)
            if found is None:
                return None
            self._remember(edited.updated_at, found)
        known = self._versions[edited.updated_at]
        if len(known) == 1 or edited in known:
            return known[-1]
        first, changed = known[0], merge.distance(known[0], edited)

        def far(base: Prd) -> tuple[int, int]:
            distance = merge.distance(base, edited)
            return merge.distance(first, base) + distance - changed, distance  # first what is taken back

        return min(reversed(known), key=far)

    def _remember(self, updated_at: str, prd: Prd) -> None:
        known = [each for each in self._versions.pop(updated_at, []) if each != prd]
        if known:  # they share what is alike
            there = {task.id: task for task in known[-1].tasks}
            prd = replace(prd, tasks=tuple(there[t.id] if there.get(t.id) == t else t for t in prd.tasks))
        self._versions[updated_at] = [*known[:1], *known[1:][-_MOST_OF_ONE:], prd]
        while len(self._versions) > MOST_VERSIONS:
            del self._versions[next(iter(self._versions))]

    def _leave_alone(self, problem: str, seen: disk.Fingerprint | None) -> None:
        self.problem = problem
        if disk.is_being_saved(self._path, self._clock.now()) or self._told == problem:
            return
        self._seen, self._told = seen, problem
        self._notice("warning", f"{problem}; going on with the task list as it was, and leaving the file as it is")


class SessionPrdFile(PrdFile):
    """The same where the agent of a session can write the file: nothing of it counts before the next start.

    What a person edits stays in the file until then; a status and what else the loop sets are put back.
    """

    _edit: tuple[Prd | None, Prd] | None = None

    def _take(self, data: bytes) -> None:
        edited = prd_file.decode_prd(data, name=str(self._path))
        base = self._base_of(edited)
        edit = (base, _without_results(edited, base or self.prd))
        for place, message in problems_of(merge.merge(*edit, self.prd).prd):
            raise RalphError(f"{self._path}: {json_path(place)}: {message}")
        self._edit, self._in_file = edit, data

    def _for_file(self) -> Prd:
        return merge.merge(*self._edit, self.prd).prd if self._edit else self.prd


def _without_results(edited: Prd, known: Prd) -> Prd:
    """The list with a person's edits alone: status and results of each task as they were known, of a new one none."""
    names = ("status", *LOOP_FIELDS)
    before = {task.id: task for task in known.tasks}
    tasks = []
    for task in edited.tasks:
        source = before.get(task.id) or Task(id=task.id, title=task.title)
        tasks.append(replace(task, **{name: getattr(source, name) for name in names}))
    return replace(edited, tasks=tuple(tasks), project=known.project, branch=known.branch)
