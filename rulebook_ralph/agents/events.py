"""The reader of JSON events that the adapters share. Streams are untrusted, possibly broken, of any shape: nothing here
raises for what they say, and no reader keeps more than the end of a run needs.
"""

import json
import math
from collections import deque
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from rulebook_ralph.agents.agent import Report
from rulebook_ralph.agents.limit_times import Now
from rulebook_ralph.process.streams import LineSplitter
from rulebook_ralph.report.events import AgentActivity
from rulebook_ralph.tasks.results import AgentFault, ErrorKind, ToolResult, Usage
from rulebook_ralph.tasks.text import cut, printable

MAX_MESSAGE = 1000
MAX_TOOL_RESULTS = 200
MAX_DENIALS = 50
_MAX_ID = 100
_LARGEST = 2**53
_MOST_DOLLARS = 1_000_000.0
_OUTPUT_HEAD = 1000
_OUTPUT_TAIL = 3000
_COMMAND = 500
_SHOWN = 200
_LONGEST_TEXT = 20_000
_BEGINNINGS = ("init", "system")
"""Types of events that tell the model, where any does."""
_DETAILS = (
    *("command", "cmd", "file_path", "notebook_path", "filePath", "path", "targetFile", "pattern", "globPattern"),
    *("query", "url", "description", "prompt"),
)
ANTHROPIC_USAGE = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")

_NO_USAGE = Usage()


@dataclass(frozen=True, slots=True)
class Transcript:
    """What was read from an agent's stream.

    `succeeded` is True for a terminal success event, False for a terminal error (told by `fault`), None if the stream
    ended without either; then `fault` is what the agent was struggling with last, if anything. `model` is the one that
    the agent says it uses.
    """

    succeeded: bool | None = None
    final_text: str = ""
    tool_results: tuple[ToolResult, ...] = ()
    usage: Usage = _NO_USAGE
    cost_usd: float | None = None
    session_id: str = ""
    model: str = ""
    fault: AgentFault | None = None
    permission_denials: tuple[str, ...] = ()


class Reader(Protocol):
    """Reads one run's stdout. Takes blocks as they come, in constant memory, and never raises for what they say."""

    def __init__(self, report: Report, now: Now) -> None: ...

    def feed(self, block: bytes) -> None: ...

    def close(self) -> Transcript:
        """The end of the stream."""
        ...


def fault(kind: ErrorKind, message: str, *, resets_at: str | None = None) -> AgentFault:
    return AgentFault(kind=kind, message=message.strip()[:MAX_MESSAGE], resets_at=resets_at)


def decode_event(line: bytes) -> dict[str, Any] | None:
    """The JSON object on that line, or None for noise. All its strings can be written as UTF-8."""
    try:
        event = msgspec.json.decode(line)
    except (ValueError, RecursionError):
        event = _decode_leniently(line)
    return event if isinstance(event, dict) else None


def _decode_leniently(line: bytes) -> object:
    """Lone surrogates, numbers of any length and bytes that are not UTF-8 occur, above all in the output of tools."""
    try:
        return _writable(json.loads(line.decode("utf-8", "replace")))
    except (ValueError, RecursionError):
        return None


def _writable(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_writable(one) for one in value]
    if isinstance(value, dict):
        return {_writable(key): _writable(one) for key, one in value.items()}
    if isinstance(value, int) and abs(value) > _LARGEST:
        return None
    return value


def table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def text(value: object) -> str:
    return value if isinstance(value, str) else ""


def count(value: object) -> int:
    """A number of tokens; 0 for anything that is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST else 0


def dollars(value: object) -> float | None:
    """An amount of money; None for anything that is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and 0 <= value <= _MOST_DOLLARS else None


