"""Whether a person agreed to the commands of a project: what came with a clone or an import waits for `ralph trust`.

In a project that is known here (`ralph init` made it, `ralph trust` was given, or no commit holds its state), a new
command is a person's own unless a branch, tag or fetched commit holds it, or it was imported; then it counts as agreed
to from there on.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from rulebook_ralph import config
from rulebook_ralph.app import App
from rulebook_ralph.commands.held_versions import digests_held, hold_state, tips_of
from rulebook_ralph.core.configured_commands import ConfiguredCommand, commands_of_config, commands_of_tasks
from rulebook_ralph.core.enumeration import counted
from rulebook_ralph.core.model import PRD_VERSION, Json, Task
from rulebook_ralph.core.problem import escaped
from rulebook_ralph.core.settings import Config
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop.project import Project
from rulebook_ralph.state import codec, store, trust_record
from rulebook_ralph.state.store import StateFolder
from rulebook_ralph.workspace.git import GitError
from rulebook_ralph.workspace.repository import Repository, open_repository

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Commands:
    """All that the project can have run, each once, and those among them that nobody agreed to."""

    all: tuple[ConfiguredCommand, ...]
    strange: tuple[ConfiguredCommand, ...]


def require_agreed(app: App, project: Project, *, trusted: bool = False, tips: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Raises RalphError where a command was not agreed to; `trusted` is `--trust-commands`. Returns the tips that a
    command may have come with, for `adopt`: those of the repository as it is now, unless they are given.
    """
    if trusted:
        return ()
    tips = tips or tips_of(project.repository)
    found = commands_of(app, project, tips)
    if found.strange:
        raise RalphError(_refusal(project.root, found.strange))
    return tips


def refused_at(app: App, root: Path, loaded: config.LoadedConfig) -> str:
    """Why the commands of the project at `root` may not be run, as one line, whatever else is wrong there; or empty."""
    try:
        repository = open_repository(root, app.environment)
    except RalphError:
        repository = None
    try:
        tasks = _tasks(StateFolder(root))
    except (RalphError, OSError):
        tasks = ()
    try:
        tips = tips_of(repository) if repository is not None else ()
        strange = _look(app, root, repository, _every(loaded.config, loaded.origins, tasks), tips).strange
    except (RalphError, GitError) as error:
        return str(error)
    return _refusal(root, strange) if strange else ""


def _refusal(root: Path, strange: tuple[ConfiguredCommand, ...]) -> str:
    more = f" and {len(strange) - _SHOWN} more" if len(strange) > _SHOWN else ""
    told = "; ".join(escaped(f"{each.place}: {each.text}") for each in strange[:_SHOWN])
    them, it = counted(len(strange), "command"), "it" if len(strange) == 1 else "them"
    return (
        f"nobody here has agreed to {them} that came with {root} ({told}{more}); look at {it} and agree: "
        "ralph trust (in CI: --trust-commands)"
    )


def adopt(app: App, project: Project, tips: tuple[str, ...]) -> None:
    """Agree to what a person wrote while a run went on, which is in its commits by now; `tips` are those before it."""
    if not tips:
        return
    try:
        commands_of(app, project, tips)
    except RalphError:
        return


def commands_of(app: App, project: Project, tips: tuple[str, ...] | None = None) -> Commands:
    """The commands of the project. What is a person's own and new is written down as agreed to. Raises RalphError."""
    every = _every(project.config, project.origins, _tasks(project.folder))
    return _look(app, project.root, project.repository, every, tips)


def _every(settings: Config, origins: Mapping[str, str], tasks: tuple[Task, ...]) -> dict[str, ConfiguredCommand]:
    return {each.digest: each for each in (*_of_settings(settings, origins), *commands_of_tasks(tasks))}


