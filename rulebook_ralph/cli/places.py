"""Where a command works: the project around the current folder, and whether a person gave the command."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rulebook_ralph import entry
from rulebook_ralph.cli.app import App
from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks.disk import StateFolder, find_root

if TYPE_CHECKING:  # not for commands that read a file and are quick
    from rulebook_ralph.config.detection import Discovery
    from rulebook_ralph.config.layers import LoadedConfig
    from rulebook_ralph.config.settings import Config
    from rulebook_ralph.git.repository import Repository
    from rulebook_ralph.run.project import Project


def project_root(app: App) -> Path:
    """The nearest folder upwards with a state folder, else the repository's top. Raises RalphError without either."""
    root = find_root(app.cwd)
    if root is None:
        root = next((folder for folder in (app.cwd, *app.cwd.parents) if (folder / ".git").exists()), None)
    if root is None:
        raise RalphError(f"{app.cwd} is not in a git repository; run 'git init' and make a first commit")
    return root.resolve()


def state_folder(app: App) -> StateFolder:
    """The state folder around the current folder. Raises RalphError where there is none, or on another branch."""
    root = find_root(app.cwd)
    if root is not None:
        return StateFolder(root)
    from rulebook_ralph.run.branch import branch_with_list  # noqa: PLC0415 - git, only where something is amiss

    root, repository = open_root(app)
    if branch := branch_with_list(repository):
        here = repository.branch() or "the commit that is checked out"
        raise RalphError(f"no task list on {here}; it is on branch {branch}: git switch {branch}, or ralph run")
    raise RalphError(f"no task list in {root}; run 'ralph init' first")


def private_folder(folder: StateFolder) -> Path:
    """Ralph's own part of the git folder, found without starting git."""
    return Path(entry.private_folder(str(folder.root)) or folder.root / ".git" / "ralph")


def open_root(app: App) -> "tuple[Path, Repository]":
    """The project's root and repository. Raises RalphError."""
    from rulebook_ralph.git.repository import open_repository  # noqa: PLC0415 - see above

    root = project_root(app)
    return root, open_repository(root, app.environment)


class OpenedProject(NamedTuple):
    """A project with its configuration. `found` are the gates that Ralph found itself, where nobody configured any."""

    project: "Project"
    loaded: "LoadedConfig"
    found: "Discovery | None"


def open_project(app: App, flags: Mapping[str, object] | None = None) -> OpenedProject:
    """The project around the current folder, with its configuration. Raises RalphError."""
    from rulebook_ralph.config.detection import gates_or_found  # noqa: PLC0415 - see above
    from rulebook_ralph.config.layers import load_config  # noqa: PLC0415

    root, repository = open_root(app)
    loaded = load_config(root, app.home, app.environment, flags)
    config, found = gates_or_found(loaded, root, tracked_by(repository), app.environment.get("PATH"))
    return OpenedProject(project_with(app, repository, config), loaded, found)


def project_with(app: App, repository: "Repository", config: "Config") -> "Project":
    """The project around the current folder, with that configuration. Raises RalphError."""
    from rulebook_ralph.git.cache import cache_root  # noqa: PLC0415 - see above
    from rulebook_ralph.run.project import Project  # noqa: PLC0415

    root = project_root(app)
    return Project(
        root=root,
        repository=repository,
        folder=StateFolder(root),
        config=config,
        environment=app.environment,
        home=app.home,
        cache=cache_root(app.environment, app.home),
    )


def tracked_by(repository: "Repository") -> Callable[[Sequence[str]], Collection[str]]:
    """Tells in which of some paths git holds something."""

    def tracked(paths: Sequence[str]) -> Collection[str]:
        return [path for path in paths if repository.text("--literal-pathspecs", "ls-files", "--", path)]

    return tracked


def refuse_agents(app: App, what: str) -> None:
    """Raises RalphError within what an agent or a gate of this project's run started; `what` ends the sentence.

    A mark in the environment tells, and the ancestors, whatever environment was left there.
    """
    from rulebook_ralph.process.tree import carries_mark  # noqa: PLC0415 - psutil

    private = entry.private_folder(str(app.cwd))
    if carries_mark(app.environment) or (private is not None and _within_run(Path(private) / "lock")):
        raise RalphError(f"this runs inside an agent's process tree, where {what}")


def _within_run(lock_file: Path) -> bool:
    import psutil  # noqa: PLC0415 - 20 ms

    from rulebook_ralph.run import lock  # noqa: PLC0415

    holder = lock.holder(lock_file)
    if holder is None or holder.is_elsewhere:
        return False
    try:
        return holder.pid in {parent.pid for parent in psutil.Process().parents()}
    except psutil.Error:
        return False