def usage_of(given: object, names: tuple[str, str, str, str] = ANTHROPIC_USAGE, *, inclusive: bool = False) -> Usage:
    """Tokens under the names for input, output, read from and written to the cache. `inclusive`: input counts both."""
    whole, output, read, written = (count(table(given).get(name)) for name in names)
    return Usage(
        input_tokens=max(0, whole - read - written) if inclusive else whole,
        output_tokens=output,
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


def added(*usages: Usage) -> Usage:
    """Tokens of several turns or models, added up."""
    return Usage(
        input_tokens=sum(one.input_tokens for one in usages),
        output_tokens=sum(one.output_tokens for one in usages),
        cache_read_tokens=sum(one.cache_read_tokens for one in usages),
        cache_write_tokens=sum(one.cache_write_tokens for one in usages),
    )


def first_line(value: str) -> str:
    """The first line that says something, made safe for a terminal and short enough for a line of it."""
    line = next((line for line in value[: 10 * _SHOWN].splitlines() if line.strip()), "")
    return cut(printable(line.strip()), _SHOWN)


def tool_result(name: str, command: str, *, success: bool | None, output: str = "") -> ToolResult:
    """A tool's result with its output cut to head and tail, about 4,000 characters."""
    if len(output) > _OUTPUT_HEAD + _OUTPUT_TAIL:
        left_out = len(output) - _OUTPUT_HEAD - _OUTPUT_TAIL
        output = f"{output[:_OUTPUT_HEAD]}\n… {left_out} characters left out …\n{output[-_OUTPUT_TAIL:]}"
    return ToolResult(name=name[:_SHOWN], command=command[:_COMMAND], success=success, output=output)


def detail_of(arguments: object) -> str:
    """What a tool is asked to do: the command or the file, in whatever form the agent says it."""
    if isinstance(arguments, str):
        return arguments
    given = table(arguments)
    return next((value for key in _DETAILS if (value := text(given.get(key)))), "")


def denials_of(result: dict[str, Any]) -> tuple[str, ...]:
    """The tools that a terminal event says were refused, each with what it was to do: objects, or names alone."""
    named = []
    for denial in items(result.get("permission_denials"))[:MAX_DENIALS]:
        tool, detail = text(table(denial).get("tool_name")), first_line(detail_of(table(denial).get("tool_input")))
        named.append(first_line(text(denial)) or f"{first_line(tool) or 'tool'} {detail}".strip())
    return tuple(dict.fromkeys(named))


class ToolLog:
    """What the tools were asked for and what came of it, each start paired with its end; the last of them only. Each
    start is reported as activity, and the first line of what a tool said that failed.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._open: dict[str, tuple[str, str]] = {}
        self._results: deque[ToolResult] = deque(maxlen=MAX_TOOL_RESULTS)
        self._denials: dict[str, None] = {}

    def started(self, call: str, name: str, arguments: object) -> None:
        """A tool was called; `call` is the id by which its end will name it."""
        name, detail = name or "tool", detail_of(arguments)
        if len(self._open) >= MAX_TOOL_RESULTS:
            del self._open[next(iter(self._open))]
        self._open[call[:_MAX_ID]] = (name, detail)
        self._report(AgentActivity("tool", first_line(name) or "tool", first_line(detail)))

    def is_open(self, call: str) -> bool:
        return call[:_MAX_ID] in self._open

    def ended(self, call: str, *, success: bool | None, output: str = "", denied: bool = False) -> None:
        """A tool ended; one whose start was not seen is kept without its name."""
        name, detail = self._open.pop(call[:_MAX_ID], ("tool", ""))
        self._results.append(tool_result(name, detail, success=success, output=output))
        if success is False and (told := first_line(output)):
            self._report(AgentActivity("failure", told))
        if denied and len(self._denials) < MAX_DENIALS:
            self._denials[f"{first_line(name)} {first_line(detail)}".strip()] = None

    def results(self) -> tuple[ToolResult, ...]:
        """Those that ended, then those that never did."""
        unanswered = [tool_result(name, detail, success=None) for name, detail in self._open.values()]
        return (*self._results, *unanswered)[-MAX_TOOL_RESULTS:]

    def denials(self) -> tuple[str, ...]:
        """The tools that were refused, each with what it was to do, without repeats."""
        return tuple(self._denials)


class EventReader:
    """Reads JSON lines. A reader of one CLI says in `event` what each event means, and in `finish` what the whole of
    them amounts to; what it sets here makes the transcript.
    """

    def __init__(self, report: Report, now: Now) -> None:
        self.report, self.now = report, now
        self.tools = ToolLog(report)
        self.succeeded: bool | None = None
        self.fault: AgentFault | None = None
        self.final_text = ""
        self.usage = Usage()
        self.cost: float | None = None
        self.denied: tuple[str, ...] = ()
        self.session_id = ""
        self.model = ""
        self._lines = LineSplitter(self._line)

    def feed(self, block: bytes) -> None:
        self._lines.feed(block)

    def close(self) -> Transcript:
        self._lines.close()
        self.finish()
        return Transcript(
            succeeded=self.succeeded,
            final_text=self.final_text,
            tool_results=self.tools.results(),
            usage=self.usage,
            cost_usd=self.cost,
            session_id=self.session_id,
            model=self.model,
            fault=self.fault,
            permission_denials=tuple(dict.fromkeys((*self.tools.denials(), *self.denied))),
        )

    def event(self, kind: str, event: dict[str, Any]) -> None:
        """One event; `kind` is its type, empty where it has none."""
        raise NotImplementedError

    def noise(self, line: bytes) -> None:
        """A line that is no event."""

    def finish(self) -> None:
        """The stream has ended."""

    def said(self, words: str) -> None:
        """Shows what the agent said: its first line, and beside it the whole text where there is more."""
        if line := first_line(words):
            whole = words[:_LONGEST_TEXT].strip()
            self.report(AgentActivity("text", line, "" if whole == line else whole))

    def named(self, session: object) -> None:
        """The session's id, wherever an event tells it."""
        self.session_id = text(session)[:_MAX_ID] or self.session_id

    def _line(self, line: bytes) -> None:
        event = decode_event(line)
        if event is None:
            self.noise(line)
            return
        kind = text(event.get("type"))
        if kind in _BEGINNINGS:
            self.model = text(event.get("model"))[:_MAX_ID] or self.model
        self.event(kind, event)


class MessageReader(EventReader):
    """What the `stream-json` of claude, amp, qwen and cursor-agent have in common: messages, tool results, one
    `result` at the end.
    """

    def __init__(self, report: Report, now: Now) -> None:
        super().__init__(report, now)
        self.result: dict[str, Any] | None = None

    def event(self, kind: str, event: dict[str, Any]) -> None:
        self.named(event.get("session_id"))
        if kind == "assistant":
            if not event.get("parent_tool_use_id"):
                self.result = None  # a further turn has begun; only its own end counts
            self.message(event, table(event.get("message")))
        elif kind == "user":
            self.tools_ended(event)
        elif kind == "result":
            self.result = event
        else:
            self.other(kind, event)

    def finish(self) -> None:
        if self.result is not None:
            self.succeeded = self.result.get("subtype") == "success" and self.result.get("is_error") is False
            self.ended(self.result)

    def message(self, _: dict[str, Any], message: dict[str, Any]) -> None:
        """A message of the agent's: text, and tools that it calls."""
        for block in map(table, items(message.get("content"))):
            if block.get("type") == "tool_use":
                self.tools.started(text(block.get("id")), text(block.get("name")), block.get("input"))
            elif block.get("type") == "text":
                self.said(text(block.get("text")))

    def tools_ended(self, event: dict[str, Any]) -> None:
        for block in map(table, items(table(event.get("message")).get("content"))):
            if block.get("type") == "tool_result":
                success = block.get("is_error") is not True
                output = plain_text(block.get("content"))
                self.tools.ended(text(block.get("tool_use_id")), success=success, output=output)

    def other(self, kind: str, event: dict[str, Any]) -> None:
        """An event of an agent's own kind."""

    def ended(self, result: dict[str, Any]) -> None:
        """The terminal event, with `succeeded` set by it."""


class MessageSums:
    """Tokens summed over messages. One may come in several events with the same id, each with its usage up to there;
    one without an id counts by itself.
    """

    def __init__(self) -> None:
        self._before = Usage()
        self._last = Usage()
        self._id = ""

    def add(self, message: dict[str, Any]) -> None:
        message_id = text(message.get("id"))[:_MAX_ID]
        if not message_id or message_id != self._id:
            self._before = self.total()
        self._id, self._last = message_id, usage_of(message.get("usage"))

    def total(self) -> Usage:
        return added(self._before, self._last)


def plain_text(content: object) -> str:
    """A tool's result as text: a string, or a list of blocks of which only text counts."""
    if isinstance(content, str):
        return content
    return "\n".join(filter(None, (text(table(block).get("text")) for block in items(content))))
