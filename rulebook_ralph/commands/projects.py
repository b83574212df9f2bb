"""Finding the project a command is about."""

from collections.abc import Mapping
from pathlib import Path

from rulebook_ralph import config
from rulebook_ralph.app import App
from rulebook_ralph.loop.project import Project, open_repository_of, project_root, refuse_second_state
from rulebook_ralph.state.store import StateFolder
from rulebook_ralph.workspace.repository import Repository


def open_project(app: App, *, overrides: Mapping[str, object], command: str) -> Project:
    """The project around the current folder, whole. Raises RalphError."""
    root, repository = open_root(app)
    folder = StateFolder(root)
    if command != "resume":
        refuse_second_state(repository, folder)
    settings = config.load(root, environment=app.environment, home=app.home, overrides=overrides)
    return Project(root, folder, repository, settings, app.environment)


def open_root(app: App) -> tuple[Path, Repository]:
    """The project's root and repository. Raises RalphError."""
    root = project_root(app.cwd, app.environment)
    return root, open_repository_of(root, app.environment)
