"""gemini's `stream-json` events (agents.md), read line by line into a transcript."""

from typing import Any

from rulebook_ralph.agents.api_errors import api_error
from rulebook_ralph.agents.gemini_ending import LOG_IN
from rulebook_ralph.agents.local_time import Now
from rulebook_ralph.agents.stream import count, decode_event, first_line, table, text
from rulebook_ralph.agents.supervised import Report
from rulebook_ralph.agents.tool_log import ToolLog
from rulebook_ralph.agents.transcript import Transcript
from rulebook_ralph.core.events import AgentActivity
from rulebook_ralph.core.evidence import Usage
from rulebook_ralph.core.streams import HeadTail, LineSplitter

_MAX_ID = 100
_HEAD = 64 * 1024
_TAIL = 1024 * 1024
_LONGEST_DOCUMENT = 4 * 1024 * 1024
_DENIED = frozenset({"policy_violation", "execution_denied"})
_ERROR = "[API Error: "


class GeminiReader:
    """Keeps the last results of tools, what was said since the last of them, and the terminal event.

    Given `--output-format json` gemini prints one document over several lines instead; that is read too.
    """

    def __init__(self, report: Report, now: Now) -> None:
        self._report = report
        self._now = now
        self._lines = LineSplitter(self._line)
        self._tools = ToolLog(report)
        self._said = HeadTail(head=_HEAD, tail=_TAIL)
        self._session_id = ""
        self._result: dict[str, Any] | None = None
        self._document = bytearray()

    def feed(self, block: bytes) -> None:
        self._lines.feed(block)

    def close(self) -> Transcript:
        self._lines.close()
        if self._result is None and self._document:
            return self._whole(decode_event(bytes(self._document)) or {})
        result = self._result
        error = None if result is None else _error(result)
        succeeded = None if result is None else error is None and result.get("status") == "success"
        return Transcript(
            succeeded=succeeded,
            final_text=self._said.text(),
            tool_results=self._tools.results(),
            usage=_usage(table(table(result).get("stats"))),
            session_id=self._session_id,
            fault=None if succeeded is not False else api_error(_message(error), self._now()).fault(log_in=LOG_IN),
            permission_denials=self._tools.denials(),
        )

    def _line(self, line: bytes) -> None:
        event = decode_event(line)
        kind = table(event).get("type")
        if event is None or not isinstance(kind, str):
            self._of_document(line)
            return
        self._document.clear()
        if kind == "init":
            self._session_id = text(event.get("session_id"))[:_MAX_ID]
        elif kind == "message" and event.get("role") == "assistant":
            self._message(text(event.get("content")))
        elif kind == "tool_use":
            self._tool_use(event)
        elif kind == "tool_result":
            self._tool_result(event)
        elif kind == "result":
            self._result = event

    def _of_document(self, line: bytes) -> None:
        if (self._document or line.rstrip() == b"{") and len(self._document) <= _LONGEST_DOCUMENT:
            self._document += line + b"\n"

    def _message(self, said: str) -> None:
        self._result = None
        self._said.feed(said.encode("utf-8", "replace"))
        if line := first_line(said):
            self._report(AgentActivity("text", line))

    def _tool_use(self, event: dict[str, Any]) -> None:
        self._result = None
        self._said = HeadTail(head=_HEAD, tail=_TAIL)
        self._tools.started(text(event.get("tool_id")), text(event.get("tool_name")), event.get("parameters"))

    def _tool_result(self, event: dict[str, Any]) -> None:
        error = table(event.get("error"))
        self._tools.ended(
            text(event.get("tool_id")),
            success=event.get("status") == "success",
            output=text(event.get("output")) or text(error.get("message")),
            denied=text(error.get("type")) in _DENIED,
        )

    def _whole(self, document: dict[str, Any]) -> Transcript:
        error = table(document.get("error"))
        message = text(error.get("message"))
        succeeded = isinstance(document.get("response"), str) and "stats" in document and not document.get("error")
        fault = api_error(message, self._now(), status=error.get("code")).fault(log_in=LOG_IN) if message else None
        return Transcript(
            succeeded=True if succeeded else False if fault else None,
            final_text=text(document.get("response")),
            usage=_usage_by_model(table(document.get("stats"))),
            session_id=text(document.get("session_id"))[:_MAX_ID],
            fault=fault,
        )


def _error(result: dict[str, Any]) -> dict[str, Any] | None:
    return table(result.get("error")) if result.get("error") or result.get("status") == "error" else None


def _message(error: dict[str, Any] | None) -> str:
    """The first line of an error without the frame around it; what follows it is advice."""
    said = text(table(error).get("message")).strip() or "gemini reported an error and did not say which"
    if not said.startswith(_ERROR):
        return said
    return said[len(_ERROR) :].split("]\n")[0].removesuffix("]")


def _usage(stats: dict[str, Any]) -> Usage:
    """`input_tokens` includes what was cached, and `total_tokens` what the model thought as well."""
    whole, cached = count(stats.get("input_tokens")), count(stats.get("cached"))
    output = count(stats.get("output_tokens"))
    return Usage(
        input_tokens=max(0, whole - cached),
        output_tokens=max(output, count(stats.get("total_tokens")) - whole),
        cache_read_tokens=cached,
    )


def _usage_by_model(stats: dict[str, Any]) -> Usage:
    models = [table(table(one).get("tokens")) for one in table(stats.get("models")).values()]
    prompt, cached = (sum(count(one.get(key)) for one in models) for key in ("prompt", "cached"))
    output = sum(count(one.get("candidates")) + count(one.get("thoughts")) for one in models)
    return Usage(input_tokens=max(0, prompt - cached), output_tokens=output, cache_read_tokens=cached)
