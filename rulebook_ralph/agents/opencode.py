"""opencode (`opencode run`), driven through its stream of JSON events."""

import json
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from rulebook_ralph.agents.agent import Invocation
from rulebook_ralph.agents.cli import CliAgent
from rulebook_ralph.agents.events import added, api_error, count, dollars, fault, table, text
from rulebook_ralph.agents.limit_times import iso_after
from rulebook_ralph.agents.reader import EventReader
from rulebook_ralph.tasks.results import AgentFault, ErrorKind, Usage

_HELD = {"bash": "deny", "webfetch": "deny", "websearch": "deny", "external_directory": "deny"}
_RULES: dict[str, dict[str, str]] = {"edit": {**_HELD, "edit": "allow"}, "ask": {**_HELD, "edit": "deny"}}
"""Denied, not asked for: opencode ends the run at the first tool that it would have to ask for."""

_BY_NAME: dict[str, ErrorKind] = {
    "ProviderAuthError": "authentication",
    "ContextOverflowError": "context-too-long",
    "MessageOutputLengthError": "cut-off",
}
_REFUSED = (
    "The user rejected permission to use this specific tool call",
    "The user has specified a rule which prevents you from using this specific tool call",
)
_STOPPED_BY_REFUSAL = "opencode stops when it is refused a tool that it would have to ask for"
_INVALID = "invalid"


class OpenCodeReader(EventReader):
    """Keeps the last results of tools, the last text, the sums over the steps, and how the last step ended.

    An error is never made good by what follows: opencode goes on after some, and ends with exit code 1 all the same.
    """

    log_in = "log in with: opencode auth login, or set a valid key for opencode's provider"

    _ending = ""
    _refused = False

    def event(self, kind: str, event: dict[str, Any]) -> None:
        self.named(event.get("sessionID"))
        part = table(event.get("part"))
        if kind == "step_start":
            self._ending, self._refused = "", False
        elif kind == "step_finish":
            self._ending = text(part.get("reason"))
            self.usage = added(self.usage, _usage(table(part.get("tokens"))))
            self.cost_usd = (self.cost_usd or 0) + (dollars(part.get("cost")) or 0)
        elif kind == "text" and part.get("synthetic") is not True:  # else opencode says it to the model by itself
            self.final_text = text(part.get("text"))
            self.said(self.final_text)
        elif kind == "tool_use":
            self._tool_use(part)
        elif kind == "error":
            self.fault = self._fault(table(event.get("error")))

    def finish(self) -> None:
        self.cost_usd = self.cost_usd or None  # it says 0 of a model whose price it does not know
        if self._ending == "length":
            self.fault = self.fault or fault("cut-off", "the model's answer was cut at its longest")
        elif self._ending and self._ending != "stop" and self._refused:
            self.fault = self.fault or fault("permission", _STOPPED_BY_REFUSAL)
        self.succeeded = False if self.fault else self._ending == "stop" or None

    def _tool_use(self, part: dict[str, Any]) -> None:
        """Told once, when the tool has ended."""
        state, name = table(part.get("state")), text(part.get("tool"))
        given, error = table(state.get("input")), text(state.get("error"))
        invalid = name == _INVALID
        self.tool_started("", text(given.get("tool")) or name if invalid else name, given)
        code = table(state.get("metadata")).get("exit")
        failed = invalid or state.get("status") == "error" or (isinstance(code, int) and code != 0)
        self._refused = self._refused or error.startswith(_REFUSED[0])
        output = text(state.get("output")) or error
        self.tool_ended("", success=not failed, output=output, denied=error.startswith(_REFUSED))

    def _fault(self, error: dict[str, Any]) -> AgentFault:
        now, data, name = self.now(), table(error.get("data")), text(error.get("name"))
        message = text(data.get("message")) or name or "opencode reported an error and did not say which"
        status = data.get("statusCode")
        told = api_error(message, now, status=status)
        body = api_error(text(data.get("responseBody")), now, status=status)
        kind = _BY_NAME.get(name) or (body.kind if body.kind != "unknown" else told.kind)
        resets_at = body.resets_at or told.resets_at
        after = text(table(data.get("responseHeaders")).get("retry-after"))
        if not resets_at and kind in ("rate-limit", "usage-limit", "overloaded") and after.isdecimal():
            resets_at = iso_after(float(after[:20]), now)
        return self.advised(replace(told, kind=kind, message=message, resets_at=resets_at))


class OpenCode(CliAgent):
    """`settings.endpoint` is the address of a running `opencode serve`; its rules then hold, whatever `permissions`
    say.
    """

    program = "opencode"
    install = "npm install -g opencode-ai"
    reader = OpenCodeReader
    options = ("run", "--format", "json")
    modes = {"full": ("--auto",)}
    instead_of_mode = ("--auto", "--no-auto")

    def further(self, invocation: Invocation) -> tuple[str, ...]:
        endpoint = self.settings.endpoint
        return ("--attach", endpoint, "--dir", str(invocation.outside)) if endpoint else ()

    def surroundings(self) -> Mapping[str, str]:
        rules = _RULES.get(self.settings.permissions)
        return {"OPENCODE_PERMISSION": json.dumps(rules)} if rules else {}


def _usage(tokens: dict[str, Any]) -> Usage:
    """What the model thought is counted beside its output."""
    cache = table(tokens.get("cache"))
    return Usage(
        input_tokens=count(tokens.get("input")),
        output_tokens=count(tokens.get("output")) + count(tokens.get("reasoning")),
        cache_read_tokens=count(cache.get("read")),
        cache_write_tokens=count(cache.get("write")),
    )
