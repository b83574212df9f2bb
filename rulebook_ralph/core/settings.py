"""The configuration as frozen values (schemas/config.schema.json). Loading it from files is `rulebook_ralph.config`.

Durations are seconds, money is US dollars. Unknown keys are refused.
"""

from typing import Annotated, Literal

import msgspec

SECONDS = "seconds"
"""Marks the durations: a config file may also write them as `90s`, `15m` or `1h30m`."""

PositiveInt = Annotated[int, msgspec.Meta(ge=1)]
PositiveSeconds = Annotated[float, msgspec.Meta(gt=0, description=SECONDS)]
Dollars = Annotated[float, msgspec.Meta(gt=0)]


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Base of every group of settings."""


class Executor(Settings, frozen=True, kw_only=True):
    """An agent to run tasks with. `type` is a built-in adapter or a `rulebook_ralph.agents` entry point."""

    id: str
    type: str
    name: str = ""
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    model: str = ""
    permissions: Literal["full", "edit", "ask"] = "full"
    prompt_via: Literal["stdin", "file", "argument"] = "stdin"


class Tools(Settings, frozen=True, kw_only=True):
    executors: tuple[Executor, ...] = ()


class Defaults(Settings, frozen=True, kw_only=True):
    executor: str = "claude"
    max_iterations: PositiveInt | None = None


StepKind = Literal["test", "lint", "typecheck", "build", "other"]


class VerificationStep(Settings, frozen=True, kw_only=True):
    """A gate: a command of the project's own, run by Ralph in a shell at the project's root or in `working_dir`."""

    name: str
    command: str
    kind: StepKind = "other"
    required: bool = True
    timeout: PositiveSeconds = 900
    working_dir: str = "."
    env: dict[str, str] = {}


class Verification(Settings, frozen=True, kw_only=True):
    enabled: bool = True
    steps: tuple[VerificationStep, ...] = ()


class Limits(Settings, frozen=True, kw_only=True):
    """For a run: `max_iterations`, `max_run_wall_time`, `max_cost_usd`. For a task: `max_wall_time`, summed over its
    iterations. For one agent: `iteration_timeout`, `idle_timeout`. For one prompt: `prompt_tokens`.
    """

    max_iterations: PositiveInt | None = None
    max_run_wall_time: PositiveSeconds | None = None
    max_cost_usd: Dollars | None = None
    max_wall_time: PositiveSeconds = 3600
    iteration_timeout: PositiveSeconds = 3600
    idle_timeout: PositiveSeconds = 900
    prompt_tokens: Annotated[int, msgspec.Meta(ge=2000)] = 50_000


class Git(Settings, frozen=True, kw_only=True):
    rollback: Literal["keep", "reset"] = "keep"
    state_commit: Literal["separate", "none"] = "separate"


class Config(Settings, frozen=True, kw_only=True):
    """Everything that can be configured, with the built-in values."""

    tools: Tools = Tools()
    defaults: Defaults = Defaults()
    rules: tuple[str, ...] = ()
    verification: Verification = Verification()
    limits: Limits = Limits()
    git: Git = Git()
