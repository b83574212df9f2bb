"""How git is run: argv lists, fixed settings, no hooks, no questions, and time limits."""

import os
import signal
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from typing import IO, Any, Self, cast

from rulebook_ralph.errors import RalphError

_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.splitIndex=false",
    "core.trustctime=true",
    "core.checkStat=default",
    "core.quotePath=false",
    "core.safecrlf=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "core.fsync=committed",  # without it a power cut leaves refs whose objects are missing
)
_OPTIONS = tuple(word for setting in _SETTINGS for word in ("-c", setting))
_SIGTERM_GRACE = 2.0


class GitError(Exception):
    """A git command that failed; `code` is -1 where it did not start or took too long."""

    def __init__(self, command: tuple[str, ...], code: int, stderr: str, output: bytes = b"") -> None:
        super().__init__(f"git {command[0]} failed ({code}): {' '.join(stderr.split())[:500]}")
        self.command = command
        self.code = code
        self.stderr = stderr.strip()
        self.output = output


def run(
    arguments: tuple[str, ...],
    folder: Path,
    environment: Mapping[str, str],
    *,
    stdin: bytes | None = None,
    output: IO[bytes] | None = None,
    timeout: float | None = None,
    group: bool = True,
) -> bytes:
    """The output of a git command, unless the file `output` gets it. Raises GitError, RalphError without git."""
    pipes = {"stdin": DEVNULL if stdin is None else PIPE, "stdout": output or PIPE, "stderr": PIPE}
    with _start(arguments, folder, environment, group=group, **pipes) as process:
        try:
            said, errors = process.communicate(stdin, timeout)
        except BaseException as error:
            for order in (signal.SIGTERM, signal.SIGKILL):  # on SIGTERM git removes its lock files
                with suppress(ProcessLookupError, PermissionError):  # filters, for instance, are in its group
                    os.killpg(process.pid, order) if group else process.send_signal(order)
                with suppress(TimeoutExpired):
                    process.wait(_SIGTERM_GRACE)
                    break
            if isinstance(error, TimeoutExpired):
                raise GitError(arguments, -1, f"no answer within {timeout} s") from None
            raise
    if process.returncode != 0:
        raise GitError(arguments, process.returncode, errors.decode("utf-8", "replace"), said or b"")
    return said or b""


def _start(
    arguments: tuple[str, ...], folder: Path, environment: Mapping[str, str], *, group: bool = True, **pipes: Any
) -> "Popen[bytes]":
    """In a process group of its own, as ^C is for Ralph."""
    if any("\0" in argument for argument in arguments):
        raise GitError(arguments, -1, "a name holds a NUL character")
    try:
        return Popen(
            ("git", *_OPTIONS, *arguments), cwd=folder, env=environment, process_group=0 if group else None, **pipes
        )
    except (FileNotFoundError, NotADirectoryError) as error:
        if str(error.filename) == str(folder):
            raise GitError(arguments, -1, f"the folder {folder} is not there") from None
        raise RalphError("git is not installed or not on PATH; install git") from None


class EndedError(Exception):
    """The process that was asked has ended."""


class Conversation:
    """A git process that answers questions; started when it is first asked, and again where it has ended."""

    def __init__(self, arguments: tuple[str, ...], folder: Path, environment: Mapping[str, str]) -> None:
        self._command = (arguments, folder, environment)
        self._lock = threading.Lock()
        self._process: Popen[bytes] | None = None
        self._end: Callable[[], str | None] = str
        self.last_words = ""
        """What git said before it ended."""

    @contextmanager
    def asked(self, question: bytes) -> Iterator[Self]:
        """Ask, and read the whole answer. Raises EndedError where none comes, GitError where git does not start."""
        with self._lock:
            try:
                self.say(question)
                yield self
            except BaseException:  # what is left of the answer would be taken for the next one's
                self.stop()
                raise

    def say(self, words: bytes) -> None:
        if self._process is None or self._process.poll() is not None:
            self.stop()
            errors = tempfile.TemporaryFile()  # noqa: SIM115 - a pipe would be full one day
            self._process = _start(*self._command, stdin=PIPE, stdout=PIPE, stderr=errors)
            self._end = weakref.finalize(self, _end, self._process, errors)
        try:
            cast("IO[bytes]", self._process.stdin).write(words)
            cast("IO[bytes]", self._process.stdin).flush()
        except OSError:
            raise EndedError from None

    def line(self) -> bytes:
        return self.read(None)

    def read(self, size: int | None) -> bytes:
        """So many bytes and the end of their line, which is left out; or a line."""
        output = cast("IO[bytes]", cast("Popen[bytes]", self._process).stdout)
        found = output.readline() if size is None else output.read(size + 1)
        if not found.endswith(b"\n") or (size is not None and len(found) <= size):
            raise EndedError
        return found[:-1]

    def stop(self) -> None:
        self._process = None
        self.last_words = self._end() or self.last_words


def _end(process: "Popen[bytes]", errors: IO[bytes]) -> str:
    """At the end of its input it ends; what it said."""
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):
            cast("IO[bytes]", pipe).close()
    process.wait()
    with errors:
        errors.seek(0)
        return errors.read().decode("utf-8", "replace")
