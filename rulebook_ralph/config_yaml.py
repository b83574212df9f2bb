"""Plain values as YAML text that is read back as the same values."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

_PLAIN = re.compile(r"(?:\d+[smhd])+|[A-Za-z][A-Za-z0-9_./=-]*(?: [A-Za-z0-9_./=-]+)*")
_WORDS_WITH_MEANING = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def one_line(value: Any) -> str:
    """A value as YAML on one line; a text is quoted unless nothing in it can be taken for anything else."""
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS_WITH_MEANING
        return value if plain else quoted(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{quoted(key)}: {one_line(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(one_line(item) for item in value) + "]"
    if isinstance(value, msgspec.Struct):
        return one_line(msgspec.to_builtins(value))
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value)


def block_lines(value: Any) -> Iterator[str]:
    """A value as the lines of a YAML block, without indentation; an empty collection or a scalar is one line."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _entry(key, item)
    elif isinstance(value, (list, tuple)) and value:
        for item in value:
            inner = block_lines(item) if isinstance(item, Mapping) else iter((one_line(item),))
            yield f"- {next(inner)}"
            yield from (f"  {line}" for line in inner)
    else:
        yield one_line(value)


def _entry(key: str, item: Any) -> Iterator[str]:
    if isinstance(item, (Mapping, list, tuple)) and item:
        yield f"{_key(key)}:"
        yield from (f"  {line}" for line in block_lines(item))
    else:
        yield f"{_key(key)}: {one_line(item)}"


def _key(key: str) -> str:
    return key if key.startswith("+") and _PLAIN.fullmatch(key[1:]) else one_line(key)


def quoted(text: str) -> str:
    """A YAML double-quoted text: JSON's form, with escapes for whatever YAML does not allow as it is."""
    body = json.dumps(text, ensure_ascii=False)
    return "".join(char if char.isprintable() else _escape(ord(char)) for char in body)


def _escape(code: int) -> str:
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"  # noqa: PLR2004 - the largest of four digits
