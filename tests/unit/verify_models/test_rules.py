"""The judge's rules that run nothing: how the agent ended, what it said, and what it changed that nobody may."""

from typing import Any

import pytest

from rulebook_ralph.config.settings import Config, StopCriteria
from rulebook_ralph.tasks.model import Task
from rulebook_ralph.tasks.results import AgentFault, AgentResult, CheckResult, ToolResult, Verdict
from rulebook_ralph.verify import rules
from tests.unit.verify_models.support import TASK, Toy, attempt, project

SECRET = "sk-ant-api03-Zk4Wq9Lx2Vb7Nn5Rt8Yp"
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA0Zk4Wq9Lx2Vb7Nn5Rt8YpQ3EGRZ7LDKV2MWNP\n"


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    return project(tmp_path_factory.mktemp("rules"), {"app.py": "x = 1\n", "db/migrations/1.sql": "create\n"})


def ended(toy: Toy, **values: Any) -> Verdict | None:
    run_limited = values.pop("run_limited", False)
    result = AgentResult(**{"agent": "test", "status": "failed", **values})
    return rules.agent_ended(*attempt(toy, {}, result=result, run_limited=run_limited))


# How the agent ended


@pytest.mark.parametrize(
    ("values", "action", "stop_reason", "counts", "said"),
    [
        ({"killed_by": "interrupted", "status": "killed"}, "stop", "interrupted", False, "interrupted"),
        ({"fault": AgentFault(kind="authentication", message="log in")}, "stop", "error", False, "log in"),
        (
            {"fault": AgentFault(kind="usage-limit", message="5 h", resets_at="9:00")},
            "stop",
            "rate-limited",
            False,
            "until 9:00",
        ),
        (
            {"killed_by": "wall-time", "status": "killed", "run_limited": True},
            "stop",
            "max-wall-time",
            False,
            "the run's",
        ),
        ({"killed_by": "wall-time", "status": "killed"}, "continue", None, True, "took longer than the limit"),
        ({"killed_by": "idle-time", "status": "killed"}, "continue", None, True, "no output for too long"),
        ({"status": "truncated"}, "continue", None, True, "cut off"),
        ({"exit_code": 3}, "continue", None, True, "exit code 3"),
        ({"fault": AgentFault(kind="crash", message="boom")}, "continue", None, False, "boom"),
        ({"fault": AgentFault(kind="max-turns", message="30 turns")}, "continue", None, True, "30 turns"),
    ],
)
def test_whatever_an_agent_printed_its_own_end_completes_nothing(
    toy: Toy, values: dict[str, Any], action: str, stop_reason: str | None, counts: bool, said: str
) -> None:
    verdict = ended(toy, final_text="<promise>DONE</promise>", **values)
    assert verdict is not None
    assert (verdict.action, verdict.hook, verdict.stop_reason, verdict.counts) == (action, "agent", stop_reason, counts)
    assert said in verdict.reason


def test_an_agent_that_finished_is_judged_by_its_work(toy: Toy) -> None:
    assert ended(toy, status="finished") is None
    assert rules.agent_ended(*attempt(toy, {}, no_agent=True)) is None


def test_an_attempt_that_changed_nothing_is_told_so(toy: Toy) -> None:
    verdict = rules.nothing_changed(*attempt(toy, {}))
    assert "said it was done, but changed nothing" in verdict.reason
    assert "the final message was empty" in rules.nothing_changed(*attempt(toy, {}, said="")).reason


# Files that nobody may change, and secrets


@pytest.mark.parametrize(
    "files", [{"db/migrations/1.sql": "drop\n"}, {"db/migrations/2.sql": "x\n"}, {"db/migrations/1.sql": None}]
)
def test_protected_files_stay_as_they_are(toy: Toy, files: dict[str, str | None]) -> None:
    config = Config(protect=("migrations/",))
    verdict = rules.protected_unchanged(*attempt(toy, {"app.py": "x = 2\n", **files}, config=config))
    assert verdict is not None
    assert (verdict.action, verdict.hook) == ("continue", "protect")
    assert f"{next(iter(files))} is protected" in verdict.feedback
    assert rules.protected_unchanged(*attempt(toy, {"app.py": "x = 2\n"}, config=config)) is None
    assert rules.protected_unchanged(*attempt(toy, files)) is None


