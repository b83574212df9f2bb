"""Where `ralph doctor` stands: the project as far as there is one. Finding it changes nothing."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rulebook_ralph.core.model import Prd
from rulebook_ralph.core.settings import Config
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop.project import Project, load_prd
from rulebook_ralph.state import store
from rulebook_ralph.state.store import StateFolder
from rulebook_ralph.workspace.repository import Repository, open_repository, require_commit, top_level


@dataclass(frozen=True, slots=True)
class Settings:
    """The configuration, None where it cannot be read; its files, and what is wrong with it, a line each."""

    config: Config | None
    sources: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """`root` is the project's, else where the command was called. `repository` is None where there is none that Ralph
    can work in, and `no_repository` says why. `prd` is None where there is no readable task list.
    """

    root: Path
    repository: Repository | None
    no_repository: RalphError | None
    has_commit: bool
    settings: Settings
    prd: Prd | None
    prd_bytes: bytes
    environment: Mapping[str, str]
    home: Path

    @property
    def folder(self) -> StateFolder:
        return StateFolder(self.root)

    @property
    def config(self) -> Config:
        """The configuration, the built-in one where it cannot be read."""
        return self.settings.config or Config()

    @property
    def project(self) -> Project | None:
        """The project as a run would have it; None without a repository."""
        if self.repository is None:
            return None
        return Project(self.root, self.folder, self.repository, self.config, self.environment)


def root_of(cwd: Path, environment: Mapping[str, str]) -> Path | None:
    """The project's root as a run finds it, None outside of any."""
    root = store.find_root(cwd)
    if root is None and shutil.which("git", path=environment.get("PATH")):
        with suppress(RalphError, OSError):
            root = top_level(cwd, environment)
    return root.resolve() if root else None


def place(root: Path | None, cwd: Path, settings: Settings, environment: Mapping[str, str], home: Path) -> Place:
    """What is there. `root` is that of `root_of`."""
    here = root or cwd
    repository, problem, has_commit = None, None, False
    try:
        repository = open_repository(here, environment)
        require_commit(repository)
        has_commit = True
    except RalphError as error:
        problem = error
    except OSError as error:
        problem = RalphError(f"git cannot be asked in {here}: {error.strerror}; check the folder's permissions")
    prd, data = _task_list(here)
    return Place(here, repository, problem, has_commit, settings, prd, data, environment, home)


def _task_list(root: Path) -> tuple[Prd | None, bytes]:
    folder = StateFolder(root)
    with suppress(RalphError, OSError):  # `of_ralph` says what is wrong with it
        if folder.prd.is_file():  # a pipe would be waited for
            return load_prd(folder)
    return None, b""


@contextmanager
def private_as_found(repository: Repository | None) -> Iterator[None]:
    """Take away Ralph's folder in the git folder afterwards, where it was not there before and is empty."""
    was_there = repository is None or repository.private.exists()
    try:
        yield
    finally:
        if repository is not None and not was_there:
            with suppress(OSError):
                repository.private.rmdir()
