import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.config import requirements
from rulebook_ralph.config.layers import LoadedConfig, load_config, problems_in, user_config
from rulebook_ralph.config.rules import GONE
from rulebook_ralph.config.settings import Config, Executor, Hook, Price, Verification, VerificationStep, Workspace
from rulebook_ralph.config.template import CONFIG_SCHEMA_NAME, commented_config
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.tasks.model import Task
from rulebook_ralph.tasks.plain_yaml import NotReadableError, read_yaml
from rulebook_ralph.tasks.struct_reading import seconds
from tests.cases import each_of

PROJECT = ".rulebook-ralph/config.yaml"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ".rulebook-ralph").mkdir()
    return tmp_path


def _load(root: Path, text: str = "", user: str = "", **given: Any) -> Config:
    return _loaded(root, text, user, **given).config


def _loaded(
    root: Path,
    text: str = "",
    user: str = "",
    environment: dict[str, str] | None = None,
    overrides: dict[str, object] | None = None,
) -> LoadedConfig:
    if text:
        (root / PROJECT).write_text(text, "utf-8")
    if user:
        file = root / "home/.config/rulebook-ralph/config.yaml"
        file.parent.mkdir(parents=True)
        file.write_text(user, "utf-8")
    return load_config(root, root / "home", environment or {}, overrides)


def _refusal(root: Path, text: str = "", **given: Any) -> str:
    with pytest.raises(RalphError) as refusal:
        _load(root, text, **given)
    message = str(refusal.value)
    assert "\n" not in message
    assert len(message) < 400
    assert refusal.value.exit_code is ExitCode.INVALID
    return message


def test_layers_lie_over_each_other_and_say_where_each_value_is_from(root: Path) -> None:
    loaded = _loaded(
        root,
        "limits:\n  maxCostUsd: 2\n  promptTokens: 3000\nrules: [b]\n",
        user="limits: {maxCostUsd: 1, idleTimeout: 60, maxIterations: 4}\nrules: [a]\n",
        environment={"RALPH_LIMITS__PROMPT_TOKENS": "4000", "RALPH_LIMITS__MAX_ITERATIONS": "5"},
        overrides={"limits": {"max_iterations": 6, "max_cost_usd": None}, "git": {"rollback": None}},
    )
    limits = loaded.config.limits
    assert (limits.max_cost_usd, limits.idle_timeout, limits.prompt_tokens, limits.max_iterations) == (2, 60, 4000, 6)
    assert loaded.config.rules == ("b",)
    assert loaded.origins["limits.maxCostUsd"] == f"{PROJECT}:2"
    assert loaded.origins["limits.idleTimeout"] == f"{root}/home/.config/rulebook-ralph/config.yaml:1"
    assert loaded.origins["limits.promptTokens"] == "RALPH_LIMITS__PROMPT_TOKENS"
    assert loaded.origins["limits.maxIterations"] == "command line"
    assert loaded.origins["git.rollback"] == "built-in"
    assert [file.name for file in loaded.files] == ["config.yaml", "config.yaml"]


def test_what_a_task_says_goes_before_the_files_and_after_variables_and_flags(root: Path) -> None:
    says = {"executor": "amp", "reviewer": "own", "limits": {"maxIterations": 3}, "stages": ["qa"]}
    task = Task(id="a", title="", overrides=says | {"stopCriteria": {"requireLint": False, "requireTypeCheck": True}})

    def held(config: Config) -> tuple[object, ...]:
        stop = requirements.stop_criteria_for(config, task)
        return (
            requirements.executor_for(config, task, "coder"),
            requirements.reviewer_of(config, task, "quick"),
            requirements.reviewer_of(config, task, "deep"),
            requirements.max_attempts(config, task, "coder"),
            requirements.stages_of(config, task),
            (stop.require_lint, stop.require_type_check),
        )

    files = "defaults: {executor: codex, quickReviewer: q, maxIterations: 9}\nstages: [coder]\nstopCriteria: {requireLint: true}\n"
    roles = "ralph: {agents: {coder: {executor: gemini, maxIterations: 8}}}\n"
    own = ("amp", "own", "own", 3, ("qa",), (False, True))
    assert held(_load(root, files)) == held(_load(root, f"{files}{roles}")) == own
    said = {
        "RALPH_DEFAULTS__EXECUTOR": "claude",
        "RALPH_DEFAULTS__QUICK_REVIEWER": "r",
        "RALPH_DEFAULTS__MAX_ITERATIONS": "2",
        "RALPH_STAGES": "[coder]",
        "RALPH_STOP_CRITERIA__REQUIRE_LINT": "true",
    }
    assert held(_load(root, files, environment=said)) == ("claude", "", "own", 2, ("coder",), (True, True))
    named = {"ralph": {"agents": {"coder": {"executor": "claude", "max_iterations": 1}}}}
    assert held(_load(root, files, overrides=named)) == ("claude", "own", "own", 1, ("qa",), (False, True))


