"""Qwen Code (`qwen`), driven through its stream of JSON events."""

from collections.abc import Mapping

from rulebook_ralph.agents.agent import AgentSettings, Assignment, Probe
from rulebook_ralph.agents.given_options import unless_given
from rulebook_ralph.agents.installed import probed
from rulebook_ralph.agents.local_time import local_clock
from rulebook_ralph.agents.program import words
from rulebook_ralph.agents.qwen_stream import QwenReader, with_ending
from rulebook_ralph.agents.supervised import run_agent
from rulebook_ralph.core.evidence import AgentResult
from rulebook_ralph.supervisor import Command

_MODES = {"full": "yolo", "edit": "auto-edit", "ask": "default"}
"""Without a terminal it asks nobody: in `edit` its model is not offered the shell, in `ask` nothing that writes."""


class Qwen:
    """The prompt goes to stdin. `settings.args` come last; qwen refuses to be given an option twice, so what they say
    of the approval mode, the model or the output format is left out before.
    """

    def __init__(self, settings: AgentSettings, environment: Mapping[str, str]) -> None:
        self.name = settings.id
        self._settings = settings
        self._environment = environment
        self._program = words(settings.command, agent=settings.id) or ("qwen",)

    def probe(self) -> Probe:
        return probed(self.name, self._program, self._environment, install="npm install -g @qwen-code/qwen-code")

    def run(self, assignment: Assignment) -> AgentResult:
        stdin = assignment.prompt.encode("utf-8", "replace")
        command = Command(self.argv(), assignment.workspace, assignment.environment, stdin=stdin)
        now = local_clock(assignment.environment)
        return run_agent(self.name, command, assignment, lambda report: QwenReader(report, now), supplement=with_ending)

    def argv(self) -> tuple[str, ...]:
        args, model = self._settings.args, self._settings.model
        mode = ("--approval-mode", _MODES.get(self._settings.permissions, "default"))
        return (
            *self._program,
            *unless_given(args, ("--output-format", "stream-json"), "--output-format", "-o"),
            *unless_given(args, mode, "--approval-mode", "--yolo", "-y"),
            *(unless_given(args, ("--model", model), "--model", "-m") if model else ()),
            *args,
        )
