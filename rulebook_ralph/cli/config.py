"""`ralph config`: the settings that hold here, where each comes from, and changing them."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click

from rulebook_ralph.agents.roster import Roster
from rulebook_ralph.cli import config_files
from rulebook_ralph.cli.app import App, json_object
from rulebook_ralph.cli.config_files import ConfigFile
from rulebook_ralph.config.editing import block_lines, one_line, with_value, without
from rulebook_ralph.config.keys import KeyPlace, given_value, has, in_camel, named, place_of, value_at
from rulebook_ralph.config.layers import BUILT_IN, LoadedConfig, load_config
from rulebook_ralph.config.layers import config_files as files_read
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.tasks.disk import find_root
from rulebook_ralph.tasks.plain_yaml import read_yaml
from rulebook_ralph.tasks.text import JsonPath
from rulebook_ralph.verify.redaction import MARK, Redactor

_USER = click.option("--user", is_flag=True, help="In your own file, for all projects, not in the project's.")


@click.group()
def command() -> None:
    """See and change settings: built-in values, then your own file (--user), the project's, RALPH_* variables and
    flags; what comes later wins.

    Maps are merged, a list replaces the one before it, and one under a key with a `+` (`+rules`) is added to it.
    KEY is as in limits.maxCostUsd, verification.steps.0.timeout or tools.executors.claude.model.
    """


@command.command("show", short_help="The settings that hold here; with --origin where each comes from")
@click.argument("key", required=False)
@click.option("--origin", is_flag=True, help="Say of each value where it was set.")
@json_object
@click.pass_obj
def show_command(app: App, /, *, key: str | None, origin: bool, json: bool) -> int:
    """Print the settings that hold here, or those under KEY: of all files, variables and built-in values.

    Secrets are left out.
    """
    loaded = _loaded(app)
    values = loaded.values
    path = place_of(key, values).path if key else ()
    clean = Redactor(Roster(loaded.config, app.environment).secrets()).clean
    shown = value_at(values, path)
    leaves = [leaf for leaf in _leaves(shown, path) if leaf]
    with app.console(json=json) as console:
        if json:
            where = {"origins": {named(leaf): _origin_of(leaf, loaded.origins) for leaf in leaves}} if origin else {}
            files = [str(file) for file in loaded.files]
            console.json({"config": _cleaned(shown, clean), **where, "files": files})
        elif origin:
            rows = (
                (named(leaf), one_line(_cleaned(value_at(values, leaf), clean)), _origin_of(leaf, loaded.origins))
                for leaf in leaves
            )
            console.table(("key", "value", "origin"), rows)
        else:
            console.verbatim("\n".join(block_lines(_cleaned(shown, clean))))
    return ExitCode.OK


@command.command("get", short_help="One value, as it holds here")
@click.argument("key")
@click.pass_obj
def get_command(app: App, /, *, key: str) -> int:
    """Print the value that holds here for KEY: a text as it is, everything else as YAML.

    A secret that your environment holds too is left out, as everywhere; then stderr says so, and the exit code is 2.
    """
    values = _loaded(app).values
    value = value_at(values, place_of(key, values).path)
    text = value or "\n" if isinstance(value, str) else "\n".join(block_lines(value))
    with app.console() as console:
        console.verbatim(text)
        if Redactor(app.environment).clean(text) == text:
            return ExitCode.OK
        where = "'ralph config show --origin' says where it stands"
        console.error(f"{key} holds a secret, which is shown as {MARK}; {where}")
    return ExitCode.INVALID


@command.command(
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
    file = config_files.to_change(app, user=user)
    text = file.text()
    place = _place(file, key, read_yaml(text).value, also_new=True)
    new = given_value(value, place)
    changed = with_value(text, place.path, new)
    loaded = config_files.change(app, file, changed)
    with app.console() as console:
        line = read_yaml(changed).line(place.path)
        console.line(f"{file.shown}{'' if line is None else f':{line}'}: {place.shown}: {one_line(new)}")
        if overruled := _overruled(file, place, loaded):
            console.line(overruled)
    return ExitCode.OK


@command.command("unset", short_help="Take a value out of the file")
@click.argument("key")
@_USER
@click.pass_obj
def unset_command(app: App, /, *, key: str, user: bool) -> int:
    """Take KEY out of the project's config.yaml; what the other files, or built-in values, say holds again."""
    file = config_files.to_change(app, user=user)
    text = file.text()
    values = read_yaml(text).value
    place = _place(file, key, values)
    if not has(values, place.path):
        raise RalphError(f"{place.shown} is not set in {file.shown}; where it is: ralph config show --origin {key}")
    loaded = config_files.change(app, file, without(text, place.path))
    path = in_camel(place.path)
    origin, left = loaded.origins.get(named(path)), value_at(loaded.values, path)
    now = "" if origin is None or isinstance(left, Mapping) else f"; now {one_line(left)} ({origin})"
    with app.console() as console:
        console.line(f"{file.shown}: {place.shown} is no longer set{now}")
    return ExitCode.OK


