"""What a live iteration keeps in the git folder against a crash: raw output, opening, guarded files, the state."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop.project import Project
from rulebook_ralph.state import disk
from rulebook_ralph.workspace import guard
from rulebook_ralph.workspace.snapshot import Opening

_PREFIX = "opening-"


class _Saved(msgspec.Struct, frozen=True):
    commit: str
    tree: str
    untracked: list[bytes]
    ignore_files: dict[bytes, bytes]
    guarded: bytes
    state: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What a dead run kept of an iteration; `state` are files of the state folder as the agent found them."""

    opening: Opening
    guarded: guard.Guard
    state: dict[str, bytes]


def output_file(project: Project, number: int) -> Path:
    """Where an iteration's raw output is streamed to while its agent runs."""
    return project.repository.private / f"output-{number}.log"


def save(project: Project, number: int, opening: Opening, guarded: guard.Guard, state: dict[str, bytes]) -> None:
    """Keep what the work is measured against and what the state was. Raises RalphError."""
    saved = _Saved(
        opening.commit,
        opening.tree,
        [os.fsencode(name) for name in sorted(opening.untracked)],
        {os.fsencode(name): content for name, content in opening.ignore_files.items()},
        guarded.encoded(),
        state,
    )
    path = _file(project, number)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.msgpack.encode(saved))
    except OSError as error:
        raise RalphError(f"cannot write {path}: {error.strerror}; make room there") from error


def renew(project: Project, number: int, state: Mapping[str, bytes]) -> None:
    """Other files of the state folder than `save` kept. Raises RalphError."""
    path = _file(project, number)
    try:
        saved = msgspec.msgpack.decode(path.read_bytes(), type=_Saved)
    except (OSError, msgspec.MsgspecError):
        return
    disk.replace_file(path, msgspec.msgpack.encode(msgspec.structs.replace(saved, state={**saved.state, **state})))


def load(project: Project, number: int) -> Leftovers | None:
    """What a dead run kept, or None where it is gone or torn."""
    try:
        saved = msgspec.msgpack.decode(_file(project, number).read_bytes(), type=_Saved)
        guarded = guard.decoded(saved.guarded, project.repository)
    except (OSError, msgspec.MsgspecError):
        return None
    opening = Opening(
        saved.commit,
        saved.tree,
        frozenset(os.fsdecode(name) for name in saved.untracked),
        {os.fsdecode(name): content for name, content in saved.ignore_files.items()},
    )
    return Leftovers(opening, guarded, saved.state)


def of_dead_runs(project: Project) -> list[Leftovers]:
    """All that dead runs kept, by iteration number."""
    numbers = sorted(
        int(path.name.removeprefix(_PREFIX))
        for path in project.repository.private.glob(f"{_PREFIX}*")
        if path.name.removeprefix(_PREFIX).isdecimal()
    )
    return [kept for number in numbers if (kept := load(project, number)) is not None]


def remove(project: Project, number: int) -> None:
    """The iteration is settled: all of it stands in its snapshot and its record."""
    output_file(project, number).unlink(missing_ok=True)
    _file(project, number).unlink(missing_ok=True)


def clear(project: Project) -> None:
    """Every iteration is settled: nothing that a dead run kept is needed any more."""
    for pattern in (f"{_PREFIX}*", "output-*.log", "marks-*"):
        for path in project.repository.private.glob(pattern):
            path.unlink(missing_ok=True)
    for pattern in ("nothing-*", "verify-*"):
        for folder in project.repository.private.glob(pattern):
            shutil.rmtree(folder, ignore_errors=True)


def keep_aside(project: Project, number: int, files: Mapping[str, bytes | None]) -> Path:
    """Keep the other versions of files that were put back, for the person; returns the folder."""
    folder = project.repository.private / "held" / f"iteration-{number}"
    for name, content in files.items():
        if content is not None:
            target = folder / name
            disk.make_folder(target.parent)
            disk.replace_file(target, content)
    return folder


def _file(project: Project, number: int) -> Path:
    return project.repository.private / f"{_PREFIX}{number}"
