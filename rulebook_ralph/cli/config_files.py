"""The config file that `ralph config` is to change: which it is, who may change it, writing it whole, editing it."""

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click

from rulebook_ralph.cli.app import App
from rulebook_ralph.cli.places import refuse_agents
from rulebook_ralph.cli.validate import agent_problems
from rulebook_ralph.config.layers import PROJECT_CONFIG, LoadedConfig, load_config, problems_in, user_config
from rulebook_ralph.config.template import SCHEMA_HINT, commented_config, keep_schema
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.process.orphans import carries_mark
from rulebook_ralph.tasks import disk
from rulebook_ralph.tasks.disk import find_root
from rulebook_ralph.tasks.plain_yaml import NotReadableError, read_yaml

_SHOWN = 10
_NOT_HERE = "the configuration may not be changed"


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A config file, the user's own or the project's. `root` is that of the project around the current folder."""

    path: Path
    shown: str
    root: Path | None
    is_users: bool

    def read(self) -> bytes | None:
        """Its content, None where it is not there. Raises RalphError."""
        if self.path.is_symlink() and not self.is_users:
            raise RalphError(f"{self.path} {disk.IS_LINK}")
        if self.path.exists() and not self.path.is_file():
            raise RalphError(f"{self.shown}: is no regular file")
        try:
            return self.path.read_bytes()
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
        path = self.path.resolve()  # the user's own may be a link to where dotfiles are kept
        disk.make_folder(path.parent)
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
        before = os.umask(0o077) if mode is not None else None
        try:
            disk.replace_file(path, content)
            if mode is not None:
                with suppress(OSError):
                    path.chmod(mode)
        finally:
            if before is not None:
                os.umask(before)
        keep_schema(self.path.parent)


def to_change(app: App, *, user: bool) -> ConfigFile:
    """The user's own file, or that of the project around the current folder. Raises RalphError without one, and within
    an agent's process tree.
    """
    root = find_root(app.cwd)
    if root is not None:
        refuse_agents(app, _NOT_HERE)
    elif carries_mark(app.environment):
        raise RalphError(f"this runs inside an agent's process tree, where {_NOT_HERE}")
    if user:
        own = user_config(app.home, app.environment)
        return ConfigFile(own, str(own), root, is_users=True)
    if root is None:
        raise RalphError("there is no project here; make one (ralph init), or change your own settings: --user")
    return ConfigFile(root / PROJECT_CONFIG, PROJECT_CONFIG, root, is_users=False)


def change(app: App, file: ConfigFile, text: str) -> LoadedConfig:
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


def edit(app: App, file: ConfigFile) -> ExitCode:
    """Have the person edit the file, again while something is wrong in it and they want to. Raises RalphError."""
    editor = app.environment.get("VISUAL") or app.environment.get("EDITOR") or None
    if editor is None and not app.has_person:
        raise RalphError("no editor is set; set EDITOR, or change single values: ralph config set KEY VALUE")
    if file.read() is None:
        file.write(commented_config().encode("utf-8"))
    while True:
        try:
            click.edit(filename=str(file.path), editor=editor, env=app.environment)
        except (click.ClickException, ValueError) as error:
            raise RalphError(f"{error}; set EDITOR, or see what stands in {file.shown}") from None
        problems = _problems(app, file)
        with app.console() as console:
            for problem in problems[:_SHOWN]:
                console.error(problem)
            if not problems:
                console.line(f"{file.shown}: no problems")
                return ExitCode.OK
        if not (app.has_person and click.confirm("Edit it again?", default=True)):
            app.error(f"what you wrote is kept; mend {file.shown}: ralph config edit")
            return ExitCode.INVALID


def _problems(app: App, file: ConfigFile) -> tuple[str, ...]:
    """All that is wrong in the file, else what is wrong with it and the other files together."""
    if found := problems_in(file.path, file.shown):
        return tuple(map(str, found))
    try:
        config = load_config(file.root, app.home, app.environment).config
    except RalphError as error:
        return (str(error),)
    return tuple(map(str, agent_problems(app, file.root, config)))
