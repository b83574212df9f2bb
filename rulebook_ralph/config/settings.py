"""The configuration as frozen values. Loading it from files is config/layers.py.

Durations are seconds, money is US dollars. Unknown keys are refused. The lines `key: sentence` in the docstrings are
what schemas/config.schema.json and a new config.yaml say of each key (`descriptions` in config/template.py).
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

import msgspec

from rulebook_ralph.tasks.criteria import Overrides as Overrides  # noqa: PLC0414 - part of the settings
from rulebook_ralph.tasks.criteria import StopCriteria as StopCriteria  # noqa: PLC0414
from rulebook_ralph.tasks.criteria import TaskLimits as TaskLimits  # noqa: PLC0414
from rulebook_ralph.tasks.model import Stage
from rulebook_ralph.tasks.results import StopReason
from rulebook_ralph.tasks.struct_reading import (
    INSIDE,
    Dollars,
    Filled,
    Folder,
    PositiveInt,
    PositiveSeconds,
    Rate,
    Settings,
    matching,
)

Inside = Annotated[str, matching(rf"{INSIDE}[^./\s]", "must be a path within the repository, from its root")]
Glob = Annotated[
    str,
    matching(
        r"^(?!([\s\S]*/)?\.\.(/|$))[\s\S]*[^/! ]", "must be a glob of paths of the repository, as in a .gitignore"
    ),
]
Variables = dict[
    Annotated[str, matching(r"^[A-Za-z_][A-Za-z0-9_]*$", "must have names of environment variables as keys")], str
]


class Executor(Settings, frozen=True, kw_only=True):
    """An agent that can work on tasks.

    id: The name that `defaults.executor` and `--agent` use.
    type: The adapter: a built-in one such as `claude` or `command`, or one from the entry points
        `rulebook_ralph.agents`.
    name: How the agent is called in output; empty means its id.
    command: The program to run; empty means the adapter's own.
    args: Further arguments of the command.
    env: Environment variables for the agent.
    model: The model to use; empty leaves it to the agent.
    permissions: What the agent may do unasked: everything, edit files only, or nothing.
    promptVia: How a `command` agent gets the prompt.
    endpoint: Address of a server to attach to, for an agent that can, such as http://localhost:4096 for `opencode`.
    fallback: Id of the executor to go on with when this one is limited or broken; empty means none.
    """

    id: Filled
    type: Filled
    name: str = ""
    command: str = ""
    args: tuple[str, ...] = ()
    env: Variables = {}
    model: str = ""
    permissions: Literal["full", "edit", "ask"] = "full"
    prompt_via: Literal["stdin", "file", "argument"] = "stdin"
    endpoint: str = ""
    fallback: str = ""


class AskedModel(Settings, frozen=True, kw_only=True):
    """A model that is asked something: a planner.

    id: The name that `defaults` and flags use.
    name: How it is called in output; empty means its id.
    executor: Who asks the model: `anthropic` or the id of an agent; empty means anthropic where its key is in the
        environment, else the default agent, or for a model called `claude-…` a configured agent of the type claude.
    model: The model, by its name or an alias such as opus.
    timeout: Time for one answer.
    """

    id: Filled
    name: str = ""
    executor: str = ""
    model: str = "opus"
    timeout: PositiveSeconds = 600


class Reviewer(AskedModel, frozen=True, kw_only=True):
    """A model or an agent that reviews changes.

    model: The model, by its name or an alias; empty means the agent's own where it has one, else sonnet for a quick
        review and opus for others.
    checks: What to look for, the most important first: syntax, types, obvious_bugs, security, race_conditions,
        memory_leaks, error_handling, logic_bugs, accessibility, architecture, or a sentence of your own; `tier` stands
        for what the tier looks for anyway, as does an empty list.
    """

    model: str = ""
    checks: tuple[str, ...] = ()


class Tools(Settings, frozen=True, kw_only=True):
    """The agents and models that can be used.

    executors: Agents that work on tasks.
    planners: Models that turn what a person wants into tasks (`ralph plan`).
    reviewers: Models and agents that review changes.
    """

    executors: tuple[Executor, ...] = ()
    planners: tuple[AskedModel, ...] = ()
    reviewers: tuple[Reviewer, ...] = ()


class Defaults(Settings, frozen=True, kw_only=True):
    """What is used where a task says nothing else.

    executor: Id of the agent that works on tasks; where nothing is said, the only one in `tools.executors`, else
        claude.
    planner: Who plans: the id of a planner or of an agent, or `anthropic`; empty means the first of `tools.planners`,
        else the Anthropic API where its key is in the environment, else the default agent.
    quickReviewer: Who reviews each attempt once its gates and criteria hold: the id of a reviewer or of an agent, or
        `anthropic`; empty means nobody does.
    deepReviewer: Who reviews the work before a task completes, named as above; empty means nobody does.
    finalReviewer: Who reviews the branch when the last task is completed, named as above; what it wants revised reopens
        the tasks concerned. Empty means nobody does; `ralph review` then asks the deep or the quick reviewer.
    maxIterations: Attempts for each stage of a task; null means the stage's own number.
    model: The default agent's model; empty leaves it to the agent's own settings.
    """

    executor: str = "claude"
    planner: str = ""
    quick_reviewer: str = ""
    deep_reviewer: str = ""
    final_reviewer: str = ""
    max_iterations: PositiveInt | None = None
    model: str = ""


StepKind = Literal["test", "lint", "typecheck", "build", "other"]


class VerificationStep(Settings, frozen=True, kw_only=True):
    """A gate: a command of the project's own that Ralph runs to verify work.

    name: The step's name, unique among the steps.
    command: The command, run by a shell.
    kind: What the command verifies; where it is not said, name and command tell. Only tests are evidence.
    required: Whether a task can be completed only if the command passes.
    timeout: The time after which the command is ended and has failed.
    retries: How often the command is tried again where it fails; one that passes then is recorded as flaky.
    when: Globs, as in a .gitignore, of files: the step is skipped after an attempt that changed none of them, unless a
        stop criterion asks for its kind or no other required step would run. Empty means always.
    workingDir: Where the command runs: a folder of the repository, from its root.
    env: Environment variables for the command.
    """

    name: Filled
    command: Filled
    kind: StepKind = "other"
    required: bool = True
    timeout: PositiveSeconds = 900
    retries: Annotated[int, msgspec.Meta(ge=0, le=20)] = 0
    when: tuple[Glob, ...] = ()
    working_dir: Folder = "."
    env: Variables = {}


class Verification(Settings, frozen=True, kw_only=True):
    """How Ralph verifies what an agent did. Without steps, `ralph run` looks for the project's gates as `init` does.

    enabled: Whether the steps are run.
    parallel: Whether steps and the runs of evidence may run beside each other; true only where they share no ports,
        databases or files outside of the work tree.
    proof: `full` runs base and new code with the checks of both; `gate` runs only the steps themselves.
    steps: The gates, in the order they run.
    """

    enabled: bool = True
    parallel: bool = False
    proof: Literal["full", "gate"] = "full"
    steps: tuple[VerificationStep, ...] = ()

    @property
    def gates(self) -> tuple[VerificationStep, ...]:
        """The steps, where they are switched on."""
        return self.steps if self.enabled else ()


class Sandbox(Settings, frozen=True, kw_only=True):
    """The box that agents, gates and criteria run in. `sandbox: off` is short for `sandbox: {mode: off}`.

    mode: `auto` uses bubblewrap where it works; `off` uses no box.
    docker: Whether gates may use the docker socket.
    """

    mode: Literal["auto", "off"] = "auto"
    docker: bool = False


class Workspace(Settings, frozen=True, kw_only=True):
    """What the clones that agents and gates work in have beside what git holds.

    setup: A shell command, run in each clone when it is made, and again when a file that tells of dependencies changed
        (package.json, pyproject.toml, lock files and the like); what it makes is kept.
    copy: Paths of files or folders, or globs, that git does not hold and a clone needs (`.env`); copied once, as they
        are when the run starts.
    link: Paths that git does not hold and that are too large to copy (`node_modules`); read-only in the box. Use
        `setup` wherever the package manager is there: a link cannot follow a task that adds a dependency.
    """

    setup: str = ""
    copy: tuple[Inside, ...] = ()
    link: tuple[Inside, ...] = ()


class Limits(Settings, frozen=True, kw_only=True):
    """When Ralph ends a run or an agent.

    maxIterations: Iterations in one run; null means the sum over its open tasks.
    maxRunWallTime: Time for one run; null means no limit.
    maxCostUsd: Cost of one run in US dollars; null means no limit.
    maxTokens: Tokens of one run, those of the cache included; null means no limit.
    maxWallTime: Time for one task, summed over its iterations.
    idleTimeout: Time an agent may be silent before it is ended.
    promptTokens: Largest prompt, in estimated tokens.
    onLimit: What an agent's usage limit leads to: waiting until it resets, the end of the run, or the executor's
        `fallback` meanwhile.
    maxLimitWait: How long a usage limit may be waited for; a longer one ends the run.
    """

    max_iterations: PositiveInt | None = None
    max_run_wall_time: PositiveSeconds | None = None
    max_cost_usd: Dollars | None = None
    max_tokens: PositiveInt | None = None
    max_wall_time: PositiveSeconds = 3600
    idle_timeout: PositiveSeconds = 900
    prompt_tokens: Annotated[int, msgspec.Meta(ge=2000)] = 50_000
    on_limit: Literal["wait", "stop", "fallback"] = "wait"
    max_limit_wait: PositiveSeconds = 86_400


class Hook(Settings, frozen=True, kw_only=True):
    """A completion hook of your own.

    name: The hook's name, unique among the hooks.
    command: Run by a shell, evidence as JSON on its input; exit code 0 has no objection, 2 asks for another attempt.
    priority: Its place among the hooks: the lowest is asked first.
    required: Whether an error or timeout of the hook means another attempt; else the hook is passed over.
    timeout: The time after which the hook is ended.
    env: Environment variables for the command.
    """

    name: Filled
    command: Filled
    priority: int = 30
    required: bool = False
    timeout: PositiveSeconds = 30
    env: Variables = {}


Answer = Literal["ask", "approve", "allow"]


class Integrity(Settings, frozen=True, kw_only=True):
    """What happens where tests cannot decide: `ask` asks the judging model, `approve` waits for `ralph approve`,
    `allow` asks nobody.

    changed: An attempt changed what existing tests expect.
    unproven: No test and no criterion turned from red to green.
    """

    changed: Answer = "ask"
    unproven: Answer = "ask"


class Judge(Settings, frozen=True, kw_only=True):
    """The model that judges what tests cannot decide, and semantic criteria.

    executor: Who asks the model: `anthropic` or the id of an agent; empty means anthropic where its key is in the
        environment, else the default agent.
    model: The model, by its name or an alias such as haiku.
    timeout: Time for one answer.
    """

    executor: str = ""
    model: str = "haiku"
    timeout: PositiveSeconds = 180


class Role(Settings, frozen=True, kw_only=True):
    """How one stage is worked on.

    executor: Id of the agent for this stage; empty means the default one.
    maxIterations: Attempts for this stage; null means the number of `defaults` or of the stage.
    """

    executor: str = ""
    max_iterations: PositiveInt | None = None


class Roles(Settings, frozen=True, kw_only=True):
    """How each stage is worked on.

    coder: The stage that changes the project.
    reviewer: The stage that reviews the change.
    tester: The stage that tests it.
    qa: The stage that accepts it.
    """

    coder: Role = Role()
    reviewer: Role = Role()
    tester: Role = Role()
    qa: Role = Role()


class Ralph(Settings, frozen=True, kw_only=True):
    """How stages are completed.

    defaultVerification: How the promise of a stage without criteria is verified; `semantic` has a model judge the
        acceptance criteria.
    agents: How each stage is worked on.
    """

    default_verification: Literal["string_match", "semantic"] = "string_match"
    agents: Roles = Roles()


class Price(Settings, frozen=True, kw_only=True):
    """Prices of a model, in US dollars per million tokens.

    input: What the model reads.
    output: What it writes.
    cachedInput: What is read from the cache; null means the price of `input`.
    cacheWrite: What is written to the cache; null means the price of `input`.
    """

    input: Rate
    output: Rate
    cached_input: Rate | None = None
    cache_write: Rate | None = None


class Git(Settings, frozen=True, kw_only=True):
    """What Ralph does with git.

    rollback: After a failed attempt, keep its work for the next one to refine, or reset to the state before it.
    stateCommit: When Ralph's state is committed to the branch: once at the `end` of a run, after each completed `task`,
        or never (`none`).
    """

    rollback: Literal["keep", "reset"] = "keep"
    state_commit: Literal["end", "task", "none"] = "end"


MOST_WORKERS = 64


class Parallel(Settings, frozen=True, kw_only=True):
    """Tasks that are worked on at once. `parallel: 3` is short for `parallel: {workers: 3}`.

    workers: How many agents work at once, each in a clone of its own: on any tasks whose dependencies are completed.
    """

    workers: Annotated[int, msgspec.Meta(ge=1, le=MOST_WORKERS)] = 1


_ENTRY_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SHORTEST_TOKEN = 16


class Notify(Settings, frozen=True, kw_only=True):
    """Who is told when a run has ended, with a summary; needs the extra `notify`.

    urls: Addresses of apprise (slack://…, mailto://…), in your own config.yaml or RALPH_NOTIFY__URLS, as they hold
        secrets; or `${NAME}` for one in the environment variable NAME.
    on: The stop reasons of runs that are told of.
    taskCompleted: Tell of each completed task as well, while the run goes on.
    timeout: Time for sending; what is not sent by then is given up.
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

    @property
    def variables(self) -> tuple[str, ...]:
        """For each of the entries the variable that it stands for; empty for an address."""
        found = (_ENTRY_VARIABLE.fullmatch(url) for url in self.urls)
        return tuple(match[1] if match else "" for match in found)

    def addresses(self, environment: Mapping[str, str]) -> tuple[str, ...]:
        """The addresses, in the order of the entries; empty for one whose variable is not set."""
        entries = zip(self.urls, self.variables, strict=True)
        return tuple(environment.get(name, "").strip() if name else url for url, name in entries)

    def secrets(self, environment: Mapping[str, str]) -> Iterator[str]:
        """What nobody should see of the addresses: each as a whole, and every part that is as long as a token."""
        for address in filter(None, self.addresses(environment)):
            yield address
            parts = re.split(r"[/:@?&=#,]+", address)
            yield from (part for part in parts if len(part) >= _SHORTEST_TOKEN and "." not in part)

    def hidden_in(self, environment: Mapping[str, str]) -> Mapping[str, str]:
        """The environment for those who are to know none of the addresses: without the variables that hold them."""
        names = {"RALPH_NOTIFY__URLS", *self.variables}
        return {name: value for name, value in environment.items() if name not in names}


class Config(Settings, frozen=True, kw_only=True):
    """Settings of Ralph. The project's file goes before the user's; maps are merged, lists replace each other, and a
    list under a key with `+` before it is added. Keys may also be written in snake_case.

    rules: Rules that every agent is given, one sentence each.
    stages: Stages that each task goes through, in the order coder, reviewer, tester, qa.
    hooks: Completion hooks of your own, asked in the order of their priority whether an attempt is done.
    protect: Globs, as in a .gitignore, of files that no attempt may change.
    checks: Globs of further check files: beside tests, their fixtures and configuration, which are known.
    prices: What the tokens cost of agents that tell no cost: for each model (or agent's id) its prices.
    """

    tools: Tools = Tools()
    defaults: Defaults = Defaults()
    rules: tuple[str, ...] = ()
    verification: Verification = Verification()
    workspace: Workspace = Workspace()
    sandbox: Sandbox = Sandbox()
    stages: tuple[Stage, ...] = ("coder",)
    stop_criteria: StopCriteria = StopCriteria()
    hooks: tuple[Hook, ...] = ()
    protect: tuple[Glob, ...] = ()
    checks: tuple[Glob, ...] = ()
    integrity: Integrity = Integrity()
    judge: Judge = Judge()
    ralph: Ralph = Ralph()
    limits: Limits = Limits()
    prices: dict[str, Price] = {}
    git: Git = Git()
    parallel: Parallel = Parallel()
    notify: Notify = Notify()


class InsistentConfig(Config, frozen=True, kw_only=True):
    """A configuration with the keys that a variable or a flag set (`defaults.executor`): what a task says of its own
    goes before the files, but not before these.
    """

    insisted: frozenset[str] = frozenset()
