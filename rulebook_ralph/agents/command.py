"""Any program as an agent: a prompt goes in, plain text comes out, and exit code 0 means that it finished. One is
Ralph's own: the player of scripts.
"""

import re
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, ClassVar, Self

from msgspec.structs import replace

from rulebook_ralph.agents.agent import Invocation, Probe, Report
from rulebook_ralph.agents.cli import missing, prompt_file, run_agent, visible, words
from rulebook_ralph.agents.events import dollars, fault, first_line, text, usage_of
from rulebook_ralph.agents.limit_times import Now
from rulebook_ralph.agents.reader import EventReader, Reader
from rulebook_ralph.config.settings import Executor
from rulebook_ralph.errors import RalphError
from rulebook_ralph.process.streams import HeadTail
from rulebook_ralph.process.supervisor import Command
from rulebook_ralph.report.events import AgentActivity
from rulebook_ralph.tasks.results import AgentResult

_BETWEEN_REPORTS = 0.1
_PLAYER = Path(__file__).with_name("scripted_player.py")
_PLACEHOLDER = re.compile(r"\{(prompt_file|prompt|model)\}")


class PlainTextReader(Reader):
    """The whole stdout is the final message: its first 64 KB and its last MB, if it is longer than that."""

    def __init__(self, report: Report, now: Now) -> None:
        super().__init__(report, now)
        self._reported = 0.0
        self._kept = HeadTail(head=64 * 1024, tail=1024 * 1024)

    def feed(self, block: bytes) -> None:
        self._kept.feed(block)
        now = time.monotonic()
        if now - self._reported >= _BETWEEN_REPORTS:
            line = first_line(block[-1000:].decode("utf-8", "replace").rstrip().rpartition("\n")[2])
            if line:
                self._reported = now
                self.report(AgentActivity("text", line))

    def close(self) -> Self:
        """That it finished is told by the exit code alone."""
        self.succeeded, self.final_text = True, self._kept.text()
        return self


class CommandAgent:
    """`settings.command` is split like a shell's line if there are no `args`; else it is the program alone.

    `{model}`, `{prompt_file}` and `{prompt}` in them are replaced. Where the prompt goes by file or argument and has
    no placeholder, the file's path or the prompt is the last argument. Prompt files are outside the workspace.
    """

    reader: ClassVar[type[Reader]] = PlainTextReader

    def __init__(self, settings: Executor, environment: Mapping[str, str], reads: tuple[Path, ...] = ()) -> None:
        """`reads` are files of its own that it must see in the sandbox."""
        self.name = settings.id
        self._settings, self._environment, self._reads = settings, environment, reads
        argv = (settings.command, *settings.args) if settings.args else words(settings.command, agent=settings.id)
        if not argv or not argv[0]:
            raise RalphError(f"agent {settings.id}: type command needs a command; set tools.executors[].command")
        placed = {name for word in argv for name in _PLACEHOLDER.findall(word)} - {"model"}
        last = {"file": ("{prompt_file}",), "argument": ("{prompt}",)}.get(settings.prompt_via, ())
        self._argv = argv if placed else (*argv, *last)
        self._by_stdin = not placed and not last
        self._by_file = any("{prompt_file}" in word for word in self._argv)

    def probe(self) -> Probe:
        if problem := missing(self._argv[0], self._environment):
            advice = "install it, or set tools.executors[].command"
            return Probe(installed=False, problem=f"agent {self.name}: {problem}; {advice}")
        return Probe(installed=True)

    def run(self, invocation: Invocation) -> AgentResult:
        prompt = invocation.prompt
        with prompt_file(prompt) if self._by_file else nullcontext() as file:
            values = {"prompt_file": str(file), "prompt": prompt, "model": self._settings.model}
            command = Command(
                tuple(_PLACEHOLDER.sub(lambda found: values[found[1]], word) for word in self._argv),
                invocation.workspace,
                invocation.environment,
                stdin=prompt.encode("utf-8", "replace") if self._by_stdin else None,
                box=visible(invocation.box, *self._reads, *((file.parent,) if file else ())),
            )
            return run_agent(self.name, command, invocation, self.reader)


class ScriptedReader(EventReader):
    """Reads the player's events: `text`, `tool`, `tool_result` and at the end `result`."""

    def event(self, kind: str, event: dict[str, Any]) -> None:
        name = text(event.get("name"))
        if kind == "text":
            self.said(text(event.get("text")))
        elif kind == "tool":
            self.tool_started(name, name, event.get("detail"))
        elif kind == "tool_result":
            self.tool_ended(name, success=event.get("success"), output=text(event.get("output")))
        elif kind == "result":
            self.succeeded = event.get("success") is True
            self.final_text = text(event.get("final_text"))
            self.usage = usage_of(event.get("usage"))
            self.cost_usd = dollars(event.get("cost"))
            self.fault = None if self.succeeded else fault("unknown", self.final_text or "the script says so")


class Scripted(CommandAgent):
    """`settings.args[0]` is the path of the script, from the workspace or absolute."""

    reader = ScriptedReader

    def __init__(self, settings: Executor, environment: Mapping[str, str]) -> None:
        if not settings.args:
            problem = f"agent {settings.id}: type scripted needs a script; set its path in tools.executors[].args"
            raise RalphError(problem)
        self._script = Path(settings.args[0])
        played = ("-I", "-S", "-X", "utf8", str(_PLAYER), str(self._script))
        reads = (_PLAYER, self._script) if self._script.is_absolute() and self._script.is_file() else (_PLAYER,)
        super().__init__(replace(settings, command=sys.executable, args=played, prompt_via="stdin"), environment, reads)

    def probe(self) -> Probe:
        if self._script.is_absolute() and not self._script.is_file():
            return Probe(installed=False, problem=f"agent {self.name}: there is no script {self._script}")
        return Probe(installed=True)
