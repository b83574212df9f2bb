"""What a PRD and a task are, as they stand in `.rulebook-ralph/prd.json` (schemas/prd.schema.json).

Values only. Fields that should always be visible to a person who edits the file get their default from a named
function, because msgspec leaves plain defaults out of the file.
"""

from typing import Any, Literal

import msgspec

Status = Literal["pending", "in_iteration", "completed", "blocked"]
Stage = Literal["coder", "reviewer", "tester", "qa"]
Complexity = Literal["low", "medium", "high", "very-high"]

STATE_FOLDER = ".rulebook-ralph"
PRD_VERSION = 1

Json = dict[str, Any]


def _pending() -> Status:
    return "pending"


def _text() -> str:
    return ""


def _lowest_written() -> int:
    return 1


def _zero() -> int:
    return 0


def _nothing_spent() -> float:
    return 0.0


def _none_listed() -> tuple[str, ...]:
    return ()


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False):
    """Base of every frozen value that is written to the state folder."""


class Totals(Value, frozen=True, kw_only=True):
    """Sums over all settled iterations, kept so that `status` need not read the history. `cost_usd` in dollars."""

    iterations: int = msgspec.field(default_factory=_zero)
    completed: int = msgspec.field(default_factory=_zero)
    failed: int = msgspec.field(default_factory=_zero)
    cost_usd: float = msgspec.field(default_factory=_nothing_spent)
    tokens: int = msgspec.field(default_factory=_zero)
    without_task: tuple[int, ...] = ()
    """The iterations among them all of whose tasks were gone when they were settled: no task tells that they were."""
    extra: Json = msgspec.field(default_factory=dict, name="$extra")
    """Keys Ralph does not know, kept as they were; never written under this name."""


class CompletionSummary(Value, frozen=True, kw_only=True):
    """What a completed task brought about. The words are the agent's; git, syntax and Ralph's runs tell the rest."""

    summary: str = ""
    files_created: tuple[str, ...] = ()
    files_modified: tuple[str, ...] = ()
    exports_added: tuple[str, ...] = ()
    tests_added: tuple[str, ...] = ()
    verification_steps: tuple[str, ...] = ()

    def facts(self, most: int = 20) -> "CompletionSummary":
        """Without the words, each list cut to its first entries: what a task keeps of it beside its own `summary`."""
        return CompletionSummary(
            files_created=self.files_created[:most],
            files_modified=self.files_modified[:most],
            exports_added=self.exports_added[:most],
            tests_added=self.tests_added[:most],
            verification_steps=self.verification_steps[:most],
        )


PARALLEL = "P"
"""The marker of a task that may be worked on beside others."""
VERIFY = "VERIFY"
"""The marker of a task that looks at what was done before: nothing else is worked on meanwhile."""


class Task(Value, frozen=True, kw_only=True):
    """One task. The first block is a person's, the second the loop's; `status` is both's (DESIGN.md, On disk)."""

    id: str
    title: str
    description: str = msgspec.field(default_factory=_text)
    priority: int = msgspec.field(default_factory=_lowest_written)
    status: Status = msgspec.field(default_factory=_pending)
    dependencies: tuple[str, ...] = msgspec.field(default_factory=_none_listed)
    acceptance_criteria: tuple[str, ...] = msgspec.field(default_factory=_none_listed)
    estimated_complexity: Complexity | None = None
    outcome: str = ""
    relevant_files: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()
    completion: dict[str, Json] = {}
    """Stage -> criteria, as a person wrote them; read by core/criteria.py."""
    overrides: Json = {}
    """Read by core/criteria.py."""
    notes: str = ""
    source: str = ""
    metadata: Json = {}

    stage: Stage | None = None
    attempts: dict[str, int] = {}
    iteration_number: int | None = None
    settled_iteration: int | None = None
    started_at: str | None = None
    completed_at: str | None = None
    blocked_reason: str | None = None
    retry_after: str | None = None
    summary: str = ""
    completion_summary: CompletionSummary | None = None
    cost_usd: float = 0.0
    tokens: int = 0

    extra: Json = msgspec.field(default_factory=dict, name="$extra")
    """Keys Ralph does not know, kept as they were; never written under this name."""


LOOP_FIELDS = (
    "stage",
    "attempts",
    "iteration_number",
    "settled_iteration",
    "started_at",
    "completed_at",
    "blocked_reason",
    "retry_after",
    "summary",
    "completion_summary",
    "cost_usd",
    "tokens",
)
"""Fields of a task that only the loop sets; an edit of them in a file is never taken over."""


class Prd(Value, frozen=True, kw_only=True):
    """The whole task list, in file order."""

    version: int
    project: str
    description: str = msgspec.field(default_factory=_text)
    branch: str = ""
    created_at: str = ""
    updated_at: str = ""
    tasks: tuple[Task, ...] = msgspec.field(default_factory=tuple)
    totals: Totals = msgspec.field(default_factory=Totals)
    extra: Json = msgspec.field(default_factory=dict, name="$extra")
    """Keys Ralph does not know, kept as they were; never written under this name."""

    @property
    def work_branch(self) -> str:
        """The branch that the work happens on."""
        return self.branch or f"ralph/{self.project}"

    def task(self, task_id: str) -> Task:
        """The task of that id; raises KeyError."""
        for task in self.tasks:
            if task.id == task_id:
                return task
        raise KeyError(task_id)

    def replacing(self, changed: Task) -> "Prd":
        """This PRD with the task of the same id replaced."""
        tasks = list(self.tasks)
        for index, task in enumerate(tasks):
            if task.id == changed.id:
                tasks[index] = changed
                break
        return msgspec.structs.replace(self, tasks=tuple(tasks))
