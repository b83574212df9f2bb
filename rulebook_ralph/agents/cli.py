"""What the adapters of all agent CLIs share: the program and whether it is there, the process, and its result."""

import errno
import os
import shlex
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace as changed
from datetime import datetime
from pathlib import Path
from typing import ClassVar

from msgspec.structs import replace

from rulebook_ralph.agents.agent import Invocation, Probe, Report
from rulebook_ralph.agents.api_errors import api_error
from rulebook_ralph.agents.events import MAX_MESSAGE, Reader, Transcript, fault
from rulebook_ralph.agents.limit_times import local_clock
from rulebook_ralph.config.settings import Executor
from rulebook_ralph.errors import RalphError
from rulebook_ralph.process.box import Box
from rulebook_ralph.process.streams import HeadTail
from rulebook_ralph.process.supervisor import Command, Ended, ProcessLimits, StartFailure, run
from rulebook_ralph.report.events import AgentActivity
from rulebook_ralph.tasks.results import AgentFault, AgentResult, AgentStatus
from rulebook_ralph.tasks.text import span

OUTPUT_HEAD = 8_000
OUTPUT_TAIL = 24_000
"""So many bytes of the raw output stand in a result."""

_VERSION_TIMEOUT = 10.0
_NOT_FOUND = 127
_NOT_EXECUTABLE = 126
_LONGEST_ARGUMENT = 120_000
"""Bytes. Linux takes at most 131,072 in one argument, and macOS 1 MB in all of them and the environment."""

Supplement = Callable[[Transcript, Ended], Transcript]


