"""amp's `--stream-json` events (from its documentation), read line by line into a transcript."""

from typing import Any

from rulebook_ralph.agents.api_errors import api_error
from rulebook_ralph.agents.local_time import Now
from rulebook_ralph.agents.message_stream import MessageStream
from rulebook_ralph.agents.stream import count, first_line, items, table, text
from rulebook_ralph.agents.supervised import Report
from rulebook_ralph.agents.tool_log import detail_of
from rulebook_ralph.agents.transcript import Transcript, fault
from rulebook_ralph.agents.usage_sum import added
from rulebook_ralph.core.evidence import AgentFault, ErrorKind, Usage

LOG_IN = "set a valid AMP_API_KEY, or run: amp login"

_BY_SUBTYPE: dict[str, ErrorKind] = {"error_max_turns": "max-turns"}


class AmpReader(MessageStream):
    """Keeps the last results of tools, the sum of the tokens and the last terminal event.

    A message may come without an id, and then counts by itself; one that comes again with its id counts once.
    """

    def __init__(self, report: Report, now: Now) -> None:
        super().__init__(report, now)
        self._usage = Usage()
        self._last_message = ("", Usage())

    def close(self) -> Transcript:
        self._lines.close()
        result = self._result
        if result is None:
            return Transcript(tool_results=self._tools.results(), usage=self._total(), session_id=self._session_id)
        succeeded = result.get("subtype") == "success" and result.get("is_error") is False
        denials = (*self._tools.denials(), *_denials(result))
        return Transcript(
            succeeded=succeeded,
            final_text=text(result.get("result")),
            tool_results=self._tools.results(),
            usage=self._total(),
            session_id=self._session_id,
            fault=None if succeeded else self._fault(result),
            permission_denials=tuple(dict.fromkeys(denials)),
        )

    def _fault(self, result: dict[str, Any]) -> AgentFault:
        subtype = text(result.get("subtype"))
        message = text(result.get("error")) or f"amp ended with {first_line(subtype) or 'an error'}"
        kind = _BY_SUBTYPE.get(subtype)
        return fault(kind, message) if kind else api_error(message, self._now()).fault(log_in=LOG_IN)

    def _spent(self, message: dict[str, Any]) -> None:
        message_id, usage = text(message.get("id")), _usage(table(message.get("usage")))
        if not message_id or message_id != self._last_message[0]:
            self._usage = self._total()
        self._last_message = (message_id, usage)

    def _total(self) -> Usage:
        return added(self._usage, self._last_message[1])


def _usage(usage: dict[str, Any]) -> Usage:
    return Usage(
        input_tokens=count(usage.get("input_tokens")),
        output_tokens=count(usage.get("output_tokens")),
        cache_read_tokens=count(usage.get("cache_read_input_tokens")),
        cache_write_tokens=count(usage.get("cache_creation_input_tokens")),
    )


def _denials(result: dict[str, Any]) -> list[str]:
    """The tools that were refused: names, or objects as claude tells of them."""
    named = []
    for denial in items(result.get("permission_denials"))[:50]:
        one = table(denial)
        name = text(denial) or f"{text(one.get('tool_name')) or 'tool'} {detail_of(one.get('tool_input'))}"
        named.append(first_line(name))
    return [name for name in named if name]
