# ruff: noqa: PTH100, PTH115
"""Everything Ralph does to a disk, as numbered points at which a test can kill it, let the call fail, or cut the power.

`install` puts itself in front of the functions of `os`, `io` and `subprocess` before Ralph is imported; without a plan
in force they do what they always do. A point is known by its kind and its number within the kind.
"""

import builtins
import errno
import io
import os
import shutil
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NoReturn, Self

import msgspec
import psutil

from tests.crash import git_commands
from tests.crash.power import Disk, Files

Mode = Literal["record", "kill", "locks", "lost", "torn", "fails", "full"]
"""killed there; killed with git, whose locks stay; the power is cut, and what was not synced is gone, or torn; that one
call fails; from there on the disk is full.
"""

NEEDING_ROOM = ("create", "write", "append", "mkdir", "git")
_WRITING = os.O_WRONLY | os.O_RDWR


class Plan(msgspec.Struct, frozen=True):
    """What is to happen at the `nth` point of a kind, of those on paths below one of `within`.

    What is below the first of them, the repository, has a kind by its name, git's objects one of their own; what is
    below another is "aside".
    """

    within: tuple[str, ...]
    mode: Mode = "record"
    kind: str = ""
    nth: int = 0
    errno: int = errno.EIO
    scratch: str = ""
    listing: str = ""
    """A file that gets a line for each point."""


class Order(msgspec.Struct, frozen=True):
    """A command of Ralph's, where and with what environment, and the fault that is to meet it."""

    arguments: tuple[str, ...]
    folder: str
    environment: dict[str, str]
    output: str
    errors: str
    plan: Plan | None = None