def test_a_plus_adds_to_a_list_of_the_files_before(root: Path) -> None:
    loaded = _loaded(root, "+rules: [c]\n", user="rules: [a]\n+rules: [b]\n")
    assert loaded.config.rules == ("a", "b", "c")
    assert loaded.origins["rules"].endswith(f"config.yaml:2 + {PROJECT}:1")


def test_what_stands_in_the_items_of_a_list_says_where_it_is_from(root: Path) -> None:
    loaded = _loaded(
        root,
        "verification:\n  +steps:\n  - name: b\n    command: make b\n    working_dir: docs\n",
        user="verification: {steps: [{name: a, command: make a}]}\nrules: [a, b]\n",
        environment={"RALPH_RULES": "[c]"},
    )
    assert loaded.origins["verification.steps[0].command"].endswith("home/.config/rulebook-ralph/config.yaml:1")
    assert loaded.origins["verification.steps[1].command"] == f"{PROJECT}:4"
    assert loaded.origins["verification.steps[1].workingDir"] == f"{PROJECT}:5"
    assert "verification.steps[1].timeout" not in loaded.origins
    assert {key: origin for key, origin in loaded.origins.items() if key.startswith("rules")} == {
        "rules": "RALPH_RULES",
        "rules[0]": "RALPH_RULES",
    }


ONE = "tools:\n  executors: [{id: mine, type: codex}]\n"


@pytest.mark.parametrize(
    ("text", "user", "environment", "executor", "origin"),
    [
        ("", "", {}, "claude", "built-in"),
        (ONE, "", {}, "mine", f"the only one in tools.executors ({PROJECT}:2)"),
        (f"{ONE}defaults: {{executor: claude}}\n", "", {}, "claude", f"{PROJECT}:3"),
        (ONE, "defaults: {executor: claude}\n", {}, "claude", "home/.config/rulebook-ralph/config.yaml:1"),
        (ONE, "", {"RALPH_DEFAULTS__EXECUTOR": "amp"}, "amp", "RALPH_DEFAULTS__EXECUTOR"),
        ("tools: {+executors: [{id: a, type: codex}]}\n", ONE, {}, "claude", "built-in"),
        ("tools: {executors: []}\n", ONE, {}, "claude", "built-in"),
        ("", "tools: {+executors: [{id: a, type: codex}]}\n", {}, "a", "config.yaml:1)"),
    ],
)
def test_the_only_agent_that_is_configured_is_the_default(
    root: Path, text: str, user: str, environment: dict[str, str], executor: str, origin: str
) -> None:
    loaded = _loaded(root, text, user, environment=environment)
    assert loaded.config.defaults.executor == executor
    assert loaded.origins["defaults.executor"].endswith(origin)
    assert loaded.chosen_executor.startswith(f"default agent {executor}: the only one") == (
        "only one" in origin or executor == "a"
    )


def test_an_agent_named_on_the_command_line_is_the_default(root: Path) -> None:
    assert _load(root, ONE, overrides={"defaults": {"executor": "claude"}}).defaults.executor == "claude"
    assert _load(root, ONE, overrides={"defaults": {"executor": None}}).defaults.executor == "mine"


def test_a_plus_with_a_name_that_is_there_already_is_refused(root: Path) -> None:
    step = "verification:\n  {}steps: [{{name: t, command: make}}]\n"
    message = _refusal(root, step.format("+"), user=step.format(""))
    assert "verification.steps[1].name: 't' is used already by steps[0]" in message


