"""The config file that `ralph config` is to change: which it is, who may change it now, and writing it whole."""

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rulebook_ralph import config, lineage
from rulebook_ralph.app import App
from rulebook_ralph.commands.task_delivery import deliver
from rulebook_ralph.core.taking import Put, digest
from rulebook_ralph.errors import RalphError
from rulebook_ralph.plain_yaml import NotReadableError, read_yaml
from rulebook_ralph.resources import schema
from rulebook_ralph.state import disk, history, lock, store
from rulebook_ralph.state.store import StateFolder
from rulebook_ralph.workspace.repository import Repository, open_repository

INSIDE_AN_AGENT = "this runs inside an agent's process tree, where the configuration may not be changed"
_BYTE_ORDER_MARK = "\ufeff"


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


def file_of(app: App, *, user: bool) -> ConfigFile:
    """The user's own file, or that of the project around the current folder. Raises RalphError without one."""
    root = store.find_root(app.cwd)
    if user:
        own = config.user_config(app.environment, app.home)
        return ConfigFile(own, str(own), root, is_users=True)
    if root is None:
        raise RalphError("there is no project here; make one (ralph init), or change your own settings: --user")
    return ConfigFile(root / config.PROJECT_CONFIG, config.PROJECT_CONFIG, root, is_users=False)


def text_in(file: ConfigFile, content: bytes) -> str:
    """The readable YAML of a content. Raises RalphError with line and column."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise RalphError(f"{file.shown}: is not UTF-8 text") from None
    try:
        read_yaml(text.removeprefix(_BYTE_ORDER_MARK))
    except NotReadableError as error:
        where = "" if error.line is None else f":{error.line}" + (f":{error.column}" if error.column else "")
        raise RalphError(f"{file.shown}{where}: {error.fault.message}; mend it: ralph config edit") from None
    return text


def require_person(app: App) -> None:
    """Raises RalphError inside an agent's process tree."""
    if lineage.carries_mark(app.environment):
        raise RalphError(INSIDE_AN_AGENT)


def is_run(app: App, file: ConfigFile) -> bool:
    """Whether a run goes on in the project around. Raises RalphError where a dead one must be settled first."""
    repository = _repository(app, file.root)
    if repository is not None and lock.holder(repository.lock_file) is not None:
        return True
    if file.root is not None and not file.is_users:
        _require_settled(StateFolder(file.root))
    return False


def replace(app: App, file: ConfigFile, before: bytes | None, content: bytes) -> str:
    """Replace the file, which had the content `before`: by the run that goes on, if there is one, so that it is not
    put back. Returns what the run says of it, else nothing. Raises RalphError; then nothing was changed.
    """
    require_person(app)
    if not file.is_users:
        put = Put(name=config.CONFIG_NAME, base=digest(before), content=content)
        return deliver(app, put).partition("taken over, ")[2]
    with _undisturbed(app, file):
        write(file, content)
    return ""


@contextmanager
def _undisturbed(app: App, file: ConfigFile) -> Iterator[None]:
    """Nobody runs in the project meanwhile: an agent that lives could be who changes it, so it would be put back.

    Raises RalphError that says who runs and what to do.
    """
    repository = _repository(app, file.root)
    if repository is None:
        yield
        return
    with lock.briefly(repository.lock_file) as running:
        if running is not None:
            raise RalphError(
                f"{running.told()} is working on this project, and what is changed in {file.shown} meanwhile is put "
                "back; when it has ended (ralph pause, ralph cancel), do this again"
            )
        yield


def write(file: ConfigFile, content: bytes) -> None:
    """Replace the file as a whole; one that others may not read stays so. Raises RalphError."""
    path = file.path.resolve()  # the user's own may be a link to where dotfiles are kept
    disk.make_folder(path.parent)
    mode = _mode(path)
    before = os.umask(0o077) if mode is not None else None
    try:
        disk.replace_file(path, content)
        if mode is not None:
            with suppress(OSError):
                path.chmod(mode)
    finally:
        if before is not None:
            os.umask(before)


def write_schema(folder: Path) -> None:
    """Keep the schema that config files name beside them, for editors: it works offline and in every clone."""
    place, content = folder / config.SCHEMA_NAME, _schema_text()
    try:
        is_same = place.read_bytes() == content
    except OSError:
        is_same = False
    if not is_same:
        disk.make_folder(folder)
        disk.replace_file(place, content)


def _schema_text() -> bytes:
    return (json.dumps(schema("config"), indent=2, ensure_ascii=False) + "\n").encode("utf-8")


def _repository(app: App, root: Path | None) -> Repository | None:
    if root is None:
        return None
    try:
        return open_repository(root, app.environment)
    except RalphError:  # then nothing can run in it
        return None


def _require_settled(folder: StateFolder) -> None:
    """What the agent of a run that died may have written is put back at the next start; this would be too."""
    for record in history.unsettled(folder):
        if record.phase == "executing":
            raise RalphError(
                f"the last run ended in the middle of iteration {record.iteration_number} ({record.names}); "
                "run 'ralph resume' first, and change this when it has ended"
            )


def _mode(path: Path) -> int | None:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None
