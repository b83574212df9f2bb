"""What the `stream-json` of claude, amp, qwen and cursor-agent have in common: messages, tool results, one `result`."""

from typing import Any

from rulebook_ralph.agents.local_time import Now
from rulebook_ralph.agents.stream import decode_event, first_line, items, table, text
from rulebook_ralph.agents.supervised import Report
from rulebook_ralph.agents.tool_log import ToolLog
from rulebook_ralph.core.events import AgentActivity
from rulebook_ralph.core.streams import LineSplitter

_MAX_ID = 100


class MessageStream:
    """Keeps the last results of tools and the last terminal event; what else an event says, the reader of each agent
    takes from it.
    """

    def __init__(self, report: Report, now: Now) -> None:
        self._report = report
        self._now = now
        self._lines = LineSplitter(self._line)
        self._tools = ToolLog(report)
        self._result: dict[str, Any] | None = None
        self._session_id = ""

    def feed(self, block: bytes) -> None:
        self._lines.feed(block)

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
        else:
            self._other(event)

    def _assistant(self, event: dict[str, Any]) -> None:
        message = table(event.get("message"))
        if not event.get("parent_tool_use_id"):
            self._result = None  # a further turn has begun; only its own end counts
        self._spent(message)
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

    def _spent(self, message: dict[str, Any]) -> None:
        """What a message took."""

    def _other(self, event: dict[str, Any]) -> None:
        """An event of an agent's own kind."""


def _plain(content: object) -> str:
    """A tool's result as text: a string, or a list of blocks of which only text counts."""
    if isinstance(content, str):
        return content
    return "\n".join(filter(None, (text(table(block).get("text")) for block in items(content))))
