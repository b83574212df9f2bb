"""What stands in agents' JSON events. They are untrusted, possibly broken, of any shape: nothing here raises for what
they say.
"""

import json
from typing import Any

from rulebook_ralph.tasks.results import Usage
from rulebook_ralph.tasks.text import cut, printable

MAX_DENIALS = 50
_LARGEST = 2**53
_MOST_DOLLARS = 1_000_000.0
_SHOWN = 200
_DETAILS = (
    *("command", "cmd", "file_path", "notebook_path", "filePath", "path", "targetFile", "pattern", "globPattern"),
    *("query", "url", "description", "prompt"),
)
ANTHROPIC_USAGE = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def decode_event(line: bytes) -> dict[str, Any] | None:
    """The JSON object on that line, or None for noise."""
    try:
        event = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


def table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def text(value: object) -> str:
    """A string that can be written as UTF-8: what tools print may end within a surrogate pair."""
    if not isinstance(value, str) or value.isascii():
        return value if isinstance(value, str) else ""
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def count(value: object) -> int:
    """A number of tokens; 0 for anything that is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST else 0


def dollars(value: object) -> float | None:
    """An amount of money; None for anything that is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= _MOST_DOLLARS else None


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


def plain_text(content: object) -> str:
    """A tool's result as text: a string, or a list of blocks of which only text counts."""
    return text(content) or "\n".join(filter(None, (text(table(block).get("text")) for block in items(content))))


def detail_of(arguments: object) -> str:
    """What a tool is asked to do: the command or the file, in whatever form the agent says it."""
    given = table(arguments)
    return text(arguments) or next((value for key in _DETAILS if (value := text(given.get(key)))), "")


def denials_of(result: dict[str, Any]) -> tuple[str, ...]:
    """The tools that a terminal event says were refused, each with what it was to do: objects, or names alone."""
    named = []
    for denial in items(result.get("permission_denials"))[:MAX_DENIALS]:
        tool, detail = text(table(denial).get("tool_name")), first_line(detail_of(table(denial).get("tool_input")))
        named.append(first_line(text(denial)) or f"{first_line(tool) or 'tool'} {detail}".strip())
    return tuple(named)
