"""How git is run: argv lists, fixed settings, no hooks, no questions, and time limits."""

import os
import signal
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, cast

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
OPTIONS = tuple(word for setting in _SETTINGS for word in ("-c", setting))
"""The settings that every git command of Ralph's gets."""
_SIGTERM_GRACE = 2.0


class GitError(Exception):
    """A git command that failed. `stderr` is git's message; `code` is -1 where it did not start or took too long."""

    def __init__(self, command: tuple[str, ...], code: int, stderr: str) -> None:
        super().__init__(f"git {command[0]} failed ({code}): {' '.join(stderr.split())[:500]}")
        self.command = command
        self.code = code
        self.stderr = stderr.strip()


def start(
    arguments: tuple[str, ...],
    folder: Path,
    environment: Mapping[str, str],
    *,
    stdin: bool = True,
    output: IO[bytes] | None = None,
    errors: IO[bytes] | None = None,
    group: bool = True,
) -> "subprocess.Popen[bytes]":
    """A git command that runs; in a process group of its own, as ^C is for Ralph. Raises GitError, RalphError."""
    if any("\0" in argument for argument in arguments):
        raise GitError(arguments, -1, "a name holds a NUL character")
    try:
        return subprocess.Popen(
            ("git", *OPTIONS, *arguments),
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=output or subprocess.PIPE,
            stderr=errors or subprocess.PIPE,
            process_group=0 if group else None,
        )
    except (FileNotFoundError, NotADirectoryError) as error:
        if str(error.filename) == str(folder):
            raise GitError(arguments, -1, f"the folder {folder} is not there") from None
        raise RalphError("git is not installed or not on PATH; install git") from None


def finish(
    process: "subprocess.Popen[bytes]",
    arguments: tuple[str, ...],
    *,
    stdin: bytes | None = None,
    lines: Iterable[bytes] = (),
    timeout: float | None = None,
    group: bool = True,
) -> bytes:
    """Its output, when it has ended. Raises GitError where it fails or takes longer than `timeout` (seconds)."""
    with process:
        try:
            with suppress(BrokenPipeError):  # git's own words say why
                for line in lines:
                    cast("IO[bytes]", process.stdin).write(line)
            said, errors = process.communicate(stdin, timeout=timeout)
        except subprocess.TimeoutExpired:
            _end(process, group=group)
            raise GitError(arguments, -1, f"no answer within {timeout} s") from None
        except BaseException:
            _end(process, group=group)
            raise
    if process.returncode != 0:
        raise GitError(arguments, process.returncode, errors.decode("utf-8", "replace"))
    return said or b""


def _end(process: "subprocess.Popen[bytes]", *, group: bool) -> None:
    """End a git command and what it started, filters for instance."""
    for number in (signal.SIGTERM, signal.SIGKILL):  # on SIGTERM git removes its lock files
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number) if group else process.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_SIGTERM_GRACE)
            break
    for pipe in (process.stdin, process.stdout, process.stderr):
        with suppress(OSError):
            if pipe is not None:
                pipe.close()
