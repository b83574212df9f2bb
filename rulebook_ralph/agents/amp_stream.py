"""amp's `--stream-json` events (from its documentation), read line by line into a transcript."""

from typing import Any

from rulebook_ralph.agents.api_errors import api_error
from rulebook_ralph.agents.local_time import Now
from rulebook_ralph.agents.stream import count, decode_event, first_line, items, table, text
from rulebook_ralph.agents.supervised import Report
from rulebook_ralph.agents.tool_log import ToolLog, detail_of
from rulebook_ralph.agents.transcript import Transcript, fault
from rulebook_ralph.agents.usage_sum import added
from rulebook_ralph.core.events import AgentActivity
from rulebook_ralph.core.evidence import AgentFault, ErrorKind, Usage
from rulebook_ralph.core.streams import LineSplitter

LOG_IN = "set a valid AMP_API_KEY, or run: amp login"

_BY_SUBTYPE: dict[str, ErrorKind] = {"error_max_turns": "max-turns"}
_MAX_ID = 100


class AmpReader:
    """Keeps the last results of tools, the sum of the tokens and the last terminal event.

    A message may come without an id, and then counts by itself; one that comes again with its id counts once.
    """

    def __init__(self, report: Report, now: Now) -> None:
        self._report = report
        self._now = now
        self._lines = LineSplitter(self._line)
        self._tools = ToolLog(report)
        self._result: dict[str, Any] | None = None
        self._session_id = ""
        self._usage = Usage()
        self._last_message = ("", Usage())

    def feed(self, block: bytes) -> None:
        self._lines.feed(block)

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

    def _line(self, line: bytes) -> None:
        event = decode_event(line)
        if event is None:
            return
        self._session_id = text(event.get("session_id"))[:_MAX_ID] or self._session_id
        kind = event.get("type")
        if kind == "assistant":
            self._assistant(event)
        elif kind == "user":
            self._user(event)
        elif kind == "result":
            self._result = event

    def _assistant(self, event: dict[str, Any]) -> None:
        if not event.get("parent_tool_use_id"):
            self._result = None  # a further turn has begun; only its own end counts
        message = table(event.get("message"))
        self._count(text(message.get("id")), _usage(table(message.get("usage"))))
        for block in map(table, items(message.get("content"))):
            if block.get("type") == "tool_use":
                self._tools.started(text(block.get("id")), text(block.get("name")), block.get("input"))
            elif block.get("type") == "text" and (said := first_line(text(block.get("text")))):
                self._report(AgentActivity("text", said))

    def _user(self, event: dict[str, Any]) -> None:
        for block in map(table, items(table(event.get("message")).get("content"))):
            if block.get("type") == "tool_result":
                success = block.get("is_error") is not True
                self._tools.ended(text(block.get("tool_use_id")), success=success, output=_plain(block.get("content")))

    def _count(self, message_id: str, usage: Usage) -> None:
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


def _plain(content: object) -> str:
    """A tool's result as text: a string, or a list of blocks of which only text counts."""
    if isinstance(content, str):
        return content
    return "\n".join(filter(None, (text(table(block).get("text")) for block in items(content))))
