"""What a live iteration keeps in the git folder against a crash: raw output, opening, guarded files, the state."""

import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from rulebook_ralph.core.identifiers import ITERATION_NUMBER
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop.project import Project
from rulebook_ralph.state import disk, history
from rulebook_ralph.state.holder import here
from rulebook_ralph.state.store import StateFolder
from rulebook_ralph.workspace import guard, isolated_workspace
from rulebook_ralph.workspace.raw_files import UNFINISHED
from rulebook_ralph.workspace.snapshot import Opening

_PREFIX = "opening-"
_RECORD = ".record"
"""Ends the name of the file beside an opening that holds the record as it was renewed since."""

_NUMBER = re.compile(rf"{_PREFIX}({ITERATION_NUMBER})")


class _Saved(msgspec.Struct, frozen=True):
    commit: str
    tree: str
    untracked: list[bytes]
    ignore_files: dict[bytes, bytes]
    guarded: bytes
    state: dict[str, bytes]
    covered: list[str] = []
    place: str = ""
    boot: str = ""


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What a dead run kept of iteration `number`; `state` are files of the state folder as the agent found them, and
    the record as Ralph itself wrote it last before it carried out the verdict.

    Of a file in `covered` that is not in `state` there was none; a name with a slash at its end is a folder's. `place`
    names the isolated checkout that the agent worked in; where there is one, state and git's own files were a person's.
    `may_be_torn`: the machine was started anew since, and of the checkout nothing was written through to the disk.
    """

    number: int
    opening: Opening
    guarded: guard.Guard
    state: dict[str, bytes]
    covered: tuple[str, ...]
    place: str = ""
    may_be_torn: bool = False

    @property
    def record(self) -> bytes | None:
        """The iteration's record."""
        return self.state.get(history.name_of(self.number))


def output_file(project: Project, number: int) -> Path:
    """Where an iteration's raw output is streamed to while its agent runs."""
    return project.repository.private / f"output-{number}.log"


def is_kept(private: Path, number: int) -> bool:
    """Whether an iteration is still to be settled, as the git folder says it, whatever stands in its record."""
    return (private / f"{_PREFIX}{number}").is_file()


def last_sign_of_life(project: Project, number: int) -> float:
    """When the iteration's agent is last known to have lived, in seconds since the epoch: when it began, or wrote."""
    times = [0.0]
    for path in (_file(project, number), output_file(project, number)):
        with suppress(OSError):
            times.append(path.lstat().st_mtime)
    return max(times)


def edited_by_people(folder: StateFolder) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """The files beside the task list that people edit, and which of them could be looked at (`Leftovers.covered`)."""
    covered = [] if folder.config.is_symlink() else [folder.config.name]
    paths = [folder.config]
    if not folder.templates.is_symlink():
        covered.append(f"{folder.templates.name}/")
        paths += sorted(folder.templates.rglob("*"))
    found = {}
    for path in paths:
        if path.is_file() and not path.is_symlink():
            with suppress(OSError):
                found[path.relative_to(folder.path).as_posix()] = disk.read_file(path)
    return found, tuple(covered)


def save(
    project: Project,
    number: int,
    opening: Opening,
    guarded: guard.Guard,
    state: dict[str, bytes],
    *,
    covered: tuple[str, ...],
    place: str = "",
) -> None:
    """Keep what the work is measured against and what the state was. Raises RalphError."""
    saved = _Saved(
        opening.commit,
        opening.tree,
        [os.fsencode(name) for name in sorted(opening.untracked)],
        {os.fsencode(name): content for name, content in opening.ignore_files.items()},
        guarded.encoded(),
        state,
        list(covered),
        place,
        here().boot,
    )
    path = _file(project, number)
    disk.make_folder(path.parent)
    with suppress(OSError):  # nobody's, or planted by an agent
        _record_of(path).unlink(missing_ok=True)
    disk.replace_file(path, msgspec.msgpack.encode(saved))


def renew(project: Project, number: int, state: Mapping[str, bytes]) -> None:
    """Other files of the state folder than `save` kept. Raises RalphError."""
    path = _file(project, number)
    if (saved := _read(path)) is None:
        return
    disk.replace_file(path, msgspec.msgpack.encode(msgspec.structs.replace(saved, state={**saved.state, **state})))


def renew_record(project: Project, number: int, record: bytes) -> None:
    """Another record than `save` kept: beside the rest, which has the task list and may be large. Raises RalphError."""
    disk.replace_file(_record_of(_file(project, number)), record)


def load(project: Project, number: int) -> Leftovers | None:
    """What a dead run kept, or None where it is gone, damaged or another iteration's."""
    path, name = _file(project, number), history.name_of(number)
    if (saved := _read(path)) is None or name not in saved.state:
        return None
    try:
        guarded = guard.decoded(saved.guarded, project.repository)
        record = _record_of(path)
        renewed = {name: disk.read_file(record)} if os.path.lexists(record) else {}
    except (OSError, msgspec.MsgspecError):
        return None
    opening = Opening(
        saved.commit,
        saved.tree,
        frozenset(os.fsdecode(name) for name in saved.untracked),
        {os.fsdecode(name): content for name, content in saved.ignore_files.items()},
    )
    guarded = replace(guarded, of_git=not saved.place)
    may_be_torn = bool(saved.place) and saved.boot != here().boot
    return Leftovers(number, opening, guarded, saved.state | renewed, tuple(saved.covered), saved.place, may_be_torn)


