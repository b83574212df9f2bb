"""`ralph config show`, `get` and `path`: what holds, and where it comes from."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click

from rulebook_ralph import config
from rulebook_ralph.app import App
from rulebook_ralph.commands.config_file import file_of
from rulebook_ralph.config_key import place_of, value_at
from rulebook_ralph.config_layers import BUILT_IN
from rulebook_ralph.config_yaml import block_lines, one_line
from rulebook_ralph.core.problem import JsonPath, dotted
from rulebook_ralph.core.redaction import MARK, Redactor
from rulebook_ralph.errors import ExitCode
from rulebook_ralph.loop.crew import Crew
from rulebook_ralph.state import store


@click.command("show", short_help="The settings that hold here; with --origin where each comes from")
@click.argument("key", required=False)
@click.option("--origin", is_flag=True, help="Say of each value where it was set.")
@click.option("--json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def show_command(app: App, /, *, key: str | None, origin: bool, json: bool) -> int:
    """Print the settings that hold here, or those under KEY: of all files, variables and built-in values.

    Secrets are left out.
    """
    loaded = _loaded(app)
    values = loaded.values
    path = place_of(key, values).path if key else ()
    clean = Crew(loaded.config, app.environment).redactor().clean
    shown = _cleaned(value_at(values, path), clean)
    origins = {
        name: origin_of(leaf, loaded.origins) for leaf in leaves(value_at(values, path), path) if (name := named(leaf))
    }
    with app.console(json=json) as console:
        if json:
            where = {"origins": origins} if origin else {}
            console.json({"config": shown, **where, "files": [str(file) for file in loaded.files]})
        elif origin:
            rows = (
                (named(leaf), _told(value_at(values, leaf), clean), origins[named(leaf)])
                for leaf in leaves(value_at(values, path), path)
            )
            console.table(("key", "value", "origin"), rows)
        else:
            console.verbatim("\n".join(block_lines(shown)))
    return 0


@click.command("get", short_help="One value, as it holds here")
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
        console.error(
            f"{key} holds a secret, which is shown as {MARK}; 'ralph config show --origin' says where it stands"
        )
    return ExitCode.INVALID


@click.command("path", short_help="The files that are read, in order")
@click.option("--user", is_flag=True, help="Your own file alone.")
@click.option("--json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def path_command(app: App, /, *, user: bool, json: bool) -> int:
    """Print the files that settings are read from, in this order; what comes later wins."""
    if user:
        files = [file_of(app, user=True).path]
    else:
        root = store.find_root(app.cwd)
        files = [file for file, _ in config.candidates(root, environment=app.environment, home=app.home)]
    with app.console(json=json) as console:
        if json:
            console.json({"files": [{"path": str(file), "exists": file.exists()} for file in files]})
        else:
            for file in files:
                console.line(str(file) if user or file.exists() else f"{file} (not there)")
    return 0


def leaves(value: Any, path: JsonPath) -> Iterator[JsonPath]:
    """The paths of all single values, and of what is empty."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, (list, tuple)) and value:
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))
    else:
        yield path


def named(path: JsonPath) -> str:
    """A path as the origins name it."""
    return dotted("", path).lstrip(".")


def origin_of(leaf: JsonPath, origins: Mapping[str, str]) -> str:
    """Where a single value was set: with the whole that holds it, unless that is an item which leaves it out."""
    for end in range(len(leaf), 0, -1):
        found = origins.get(named(leaf[:end]))
        if found is not None:
            is_left_out = end < len(leaf) and isinstance(leaf[end - 1], int)
            return BUILT_IN if is_left_out else found
    return BUILT_IN


def _loaded(app: App) -> config.LoadedConfig:
    return config.load_with_origins(store.find_root(app.cwd), environment=app.environment, home=app.home)


def _cleaned(value: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _cleaned(item, clean) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cleaned(item, clean) for item in value]
    return clean(value) if isinstance(value, str) else value


def _told(value: Any, clean: Callable[[str], str]) -> str:
    return one_line(_cleaned(value, clean))
