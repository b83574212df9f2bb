"""Finding the project a command is about."""

from collections.abc import Callable, Mapping
from pathlib import Path

from rulebook_ralph import config
from rulebook_ralph.app import App
from rulebook_ralph.core import events
from rulebook_ralph.core.settings import Config
from rulebook_ralph.descendants import end_what_was_left_by
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop import recovery
from rulebook_ralph.loop.project import Project, open_repository_of, project_root, refuse_second_state
from rulebook_ralph.state.lock import Holder
from rulebook_ralph.state.store import StateFolder
from rulebook_ralph.workspace.repository import Repository, branches_with_state


def open_project(app: App, *, overrides: Mapping[str, object]) -> Project:
    """The project around the current folder, whole. Raises RalphError."""
    root, repository = open_root(app)
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


def bring_back_state(app: App, report: Callable[[events.Event], None], *, command: str) -> None:
    """Put back what a dead run's agent changed in the state folder, and for `resume` what it deleted; the project's
    lock must be held.
    """
    root, repository = open_root(app)
    found = Project(root, StateFolder(root), repository, Config(), app.environment)

    def notice(level: str, text: str) -> None:
        report(events.Notice("warning" if level == "warning" else "info", text))

    names = branches_with_state(repository)
    if command == "resume" and (not names or repository.branch() in names):
        recovery.restore_missing_state(found, notice)
    recovery.distrust_state(found, notice)


def end_orphans(dead: Holder, report: Callable[[events.Event], None]) -> None:
    """End what a dead run left running: it would work beside the new one. Raises RalphError where that fails."""
    if dead.pid == 0:
        return
    ended, remain = end_what_was_left_by(dead.pid)
    if remain:
        raise RalphError(
            f"{remain} processes that the dead run (process {dead.pid}) left cannot be ended; end them first"
        )
    if ended:
        report(events.Notice("warning", f"ended {ended} processes that the dead run (process {dead.pid}) left running"))
