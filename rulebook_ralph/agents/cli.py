"""What the adapters of all agent CLIs share: the program and whether it is there, the process, and its result."""

import errno
import os
import re
import shlex
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace as changed
from pathlib import Path
from typing import ClassVar, Literal

from msgspec.structs import replace

from rulebook_ralph.agents.agent import Invocation, Probe, Report
from rulebook_ralph.agents.events import MAX_MESSAGE, fault
from rulebook_ralph.agents.limit_times import local_clock
from rulebook_ralph.agents.reader import Reader
from rulebook_ralph.agents.registry import model_options
from rulebook_ralph.config.settings import Executor
from rulebook_ralph.errors import RalphError
from rulebook_ralph.process.box import Box
from rulebook_ralph.process.streams import HeadTail
from rulebook_ralph.process.supervisor import Command, Ended, ProcessLimits, StartFailure, run
from rulebook_ralph.report.events import AgentActivity
from rulebook_ralph.tasks.results import AgentFault, AgentResult, AgentStatus
from rulebook_ralph.tasks.text import span

_VERSION = re.compile(r"\d+\.\d[\w.+-]*")
_VERSION_TIMEOUT = 10.0
_NOT_FOUND = 127
_NOT_EXECUTABLE = 126
_LONGEST_ARGUMENT = 120_000
"""Bytes. Linux takes at most 131,072 in one argument, and macOS 1 MB in all of them and the environment."""


class CliAgent:
    """An agent's own program. Each kind says what it is called, how it is told what it may do, and how its stream is
    read.

    `options` come first. `modes` are what `settings.permissions` add, unless `settings.args` have one of the options
    `instead_of_mode`: some CLIs end with an error at the second of two, whatever it says. The prompt goes in by
    `prompt_via`, after `prompt_option`; one that is too long for an argument by stdin.
    """

    program: ClassVar[str]
    install: ClassVar[str]
    reader: ClassVar[type[Reader]]
    options: ClassVar[tuple[str, ...]] = ()
    modes: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    instead_of_mode: ClassVar[tuple[str, ...]] = ()
    model_option: ClassVar[str] = "--model"
    prompt_via: ClassVar[Literal["stdin", "argument", "file"]] = "stdin"
    prompt_option: ClassVar[tuple[str, ...]] = ()

    def __init__(self, settings: Executor, environment: Mapping[str, str]) -> None:
        self.name = settings.id
        self.settings = settings
        self.environment = environment
        self.words = words(settings.command, agent=settings.id) or (self.program,)

    def probe(self) -> Probe:
        problem, version = missing(self.words[0], self.environment), ""
        if not problem:
            version, problem = _version_of(self.words, self.environment)
        if problem:
            advice = f"install it with: {self.install}, or set tools.executors[].command"
            return Probe(installed=False, problem=f"agent {self.name}: {problem}; {advice}")
        number = _VERSION.search(version)
        return Probe(installed=True, version=number[0] if number else version)

    def run(self, invocation: Invocation) -> AgentResult:
        prompt = invocation.prompt.encode("utf-8", "replace")
        fits = len(prompt) <= _LONGEST_ARGUMENT and b"\0" not in prompt
        argument = (*self.prompt_option, prompt.decode()) if self.prompt_via == "argument" and fits else ()
        command = Command(
            (*self.argv(invocation), *argument),
            invocation.workspace,
            {**self.surroundings(), **invocation.environment},
            stdin=None if argument else prompt,
            box=invocation.box,
        )
        if self.prompt_via != "file":
            return run_agent(self.name, command, invocation, self.reader)
        with prompt_file(invocation.prompt) as file:
            argv = (*command.argv, *self.prompt_option, str(file))
            command = changed(command, argv=argv, stdin=None, box=visible(command.box, file.parent))
            return run_agent(self.name, command, invocation, self.reader)

    def argv(self, invocation: Invocation) -> tuple[str, ...]:
        settings, names = self.settings, self.instead_of_mode
        chosen = any(arg == name or arg.startswith(f"{name}=") for arg in settings.args for name in names)
        model = (self.model_option, settings.model) if settings.model and not any(model_options(settings)) else ()
        return (
            *(*self.words, *self.options),
            *(() if chosen else self.modes.get(settings.permissions, ())),
            *model,
            *self.further(invocation),
            *settings.args,
        )

    def further(self, _: Invocation) -> tuple[str, ...]:
        """Options that depend on the invocation."""
        return ()

    def surroundings(self) -> Mapping[str, str]:
        """What it needs in the environment, which the user's may overrule."""
        return {}