def test_without_a_file_everything_is_built_in_and_no_yaml_is_loaded(root: Path) -> None:
    assert _load(root) == Config()
    assert load_config(None, root, {}).config == Config()
    program = (
        "import sys; from pathlib import Path; from rulebook_ralph.config.layers import load_config;"
        "load_config(Path(sys.argv[1]), Path(sys.argv[1]), {'RALPH_LIMITS__IDLE_TIMEOUT': '5m'});"
        "sys.exit('ruamel.yaml' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program, str(root)], check=False).returncode == 0


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n", "limits:\nrules:\n", "null\n", "\ufeffgit:\n"])
def test_a_file_that_says_nothing_changes_nothing(root: Path, text: str) -> None:
    assert _load(root, text or " ") == Config()


def test_keys_in_snake_case_and_times_as_text(root: Path) -> None:
    limits = _load(root, "limits: {max_cost_usd: 3, idle_timeout: 1h30m, max_wall_time: 90, maxLimitWait: 2m}").limits
    assert (limits.max_cost_usd, limits.idle_timeout, limits.max_wall_time, limits.max_limit_wait) == (3, 5400, 90, 120)


def test_times() -> None:
    times = {"90s": 90, "15m": 900, "1h": 3600, "1h30m": 5400, "2d": 172800, " 1.5h ": 5400, "0s": 0}
    assert {text: seconds(text) for text in times} == times
    assert {seconds(text) for text in ("", "90", "m", "1m1h", "-5s", "1 h", "1e3s", "٣s", "infs")} == {None}


BAD_FILES = {
    "limits:\n  maxCostUsd: cheap\n": ":2: limits.maxCostUsd: expected a number or null, got a string",
    "limits:\n  max_cost: 3\n": ":2: limits.max_cost: unknown key; did you mean `maxCostUsd`?",
    "limit: {}\n": ":1: limit: unknown key; did you mean `limits`?",
    "verification:\n  steps:\n    - name: a\n      comand: make\n": ":4: verification.steps[0].comand: unknown key; did you mean `command`?",
    "verification:\n  steps:\n    - command: make\n": ":3: verification.steps[0]: `name` is missing",
    "verification:\n  steps: make\n": ":2: verification.steps: expected a list, got a string",
    "limits: [\n": ":2:1: is no valid YAML:",
    "- limits\n": ":1: expected keys and values, got a list",
    "1: x\n": ":1:1: a key must be a string, got 1",
    "rules: [2026-01-01]\n": ":1: rules[0]: expected a string, got a date (a string needs quotes)",
    "defaults: {executor: 2026-99-99}\n": "defaults.executor: is no value: 2026-99-99",
    "git: {rollback: keep}\ngit: {}\n": ":2:1: git: is there twice",
    "limits: {maxCostUsd: 1, max_cost_usd: 2}\n": "limits.max_cost_usd: is the same key as `maxCostUsd`",
    "limits: {promptTokens: 1999}\n": ":1: limits.promptTokens: expected a whole number >= 2000",
    "limits: {idleTimeout: 0s}\n": "limits.idleTimeout: expected a number > 0",
    "limits: {idleTimeout: soon}\n": "limits.idleTimeout: expected seconds, or a time such as 90s, 15m or 1h30m, got 'soon'",
    "limits: {idleTimeout: null}\n": "limits.idleTimeout: expected a number, got null",
    "limits: {idleTimeout: .inf}\n": "limits.idleTimeout: expected a finite number",
    f"limits: {{maxIterations: 1{'0' * 5000}}}\n": "limits.maxIterations: is no value",
    "git: {rollback: never}\n": ":1: git.rollback: expected one of keep, reset, got 'never'",
    "+limits: {}\n": "+limits: `+` adds to a list, and `limits` is none",
    "limits: !!python/object:os.system {}\n": "the YAML tag",
    "a: 1\n---\nb: 2\n": "is no valid YAML:",
    "git: &g {}\nlimits:\n  <<: *g\n": ":3:3: limits: a key must be a string, got <<; merge keys are not supported",
    "rules: &r [*r]\n": "is nested too deeply",
    "rules: " + "[" * 1000: "is nested too deeply",
    "verification: {steps: [{name: a, command: x, workingDir: ../y}]}\n": "workingDir: must be a folder of the repository, from its root, got '../y'",
    "verification:\n  steps:\n    - {name: a, command: x}\n    - {name: a, command: y}\n": ":4: verification.steps[1].name: 'a' is used already by steps[0]",
    "verification: {steps: [{name: a, command: ' '}]}\n": "verification.steps[0].command: must not be empty",
    'verification: {steps: [{name: a, command: "x\\0"}]}\n': "verification.steps[0].command: must not hold a NUL character",
    "verification: {steps: [{name: a, command: x, env: {'A=B': c}}]}\n": "verification.steps[0].env: must have names of environment variables as keys",
    "tools:\n  executors:\n    - {id: a, type: command}\n    - {id: a, type: claude}\n": ":4: tools.executors[1].id: 'a' is used already by executors[0]",
    "tools: {executors: [{id: '', type: command}]}\n": "tools.executors[0].id: must not be empty",
    "tools: {executors: [{id: a, type: command, +args: [x]}]}\n": "tools.executors[0].+args: `+` adds to a list of the files before",
    "stages: []\n": ":1: stages: at least one stage is needed",
    "stages: [coder, review]\n": ":1: stages[1]: expected one of coder, reviewer, tester, qa, got 'review'",
    "stages: [qa, coder]\n": ":1: stages: each stage once, in the order coder, reviewer, tester, qa",
    "stopCriteria:\n  success_regex: '('\n": ":2: stopCriteria.successRegex: is no regular expression: missing )",
    "stop_criteria: {blockedRegex: '(a{1000}){1000}'}\n": "stopCriteria.blockedRegex: its counted repeats come to more than 10000",
    "+hooks: [{name: a}]\n": "+hooks[0]: `command` is missing",
    "protect: ['']\n": ":1: protect[0]: must be a glob of paths of the repository, as in a .gitignore",
    "protect: [/ok, '!no', '!/']\n": "protect[2]: must be a glob",
    "+checks: ['']\n": "+checks[0]: must be a glob",
    "parallel: 0\n": "parallel.workers: expected a whole number >= 1",
    "parallel: many\n": "parallel: expected keys and values, got a string",
    "sandbox: on\n": "sandbox.mode: expected one of auto, off, got 'on'",
    "prices: [a]\n": "prices: expected keys and values, got a list",
    "prices: {m: {input: 1}}\n": "prices.m: `output` is missing",
}  # fmt: skip


@pytest.mark.parametrize("text", BAD_FILES, ids=range(len(BAD_FILES)))
def test_a_bad_file_is_refused_in_one_line_that_says_where(root: Path, text: str) -> None:
    message = _refusal(root, text)
    assert message.startswith(PROJECT)
    assert BAD_FILES[text] in message


def test_aliases_are_fine_and_a_bomb_of_them_is_not(root: Path) -> None:
    assert _load(root, "rules: [&r 'x y', *r]\n").rules == ("x y", "x y")
    bomb = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
    assert "expands to more than" in _refusal(root, bomb)


def test_files_that_cannot_be_read(root: Path) -> None:
    (root / PROJECT).write_bytes(b"rules: [\xff]")
    assert _refusal(root) == f"{PROJECT}: is not UTF-8 text"
    (root / PROJECT).write_text("# " + "x" * 1024 * 1024)
    assert _refusal(root) == f"{PROJECT}: cannot be read: is larger than 1 MB"
    (root / PROJECT).unlink()
    (root / PROJECT).mkdir()
    assert _refusal(root) == f"{PROJECT}: cannot be read: Is a directory"
    (root / PROJECT).rmdir()
    (root / PROJECT).symlink_to(root / PROJECT)
    assert _refusal(root).startswith(f"{PROJECT}: cannot be read: is a symbolic link")


def test_every_fault_is_counted_in_a_refusal_and_told_by_validate(root: Path) -> None:
    text = "limits:\n  promptTokens: 5\n  idle: 3\nrules: 1\n"
    assert _refusal(root, text).endswith("(and 2 more: ralph validate)")
    assert [(problem.line, problem.path) for problem in problems_in(root / PROJECT, PROJECT)] == [
        (2, "limits.promptTokens"),
        (3, "limits.idle"),
        (4, "rules"),
    ]
    assert problems_in(root / "none.yaml", "none.yaml") == ()


def test_the_environment(root: Path) -> None:
    found = _load(
        root,
        environment={
            "RALPH_DEFAULTS__EXECUTOR": "007",
            "RALPH_DEFAULTS__MAX_ITERATIONS": "3",
            "RALPH_VERIFICATION__ENABLED": "0",
            "RALPH_VERIFICATION__PARALLEL": "True",
            "RALPH_LIMITS__IDLE_TIMEOUT": "90",
            "RALPH_LIMITS__MAX_LIMIT_WAIT": "1h",
            "RALPH_LIMITS__MAX_COST_USD": "null",
            "RALPH_RULES": "['use tabs', be brief]",
            "RALPH_GIT": "{state_commit: none}",
        },
    )
    assert (found.defaults.executor, found.defaults.max_iterations) == ("007", 3)
    assert (found.verification.enabled, found.verification.parallel) == (False, True)
    assert (found.limits.idle_timeout, found.limits.max_limit_wait, found.limits.max_cost_usd) == (90, 3600, None)
    assert (found.rules, found.git.state_commit) == (("use tabs", "be brief"), "none")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("RALPH_LIMITS__MAX_COST", "1", "limits.maxCost: unknown key; did you mean `maxCostUsd`?"),
        ("RALPH_LIMITS__MAX_COST_USD", "cheap", "limits.maxCostUsd: expected a number or null, got a string"),
        ("RALPH_LIMITS__MAX_COST_USD", "inf", "limits.maxCostUsd: expected a finite number"),
        ("RALPH_LIMITS__MAX_COST_USD", "\udcff", "limits.maxCostUsd: is no text that can be written in UTF-8"),
        ("RALPH_LIMITS__MAX_COST_USD__X", "1", "limits.maxCostUsd: is a single value, so that there is no `x` in it"),
        ("RALPH_LIMITS", "many", "limits: expected keys and values, got a string"),
        ("RALPH_RULES", "[a", "is no valid YAML"),
        ("RALPH_GIT__", "x", "'git.' is no key"),
    ],
)
def test_a_bad_variable_is_refused_by_its_name(root: Path, name: str, value: str, expected: str) -> None:
    message = _refusal(root, environment={name: value})
    assert message.startswith(f"{name}: ")
    assert expected in message