def test_a_protected_file_cannot_be_moved_away(toy: Toy) -> None:
    config = Config(protect=("migrations/",))
    moved = {"db/migrations/1.sql": None, "old/1.sql": "create\n"}
    verdict = rules.protected_unchanged(*attempt(toy, moved, config=config))
    assert verdict is not None
    assert "was renamed to old/1.sql" in verdict.reason


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (f'key = "{SECRET}"\n', "what looks like a secret"),
        (KEY, "a private key"),
        ("password = 'correct-horse-battery'\n", "a secret of this environment"),
    ],
)
def test_secrets_do_not_get_in_and_are_never_told(toy: Toy, text: str, what: str) -> None:
    verdict = rules.no_secrets(*attempt(toy, {"conf.py": f"\n{text}"}))
    assert verdict is not None
    assert (verdict.action, verdict.hook) == ("continue", "secrets")
    assert verdict.reason == f"conf.py:2: {what}{' (a key or token)' if 'looks' in what else ''} was added"
    told = verdict.reason + verdict.feedback
    assert SECRET not in told
    assert "correct-horse" not in told


@pytest.mark.parametrize(
    "text",
    [
        "key = 'sk-ant-api03-EXAMPLE-EXAMPLE-EXAMPLE'\n",
        "key = 'sk-xxxxxxxxxxxxxxxxxxxxxxxxx'\n",
        "-----BEGIN PRIVATE KEY-----\nnothing\n",
    ],
)
def test_what_is_plainly_made_up_is_no_secret(toy: Toy, text: str) -> None:
    assert rules.no_secrets(*attempt(toy, {"conf.py": text})) is None


def test_a_person_can_allow_what_looks_like_one_in_a_file_but_nothing_of_this_environment(toy: Toy) -> None:
    task = Task(id="one", title="t", may_change=("tests/keys/**",))
    assert rules.no_secrets(*attempt(toy, {"tests/keys/a.pem": KEY}, task=task)) is None
    assert rules.no_secrets(*attempt(toy, {"a.pem": KEY}, task=task)) is not None
    assert rules.no_secrets(*attempt(toy, {"tests/keys/a": "correct-horse-battery\n"}, task=task)) is not None


def test_a_secret_in_a_files_name_is_found_and_not_told(toy: Toy) -> None:
    verdict = rules.no_secrets(*attempt(toy, {f"keys/{SECRET}": "x\n"}))
    assert verdict is not None
    assert verdict.reason.startswith("keys: a file whose name looks like a secret")


# What it said


def test_a_blocked_marker_stops(toy: Toy) -> None:
    verdict = rules.says_blocked(*attempt(toy, {}, said="<ralph>BLOCKED: no access</ralph>\n"))
    assert verdict is not None
    assert (verdict.action, verdict.stop_reason, verdict.reason) == (
        "stop",
        "blocked",
        "the agent is blocked: no access",
    )
    own = StopCriteria(blocked_regex=r"STUCK: (.+)")
    found = rules.says_blocked(*attempt(toy, {}, said="STUCK: no key\n", stop_criteria=own))
    assert found is not None
    assert found.reason == "the agent is blocked: no key"
    assert rules.says_blocked(*attempt(toy, {}, said="all well", stop_criteria=own)) is None


