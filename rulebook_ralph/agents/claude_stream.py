"""claude's `stream-json` events (agents.md), read line by line into a transcript."""

from collections.abc import Callable
from typing import Any

from rulebook_ralph.agents.claude_faults import RejectedLimit, rejected_limit, result_fault, retry_fault
from rulebook_ralph.agents.local_time import Now
from rulebook_ralph.agents.message_stream import MessageStream
from rulebook_ralph.agents.stream import count, dollars, first_line, items, table, text
from rulebook_ralph.agents.supervised import Report
from rulebook_ralph.agents.tool_log import detail_of
from rulebook_ralph.agents.transcript import Transcript
from rulebook_ralph.agents.usage_sum import added
from rulebook_ralph.core.events import AgentActivity
from rulebook_ralph.core.evidence import AgentFault, Usage
from rulebook_ralph.core.faults import CANNOT_HEAL

_MAX_DENIALS = 50
_HOPELESS_RETRY = 3
"""The first retry mends a token that has just expired; by the third claude has been refused three times in 2 s."""


class ClaudeReader(MessageStream):
    """Keeps what the end of the run needs and no more: the last results of tools, the running sums, the last event.

    `give_up` is told why there is no sense in waiting for claude's further retries.
    """

    def __init__(self, report: Report, now: Now, *, give_up: Callable[[AgentFault], None] | None = None) -> None:
        super().__init__(report, now)
        self._give_up = give_up
        self._limit: RejectedLimit | None = None
        self._retry: AgentFault | None = None
        self._error_code = ""
        self._usage = _RunningUsage()

    def close(self) -> Transcript:
        self._lines.close()
        results = self._tools.results()
        result = self._result
        if result is None:
            return Transcript(
                tool_results=results, usage=self._usage.total(), session_id=self._session_id, fault=self._retry
            )
        succeeded = result.get("subtype") == "success" and result.get("is_error") is False
        return Transcript(
            succeeded=succeeded,
            final_text=text(result.get("result")),
            tool_results=results,
            usage=_reported_usage(result),
            cost_usd=dollars(result.get("total_cost_usd")),
            session_id=self._session_id,
            fault=None if succeeded else self._fault(result),
            permission_denials=_denials(result),
        )

    def _fault(self, result: dict[str, Any]) -> AgentFault:
        """An interrupted claude ends with an error that says nothing; what it was retrying for says more."""
        why = result_fault(result, code=self._error_code, limit=self._limit, now=self._now())
        return self._retry if self._retry and why.kind == "unknown" else why

    def _other(self, event: dict[str, Any]) -> None:
        kind = event.get("type")
        if kind == "rate_limit_event":
            self._limit = rejected_limit(event)
        elif kind == "system" and event.get("subtype") == "api_retry":
            self._retries(retry_fault(event), count(event.get("attempt")), count(event.get("max_retries")))

    def _retries(self, why: AgentFault, attempt: int, most: int) -> None:
        self._retry = why
        self._report(AgentActivity("retry", f"retry {attempt} of {most}", why.message.partition("; ")[0]))
        if self._give_up and why.kind in CANNOT_HEAL and attempt >= _HOPELESS_RETRY:
            self._give_up(why)

    def _assistant(self, event: dict[str, Any]) -> None:
        if not event.get("parent_tool_use_id"):
            self._error_code = text(event.get("error"))
        if not event.get("error"):
            self._retry = None
        super()._assistant(event)

    def _spent(self, message: dict[str, Any]) -> None:
        self._usage.add(message)


class _RunningUsage:
    """Tokens summed over the messages so far, for a run that does not get to report its own sum.

    A message comes in several events, each with its usage up to there.
    """

    def __init__(self) -> None:
        self._total = Usage()
        self._last = Usage()
        self._last_id = ""

    def add(self, message: dict[str, Any]) -> None:
        message_id = text(message.get("id"))
        if message_id != self._last_id:
            self._total = self.total()
            self._last_id = message_id
        self._last = _usage(table(message.get("usage")))

    def total(self) -> Usage:
        return added(self._total, self._last)


def _reported_usage(result: dict[str, Any]) -> Usage:
    """`modelUsage` counts every model and also runs that a budget stopped, where `usage` can be zero (agents.md)."""
    models = [table(one) for one in table(result.get("modelUsage")).values()]
    if not models:
        return _usage(table(result.get("usage")))
    return added(
        *(
            Usage(
                input_tokens=count(one.get("inputTokens")),
                output_tokens=count(one.get("outputTokens")),
                cache_read_tokens=count(one.get("cacheReadInputTokens")),
                cache_write_tokens=count(one.get("cacheCreationInputTokens")),
            )
            for one in models
        )
    )


def _usage(usage: dict[str, Any]) -> Usage:
    return Usage(
        input_tokens=count(usage.get("input_tokens")),
        output_tokens=count(usage.get("output_tokens")),
        cache_read_tokens=count(usage.get("cache_read_input_tokens")),
        cache_write_tokens=count(usage.get("cache_creation_input_tokens")),
    )


def _denials(result: dict[str, Any]) -> tuple[str, ...]:
    """The tools that were refused, each with what it was to do, without repeats."""
    named = (
        f"{text(one.get('tool_name')) or 'tool'} {first_line(detail_of(one.get('tool_input')))}".strip()
        for one in map(table, items(result.get("permission_denials")))
    )
    return tuple(dict.fromkeys(named))[:_MAX_DENIALS]