class GaveUp(Exception):  # noqa: N818 - nothing is wrong with Ralph
    """There is no sense in waiting for the agent any longer."""


def run_agent(name: str, command: Command, invocation: Invocation, make_reader: type[Reader]) -> AgentResult:
    """Run the command to its end and say what came of it."""
    reader = make_reader(_quiet(invocation.report), local_clock(invocation.environment))
    kept = output_sample()
    started = time.monotonic()

    def take(block: bytes) -> None:
        kept.feed(block)
        reader.feed(block)
        if reader.hopeless:
            raise GaveUp

    try:
        ended = run(
            command,
            limits=ProcessLimits(wall_time=invocation.limits.wall_time, idle_time=invocation.limits.idle_time),
            on_output=take,
            output_file=invocation.output_file,
            cancelled=invocation.cancelled,
            last_change=lambda: last_change(invocation.outside),
        )
        reader.close()
        reader.exited(ended)
    except GaveUp:
        ended = Ended(None, duration_ms=round((time.monotonic() - started) * 1000), output_bytes=kept.size)
        reader.close()
        reader.succeeded = False
    output = kept.text()
    if ended.stderr_tail:
        output = f"{output.rstrip()}\n--- stderr ---\n{ended.stderr_tail}".lstrip()
    result = conclude(name, ended, reader, output=output)
    return replace(result, killed_for=_killed_for(ended, invocation))


def output_sample() -> HeadTail:
    """So much of the raw output stands in a result."""
    return HeadTail(head=8_000, tail=24_000)


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
        problem = f"agent {agent}: command {command!r} cannot be split into words: {error}"
        raise RalphError(f"{problem}; see tools.executors[].command") from error


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


def _version_of(argv: Sequence[str], environment: Mapping[str, str]) -> tuple[str, str]:
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


def conclude(agent: str, ended: Ended, reader: Reader, *, output: str = "") -> AgentResult:
    """The result of a run. Ralph's own kill outranks all, then what the stream's end says, then the exit code."""
    status, why = _status(ended, reader)
    return AgentResult(
        agent=agent,
        status=status,
        fault=why,
        exit_code=ended.exit_code,
        killed_by=ended.killed_by,
        output=output,
        output_bytes=ended.output_bytes,
        duration_ms=ended.duration_ms,
        final_text=reader.final_text,
        tool_results=reader.tool_results,
        usage=reader.usage,
        cost_usd=reader.cost_usd,
        session_id=reader.session_id,
        model=reader.model,
        permission_denials=reader.permission_denials,
    )


def _status(ended: Ended, reader: Reader) -> tuple[AgentStatus, AgentFault | None]:
    if ended.killed_by:
        informative = reader.fault is not None and reader.fault.kind != "unknown"
        return "killed", reader.fault if informative else None
    if ended.failure:
        return "failed", _cannot_start(ended.failure)
    if reader.succeeded is False:
        return "failed", reader.fault or fault("unknown", "it reported an error and did not say which")
    if ended.exit_code != 0:
        return "failed", reader.fault or _crash(ended)
    if reader.succeeded is None:
        return "truncated", reader.fault or fault("cut-off", "its output ended before it said that it had finished")
    return "finished", None


def _cannot_start(failure: StartFailure) -> AgentFault:
    if failure.errno == errno.E2BIG:
        return fault("context-too-long", f"{failure.message}: the prompt does not fit; set promptVia: stdin (or file)")
    if failure.errno in (errno.ENOENT, errno.EACCES, errno.ENOEXEC):
        return fault("not-installed", f"{failure.message}; install it, or set tools.executors[].command")
    return fault("crash", f"it could not be started: {failure.message}")


def _crash(ended: Ended) -> AgentFault:
    code = ended.exit_code or 0
    said = ended.stderr_tail.strip()[-MAX_MESSAGE // 2 :]
    ending = f": {said}" if said else ""
    if code in (_NOT_FOUND, _NOT_EXECUTABLE):
        why = "not found" if code == _NOT_FOUND else "not executable"
        return fault("not-installed", f"exit code {code}, so a command is {why}{ending}")
    if code < 0:
        name = signal.Signals(-code).name if -code in {*signal.Signals} else f"signal {-code}"
        return fault("crash", f"ended by {name}, which Ralph did not send{ending}")
    return fault("crash", f"exit code {code}{ending}")
