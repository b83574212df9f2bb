"""The config.yaml that `ralph init` writes: every key with a sentence and its default, what was found live."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from inspect import getdoc
from pathlib import Path
from textwrap import wrap
from typing import Any

import msgspec
from msgspec.structs import FieldInfo

from rulebook_ralph import resources
from rulebook_ralph.config.editing import block_lines, one_line
from rulebook_ralph.config.settings import Config, Parallel, Sandbox, Verification, VerificationStep, Workspace
from rulebook_ralph.tasks import disk
from rulebook_ralph.tasks.struct_reading import fields_of, item_type, struct_by_name, struct_in

CONFIG_SCHEMA_NAME = "config.schema.json"
"""The copy of the configuration's schema beside each config file, which works without a network and in every clone."""
SCHEMA_HINT = f"""\
# yaml-language-server: $schema={CONFIG_SCHEMA_NAME}
# $schema: {CONFIG_SCHEMA_NAME}
"""
"""For completion in editors: the first line is read by VS Code and others, the second by JetBrains."""

_HEAD = f"""\
{SCHEMA_HINT}#
# Ralph's settings for this project. Every key stands here with its default: take away the "# " before a key to set it.
# Times are seconds, or a text such as 90s, 15m or 1h30m. Unknown keys are errors. `ralph validate` checks this file.
"""
_EXAMPLES: Mapping[str, Any] = {
    "executors": {"id": "my-agent", "type": "command", "command": "my-agent"},
    "reviewers": {"id": "thorough", "model": "opus", "checks": ["tier", "our API stays compatible"]},
    "planners": {"id": "opus", "model": "opus"},
    "steps": {"name": "tests", "command": "make test", "kind": "test"},
    "hooks": {"name": "changelog", "command": "make changelog-check"},
    "prices": {"input": 1.25, "output": 10, "cachedInput": 0.125},
}
_NAMES: Mapping[str, str] = {"prices": "gpt-5.5"}
_SHORT: Mapping[type[msgspec.Struct], str] = {Sandbox: "auto", Parallel: "1"}
"""Sections that have a short form, which says the default."""
_WIDTH = 118
_KEY_LINE = re.compile(r"([a-z]\w*): (.+)")
_NO_WORKSPACE = Workspace()


def commented_config(
    steps: Sequence[VerificationStep] = (), workspace: Workspace = _NO_WORKSPACE, comments: Sequence[str] = ()
) -> str:
    """The text of a new config.yaml that says exactly what is built in, and what was found: gates, what clones need,
    and `comments` on it, which stand above `workspace`.
    """
    found = Config(verification=Verification(steps=tuple(steps)), workspace=workspace)
    lines: list[str] = []
    explained: set[type[msgspec.Struct]] = set()
    for setting in fields_of(Config):
        lines += ["", *_comment(_meaning(setting, Config), "")]
        for comment in comments if setting.name == "workspace" else ():
            lines += _comment(comment, "")
        lines += _setting(setting, "", getattr(found, setting.name), explained)
    return _HEAD + "\n".join(lines) + "\n"


def _meaning(setting: FieldInfo, struct: type[msgspec.Struct]) -> str:
    """What a struct's docstring says of a key, else what the section under it says of itself."""
    section = struct_in(setting.type)
    return descriptions(struct).get(setting.encode_name) or (descriptions(section)[""] if section else "")


def _setting(setting: FieldInfo, indent: str, value: Any, explained: set[type[msgspec.Struct]]) -> Iterator[str]:
    name, section, item = setting.encode_name, struct_in(setting.type), struct_in(item_type(setting.type))
    if section is not None and section in _SHORT:
        yield f"{indent}# {name}: {_SHORT[section]}"
    elif section is not None:
        yield f"{indent}{name}:"
        for inner in fields_of(section):
            if section not in explained:
                yield from _comment(_meaning(inner, section), f"{indent}  ")
            yield from _setting(inner, f"{indent}  ", getattr(value, inner.name), explained)
        explained.add(section)
    else:
        if shown := item or struct_by_name(setting.type):
            yield from _example(shown, _EXAMPLES[name], indent, name=_NAMES.get(name, ""))
        if value == _default(setting):
            yield f"{indent}# {name}: {one_line(value)}"
        elif item is VerificationStep:
            yield from (f"{indent}{line}" for line in block_lines({name: [_told(step) for step in value]}))
        else:
            yield f"{indent}{name}: {one_line(msgspec.to_builtins(value))}"


def _example(item: type[msgspec.Struct], values: Mapping[str, Any], indent: str, *, name: str) -> Iterator[str]:
    """An item of a list with all its keys, each with its sentence, as a comment that no one can take for a setting.

    With a `name` it is one that stands under that name instead.
    """
    yield f"{indent}# An item, with all its keys:"
    if name:
        yield f"{indent}#     {one_line(name)}:"
    dash = "  " if name else "- "
    for inner in fields_of(item):
        default = None if inner.required else msgspec.to_builtins(_default(inner))
        key = f"{dash}{inner.encode_name}: {one_line(values.get(inner.encode_name, default))}"
        yield f"{indent}#     {key:<30} # {descriptions(item)[inner.encode_name]}"
        dash = "  "


def _told(step: VerificationStep) -> dict[str, Any]:
    """A step as a file has it: its kind, and what is not as it is anyway."""
    values = msgspec.to_builtins(step)
    usual = {inner.encode_name: _default(inner) for inner in fields_of(VerificationStep) if not inner.required}
    return {key: value for key, value in values.items() if key == "kind" or key not in usual or value != usual[key]}


def _default(setting: FieldInfo) -> Any:
    return setting.default if setting.default is not msgspec.NODEFAULT else setting.default_factory()


def _comment(text: str, indent: str) -> Iterator[str]:
    yield from wrap(text, _WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")


def keep_schema(folder: Path) -> None:
    """Have the schema that config files name lie beside them."""
    content = (json.dumps(resources.schema("config"), indent=2, ensure_ascii=False) + "\n").encode()
    if disk.content_of(folder / CONFIG_SCHEMA_NAME) != content:
        disk.replace_file(folder / CONFIG_SCHEMA_NAME, content)


@cache
def descriptions(struct: type[msgspec.Struct]) -> Mapping[str, str]:
    """What the docstrings of a struct and its bases say of each key; under the empty key, of the whole."""
    found: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        if issubclass(base, msgspec.Struct) and base is not msgspec.Struct:
            found |= _described(getdoc(base) or "")
    return found


def _described(text: str) -> dict[str, str]:
    summary, key, found = [], "", dict[str, str]()
    for line in text.splitlines():
        if match := _KEY_LINE.fullmatch(line):
            key, found[match[1]] = match[1], match[2]
        elif key and line.startswith("    "):
            found[key] += f" {line.strip()}"
        elif line.strip():
            summary.append(line.strip())
    return {"": " ".join(summary), **found}
