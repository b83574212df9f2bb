"""copilot's `--output-format json` events (from its documentation), read line by line into a transcript."""

from typing import Any

from rulebook_ralph.agents.api_errors import api_error
from rulebook_ralph.agents.local_time import Now
from rulebook_ralph.agents.stream import count, decode_event, first_line, table, text
from rulebook_ralph.agents.supervised import Report
from rulebook_ralph.agents.tool_log import ToolLog
from rulebook_ralph.agents.transcript import Transcript
from rulebook_ralph.core.events import AgentActivity
from rulebook_ralph.core.evidence import AgentFault, Usage
from rulebook_ralph.core.streams import LineSplitter

LOG_IN = "set a valid COPILOT_GITHUB_TOKEN, or log in: start copilot and type /login"

_CODES = {
    "authentication": "authentication_error",
    "authorization": "authentication_error",
    "quota": "usage_limit_reached",
    "rate_limit": "rate_limit_error",
    "context_limit": "context_length_exceeded",
}
"""Its types of errors as the codes that api_errors.py knows."""

_DENIED = ("denied", "rejected", "permission")
_MAX_ID = 100


class CopilotReader:
    """Keeps the last message that says something, the last results of tools and the last terminal event.

    copilot counts its requests, not its cost; of the tokens only those it wrote are told.
    """

    def __init__(self, report: Report, now: Now) -> None:
        self._report = report
        self._now = now
        self._lines = LineSplitter(self._line)
        self._tools = ToolLog(report)
        self._result: dict[str, Any] | None = None
        self._error: AgentFault | None = None
        self._final_text = ""
        self._session_id = ""
        self._output_tokens = 0

    def feed(self, block: bytes) -> None:
        self._lines.feed(block)

    def close(self) -> Transcript:
        self._lines.close()
        exit_code = table(self._result).get("exitCode")
        fine = exit_code == 0 and not isinstance(exit_code, bool)
        return Transcript(
            succeeded=False if self._error else fine or None,  # of another end, its own exit code and stderr say more
            final_text=self._final_text,
            tool_results=self._tools.results(),
            usage=Usage(output_tokens=self._output_tokens),
            session_id=self._session_id,
            fault=self._error,
            permission_denials=self._tools.denials(),
        )

    def _line(self, line: bytes) -> None:
        event = decode_event(line)
        if event is None:
            return
        kind, data = event.get("type"), table(event.get("data"))
        session_id = text(event.get("sessionId")) or text(data.get("sessionId"))
        self._session_id = session_id[:_MAX_ID] or self._session_id
        call = text(data.get("toolCallId"))
        if kind == "assistant.message":
            self._message(data)
        elif kind == "tool.execution_start":
            self._tools.started(call, text(data.get("toolName")), data.get("arguments"))
        elif kind == "tool.execution_complete":
            self._tool_ended(call, data)
        elif kind == "session.error":
            self._error = self._fault(data)
        elif kind == "result":
            self._result = event

    def _message(self, data: dict[str, Any]) -> None:
        self._output_tokens += count(data.get("outputTokens"))
        said = text(data.get("content"))
        if data.get("parentToolCallId"):  # a helper agent's
            return
        self._result = self._error = None  # it goes on after all; only its own end counts
        if said.strip():
            self._final_text = said
            self._report(AgentActivity("text", first_line(said)))

    def _tool_ended(self, call: str, data: dict[str, Any]) -> None:
        error = table(data.get("error"))
        output = text(table(data.get("result")).get("content")) or text(error.get("message")) or text(data.get("error"))
        success = data.get("success")
        denied = success is False and (
            text(error.get("code")).lower() in _DENIED or output.startswith("Permission denied and could not")
        )
        outcome = success if isinstance(success, bool) else None
        self._tools.ended(call, success=outcome, output=output, denied=denied)

    def _fault(self, data: dict[str, Any]) -> AgentFault:
        error_type = text(data.get("errorType"))
        message = text(data.get("message")) or f"copilot ended with an error {first_line(error_type)}".rstrip()
        error = api_error(message, self._now(), status=data.get("statusCode"), code=_CODES.get(error_type, ""))
        return error.fault(log_in=LOG_IN)