def test_a_bad_flag_is_refused(root: Path) -> None:
    message = _refusal(root, overrides={"limits": {"max_iterations": 0}})
    assert message == "command line: limits.max_iterations: expected a whole number >= 1"


def test_the_users_file_is_where_xdg_says(root: Path) -> None:
    home = root / "home"
    assert user_config(home, {}) == home / ".config/rulebook-ralph/config.yaml"
    assert user_config(home, {"XDG_CONFIG_HOME": "/x"}) == Path("/x/rulebook-ralph/config.yaml")
    assert user_config(home, {"XDG_CONFIG_HOME": "x"}) == home / ".config/rulebook-ralph/config.yaml"


STEPS = (
    VerificationStep(name="tests", command='pytest -q "a: b" # c', kind="test", timeout=60.5, env={"A": "no"}),
    VerificationStep(name="Type check", command="mypy .", kind="typecheck", required=False, working_dir="sub dir"),
)
_COMMENTED_KEY = re.compile(r"^( *)# ([A-Za-z]+:)", re.MULTILINE)
_COMMENTED_ITEM = re.compile(r"^ *#     ", re.MULTILINE)


@pytest.mark.parametrize("steps", [(), STEPS])
def test_the_commented_file_says_what_is_built_in_and_the_steps(
    root: Path, steps: tuple[VerificationStep, ...]
) -> None:
    expected = Config(verification=msgspec.structs.replace(Config().verification, steps=steps))
    text = commented_config(steps)
    assert text.startswith(
        f"# yaml-language-server: $schema={CONFIG_SCHEMA_NAME}\n# $schema: {CONFIG_SCHEMA_NAME}\n#\n"
    )
    assert _load(root, text) == expected
    set_out = _COMMENTED_KEY.sub(r"\1\2", text)
    loaded = _loaded(root, set_out)
    assert loaded.config == expected
    assert {leaf for leaf, origin in loaded.origins.items() if origin == "built-in"} == {"sandbox.docker"}


