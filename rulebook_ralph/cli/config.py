"""`ralph config`: the settings that hold here, where each comes from, and changing them."""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from rulebook_ralph.agents.roster import Roster
from rulebook_ralph.cli.app import App, json_object
from rulebook_ralph.cli.places import refuse_agents
from rulebook_ralph.cli.validate import agent_problems
from rulebook_ralph.config.editing import block_lines, one_line, with_value, without
from rulebook_ralph.config.keys import KeyPlace, given_value, has, in_camel, named, place_of, value_at
from rulebook_ralph.config.layers import (
    BUILT_IN,
    PROJECT_CONFIG,
    LoadedConfig,
    config_files,
    load_config,
    problems_in,
    user_config,
)
from rulebook_ralph.config.template import SCHEMA_HINT, commented_config, keep_schema
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.tasks import disk
from rulebook_ralph.tasks.disk import find_root
from rulebook_ralph.tasks.plain_yaml import NotReadableError, read_yaml
from rulebook_ralph.tasks.text import JsonPath
from rulebook_ralph.verify.redaction import MARK, Redactor

_SHOWN = 10
_USER = click.option("--user", is_flag=True, help="In your own file, for all projects, not in the project's.")


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A config file, the user's own or the project's. `root` is that of the project around the current folder."""

    path: Path
    shown: str
    root: Path | None

    def read(self) -> bytes | None:
        """Its content, None where it is not there. Raises RalphError."""
        try:
            return disk.read_file(self._target)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise RalphError(f"{self.shown}: cannot be read: {error.strerror or error}") from None

    def text(self) -> str:
        """The readable YAML in it, that of a new file where it is not there. Raises RalphError with line and column."""
        content = self.read()
        if content is None:
            return SCHEMA_HINT
        try:
            text = content.decode("utf-8-sig")
            read_yaml(text)
        except UnicodeDecodeError:
            raise RalphError(f"{self.shown}: is not UTF-8 text") from None
        except NotReadableError as error:
            where = "" if error.line is None else f":{error.line}" + (f":{error.column}" if error.column else "")
            raise RalphError(f"{self.shown}{where}: {error.fault.message}; mend it: ralph config edit") from None
        return text

    def write(self, content: bytes) -> None:
        """Replace the file as a whole, and the schema beside it; one that others may not read stays so. Raises
        RalphError.
        """
        path = self._target
        disk.make_folder(path.parent)
        umask = os.umask(0o077)
        try:
            mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o666 & ~umask
            disk.replace_file(path, content)
            with suppress(OSError):
                path.chmod(mode)
        finally:
            os.umask(umask)
        keep_schema(self.path.parent)

    @property
    def _target(self) -> Path:
        """The user's own may be a link to where dotfiles are kept."""
        return self.path if self.shown == PROJECT_CONFIG else self.path.resolve()


@click.group()
def config_command() -> None:
    """See and change settings: built-in values, then your own file (--user), the project's, RALPH_* variables and
    flags; what comes later wins.

    Maps are merged, a list replaces the one before it, and one under a key with a `+` (`+rules`) is added to it.
    KEY is as in limits.maxCostUsd, verification.steps.0.timeout or tools.executors.claude.model.
    """


@config_command.command("show", short_help="The settings that hold here; with --origin where each comes from")
@click.argument("key", required=False)
@click.option("--origin", is_flag=True, help="Say of each value where it was set.")
@json_object
@click.pass_obj
def show_command(app: App, /, *, key: str | None, origin: bool, json: bool) -> None:
    """Print the settings that hold here, or those under KEY: of all files, variables and built-in values.

    Secrets are left out.
    """
    loaded = load_config(find_root(app.cwd), app.home, app.environment)
    values = loaded.values
    path = place_of(key, values).path if key else ()
    shown = value_at(values, path)
    origins = {leaf: _origin_of(leaf, loaded.origins) for leaf in _leaves(shown, path) if leaf} if origin else {}
    with app.console(json=json, clean=Redactor(Roster(loaded.config, app.environment).secrets()).clean) as console:
        if json:
            where = {"origins": {named(leaf): told for leaf, told in origins.items()}} if origin else {}
            console.json({"config": shown, **where, "files": [str(file) for file in loaded.files]})
        elif origin:
            rows = ((named(leaf), one_line(value_at(values, leaf)), told) for leaf, told in origins.items())
            console.table(("key", "value", "origin"), rows)
        else:
            console.verbatim("\n".join(block_lines(shown)))


@config_command.command("get", short_help="One value, as it holds here")
@click.argument("key")
@click.pass_obj
def get_command(app: App, /, *, key: str) -> ExitCode:
    """Print the value that holds here for KEY: a text as it is, everything else as YAML.

    A secret that your environment holds too is left out, as everywhere; then stderr says so, and the exit code is 2.
    """
    values = load_config(find_root(app.cwd), app.home, app.environment).values
    value = value_at(values, place_of(key, values).path)
    text = value or "\n" if isinstance(value, str) else "\n".join(block_lines(value))
    with app.console() as console:
        console.verbatim(text)
        if Redactor(app.environment).clean(text) == text:
            return ExitCode.OK
        where = "'ralph config show --origin' says where it stands"
        console.error(f"{key} holds a secret, which is shown as {MARK}; {where}")
    return ExitCode.INVALID


