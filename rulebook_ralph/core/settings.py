"""The configuration as frozen values (schemas/config.schema.json). Loading it from files is `rulebook_ralph.config`.

Durations are seconds, money is US dollars. Unknown keys are refused.
"""

from typing import Annotated, Literal

import msgspec

from rulebook_ralph.core.evidence import StopReason
from rulebook_ralph.core.model import Stage
from rulebook_ralph.core.struct_reading import SECONDS

PositiveInt = Annotated[int, msgspec.Meta(ge=1)]
PositiveSeconds = Annotated[float, msgspec.Meta(gt=0, le=100_000_000, description=SECONDS)]
"""At most three years: beyond, clocks and timers of the system give up."""
Dollars = Annotated[float, msgspec.Meta(gt=0)]
Rate = Annotated[float, msgspec.Meta(ge=0)]


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
    endpoint: str = ""
    fallback: str = ""


class AskedModel(Settings, frozen=True, kw_only=True):
    """A model that is asked something, a plan for instance. `executor` as in Judge; it takes longer to answer."""

    id: str
    name: str = ""
    executor: str = ""
    model: str = "opus"
    timeout: PositiveSeconds = 600


class Reviewer(AskedModel, frozen=True, kw_only=True):
    """Who reviews changes. Without `model` the tier says which, or the agent; without `checks` what the tier looks for.
    Among them `tier` stands for all of the tier's own (checks/review_prompt.py has the names).
    """

    model: str = ""
    checks: tuple[str, ...] = ()


class Tools(Settings, frozen=True, kw_only=True):
    executors: tuple[Executor, ...] = ()
    planners: tuple[AskedModel, ...] = ()
    reviewers: tuple[Reviewer, ...] = ()


class Defaults(Settings, frozen=True, kw_only=True):
    executor: str = "claude"
    planner: str = ""
    quick_reviewer: str = ""
    deep_reviewer: str = ""
    final_reviewer: str = ""
    summarizer: str = ""
    max_iterations: PositiveInt | None = None


StepKind = Literal["test", "lint", "typecheck", "build", "other"]


class VerificationStep(Settings, frozen=True, kw_only=True):
    """A gate: a command of the project's own, run by Ralph in a shell at the project's root or in `working_dir`.

    One that fails is tried `retries` times more. `when` are globs as in a .gitignore: an attempt that changed no file
    they match need not run it (checks/step_selection.py); empty means always.
    """

    name: str
    command: str
    kind: StepKind = "other"
    required: bool = True
    timeout: PositiveSeconds = 900
    retries: Annotated[int, msgspec.Meta(ge=0, le=20)] = 0
    when: tuple[str, ...] = ()
    working_dir: str = "."
    env: dict[str, str] = {}


class Verification(Settings, frozen=True, kw_only=True):
    """The gates. `parallel`: all at once, to the end; else one after another, to the first required failure. `clean`:
    in a checkout of what git holds, with what `Workspace` says, else in the user's tree.
    """

    enabled: bool = True
    parallel: bool = False
    clean: bool = False
    steps: tuple[VerificationStep, ...] = ()

    @property
    def gates(self) -> tuple[VerificationStep, ...]:
        """The steps, where they are switched on."""
        return self.steps if self.enabled else ()


class Workspace(Settings, frozen=True, kw_only=True):
    """What a checkout has that git does not hold. `setup` is a shell command; `copy` are globs, `link` paths, of the
    user's tree.
    """

    setup: str = ""
    copy: tuple[str, ...] = ()
    link: tuple[str, ...] = ()


class Limits(Settings, frozen=True, kw_only=True):
    """For a run: `max_iterations`, `max_run_wall_time`, `max_cost_usd`, `max_tokens`. For a task, summed over its
    iterations: `max_wall_time`, `max_task_cost_usd`, `max_task_tokens`. For one agent: `iteration_timeout`,
    `idle_timeout`. For one prompt: `prompt_tokens`. `on_limit` is what an agent's usage limit leads to,
    `max_limit_wait` how long it may be waited for.
    """

    max_iterations: PositiveInt | None = None
    max_run_wall_time: PositiveSeconds | None = None
    max_cost_usd: Dollars | None = None
    max_tokens: PositiveInt | None = None
    max_wall_time: PositiveSeconds = 3600
    iteration_timeout: PositiveSeconds = 3600
    idle_timeout: PositiveSeconds = 900
    max_task_cost_usd: Dollars | None = None
    max_task_tokens: PositiveInt | None = None
    prompt_tokens: Annotated[int, msgspec.Meta(ge=2000)] = 50_000
    on_limit: Literal["wait", "stop", "fallback"] = "wait"
    max_limit_wait: PositiveSeconds = 86_400


class StopCriteria(Settings, frozen=True, kw_only=True):
    """What a stage must show besides (spec completion-hooks, Stop Criteria). Regular expressions search the final
    message: `success_regex` stands for the promise, the first group of `blocked_regex` is the reason.
    """

    require_promise: bool = True
    require_passing_tests: bool = False
    require_lint: bool = False
    require_type_check: bool = False
    require_no_errors: bool = False
    success_regex: str = ""
    blocked_regex: str = ""


class Hook(Settings, frozen=True, kw_only=True):
    """A completion hook of the user's own: a shell command, or a plug-in from the entry points."""

    name: str
    command: str = ""
    plugin: str = ""
    priority: int = 30
    required: bool = False
    timeout: PositiveSeconds = 30
    env: dict[str, str] = {}


