"""What a run works on, what is asked of it, and what is around it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event as Flag
from typing import Literal

from rulebook_ralph.agents.agent import Agent
from rulebook_ralph.clock import Clock
from rulebook_ralph.config.settings import Config
from rulebook_ralph.git.repository import Repository
from rulebook_ralph.report.events import Event
from rulebook_ralph.tasks.disk import StateFolder

Say = Callable[[Literal["info", "warning"], str], None]
"""How something is said to the person outside the rhythm of iterations."""


def _as_it_is() -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """The user's repository with its state folder and configuration. `environment` is what agents, gates and git get;
    `cache` is the folder for Ralph's clones.
    """

    root: Path
    repository: Repository
    folder: StateFolder
    config: Config
    environment: Mapping[str, str]
    home: Path
    cache: Path

    @property
    def private(self) -> Path:
        """The folder in the git folder for the lock and the running agents' raw output."""
        return self.repository.private

    @property
    def private_folders(self) -> tuple[Path, ...]:
        """Ralph's own folders beside the repository and the cache, which nothing in a box can reach."""
        names = ((".config", "XDG_CONFIG_HOME"), (".local/state", "XDG_STATE_HOME"))
        bases = (Path(self.environment.get(variable) or self.home / default) for default, variable in names)
        return tuple(base / "rulebook-ralph" for base in bases)

    def output_file(self, number: int) -> Path:
        """Where the raw output of an iteration's agent is streamed to."""
        return self.private / f"output-{number}.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What is asked of one run. `only` are the ids of tasks, empty for all; `reopen` the blocked ones that are tried
    once more, None for all of them; `again` is the command that goes on. `session_of` is the name of a project in whose
    tree a session works: its task list is the saved one, and edits of the file wait for the next start.
    """

    command: str = "run"
    only: tuple[str, ...] = ()
    retry_blocked: bool = True
    reopen: tuple[str, ...] | None = None
    strict: bool = False
    branch: str = ""
    again: str = "ralph resume"
    session_of: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What is around a run: who hears what happens, the time, and what ends it. `reread` reads the configuration again,
    where edits of it count; `session` is an agent that works in the person's own tree, in place of all others.
    """

    report: Callable[[Event], None]
    clock: Clock
    cancelled: Flag
    reread: Callable[[], Config | None] = _as_it_is
    session: Agent | None = None