@config_command.command(
    "set", short_help="Change a value; all else in the file stays", context_settings={"ignore_unknown_options": True}
)
@click.argument("key")
@click.argument("value")
@_USER
@click.pass_obj
def set_command(app: App, /, *, key: str, value: str, user: bool) -> None:
    """Set KEY to VALUE in the project's config.yaml; comments, order and everything else in it stay.

    VALUE is a text where a text belongs, else YAML: 5, 15m, true, null, "[a, b]", "{input: 1, output: 2}". Nothing is
    written unless the key is known, the value fits, and the configuration as a whole is valid.
    """
    file = _to_change(app, user=user)
    text = file.text()
    place = _place(file, key, read_yaml(text).value, also_new=True)
    new = given_value(value, place)
    changed = with_value(text, place.path, new)
    loaded = _change(app, file, changed)
    with app.console() as console:
        line = read_yaml(changed).line(place.path)
        console.line(f"{file.shown}{'' if line is None else f':{line}'}: {place.shown}: {one_line(new)}")
        if overruled := _overruled(file, place, loaded):
            console.line(overruled)


@config_command.command("unset", short_help="Take a value out of the file")
@click.argument("key")
@_USER
@click.pass_obj
def unset_command(app: App, /, *, key: str, user: bool) -> None:
    """Take KEY out of the project's config.yaml; what the other files, or built-in values, say holds again."""
    file = _to_change(app, user=user)
    text = file.text()
    values = read_yaml(text).value
    place = _place(file, key, values)
    if not has(values, place.path):
        raise RalphError(f"{place.shown} is not set in {file.shown}; where it is: ralph config show --origin {key}")
    loaded = _change(app, file, without(text, place.path))
    path = in_camel(place.path)
    origin, left = loaded.origins.get(named(path)), value_at(loaded.values, path)
    now = "" if origin is None or isinstance(left, Mapping) else f"; now {one_line(left)} ({origin})"
    with app.console() as console:
        console.line(f"{file.shown}: {place.shown} is no longer set{now}")


@config_command.command("edit", short_help="The file in your editor, looked at afterwards")
@click.option("--user", is_flag=True, help="Your own file, for all projects, not the project's.")
@click.pass_obj
def edit_command(app: App, /, *, user: bool) -> ExitCode:
    """Open the project's config.yaml in $VISUAL or $EDITOR, and look at it afterwards.

    What you wrote stays, also when something is wrong in it; then each problem is told with its line, and the exit code
    is 2.
    """
    file = _to_change(app, user=user)
    if file.read() is None:
        file.write(commented_config().encode("utf-8"))
    app.edit(file.path, otherwise="change single values: ralph config set KEY VALUE")
    problems = _problems(app, file)
    with app.console() as console:
        for problem in problems[:_SHOWN]:
            console.error(problem)
        if problems:
            console.error(f"what you wrote is kept; mend {file.shown}: ralph config edit")
            return ExitCode.INVALID
        console.line(f"{file.shown}: no problems")
    return ExitCode.OK


@config_command.command("path", short_help="The files that are read, in order")
@click.option("--user", is_flag=True, help="Your own file alone.")
@click.pass_obj
def path_command(app: App, /, *, user: bool) -> None:
    """Print the files that settings are read from, in this order; what comes later wins."""
    with app.console() as console:
        for file, _ in config_files(None if user else find_root(app.cwd), app.home, app.environment):
            console.line(str(file) if user or file.exists() else f"{file} (not there)")


def _to_change(app: App, *, user: bool) -> ConfigFile:
    """The user's own file, or that of the project around the current folder. Raises RalphError without one, and within
    an agent's process tree.
    """
    refuse_agents(app, "the configuration may not be changed")
    root = find_root(app.cwd)
    if user:
        own = user_config(app.home, app.environment)
        return ConfigFile(own, str(own), root)
    if root is None:
        raise RalphError("there is no project here; make one (ralph init), or change your own settings: --user")
    return ConfigFile(root / PROJECT_CONFIG, PROJECT_CONFIG, root)


def _change(app: App, file: ConfigFile, text: str) -> LoadedConfig:
    """Write the file with another text, and return the configuration as it is then. Raises RalphError, with nothing
    written, where `ralph validate` would find something wrong with it that is right so far.
    """
    content = text.encode()
    try:
        loaded = load_config(file.root, app.home, app.environment, instead={file.path: content})
    except RalphError as error:
        raise RalphError(f"{error}; {file.shown} was not changed") from None
    before = set[str]()
    with suppress(RalphError):
        now = load_config(file.root, app.home, app.environment).config
        before = {problem.message for problem in agent_problems(app, file.root, now)}
    for problem in agent_problems(app, file.root, loaded.config):
        if problem.message not in before:
            raise RalphError(f"{problem.path}: {problem.message}; {file.shown} was not changed")
    file.write(content)
    return loaded


def _problems(app: App, file: ConfigFile) -> tuple[str, ...]:
    """All that is wrong in the file, else what is wrong with it and the other files together."""
    if found := problems_in(file.path, file.shown):
        return tuple(map(str, found))
    try:
        config = load_config(file.root, app.home, app.environment).config
    except RalphError as error:
        return (str(error),)
    return tuple(map(str, agent_problems(app, file.root, config)))


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
