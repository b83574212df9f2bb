"""The one place where agents and gates are run: streamed, limited, cancellable, and with nothing left behind.

The process gets a session of its own, so ^C reaches Ralph and not it. One loop waits for its output, its end, room to
write its input, and the order to stop; nothing polls. When it has ended, by itself or not, everything it started is
ended too (`tree.py`), and only then is the rest of its output read, so a background process that holds the pipe open
delays nothing.
"""

import errno
import math
import os
import re
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT, Popen
from tempfile import TemporaryFile
from threading import Event

from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.process.box import Box, boxed_environment
from rulebook_ralph.process.streams import HeadTail, Pump
from rulebook_ralph.process.tree import BoxedTree, ProcessTree, new_mark
from rulebook_ralph.tasks.results import KillReason

_STDERR_TAIL = 16 * 1024
_DRAIN_WAIT = 2.0
_MOST_LOOKS = 10
"""At a silent process' work tree, within its idle time."""

_FEW_BYTES = 1024
_BOX_ERROR = re.compile(rb"bwrap: (?P<what>[^\n]{1,900}?)(?:: (?P<why>[^:\n]{1,100}))?\n\Z")
"""All that a process wrote which did not start in the sandbox."""


@dataclass(frozen=True, slots=True)
class Command:
    """What to run. `environment` is the whole of it; `stdin` is fed to the process, None is an empty input.

    With a `box` it runs in that sandbox, where `cwd` is a folder, and with the environment adjusted for it.
    """

    argv: tuple[str, ...]
    cwd: Path
    environment: Mapping[str, str]
    stdin: bytes | None = None
    merge_stderr: bool = False
    box: Box | None = None


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """All in seconds. A process that must end is interrupted, after a grace terminated, after another killed.

    `idle_time` without a byte, and without a change that `last_change` tells of, is the end.
    """

    wall_time: float | None = None
    idle_time: float | None = None
    interrupt_grace: float = 2.0
    terminate_grace: float = 2.0


NO_LIMITS = ProcessLimits()

LastChange = Callable[[], float | None]
"""When what a process works on changed last, in seconds since the epoch; None where that cannot be told. A look may
take its time: it is only asked for after the whole idle time without a byte.
"""