def test_the_commented_file_says_what_clones_need(root: Path) -> None:
    workspace = Workspace(setup="uv sync", copy=(".env",), link=("node_modules", "a: b"))
    text = commented_config(STEPS, workspace, ["Found uv.lock."])
    assert _load(root, text) == Config(verification=Verification(steps=STEPS), workspace=workspace)
    assert "# Found uv.lock.\n" in text


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", ".", "", " "])
@pytest.mark.parametrize("key", ["copy", "link"])
def test_a_checkout_is_given_nothing_from_elsewhere(key: str, path: str, root: Path) -> None:
    message = _refusal(root, f"workspace:\n  {key}: [{path!r}]\n")
    assert f"workspace.{key}[0]: must be a path within the repository" in message


def test_the_commented_items_of_lists_can_be_used_too(root: Path) -> None:
    text = _COMMENTED_KEY.sub(r"\1\2", commented_config(()))
    for key in ("  executors", "  steps", "hooks"):
        items, after = text.split(f"\n{key}: []\n")
        before, _, example = items.rpartition("# An item, with all its keys:\n")
        text = f"{before}\n{key}:\n{_COMMENTED_ITEM.sub('    ', example)}\n{after}"
    found = _load(root, text)
    assert found.tools.executors == (Executor(id="my-agent", type="command", command="my-agent"),)
    assert found.verification.steps == (VerificationStep(name="tests", command="make test", kind="test"),)
    assert found.hooks == (Hook(name="changelog", command="make changelog-check"),)


