"""The journal: the only writer of a project's state.

An iteration goes `executing` → `judged` (its candidate commit in the record, from here its end is decided) → the branch
is moved → prd.json → progress.txt → `settled`. Each save is first a commit of `refs/ralph/<project>/state`, which
recovery and the bases of merges are read from; the files under `.rulebook-ralph/` are its copy. Each step is recognised
when it was done already, so recovery does them again.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from rulebook_ralph.clock import Clock
from rulebook_ralph.errors import RalphError
from rulebook_ralph.git import attempts
from rulebook_ralph.git.repository import Repository
from rulebook_ralph.run.edits import PrdFile, SessionPrdFile
from rulebook_ralph.run.project import Project, Say
from rulebook_ralph.tasks import disk, history, lifecycle, prd_file, progress
from rulebook_ralph.tasks.history import Decision, Iteration
from rulebook_ralph.tasks.lifecycle import Trigger, advance
from rulebook_ralph.tasks.model import LAST_ITERATION, STATE_FOLDER, Prd, Task

_OPEN = re.compile(r"^Open:((?: \d+)+)$", re.MULTILINE)
_FILES = re.compile(r"^Files:((?: [\w./-]+)+)$", re.MULTILINE)
_RECORD = re.compile(r"history/iteration-(\d+)\.json")
PROGRESS = "progress.txt"


class Journal:
    """One project's state, for one run that holds its lock."""

    def __init__(self, project: Project, prd: Prd, *, clock: Clock, notice: Say, takes_edits: bool = True) -> None:
        self._project = project
        self._clock = clock
        self._reference = attempts.state_reference(prd.project)
        self._saved = project.repository.commit_of(self._reference)
        message = project.repository.text("log", "-1", "--format=%B", self._saved, "--") if self._saved else ""
        self._open = {int(number) for number in _words_of(_OPEN, message)}
        self._stale = _words_of(_FILES, message)
        self._is_checked_out = False
        self._unwritten: dict[str, bytes] = {}
        self._last: dict[str, Iteration] = {}
        kind = PrdFile if takes_edits else SessionPrdFile
        self._file = kind(
            project.folder.prd,
            prd,
            saved_version=lambda updated_at: saved_version(project.repository, self._saved, updated_at),
            clock=clock,
            notice=notice,
            aside=project.private if project.private.is_dir() else None,
        )
        data = disk.content_of(project.folder.progress)
        header = progress.header(prd.project, created_at=clock.iso(), task_count=len(prd.tasks))
        self._progress = header if data is None else data.decode("utf-8", "surrogateescape")
        in_refs = attempts.highest_number(project.repository, prd.project)
        self._number = max([0, *history.numbers(project.folder), *self._open, in_refs])
        if self._number >= LAST_ITERATION:
            raise RalphError(
                f"no iteration number is left after {self._number}; remove what is none of Ralph's own: "
                f"{project.folder.iteration(self._number)}, or the ref that ends with it (git update-ref -d)"
            )

    # What the loop reads

    @property
    def prd(self) -> Prd:
        """The task list that the loop goes on with."""
        return self._file.prd

    @property
    def progress(self) -> str:
        """The text of progress.txt."""
        return self._progress

    @property
    def progress_bytes(self) -> bytes:
        """The same as it is written."""
        return _bytes(self._progress)

    @property
    def saved(self) -> str | None:
        """The commit of the saved state."""
        return self._saved

    @property
    def problem(self) -> str:
        """Why prd.json is left as it is; empty where it is not."""
        return self._file.problem

    def take_edits(self) -> None:
        """Take over what a person saved in prd.json meanwhile, and write it again where it is gone. Where another
        branch is checked out meanwhile, what stands there is that one's.
        """
        if self._is_checked_out and not self.is_here():
            return
        self._file.take_edits()
        if self._is_checked_out and self._saved is not None and (self._unwritten or self._file.is_gone):
            self.write_files()

    def edit(self, change: Callable[[Prd], Prd]) -> Prd:
        """Apply a command's change of the task list, save and write it. Raises what `change` raises."""
        self.take_edits()
        changed = change(self.prd)
        if changed != self.prd:
            self._save({}, changed)
        return self.prd

    def last(self, task: Task) -> Iteration | None:
        """The task's last settled iteration, where its record is still there."""
        if task.id not in self._last and task.settled_iteration is not None:
            with suppress(RalphError):
                self._last[task.id] = self.read(task.settled_iteration)
        return self._last.get(task.id)

    def read(self, number: int) -> Iteration:
        """A record: the saved state's, else the file's. Raises RalphError."""
        data = self._saved_content(history.name_of(number))
        if data is None:
            return history.read(self._project.folder, number)
        return history.decode(data, name=f"{self._reference}:{history.name_of(number)}")

    def unsettled(self) -> tuple[Iteration, ...]:
        """The iterations that a dead run left, oldest first."""
        return tuple(self.read(number) for number in sorted(self._open))

    def now(self) -> str:
        """The time, as it is written; each is later than the last one, for it names a version."""
        at, before = self._clock.iso(), self.prd.updated_at
        return at if at > before else _after(before)

    def take_number(self) -> int:
        """The next iteration number: above each in the history and the refs."""
        self._number += 1
        return self._number

    # The steps

    def open(self, record: Iteration) -> None:
        """Step 1: the record in phase executing, its task in iteration."""
        self._begin()
        self._open.add(record.iteration_number)
        self._save({history.name_of(record.iteration_number): history.encode(record)}, self._with_task_open(record))

    def judged(self, record: Iteration) -> None:
        """Step 2: the verdict, the candidate commit and what follows from them. From here the end is decided. What a
        person approves is opened by it.
        """
        is_open = record.iteration_number in self._open
        self._open.add(record.iteration_number)
        prd = None if is_open else self._with_task_open(record)
        if record.commit is not None:  # until the branch has it, `git gc` would remove it
            candidate = attempts.candidate_reference(self.prd.project)
            self._project.repository.objects.move(candidate, record.commit)
        self._save({history.name_of(record.iteration_number): history.encode(record)}, prd)

    def _with_task_open(self, record: Iteration) -> Prd:
        number, task = record.iteration_number, self.prd.task(record.task_id)
        return self.prd.replacing(lifecycle.opened(task, stage=record.stage, number=number, at=record.started_at))

    def settle(self, record: Iteration, decision: Decision, *, reason: str) -> Iteration:
        """The steps after the branch: prd.json, progress.txt, the record in phase settled; returns that."""
        prd = lifecycle.settled(self.prd, record, decision, at=self.now())
        settled = _as_settled(record, decision)
        self._open.discard(record.iteration_number)
        self._last[record.task_id] = settled
        self._tell(settled, reason)
        self._save({history.name_of(record.iteration_number): history.encode(settled)}, prd)
        return settled

    def reopen(self, feedback: Mapping[str, str]) -> None:
        """Tasks that are to be worked on again, each with what its next attempt is told."""
        files, prd = {}, self.prd
        for task_id, text in feedback.items():
            task = prd.task(task_id)
            last = self.last(task)
            if last is not None:
                told = replace(last, feedback=text, completion_status="failed", tasks_completed=())
                self._last[task_id] = told
                files[history.name_of(last.iteration_number)] = history.encode(told)
            trigger: Trigger = "reopen" if task.status == "completed" else "unblock"
            prd = prd.replacing(
                replace(task, status=advance(task.status, trigger), blocked_reason=None, completed_at=None, attempts={})
            )
        self._save(files, prd)

    # Saving: the ref first, then its copy

    def _save(self, files: Mapping[str, bytes], prd: Prd | None) -> None:
        changed = dict(files)
        self._begin()
        if prd is not None and prd != self.prd:
            if prd.updated_at == self.prd.updated_at:
                prd = replace(prd, updated_at=self.now())
            changed["prd.json"] = self._file.put(prd)
        self._commit(changed)
        self._unwritten |= {name: data for name, data in changed.items() if name != "prd.json"}
        self.write_files()

    def _begin(self) -> None:
        """The first save is the list as it was found: an editor may have loaded it."""
        if self._saved is None:
            self._commit({"prd.json": self._file.put(self.prd)})

    def _commit(self, files: Mapping[str, bytes]) -> None:
        opened = f"\nOpen:{''.join(f' {number}' for number in sorted(self._open))}" if self._open else ""
        names = sorted({*files, *self._unwritten} - {PROGRESS})  # what a crash at this moment leaves to be written
        opened += f"\nFiles: {' '.join(names)}" if names else ""
        self._saved = attempts.save_state(
            self._project.repository,
            self._reference,
            files,
            parent=self._saved,
            message=f"ralph: state\n\nUpdated: {self.prd.updated_at}{opened}\n",
            seconds=self._clock.seconds(),
        )

    def write_files(self) -> None:
        """Write what the folder lacks. Where another branch is checked out nothing is, until its own is there again."""
        folder = self._project.folder
        if not self.is_here():
            return
        disk.make_folder(folder.history)
        for name, data in self._unwritten.items():
            if name == PROGRESS:
                self._append(data)
            else:
                disk.replace_file(folder.path / name, data)
        self._unwritten.clear()
        before = self.prd
        self._file.write()
        if self.prd is not before:  # an editor saved at this very moment
            self._commit({"prd.json": self._file.put(self.prd)})

    def _append(self, data: bytes) -> None:
        """What progress.txt lacks; what a person wrote into it stays."""
        path = self._project.folder.progress
        there = disk.content_of(path) or b""
        if data.startswith(there):
            missing = data[len(there) :]
        else:
            text = there.decode("utf-8", "surrogateescape")
            entries = [each for each in progress.entries(self._progress) if not progress.has_entry(text, each.number)]
            missing = _bytes(progress.closing(text) + "".join(each.text for each in entries)) if entries else b""
        if missing:
            disk.append_file(path, missing)

    def restore_files(self) -> tuple[str, ...]:
        """Once the branch is checked out: write again what is missing of the state's files (`git stash -u` takes them
        away), and what a dead run had not written yet; returns the names of the missing ones.
        """
        folder, repository = self._project.folder, self._project.repository
        self._is_checked_out = True
        if self._saved is None or not self.is_here():
            return ()
        names = sorted(attempts.entries_of_state(repository, self._saved))
        missing = [name for name in names if _is_own(name) and not (folder.path / name).exists()]
        stale, self._stale = {*self._stale, *missing} & {*names} - {"prd.json"}, ()
        for name in sorted(stale):
            data = self._saved_content(name)
            if data is not None and disk.content_of(folder.path / name) != data:
                self._unwritten[name] = data
        if not folder.progress.exists():
            stale, self._unwritten[PROGRESS] = {*names}, self.progress_bytes
        for number in sorted(int(found[1]) for found in map(_RECORD.fullmatch, stale) if found):
            record = self.read(number)
            if record.phase == "settled":
                self._tell(record, record.verdict.reason if record.verdict and not record.tasks_completed else "")
        self.write_files()
        return tuple(missing)

    # Parts

    def _saved_content(self, name: str) -> bytes | None:
        if self._saved is None:
            return None
        return attempts.file_of_state(self._project.repository, self._saved, name)

    def is_here(self) -> bool:
        """Whether the files that stand there are those of the work: its branch is checked out, or git knows nothing of
        them, so that they stay whatever branch is.
        """
        repository, path = self._project.repository, self._project.folder.prd
        if repository.branch() == self.prd.work_branch:
            return True
        return path.exists() and not repository.text("ls-files", "--", f":(literal){STATE_FOLDER}/{path.name}")

    def _tell(self, record: Iteration, reason: str) -> None:
        """Add the entry of a settled record to progress.txt, where that lacks it."""
        if progress.has_entry(self._progress, record.iteration_number):
            return
        entry = progress.entry(
            record,
            gates=[f"{check.step} {check.ending}" for check in record.checks if check.method == "gate"],
            reason=reason,
            learnings=progress.unheard(self._progress, record.parsed.learnings if record.parsed else ()),
            summary=lifecycle.words_of(record) if record.tasks_completed else "",
        )
        self._progress += progress.closing(self._progress) + entry
        self._unwritten[PROGRESS] = self.progress_bytes  # made from the records, so not saved with each of them

    def end(self) -> None:
        """No more is read or written."""
        self._file.close()

    def close(self, record: Iteration) -> None:
        """A record that was settled already: it is not open any more."""
        self._open.discard(record.iteration_number)


