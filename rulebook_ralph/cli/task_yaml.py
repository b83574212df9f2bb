"""A task's words as YAML for people to read and edit, and back."""

import io
from typing import Any

from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks.model import Json
from rulebook_ralph.tasks.plain_yaml import NotReadableError, read_yaml
from rulebook_ralph.tasks.text import JsonPath

_WIDTH = 100


def yaml_text(words: Json, *, heading: str = "") -> str:
    """The words as a YAML document, texts of several lines as blocks; `heading` becomes comment lines."""
    from ruamel.yaml import YAML  # noqa: PLC0415 - 22 ms

    yaml = YAML()
    yaml.width = _WIDTH
    yaml.indent(mapping=2, sequence=4, offset=2)
    text = io.StringIO()
    yaml.dump(_readable(words), text)
    comment = "".join(f"# {line}\n" for line in heading.splitlines())
    return comment + text.getvalue()


def words_of_yaml(text: str, *, name: str) -> tuple[Json, dict[JsonPath, int]]:
    """The words in an edited document, and the line of each place. Raises RalphError with file and line."""
    try:
        document = read_yaml(text)
    except NotReadableError as error:
        where = name if error.line is None else f"{name}:{error.line}"
        place = ".".join(map(str, error.fault.path))
        raise RalphError(f"{where}: {f'{place}: ' if place else ''}{error.fault.message}") from None
    if not isinstance(document.value, dict):
        raise RalphError(f"{name}: expected keys and values" if document.value is not None else f"{name}: is empty")
    return document.value, dict(document.lines)


def _readable(value: Any) -> Any:
    if isinstance(value, dict):
        return {_styled(key): _readable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_readable(item) for item in value]
    return _styled(value) if isinstance(value, str) else value


def _styled(text: str) -> str:
    """The text in the style that a person reads best and that gives it back as it was."""
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString  # noqa: PLC0415 - see above

    lines = text.split("\n")
    plain = bool(lines[0].strip()) and not lines[0].startswith(" ") and all(line == line.rstrip() for line in lines)
    styled: str = text
    if not all(line.isprintable() for line in lines):
        styled = DoubleQuotedScalarString(text)
    elif plain and len(lines) > 1:
        styled = LiteralScalarString(text)
    return styled
