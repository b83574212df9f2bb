"""cursor-agent's `stream-json` events (from its documentation), read line by line into a transcript."""

from typing import Any

from rulebook_ralph.agents.api_errors import api_error
from rulebook_ralph.agents.local_time import Now
from rulebook_ralph.agents.message_stream import MessageStream
from rulebook_ralph.agents.stream import count, first_line, items, table, text
from rulebook_ralph.agents.supervised import Report
from rulebook_ralph.agents.transcript import Transcript
from rulebook_ralph.core.events import AgentActivity
from rulebook_ralph.core.evidence import AgentFault, Usage

LOG_IN = "set a valid CURSOR_API_KEY, or run: cursor-agent login"

_KIND = "ToolCall"
_OUTPUTS = ("stdout", "content", "message", "error", "reason")
_REFUSED = ("rejected", "permissionDenied")


class CursorReader(MessageStream):
    """Keeps the last whole message, the last results of tools and the last terminal event.

    A message that carries a time is a piece of one that comes whole later; `result` joins all messages of the run.
    """

    def __init__(self, report: Report, now: Now) -> None:
        super().__init__(report, now)
        self._final_text = ""

    def close(self) -> Transcript:
        self._lines.close()
        result = self._result
        succeeded = None
        if result is not None:
            succeeded = result.get("subtype") == "success" and result.get("is_error") is False
        return Transcript(
            succeeded=succeeded,
            final_text=self._final_text,
            tool_results=self._tools.results(),
            usage=_usage(table(result.get("usage"))) if result else Usage(),
            session_id=self._session_id,
            fault=self._fault(result) if result is not None and not succeeded else None,
            permission_denials=self._tools.denials(),
        )

    def _fault(self, result: dict[str, Any]) -> AgentFault:
        subtype = first_line(text(result.get("subtype")))
        message = text(result.get("error")) or f"cursor-agent ended with {subtype or 'an error'}"
        return api_error(message, self._now()).fault(log_in=LOG_IN)

    def _assistant(self, event: dict[str, Any]) -> None:
        self._result = None  # a further turn has begun; only its own end counts
        if "timestamp_ms" in event:
            return
        blocks = map(table, items(table(event.get("message")).get("content")))
        said = "".join(text(block.get("text")) for block in blocks if block.get("type") == "text")
        if said.strip():
            self._final_text = said
            self._report(AgentActivity("text", first_line(said)))

    def _user(self, event: dict[str, Any]) -> None:
        """Only repeats the prompt."""

    def _other(self, event: dict[str, Any]) -> None:
        if event.get("type") == "tool_call":
            self._tool_call(event)

    def _tool_call(self, event: dict[str, Any]) -> None:
        call, described = text(event.get("call_id")), table(event.get("tool_call"))
        name = next((key for key in described if key.endswith(_KIND)), "")
        tool = table(described.get(name))
        if event.get("subtype") == "started":
            function = table(described.get("function"))
            named = name.removesuffix(_KIND) or text(function.get("name"))
            self._tools.started(call, named, tool.get("args") or function.get("arguments"))
        elif event.get("subtype") == "completed":
            outcome = table(tool.get("result"))
            success = table(outcome.get("success"))
            failed = bool(outcome) and ("success" not in outcome or count(success.get("exitCode")) > 0)
            told_of = success or next((table(value) for value in outcome.values() if isinstance(value, dict)), {})
            self._tools.ended(
                call,
                success=not failed if outcome else None,
                output=next((said for key in _OUTPUTS if (said := text(told_of.get(key)))), ""),
                denied=any(key in outcome for key in _REFUSED),
            )


def _usage(usage: dict[str, Any]) -> Usage:
    return Usage(
        input_tokens=count(usage.get("inputTokens")),
        output_tokens=count(usage.get("outputTokens")),
        cache_read_tokens=count(usage.get("cacheReadTokens")),
        cache_write_tokens=count(usage.get("cacheWriteTokens")),
    )