@dataclass(frozen=True, slots=True)
class StartFailure:
    """Why the process could not be started at all: the system's words and error number (ENOENT, EACCES, E2BIG …).

    ENOTDIR is said of the folder, and 0 of what has no number: a command that contains a NUL, a sandbox that fails.
    """

    errno: int
    message: str


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended; nothing of it runs any more.

    `exit_code` is negative for a signal, and None if it never started (`failure`); in the sandbox 128+n counts as
    signal n. `killed_by` says that Ralph ended it, whatever it did afterwards. `output_bytes` counts stdout;
    `background` the processes that it left behind and that were ended (0 in the sandbox, which ends them uncounted).
    """

    exit_code: int | None
    killed_by: KillReason | None = None
    duration_ms: int = 0
    output_bytes: int = 0
    stderr_tail: str = ""
    failure: StartFailure | None = None
    background: int = 0


def run(
    command: Command,
    *,
    limits: ProcessLimits = NO_LIMITS,
    on_output: Callable[[bytes], None] | None = None,
    output_file: Path | None = None,
    cancelled: Event | None = None,
    last_change: LastChange | None = None,
) -> Ended:
    """Run a process to its end, or to the limit or cancellation that ends it. A sandbox ends with the calling thread.

    Each block of stdout is written to `output_file` and handed to `on_output` (`streams.py` has sinks for it); the end
    of a separate stderr is added to the file. A `Cancellation` is noticed at once, a plain Event within 50 ms.
    `last_change` is asked in this thread when no byte came for the idle time. Raises RalphError if the file cannot be
    written, and whatever `on_output` raises, after ending the processes.
    """
    started = time.monotonic()
    with ExitStack() as stack:
        output = _Output(output_file, on_output)
        stack.callback(output.close)
        try:
            process, tree = _launch(command, stack)
        except (OSError, ValueError) as error:
            return Ended(None, failure=_start_failure(error, command), duration_ms=_since(started))
        try:
            pump = Pump(process, command.stdin, output.take, output.errors.feed, cancelled)
            stack.callback(pump.close)
            killed_by = _watch(pump, limits, _Idleness(limits.idle_time, last_change))
            if killed_by:
                _end(pump, tree, limits)
            background = tree.clear_up(grace=0 if pump.is_to_end_at_once else min(1.0, limits.terminate_grace))
            pump.drain(_DRAIN_WAIT)
        except BaseException:
            tree.kill()
            tree.clear_up(grace=0)
            raise
        if command.box and not killed_by and (failure := _box_failure(process.returncode, output, command)):
            return Ended(None, failure=failure, duration_ms=_since(started))
        output.finish()
        errors = output.errors.tail().decode("utf-8", "replace")
        return Ended(tree.exit_code, killed_by, _since(started), output.kept.size, errors, background=background)


def _launch(command: Command, stack: ExitStack) -> tuple[Popen[bytes], ProcessTree]:
    mark = new_mark()
    environment, argv, cwd = {**command.environment, mark: "1"}, command.argv, command.cwd
    status = stack.enter_context(TemporaryFile()) if command.box else None  # noqa: SIM115 - it is
    if command.box and status:
        environment = boxed_environment(environment)
        argv, cwd = command.box.argv(argv, cwd, environment), Path("/")
        argv = (argv[0], "--json-status-fd", str(status.fileno()), *argv[1:])
    began = time.time()
    process = Popen(
        argv,
        cwd=cwd,
        env=environment,
        stdin=DEVNULL if command.stdin is None else PIPE,
        stdout=PIPE,
        stderr=STDOUT if command.merge_stderr else PIPE,
        bufsize=0,
        start_new_session=True,
        pass_fds=(status.fileno(),) if status else (),
    )
    return process, BoxedTree(process, status) if status else ProcessTree(process, mark, began)


def _watch(pump: Pump, limits: ProcessLimits, idleness: "_Idleness") -> KillReason | None:
    ends = time.monotonic() + (limits.wall_time or math.inf)
    while not pump.exited:
        wall_left, idle_left = ends - time.monotonic(), idleness.seconds_left(pump.last_byte)
        if pump.is_cancelled:
            return "interrupted"
        if wall_left <= 0:
            return "wall-time"
        if idle_left > 0:
            left = min(wall_left, idle_left)
            pump.wait(None if left == math.inf else left)
        elif _is_idle(pump, idleness):
            return "idle-time"
    return None


def _is_idle(pump: Pump, idleness: "_Idleness") -> bool:
    """Whether the idle time is really over: output may wait since Ralph was stopped, or come while it looks."""
    pump.wait(0)
    before = pump.last_byte
    if pump.exited or idleness.seconds_left(before) > 0 or not idleness.is_over():
        return False
    pump.wait(0)
    return not pump.exited and pump.last_byte == before


def _end(pump: Pump, tree: ProcessTree, limits: ProcessLimits) -> None:
    """Interrupt, terminate, kill; kill at once where that was ordered."""
    for order, grace in ((signal.SIGINT, limits.interrupt_grace), (signal.SIGTERM, limits.terminate_grace)):
        if pump.is_to_end_at_once:
            break
        tree.signal(order)
        ends = time.monotonic() + grace
        while not (pump.exited or pump.is_to_end_at_once) and (left := ends - time.monotonic()) > 0:
            pump.wait(left)
        if pump.exited:
            return
    tree.kill()


class _Idleness:
    """The idle limit of one process. A change restarts the clock from the time of that change."""

    def __init__(self, limit: float | None, last_change: LastChange | None) -> None:
        self._limit = limit or math.inf
        self._last_change = last_change
        self._seen: float | None = None
        self._changed = 0.0
        self._next_look = 0.0

    def seconds_left(self, last_byte: float) -> float:
        """Until the limit is reached. Times here are monotonic."""
        return max(max(last_byte, self._changed) + self._limit, self._next_look) - time.monotonic()

    def is_over(self) -> bool:
        """Whether the process is idle, to be asked when no time is left: looks whether anything changed meanwhile."""
        change = self._last_change() if self._last_change else None
        if change is None or change == self._seen:
            return True
        self._seen = change
        age = max(0.0, time.time() - change)  # one that lies in the future counts once
        now = time.monotonic()
        self._changed = now - age
        self._next_look = now + self._limit / _MOST_LOOKS
        return age >= self._limit


class _Output:
    """Where the process's output goes: the file, the caller's sink; its end and that of a separate stderr are kept."""

    def __init__(self, path: Path | None, on_output: Callable[[bytes], None] | None) -> None:
        self._path = path
        self._on_output = on_output
        self.kept = HeadTail(head=0, tail=_FEW_BYTES)
        self.errors = HeadTail(head=0, tail=_STDERR_TAIL)
        try:
            self._file = path.open("wb", buffering=0) if path else None
        except OSError as error:
            raise self._unwritable(error) from error

    def take(self, block: bytes) -> None:
        self.kept.feed(block)
        self._write(block)
        if self._on_output:
            self._on_output(block)

    def finish(self) -> None:
        if self.errors.size:
            kept = self.errors.tail()
            self._write(f"\n--- stderr: the last {len(kept)} of {self.errors.size} bytes ---\n".encode() + kept)

    def close(self) -> None:
        if self._file:
            self._file.close()

    def _write(self, block: bytes) -> None:
        if not self._file:
            return
        rest = memoryview(block)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> RalphError:
        problem = f"cannot write the raw output to {self._path}: {error.strerror}; make room there, then `ralph resume`"
        return RalphError(problem, exit_code=ExitCode.UNEXPECTED)


def _start_failure(error: OSError | ValueError, command: Command) -> StartFailure:
    if not isinstance(error, OSError):
        return StartFailure(0, str(error))
    if str(error.filename) == str(command.cwd):
        return StartFailure(errno.ENOTDIR, f"the folder {command.cwd}: {error.strerror}")
    return StartFailure(error.errno or 0, f"{command.argv[0]}: {error.strerror or error}")


def _box_failure(returncode: int | None, output: _Output, command: Command) -> StartFailure | None:
    """Why the sandbox did not come to run the command, if that is what it says."""
    if returncode != 1 or output.kept.size + output.errors.size > _FEW_BYTES:
        return None
    if (said := _BOX_ERROR.match(output.kept.tail() + output.errors.tail())) is None:
        return None
    what, why = (said[name].decode("utf-8", "replace") if said[name] else "" for name in ("what", "why"))
    if what.startswith("execvp "):
        numbers = (errno.ENOENT, errno.EACCES, errno.E2BIG, errno.ENOEXEC, errno.ENOTDIR, errno.ELOOP)
        number = next((number for number in numbers if os.strerror(number) == why), 0)
        return StartFailure(number, f"{command.argv[0]}: {why}")
    if what.startswith("Can't chdir to "):
        return StartFailure(errno.ENOTDIR, f"the folder {command.cwd}: {why}")
    return StartFailure(0, f"the sandbox: {what}{f': {why}' if why else ''}; to do without it: sandbox: off")


def _since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
