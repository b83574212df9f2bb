"""`python -m scripts.schemas` writes schemas/: JSON Schemas made from the structs, described by their docstrings."""

import importlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec

from rulebook_ralph.config.template import descriptions
from rulebook_ralph.report.events import VERSION
from rulebook_ralph.tasks.struct_reading import fields_of

Schema = dict[str, Any]

DOCUMENTS: Mapping[str, tuple[str, str]] = {
    "config": ("rulebook_ralph.config.settings:Config", "Ralph: settings (config.yaml)"),
    "prd": ("rulebook_ralph.tasks.model:Prd", "Ralph: the task list (prd.json)"),
    "iteration": ("rulebook_ralph.tasks.history:Iteration", "Ralph: one iteration (history/iteration-N.json)"),
    "review": ("rulebook_ralph.tasks.review:Review", "Ralph: a code review, as `ralph review --json` prints it"),
    "event": ("rulebook_ralph.report.events:Told", "Ralph: what happens in a run, as `ralph events` prints it"),
    "judgement": ("rulebook_ralph.verify.questions:Answer", "Ralph: what a model says of what tests cannot decide"),
}
"""Name of a schema -> the struct (module, colon, name; imported when it is needed) and its title."""

_ADDRESS = "https://raw.githubusercontent.com/rulebook-ralph/rulebook-ralph/main/schemas"
_DURATION = r"^(?=.)(\d+(\.\d+)?d)?(\d+(\.\d+)?h)?(\d+(\.\d+)?m)?(\d+(\.\d+)?s)?$"
_SHORT_FORMS: Mapping[str, Schema] = {
    "Sandbox": {"enum": ["auto", "off", True, False]},
    "Parallel": {"type": "integer", "minimum": 1},
}
_LOOSE = "$extra"
"""The field of keys that Ralph does not know; no key of a file."""


def schema(name: str) -> Schema:
    """The JSON Schema of that name in DOCUMENTS."""
    place, title = DOCUMENTS[name]
    module, _, struct = place.partition(":")
    kind = getattr(importlib.import_module(module), struct)
    (whole,), definitions = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    structs = {each.__name__: each for each in _structs_in(kind)}
    for struct_name, definition in definitions.items():
        _describe(definition, structs[struct_name], structs)
    if name == "config":
        _as_files_have_it(definitions)
    if name == "event":
        _with_heads(definitions)
    top = whole if name == "event" else definitions.pop(kind.__name__)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"{_ADDRESS}/{name}.schema.json"}
    return {**head, **top, "title": title, "$defs": dict(sorted(definitions.items()))}


def encoded(name: str) -> bytes:
    """The schema as its file has it."""
    return (json.dumps(schema(name), indent=2, ensure_ascii=False) + "\n").encode("utf-8")


def _structs_in(annotation: Any) -> Iterator[type[msgspec.Struct]]:
    """A struct and all that its fields are made of."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        yield annotation
        for field in fields_of(annotation):
            yield from _structs_in(field.type)
    for part in get_args(annotation):
        yield from _structs_in(part)


def _describe(definition: Schema, struct: type[msgspec.Struct], structs: Mapping[str, type[msgspec.Struct]]) -> None:
    """Give each key its description; take out what no file has."""
    told = descriptions(struct)
    definition["description"] = told[""]
    properties = definition.get("properties", {})
    properties.pop(_LOOSE, None)
    for key, value in properties.items():
        nested = structs.get(value.get("$ref", "").rpartition("/")[2])
        if nested is not None:
            value.pop("default", None)  # it only repeats the section
        if text := told.get(key) or (descriptions(nested)[""] if nested else ""):
            value["description"] = text


def _with_heads(definitions: dict[str, Schema]) -> None:
    """What stands before the fields of an event: the version, the time, and the iteration that it happened in."""
    head = {"version": {"const": VERSION}, "at": {"type": "string", "format": "date-time"}}
    for definition in definitions.values():
        if "event" in definition.get("properties", {}):
            definition["properties"] = {**head, "iterationNumber": {"type": "integer"}, **definition["properties"]}
            definition["required"] = [*definition["required"], *head]


def _as_files_have_it(definitions: dict[str, Schema]) -> None:
    """Beside what msgspec reads, files may have `+key` lists, times as text, empty sections and short forms."""
    for definition in definitions.values():
        added = {}
        for key, value in definition.get("properties", {}).items():
            definition["properties"][key] = made = _as_written(value)
            if value.get("type") == "array":
                added[f"+{key}"] = {**value, "description": f"Items that are added to `{key}` of the files before."}
                added[f"+{key}"].pop("default", None)
                made["type"] = added[f"+{key}"]["type"] = ["array", "null"]
            elif value.get("type") == "object":
                made["type"] = ["object", "null"]
        definition.get("properties", {}).update(added)
    definitions["Config"]["type"] = ["object", "null"]
    definitions["VerificationStep"]["properties"]["kind"].pop("default", None)


def _as_written(value: Schema) -> Schema:
    said: Schema = {key: item for key, item in value.items() if key in ("description", "default")}
    if "$ref" in value:
        short = _SHORT_FORMS.get(value["$ref"].rpartition("/")[2])
        forms = [{"$ref": value["$ref"]}, {"type": "null"}, *([short] if short else [])]
        return {"anyOf": forms, **said}
    if _is_duration(value):
        return {**said, "anyOf": [_without_words(value), {"type": "string", "pattern": _DURATION}]}
    if any(map(_is_duration, value.get("anyOf", ()))):
        forms = [_without_words(form) for form in value["anyOf"]]
        return {**said, "anyOf": [*forms, {"type": "string", "pattern": _DURATION}]}
    return dict(value)


def _is_duration(value: Schema) -> bool:
    return value.get("maximum") == 100_000_000  # noqa: PLR2004 - the longest time, settings_base.PositiveSeconds


def _without_words(value: Schema) -> Schema:
    return {key: item for key, item in value.items() if key not in ("description", "default")}


if __name__ == "__main__":
    for each in DOCUMENTS:
        Path("schemas", f"{each}.schema.json").write_bytes(encoded(each))
