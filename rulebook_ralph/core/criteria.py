"""What completes a stage of a task: its criteria, read from the PRD or made from the role's defaults.

Criteria are a person's: they may stand in snake_case or camelCase and are kept as plain values in the task; here they
become typed (spec completion-criteria, Task Completion Data Model).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, cast, get_args

import msgspec

from rulebook_ralph.core.model import Json, Stage
from rulebook_ralph.core.settings import PositiveInt, PositiveSeconds, Settings

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


class StringMatch(Settings, frozen=True, kw_only=True):
    """The promise alone."""


class External(Settings, frozen=True, kw_only=True):
    """A command whose exit code and output decide. `working_dir` is inside the repository; `timeout` in seconds."""

    command: str
    success_exit_code: ExitCode = 0
    output_contains: str = ""
    output_not_contains: str = ""
    timeout: PositiveSeconds = 300
    working_dir: str = "."


class Semantic(Settings, frozen=True, kw_only=True):
    """Texts that must not be in what was added, and criteria that a model judges."""

    check_for: tuple[str, ...] = ()
    negative_patterns: tuple[str, ...] = ()
    model: str = ""


class Part(Settings, frozen=True, kw_only=True):
    """One stage of a multi-stage verification; `config` as its method wants it. `needs` are names of earlier parts."""

    name: str
    method: Method
    config: Json = {}
    required: bool = True
    needs: tuple[str, ...] = ()


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
        return method_of(self.verification)

    @property
    def may_run_commands(self) -> bool:
        return isinstance(self.verification, External | MultiStage)


def method_of(verification: Verification) -> Method:
    """The name by which a verification is configured."""
    return cast("Method", next(name for name, kind in KINDS.items() if type(verification) is kind))


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
