"""What a loop in an interactive session knows of itself between two stops, and what is done where it died."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from rulebook_ralph.config.settings import InsistentConfig
from rulebook_ralph.entry import SESSION_NOTE
from rulebook_ralph.errors import RalphError
from rulebook_ralph.git import attempts
from rulebook_ralph.git.user_tree import UserTree
from rulebook_ralph.run.journal import Journal
from rulebook_ralph.run.project import Project
from rulebook_ralph.tasks import disk
from rulebook_ralph.tasks.iteration import Iteration
from rulebook_ralph.tasks.model import Value
from rulebook_ralph.verify.gates import GateRun
from rulebook_ralph.verify.redaction import Redactor

Driver = Literal["ralph", "ralph-loop"]
"""What keeps a session going: Ralph's Stop hook, or the official plugin."""

_MOST_BYTES = 1 << 26


class SessionNote(Value, frozen=True, kw_only=True):
    """A file in Ralph's part of the git folder. `since` is an ISO time; `config` is the configuration as it stood then.

    `tasks` is how many tasks it works on at most; `iteration` the one at work, since `opened_at`; `transcripts_read`
    how many bytes of each transcript were taken into account; `row` after how many answers in a row no tool was used.
    `gates` is what the gates said of the commit that the iteration began on. All else is what a run knows of itself
    while it goes on.
    """

    session_id: str
    since: str
    config: InsistentConfig
    project: str
    driver: Driver = "ralph"
    tasks: int | None = None
    iteration: int | None = None
    opened_at: str = ""
    transcripts_read: dict[str, int] = {}
    row: int = 0
    iterations: int = 0
    max_iterations: int = 0
    cost_usd: float = 0.0
    tokens: int = 0
    reopen: tuple[str, ...] = ()
    touched: dict[str, str | None] = {}
    alone: tuple[str, ...] = ()
    stuck: tuple[str, ...] = ()
    reviews: int = 0
    blocked_for: str = ""
    blocked_alike: int = 0
    spent: dict[str, float] = {}
    checks_base: str = ""
    gates: tuple[GateRun, ...] = ()


def read(private: Path) -> SessionNote | None:
    """None where no session's loop goes on. Raises RalphError for a note that cannot be read."""
    path = private / SESSION_NOTE
    try:
        return msgspec.json.decode(disk.read_file(path, largest=_MOST_BYTES), type=SessionNote)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RalphError(f"{path} cannot be read ({str(error)[:100]}); remove it, then: ralph resume") from None


def write(private: Path, note: SessionNote) -> None:
    """Raises RalphError where it cannot be written."""
    disk.make_folder(private)
    disk.replace_file(private / SESSION_NOTE, msgspec.json.encode(note))


def remove(private: Path) -> None:
    """The loop is over."""
    with suppress(OSError):
        (private / SESSION_NOTE).unlink()


def bring_back(
    project: Project, journal: Journal, redactor: Redactor, *, seconds: int, notice: Callable[[str, str], None]
) -> None:
    """Save what a session that died left in the person's tree as its attempt, and bring the tree back to the branch;
    nothing where none did. Raises RalphError, GitError.
    """
    repository, tree = project.repository, UserTree(project.repository)
    branch = journal.prd.work_branch
    tip = repository.tip(branch)
    if tree.is_begun and tip is not None and repository.branch() == branch:
        found = [record for record in journal.unsettled() if tip in (record.base_commit, record.commit)]
        for record in found[-1:]:
            _save(project, journal, redactor, record, tree.capture().tree, seconds=seconds)
            tree.put_head_back(branch, tip)
            tree.hold(tip, tip)
            notice("info", f"what a session left of {record.task_id} in your tree is saved, and taken out of it")
    tree.end()
    remove(project.private)


def _save(
    project: Project, journal: Journal, redactor: Redactor, record: Iteration, tree: str, *, seconds: int
) -> None:
    """Keep an attempt under its ref, where recovery looks for it."""
    reference = attempts.attempt_reference(journal.prd.project, record.task_id, record.iteration_number)
    if project.repository.commit_of(reference) is None:
        attempt = attempts.Attempt(
            reference=reference,
            tree=tree,
            base=record.base_commit,
            prompt=record.prompt,
            output_file=project.output_file(record.iteration_number),
            clean=redactor.clean_blocks,
            message=f"ralph: interrupted attempt {record.attempt} at {record.task_id}, of a session",
        )
        attempts.save_attempt(project.repository, attempt, seconds=seconds)
