"""Readers of what agents print. Streams are untrusted, possibly broken, of any shape: no reader
raises for what they say, and none keeps more than the end of a run needs.
"""

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from rulebook_ralph.agents.agent import Report
from rulebook_ralph.agents.events import (
    ANTHROPIC_USAGE,
    MAX_DENIALS,
    MAX_MESSAGE,
    added,
    api_error,
    decode_event,
    denials_of,
    detail_of,
    fault,
    first_line,
    items,
    plain_text,
    table,
    text,
    usage_of,
)
from rulebook_ralph.agents.limit_times import Now
from rulebook_ralph.process.streams import LineSplitter
from rulebook_ralph.process.supervisor import Ended
from rulebook_ralph.report.events import AgentActivity
from rulebook_ralph.tasks.results import AgentFault, ErrorKind, ToolResult, Usage

MAX_TOOL_RESULTS = 200
_MAX_NAME = 200
_MAX_ID = 100
_OUTPUT_HEAD = 1000
_OUTPUT_TAIL = 3000
_COMMAND = 500
_LONGEST_TEXT = 20_000
_BEGINNINGS = ("init", "system")
"""Types of events that tell the model, where any does."""

_BY_SUBTYPE: dict[str, ErrorKind] = {"error_max_turns": "max-turns", "error_max_budget_usd": "max-budget"}


@dataclass
class Reader(ABC):
    """Reads one run's stdout, which it takes in blocks as they come, in constant memory.

    `succeeded` is True for a terminal success event, False for a terminal error (told by `fault`), None if the stream
    ended without either; then `fault` is what the agent was struggling with last, if anything. `model` is the one that
    the agent says it uses. With `hopeless` there is no sense in waiting for it any longer: its `fault` cannot heal.

    `log_in` is what to do for one whom the provider does not know. With `stderr_tells` its errors stand on stderr
    alone.
    """

    log_in: ClassVar[str] = ""
    stderr_tells: ClassVar[bool] = False

    report: Report = field(compare=False)
    now: Now = field(compare=False)
    succeeded: bool | None = None
    final_text: str = ""
    tool_results: tuple[ToolResult, ...] = ()
    usage: Usage = Usage()  # noqa: RUF009 - frozen
    cost_usd: float | None = None
    session_id: str = ""
    model: str = ""
    fault: AgentFault | None = None
    permission_denials: tuple[str, ...] = ()
    hopeless: bool = False

    @abstractmethod
    def feed(self, block: bytes) -> None:
        """The next block of the stream."""

    @abstractmethod
    def close(self) -> Self:
        """The end of the stream."""

    def exited(self, ended: Ended) -> None:
        """The end of the process, where there was one: what the agent tells by its exit code or on stderr alone."""
        code = ended.exit_code or 0
        if self.stderr_tells and self.fault is None and self.succeeded is not False and code > 0:
            error = self.error(ended.stderr_tail.strip()[-MAX_MESSAGE:], prefix=f"exit code {code}: ")
            self.fault = error if error.kind != "unknown" else None

    def error(self, said: str, *, status: object = None, codes: tuple[str, ...] = (), prefix: str = "") -> AgentFault:
        """The fault that those words of the agent's tell, and the fields beside them, with what to do."""
        return self.advised(api_error(said, self.now(), status=status, codes=codes), prefix)

    def advised(self, error: AgentFault, prefix: str = "") -> AgentFault:
        advice = f"; {self.log_in}" if error.kind == "authentication" else ""
        return fault(error.kind, f"{prefix}{error.message}{advice}", resets_at=error.resets_at)

    def said(self, words: str) -> None:
        """Shows what the agent said: its first line, and beside it the whole text where there is more."""
        if line := first_line(words):
            whole = words[:_LONGEST_TEXT].strip()
            self.report(AgentActivity("text", line, "" if whole == line else whole))


def tool_result(name: str, command: str, *, success: bool | None, output: str = "") -> ToolResult:
    """A tool's result with its output cut to head and tail, about 4,000 characters."""
    if len(output) > _OUTPUT_HEAD + _OUTPUT_TAIL:
        left_out = len(output) - _OUTPUT_HEAD - _OUTPUT_TAIL
        output = f"{output[:_OUTPUT_HEAD]}\n… {left_out} characters left out …\n{output[-_OUTPUT_TAIL:]}"
    return ToolResult(name=name[:_MAX_NAME], command=command[:_COMMAND], success=success, output=output)