class Points:
    """Counts the points, and does at the planned one what is planned."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.disk = Disk(Path(plan.scratch), plan.within) if plan.mode in ("lost", "torn") else None
        self._counted: Counter[str] = Counter()
        self._lock = threading.RLock()
        self._full = False
        self.cutting = 0
        """The thread that cuts the power: all others wait at their next point, until they die."""
        self._listing = _open(plan.listing, "w") if plan.listing else None
        self.files: dict[int, tuple[str, bool]] = {}

    def covers(self, path: object) -> bool:
        return isinstance(path, (str, bytes, os.PathLike)) and _whole(path).startswith(self.plan.within)

    def at(self, kind: str, path: object, *, half: Callable[[], object] = lambda: None) -> None:
        """A point; `half` carries out half of what follows. Raises OSError where the call is to fail."""
        with self._lock:
            named = _whole(path) if isinstance(path, (str, bytes, os.PathLike)) else ""
            if named.startswith(self.plan.within[1:]) or named.endswith("/events.jsonl"):  # which nothing depends on
                kind = f"aside {kind}"
            elif "/.git/objects/" in str(path):
                kind = f"object {kind}"
            self._counted[kind] += 1
            if self._listing:
                self._listing.write(f"{kind}\t{self._counted[kind]}\t{path!s}\n")
                self._listing.flush()
            if self._full and kind.rpartition(" ")[2] in NEEDING_ROOM:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
            if (kind, self._counted[kind]) != (self.plan.kind, self.plan.nth):
                return
            match self.plan.mode:
                case "fails":
                    raise OSError(self.plan.errno, os.strerror(self.plan.errno), path)
                case "full":
                    self._full = True
                    half()
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
                case "kill":
                    half()
                    die()
                case "lost" | "torn":
                    half()
                    self._cut_power()

    def _cut_power(self) -> NoReturn:
        assert self.disk is not None
        self.cutting = threading.get_ident()  # what the cut itself does is no point
        end_all_started()
        if self.plan.mode == "lost":
            self.disk.lose()
        else:
            self.disk.tear()
        die()

    def git(self, arguments: list[str], options: Mapping[str, Any]) -> list[str]:
        """The start of a git command; returns what is to be started instead."""
        command = git_commands.name(arguments)
        if command in git_commands.PURE:
            return arguments
        kind = "git read" if command in git_commands.READING else "git"
        here = (self.plan.kind, self.plan.nth) == ("git", self._counted["git"] + 1) and kind == "git"
        if here and self.plan.mode == "locks":
            git_commands.leave_locks(arguments, options)
            die()
        try:
            self.at(kind, command)
        except OSError as error:
            told = f"fatal: {command}: {os.strerror(error.errno or 0)}"
            return ["sh", "-c", f"echo '{told}' >&2; exit 128"]
        return arguments

    def ended(self, arguments: list[str], before: Files) -> None:
        """The end of a process."""
        if self.disk and before:
            self.disk.ended(before, arguments)
        command = git_commands.name(arguments) if arguments[0] == "git" else ""
        if command and command not in (*git_commands.READING, *git_commands.PURE):
            self.at("git end", command)


_IN_VAIN = {"remove": False, "mkdir": True, "link": True}
"""Whether the path is there, for a call that does nothing."""
_now: Points | None = None
_open = io.open
_os_open, _os_write = os.open, os.write


def activate(plan: Plan) -> None:
    global _now  # noqa: PLW0603 - the patched functions have no other place to look
    _now = Points(plan)


def _active() -> Points | None:
    return None if _now is None or _now.cutting == threading.get_ident() else _now


def end_all_started() -> None:
    """Kill all that this process has started."""
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            process.kill()


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def _whole(path: Any) -> str:
    return os.path.abspath(os.fsdecode(path))


# In front of os


def _with_path(kind: str, real: Callable[..., Any], *, place: int = 0) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        points = _active()
        if points is None or named.get("dir_fd") is not None or not points.covers(arguments[place]):
            return real(*arguments, **named)
        if os.path.lexists(arguments[place]) is _IN_VAIN.get(kind):
            return real(*arguments, **named)
        points.at(kind, arguments[place])
        undo = points.disk.before(kind, *map(_whole, arguments[: place + 1])) if points.disk else None
        result = real(*arguments, **named)
        if points.disk and undo:
            points.disk.did(undo)
        if points.disk and kind == "rename":
            points.disk.renamed(*map(_whole, arguments[:2]))
        return result

    return call


def _opened(path: Any, flags: int, mode: int = 0o777, **named: Any) -> int:
    points = _active()
    if points is None or not flags & (_WRITING | os.O_CREAT) or named or not points.covers(path):
        return _os_open(path, flags, mode, **named)
    whole = _whole(path)
    undo = None
    if flags & os.O_TMPFILE == os.O_TMPFILE:  # a file without a name does not outlive its process
        points.at("create", path)
        return _os_open(path, flags, mode)
    if flags & os.O_CREAT:
        if not os.path.lexists(whole) or flags & os.O_TRUNC:
            points.at("create", path)
        undo = points.disk.before("create", whole) if points.disk else None
    descriptor = _os_open(path, flags, mode)
    if points.disk and undo:
        points.disk.did(undo)
    points.files[descriptor] = (whole, bool(flags & os.O_APPEND))
    return descriptor


def _write(real: Callable[..., int]) -> Callable[..., int]:
    def call(descriptor: int, data: Any, *rest: Any) -> int:
        points = _active()
        if points is None or descriptor not in points.files:
            return real(descriptor, data, *rest)
        path, appends = points.files[descriptor]
        if not os.readlink(f"/proc/self/fd/{descriptor}").startswith(path):  # it was closed past `os.close`
            del points.files[descriptor]
            return real(descriptor, data, *rest)
        if points.disk:
            points.disk.writing(path)
        points.at("append" if appends else "write", path, half=lambda: real(descriptor, data[: len(data) // 2], *rest))
        return real(descriptor, data, *rest)

    return call


def _of_descriptor(kind: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def call(descriptor: Any, *rest: Any, **named: Any) -> Any:
        points = _active()
        if points is None:
            return real(descriptor, *rest, **named)
        number = descriptor if isinstance(descriptor, int) else -1
        path = os.readlink(f"/proc/self/fd/{number}") if number >= 0 else _whole(descriptor)
        if points.covers(path):
            if points.disk and kind == "truncate":
                points.disk.writing(path)
            points.at(kind, path)
        result = real(descriptor, *rest, **named)
        if points.disk and kind == "fsync":
            points.disk.synced(path)
        return result

    return call


def _closed(real: Callable[[int], None]) -> Callable[[int], None]:
    def call(descriptor: int) -> None:
        if _now is not None:
            _now.files.pop(descriptor, None)
        real(descriptor)

    return call


# In front of open


class _File:
    """A file that was opened for writing by its path."""

    def __init__(self, file: Any, path: str, *, appends: bool) -> None:
        self._file = file
        self._path = path
        self._kind = "append" if appends else "write"

    def write(self, data: Any) -> Any:
        if (points := _active()) is not None:
            if points.disk:
                points.disk.writing(self._path)
            points.at(self._kind, self._path, half=lambda: self._half(data))
        return self._file.write(data)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def _half(self, data: Any) -> None:
        self._file.write(data[: len(data) // 2])
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _open_file(file: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
    points = _active()
    if points is None or not set(mode) & set("wax+") or isinstance(file, int) or not points.covers(file):
        return _open(file, mode, *rest, **named)
    whole = _whole(file)
    points.at("create", file)
    undo = points.disk.before("create", whole) if points.disk else None
    if points.disk and "w" in mode:
        points.disk.writing(whole)
    opened = _open(file, mode, *rest, **named)
    if points.disk and undo:
        points.disk.did(undo)
    return _File(opened, whole, appends="a" in mode)


# In front of processes

_Popen = subprocess.Popen


class Watched(_Popen):  # type: ignore[type-arg]  # it is a generic for the checker only
    """A process whose start, and whose end if it is git's, are points."""

    def __init__(self, args: Any, *rest: Any, **named: Any) -> None:
        points = _active()
        self._words = list(args)
        self._before: Files = {}
        if self._words[-2:] == ["update-ref", "--stdin"]:  # it goes on: each move of a ref is a point
            points, self._words = None, []
        if points is not None:
            if args[0] == "git":
                args = points.git(list(args), named)
            else:
                points.at("process", args[0])
            if points.disk:
                self._before = points.disk.look()
        super().__init__(args, *rest, **named)

    def wait(self, timeout: float | None = None) -> int:
        code = super().wait(timeout)
        if self._words and _now is not None:
            ended, self._words = self._words, []
            _now.ended(ended, self._before)
        return code


