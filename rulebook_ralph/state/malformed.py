"""Where and why a text is no JSON, for a person to mend."""

import json
import re
from typing import NoReturn

import msgspec

from rulebook_ralph.state.json_position import line_and_column

_BYTE = re.compile(r"\(byte (\d+)\)$")
_NUMBER = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|(?P<number>-?\d[\d.eE+-]*)')
_LONE_SURROGATE = re.compile(
    r"(?<!\\)(?:\\\\)*(?P<code>\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)


def malformation(text: str, error: msgspec.DecodeError | RecursionError) -> str:
    """`line:column: what` for a text that msgspec refused with `error`."""
    if isinstance(error, RecursionError):
        return "1:1: is nested too deeply"
    if (number := _out_of_range(text, error)) is not None:
        line, column = line_and_column(text, number)
        return f"{line}:{column}: number out of range"
    try:
        json.loads(text, parse_constant=_refuse)
    except json.JSONDecodeError as found:
        return f"{found.lineno}:{found.colno}: {found.msg[:1].lower()}{found.msg[1:]}"
    except (ValueError, RecursionError):
        pass
    if surrogate := _LONE_SURROGATE.search(text):
        line, column = line_and_column(text, surrogate.start("code"))
        return f"{line}:{column}: {surrogate['code']} is half of a surrogate pair, which is no character"
    return _from_byte(text, str(error))


def _out_of_range(text: str, error: msgspec.DecodeError) -> int | None:
    """Where the number stands that is too large: all that is refused as invalid where any value may stand."""
    if not isinstance(error, msgspec.ValidationError):
        return None
    numbers = (match for match in _NUMBER.finditer(text) if match["number"])
    return next((match.start() for match in numbers if not _fits(match["number"])), None)


def _fits(number: str) -> bool:
    try:
        msgspec.json.decode(number)
    except msgspec.DecodeError:
        return False
    return True


def _from_byte(text: str, reason: str) -> str:
    place = _BYTE.search(reason)
    position = len(text.encode()[: int(place[1])].decode(errors="ignore")) if place else len(text)
    line, column = line_and_column(text, position)
    reason = _BYTE.sub("", reason).removeprefix("JSON is malformed: ").strip()
    return f"{line}:{column}: {reason[:1].lower()}{reason[1:]}"


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)