CONTRADICTIONS = (
    "requires manual",
    "require manual",
    "needs manual",
    "manual intervention",
    "manual step",
    "could not complete",
    "couldn't complete",
    "unable to complete",
    "not able to complete",
    "could not finish",
    "did not finish",
    "needs human",
    "requires human",
    "human intervention",
    "left as an exercise",
    "not yet implemented",
    "remains to be done",
    "still failing",
    "still fails",
    "VERIFICATION_FAIL",
)


class Integrity(Settings, frozen=True, kw_only=True):
    """What an attempt may not do to the checks that judge it. `allow` are globs of files that it may change all the
    same; `contradictions` are texts that, beside a claim of completion, deny it.
    """

    enabled: bool = True
    allow: tuple[str, ...] = ()
    contradictions: tuple[str, ...] = CONTRADICTIONS


class Judge(Settings, frozen=True, kw_only=True):
    """The model that judges semantic criteria. `executor` is `anthropic` or the id of an agent; empty means anthropic
    where its key is in the environment, else the default executor.
    """

    executor: str = ""
    model: str = "haiku"
    timeout: PositiveSeconds = 180


class Reviewing(Settings, frozen=True, kw_only=True):
    """Reviews of changes. One question holds so many tokens of a change; a larger one is reviewed in parts."""

    prompt_tokens: Annotated[int, msgspec.Meta(ge=2000)] = 50_000


class Role(Settings, frozen=True, kw_only=True):
    """How one stage is worked on. Not `enabled`: in a single pass, without further attempts."""

    enabled: bool = True
    executor: str = ""
    max_iterations: PositiveInt | None = None


class Roles(Settings, frozen=True, kw_only=True):
    coder: Role = Role()
    reviewer: Role = Role()
    tester: Role = Role()
    qa: Role = Role()


class Ralph(Settings, frozen=True, kw_only=True):
    """The loop itself (spec completion-criteria, Configuration Reference)."""

    enabled: bool = True
    default_max_iterations: PositiveInt | None = None
    default_verification: Literal["string_match", "semantic"] = "string_match"
    agents: Roles = Roles()


class Overrides(Settings, frozen=True, kw_only=True):
    """What a task says of its own (`overrides` in prd.json); whatever is left out is the project's. `reviewer` is both
    the quick and the deep one.
    """

    executor: str = ""
    reviewer: str = ""
    max_iterations: PositiveInt | None = None
    rules: tuple[str, ...] = ()
    stages: tuple[Stage, ...] = ()
    stop_criteria: StopCriteria = StopCriteria()


class Price(Settings, frozen=True, kw_only=True):
    """What a model's tokens cost, in dollars per million. What is read from the cache or written to it costs as much
    as other input where it has no price of its own.
    """

    input: Rate
    output: Rate
    cached_input: Rate | None = None
    cache_write: Rate | None = None


class Git(Settings, frozen=True, kw_only=True):
    rollback: Literal["keep", "reset"] = "keep"
    state_commit: Literal["separate", "none"] = "separate"
    workspace: Literal["in-place", "isolated"] = "in-place"


MOST_WORKERS = 64


class Parallel(Settings, frozen=True, kw_only=True):
    """How many tasks are worked on at once: those marked [P], or with `all` any but those marked [VERIFY]."""

    workers: Annotated[int, msgspec.Meta(ge=1, le=MOST_WORKERS)] = 1
    all: bool = False


class Notify(Settings, frozen=True, kw_only=True):
    """Who is told of a run's end, and at which stop reasons; `task_completed` as well of each task. An entry of `urls`
    is an address of apprise, or `${NAME}` for one that a variable of the environment holds.
    """

    urls: tuple[str, ...] = ()
    on: tuple[StopReason, ...] = (
        "complete",
        "blocked",
        "stuck",
        "max-iterations",
        "max-wall-time",
        "max-cost",
        "rate-limited",
        "error",
    )
    task_completed: bool = False
    timeout: PositiveSeconds = 10


class Config(Settings, frozen=True, kw_only=True):
    """Everything that can be configured, with the built-in values."""

    tools: Tools = Tools()
    defaults: Defaults = Defaults()
    rules: tuple[str, ...] = ()
    verification: Verification = Verification()
    workspace: Workspace = Workspace()
    stages: tuple[Stage, ...] = ("coder",)
    stop_criteria: StopCriteria = StopCriteria()
    hooks: tuple[Hook, ...] = ()
    protect: tuple[str, ...] = ()
    integrity: Integrity = Integrity()
    judge: Judge = Judge()
    review: Reviewing = Reviewing()
    ralph: Ralph = Ralph()
    limits: Limits = Limits()
    prices: dict[str, Price] = {}
    git: Git = Git()
    parallel: Parallel = Parallel()
    notify: Notify = Notify()

    @property
    def is_isolated(self) -> bool:
        """Whether agents work in checkouts of their own, not in the user's tree."""
        return self.git.workspace == "isolated" or self.parallel.workers > 1


class InsistentConfig(Config, frozen=True, kw_only=True):
    """A configuration with the keys that a variable or a flag set (`defaults.executor`): what a task says of its own
    goes before the files, but not before these.
    """

    insisted: frozenset[str] = frozenset()