def watch_refs() -> None:
    """After Ralph is imported: its refs are moved by a process that goes on."""
    from rulebook_ralph.git.command import GitError  # noqa: PLC0415 - after `install`
    from rulebook_ralph.git.objects import Objects  # noqa: PLC0415

    real = Objects.move

    def move(self: Objects, reference: str, new: str | None, old: str = "") -> None:
        points, command = _active(), ["git", "update-ref"]
        if points is None:
            real(self, reference, new, old)
            return
        if points.git(command, {"cwd": points.plan.within[0], "env": {}}) != command:
            raise GitError(("update-ref",), 128, f"fatal: update-ref: {os.strerror(points.plan.errno)}")
        moved = points.disk.moving(reference) if points.disk else None
        real(self, reference, new, old)
        if moved is not None:
            moved()
        points.at("git end", "update-ref")

    Objects.move = move  # type: ignore[method-assign]


def install() -> None:
    """Before Ralph is imported."""
    for name, kind in {
        "unlink": "remove",
        "remove": "remove",
        "rmdir": "remove",
        "mkdir": "mkdir",
        "chmod": "chmod",
    }.items():
        setattr(os, name, _with_path(kind, getattr(os, name)))
    for name in ("rename", "replace", "link", "symlink"):
        kind = "link" if name in ("link", "symlink") else "rename"
        setattr(os, name, _with_path(kind, getattr(os, name), place=1))
    for name, kind in {"fsync": "fsync", "fdatasync": "fsync", "ftruncate": "truncate", "truncate": "truncate"}.items():
        setattr(os, name, _of_descriptor(kind, getattr(os, name)))
    os.write, os.pwrite = _write(os.write), _write(os.pwrite)
    os.close = _closed(os.close)  # type: ignore[assignment]
    os.open = _opened
    io.open = builtins.open = _open_file
    shutil._USE_CP_SENDFILE = False  # type: ignore[attr-defined]  # so that it writes what it copies
    subprocess.Popen = Watched  # type: ignore[misc]
