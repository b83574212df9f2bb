"""Codex (`codex exec`), driven through its stream of JSON events."""

from collections.abc import Mapping

from rulebook_ralph.agents.agent import AgentSettings, Assignment, Probe
from rulebook_ralph.agents.codex_stream import CodexReader, with_stderr
from rulebook_ralph.agents.given_options import unless_given
from rulebook_ralph.agents.installed import probed
from rulebook_ralph.agents.local_time import local_clock
from rulebook_ralph.agents.program import words
from rulebook_ralph.agents.supervised import run_agent
from rulebook_ralph.core.evidence import AgentResult
from rulebook_ralph.supervisor import Command

_PERMISSIONS: dict[str, tuple[str, ...]] = {
    "full": ("--dangerously-bypass-approvals-and-sandbox",),
    "edit": ("--sandbox", "workspace-write"),
    "ask": ("--sandbox", "read-only"),
}
"""`codex exec` asks nobody. `edit` also runs commands, in a sandbox that can write to the workspace and has no network;
`ask` runs them in one that can write nothing. What a sandbox refuses ends no run: codex says that it is done."""

_SANDBOXES = ("--sandbox", "-s", "--dangerously-bypass-approvals-and-sandbox", "--yolo", "--approve-for-me")


class Codex:
    """The prompt goes to stdin. `settings.args` come last; codex refuses to be given an option twice, so what they say
    of the sandbox or the model is left out before.
    """

    def __init__(self, settings: AgentSettings, environment: Mapping[str, str]) -> None:
        self.name = settings.id
        self._settings = settings
        self._environment = environment
        self._program = words(settings.command, agent=settings.id) or ("codex",)

    def probe(self) -> Probe:
        found = probed(self.name, self._program, self._environment, install="npm install -g @openai/codex")
        return Probe(found.installed, found.version.removeprefix("codex-cli "), found.problem)

    def run(self, assignment: Assignment) -> AgentResult:
        stdin = assignment.prompt.encode("utf-8", "replace")
        command = Command(self.argv(), assignment.workspace, assignment.environment, stdin=stdin)
        now = local_clock(assignment.environment)
        return run_agent(
            self.name, command, assignment, lambda report: CodexReader(report, now), supplement=with_stderr
        )

    def argv(self) -> tuple[str, ...]:
        args, model = self._settings.args, self._settings.model
        configured = any(arg.removeprefix("--config=").startswith("sandbox_mode") for arg in args)
        permissions = () if configured else _PERMISSIONS.get(self._settings.permissions, ())
        return (
            *self._program,
            "exec",
            *unless_given(args, ("--json",), "--json"),
            *unless_given(args, ("--skip-git-repo-check",), "--skip-git-repo-check"),
            *unless_given(args, permissions, *_SANDBOXES),
            *(unless_given(args, ("--model", model), "--model", "-m") if model else ()),
            *args,
        )
