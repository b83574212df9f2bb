"""`ralph doctor`: what is concluded from what was found, and where logins are looked for."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.agents import registry
from rulebook_ralph.agents.agent import AgentSettings, Probe
from rulebook_ralph.agents.capabilities import BUILT_IN
from rulebook_ralph.agents.logins import PLACES, Login, find_login
from rulebook_ralph.core.evidence import CheckResult
from rulebook_ralph.core.model import Prd, Task
from rulebook_ralph.core.settings import Config, Defaults, Executor, Limits, Notify, Price, Tools, VerificationStep
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.loop.diagnosis import of_agents, of_gates, of_git, of_lock, of_ralph, of_system
from rulebook_ralph.loop.diagnosis.diagnosis import Diagnosis, exit_code, ok, refused, unknown, warning, wrong
from rulebook_ralph.loop.diagnosis.of_agents import Use, used
from rulebook_ralph.loop.diagnosis.place import Settings
from rulebook_ralph.state.lock import Holder
from rulebook_ralph.state.store import StateFolder
from tests.cases import each_of

SECRET = "sk-very-secret-0123456789"


def login(
    kind: str, home: Path, environment: dict[str, str] | None = None, *, platform: str = "linux", **settings: object
) -> Login:
    agent = AgentSettings(id="mine", type=kind, **settings)  # type: ignore[arg-type]
    return find_login(agent, environment or {}, home=home, platform=platform)


# What all of it comes to


def test_only_what_is_wrong_gives_an_exit_code() -> None:
    assert exit_code([]) == exit_code([ok("a"), warning("b"), unknown("c")]) == ExitCode.OK
    assert exit_code([wrong("a", exit_code=ExitCode.AGENT), warning("b")]) == ExitCode.AGENT
    assert exit_code([wrong("a", exit_code=ExitCode.BLOCKED)] * 2) == ExitCode.BLOCKED
    assert exit_code([wrong("a", exit_code=ExitCode.BLOCKED), wrong("b", exit_code=ExitCode.AGENT)]) == ExitCode.INVALID


@given(st.text(min_size=1))
def test_a_refusal_is_told_whole(text: str) -> None:
    told = str(refused(RalphError(text)))
    assert told.removesuffix("; ") == text.removesuffix("; ").removeprefix("; ") or told == text


# Logins


def test_every_agent_with_a_program_of_its_own_has_its_places() -> None:
    assert set(PLACES) == set(registry.BUILT_IN) - {"command", "scripted"}
    assert all(places.variables and places.advice for places in PLACES.values())
    assert all("endpoint" in BUILT_IN[kind].__slots__ for kind in PLACES)


@each_of("kind", PLACES)
def test_each_variable_and_file_is_found_and_never_shown(kind: str, tmp_path: Path) -> None:
    places = PLACES[kind]
    for variable in places.variables:
        found = login(kind, tmp_path, {variable: SECRET})
        assert (found.state, found.place) == ("found", variable)
    for number, file in enumerate(places.files):
        home = tmp_path / str(number)
        path = home / file.folder / file.name
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"token": SECRET, "primaryApiKey": SECRET}))
        found = login(kind, home)
        assert (found.state, found.place) == ("found", str(path))
        if file.variable:
            moved = login(kind, tmp_path / "nowhere", {file.variable: str(home / file.folder)})
            assert moved.state == "found"
    for platform in ("linux", "darwin"):
        nothing = login(kind, tmp_path / "empty", platform=platform)
        assert nothing.state in ("missing", "unknown")
        assert SECRET not in repr(nothing)


@each_of("kind", PLACES)
def test_what_may_stand_for_a_login_is_neither_found_nor_missing(kind: str, tmp_path: Path) -> None:
    for number, place in enumerate(PLACES[kind].doubtful):
        home = tmp_path / str(number)
        if isinstance(place, str):
            found = login(kind, home, {place.replace("*", "ANY"): "1"})
        else:
            path = home / place.folder / place.name
            path.parent.mkdir(parents=True)
            path.write_bytes(b"\xff nothing of the kind")
            assert "may stand for one" not in login(kind, home).place
            path.write_text(f"{place.words[-1]} = {SECRET}")
            found = login(kind, home)
        assert found.state == "unknown"
        assert SECRET not in repr(found)


def test_a_file_that_is_empty_or_a_folder_is_no_login(tmp_path: Path) -> None:
    credentials = tmp_path / ".claude" / ".credentials.json"
    credentials.mkdir(parents=True)
    assert login("claude", tmp_path).state == "unknown"
    credentials.rmdir()
    assert login("claude", tmp_path).state == "missing"
    credentials.touch()
    assert login("claude", tmp_path).state == "unknown"


def test_a_login_in_the_agents_own_environment_counts_and_says_so(tmp_path: Path) -> None:
    found = login("claude", tmp_path, {"ANTHROPIC_API_KEY": SECRET}, env={"ANTHROPIC_API_KEY": SECRET})
    assert (found.state, "env of mine" in found.place) == ("found", True)
    assert login("claude", tmp_path, {"ANTHROPIC_API_KEY": ""}).state == "missing"


def test_the_model_says_whose_key_is_needed(tmp_path: Path) -> None:
    keys = {"OPENAI_API_KEY": SECRET}
    assert login("aider", tmp_path, keys, model="gpt-5.5").state == "found"
    assert login("aider", tmp_path, keys, model="sonnet").state == "missing"
    assert login("aider", tmp_path, keys, model="openrouter/openai/gpt-5.5").state == "missing"
    assert login("aider", tmp_path, model="ollama/qwen").state == "not needed"


def test_opencode_takes_the_key_of_its_models_provider(tmp_path: Path) -> None:
    keys = {"OPENAI_API_KEY": SECRET}
    assert login("opencode", tmp_path, keys, model="anthropic/claude-sonnet-5").state == "unknown"
    assert login("opencode", tmp_path, keys, model="opencode/gpt-5.5").state == "unknown"
    assert login("opencode", tmp_path, keys, model="openai/gpt-5.5").place == "OPENAI_API_KEY"
    assert login("opencode", tmp_path, keys).place == "OPENAI_API_KEY"


def test_claudes_own_file_is_a_login_only_with_a_key_in_it(tmp_path: Path) -> None:
    file = tmp_path / ".claude.json"
    file.write_text('{"numStartups": 3}')
    assert login("claude", tmp_path).state == "missing"
    file.write_text(json.dumps({"primaryApiKey": SECRET}))
    assert login("claude", tmp_path) == Login("found", str(file))


@pytest.mark.parametrize("name", ["settings.json", "settings.local.json"])
def test_the_projects_settings_may_stand_for_a_login(name: str, tmp_path: Path) -> None:
    file = tmp_path / "project" / ".claude" / name
    file.parent.mkdir(parents=True)
    agent = AgentSettings(id="mine", type="claude")
    for text, state in (("{}", "missing"), ('{"apiKeyHelper": "./key"}', "unknown")):
        file.write_text(text)
        found = find_login(agent, {}, home=tmp_path, platform="linux", project=tmp_path / "project")
        assert found.state == state


@pytest.mark.parametrize(
    "variable",
    [
        "CLAUDE_CODE_USE_MANTLE",
        "ANTHROPIC_PROFILE",
        "CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR",
        "CLAUDE_CODE_USE_GATEWAY",
        "COMPANY_GATEWAY_URL",
    ],
)
def test_what_may_bring_claude_a_login_is_never_wrong(variable: str, tmp_path: Path) -> None:
    assert login("claude", tmp_path, {variable: "1"}).place == f"{variable} may stand for one"
    assert login("claude", tmp_path, {variable: ""}).state == "missing"


def test_who_needs_none_and_of_whom_nobody_knows(tmp_path: Path) -> None:
    assert login("opencode", tmp_path, endpoint="http://u:p@host").state == "not needed"
    assert login("scripted", tmp_path).state == "not needed"
    assert login("command", tmp_path).state == login("a-plug-in", tmp_path).state == "unknown"
    assert login("opencode", tmp_path).state == "unknown", "it has models that need no key"
    assert login("claude", tmp_path, platform="darwin").state == "unknown", "the keychain cannot be seen"


# Agents


def config(*executors: Executor, default: str = "a", **settings: object) -> Config:
    return Config(tools=Tools(executors=executors), defaults=Defaults(executor=default), **settings)  # type: ignore[arg-type]


def prd(*tasks: Task) -> Prd:
    return Prd(version=1, project="p", tasks=tasks)


def test_whoever_would_work_is_looked_at_and_nobody_else() -> None:
    ring = (Executor(id="a", type="codex", fallback="b"), Executor(id="b", type="amp", fallback="a"))
    assert [(use.executor, use.vital) for use in used(config(*ring), None)] == [("a", True), ("b", False)]
    done = Task(id="t", title="T", status="completed", overrides={"executor": "c"})
    own = Task(id="u", title="U", overrides={"executor": "d"})
    assert [use.executor for use in used(config(*ring), prd(done))] == ["a", "b"]
    assert [use.executor for use in used(config(*ring), prd(done, own))] == ["d"]


def test_an_agent_that_can_be_done_without_is_a_warning() -> None:
    settings = AgentSettings(id="a", type="claude")
    absent = Probe(installed=False, problem="agent a: claude was not found on PATH; install it with: npm i")
    alone = of_agents.of_probe(Use("a", "for coder"), settings, absent)
    assert (alone.state, alone.exit_code, alone.advice) == ("wrong", ExitCode.AGENT, "install it with: npm i")
    assert of_agents.of_probe(Use("a", "for coder"), settings, absent, other="b").state == "warning"
    assert of_agents.of_probe(Use("a", "the judge", vital=False), settings, absent).state == "warning"
    unmade = of_agents.of_probe(Use("a", "the judge", vital=False), settings, RalphError("agent a: no; do"))
    assert (unmade.state, unmade.exit_code) == ("wrong", ExitCode.INVALID), "a run refuses to start with it"
    there = of_agents.of_probe(
        Use("a", "for coder"), settings, Probe(installed=True, version="2.0"), path="/bin/claude"
    )
    assert str(there) == "a (claude), for coder: 2.0, /bin/claude, permissions full"


def test_what_is_known_of_a_login_is_told() -> None:
    use = Use("a", "for coder")
    assert of_agents.of_login(use, Login("found", "~/x")).state == "ok"
    missing = of_agents.of_login(use, Login("missing", "", "log in with: a login"))
    assert (missing.state, missing.exit_code, missing.advice) == ("wrong", ExitCode.AGENT, "log in with: a login")
    assert of_agents.of_login(use, Login("missing"), other="b").state == "warning"
    assert of_agents.of_login(use, Login("unknown", "why")).state == "unknown"


def test_a_limit_that_an_agent_would_never_reach_is_told() -> None:
    limited = config(limits=Limits(max_cost_usd=5.0, max_tokens=1000))
    told = [str(each) for each in capabilities(limited, "codex", model="gpt")]
    assert len(told) == 1
    assert "limit of cost cannot hold" in told[0]
    priced = config(limits=Limits(max_cost_usd=5.0), prices={"gpt": Price(input=1, output=1)})
    assert not capabilities(priced, "codex", model="gpt")
    assert not capabilities(limited, "claude")
    assert len(capabilities(limited, "command")) == 2
    served = capabilities(config(), "opencode", endpoint="http://user:word@host", permissions="ask")
    assert [each.state for each in served] == ["warning"]
    assert "word@" not in str(served[0])


def capabilities(settings: Config, kind: str, **own: str) -> list[Diagnosis]:
    agent = AgentSettings(id="a", type=kind, **own)  # type: ignore[arg-type]
    return [*of_agents.of_capabilities(settings, Use("a", "for coder"), agent, BUILT_IN[kind])]


# Gates


def result(*, passed: bool = False, required: bool = True, code: int | None = 1, output: str = "") -> CheckResult:
    return CheckResult(
        step="tests",
        method="gate",
        command="make test",
        passed=passed,
        required=required,
        exit_code=code,
        reason="" if passed else "exit code 1",
        output=output,
        duration_ms=2100,
    )


def test_a_red_gate_stops_no_run_but_one_that_can_never_be_green_is_wrong() -> None:
    assert str(of_gates.of_result(result(passed=True, code=0))) == "tests: passed, 2.1 s"
    assert of_gates.of_result(result()).state == "warning"
    assert of_gates.of_result(result(required=False), "pytest").state == "warning"
    missing = of_gates.of_result(result(code=127), "pytest")
    assert (missing.state, missing.exit_code, missing.advice) == ("wrong", ExitCode.BLOCKED, "install pytest")
    assert of_gates.of_result(result(code=None)).state == "wrong", "a timeout"


@each_of(
    ("code", "output", "missing"),
    [
        (127, "/bin/sh: 1: nosuch: not found\n", "nosuch"),
        (127, "/bin/sh: line 1: nosuch: command not found\n", "nosuch"),
        (127, "sh: nosuch: command not found\n", "nosuch"),
        (127, "env: 'nosuch': No such file or directory\n", "nosuch"),
        (127, "", "nosuch-first"),
        (1, "/usr/bin/python3: No module named pytest\n", "pytest"),
        (2, "make: tsc: No such file or directory\nmake: *** [Makefile:2: all] Error 127\n", "tsc"),
        (1, "ModuleNotFoundError: No module named 'sundial.writing'\n", ""),  # the very work to be done
        (1, "page: not found\n", ""),
        (0, "/bin/sh: 1: nosuch: not found\n", ""),
    ],
)
def test_the_program_that_is_missing_is_named(code: int, output: str, missing: str) -> None:
    step = VerificationStep(name="tests", command="A=1 nosuch-first --all")
    failed = result(passed=code == 0, code=code, output=output)
    assert of_gates.missing_program(step, failed, {"PATH": "/usr/bin:/bin"}) == missing


def test_a_command_that_no_shell_would_read_has_no_first_word() -> None:
    step = VerificationStep(name="tests", command="'open")
    assert of_gates.missing_program(step, result(code=127), {}) == ""


# git, lock, disk, configuration, prompts


@pytest.mark.parametrize(
    ("told", "state"),
    [
        ("git version 2.39.5", "ok"),
        ("git version 2.39.3 (Apple Git-146)", "ok"),
        ("git version 3.0.0-rc1", "ok"),
        ("git version 2.23.9", "wrong"),
        ("git version 1.8.3.1", "wrong"),
        ("something else", "unknown"),
    ],
)
def test_the_version_of_git(told: str, state: str) -> None:
    assert of_git.version(told, "/usr/bin/git").state == state


def test_a_lock_is_free_held_stale_or_held_by_nobody_who_is_named() -> None:
    someone = Holder(7, "2026-01-01T00:00:00Z", "run")
    assert of_lock.of_holder(None, None, alive=False, path="l").state == "ok"
    living = of_lock.of_holder(someone, someone, alive=True, path="l")
    assert (living.state, "process 7 ('ralph run', since 2026-01-01T00:00:00Z)" in living.text) == ("warning", True)
    dead = of_lock.of_holder(None, someone, alive=False, path="l")
    assert (dead.state, dead.advice) == ("warning", "the next start takes over: ralph resume")
    assert of_lock.of_holder(someone, someone, alive=False, path="l").advice == "find who holds it: fuser l"


def test_a_full_disk_is_told() -> None:
    assert of_system.room("caches", Path("/"), of_system.LEAST_FREE).state == "ok"
    assert of_system.room("caches", Path("/"), of_system.LEAST_FREE - 1).state == "warning"


def test_the_configuration_names_its_files_or_its_first_fault() -> None:
    assert "built-in" in of_ralph.configuration(Settings(Config())).text
    assert of_ralph.configuration(Settings(Config(), ("a", "RALPH_X"))).text == "configuration: a, RALPH_X"
    broken = of_ralph.configuration(Settings(None, problems=("a:1: x", "a:2: y")))
    assert (broken.state, broken.text) == ("wrong", "configuration: a:1: x (and 1 more)")


def test_notifications_that_would_not_be_sent_are_told() -> None:
    assert list(of_ralph.notifications(Config(), {})) == []
    [told] = of_ralph.notifications(Config(notify=Notify(urls=("${CHAT}",))), {})
    assert (told.state, told.advice) == ("warning", "set it to an address")


def test_prompts_of_own_templates_are_made_and_their_fault_told(tmp_path: Path) -> None:
    assert str(of_ralph.prompts(tmp_path, Config(), None)) == "prompts: the built-in ones"
    folder = StateFolder(tmp_path).templates
    folder.mkdir(parents=True)
    (folder / "qa.md.j2").write_text('{% extends "builtin/qa.md.j2" %}\n')
    assert str(of_ralph.prompts(tmp_path, Config(), prd(Task(id="t", title="T")))) == "prompts: own templates qa.md.j2"
    (folder / "qa.md.j2").write_text("# A\n{{ nothing_of_the_kind }}\n")
    told = of_ralph.prompts(tmp_path, Config(), None)
    assert told.state == "wrong"
    assert told.text.startswith(".rulebook-ralph/templates/qa.md.j2:2: 'nothing_of_the_kind' is undefined")
