"""Any program as an agent: a prompt goes in, plain text comes out, and exit code 0 means that it finished."""

import re
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rulebook_ralph.agents.agent import Invocation, Probe, Report
from rulebook_ralph.agents.cli import missing, prompt_file, run_agent, visible, words
from rulebook_ralph.agents.events import EventReader, Transcript, dollars, fault, first_line, text, usage_of
from rulebook_ralph.agents.limit_times import Now, local_clock
from rulebook_ralph.config.settings import Executor
from rulebook_ralph.errors import RalphError
from rulebook_ralph.process.streams import HeadTail
from rulebook_ralph.process.supervisor import Command
from rulebook_ralph.report.events import AgentActivity
from rulebook_ralph.tasks.results import AgentResult

TEXT_HEAD = 64 * 1024
TEXT_TAIL = 1024 * 1024
_BETWEEN_REPORTS = 0.1
_PLAYER = Path(__file__).with_name("scripted_player.py")
_PLACEHOLDER = re.compile(r"\{(prompt_file|prompt|model)\}")


class PlainTextReader:
    """The whole stdout is the final message: its first 64 KB and its last MB, if it is longer than that."""

    def __init__(self, report: Report, _: Now | None = None) -> None:
        self._report = report
        self._reported = 0.0
        self._kept = HeadTail(head=TEXT_HEAD, tail=TEXT_TAIL)

    def feed(self, block: bytes) -> None:
        self._kept.feed(block)
        now = time.monotonic()
        if now - self._reported >= _BETWEEN_REPORTS:
            line = first_line(block[-1000:].decode("utf-8", "replace").rstrip().rpartition("\n")[2])
            if line:
                self._reported = now
                self._report(AgentActivity("text", line))

    def close(self) -> Transcript:
        """That it finished is told by the exit code alone."""
        return Transcript(succeeded=True, final_text=self._kept.text())


class CommandAgent:
    """`settings.command` is split like a shell's line if there are no `args`; else it is the program alone.

    `{model}`, `{prompt_file}` and `{prompt}` in them are replaced. Where the prompt goes by file or argument and has
    no placeholder, the file's path or the prompt is the last argument. Prompt files are outside the workspace.
    """

    reader = PlainTextReader

    def __init__(self, settings: Executor, environment: Mapping[str, str]) -> None:
        self.name = settings.id
        self._settings = settings
        self._environment = environment
        self._argv = (settings.command, *settings.args) if settings.args else words(settings.command, agent=settings.id)
        if not self._argv or not self._argv[0]:
            problem = f"agent {settings.id}: type command needs a command; set tools.executors[].command"
            raise RalphError(problem)
        self._placed = {name for word in self._argv for name in _PLACEHOLDER.findall(word)}
        self._via = "placeholder" if self._placed & {"prompt", "prompt_file"} else settings.prompt_via

    def probe(self) -> Probe:
        problem = missing(self._argv[0], self._environment)
        if problem:
            advice = "install it, or set tools.executors[].command"
            return Probe(installed=False, problem=f"agent {self.name}: {problem}; {advice}")
        return Probe(installed=True)

    def run(self, invocation: Invocation) -> AgentResult:
        with ExitStack() as stack:
            file = self._prompt_file(invocation.prompt, stack)
            command = Command(
                self._arguments(invocation.prompt, str(file or "")),
                invocation.workspace,
                invocation.environment,
                stdin=invocation.prompt.encode("utf-8", "replace") if self._via == "stdin" else None,
                box=visible(invocation.box, file.parent) if file else invocation.box,
            )
            return run_agent(self.name, command, invocation, PlainTextReader)

    def _prompt_file(self, prompt: str, stack: ExitStack) -> Path | None:
        """A file with the prompt, readable by this user only, where one is asked for."""
        if self._via != "file" and "prompt_file" not in self._placed:
            return None
        return stack.enter_context(prompt_file(prompt))

    def _arguments(self, prompt: str, file: str) -> tuple[str, ...]:
        values = {"prompt_file": file, "prompt": prompt, "model": self._settings.model}
        argv = tuple(_PLACEHOLDER.sub(lambda found: values[found[1]], word) for word in self._argv)
        last = {"file": (file,), "argument": (prompt,)}
        return (*argv, *last.get(self._via, ()))


class ScriptedReader(EventReader):
    """Reads the player's events: `text`, `tool`, `tool_result` and at the end `result`."""

    def event(self, kind: str, event: dict[str, Any]) -> None:
        name, detail = text(event.get("name")), text(event.get("detail"))
        if kind == "text":
            self.said(text(event.get("text")))
        elif kind == "tool":
            self.tools.started(name, name, detail)
        elif kind == "tool_result":
            success = event.get("success")
            self.tools.ended(
                name, success=success if isinstance(success, bool) else None, output=text(event.get("output"))
            )
        elif kind == "result":
            self.succeeded = event.get("success") is True
            self.final_text = text(event.get("final_text"))
            self.usage = usage_of(event.get("usage"))
            self.cost = dollars(event.get("cost"))
            self.fault = None if self.succeeded else fault("unknown", self.final_text or "the script says so")


class Scripted:
    """`settings.args[0]` is the path of the script, from the workspace or absolute."""

    reader = ScriptedReader

    def __init__(self, settings: Executor, _: Mapping[str, str]) -> None:
        self.name = settings.id
        if not settings.args:
            problem = f"agent {settings.id}: type scripted needs a script; set its path in tools.executors[].args"
            raise RalphError(problem)
        self._script = settings.args[0]

    def probe(self) -> Probe:
        if Path(self._script).is_absolute() and not Path(self._script).is_file():
            return Probe(installed=False, problem=f"agent {self.name}: there is no script {self._script}")
        return Probe(installed=True)

    def run(self, invocation: Invocation) -> AgentResult:
        script = Path(self._script)
        read = (_PLAYER, script) if script.is_absolute() and script.is_file() else (_PLAYER,)
        command = Command(
            (sys.executable, "-I", "-S", "-X", "utf8", str(_PLAYER), self._script),
            invocation.workspace,
            invocation.environment,
            stdin=invocation.prompt.encode("utf-8", "replace"),
            box=visible(invocation.box, *read),
        )
        now = local_clock(invocation.environment)
        return run_agent(self.name, command, invocation, lambda report: ScriptedReader(report, now))
