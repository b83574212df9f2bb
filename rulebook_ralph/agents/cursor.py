"""Cursor's CLI (`cursor-agent -p`), driven through its stream of JSON events."""

from collections.abc import Mapping

from rulebook_ralph.agents.agent import AgentSettings, Assignment, Probe
from rulebook_ralph.agents.cursor_stream import LOG_IN, CursorReader
from rulebook_ralph.agents.installed import probed
from rulebook_ralph.agents.local_time import local_clock
from rulebook_ralph.agents.program import words
from rulebook_ralph.agents.prompt_argument import placed
from rulebook_ralph.agents.stderr_errors import told_by_stderr
from rulebook_ralph.agents.supervised import run_agent
from rulebook_ralph.core.evidence import AgentResult
from rulebook_ralph.supervisor import Command

_PERMISSIONS: dict[str, tuple[str, ...]] = {
    "full": ("--force",),
    "edit": (),
    "ask": ("--mode=ask",),
}
"""Without `--force` it refuses commands, and edits files (old versions only propose the edits)."""


class Cursor:
    """The prompt is the last argument, or where it is too long for one, stdin."""

    def __init__(self, settings: AgentSettings, environment: Mapping[str, str]) -> None:
        self.name = settings.id
        self._settings = settings
        self._environment = environment
        self._program = words(settings.command, agent=settings.id) or ("cursor-agent",)

    def probe(self) -> Probe:
        install = "curl https://cursor.com/install -fsS | bash"
        return probed(self.name, self._program, self._environment, install=install)

    def run(self, assignment: Assignment) -> AgentResult:
        prompt, stdin = placed(assignment.prompt)
        command = Command((*self.argv(), *prompt), assignment.workspace, assignment.environment, stdin=stdin)
        now = local_clock(assignment.environment)
        return run_agent(
            self.name,
            command,
            assignment,
            lambda report: CursorReader(report, now),
            supplement=told_by_stderr(now, log_in=LOG_IN),
        )

    def argv(self) -> tuple[str, ...]:
        settings = self._settings
        model = ("--model", settings.model) if settings.model else ()
        permissions = _PERMISSIONS.get(settings.permissions, ())
        return (*self._program, "-p", "--output-format", "stream-json", *permissions, *model, *settings.args)