@command.command("edit", short_help="The file in your editor, looked at afterwards")
@click.option("--user", is_flag=True, help="Your own file, for all projects, not the project's.")
@click.pass_obj
def edit_command(app: App, /, *, user: bool) -> int:
    """Open the project's config.yaml in $VISUAL or $EDITOR, and look at it afterwards.

    What you wrote stays, also when something is wrong in it; then each problem is told with its line, and on a
    terminal you may edit again. Ends with 2 as long as something is wrong.
    """
    return config_files.edit(app, config_files.to_change(app, user=user))


@command.command("path", short_help="The files that are read, in order")
@click.option("--user", is_flag=True, help="Your own file alone.")
@json_object
@click.pass_obj
def path_command(app: App, /, *, user: bool, json: bool) -> int:
    """Print the files that settings are read from, in this order; what comes later wins."""
    root = None if user else find_root(app.cwd)
    files = [file for file, _ in files_read(root, app.home, app.environment)]
    with app.console(json=json) as console:
        if json:
            console.json({"files": [{"path": str(file), "exists": file.exists()} for file in files]})
        else:
            for file in files:
                console.line(str(file) if user or file.exists() else f"{file} (not there)")
    return ExitCode.OK


def _loaded(app: App) -> LoadedConfig:
    return load_config(find_root(app.cwd), app.home, app.environment)


def _place(file: ConfigFile, key: str, values: Any, *, also_new: bool = False) -> KeyPlace:
    try:
        return place_of(key, values, also_new=also_new)
    except RalphError as error:
        raise RalphError(f"{file.shown}: {error}") from None


def _overruled(file: ConfigFile, place: KeyPlace, loaded: LoadedConfig) -> str:
    """What to say where another layer wins over the value that was set."""
    path = in_camel(place.path)
    if not path or str(path[0]).startswith("+"):
        return ""
    origin = _origin_of(path, loaded.origins)
    if not loaded.origins.get(named(path)) or file.shown in origin:
        return ""
    return f"it does not hold here: {origin} says otherwise"


def _leaves(value: Any, path: JsonPath) -> Iterator[JsonPath]:
    """The paths of all single values, and of what is empty."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, (list, tuple)) and value:
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index))
    else:
        yield path


def _origin_of(leaf: JsonPath, origins: Mapping[str, str]) -> str:
    """Where a single value was set: with the whole that holds it, unless that is an item which leaves it out."""
    for end in range(len(leaf), 0, -1):
        found = origins.get(named(leaf[:end]))
        if found is not None:
            is_left_out = end < len(leaf) and isinstance(leaf[end - 1], int)
            return BUILT_IN if is_left_out else found
    return BUILT_IN


def _cleaned(value: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _cleaned(item, clean) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cleaned(item, clean) for item in value]
    return clean(value) if isinstance(value, str) else value
