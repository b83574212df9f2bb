"""The config.yaml that `ralph init` writes: every key with a sentence and its default, the found gates live."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any

import msgspec

from rulebook_ralph.core.refusal import fields_of, item_type, struct_in
from rulebook_ralph.core.settings import Config, VerificationStep
from rulebook_ralph.resources import schema

SCHEMA_URL = "https://raw.githubusercontent.com/rulebook-ralph/rulebook-ralph/main/schemas/config.schema.json"

_HEAD = f"""\
# yaml-language-server: $schema={SCHEMA_URL}
#
# Ralph's settings for this project. Every key stands here with its default: take away the "# " before a key to set it.
# Times are seconds, or a text such as 90s, 15m or 1h30m. Unknown keys are errors. `ralph validate` checks this file.
"""
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./=-]*(?: [A-Za-z0-9_./=-]+)*")
_WORDS_WITH_MEANING = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_EXAMPLES: Mapping[str, Any] = {
    "executors": {"id": "my-agent", "type": "command", "command": "my-agent"},
    "steps": {"name": "tests", "command": "make test", "kind": "test"},
}
_WIDTH = 118


def commented_config(steps: Sequence[VerificationStep]) -> str:
    """The text of a new config.yaml that says exactly what is built in, and `steps`."""
    document = schema("config")
    lines: list[str] = []
    for field in fields_of(Config):
        described = document["properties"][field.encode_name]
        lines += ["", *_comment(described["description"], "")]
        section = struct_in(field.type)
        if section is None:
            lines.append(f"# {field.encode_name}: {_scalar(field.default)}")
        else:
            lines += [f"{field.encode_name}:", *_section(section, described["properties"], document["$defs"], steps)]
    return _HEAD + "\n".join(lines) + "\n"


def _section(
    section: type[msgspec.Struct],
    described: Mapping[str, Any],
    definitions: Mapping[str, Any],
    steps: Sequence[VerificationStep],
) -> Iterator[str]:
    for field in fields_of(section):
        name = field.encode_name
        yield from _comment(described[name]["description"], "  ")
        item = struct_in(item_type(field.type))
        if item is not None:
            yield from _example(item, definitions[described[name]["items"]["$ref"].rpartition("/")[2]], _EXAMPLES[name])
        if item is VerificationStep and steps:
            yield from ("  steps:", *(line for step in steps for line in _step(step)))
        else:
            yield f"  # {name}: {_scalar(field.default)}"


def _example(item: type[msgspec.Struct], described: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[str]:
    """An item of a list with all its keys, each with its sentence, as a comment that no one can take for a setting."""
    yield "  # An item, with all its keys:"
    dash = "- "
    for field in fields_of(item):
        default = None if field.required else msgspec.to_builtins(_default(field))
        key = f"{dash}{field.encode_name}: {_scalar(values.get(field.encode_name, default))}"
        yield f"  #     {key:<30} # {described['properties'][field.encode_name]['description']}"
        dash = "  "


def _step(step: VerificationStep) -> Iterator[str]:
    dash = "- "
    for field in fields_of(VerificationStep):
        value = getattr(step, field.name)
        if field.required or value != _default(field):
            yield f"    {dash}{field.encode_name}: {_scalar(msgspec.to_builtins(value))}"
            dash = "  "


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default is not msgspec.NODEFAULT else field.default_factory()


def _comment(text: str, indent: str) -> Iterator[str]:
    yield from wrap(text, _WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")


def _scalar(value: Any) -> str:
    """A value as YAML on one line; a text is quoted unless nothing in it can be taken for anything else."""
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS_WITH_MEANING
        return value if plain else _quoted(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_quoted(key)}: {_scalar(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_scalar(item) for item in value) + "]"
    if isinstance(value, msgspec.Struct):
        return _scalar(msgspec.to_builtins(value))
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value)


def _quoted(text: str) -> str:
    """A YAML double-quoted text: JSON's form, with escapes for whatever YAML does not allow as it is."""
    body = json.dumps(text, ensure_ascii=False)
    return "".join(char if char.isprintable() else _escape(ord(char)) for char in body)


def _escape(code: int) -> str:
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"  # noqa: PLR2004 - the largest of four digits