def saved_version(repository: Repository, saved: str | None, updated_at: str) -> Prd | None:
    """The task list of that time among the saved states that lead to `saved`, as far as it is still there."""
    if saved is None or not updated_at:
        return None
    commit = attempts.state_with_message(repository, saved, f"Updated: {updated_at}")
    data = attempts.file_of_state(repository, commit, "prd.json") if commit else None
    with suppress(RalphError):
        return None if data is None else prd_file.decode_prd(data, name=f"{commit}:prd.json")
    return None


def _words_of(line: re.Pattern[str], message: str) -> tuple[str, ...]:
    """What a line of the saved state's message names."""
    found = line.search(message)
    return tuple(found[1].split()) if found else ()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _as_settled(record: Iteration, decision: Decision) -> Iteration:
    """The last form of a record."""
    completes = decision.trigger == "complete"
    return replace(
        record,
        phase="settled",
        decision=None,
        completion_status=decision.completion_status,
        stop_reason=decision.stop_reason or record.stop_reason,
        feedback=decision.feedback,
        restarted=decision.restarted,
        rolled_back=decision.rollback,
        tasks_completed=record.tasks if completes else (),
        commit=record.commit if completes else None,
        failed_count=int(decision.completion_status in ("failed", "blocked")),
    )


def _is_own(name: str) -> bool:
    return name in ("prd.json", PROGRESS) or name.startswith("history/")


def _after(moment: str) -> str:
    """A millisecond later, as it is written."""
    try:
        later = datetime.fromisoformat(moment) + timedelta(milliseconds=1)
    except (ValueError, OverflowError):  # a person wrote it
        return f"{moment}+"
    return later.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
