"""opencode (`opencode run`), driven through its stream of JSON events."""

import json
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from rulebook_ralph.agents.agent import Invocation, Report
from rulebook_ralph.agents.api_errors import ApiError, api_error
from rulebook_ralph.agents.cli import CliAgent
from rulebook_ralph.agents.events import EventReader, added, count, dollars, fault, table, text
from rulebook_ralph.agents.limit_times import Now, iso_after
from rulebook_ralph.tasks.results import AgentFault, ErrorKind, Usage

_HELD = {"bash": "deny", "webfetch": "deny", "websearch": "deny", "external_directory": "deny"}
_RULES: dict[str, dict[str, str]] = {"edit": {**_HELD, "edit": "allow"}, "ask": {**_HELD, "edit": "deny"}}
"""Denied, not asked for: opencode ends the run at the first tool that it would have to ask for."""

_LOG_IN = "set a valid key for opencode's provider, or run: opencode auth login"
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
_CUT = "the model's answer was cut at its longest"
_INVALID = "invalid"


class OpenCodeReader(EventReader):
    """Keeps the last results of tools, the last text, the sums over the steps, and how the last step ended.

    An error is never made good by what follows: opencode goes on after some, and ends with exit code 1 all the same.
    """

    def __init__(self, report: Report, now: Now) -> None:
        super().__init__(report, now)
        self._calls = 0
        self._ending = ""
        self._refused = False
        self._spent = 0.0

    def event(self, kind: str, event: dict[str, Any]) -> None:
        self.named(event.get("sessionID"))
        part = table(event.get("part"))
        if kind == "step_start":
            self._ending, self._refused = "", False
        elif kind == "step_finish":
            self._ending = text(part.get("reason"))
            self.usage = added(self.usage, _usage(table(part.get("tokens"))))
            self._spent += dollars(part.get("cost")) or 0.0
        elif kind == "text" and part.get("synthetic") is not True:  # else opencode says it to the model by itself
            self.final_text = text(part.get("text"))
            self.said(self.final_text)
        elif kind == "tool_use":
            self._tool_use(part)
        elif kind == "error":
            self.fault = _fault(table(event.get("error")), self.now())

    def finish(self) -> None:
        self.cost = self._spent or None  # it says 0 of a model whose price it does not know
        if self.fault:
            self.succeeded = False
        elif self._ending == "stop":
            self.succeeded = True
        elif self._ending == "length":
            self.succeeded, self.fault = False, fault("cut-off", _CUT)
        elif self._ending and self._refused:
            self.succeeded, self.fault = False, fault("permission", _STOPPED_BY_REFUSAL)

    def _tool_use(self, part: dict[str, Any]) -> None:
        """Told once, when the tool has ended."""
        state, name = table(part.get("state")), text(part.get("tool"))
        given, error = table(state.get("input")), text(state.get("error"))
        invalid = name == _INVALID
        self._calls += 1
        call = str(self._calls)
        self.tools.started(call, text(given.get("tool")) or name if invalid else name, given)
        code = table(state.get("metadata")).get("exit")
        failed = invalid or state.get("status") == "error" or (isinstance(code, int) and code != 0)
        self._refused = self._refused or error.startswith(_REFUSED[0])
        output = text(state.get("output")) or error
        self.tools.ended(call, success=not failed, output=output, denied=error.startswith(_REFUSED))


class OpenCode(CliAgent):
    """`settings.endpoint` is the address of a running `opencode serve`; its rules then hold, whatever `permissions`
    say. What `settings.args` say of the model or the format is left out before.
    """

    program = "opencode"
    install = "npm install -g opencode-ai"
    reader = OpenCodeReader

    def argv(self, invocation: Invocation) -> tuple[str, ...]:
        endpoint = self.settings.endpoint
        return (
            *(*self.words, "run"),
            *self.unless_given(("--format", "json"), "--format"),
            *(self.unless_given(("--auto",), "--auto", "--no-auto") if self.settings.permissions == "full" else ()),
            *self.model(),
            *(("--attach", endpoint, "--dir", str(invocation.outside)) if endpoint else ()),
            *self.settings.args,
        )

    def surroundings(self) -> Mapping[str, str]:
        rules = _RULES.get(self.settings.permissions)
        return {"OPENCODE_PERMISSION": json.dumps(rules)} if rules else {}


def _fault(error: dict[str, Any], now: datetime) -> AgentFault:
    data, name = table(error.get("data")), text(error.get("name"))
    message = text(data.get("message")) or name or "opencode reported an error and did not say which"
    status = data.get("statusCode")
    told = api_error(message, now, status=status)
    body = api_error(text(data.get("responseBody")), now, status=status)
    kind = _BY_NAME.get(name) or (body.kind if body.kind != "unknown" else told.kind)
    resets_at = body.resets_at or told.resets_at
    if kind in ("rate-limit", "usage-limit", "overloaded"):
        resets_at = resets_at or _retry_after(table(data.get("responseHeaders")), now)
    return ApiError(kind, message, resets_at).fault(log_in=_LOG_IN)


def _retry_after(headers: dict[str, Any], now: datetime) -> str | None:
    """The header `retry-after`: seconds, or a date."""
    said = text(headers.get("retry-after")).strip()[:100]
    if said.isascii() and said.isdigit():
        return iso_after(int(said), now)
    try:
        return iso_after((parsedate_to_datetime(said) - now).total_seconds(), now)
    except (ValueError, TypeError, OverflowError):
        return None


def _usage(tokens: dict[str, Any]) -> Usage:
    """Newer versions count what the model thought beside its output, older ones in it; the total tells."""
    cache = table(tokens.get("cache"))
    given, read, written = count(tokens.get("input")), count(cache.get("read")), count(cache.get("write"))
    output, thought = count(tokens.get("output")), count(tokens.get("reasoning"))
    total = count(tokens.get("total"))
    within = total > 0 and total - given - read - written <= output
    return Usage(
        input_tokens=given,
        output_tokens=output if within else output + thought,
        cache_read_tokens=read,
        cache_write_tokens=written,
    )
