"""Reading an agent's JSON lines: untrusted, possibly broken, of any shape. Nothing here raises."""

import json
import math
from typing import Any

import msgspec

from rulebook_ralph.core.evidence import ToolResult
from rulebook_ralph.core.printable import cut, printable

_LARGEST = 2**53
_MOST_DOLLARS = 1_000_000.0
_OUTPUT_HEAD = 1000
_OUTPUT_TAIL = 3000
_COMMAND = 500
_SHOWN = 200


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
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or not 0 <= value <= _MOST_DOLLARS
    ):
        return None
    return float(value)


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