def test_the_commented_price_can_be_used_too(root: Path) -> None:
    text = _COMMENTED_KEY.sub(r"\1\2", commented_config(()))
    before, _, rest = text.partition("\nprices: {}\n")
    before, _, example = before.rpartition("# An item, with all its keys:\n")
    found = _load(root, f"{before}\nprices:\n{_COMMENTED_ITEM.sub('    ', example)}\n{rest}")
    assert found.prices == {"gpt-5.5": Price(input=1.25, output=10, cached_input=0.125)}


def test_prices_are_merged_by_model_and_say_where_each_is_from(root: Path) -> None:
    loaded = _loaded(
        root,
        "prices:\n  gpt-5.5: {input: 1.5, output: 10}\n  my_model: {input: 0, output: 0, cached_input: 0}\n",
        user="prices:\n  gpt-5.5: {input: 1, output: 8, cachedInput: 0.1}\n  other: {input: 1, output: 1}\n",
        environment={"RALPH_PRICES": "{mine: {input: 2, output: 3}}"},
    )
    assert loaded.config.prices == {
        "gpt-5.5": Price(input=1.5, output=10, cached_input=0.1),
        "other": Price(input=1, output=1),
        "my_model": Price(input=0, output=0, cached_input=0),
        "mine": Price(input=2, output=3),
    }
    of_the_model = {key: origin for key, origin in loaded.origins.items() if "gpt-5.5" in key}
    assert min(of_the_model.values()) == f"{PROJECT}:2"
    assert "built-in" not in of_the_model.values()


@pytest.mark.parametrize(
    ("text", "workers", "mode", "docker"),
    [
        ("parallel: 3\nsandbox: off\n", 3, "off", False),
        ("parallel: {workers: 2}\nsandbox: {docker: true}\n", 2, "auto", True),
        ("sandbox: false\n", 1, "off", False),
    ],
)
def test_short_forms(root: Path, text: str, workers: int, mode: str, docker: bool) -> None:
    found = _load(root, text)
    assert (found.parallel.workers, found.sandbox.mode, found.sandbox.docker) == (workers, mode, docker)
    assert _load(root, environment={"RALPH_PARALLEL": "5", "RALPH_SANDBOX": "off"}).parallel.workers == 5


@each_of("key", GONE)
def test_a_key_of_the_first_edition_is_refused_with_what_took_its_place(tmp_path: Path, key: str) -> None:
    values: Any = 1
    for name in reversed(key.split(".")):
        values = {name: values}
    with pytest.raises(RalphError) as refusal:
        load_config(None, tmp_path, {}, values)
    assert str(refusal.value) == f"command line: {key}: is gone: {GONE[key]}"


