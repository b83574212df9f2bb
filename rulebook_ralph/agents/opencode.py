"""opencode (`opencode run`), driven through its stream of JSON events."""

import json
from collections.abc import Mapping

from rulebook_ralph.agents.agent import AgentSettings, Assignment, Probe
from rulebook_ralph.agents.given_options import unless_given
from rulebook_ralph.agents.installed import probed
from rulebook_ralph.agents.local_time import local_clock
from rulebook_ralph.agents.opencode_stream import OpenCodeReader
from rulebook_ralph.agents.program import words
from rulebook_ralph.agents.supervised import run_agent
from rulebook_ralph.core.evidence import AgentResult
from rulebook_ralph.supervisor import Command

_HELD = {"bash": "deny", "webfetch": "deny", "websearch": "deny", "external_directory": "deny"}
_RULES: dict[str, dict[str, str]] = {"edit": {**_HELD, "edit": "allow"}, "ask": {**_HELD, "edit": "deny"}}
"""Denied, not asked for: opencode ends the run at the first tool that it would have to ask for."""


class OpenCode:
    """The prompt goes to stdin. `settings.args` come last; what they say of the model or the format is left out before.

    `settings.endpoint` is the address of a running `opencode serve`; its rules then hold, whatever `permissions` say.
    """

    def __init__(self, settings: AgentSettings, environment: Mapping[str, str]) -> None:
        self.name = settings.id
        self._settings = settings
        self._environment = environment
        self._program = words(settings.command, agent=settings.id) or ("opencode",)

    def probe(self) -> Probe:
        return probed(self.name, self._program, self._environment, install="npm install -g opencode-ai")

    def run(self, assignment: Assignment) -> AgentResult:
        settings, stdin = self._settings, assignment.prompt.encode("utf-8", "replace")
        attached = ("--attach", settings.endpoint, "--dir", str(assignment.workspace)) if settings.endpoint else ()
        surroundings = {**_surroundings(settings.permissions), **assignment.environment}
        command = Command(self.argv(attached), assignment.workspace, surroundings, stdin=stdin)
        now = local_clock(assignment.environment)
        return run_agent(self.name, command, assignment, lambda report: OpenCodeReader(report, now))

    def argv(self, attached: tuple[str, ...] = ()) -> tuple[str, ...]:
        args, model = self._settings.args, self._settings.model
        permissions = ("--auto",) if self._settings.permissions == "full" else ()
        return (
            *(*self._program, "run"),
            *unless_given(args, ("--format", "json"), "--format"),
            *unless_given(args, permissions, "--auto", "--no-auto"),
            *(unless_given(args, ("--model", model), "--model", "-m") if model else ()),
            *attached,
            *args,
        )


def _surroundings(permissions: str) -> dict[str, str]:
    rules = _RULES.get(permissions)
    return {"OPENCODE_PERMISSION": json.dumps(rules)} if rules else {}
