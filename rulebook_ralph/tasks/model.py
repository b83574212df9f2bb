"""What a PRD and a task are, as they stand in `.rulebook-ralph/prd.json` (schemas/prd.schema.json).

Values only. Fields that should always be visible to a person who edits the file get their default from a factory,
because msgspec leaves plain defaults out of the file.
"""

import re
from typing import Any, Literal

import msgspec

from rulebook_ralph.tasks.text import escaped

Status = Literal["pending", "in_iteration", "completed", "blocked"]
Stage = Literal["coder", "reviewer", "tester", "qa"]
Complexity = Literal["low", "medium", "high", "very-high"]
Kind = Literal["feature", "docs", "refactor", "tests"]

STATE_FOLDER = ".rulebook-ralph"
PRD_VERSION = 1

Json = dict[str, Any]


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False):
    """Base of every frozen value that is written to the state folder."""


class Totals(Value, frozen=True, kw_only=True):
    """Sums over all settled iterations, kept so that `status` need not read the history. `cost_usd` in dollars."""

    iterations: int = msgspec.field(default_factory=int)
    completed: int = msgspec.field(default_factory=int)
    failed: int = msgspec.field(default_factory=int)
    cost_usd: float = msgspec.field(default_factory=float)
    tokens: int = msgspec.field(default_factory=int)
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
        lists = {name: getattr(self, name)[:most] for name in self.__struct_fields__ if name != "summary"}
        return msgspec.structs.replace(self, summary="", **lists)


PARALLEL = "P"
"""The marker of a task that may be worked on beside others."""
VERIFY = "VERIFY"
"""The marker of a task that looks at what was done before: nothing else is worked on meanwhile."""


class Task(Value, frozen=True, kw_only=True):
    """One piece of work. A person writes what should be done, the first block; Ralph adds how far it has come, the
    second; `status` is both's. Unknown keys are kept.

    id: Name of the task, part of branch and ref names: letters, digits, dot, underscore and hyphen, at most 100
        characters; unique without regard to case.
    title: The task in one line.
    description: What is wanted and why, in Markdown.
    priority: Order of work: 1 is the highest. Equal priorities are taken in file order.
    status: How far the task is. Only Ralph sets `in_iteration`.
    dependencies: Ids of the tasks that must be completed before this one starts.
    acceptanceCriteria: What must be true when the task is done, each criterion checkable on its own.
    estimatedComplexity: Estimated size of the work.
    outcome: The state of the project that the task should bring about.
    relevantFiles: Paths from the project's root that the agent should read first.
    mayChange: Globs of check files (tests and their like) that the task may change without being asked.
    kind: What is not a feature is not sent back for want of a test that was red before.
    markers: Marks taken over from the task list, such as `P` (may run in parallel) or `VERIFY`.
    completion: What completes each stage; a stage that is left out has its role's promise.
    overrides: What the task sets otherwise than the project's configuration.
    notes: A person's notes for whoever works on the task.
    source: Where the task was imported from: a path from the project's root.
    metadata: Anything the source of the task knew beyond these fields.
    stage: The stage the task is in; absent before its first iteration.
    attempts: Attempts that counted so far, for each stage.
    iterationNumber: The latest iteration that worked on the task.
    settledIteration: The latest iteration whose outcome is already in this task; recovery applies none twice.
    startedAt: When the first iteration on the task started.
    completedAt: When the task was completed.
    blockedReason: Why the task is blocked.
    retryAfter: When the agent that works on the task may be asked again, after a usage limit.
    summary: What was done, for the tasks that depend on this one.
    completionSummary: Files, exports and tests that the task brought, for the tasks that depend on this one.
    costUsd: What agents cost for this task so far, in US dollars.
    tokens: Tokens that agents used for this task so far.
    """

    id: str
    title: str
    description: str = msgspec.field(default_factory=str)
    priority: int = msgspec.field(default_factory=lambda: 1)
    status: Status = msgspec.field(default_factory=lambda: "pending")
    dependencies: tuple[str, ...] = msgspec.field(default_factory=lambda: ())
    acceptance_criteria: tuple[str, ...] = msgspec.field(default_factory=lambda: ())
    estimated_complexity: Complexity | None = None
    outcome: str = ""
    relevant_files: tuple[str, ...] = ()
    may_change: tuple[str, ...] = ()
    kind: Kind = "feature"
    markers: tuple[str, ...] = ()
    parallel: bool = True
    """False: nothing else is worked on meanwhile."""
    completion: dict[str, Json] = {}
    """Stage -> criteria, as a person wrote them; read by tasks/criteria.py."""
    overrides: Json = {}
    """Read by config/requirements.py."""
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


LOOP_FIELDS = Task.__struct_fields__[Task.__struct_fields__.index("stage") : Task.__struct_fields__.index("extra")]
"""Fields of a task that the loop sets: the second block."""


class Prd(Value, frozen=True, kw_only=True):
    """The whole task list, in file order.

    version: Version of this format.
    project: Name of the project.
    description: What the project is, for whoever works on a task.
    branch: The branch that Ralph works on; empty means `ralph/<project>`.
    createdAt: When the list was made.
    updatedAt: When Ralph last changed the list.
    tasks: The tasks, in the order of the source.
    """

    version: int
    project: str
    description: str = msgspec.field(default_factory=str)
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

    def has(self, task_id: str) -> bool:
        """Whether there is a task of that id."""
        return any(task.id == task_id for task in self.tasks)

    def replacing(self, changed: Task) -> "Prd":
        """This PRD with the task of the same id replaced."""
        tasks = list(self.tasks)
        for index, task in enumerate(tasks):
            if task.id == changed.id:
                tasks[index] = changed
                break
        return msgspec.structs.replace(self, tasks=tuple(tasks))


# Ids and numbers: parts of branch and ref names, of file names and command lines

_OTHERS = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_FOLDER = 60
_NAMELESS = "project"
MAX_LENGTH = 100
ITERATION_NUMBER = "[1-9][0-9]{0,8}"
"""A pattern for the number of an iteration."""
LAST_ITERATION = 999_999_999


def problem_with_id(task_id: str) -> str | None:
    """What is wrong with an id, worded to follow it in a sentence ("is empty"), or None when it may be used.

    Ids must also be unique without regard to case; that is for whoever sees all of them.
    """
    if not task_id:
        return "is empty"
    if len(task_id) > MAX_LENGTH:
        return f"is longer than {MAX_LENGTH} characters"
    if task_id[0].isascii() and not task_id[0].isalnum():
        return "must start with a letter or digit"
    if other := _OTHERS.search(task_id):
        return f"may hold only letters, digits, '.', '_' and '-' (a-z, A-Z, 0-9), not '{escaped(other[0][0])}'"
    if ".." in task_id or task_id.endswith((".", ".lock")):
        return "must not hold '..', nor end with '.' or '.lock'"
    return None


def project_name(folder: str) -> str:
    """What a project is called that nobody named: as its folder, with what may be part of a ref."""
    name = _OTHERS.sub("-", folder).strip("-._")[:_LONGEST_FOLDER] or _NAMELESS
    return _NAMELESS if problem_with_id(name) else name