class GaveUp(Exception):  # noqa: N818 - nothing is wrong with Ralph
    """A reader has seen that there is no sense in waiting for the agent any longer: its `fault` cannot heal."""

    def __init__(self, fault: AgentFault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class CliAgent:
    """An agent's own program. Each kind says what it is called, how it is told what it may do, and how its stream is
    read; unless it says otherwise the prompt goes to stdin, and `settings.args` come last.
    """

    program: ClassVar[str]
    install: ClassVar[str]
    log_in: ClassVar[str] = ""
    reader: ClassVar[type[Reader]]
    version_prefix: ClassVar[str] = ""
    version_suffix: ClassVar[str] = ""
    stderr_tells: ClassVar[bool] = False
    """Whether its errors stand on stderr alone."""

    def __init__(self, settings: Executor, environment: Mapping[str, str]) -> None:
        self.name = settings.id
        self.settings = settings
        self.environment = environment
        self.words = words(settings.command, agent=settings.id) or (self.program,)

    def probe(self) -> Probe:
        problem, version = missing(self.words[0], self.environment), ""
        if not problem:
            version, problem = version_of(self.words, self.environment)
        if problem:
            advice = f"install it with: {self.install}, or set tools.executors[].command"
            return Probe(installed=False, problem=f"agent {self.name}: {problem}; {advice}")
        told = version.removeprefix(self.version_prefix).removesuffix(self.version_suffix)
        return Probe(installed=True, version=told)

    def run(self, invocation: Invocation) -> AgentResult:
        now = local_clock(invocation.environment)
        return run_agent(
            self.name,
            self.command(invocation),
            invocation,
            lambda report: self.reader(report, now),
            supplement=lambda transcript, ended: self.supplemented(transcript, ended, now()),
        )

    def command(self, invocation: Invocation) -> Command:
        stdin = invocation.prompt.encode("utf-8", "replace")
        environment = {**self.surroundings(), **invocation.environment}
        return Command(self.argv(invocation), invocation.workspace, environment, stdin=stdin, box=invocation.box)

    def argv(self, invocation: Invocation) -> tuple[str, ...]:
        raise NotImplementedError

    def surroundings(self) -> Mapping[str, str]:
        """What it needs in the environment, which the user's may overrule."""
        return {}

    def supplemented(self, transcript: Transcript, ended: Ended, now: datetime) -> Transcript:
        """The transcript with what it tells by its exit code or on stderr alone."""
        silent = transcript.fault is None and transcript.succeeded is not False
        if not self.stderr_tells or not silent or not ended.exit_code or ended.exit_code < 0:
            return transcript
        error = api_error(ended.stderr_tail.strip()[-MAX_MESSAGE:], now)
        if error.kind == "unknown":
            return transcript
        return changed(transcript, fault=error.fault(log_in=self.log_in, prefix=f"exit code {ended.exit_code}: "))

    def unless_given(self, option: tuple[str, ...], *names: str) -> tuple[str, ...]:
        """`option`, or nothing where the user's `args` have one of its names: some CLIs end with an error at the second
        of two, whatever it says.
        """
        given = any(arg == name or arg.startswith(f"{name}=") for arg in self.settings.args for name in names)
        return () if given else option

    def model(self, option: str = "--model", short: str = "-m") -> tuple[str, ...]:
        """The option that chooses the model, unless there is none or the user's `args` choose one."""
        return self.unless_given((option, self.settings.model), option, short) if self.settings.model else ()


class ArgumentAgent(CliAgent):
    """One that takes the prompt as an argument, after `prompt_option`; one that is too long for that goes to stdin."""

    prompt_option: ClassVar[tuple[str, ...]] = ()

    def command(self, invocation: Invocation) -> Command:
        encoded = invocation.prompt.encode("utf-8", "replace")
        fits = len(encoded) <= _LONGEST_ARGUMENT and b"\0" not in encoded
        prompt = (*self.prompt_option, encoded.decode()) if fits else ()
        command = super().command(invocation)
        return changed(command, argv=(*command.argv, *prompt), stdin=None if fits else encoded)


def run_agent(
    name: str,
    command: Command,
    invocation: Invocation,
    make_reader: Callable[[Report], Reader],
    *,
    supplement: Supplement | None = None,
) -> AgentResult:
    """Run the command to its end and say what came of it. `make_reader` is given where to report activity.

    `supplement` adds to the transcript what the agent tells by its exit code or on stderr alone.
    """
    reader = make_reader(_quiet(invocation.report))
    kept = HeadTail(head=OUTPUT_HEAD, tail=OUTPUT_TAIL)
    started = time.monotonic()

    def take(block: bytes) -> None:
        kept.feed(block)
        reader.feed(block)

    try:
        ended = run(
            command,
            limits=ProcessLimits(wall_time=invocation.limits.wall_time, idle_time=invocation.limits.idle_time),
            on_output=take,
            output_file=invocation.output_file,
            cancelled=invocation.cancelled,
            last_change=lambda: last_change(invocation.outside),
        )
        transcript = reader.close()
    except GaveUp as gave_up:
        passed = round((time.monotonic() - started) * 1000)
        ended = Ended(None, duration_ms=passed, output_bytes=kept.size)
        transcript = changed(reader.close(), succeeded=False, fault=gave_up.fault)
    output = kept.text()
    if ended.stderr_tail:
        output = f"{output.rstrip()}\n--- stderr ---\n{ended.stderr_tail}".lstrip()
    if supplement:
        transcript = supplement(transcript, ended)
    result = conclude(name, ended, transcript, output=output)
    return replace(result, killed_for=_killed_for(ended, invocation))


def last_change(folder: Path) -> float:
    """When a file or folder below that folder changed last, in seconds since the epoch, git's own files aside."""
    newest = 0.0
    for path, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        for name in (*folders, *files):
            with suppress(OSError):
                newest = max(newest, os.lstat(os.path.join(path, name)).st_mtime)  # noqa: PTH118 - in a hurry
    return newest


def visible(box: Box | None, *paths: Path) -> Box | None:
    """The box with those files and folders of Ralph's readable in it, at their own place."""
    return box and changed(box, read_only=(*box.read_only, *((path, path) for path in paths)))


@contextmanager
def prompt_file(prompt: str) -> Iterator[Path]:
    """A file with the prompt in a folder of its own, outside every workspace, readable by this user only."""
    with tempfile.TemporaryDirectory(prefix="ralph-prompt-", ignore_cleanup_errors=True) as folder:
        path = Path(folder).resolve() / "prompt.md"
        path.write_bytes(prompt.encode("utf-8", "replace"))
        yield path


def words(command: str, *, agent: str) -> tuple[str, ...]:
    """A command line split as a shell would; raises RalphError if it cannot be."""
    try:
        return tuple(shlex.split(command))
    except ValueError as error:
        problem = (
            f"agent {agent}: command {command!r} cannot be split into words: {error}; see tools.executors[].command"
        )
        raise RalphError(problem) from error


def missing(program: str, environment: Mapping[str, str]) -> str:
    """What is wrong with a program that cannot be found or executed, or "".

    A relative path with a folder in it is looked up where the agent will run, so nothing can be said of it here.
    """
    if os.sep in program and not os.path.isabs(program):  # noqa: PTH117 - text, not yet a path
        return ""
    if shutil.which(program, path=environment.get("PATH", os.defpath)):
        return ""
    if os.sep in program and Path(program).is_file():
        return f"{program} is not executable: chmod +x it"
    return f"{program} was not found" + ("" if os.sep in program else " on PATH")


def version_of(argv: Sequence[str], environment: Mapping[str, str]) -> tuple[str, str]:
    """The first line that `argv --version` prints, and what is wrong with it: one of the two is empty."""
    kept = HeadTail(head=200, tail=0)
    command = Command((*argv, "--version"), Path("/"), environment)
    ended = run(command, limits=ProcessLimits(wall_time=_VERSION_TIMEOUT), on_output=kept.feed)
    if ended.failure:
        return "", ended.failure.message
    if ended.killed_by:
        return "", f"`{argv[0]} --version` gave no answer in {_VERSION_TIMEOUT:.0f} s"
    if ended.exit_code != 0:
        said = next(iter(ended.stderr_tail.strip().splitlines()), "")
        return "", f"`{argv[0]} --version` ended with exit code {ended.exit_code}" + (f": {said}" if said else "")
    return next(iter(kept.text().splitlines()), "").strip(), ""


def _killed_for(ended: Ended, invocation: Invocation) -> str:
    """The limit that ended the agent, in words that follow "the agent"."""
    limits = invocation.limits
    if ended.killed_by == "wall-time" and limits.wall_time is not None:
        return f"took longer than {span(limits.wall_time)}"
    if ended.killed_by == "idle-time" and limits.idle_time is not None:
        return f"gave no output and changed no file for {span(limits.idle_time)}"
    return ""


def _quiet(report: Report) -> Report:
    """What is shown of an agent must never end it."""

    def reporting(activity: AgentActivity) -> None:
        with suppress(Exception):
            report(activity)

    return reporting


# The result


def conclude(agent: str, ended: Ended, transcript: Transcript, *, output: str = "") -> AgentResult:
    """The result of a run. Ralph's own kill outranks all, then what the stream's end says, then the exit code."""
    status, why = _status(ended, transcript)
    return AgentResult(
        agent=agent,
        status=status,
        fault=why,
        exit_code=ended.exit_code,
        killed_by=ended.killed_by,
        output=output,
        output_bytes=ended.output_bytes,
        duration_ms=ended.duration_ms,
        final_text=transcript.final_text,
        tool_results=transcript.tool_results,
        usage=transcript.usage,
        cost_usd=transcript.cost_usd,
        session_id=transcript.session_id,
        model=transcript.model,
        permission_denials=transcript.permission_denials,
    )


def _status(ended: Ended, transcript: Transcript) -> tuple[AgentStatus, AgentFault | None]:
    if ended.killed_by:
        informative = transcript.fault is not None and transcript.fault.kind != "unknown"
        return "killed", transcript.fault if informative else None
    if ended.failure:
        return "failed", _cannot_start(ended.failure)
    if transcript.succeeded is False:
        return "failed", transcript.fault or fault("unknown", "it reported an error and did not say which")
    if ended.exit_code != 0:
        return "failed", transcript.fault or _crash(ended)
    if transcript.succeeded is None:
        return "truncated", transcript.fault or fault("cut-off", "its output ended before it said that it had finished")
    return "finished", None


def _cannot_start(failure: StartFailure) -> AgentFault:
    if failure.errno == errno.E2BIG:
        return fault("context-too-long", f"{failure.message}: the prompt does not fit; set promptVia: stdin (or file)")
    if failure.errno in (errno.ENOENT, errno.EACCES, errno.ENOEXEC):
        return fault("not-installed", f"{failure.message}; install it, or set tools.executors[].command")
    return fault("crash", f"it could not be started: {failure.message}")


def _crash(ended: Ended) -> AgentFault:
    code = ended.exit_code
    said = ended.stderr_tail.strip()[-MAX_MESSAGE // 2 :]
    ending = f": {said}" if said else ""
    if code in (_NOT_FOUND, _NOT_EXECUTABLE):
        why = "not found" if code == _NOT_FOUND else "not executable"
        return fault("not-installed", f"exit code {code}, so a command is {why}{ending}")
    if code is not None and code < 0:
        return fault("crash", f"ended by {_signal_name(-code)}, which Ralph did not send{ending}")
    return fault("crash", f"exit code {code}{ending}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