def test_what_is_said_of_old_values(root: Path) -> None:
    message = _refusal(root, environment={"RALPH_LIMITS__MAX_TASK_COST_USD": "1"})
    assert message.startswith("RALPH_LIMITS__MAX_TASK_COST_USD: limits.maxTaskCostUsd: is gone")
    assert "git.state_commit: expected one of end, task, none, got 'separate'" in _refusal(
        root, "git: {state_commit: separate}\n"
    )


@pytest.mark.parametrize(
    ("name", "command", "kind"),
    [
        ("a", "test -f done.txt", "other"),
        ("a", "grep -q types tests/list.txt", "other"),
        ("tests", "make x", "test"),
        ("lint-tests", "x", "lint"),
        ("Type check", "x", "typecheck"),
        ("latest", "x", "other"),
        ("gate", "npm run test:ci", "test"),
        ("gate", "CI=1 npm test", "test"),
        ("gate", "./run_tests.sh", "test"),
        ("gate", "python3 -m unittest discover", "test"),
        ("gate", "ruff check . && pytest", "test"),
        ("gate", "cargo check", "typecheck"),
        ("gate", "cargo clippy --all", "lint"),
        ("gate", "uv run mypy src tests", "typecheck"),
        ("check", "make check", "test"),
        ("gate", "npx tsc --noEmit", "typecheck"),
        ("gate", "node --test", "test"),
        ("gate", "pnpm -r build", "build"),
    ],
)
def test_the_kind_of_a_step_is_told_by_name_and_command(root: Path, name: str, command: str, kind: str) -> None:
    text = f"verification: {{steps: [{{name: {name}, command: {command!r}}}]}}\n"
    assert [step.kind for step in _load(root, text).verification.steps] == [kind]
    said = text.replace("command:", "kind: build, command:")
    assert [step.kind for step in _load(root, said).verification.steps] == ["build"]


def test_what_the_items_of_a_list_share_is_explained_once() -> None:
    text = commented_config(())
    assert text.count("# Id of the agent for this stage") == 1
    assert text.count("      # executor:") == 4


_texts = st.text(alphabet=st.characters(exclude_characters="\0"), min_size=1, max_size=20)


@given(_texts.filter(str.strip), _texts.filter(str.strip))
def test_any_command_survives_the_file(name: str, command: str) -> None:
    text = commented_config([VerificationStep(name=name, command=command, env={"A": command})])
    (step,) = read_yaml(text).value["verification"]["steps"]
    assert step == {"name": name, "command": command, "kind": "other", "env": {"A": command}}


@given(st.text(alphabet="ab: -[]{}&*!|>'\"%@#,?\n\t01.~<=\\", max_size=40))
def test_no_text_brings_anything_but_values_or_one_refusal(text: str) -> None:
    with suppress(NotReadableError):
        read_yaml(text)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("RALPH_LIMITS_MAX_COST_USD", "RALPH_LIMITS__MAX_COST_USD"),
        ("RALPH_LIMIT_MAX_COST_USD", "RALPH_LIMITS__MAX_COST_USD"),
        ("RALPH_LIMITSMAXCOSTUSD", "RALPH_LIMITS__MAX_COST_USD"),
        ("RALPH_VERIFICATION_ENABLED", "RALPH_VERIFICATION__ENABLED"),
        ("RALPH_RALPH_AGENTS_CODER_MAX_ITERATIONS", "RALPH_RALPH__AGENTS__CODER__MAX_ITERATIONS"),
    ],
)
def test_a_variable_that_is_all_but_a_key_is_refused_with_the_right_name(tmp_path: Path, name: str, meant: str) -> None:
    with pytest.raises(RalphError, match=f"^{name} .*did you mean {meant}\\?"):
        load_config(None, tmp_path, {name: "5"})


def test_variables_for_agents_and_of_others_set_nothing(tmp_path: Path) -> None:
    own = ("AGENT", "TASK", "STAGE", "ATTEMPT", "ITERATION", "PROMISE", "MARK_12_34", "COMPLETE")
    foreign = ("HOME", "MAX_ITERATIONS", "WIGGUM_DIR", "LOG_LEVEL", "MODEL", "VERSION", "HOOK")
    environment = {f"RALPH_{name}": "5" for name in own + foreign}
    assert load_config(None, tmp_path, environment) == load_config(None, tmp_path, {})
