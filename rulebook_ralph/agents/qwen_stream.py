"""qwen's `stream-json` events (agents.md), read line by line into a transcript.

They look like claude's, but errors are told in the text of a successful end, and input includes what was cached.
"""

import re
from dataclasses import replace
from typing import Any

from rulebook_ralph.agents.api_errors import api_error
from rulebook_ralph.agents.local_time import Now
from rulebook_ralph.agents.message_stream import MessageStream
from rulebook_ralph.agents.stream import count, first_line, items, table, text
from rulebook_ralph.agents.supervised import Report
from rulebook_ralph.agents.tool_log import detail_of
from rulebook_ralph.agents.transcript import Transcript, fault
from rulebook_ralph.agents.usage_sum import added
from rulebook_ralph.core.evidence import AgentFault, Usage
from rulebook_ralph.supervisor import Ended

_LOG_IN = "set a valid key for qwen's provider (OPENAI_API_KEY), or log in: start qwen and type /auth"
_MAX_DENIALS = 50
_MAX_TURNS = 53
_ERROR_TEXT = re.compile(
    r"\[API Error: ((?:(?!\[API Error: ).)*)\](?:\n(?:Possible quota|Please wait)[^\n]*)?\s*\Z", re.DOTALL
)
_OWN_LIMITS = ("Qwen OAuth quota exceeded:", "Qwen OAuth free tier has been discontinued")
_TAIL = 10_000


class QwenReader(MessageStream):
    """Keeps the last results of tools, the running sum of tokens, and the last terminal event."""

    def __init__(self, report: Report, now: Now) -> None:
        super().__init__(report, now)
        self._usage = Usage()

    def close(self) -> Transcript:
        self._lines.close()
        result = self._result
        if result is None:
            return Transcript(
                tool_results=self._tools.results(),
                usage=self._usage,
                session_id=self._session_id,
                permission_denials=self._tools.denials(),
            )
        succeeded = result.get("subtype") == "success" and result.get("is_error") is False
        why = self._fault(result, succeeded=succeeded)
        return Transcript(
            succeeded=why is None,
            final_text=text(result.get("result")),
            tool_results=self._tools.results(),
            usage=_usage(table(result.get("usage"))),
            session_id=self._session_id,
            fault=why,
            permission_denials=tuple(dict.fromkeys((*self._tools.denials(), *_denials(result)))),
        )

    def _fault(self, result: dict[str, Any], *, succeeded: bool) -> AgentFault | None:
        said = text(result.get("result"))
        found = _ERROR_TEXT.search(said[-_TAIL:])
        if found:
            return api_error(found[1], self._now()).fault(log_in=_LOG_IN)
        if said.startswith(_OWN_LIMITS[0]):
            return fault("usage-limit", first_line(said))
        if said.startswith(_OWN_LIMITS[1]):
            return fault("authentication", f"{first_line(said)}; {_LOG_IN}")
        if succeeded:
            return None
        if text(result.get("subtype")) == "error_max_turns":
            return fault("max-turns", "qwen reached its limit of turns")
        why = text(table(result.get("error")).get("message")) or said
        return api_error(why or "qwen reported an error and did not say which", self._now()).fault(log_in=_LOG_IN)

    def _spent(self, message: dict[str, Any]) -> None:
        self._usage = added(self._usage, _usage(table(message.get("usage"))))


def with_ending(transcript: Transcript, ended: Ended) -> Transcript:
    """At its limit of turns qwen ends without a terminal event; the exit code tells."""
    if ended.exit_code != _MAX_TURNS or transcript.succeeded is not None:
        return transcript
    why = first_line(ended.stderr_tail) or "qwen reached its limit of turns (maxSessionTurns in its settings)"
    return replace(transcript, fault=fault("max-turns", why))


def _usage(usage: dict[str, Any]) -> Usage:
    whole, cached = count(usage.get("input_tokens")), count(usage.get("cache_read_input_tokens"))
    return Usage(
        input_tokens=max(0, whole - cached), output_tokens=count(usage.get("output_tokens")), cache_read_tokens=cached
    )


def _denials(result: dict[str, Any]) -> list[str]:
    """The tools that were refused, each with what it was to do."""
    refused = map(table, items(result.get("permission_denials"))[:_MAX_DENIALS])
    return [
        f"{first_line(text(one.get('tool_name'))) or 'tool'} {first_line(detail_of(one.get('tool_input')))}".strip()
        for one in refused
    ]
