"""The config file that `ralph config` is to change: which it is, who may change it, writing it whole, editing it."""

import os
import shlex
import shutil
import stat
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click

from rulebook_ralph.cli.app import App
from rulebook_ralph.cli.places import refuse_agents
from rulebook_ralph.config import schemas
from rulebook_ralph.config.layers import PROJECT_CONFIG, load_config, problems_in, user_config
from rulebook_ralph.config.template import commented_config
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.process.orphans import carries_mark
from rulebook_ralph.tasks import disk
from rulebook_ralph.tasks.disk import find_root
from rulebook_ralph.tasks.plain_yaml import NotReadableError, read_yaml

_BYTE_ORDER_MARK = "\ufeff"
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

    def text_in(self, content: bytes) -> str:
        """The readable YAML of a content. Raises RalphError with line and column."""
        try:
            text = content.decode("utf-8")
            read_yaml(text.removeprefix(_BYTE_ORDER_MARK))
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
        self.write_schema()

    def write_schema(self) -> None:
        """Keep the schema that config files name beside them, for editors: it works offline and in every clone."""
        place, content = self.path.parent / schemas.CONFIG_SCHEMA_NAME, schemas.encoded("config")
        if not place.is_file() or place.read_bytes() != content:
            disk.replace_file(place, content)


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


def edit(app: App, file: ConfigFile) -> ExitCode:
    """Have the person edit the file, again while something is wrong in it and they want to. Raises RalphError."""
    editor = _editor(app)
    if file.read() is None:
        file.write(commented_config().encode("utf-8"))
    while True:
        ended = subprocess.run([*editor, str(file.path)], cwd=app.cwd, env=app.environment, check=False)
        if ended.returncode != 0:
            raise RalphError(f"the editor ended with {ended.returncode}; see what stands in {file.shown}")
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


def _editor(app: App) -> list[str]:
    """Raises RalphError where there is none."""
    given = app.environment.get("VISUAL") or app.environment.get("EDITOR") or ("vi" if app.stdout.isatty() else "")
    try:
        words = shlex.split(given)
    except ValueError as error:
        raise RalphError(f"EDITOR ({given}) cannot be split into words: {error}") from None
    if not words or shutil.which(words[0], path=app.environment.get("PATH")) is None:
        told = f"there is no editor '{words[0]}'" if words else "no editor is set"
        raise RalphError(f"{told}; set EDITOR, or change single values: ralph config set KEY VALUE")
    return words


def _problems(app: App, file: ConfigFile) -> tuple[str, ...]:
    """All that is wrong in the file, else what is wrong with it and the other files together."""
    if found := problems_in(file.path, file.shown):
        return tuple(map(str, found))
    try:
        load_config(file.root, app.home, app.environment)
    except RalphError as error:
        return (str(error),)
    return ()
