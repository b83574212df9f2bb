"""An agent that plays a script, for the demo and for tests: a genuine process with genuine effects, under the
supervisor like any other. scripted_player.py says what a script looks like."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rulebook_ralph.agents.agent import AgentSettings, Assignment, Probe
from rulebook_ralph.agents.stream import count, decode_event, dollars, first_line, table, text, tool_result
from rulebook_ralph.agents.supervised import Report, run_agent
from rulebook_ralph.agents.transcript import MAX_TOOL_RESULTS, Transcript, fault
from rulebook_ralph.core.events import AgentActivity
from rulebook_ralph.core.evidence import AgentResult, ToolResult, Usage
from rulebook_ralph.core.streams import LineSplitter
from rulebook_ralph.errors import RalphError
from rulebook_ralph.supervisor import Command

_PLAYER = Path(__file__).with_name("scripted_player.py")


class Scripted:
    """`settings.args[0]` is the path of the script, from the workspace or absolute."""

    def __init__(self, settings: AgentSettings, environment: Mapping[str, str]) -> None:  # noqa: ARG002 - as all agents
        self.name = settings.id
        if not settings.args:
            problem = f"agent {settings.id}: type scripted needs a script; set its path in tools.executors[].args"
            raise RalphError(problem)
        self._script = settings.args[0]

    def probe(self) -> Probe:
        if Path(self._script).is_absolute() and not Path(self._script).is_file():
            return Probe(installed=False, problem=f"agent {self.name}: there is no script {self._script}")
        return Probe(installed=True)

    def run(self, assignment: Assignment) -> AgentResult:
        command = Command(
            (sys.executable, "-I", "-S", "-X", "utf8", str(_PLAYER), self._script),
            assignment.workspace,
            assignment.environment,
            stdin=assignment.prompt.encode("utf-8", "replace"),
        )
        return run_agent(self.name, command, assignment, ScriptedReader)


class ScriptedReader:
    """Reads the player's events: `text`, `tool`, `tool_result` and at the end `result`."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._lines = LineSplitter(self._line)
        self._tool_results: list[ToolResult] = []
        self._result: dict[str, Any] | None = None

    def feed(self, block: bytes) -> None:
        self._lines.feed(block)

    def close(self) -> Transcript:
        self._lines.close()
        results = tuple(self._tool_results)
        result = self._result
        if result is None:
            return Transcript(tool_results=results)
        usage = table(result.get("usage"))
        succeeded = result.get("success") is True
        return Transcript(
            succeeded=succeeded,
            final_text=text(result.get("final_text")),
            tool_results=results,
            usage=Usage(input_tokens=count(usage.get("input_tokens")), output_tokens=count(usage.get("output_tokens"))),
            cost_usd=dollars(result.get("cost")),
            fault=None if succeeded else fault("unknown", text(result.get("final_text")) or "the script says so"),
        )

    def _line(self, line: bytes) -> None:
        event = decode_event(line) or {}
        kind, name, detail = event.get("type"), text(event.get("name")), text(event.get("detail"))
        if kind == "text":
            said = first_line(text(event.get("text")))
            if said:
                self._report(AgentActivity("text", said))
        elif kind == "tool":
            self._report(AgentActivity("tool", first_line(name), first_line(detail)))
        elif kind == "tool_result":
            success = event.get("success")
            outcome = success if isinstance(success, bool) else None
            self._tool_results.append(tool_result(name, detail, success=outcome, output=text(event.get("output"))))
            del self._tool_results[:-MAX_TOOL_RESULTS]
        elif kind == "result":
            self._result = event
