"""The one place where agents and gates are run: streamed, limited, cancellable, and with nothing left behind.

The process gets a session of its own, so ^C reaches Ralph and not it. One loop waits for its output, its end, room to
write its input, and the order to stop; nothing polls. When it has ended, by itself or not, everything it started is
ended too (descendants.py), and only then is the rest of its output read, so a background process that holds the pipe
open delays nothing.
"""

import errno
import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT, Popen, TimeoutExpired
from threading import Event

from rulebook_ralph.core.evidence import KillReason
from rulebook_ralph.core.streams import HeadTail
from rulebook_ralph.descendants import HOUSEHOLD, Member
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.idleness import Idleness, LastChange
from rulebook_ralph.process_table import new_mark
from rulebook_ralph.pump import Pump

_STDERR_TAIL = 16 * 1024
_DEATH_WAIT = 5.0
_DRAIN_WAIT = 2.0


@dataclass(frozen=True, slots=True)
class Command:
    """What to run. `environment` is the whole of it; `stdin` is fed to the process, None is an empty input.

    `mark` is the environment variable that is added to find its processes by; made up where empty.
    """

    argv: tuple[str, ...]
    cwd: Path
    environment: Mapping[str, str]
    stdin: bytes | None = None
    merge_stderr: bool = False
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """All in seconds. A process that must end is interrupted, after a grace terminated, after another killed.

    `idle_time` without a byte, and without a change that `last_change` tells of, is the end. `leftover_grace` is the
    time between terminate and kill for what it leaves behind.
    """

    wall_time: float | None = None
    idle_time: float | None = None
    interrupt_grace: float = 2.0
    terminate_grace: float = 2.0
    leftover_grace: float = 1.0


NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class StartFailure:
    """Why the process could not be started at all: the system's words and error number (ENOENT, EACCES, E2BIG …).

    ENOTDIR is said of the folder, and 0 of a command that contains a NUL.
    """

    errno: int
    message: str


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended; nothing of it runs any more.

    `exit_code` is negative for a signal, and None if it never started (`failure`). `killed_by` says that Ralph ended
    it, whatever it did afterwards. `output_bytes` counts stdout; `leftovers` the processes it left behind.
    """

    exit_code: int | None
    killed_by: KillReason | None = None
    duration_ms: int = 0
    output_bytes: int = 0
    stderr_tail: str = ""
    leftovers: int = 0
    failure: StartFailure | None = None


def run(
    command: Command,
    *,
    limits: Limits = NO_LIMITS,
    on_output: Callable[[bytes], None] | None = None,
    output_file: Path | None = None,
    cancelled: Event | None = None,
    last_change: LastChange | None = None,
) -> Ended:
    """Run a process to its end, or to the limit or cancellation that ends it.

    Each block of stdout is written to `output_file` and handed to `on_output` (core.streams has sinks for it); the end
    of a separate stderr is added to the file. A `Cancellation` is noticed at once, a plain Event within 50 ms.
    `last_change` is asked when no byte came for the idle time (idleness.py), in this thread. Raises
    RalphError if the file cannot be written, and whatever `on_output` raises, after ending the processes.
    """
    started = time.monotonic()
    with ExitStack() as stack:
        output = _Output(output_file, on_output)
        stack.callback(output.close)
        mark = command.mark or new_mark()
        try:
            process, member = HOUSEHOLD.start(lambda: _launch(command, mark), mark)
        except (OSError, ValueError) as error:
            return Ended(None, failure=_start_failure(error, command), duration_ms=_since(started))
        stack.callback(HOUSEHOLD.leave, member)
        supervised = _Supervised(process, member, limits, Idleness(limits.idle_time, last_change))
        try:
            pump = Pump(
                process, stdin=command.stdin, on_stdout=output.stdout, on_stderr=output.stderr, cancelled=cancelled
            )
            stack.callback(pump.close)
            killed_by, leftovers = supervised.to_the_end(pump)
        except BaseException:
            supervised.kill_everything()
            raise
        output.finish()
        return Ended(
            process.returncode, killed_by, _since(started), output.size, output.stderr_tail, leftovers=leftovers
        )


class _Supervised:
    """A running process and its ends, the natural one and the other."""

    def __init__(self, process: Popen[bytes], member: Member, limits: Limits, idleness: Idleness) -> None:
        self._process = process
        self._member = member
        self._limits = limits
        self._idleness = idleness
        self._started = time.monotonic()

    def to_the_end(self, pump: Pump) -> tuple[KillReason | None, int]:
        """Why Ralph ended it, if it did, and how many processes it left behind; none of them runs any more."""
        killed_by = self._watch(pump)
        if killed_by:
            self._end(pump)
        leftovers = self._clear_up(grace=self._limits.leftover_grace, everywhere=killed_by is not None)
        pump.drain(_DRAIN_WAIT)
        return killed_by, leftovers

    def kill_everything(self) -> None:
        self._signal(signal.SIGKILL)
        self._clear_up(grace=0, everywhere=True)

    def _watch(self, pump: Pump) -> KillReason | None:
        while not pump.exited:
            if pump.is_cancelled:
                return "interrupted"
            wall = self._limits.wall_time
            wall_left = None if wall is None else self._started + wall - time.monotonic()
            idle_left = self._idleness.seconds_left(pump.last_byte)
            if wall_left is not None and wall_left <= 0:
                return "wall-time"
            if idle_left is not None and idle_left <= 0:
                if self._is_idle(pump):
                    return "idle-time"
                continue
            pump.wait(min((left for left in (wall_left, idle_left) if left is not None), default=None))
        return None

    def _is_idle(self, pump: Pump) -> bool:
        """Whether the idle time is really over: output may wait since Ralph was stopped, or come while it looks."""
        pump.wait(0)
        before = pump.last_byte
        left = self._idleness.seconds_left(before)
        if pump.exited or left is None or left > 0 or not self._idleness.is_over():
            return False
        pump.wait(0)
        return not pump.exited and pump.last_byte == before

    def _end(self, pump: Pump) -> None:
        graces = (
            (signal.SIGINT, self._limits.interrupt_grace),
            (signal.SIGTERM, self._limits.terminate_grace),
            (signal.SIGKILL, _DEATH_WAIT),
        )
        for order, grace in graces:
            self._signal(order)
            deadline = time.monotonic() + grace
            while not pump.exited and (left := deadline - time.monotonic()) > 0:
                pump.wait(left)
            if pump.exited:
                return

    def _signal(self, order: signal.Signals) -> None:
        """To the process and its group, as a terminal would; until it has been waited for, the id is its own."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, order)

    def _clear_up(self, *, grace: float, everywhere: bool) -> int:
        with suppress(TimeoutExpired):  # not even SIGKILL ended it: the kernel holds it
            self._process.wait(_DEATH_WAIT)
        HOUSEHOLD.main_ended(self._member)
        return HOUSEHOLD.end_leftovers(self._member, grace=grace, everywhere=everywhere)