class EventReader(Reader):
    """Reads JSON lines. A reader of one CLI says in `event` what each event means, and in `finish` what the whole of
    them amounts to. Of tools the last are kept, each start paired with its end by the id of the call.
    """

    def __init__(self, report: Report, now: Now) -> None:
        super().__init__(report, now)
        self._lines = LineSplitter(self._line)
        self._results: deque[ToolResult] = deque(maxlen=MAX_TOOL_RESULTS)
        self._denials: list[str] = []
        self.open_calls: dict[str, tuple[str, str]] = {}

    def feed(self, block: bytes) -> None:
        self._lines.feed(block)

    def close(self) -> Self:
        self._lines.close()
        self.finish()
        unanswered = [tool_result(name, detail, success=None) for name, detail in self.open_calls.values()]
        self.tool_results = (*self._results, *unanswered)[-MAX_TOOL_RESULTS:]
        self.permission_denials = tuple(dict.fromkeys((*self._denials, *self.permission_denials)))
        return self

    def finish(self) -> None:
        """The stream has ended."""

    @abstractmethod
    def event(self, kind: str, event: dict[str, Any]) -> None:
        """One event; `kind` is its type, empty where it has none."""

    def named(self, session: object) -> None:
        """The session's id, wherever an event tells it."""
        self.session_id = text(session)[:_MAX_ID] or self.session_id

    def tool_started(self, call: str, name: str, arguments: object) -> None:
        """A tool was called, which is shown."""
        name, detail = name or "tool", detail_of(arguments)
        if len(self.open_calls) >= MAX_TOOL_RESULTS:
            del self.open_calls[next(iter(self.open_calls))]
        self.open_calls[call] = (name, detail)
        self.report(AgentActivity("tool", first_line(name) or "tool", first_line(detail)))

    def tool_ended(self, call: str, *, success: object, output: str = "", denied: bool = False) -> None:
        """A tool ended; one whose start was not seen is kept without its name. What is no bool tells no success."""
        name, detail = self.open_calls.pop(call, ("tool", ""))
        known = success if isinstance(success, bool) else None
        self._results.append(tool_result(name, detail, success=known, output=output))
        if known is False and (told := first_line(output)):
            self.report(AgentActivity("failure", told))
        if denied and len(self._denials) < MAX_DENIALS:
            self._denials.append(f"{first_line(name)} {first_line(detail)}".strip())

    def _line(self, line: bytes) -> None:
        event = decode_event(line)
        if event is None:
            return
        kind = text(event.get("type"))
        if kind in _BEGINNINGS:
            self.model = text(event.get("model"))[:_MAX_ID] or self.model
        self.event(kind, event)


class MessageReader(EventReader):
    """What the `stream-json` of claude, amp, qwen and cursor-agent have in common: messages, tool results, one
    `result` at the end. The tokens of messages are summed up; one message may come in several events with the same id,
    each with its usage up to there.
    """

    agent: ClassVar[str]
    inclusive: ClassVar[bool] = False
    """Whether its input counts what was cached."""

    _result: dict[str, Any] | None = None
    _message_id = ""
    _before = Usage()

    def event(self, kind: str, event: dict[str, Any]) -> None:
        self.named(event.get("session_id"))
        message = table(event.get("message"))
        if kind == "assistant":
            if not event.get("parent_tool_use_id"):
                self._result = None  # a further turn has begun; only its own end counts
            self._sum_up(message)
            self.message(event, [table(block) for block in items(message.get("content"))])
        elif kind == "user":
            for block in map(table, items(message.get("content"))):
                if block.get("type") == "tool_result":
                    success, output = block.get("is_error") is not True, plain_text(block.get("content"))
                    self.tool_ended(text(block.get("tool_use_id")), success=success, output=output)
        elif kind == "result":
            self._result = event
        else:
            self.other(kind, event)

    def finish(self) -> None:
        if self._result is not None:
            self.succeeded = self._result.get("subtype") == "success" and self._result.get("is_error") is False
            self.final_text = text(self._result.get("result"))
            self.permission_denials = denials_of(self._result)
            self.ended(self._result)

    def message(self, _: dict[str, Any], blocks: list[dict[str, Any]]) -> None:
        """An event with a message of the agent's: text, and tools that it calls."""
        for block in blocks:
            if block.get("type") == "tool_use":
                self.tool_started(text(block.get("id")), text(block.get("name")), block.get("input"))
            elif block.get("type") == "text":
                self.said(text(block.get("text")))

    def other(self, kind: str, event: dict[str, Any]) -> None:
        """An event of an agent's own kind."""

    def ended(self, result: dict[str, Any]) -> None:
        """The terminal event, with `succeeded` set by it."""
        if not self.succeeded:
            error = result.get("error")
            self.fault = self.failure(result, text(error) or text(table(error).get("message")))

    def failure(
        self, result: dict[str, Any], message: str, *, status: object = None, codes: tuple[str, ...] = ()
    ) -> AgentFault:
        """Why a terminal event is an error: by its structured fields, then by the error's own text."""
        subtype = text(result.get("subtype"))
        told = message or f"{self.agent} ended with {first_line(subtype) or 'an error'}"
        if subtype in _BY_SUBTYPE:
            return fault(_BY_SUBTYPE[subtype], told)
        return self.error(told, status=status, codes=codes)

    def _sum_up(self, message: dict[str, Any]) -> None:
        message_id = text(message.get("id"))[:_MAX_ID]
        if not message_id or message_id != self._message_id:
            self._before = self.usage
        self._message_id = message_id
        self.usage = added(self._before, usage_of(message.get("usage"), ANTHROPIC_USAGE, inclusive=self.inclusive))
