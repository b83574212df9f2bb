"""What a task says of its own: what completes each of its stages, and what overrides the settings.

Criteria are a person's: they may stand in snake_case or camelCase and are kept as plain values in the task; here they
become typed (spec completion-criteria, Task Completion Data Model).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, cast, get_args

import msgspec

from rulebook_ralph.tasks.model import Json, Stage
from rulebook_ralph.tasks.struct_reading import (
    Dollars,
    Filled,
    Folder,
    PositiveInt,
    PositiveSeconds,
    Settings,
    matching,
)

STAGES: tuple[Stage, ...] = get_args(Stage)
ACCEPTANCE_CRITERIA = "{{acceptance_criteria}}"
"""Stands, in `check_for`, for the task's own acceptance criteria."""
_PLACEHOLDER = re.compile(r"\{\{\s*acceptance_criteria\s*\}\}")

Method = Literal["string_match", "external", "semantic", "multi_stage"]

ROLE_PROMISE: dict[Stage, str] = {
    "coder": "IMPLEMENTATION_COMPLETE",
    "reviewer": "REVIEW_PASSED",
    "tester": "TESTS_PASSED",
    "qa": "QA_PASSED",
}
"""The promise of a stage that names none (spec completion-criteria, Per-Agent Defaults)."""

ExitCode = Annotated[int, msgspec.Meta(ge=0, le=255)]
Command = Annotated[str, matching(r"^[^\0]*\S[^\0]*$", "must not be empty, nor hold a NUL character")]
PartName = Annotated[
    str, matching(r"^(?=.*\S)[^\x00-\x1f\x7f-\x9f]{1,100}$", "expected one line of text, at most 100 characters")
]


class StringMatch(Settings, frozen=True, kw_only=True):
    """The promise alone."""


class External(Settings, frozen=True, kw_only=True):
    """A command whose exit code and output decide. `working_dir` is inside the repository; `timeout` in seconds."""

    command: Command
    success_exit_code: ExitCode = 0
    output_contains: str = ""
    output_not_contains: str = ""
    timeout: PositiveSeconds = 300
    working_dir: Folder = "."


class Semantic(Settings, frozen=True, kw_only=True):
    """Texts that must not be in what was added, and criteria that a model judges."""

    check_for: tuple[Filled, ...] = ()
    negative_patterns: tuple[Filled, ...] = ()
    model: str = ""


class Part(Settings, frozen=True, kw_only=True):
    """One stage of a multi-stage verification; `config` as its method wants it. `needs` are names of earlier parts."""

    name: PartName
    method: Method
    config: Json = {}
    required: bool = True
    needs: tuple[str, ...] = ()

    @property
    def verification(self) -> "Verification":
        """Its `config` as a value, where the criteria were read without faults."""
        return cast("Verification", msgspec.convert(self.config, KINDS[self.method]))


class MultiStage(Settings, frozen=True, kw_only=True):
    """Parts in order. `require_all`: stop at the first required one that fails; else all are run. A required one that
    fails always fails the whole. `parallel`: external parts that need nothing of each other run at once.
    """

    stages: tuple[Part, ...]
    require_all: bool = True
    parallel: bool = False


Verification = StringMatch | External | Semantic | MultiStage
KINDS: Mapping[str, type[Settings]] = {
    "string_match": StringMatch,
    "external": External,
    "semantic": Semantic,
    "multi_stage": MultiStage,
}


class Criteria(Settings, frozen=True, kw_only=True):
    """What completes one stage. `max_iterations` None leaves the limit to the configuration."""

    promise: str
    description: str = ""
    verification: Verification = StringMatch()
    max_iterations: PositiveInt | None = None

    @property
    def method(self) -> Method:
        """The name by which the verification is configured."""
        return cast("Method", next(name for name, kind in KINDS.items() if type(self.verification) is kind))


def with_acceptance_criteria(text: str, acceptance_criteria: Sequence[str], *, without: str) -> tuple[str, ...]:
    """What one text of `check_for` asks for: the placeholder alone stands for each of the task's acceptance criteria,
    inside a longer text for all of them. Where the task has none, `without` stands for them; if that is empty too, a
    text with the placeholder asks for nothing.
    """
    if not _PLACEHOLDER.search(text):
        return (text,)
    given = tuple(acceptance_criteria) or ((without,) if without else ())
    if not given or _PLACEHOLDER.fullmatch(text.strip()):
        return given
    return (_PLACEHOLDER.sub(lambda _: "; ".join(given), text),)


class StopCriteria(Settings, frozen=True, kw_only=True):
    """What a stage must show besides its gates and criteria.

    requirePromise: Whether the stage's promise must stand in the final message.
    requirePassingTests: Whether a step of the kind `test` must have run and passed.
    requireLint: Whether a step of the kind `lint` must have run and passed.
    requireTypeCheck: Whether a step of the kind `typecheck` must have run and passed.
    requireNoErrors: Whether the last run of each command by the agent must have succeeded.
    successRegex: Regular expression that, found in the final message, stands for the promise; empty means none.
    blockedRegex: Regular expression that, found in the final message, says that the agent is blocked; its first group
        is the reason.
    """

    require_promise: bool = True
    require_passing_tests: bool = False
    require_lint: bool = False
    require_type_check: bool = False
    require_no_errors: bool = False
    success_regex: str = ""
    blocked_regex: str = ""


class TaskLimits(Settings, frozen=True, kw_only=True):
    """A task's own limits.

    maxIterations: Attempts for each stage.
    maxWallTime: Time for the task, summed over its iterations.
    maxCostUsd: Cost of the task in US dollars, summed over its iterations.
    maxTokens: Tokens of the task, summed over its iterations.
    """

    max_iterations: PositiveInt | None = None
    max_wall_time: PositiveSeconds | None = None
    max_cost_usd: Dollars | None = None
    max_tokens: PositiveInt | None = None


class TaskGit(Settings, frozen=True, kw_only=True):
    """What Ralph does with git at a task.

    rollback: After a failed attempt, keep its work for the next one to refine, or reset to the state before it.
    """

    rollback: Literal["keep", "reset"] | None = None


class Overrides(Settings, frozen=True, kw_only=True):
    """What a task says of its own; whatever is left out is the project's.

    executor: Id of the agent that works on the task.
    reviewer: Id of the task's quick and deep reviewer.
    model: The agent's model.
    rules: Rules for the agent, added to the project's.
    stages: The stages that the task goes through; every role that `completion` names is added.
    stopCriteria: What a stage must show besides its gates and criteria.
    limits: The task's own limits.
    git: What Ralph does with git at the task.
    """

    executor: str = ""
    reviewer: str = ""
    model: str = ""
    rules: tuple[str, ...] = ()
    stages: tuple[Stage, ...] = ()
    stop_criteria: StopCriteria = StopCriteria()
    limits: TaskLimits = TaskLimits()
    git: TaskGit = TaskGit()
