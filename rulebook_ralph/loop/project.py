"""A project as a run needs it: root, repository, state folder, configuration, environment."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from rulebook_ralph.core.model import STATE_FOLDER, Prd, Task
from rulebook_ralph.core.notify_urls import without_addresses
from rulebook_ralph.core.settings import Config
from rulebook_ralph.errors import RalphError
from rulebook_ralph.state import codec, store, trust_record
from rulebook_ralph.state.store import StateFolder
from rulebook_ralph.workspace.commits import saved_state, state_references
from rulebook_ralph.workspace.repository import (
    Repository,
    branches_with_state,
    is_left_out,
    open_repository,
    require_commit,
    top_level,
)


@dataclass(frozen=True, slots=True)
class Project:
    """Everything that is fixed for a command. `settings_files` are those that the configuration comes from, whether
    they are there or not, and `reread` makes one of them again; `origins` says where each of its leaves was set.
    `put_back_lock` undoes what an agent did to the lock's file, and returns whether there was anything (state/lock.py).
    """

    root: Path
    folder: StateFolder
    repository: Repository
    config: Config
    environment: Mapping[str, str]
    settings_files: tuple[Path, ...] = ()
    reread: Callable[[], Config] | None = None
    origins: Mapping[str, str] = field(default_factory=dict)
    put_back_lock: Callable[[], bool] = lambda: False

    @property
    def environment_given(self) -> Mapping[str, str]:
        """What agents, gates and hooks get of the environment."""
        return without_addresses(self.environment, self.config.notify.urls)

    @property
    def trust_file(self) -> Path:
        """Where it is recorded, outside the repository, which of its commands a person agreed to."""
        folder = trust_record.trust_folder(self.environment, Path(self.environment.get("HOME") or "/"))
        return trust_record.record_file(folder, self.repository.common_folder)

    @property
    def review_memory(self) -> Path:
        """Where `ralph review` remembers what reviewers said, outside the repository."""
        return self.trust_file.parent.with_name("reviews") / self.trust_file.name

    @property
    def name(self) -> str:
        """The project's name as its task list has it."""
        return store.read_prd(self.folder).project


def project_root(start: Path, environment: Mapping[str, str]) -> Path:
    """The nearest folder upwards with a state folder, else the repository's top. Raises RalphError without either."""
    root = store.find_root(start) or top_level(start, environment)
    if root is None:
        raise RalphError(f"{start} is not in a git repository; run 'git init' and make a first commit")
    return root.resolve()


def open_repository_of(root: Path, environment: Mapping[str, str]) -> Repository:
    """The project's repository, with at least one commit. Raises RalphError."""
    repository = open_repository(root, environment)
    require_commit(repository)
    return repository


def refuse_second_state(repository: Repository, folder: StateFolder) -> None:
    """Raises RalphError where there is no task list here, but one on another branch, or one that was saved."""
    if folder.prd.exists() or folder.prd.is_symlink():
        return
    names = branches_with_state(repository)
    if repository.branch() in names:
        refuse_left_out(repository, folder)
        raise RalphError(f"{folder.prd} is gone, but it is committed here; run 'ralph resume' to restore it")
    if names:
        where = names[0] if len(names) == 1 else f"one of {', '.join(names[:5])}"
        raise RalphError(f"the state is on branch {where}, not here; run: git switch {names[0]}")
    for reference in state_references(repository):
        if "prd.json" in saved_state(repository, reference):
            raise RalphError(
                f"{folder.prd} is gone, but a copy is saved; run 'ralph resume' to restore it "
                f"(or 'git update-ref -d {reference}' to forget it)"
            )


def refuse_left_out(repository: Repository, folder: StateFolder) -> None:
    """Raises RalphError where a sparse checkout leaves the task list out: git would take nothing into the folder."""
    if is_left_out(repository, f"{STATE_FOLDER}/prd.json"):
        told = f"the sparse checkout leaves {folder.path} out"
        raise RalphError(f"{told}; bring it: git sparse-checkout add {STATE_FOLDER}")


def load_prd(folder: StateFolder) -> tuple[Prd, bytes]:
    """The task list with the bytes it was read from; a task that a person set back to pending starts its attempts anew.

    Raises RalphError.
    """
    data = store.read_prd_bytes(folder)
    prd = codec.decode_prd(data, name=str(folder.prd))
    if not prd.tasks:
        raise RalphError(f"{folder.prd} has no tasks; add some: ralph plan, ralph task add, or ralph init FOLDER")
    tasks = tuple(_anew(task) if task.status == "pending" else task for task in prd.tasks)
    return replace(prd, tasks=tasks), data


def _anew(task: Task) -> Task:
    if task.blocked_reason is None and task.completed_at is None:
        return task
    return replace(task, attempts={}, blocked_reason=None, completed_at=None)
