"""GitHub Copilot CLI (`copilot -p`), driven through its stream of JSON events."""

from collections.abc import Mapping

from rulebook_ralph.agents.agent import AgentSettings, Assignment, Probe
from rulebook_ralph.agents.copilot_stream import LOG_IN, CopilotReader
from rulebook_ralph.agents.installed import probed
from rulebook_ralph.agents.local_time import local_clock
from rulebook_ralph.agents.program import words
from rulebook_ralph.agents.prompt_argument import placed
from rulebook_ralph.agents.stderr_errors import told_by_stderr
from rulebook_ralph.agents.supervised import run_agent
from rulebook_ralph.core.evidence import AgentResult
from rulebook_ralph.supervisor import Command

_PERMISSIONS: dict[str, tuple[str, ...]] = {
    "full": ("--allow-all-tools",),
    "edit": ("--allow-tool=write",),
    "ask": (),
}
"""Without a person to ask, it refuses what is not allowed."""


class Copilot:
    """The prompt is an argument, or where it is too long for one, stdin. `settings.args` come last."""

    def __init__(self, settings: AgentSettings, environment: Mapping[str, str]) -> None:
        self.name = settings.id
        self._settings = settings
        self._environment = environment
        self._program = words(settings.command, agent=settings.id) or ("copilot",)

    def probe(self) -> Probe:
        return probed(self.name, self._program, self._environment, install="npm install -g @github/copilot")

    def run(self, assignment: Assignment) -> AgentResult:
        prompt, stdin = placed(assignment.prompt, "-p")
        command = Command(self.argv(prompt), assignment.workspace, assignment.environment, stdin=stdin)
        now = local_clock(assignment.environment)
        return run_agent(
            self.name,
            command,
            assignment,
            lambda report: CopilotReader(report, now),
            supplement=told_by_stderr(now, log_in=LOG_IN),
        )

    def argv(self, prompt: tuple[str, ...]) -> tuple[str, ...]:
        settings = self._settings
        model = ("--model", settings.model) if settings.model else ()
        permissions = _PERMISSIONS.get(settings.permissions, ())
        return (*self._program, *prompt, "--output-format", "json", *permissions, *model, *settings.args)
