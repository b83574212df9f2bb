"""opencode's `--format json` events (agents.md), read line by line into a transcript."""

from collections.abc import Callable
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any

from rulebook_ralph.agents.api_errors import ApiError, api_error
from rulebook_ralph.agents.limit_times import iso_after
from rulebook_ralph.agents.local_time import Now
from rulebook_ralph.agents.stream import count, decode_event, dollars, first_line, table, text
from rulebook_ralph.agents.supervised import Report
from rulebook_ralph.agents.tool_log import ToolLog
from rulebook_ralph.agents.transcript import Transcript, fault
from rulebook_ralph.agents.usage_sum import added
from rulebook_ralph.core.events import AgentActivity
from rulebook_ralph.core.evidence import AgentFault, ErrorKind, Usage
from rulebook_ralph.core.streams import LineSplitter

_LOG_IN = "set a valid key for opencode's provider, or run: opencode auth login"
_MAX_ID = 100
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


class OpenCodeReader:
    """Keeps the last results of tools, the last text, the sums over the steps, and how the last step ended.

    An error is never made good by what follows: opencode goes on after some, and ends with exit code 1 all the same.
    """

    def __init__(self, report: Report, now: Now) -> None:
        self._report = report
        self._now = now
        self._lines = LineSplitter(self._line)
        self._tools = ToolLog(report)
        self._calls = 0
        self._ending = ""
        self._refused = False
        self._final_text = ""
        self._usage = Usage()
        self._cost = 0.0
        self._session_id = ""
        self._error: Callable[[], AgentFault] | None = None  # made of its words only when it is known to be the last

    def feed(self, block: bytes) -> None:
        self._lines.feed(block)

    def close(self) -> Transcript:
        self._lines.close()
        succeeded, why = self._outcome()
        return Transcript(
            succeeded=succeeded,
            final_text=self._final_text,
            tool_results=self._tools.results(),
            usage=self._usage,
            cost_usd=self._cost or None,  # it says 0 of a model whose price it does not know
            session_id=self._session_id,
            fault=why,
            permission_denials=self._tools.denials(),
        )

    def _outcome(self) -> tuple[bool | None, AgentFault | None]:
        if self._error:
            return False, self._error()
        if self._ending == "stop":
            return True, None
        if self._ending == "length":
            return False, fault("cut-off", _CUT)
        if self._ending and self._refused:
            return False, fault("permission", _STOPPED_BY_REFUSAL)
        return None, None

    def _line(self, line: bytes) -> None:
        event = decode_event(line)
        if event is None:
            return
        self._session_id = text(event.get("sessionID"))[:_MAX_ID] or self._session_id
        kind, part = event.get("type"), table(event.get("part"))
        if kind == "step_start":
            self._ending, self._refused = "", False
        elif kind == "step_finish":
            self._step_finish(part)
        elif kind == "text":
            self._text(part)
        elif kind == "tool_use":
            self._tool_use(part)
        elif kind == "error":
            self._error = partial(_fault, table(event.get("error")), self._now())

    def _step_finish(self, part: dict[str, Any]) -> None:
        self._ending = text(part.get("reason"))
        self._usage = added(self._usage, _usage(table(part.get("tokens"))))
        self._cost += dollars(part.get("cost")) or 0.0

    def _text(self, part: dict[str, Any]) -> None:
        if part.get("synthetic") is True:
            return  # what opencode says to the model by itself
        self._final_text = text(part.get("text"))
        if said := first_line(self._final_text):
            self._report(AgentActivity("text", said))

    def _tool_use(self, part: dict[str, Any]) -> None:
        """Told once, when the tool has ended."""
        state, name = table(part.get("state")), text(part.get("tool"))
        given, error = table(state.get("input")), text(state.get("error"))
        invalid = name == _INVALID
        self._calls += 1
        call = str(self._calls)
        self._tools.started(call, text(given.get("tool")) or name if invalid else name, given)
        code = table(state.get("metadata")).get("exit")
        failed = invalid or state.get("status") == "error" or (isinstance(code, int) and code != 0)
        denied = error.startswith(_REFUSED)
        self._refused = self._refused or error.startswith(_REFUSED[0])
        self._tools.ended(call, success=not failed, output=text(state.get("output")) or error, denied=denied)


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
