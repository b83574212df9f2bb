"""The config.yaml that `ralph init` writes: every key with a sentence and its default, the found gates live."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Any

import msgspec
from msgspec.structs import FieldInfo

from rulebook_ralph.config_yaml import one_line
from rulebook_ralph.core.refusal import fields_of, item_type, struct_by_name, struct_in
from rulebook_ralph.core.settings import Config, Verification, VerificationStep, Workspace
from rulebook_ralph.resources import schema

SCHEMA_NAME = "config.schema.json"
"""The schema's copy beside each config file, which works without a network and in every clone."""

SCHEMA_HINT = f"""\
# yaml-language-server: $schema={SCHEMA_NAME}
# $schema: {SCHEMA_NAME}
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
_WIDTH = 118
_NO_WORKSPACE = Workspace()


def commented_config(
    steps: Sequence[VerificationStep], *, clean: bool = False, workspace: Workspace = _NO_WORKSPACE
) -> str:
    """The text of a new config.yaml that says exactly what is built in, and what was found: `steps`, whether they run
    in a `clean` checkout, and the `workspace` that they need there.
    """
    document = schema("config")
    found = Config(verification=Verification(clean=clean, steps=tuple(steps)), workspace=workspace)
    page = _Page(document["$defs"])
    lines: list[str] = []
    for setting in fields_of(Config):
        described = document["properties"][setting.encode_name]
        lines += [
            "",
            *_comment(described["description"], ""),
            *page.setting(setting, described, "", getattr(found, setting.name)),
        ]
    return _HEAD + "\n".join(lines) + "\n"


@dataclass(slots=True)
class _Page:
    """The lines of each setting. A definition that several settings share is explained at the first of them."""

    definitions: Mapping[str, Any]
    explained: set[str] = field(default_factory=set)

    def setting(self, setting: FieldInfo, described: Mapping[str, Any], indent: str, value: Any) -> Iterator[str]:
        name = setting.encode_name
        section, item = struct_in(setting.type), struct_in(item_type(setting.type))
        if section is not None:
            yield f"{indent}{name}:"
            yield from self._section(section, described, f"{indent}  ", value)
            return
        if item is not None:
            yield from _example(item, self.definitions[_definition(described["items"])], _EXAMPLES[name], indent)
        named = struct_by_name(setting.type)
        if named is not None:
            described = self.definitions[_definition(described["additionalProperties"])]
            yield from _example(named, described, _EXAMPLES[name], indent, name=_NAMES[name])
        if value == _default(setting):
            yield f"{indent}# {name}: {one_line(_default(setting))}"
        elif item is VerificationStep:
            yield f"{indent}{name}:"
            yield from (line for step in value for line in _step(step))
        else:
            yield f"{indent}{name}: {one_line(msgspec.to_builtins(value))}"

    def _section(
        self, section: type[msgspec.Struct], described: Mapping[str, Any], indent: str, value: Any
    ) -> Iterator[str]:
        shared = _definition(described)
        properties = (self.definitions[shared] if shared else described)["properties"]
        for inner in fields_of(section):
            inner_described = properties[inner.encode_name]
            if shared not in self.explained:
                yield from _comment(inner_described["description"], indent)
            yield from self.setting(inner, inner_described, indent, getattr(value, inner.name))
        if shared:
            self.explained.add(shared)


def _definition(described: Mapping[str, Any]) -> str:
    """The name of the definition that a property refers to, if it does."""
    reference: str = described.get("$ref", "")
    return reference.rpartition("/")[2]


def _example(
    item: type[msgspec.Struct], described: Mapping[str, Any], values: Mapping[str, Any], indent: str, *, name: str = ""
) -> Iterator[str]:
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
        yield f"{indent}#     {key:<30} # {described['properties'][inner.encode_name]['description']}"
        dash = "  "


def _step(step: VerificationStep) -> Iterator[str]:
    dash = "- "
    for inner in fields_of(VerificationStep):
        value = getattr(step, inner.name)
        if inner.required or value != _default(inner):
            yield f"    {dash}{inner.encode_name}: {one_line(msgspec.to_builtins(value))}"
            dash = "  "


def _default(setting: FieldInfo) -> Any:
    return setting.default if setting.default is not msgspec.NODEFAULT else setting.default_factory()


def _comment(text: str, indent: str) -> Iterator[str]:
    yield from wrap(text, _WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")
