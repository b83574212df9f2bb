"""`python -m scripts.settings` writes the reference in docs/configuration.md, from the structs and their docstrings."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import fill

import msgspec
from msgspec.structs import FieldInfo

from rulebook_ralph.config.editing import one_line
from rulebook_ralph.config.settings import Config
from rulebook_ralph.config.template import descriptions
from rulebook_ralph.tasks.struct_reading import choices, fields_of, is_duration, item_type, struct_by_name, struct_in
from rulebook_ralph.tasks.text import span

PAGE = Path(__file__).parents[1] / "docs" / "configuration.md"
_REGION = re.compile(r"(<!-- begin reference.*?-->\n).*?(<!-- end reference -->)", re.DOTALL)


def page(text: str) -> str:
    """The text of the page with the reference as it is now."""
    return _REGION.sub(lambda match: f"{match[1]}\n{reference()}\n{match[2]}", text)


def reference() -> str:
    """Every key with its default and what it means, a table for each section."""
    seen: set[type[msgspec.Struct]] = set()
    return "\n".join(_section(Config, "", seen))


def _section(struct: type[msgspec.Struct], path: str, seen: set[type[msgspec.Struct]]) -> Iterator[str]:
    if struct in seen:
        return
    seen.add(struct)
    told = descriptions(struct)
    plain = [field for field in fields_of(struct) if not struct_in(field.type)]
    if path:
        yield from (f"### {path}", "", fill(told[""], 118), "")
    if plain:
        yield from ("| key | default | what it says |", "| --- | --- | --- |")
        yield from (f"| `{field.encode_name}` | {_default(field)} | {_meaning(field, told)} |" for field in plain)
        yield ""
    for field in fields_of(struct):
        here = f"{path}.{field.encode_name}".lstrip(".")
        if inner := struct_in(field.type):
            yield from _section(inner, here, seen)
        elif inner := struct_in(item_type(field.type)):
            yield from _section(inner, f"{here}[]", seen)
        elif inner := struct_by_name(field.type):
            yield from _section(inner, f"{here}.NAME", seen)


def _meaning(field: FieldInfo, told: Mapping[str, str]) -> str:
    values = choices(field.type) or choices(item_type(field.type))
    given = f" One of {', '.join(f'`{value}`' for value in values)}." if values else ""
    return f"{told[field.encode_name]}{given}".replace("|", "\\|")


def _default(field: FieldInfo) -> str:
    if field.required:
        return "required"
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    if value in (None, "", (), {}):
        return "none"
    if is_duration(field.type):
        return span(value)
    return f"`{one_line(msgspec.to_builtins(value))}`"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
