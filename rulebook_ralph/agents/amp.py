"""Amp (`amp -x`), driven through its stream of JSON events."""

from collections.abc import Mapping

from rulebook_ralph.agents.agent import AgentSettings, Assignment, Probe
from rulebook_ralph.agents.amp_stream import LOG_IN, AmpReader
from rulebook_ralph.agents.installed import probed
from rulebook_ralph.agents.local_time import local_clock
from rulebook_ralph.agents.program import words
from rulebook_ralph.agents.stderr_errors import told_by_stderr
from rulebook_ralph.agents.supervised import run_agent
from rulebook_ralph.core.evidence import AgentResult
from rulebook_ralph.supervisor import Command


class Amp:
    """The prompt goes to stdin. It runs its tools unasked whatever it is told, so only `permissions: full` is honest.

    Amp chooses its model by `--mode`, which `settings.model` is handed to. `settings.args` come last.
    """

    def __init__(self, settings: AgentSettings, environment: Mapping[str, str]) -> None:
        self.name = settings.id
        self._settings = settings
        self._environment = environment
        self._program = words(settings.command, agent=settings.id) or ("amp",)

    def probe(self) -> Probe:
        return probed(self.name, self._program, self._environment, install="npm install -g @ampcode/cli")

    def run(self, assignment: Assignment) -> AgentResult:
        stdin = assignment.prompt.encode("utf-8", "replace")
        command = Command(self.argv(), assignment.workspace, assignment.environment, stdin=stdin)
        now = local_clock(assignment.environment)
        return run_agent(
            self.name,
            command,
            assignment,
            lambda report: AmpReader(report, now),
            supplement=told_by_stderr(now, log_in=LOG_IN),
        )

    def argv(self) -> tuple[str, ...]:
        model = ("--mode", self._settings.model) if self._settings.model else ()
        return (*self._program, "-x", "--stream-json", "--dangerously-allow-all", *model, *self._settings.args)
