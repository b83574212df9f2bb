"""prd.json, which the loop and a person both write: read again at every boundary, merged, never overwritten unread."""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rulebook_ralph.clock import Clock
from rulebook_ralph.core import merging
from rulebook_ralph.core.model import Prd
from rulebook_ralph.core.prd_rules import problems_of
from rulebook_ralph.core.problem import json_path
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop.project import Project
from rulebook_ralph.state import codec, disk, store
from rulebook_ralph.state.store import StateFolder
from rulebook_ralph.workspace.commits import file_of_state, state_reference, state_references
from rulebook_ralph.workspace.repository import Repository


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a run did while it could not read the file, or not take over its new name: the list that the file began
    with, and the one that the run went on with, as they are saved.
    """

    began: Prd
    saved: Prd

    def merged_into(self, prd: Prd) -> Prd:
        """The list with what the run did."""
        return merging.merged(self.began, self.saved, prd)


def waiting(repository: Repository, prd: Prd | None) -> Waiting | None:
    """What is still to be merged into that list, which may have another project's name by now; for None, a list that
    cannot be read, what is to be merged into it once it can. Raises RalphError.
    """
    own = state_reference(prd.project) if prd else ""
    others = (name for name in state_references(repository) if name != own)
    for reference in (own, *others) if own else others:
        if not (data := file_of_state(repository, reference, store.BASE_NAME)):
            continue
        began = codec.decode_prd(data, name=f"{reference}:{store.BASE_NAME}")
        name = f"{reference}:prd.json"
        saved = codec.decode_prd(file_of_state(repository, reference, "prd.json") or data, name=name)
        if prd is None or (_is_of_same_list(began, prd) and prd.totals.iterations <= saved.totals.iterations):
            return Waiting(began, saved)
    return None


def _is_of_same_list(began: Prd, prd: Prd) -> bool:
    """Whether a list is an edit of the other, maybe with a new name."""
    if began.project == prd.project:
        return True
    same = {task.id for task in began.tasks} & {task.id for task in prd.tasks}
    return began.created_at == prd.created_at and bool(same)


def reunited(project: Project, prd: Prd, notice: Callable[[str, str], None]) -> Prd:
    """The list of a file that an earlier run could not read, and so left as it was, with what that run did meanwhile.

    Raises RalphError where the two do not fit together.
    """
    found = waiting(project.repository, prd)
    if found is None:
        return prd
    together = found.merged_into(prd)
    for place, message in problems_of(together):
        raise RalphError(f"{project.folder.prd}: {json_path(place)}: {message}, with what the last run did")
    notice("info", "prd.json could not be read by the last run: what that run did is merged into it")
    return together


class PrdFile:
    """The task list that the loop goes on with, and what of it stands in the file.

    As long as the file cannot be read, or says what cannot be, it is left as it is: `problem` says why, and `data`
    is only in the saved state. `edited` is for the loop to see, and to take back.
    """

    def __init__(
        self, folder: StateFolder, prd: Prd, data: bytes, *, clock: Clock, notice: Callable[[str, str], None]
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._notice = notice
        self._encoder = codec.PrdEncoder()
        self._seen: disk.Fingerprint | None = None
        self._in_file = data
        self.base = prd
        self.prd = prd
        self.data = data
        self.edited = False
        self.problem = ""

    @property
    def stands_in_file(self) -> bool:
        """Whether the file has what the loop goes on with."""
        return self.data == self._in_file

    def encoded(self, prd: Prd) -> bytes:
        return self._encoder.encode(prd)

    def take_edits(self) -> None:
        """Read the file again; what a person changed since it was written is merged. One that is gone is none."""
        path = self._folder.prd
        seen = disk.fingerprint(path)
        if seen is not None and seen == self._seen:
            return
        if seen is None and not os.path.lexists(path):
            self._seen, self._in_file = None, b""
            return
        try:
            data = store.read_prd_bytes(self._folder)
            if data != self._in_file or self.problem:
                self._take(data)
        except RalphError as error:
            self._leave_alone(str(error), seen)
            return
        self._seen, self.problem = seen, ""

    def _take(self, data: bytes) -> None:
        theirs = codec.decode_prd(data, name=str(self._folder.prd))
        together = self.with_edit(theirs)
        if self.problem:
            self._notice("info", "prd.json can be read again: what was changed is taken over")
        elif together != self.prd:
            self._notice("info", "prd.json was edited: the changes are taken over")
        self.edited = self.edited or together != self.prd
        self.prd, self.base, self._in_file = together, theirs, data

    def put(self, prd: Prd) -> bool:
        """Go on with that list and write it, unless the file is to be left alone; whether anything is to be saved."""
        before, self.prd = self.data, prd
        if disk.fingerprint(self._folder.prd) != self._seen:
            self.take_edits()
        self.data = self.encoded(self.prd)
        if self.data != self._in_file and not self.problem:
            self._replace()
        return self.data != before

    def put_over(self, prd: Prd) -> None:
        """Go on with that list and write it over what cannot be read, which the caller has kept."""
        self.prd, self.data, self.problem = prd, self.encoded(prd), ""
        self._write()

    def _replace(self) -> None:
        """Write over what was read last. What an editor saved in the moment before has a second name: it is merged, or
        put back where it cannot be read.
        """
        path, seen, base = self._folder.prd, self._seen, self.base
        second = path.with_name(f".{path.name}.0.tmp")
        with suppress(OSError):  # some file systems know no second names
            second.unlink(missing_ok=True)
            os.link(path, second)
        self._write()
        unread = disk.fingerprint(second)
        if unread is not None and seen is not None and not disk.is_what_was_written(unread, seen):
            self._rescue(second, base)
        with suppress(OSError):
            second.unlink(missing_ok=True)

    def _rescue(self, second: Path, base: Prd) -> None:
        self.base = base
        try:
            self._take(second.read_bytes())
            self.data = self.encoded(self.prd)
            self._write()
        except (RalphError, OSError) as error:
            os.replace(second, self._folder.prd)  # noqa: PTH105 - as the link above
            self._leave_alone(str(error), disk.fingerprint(self._folder.prd))

    def _write(self) -> None:
        written = disk.replace_file(self._folder.prd, self.data)
        self._in_file, self.base = self.data, self.prd
        found = disk.fingerprint(self._folder.prd)  # of an editor's save by now, maybe: that one is still to be read
        self._seen = found if disk.is_what_was_written(found, written) else None

    def tell_at_the_end(self) -> None:
        """A file that cannot be read at the end of a run is told of, however young it is."""
        self.take_edits()
        if self.problem:
            saved = "what this run did is saved, and merged once the file is mended"
            self._notice("warning", f"{self.problem}; {saved}: mend it, then: ralph resume")

    def with_edit(self, theirs: Prd) -> Prd:
        """The loop's list with a person's edit in it. Raises RalphError for one that cannot be, or not now."""
        path = self._folder.prd
        for name in ("project", "branch"):
            if getattr(theirs, name) != getattr(self.base, name):
                raise RalphError(f"{path}: $.{name} cannot change while a run goes on; end it first (ralph pause)")
        together = merging.merged(self.base, self.prd, theirs)
        for place, message in problems_of(together):
            raise RalphError(f"{path}: {json_path(place)}: {message}")
        return together

    def _leave_alone(self, problem: str, seen: disk.Fingerprint | None) -> None:
        path = self._folder.prd
        if not os.path.lexists(path) or disk.is_being_saved(path, self._clock.now()):
            self.problem = self.problem or problem
            return
        self._seen = seen
        self.problem = problem
        self._notice("warning", f"{problem}; going on with the task list as it was, and leaving the file as it is")
