"""Claude Code (`claude -p`), driven through its stream of JSON events."""

import os
from collections.abc import Mapping
from dataclasses import replace as changed
from datetime import datetime
from functools import partial
from typing import Any

from rulebook_ralph.agents.agent import Invocation, Report
from rulebook_ralph.agents.api_errors import api_error, kind_of_status
from rulebook_ralph.agents.cli import CliAgent, GaveUp, run_agent
from rulebook_ralph.agents.events import (
    MessageReader,
    MessageSums,
    added,
    count,
    denials_of,
    dollars,
    fault,
    items,
    table,
    text,
    usage_of,
)
from rulebook_ralph.agents.limit_times import Now, iso_time, local_clock
from rulebook_ralph.report.events import AgentActivity
from rulebook_ralph.tasks.results import AgentFault, AgentResult, ErrorKind, Usage

_PERMISSIONS: dict[str, tuple[str, ...]] = {
    "full": ("--dangerously-skip-permissions",),
    "edit": ("--permission-mode", "acceptEdits"),
}
_BY_SUBTYPE: dict[str, ErrorKind] = {"error_max_turns": "max-turns", "error_max_budget_usd": "max-budget"}
_MODEL_USAGE = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
_LOG_IN = "set a valid ANTHROPIC_API_KEY, or log in: start claude and type /login"
_CANNOT_HEAL = frozenset({"authentication", "billing"})
_HOPELESS_RETRY = 3
"""The first retry mends a token that has just expired; by the third claude has been refused three times in 2 s, and it
goes on for three minutes."""


class ClaudeReader(MessageReader):
    """Keeps the last results of tools, the running sums and the last terminal event.

    With `gives_up` it raises GaveUp where there is no sense in waiting for claude's further retries.
    """

    def __init__(self, report: Report, now: Now, *, gives_up: bool = False) -> None:
        super().__init__(report, now)
        self._gives_up = gives_up
        self._rejected = False
        self._resets_at: str | None = None
        self._retry: AgentFault | None = None
        self._error_code = ""
        self._sums = MessageSums()

    def finish(self) -> None:
        self.usage, self.fault = self._sums.total(), self._retry
        super().finish()

    def ended(self, result: dict[str, Any]) -> None:
        self.final_text = text(result.get("result"))
        self.usage = _usage(result)
        self.cost = dollars(result.get("total_cost_usd"))
        self.denied = denials_of(result)
        why = None if self.succeeded else self._fault(result, self.now())
        # An interrupted claude ends with an error that says nothing; what it was retrying for says more.
        self.fault = self._retry if why and why.kind == "unknown" and self._retry else why

    def message(self, event: dict[str, Any], message: dict[str, Any]) -> None:
        if not event.get("parent_tool_use_id"):
            self._error_code = text(event.get("error"))
        if not event.get("error"):
            self._retry = None
        self._sums.add(message)
        super().message(event, message)

    def other(self, kind: str, event: dict[str, Any]) -> None:
        if kind == "rate_limit_event":
            info = table(event.get("rate_limit_info"))
            self._rejected = info.get("status") == "rejected" and info.get("isUsingOverage") is not True
            self._resets_at = iso_time(info.get("resetsAt")) if self._rejected else None
        elif kind == "system" and event.get("subtype") == "api_retry":
            self._retries(event)

    def _retries(self, event: dict[str, Any]) -> None:
        code, status = text(event.get("error")), event.get("error_status")
        kind = kind_of_status(status) or api_error("", self.now(), codes=(code,)).kind
        answer = f"HTTP {status}" if isinstance(status, int) else "no answer"
        told = f"claude was still retrying: {answer}" + (f" ({code})" if code and code != "unknown" else "")
        advice = f"; {_LOG_IN}" if kind == "authentication" else ""
        self._retry = fault("network" if kind == "unknown" else kind, told + advice)
        attempt, most = count(event.get("attempt")), count(event.get("max_retries"))
        self.report(AgentActivity("retry", f"retry {attempt} of {most}", told))
        if self._gives_up and kind in _CANNOT_HEAL and attempt >= _HOPELESS_RETRY:
            raise GaveUp(self._retry)

    def _fault(self, result: dict[str, Any], now: datetime) -> AgentFault:
        """Why a terminal event is an error: by its structured fields, then by the error's own text."""
        message = text(result.get("result")) or "; ".join(filter(None, map(text, items(result.get("errors")))))
        told = message or f"claude ended with {text(result.get('subtype')) or 'an error'}"
        by_subtype = _BY_SUBTYPE.get(text(result.get("subtype")))
        if by_subtype:
            return fault(by_subtype, told)
        codes = (text(result.get("api_error")), self._error_code, text(result.get("api_error_type")))
        error = api_error(message, now, status=result.get("api_error_status"), codes=codes)
        if self._rejected and error.kind in ("rate-limit", "usage-limit"):
            error = changed(error, kind="usage-limit", resets_at=self._resets_at or error.resets_at)
        return changed(error, message=told).fault(log_in=_LOG_IN)


class Claude(CliAgent):
    """Its budget is what the invocation may cost."""

    program = "claude"
    install = "npm install -g @anthropic-ai/claude-code"
    version_suffix = " (Claude Code)"
    reader = ClaudeReader

    def run(self, invocation: Invocation) -> AgentResult:
        reader = partial(ClaudeReader, now=local_clock(invocation.environment), gives_up=True)
        return run_agent(self.name, self.command(invocation), invocation, reader)

    def argv(self, invocation: Invocation) -> tuple[str, ...]:
        budget = invocation.limits.cost_usd
        return (
            *self.words,
            *("-p", "--output-format", "stream-json", "--verbose"),
            *_PERMISSIONS.get(self.settings.permissions, ()),
            *(() if budget is None else ("--max-budget-usd", f"{max(budget, 0.01):.2f}")),
            *(("--model", self.settings.model) if self.settings.model else ()),
            *self.settings.args,
        )

    def surroundings(self) -> Mapping[str, str]:
        """It puts the branch, status and last commits before the prompt unless told not to, and then no prefix cache
        hits. As root it refuses to skip permissions unless it is told that it is in a sandbox.
        """
        sandbox = {"IS_SANDBOX": "1"} if self.settings.permissions == "full" and os.geteuid() == 0 else {}
        return {"CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS": "1", **sandbox}


def _usage(result: dict[str, Any]) -> Usage:
    """`modelUsage` counts every model and also runs that a budget stopped, where `usage` can be zero."""
    models = table(result.get("modelUsage")).values()
    return added(*(usage_of(one, _MODEL_USAGE) for one in models)) if models else usage_of(result.get("usage"))