def test_a_pattern_that_cannot_be_searched_is_said(toy: Toy) -> None:
    case, examination = attempt(toy, {}, said="a", stop_criteria=StopCriteria(blocked_regex="("))
    assert rules.says_blocked(case, examination) is None
    assert examination.log[0].startswith("stopCriteria.blockedRegex is no regular expression")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("All done: <promise>DONE</promise> as asked\nmore", "was not given alone on its line: All done"),
        ("I am done.", "the promise DONE was not given"),
        ("<promise>MADE</promise>", "another promise than DONE was given: MADE"),
    ],
)
def test_a_promise_that_was_not_given_is_told_with_what_was_found(toy: Toy, said: str, reason: str) -> None:
    verdict = rules.promise_given(*attempt(toy, {}, said=said))
    assert verdict is not None
    assert (verdict.action, verdict.hook) == ("continue", "promise")
    assert reason in verdict.reason
    assert "around DONE, alone on its own line" in verdict.feedback
    assert "<promise>" not in verdict.feedback.partition(". If the task")[2]


def test_a_promise_holds_in_bold_at_the_end_and_by_the_projects_pattern(toy: Toy) -> None:
    for markdown in ("**{}**", "`{}`", "### {}", "> {}", "```\n{}\n```"):
        said = f"Done.\n\n{markdown.format('<promise>DONE</promise>')}"
        assert rules.promise_given(*attempt(toy, {}, said=said)) is None, said
    pattern = StopCriteria(success_regex="ALL GREEN")
    assert rules.promise_given(*attempt(toy, {}, said="ALL GREEN", stop_criteria=pattern)) is None
    only = StopCriteria(success_regex="ALL GREEN", require_promise=False)
    verdict = rules.promise_given(*attempt(toy, {}, stop_criteria=only))
    assert verdict is not None
    assert "stopCriteria.successRegex" in verdict.reason
    assert "ALL GREEN" not in verdict.feedback, "an agent that repeats what it was told has not matched it"
    assert rules.promise_given(*attempt(toy, {}, said="", stop_criteria=StopCriteria(require_promise=False))) is None
    assert rules.promise_given(*attempt(toy, {}, no_agent=True, said="")) is None


def test_a_task_that_verifies_can_deny_in_a_plain_line(toy: Toy) -> None:
    task = Task(id="one", title="t", markers=("VERIFY",))
    said = "The parser is wrong.\nVERIFICATION_FAIL: no tests\n\n<promise>DONE</promise>"
    verdict = rules.promise_given(*attempt(toy, {}, task=task, said=said))
    assert verdict is not None
    assert verdict.reason == "the agent said VERIFICATION_FAIL: no tests"
    assert rules.promise_given(*attempt(toy, {}, task=TASK, said=said)) is None
    within = "No VERIFICATION_FAIL here.\n\n<promise>DONE</promise>"
    assert rules.promise_given(*attempt(toy, {}, task=task, said=within)) is None


# Stop criteria


def test_gates_of_a_kind_must_have_run_and_passed(toy: Toy) -> None:
    asked = StopCriteria(require_passing_tests=True, require_lint=True)
    lint = CheckResult(step="ruff", kind="lint", command="ruff", passed=False)
    verdict = rules.stop_criteria_met(*attempt(toy, {}, stop_criteria=asked, gates=[lint]))
    assert verdict is not None
    assert verdict.reason == (
        "stopCriteria.requirePassingTests: no gate of the kind test was run; stopCriteria.requireLint: ruff did not pass"
    )
    good = [CheckResult(step=kind, kind=kind, command="x", passed=True) for kind in ("test", "lint")]
    assert rules.stop_criteria_met(*attempt(toy, {}, stop_criteria=asked, gates=good)) is None
    assert rules.unsatisfiable(asked, []) != ()


def test_the_last_run_of_each_tool_counts(toy: Toy) -> None:
    def tool(command: str, success: bool | None) -> ToolResult:
        return ToolResult(name="Bash", command=command, success=success, output="E boom")

    def verdict(*tools: ToolResult) -> Verdict | None:
        result = AgentResult(agent="test", status="finished", tool_results=tools)
        return rules.stop_criteria_met(
            *attempt(toy, {}, result=result, stop_criteria=StopCriteria(require_no_errors=True))
        )

    assert verdict(tool("make", False), tool("make", True), tool("ls", None)) is None
    found = verdict(tool("make", True), tool("make  ", False))
    assert found is not None
    assert "the last run of Bash (make) failed" in found.reason
    assert "E boom" in found.feedback
