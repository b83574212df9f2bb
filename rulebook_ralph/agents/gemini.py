"""Gemini CLI (`gemini`), driven through its stream of JSON events."""

from collections.abc import Mapping

from rulebook_ralph.agents.agent import AgentSettings, Assignment, Probe
from rulebook_ralph.agents.gemini_ending import with_ending
from rulebook_ralph.agents.gemini_stream import GeminiReader
from rulebook_ralph.agents.given_options import unless_given
from rulebook_ralph.agents.installed import probed
from rulebook_ralph.agents.local_time import local_clock
from rulebook_ralph.agents.program import words
from rulebook_ralph.agents.supervised import run_agent
from rulebook_ralph.core.evidence import AgentResult
from rulebook_ralph.supervisor import Command

_MODES = {"full": "yolo", "edit": "auto_edit", "ask": "default"}
"""Without a terminal it asks nobody: in `edit` its model is not offered the shell, in `ask` nothing that writes."""


class Gemini:
    """The prompt goes to stdin. `settings.args` come last; gemini refuses to be given an option twice, so what they say
    of the approval mode, the model or the output format is left out before.
    """

    def __init__(self, settings: AgentSettings, environment: Mapping[str, str]) -> None:
        self.name = settings.id
        self._settings = settings
        self._environment = environment
        self._program = words(settings.command, agent=settings.id) or ("gemini",)

    def probe(self) -> Probe:
        return probed(self.name, self._program, self._environment, install="npm install -g @google/gemini-cli")

    def run(self, assignment: Assignment) -> AgentResult:
        stdin = assignment.prompt.encode("utf-8", "replace")
        surroundings = {**self._surroundings(), **assignment.environment}
        command = Command(self.argv(), assignment.workspace, surroundings, stdin=stdin)
        now = local_clock(assignment.environment)
        return run_agent(
            self.name,
            command,
            assignment,
            lambda report: GeminiReader(report, now),
            supplement=lambda transcript, ended: with_ending(transcript, ended, now()),
        )

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

    def _surroundings(self) -> dict[str, str]:
        """In a folder that it was not told to trust it does not run at all. To trust one is to run what the project's
        own settings name, which `full` allows anyway and the other modes do not.
        """
        return {"GEMINI_CLI_TRUST_WORKSPACE": "true"} if self._settings.permissions == "full" else {}
