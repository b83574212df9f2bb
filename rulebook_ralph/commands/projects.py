"""Finding the project a command is about."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from rulebook_ralph import config
from rulebook_ralph.app import App
from rulebook_ralph.core import events
from rulebook_ralph.core.enumeration import counted
from rulebook_ralph.core.settings import Config
from rulebook_ralph.descendants import end_what_was_left_by
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop.project import (
    Project,
    open_repository_of,
    project_root,
    refuse_left_out,
    refuse_second_state,
)
from rulebook_ralph.state.holder import here
from rulebook_ralph.state.lock import Dead
from rulebook_ralph.state.store import StateFolder
from rulebook_ralph.workspace.repository import Repository, branches_with_state

_MOST_TOLD = 20


def open_project(
    app: App, *, overrides: Mapping[str, object], opened: tuple[Path, Repository] | None = None
) -> Project:
    """The project around the current folder, whole; its root and repository where they are `opened` already. Raises
    RalphError.
    """
    root, repository = opened or open_root(app)
    folder = StateFolder(root)
    refuse_second_state(repository, folder)

    def read() -> config.LoadedConfig:
        return config.load_with_origins(root, environment=app.environment, home=app.home, overrides=overrides)

    files = (config.user_config(app.environment, app.home), folder.config)
    loaded = read()
    return Project(
        root, folder, repository, loaded.config, app.environment, files, lambda: read().config, loaded.origins
    )


def open_root(app: App) -> tuple[Path, Repository]:
    """The project's root and repository. Raises RalphError."""
    root = project_root(app.cwd, app.environment)
    return root, open_repository_of(root, app.environment)


def bring_back_state(
    app: App, opened: tuple[Path, Repository], report: Callable[[events.Event], None], *, command: str
) -> None:
    """Put back what a dead run's agent changed in the state folder; `resume` also brings back a task list that is gone
    for any other reason. The project's lock must be held.
    """
    from rulebook_ralph.loop import distrust, recovery  # noqa: PLC0415 - most of the loop, which most commands do without

    root, repository = opened
    found = Project(root, StateFolder(root), repository, Config(), app.environment)

    def notice(level: str, text: str) -> None:
        report(events.Notice("warning" if level == "warning" else "info", text))

    if command == "resume":
        names = branches_with_state(repository)
        if not names or repository.branch() in names:
            refuse_left_out(repository, found.folder)
            recovery.restore_missing_state(found, notice)
    distrust.put_back_state(found, notice)


def end_orphans(dead: Dead, report: Callable[[events.Event], None], *, within: Collection[Path] = ()) -> None:
    """End what dead holders of the lock left running: it would work beside the new one; then the lock forgets them.

    Processes that may be theirs, for they work in one of the folders `within`, are only told of: they may be a
    person's. Raises RalphError where one cannot be ended; then the lock still names all the dead.
    """
    machine = here()
    dead_here = [one for one in dead.holders if one.pid > 0 and not machine.has_restarted_since(one)]
    for one in dead_here:
        ended, remain = end_what_was_left_by(one.pid)
        if remain:
            raise RalphError(
                f"{counted(remain, 'process', 'processes')} that the dead run (process {one.pid}) left cannot be "
                "ended; end what is left first"
            )
        if ended:
            many = counted(ended, "process", "processes")
            report(events.Notice("warning", f"ended {many} that the dead run (process {one.pid}) left running"))
    dead.ended()
    starts = [one.started for one in dead_here if one.started and not machine.is_other(one)]
    if starts and within:
        _tell_of_suspects(min(starts), within, report)


def _tell_of_suspects(since: int, within: Collection[Path], report: Callable[[events.Event], None]) -> None:
    from rulebook_ralph.process_search import orphans_within  # noqa: PLC0415 - only after a death

    if pids := [str(pid) for pid in orphans_within(within, since=since)]:
        text = f"{counted(len(pids), 'process', 'processes')} at work in this project may be the dead run's"
        report(
            events.Notice("warning", f"{text}; look, and end what is not yours: ps -fp {','.join(pids[:_MOST_TOLD])}")
        )