def _look(
    app: App,
    root: Path,
    repository: Repository | None,
    every: dict[str, ConfiguredCommand],
    tips: tuple[str, ...] | None,
) -> Commands:
    folder = trust_record.trust_folder(app.environment, app.home)
    known_as = repository.common_folder if repository is not None else root / ".git"
    record = trust_record.read(folder, known_as)
    if record is None:
        is_own = repository is not None and not hold_state(repository, tips_of(repository) if tips is None else tips)
        if not (is_own and _written(folder, known_as, frozenset(every))):
            return Commands(tuple(every.values()), tuple(every.values()))
        return Commands(tuple(every.values()), ())
    new = every.keys() - record.agreed
    if not new:
        return Commands(tuple(every.values()), ())
    came = new & record.imported
    if new - came and repository is not None:
        asked = {digest: every[digest] for digest in new - came}
        came |= digests_held(repository, tips_of(repository) if tips is None else tips, asked)
    if own := frozenset(new - came):
        with suppress(RalphError):  # where nothing can be written, they are found again to be a person's own
            trust_record.write(folder, known_as, agreed=record.agreed | own, imported=record.imported)
    return Commands(tuple(every.values()), tuple(each for digest, each in every.items() if digest in came))


def _written(folder: Path, known_as: Path, agreed: frozenset[str]) -> bool:
    try:
        trust_record.write(folder, known_as, agreed=agreed)
    except RalphError:
        return False
    return True


def agree(app: App, project: Project, commands: Iterable[ConfiguredCommand]) -> None:
    """Write down that a person agreed. Raises RalphError."""
    folder = trust_record.trust_folder(app.environment, app.home)
    before = trust_record.read(folder, project.repository.common_folder) or trust_record.TrustRecord(repository="")
    after = before.with_agreed(frozenset(each.digest for each in commands))
    trust_record.write(folder, project.repository.common_folder, agreed=after.agreed, imported=after.imported)


def begin(app: App, project: Project, *, imported: Iterable[Task], made: bool) -> tuple[ConfiguredCommand, ...]:
    """After an import: the project is known from here on where it was `made` here, or written by hand, so that no
    commit holds it. Returns the commands that the tasks brought and that still have to be agreed to. Raises RalphError
    where that cannot be written down.
    """
    folder = trust_record.trust_folder(app.environment, app.home)
    record = trust_record.read(folder, project.repository.common_folder)
    brought = {each.digest: each for each in commands_of_tasks(imported)}
    if record is None and not made and hold_state(project.repository, tips_of(project.repository)):
        return tuple(brought.values())
    agreed = record.agreed if record else frozenset[str]()
    if record is None:
        every = _every(project.config, project.origins, () if made else _tasks(project.folder))
        agreed = frozenset(every.keys() - brought.keys()) | frozenset(
            each.digest for each in _of_settings(project.config, project.origins)
        )
    waiting = frozenset(brought.keys() - agreed)
    if record is None or waiting - record.imported:
        before = record.imported if record else frozenset[str]()
        trust_record.write(folder, project.repository.common_folder, agreed=agreed, imported=before | waiting)
    return tuple(each for digest, each in brought.items() if digest in waiting)


class _WithCriteria(msgspec.Struct, gc=False):
    id: str
    completion: dict[str, Json] = {}


class _Criteria(msgspec.Struct, gc=False):
    """Of a task list what can hold commands: a run reads the whole of it later, and it may have thousands of tasks."""

    version: int = PRD_VERSION
    tasks: tuple[_WithCriteria, ...] = ()


def _tasks(folder: StateFolder) -> tuple[Task, ...]:
    """The tasks that may have commands, with no more than these; all of a list that cannot be read so. Raises
    RalphError where it cannot be read at all.
    """
    if not folder.prd.exists() and not folder.prd.is_symlink():
        return ()
    data = store.read_prd_bytes(folder)
    try:
        found = msgspec.json.decode(data, type=_Criteria)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = None
    if found is None or found.version > PRD_VERSION:
        return codec.decode_prd_quick(data, name=str(folder.prd)).tasks
    return tuple(Task(id=each.id, title="", completion=each.completion) for each in found.tasks if each.completion)


def _of_settings(settings: Config, origins: Mapping[str, str]) -> Iterable[ConfiguredCommand]:
    """Of the project's own file; what the user's file or the command line says is the user's."""

    def of_project(key: str) -> bool:
        return config.PROJECT_CONFIG in origins.get(key, "")

    return commands_of_config(
        settings,
        executors=of_project("tools.executors"),
        gates=of_project("verification.steps"),
        hooks=of_project("hooks"),
        setup=of_project("workspace.setup"),
    )
