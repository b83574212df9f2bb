"""Claude Code (`claude -p`), driven through its stream of JSON events."""

import os
from collections.abc import Mapping
from dataclasses import replace

from rulebook_ralph.agents.agent import AgentSettings, Assignment, Probe
from rulebook_ralph.agents.claude_stream import ClaudeReader
from rulebook_ralph.agents.giving_up import GivingUp
from rulebook_ralph.agents.local_time import local_clock
from rulebook_ralph.agents.program import missing, words
from rulebook_ralph.agents.supervised import run_agent, version_of
from rulebook_ralph.core.evidence import AgentResult
from rulebook_ralph.supervisor import Command

_INSTALL = "install it with: npm install -g @anthropic-ai/claude-code, or set tools.executors[].command"

_PERMISSIONS: dict[str, tuple[str, ...]] = {
    "full": ("--dangerously-skip-permissions",),
    "edit": ("--permission-mode", "acceptEdits"),
    "ask": (),
}


class Claude:
    """The prompt goes to stdin. `settings.args` come last, so they can overrule."""

    def __init__(self, settings: AgentSettings, environment: Mapping[str, str]) -> None:
        self.name = settings.id
        self._settings = settings
        self._environment = environment
        self._program = words(settings.command, agent=settings.id) or ("claude",)

    def probe(self) -> Probe:
        problem = missing(self._program[0], self._environment)
        if problem:
            return Probe(installed=False, problem=f"agent {self.name}: {problem}; {_INSTALL}")
        version, problem = version_of(self._program, dict(self._environment))
        if problem:
            return Probe(installed=False, problem=f"agent {self.name}: {problem}; {_INSTALL}")
        return Probe(installed=True, version=version.removesuffix(" (Claude Code)"))

    def run(self, assignment: Assignment) -> AgentResult:
        command = Command(
            self.argv(budget=assignment.limits.cost_usd),
            assignment.workspace,
            _surroundings(assignment.environment, self._settings.permissions),
            stdin=assignment.prompt.encode("utf-8", "replace"),
        )
        now, end = local_clock(assignment.environment), GivingUp(assignment.cancelled)
        result = run_agent(
            self.name,
            command,
            replace(assignment, cancelled=end),
            lambda report: ClaudeReader(report, now, give_up=end.give_up),
        )
        return end.outcome(result)

    def argv(self, *, budget: float | None = None) -> tuple[str, ...]:
        """`budget` is what it may cost, in dollars."""
        settings = self._settings
        limited = () if budget is None else ("--max-budget-usd", f"{max(budget, 0.01):.2f}")
        model = ("--model", settings.model) if settings.model else ()
        permissions = _PERMISSIONS.get(settings.permissions, ())
        return (
            *self._program,
            *("-p", "--output-format", "stream-json", "--verbose"),
            *permissions,
            *limited,
            *model,
            *settings.args,
        )


def _surroundings(environment: Mapping[str, str], permissions: str) -> dict[str, str]:
    """What claude needs beyond the given environment, which may overrule it.

    It puts the branch, status and last commits before the prompt unless told not to, and then no prefix cache hits.
    As root it refuses to skip permissions unless it is told that it is in a sandbox (agents.md).
    """
    own = {"CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS": "1"}
    if permissions == "full" and os.geteuid() == 0:
        own["IS_SANDBOX"] = "1"
    return {**own, **environment}
