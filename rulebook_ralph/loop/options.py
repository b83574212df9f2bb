"""What the command line asks of a run."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunOptions:
    """`only` are the ids of the tasks to work on, all where empty; `reopen`, where given, the only blocked ones that
    `retry_blocked` tries again. `again` is the command that goes on as this one did.
    """

    command: str = "run"
    only: tuple[str, ...] = ()
    retry_blocked: bool = True
    strict: bool = False
    trust_agent: bool = False
    reopen: frozenset[str] | None = None
    again: str = "ralph resume"
