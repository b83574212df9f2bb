"""Whether a run is at work, and what a dead one left. Only tells: nothing is ended, taken over or removed."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from rulebook_ralph.core.enumeration import counted, some
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop.diagnosis.diagnosis import Diagnosis, ok, unknown, warning, wrong
from rulebook_ralph.loop.diagnosis.place import Place
from rulebook_ralph.state import history, lock
from rulebook_ralph.state.holder import lives
from rulebook_ralph.state.lock import Holder
from rulebook_ralph.workspace.repository import Repository

_MOST_BYTES = 1 << 14
_LEFTOVERS = ("opening-*", "output-*.log", "marks-*")


def at_work(repository: Repository | None) -> Holder | None:
    """The living run, if there is one."""
    holder = None if repository is None else lock.holder(repository.lock_file)
    return holder if holder is not None and lives(holder) else None


def examine(place: Place) -> Iterator[Diagnosis]:
    """The lock, then what lies about."""
    repository = place.repository
    if repository is None:
        yield unknown("not looked at: there is no repository")
        return
    path = repository.lock_file
    if path.is_symlink() or (path.exists() and not path.is_file()):
        yield wrong(f"{path} is no regular file", f"remove it: rm -r {path}")
        return
    holder = lock.holder(path)
    if holder is not None and not holder.pid:
        told, _, advice = lock.unnamed(path, holder).rpartition("; ")
        yield wrong(told, advice)
        return
    last = _written(path) if path.exists() else None
    yield of_holder(holder, last, alive=holder is not None and lives(holder), path=str(path))
    if holder is not None:
        return
    yield from _processes(last)
    files = [found.name for pattern in _LEFTOVERS for found in repository.private.glob(pattern)]
    if files:
        yield warning(
            f"a dead run left working files in {repository.private}: {some(files)}", "take over: ralph resume"
        )
    yield from _unsettled(place)
    index_lock = repository.git_folder / "index.lock"
    if index_lock.exists():
        yield warning(f"{index_lock} is there: git is at work, or died", f"if no git runs: rm {index_lock}")


def of_holder(holder: Holder | None, last: Holder | None, *, alive: bool, path: str) -> Diagnosis:
    """`holder` has the lock now; `last` is who wrote into it."""
    if holder is not None and alive:
        return warning(f"a run is at work: {holder.told()}", "wait for it, or end it with ^C; see: ralph status")
    if holder is not None:
        return wrong("the lock is held, but not by the process that it names", f"find who holds it: fuser {path}")
    if last is not None:
        return warning(f"the last run died: {last.told()}", "the next start takes over: ralph resume")
    return ok("the lock is free")


def _written(path: Path) -> Holder | None:
    """Who wrote into the lock and has not taken it back."""
    with path.open("rb") as file:
        data = file.read(_MOST_BYTES)
    if not data:
        return None
    try:
        return msgspec.json.decode(data, type=Holder)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Holder(0, "nobody knows", "run")


def _processes(dead: Holder | None) -> Iterator[Diagnosis]:
    if dead is None or dead.pid <= 0:
        return
    from rulebook_ralph.process_search import left_by  # noqa: PLC0415 - psutil, only after a death

    left = [str(pid) for pid in sorted(left_by(dead.pid))]
    if left:
        what = counted(len(left), "process", "processes")
        yield warning(f"the dead run left {what} at work: {some(left)}", "the next start ends them: ralph resume")


def _unsettled(place: Place) -> Iterator[Diagnosis]:
    folder = place.folder
    try:
        if not all(folder.iteration(number).is_file() for number in history.numbers(folder)):
            return
        numbers = [str(record.iteration_number) for record in history.unsettled(folder)]
    except (RalphError, OSError):  # `of_ralph` says what is wrong with the history
        return
    if numbers:
        yield warning(
            f"a dead run left iteration {some(numbers)} unfinished", "the next start settles it: ralph resume"
        )