class _Output:
    """Where the process's output goes: the file, the caller's sink, and the end of stderr."""

    def __init__(self, path: Path | None, on_output: Callable[[bytes], None] | None) -> None:
        self._path = path
        self._on_output = on_output
        self._stderr = HeadTail(head=0, tail=_STDERR_TAIL)
        self.size = 0
        try:
            self._file = path.open("wb", buffering=0) if path else None
        except OSError as error:
            raise self._unwritable(error) from error

    @property
    def stderr_tail(self) -> str:
        return self._stderr.tail().decode("utf-8", "replace")

    def stdout(self, block: bytes) -> None:
        self.size += len(block)
        self._write(block)
        if self._on_output:
            self._on_output(block)

    def stderr(self, block: bytes) -> None:
        self._stderr.feed(block)

    def finish(self) -> None:
        if self._stderr.size:
            kept = self._stderr.tail()
            self._write(f"\n--- stderr: the last {len(kept)} of {self._stderr.size} bytes ---\n".encode() + kept)

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


def _launch(command: Command, mark: str) -> Popen[bytes]:
    return Popen(
        command.argv,
        cwd=command.cwd,
        env={**command.environment, mark: "1"},
        stdin=DEVNULL if command.stdin is None else PIPE,
        stdout=PIPE,
        stderr=STDOUT if command.merge_stderr else PIPE,
        bufsize=0,
        start_new_session=True,
    )


def _start_failure(error: OSError | ValueError, command: Command) -> StartFailure:
    if not isinstance(error, OSError):
        return StartFailure(0, str(error))
    if str(error.filename) == str(command.cwd):
        return StartFailure(errno.ENOTDIR, f"the folder {command.cwd}: {error.strerror}")
    return StartFailure(error.errno or 0, f"{command.argv[0]}: {error.strerror or error}")


def _since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
