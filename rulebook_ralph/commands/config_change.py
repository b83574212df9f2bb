"""`ralph config set` and `unset`: one value of a config file, checked with all the others before it is written."""

from collections.abc import Mapping
from typing import Any

import click

from rulebook_ralph import config
from rulebook_ralph.app import App
from rulebook_ralph.commands.config_file import ConfigFile, file_of, replace, require_person, text_in, write_schema
from rulebook_ralph.commands.config_show import named, origin_of
from rulebook_ralph.config_key import Place, default_at, given_value, has, place_of, value_at
from rulebook_ralph.config_rules import checked
from rulebook_ralph.config_text import planted, uprooted, with_value, without
from rulebook_ralph.config_yaml import one_line
from rulebook_ralph.core.problem import JsonPath, dotted
from rulebook_ralph.core.struct_reading import camel
from rulebook_ralph.errors import RalphError
from rulebook_ralph.plain_yaml import read_yaml

_USER = click.option("--user", is_flag=True, help="In your own file, for all projects, not in the project's.")
_BYTE_ORDER_MARK = "\ufeff"


@click.command(
    "set", short_help="Change a value; all else in the file stays", context_settings={"ignore_unknown_options": True}
)
@click.argument("key")
@click.argument("value")
@_USER
@click.pass_obj
def set_command(app: App, /, *, key: str, value: str, user: bool) -> int:
    """Set KEY to VALUE in the project's config.yaml; comments, order and everything else in it stay.

    VALUE is a text where a text belongs, else YAML: 5, 15m, true, null, "[a, b]", "{input: 1, output: 2}". Nothing is
    written unless the key is known, the value fits, and the configuration as a whole is valid.
    """
    file = file_of(app, user=user)
    require_person(app)
    content = file.read()
    mark, text = _text(file, content)
    values = read_yaml(text).value
    place = _place(file, key, values, also_new=True)
    new = given_value(value, place)
    _require_valid(file, planted(values, place.path, new))
    changed = f"{mark}{with_value(text, place.path, new)}".encode()
    loaded = _loaded(app, file, changed)
    when = replace(app, file, content, changed)
    if content is None:
        write_schema(file.path.parent)
    with app.console() as console:
        told = f"{_where(file, changed, place)}: {place.shown}: {one_line(new)}"
        console.line(f"{told} ({when})" if when else told)
        if overruled := _overruled(file, place, loaded):
            console.line(overruled)
    return 0


@click.command("unset", short_help="Take a value out of the file")
@click.argument("key")
@_USER
@click.pass_obj
def unset_command(app: App, /, *, key: str, user: bool) -> int:
    """Take KEY out of the project's config.yaml; what the other files, or built-in values, say holds again."""
    file = file_of(app, user=user)
    require_person(app)
    content = file.read()
    mark, text = _text(file, content)
    values = read_yaml(text).value
    place = _place(file, key, values)
    if content is None or not has(values, place.path):
        raise RalphError(f"{place.shown} is not set in {file.shown}; where it is: ralph config show --origin {key}")
    _require_valid(file, uprooted(values, place.path))
    changed = f"{mark}{without(text, place.path, default=_commented(place.path))}".encode()
    loaded = _loaded(app, file, changed)
    when = replace(app, file, content, changed)
    with app.console() as console:
        path = tuple(camel(step) if isinstance(step, str) else step for step in place.path)
        left = _in_effect(loaded, path)
        told = f"{file.shown}: {place.shown} is no longer set{f'; now {left}' if left else ''}"
        console.line(f"{told} ({when})" if when else told)
    return 0


def _text(file: ConfigFile, content: bytes | None) -> tuple[str, str]:
    """A byte order mark, if there is one, and the text after it."""
    text = config.SCHEMA_HINT if content is None else text_in(file, content)
    rest = text.removeprefix(_BYTE_ORDER_MARK)
    return text[: len(text) - len(rest)], rest


def _place(file: ConfigFile, key: str, values: Any, *, also_new: bool = False) -> Place:
    try:
        return place_of(key, values, also_new=also_new)
    except RalphError as error:
        raise RalphError(f"{file.shown}: {error}") from None


def _require_valid(file: ConfigFile, values: Any) -> None:
    """Raises RalphError with the first fault, which no line can be told of: it is not written."""
    faults = checked(values).faults
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        place = dotted("", faults[0].path).lstrip(".")
        raise RalphError(f"{place}: {faults[0].message}{more}; {file.shown} was not changed")


def _loaded(app: App, file: ConfigFile, content: bytes) -> config.LoadedConfig:
    """The whole configuration as it would be. Raises RalphError."""
    try:
        return config.load_with_origins(
            file.root, environment=app.environment, home=app.home, instead={file.path: content}
        )
    except RalphError as error:
        raise RalphError(f"{error}; {file.shown} was not changed") from None


def _where(file: ConfigFile, content: bytes, place: Place) -> str:
    line = read_yaml(content.decode("utf-8-sig")).line(place.path)
    return file.shown if line is None else f"{file.shown}:{line}"


def _overruled(file: ConfigFile, place: Place, loaded: config.LoadedConfig) -> str:
    """What to say where another layer wins over the value that was set."""
    path = tuple(camel(step) if isinstance(step, str) else step for step in place.path)
    if not path or str(path[0]).startswith("+"):
        return ""
    origin = origin_of(path, loaded.origins)
    if not loaded.origins.get(named(path)) or file.shown in origin:
        return ""
    return f"it does not hold here: {origin} says otherwise"


def _in_effect(loaded: config.LoadedConfig, path: JsonPath) -> str:
    origin = loaded.origins.get(named(path))
    if origin is None:
        return ""
    value = value_at(loaded.values, path)
    return f"{one_line(value)} ({origin})" if not isinstance(value, Mapping) else ""


def _commented(path: JsonPath) -> str:
    known, value = default_at(path)
    return f"{path[-1]}: {one_line(value)}" if known else ""
