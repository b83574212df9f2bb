"""Any program as an agent: a prompt goes in, plain text comes out, and exit code 0 means that it finished."""

import re
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from rulebook_ralph.agents.agent import AgentSettings, Assignment, Probe
from rulebook_ralph.agents.program import missing, words
from rulebook_ralph.agents.stream import first_line
from rulebook_ralph.agents.supervised import Report, run_agent
from rulebook_ralph.agents.transcript import Transcript
from rulebook_ralph.core.events import AgentActivity
from rulebook_ralph.core.evidence import AgentResult
from rulebook_ralph.core.streams import HeadTail
from rulebook_ralph.errors import RalphError
from rulebook_ralph.supervisor import Command

_HEAD = 64 * 1024
_TAIL = 1024 * 1024
_BETWEEN_REPORTS = 0.1
_PLACEHOLDER = re.compile(r"\{(prompt_file|prompt|model)\}")


class CommandAgent:
    """`settings.command` is split like a shell's line if there are no `args`; else it is the program alone.

    `{model}`, `{prompt_file}` and `{prompt}` in them are replaced. Where the prompt goes by file or argument and has
    no placeholder, the file's path or the prompt is the last argument. Prompt files are outside the workspace.
    """

    def __init__(self, settings: AgentSettings, environment: Mapping[str, str]) -> None:
        self.name = settings.id
        self._settings = settings
        self._environment = dict(environment)
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

    def run(self, assignment: Assignment) -> AgentResult:
        with ExitStack() as stack:
            prompt_file = self._prompt_file(assignment.prompt, stack)
            command = Command(
                self._arguments(assignment.prompt, prompt_file),
                assignment.workspace,
                assignment.environment,
                stdin=_encoded(assignment.prompt) if self._via == "stdin" else None,
            )
            return run_agent(self.name, command, assignment, PlainTextReader)

    def _prompt_file(self, prompt: str, stack: ExitStack) -> str:
        """The path of a file with the prompt, readable by this user only, where one is asked for."""
        if self._via != "file" and "prompt_file" not in self._placed:
            return ""
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ralph-prompt-", ignore_cleanup_errors=True))
        path = Path(folder) / "prompt.md"
        path.write_bytes(_encoded(prompt))
        return str(path)

    def _arguments(self, prompt: str, prompt_file: str) -> tuple[str, ...]:
        values = {"prompt_file": prompt_file, "prompt": prompt, "model": self._settings.model}
        argv = tuple(_PLACEHOLDER.sub(lambda found: values[found[1]], word) for word in self._argv)
        last = {"file": (prompt_file,), "argument": (prompt,)}
        return (*argv, *last.get(self._via, ()))


class PlainTextReader:
    """The whole stdout is the final message: its first 64 KB and its last MB, if it is longer than that."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._reported = 0.0
        self._kept = HeadTail(head=_HEAD, tail=_TAIL)

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


def _encoded(prompt: str) -> bytes:
    return prompt.encode("utf-8", "replace")