def of_dead_runs(project: Project) -> list[Leftovers]:
    """All that dead runs kept, by iteration number."""
    return [kept for number in numbers(project) if (kept := load(project, number)) is not None]


def numbers(project: Project) -> list[int]:
    """The iterations of which something is kept, readable or not; ascending."""
    found = (_NUMBER.fullmatch(path.name) for path in project.repository.private.glob(f"{_PREFIX}*"))
    return sorted({int(match[1]) for match in found if match})


def remove(project: Project, number: int) -> None:
    """The iteration is settled: all of it stands in its snapshot and its record. What cannot go now goes later."""
    with suppress(OSError):
        output_file(project, number).unlink(missing_ok=True)
    _remove(_file(project, number))


def remove_damaged(project: Project, number: int) -> None:
    """What stands in the place of what was kept, whatever it is: an agent put it there."""
    opening = _file(project, number)
    for path in (opening, _record_of(opening)):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
    _remove(opening)


def begin_leaving(project: Project, tree: str) -> None:
    """Note, before the work tree is touched, that the unfinished work of that tree leaves it. Raises RalphError."""
    disk.replace_file(_leaving(project), tree.encode("ascii"))


def leaving(project: Project) -> str | None:
    """The tree whose unfinished work a dead run had begun to take away, or None."""
    with suppress(OSError, UnicodeDecodeError):
        return _leaving(project).read_text("ascii")
    return None


def end_leaving(project: Project) -> None:
    """It has left, or stays."""
    _leaving(project).unlink(missing_ok=True)


def remove_locks(project: Project, branch: str, *, after_death: bool) -> None:
    """Locks that git left where it was killed too: Ralph's own, and after a run that died those of what it wrote to,
    with the own index.
    """
    repository = project.repository
    own, shared = repository.git_folder, repository.common_folder
    locks = [*repository.private.glob("*.lock"), own / "index.ralph"]
    for folder in (own, shared, shared / "info", shared / "hooks"):
        locks += folder.glob(f"*{UNFINISHED}")
    locks += (shared / "refs").rglob(f"*{UNFINISHED}")
    if after_death:
        locks += [own / "index.lock", own / "HEAD.lock", shared / "packed-refs.lock"]
        locks.append(shared / f"refs/heads/{branch}.lock")
        locks.append(repository.private / "index")  # after a power cut it may be torn
        locks += (shared / "refs/ralph").rglob("*.lock")
    for path in locks:
        with suppress(OSError):
            path.unlink()


def clear(project: Project) -> None:
    """Every iteration is settled: nothing that a dead run kept is needed any more."""
    disk.remove_temporaries(project.repository.private)
    for path in project.repository.private.glob(f"{_PREFIX}*"):
        _remove(path.with_name(path.name.removesuffix(_RECORD)))
    for pattern in ("output-*.log", "marks-*"):
        for path in project.repository.private.glob(pattern):
            with suppress(OSError):
                path.unlink()
    with suppress(RalphError):  # there can be no checkout then
        isolated_workspace.remove_dead(project.repository)


def clear_passing(project: Project) -> None:
    """What a dead command had for a moment; living ones have such files and folders too, so after a death only."""
    for path in project.repository.private.glob("restore-index-*"):
        with suppress(OSError):
            path.unlink()
    for pattern in ("nothing-*", "verify-*", "along"):
        for folder in project.repository.private.glob(pattern):
            shutil.rmtree(folder, ignore_errors=True)


def keep_aside(project: Project, number: int, files: Mapping[str, bytes | None]) -> Path:
    """Keep the other versions of files that were put back, for the person; returns the folder."""
    return _keep(held_folder(project) / f"iteration-{number}", files)


def hold(project: Project, number: int, name: str, other: bytes | None, *, base: bytes | None) -> Path:
    """Keep the other version of a file of the state folder, with what an edit began with that it may be.

    Returns its path: one under which no other version is kept.
    """
    folder = held_folder(project) / f"iteration-{number}"
    place = _place(folder, name, other)
    _keep(folder, {place: other})
    _keep(folder.with_name(f"{folder.name}.base"), {place: base})
    return folder / place


def _place(folder: Path, name: str, other: bytes | None) -> str:
    """Of two edits in one iteration neither is lost."""
    above = [folder / parent for parent in Path(name).parents]
    place = wanted = name.replace("/", "-") if any(path.is_file() for path in above) else name
    number = 1
    while (path := folder / place).exists() and not (path.is_file() and path.read_bytes() == other):
        number += 1
        place = f"{wanted}.{number}"
    return place


def held_folder(project: Project) -> Path:
    """Where the other versions are kept: a folder for each iteration, and one with `.base` beside it."""
    return project.repository.private / "held"


def _keep(folder: Path, files: Mapping[str, bytes | None]) -> Path:
    for name, content in files.items():
        if content is not None:
            target = folder / name
            disk.make_folder(target.parent)
            disk.replace_file(target, content)
    return folder


def _leaving(project: Project) -> Path:
    return project.repository.private / "leaving"


def _file(project: Project, number: int) -> Path:
    return project.repository.private / f"{_PREFIX}{number}"


def _read(opening: Path) -> _Saved | None:
    try:
        return msgspec.msgpack.decode(disk.read_file(opening), type=_Saved)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _record_of(opening: Path) -> Path:
    return opening.with_name(f"{opening.name}{_RECORD}")


def _remove(opening: Path) -> None:
    """The record goes last, and only after the opening: one without it would say that its agent still works."""
    with suppress(OSError):
        opening.unlink(missing_ok=True)
        _record_of(opening).unlink(missing_ok=True)
