"""Completion hooks of the user's own, and the repository's commit hooks: real commands, real entry points, a real box."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Event, Timer
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from rulebook_ralph import resources
from rulebook_ralph.config.settings import Config, Hook
from rulebook_ralph.errors import RalphError
from rulebook_ralph.git.clone import Clones
from rulebook_ralph.process.cancellation import Cancellation
from rulebook_ralph.tasks.criteria import Criteria, External
from rulebook_ralph.tasks.results import AgentResult, CheckResult, ToolResult, Verdict
from rulebook_ralph.verify import criteria
from rulebook_ralph.verify.gates import GateRunner
from rulebook_ralph.verify.hooks import (
    RULES,
    commit_is_taken,
    hook_input,
    hooks_after_gates,
    hooks_before_gates,
    user_hooks,
)
from rulebook_ralph.verify.redaction import Redactor
from rulebook_ralph.verify.workspace import Cancelled, ClonePreparer, GateClones
from tests.unit.verify_models.support import IDENTITY, Toy, attempt, project

FILES: Mapping[str, str | None] = {"app.py": "x = 3\n", "new.txt": "new\n"}
GREEN = CheckResult(step="tests", kind="test", command="make test", passed=True)


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    return project(tmp_path_factory.mktemp("hooks"))


def asked(toy: Toy, *hooks: Hook, after: bool = False, **values: Any) -> tuple[Verdict | None, Any]:
    case, examination = attempt(toy, FILES, hooks=user_hooks(hooks), secret="s3cret-s3cret", **values)
    return (hooks_after_gates if after else hooks_before_gates)(case, examination), examination


def command(toy: Toy, text: str, **settings: Any) -> tuple[Verdict | None, Any]:
    return asked(toy, Hook(name="mine", command=text, **settings))


# What a command answers


@pytest.mark.parametrize(
    ("text", "action", "stop_reason", "says"),
    [
        ("true", None, None, ""),
        ("cat >/dev/null; echo", None, None, ""),
        ("echo 'no tabs, s3cret-s3cret' >&2; exit 2", "continue", None, "no tabs, [redacted]"),
        ("exit 2", "continue", None, "it gave no reason"),
        ("""echo '{"action": "skip"}'""", None, None, ""),
        ("""echo '{"action": "continue", "message": "mend s3cret-s3cret"}'""", "continue", None, "mend [redacted]"),
        ("""echo '{"action": "stop", "message": "needs a key"}'""", "stop", "blocked", "needs a key"),
        ("""echo '{"action": "stop", "reason": "paused", "message": "lunch"}'""", "stop", "paused", "lunch"),
        ("""echo '{"action": "stop", "reason": "error", "message": "no disk"}'""", "stop", "error", "no disk"),
        (
            """echo '{"action": "stop", "stopReason": "paused", "stopMessage": "at lunch"}'""",
            "stop",
            "paused",
            "at lunch",
        ),
        (
            """echo '{"action": "continue", "nextMessages": ["a", {"role": "user", "parts": [{"type": "text", "text": "mend it"}]}]}'""",
            "continue",
            None,
            "a",
        ),
        ("""echo '{"action": "stop", "reason": "quota is used up"}'""", "stop", "error", "quota is used up"),
        ("""echo '{"action": "stop", "reason": "complete", "message": "ok"}'""", "stop", "error", "complete: ok"),
    ],
)
def test_what_a_command_answers(toy: Toy, text: str, action: str | None, stop_reason: str | None, says: str) -> None:
    verdict, examination = command(toy, text)
    (check,) = examination.checks
    assert (check.step, check.method, check.command, check.passed) == ("mine", "hook", text, action is None)
    if action is None:
        assert verdict is None
        return
    assert verdict is not None
    assert (verdict.action, verdict.stop_reason, verdict.hook) == (action, stop_reason, "mine")
    assert says in verdict.reason
    assert says in verdict.feedback
    assert verdict.counts == (stop_reason in (None, "blocked"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("echo done", "no JSON"),
        ("echo '[1]'", "no object"),
        ("""echo '{"action": "complete"}'""", "no hook can complete"),
        ("""echo '{"action": "finish"}'""", "'finish'"),
        ("echo '{}'", "None"),
        ("""echo '{"action": "continue", "message": 7}'""", "`message` that is no text"),
        ("""echo '{"action": "continue", "nextMessages": 7}'""", "no messages"),
        ("yes", "printed more than"),
        ("head -c 100000 /dev/zero | tr '\\0' '['", "no JSON"),
    ],
)
def test_nonsense_never_completes_and_is_the_hooks_fault(toy: Toy, text: str, says: str) -> None:
    verdict, examination = command(toy, text)
    assert verdict is not None
    assert (verdict.action, verdict.counts) == ("continue", False), "no attempt of the agent's"
    assert says in verdict.reason
    assert "gave no verdict, so the attempt is not accepted" in verdict.reason
    assert says in examination.log[0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("echo sorry s3cret-s3cret >&2; exit 1", "exit code 1: sorry [redacted]"),
        ("no-such-command-here", "exit code 127"),
        ("kill -9 $$", "exit code -9"),
        ("sleep 60 & sleep 60", "did not end within 0.3 s"),
    ],
)
def test_a_hook_that_fails_is_passed_over_unless_it_is_required(toy: Toy, text: str, says: str) -> None:
    started = time.monotonic()
    timeout = 0.3 if "sleep" in text else 30
    verdict, examination = command(toy, text, timeout=timeout)
    assert verdict is None
    assert says in examination.log[0]
    required, _ = command(toy, text, required=True, timeout=timeout)
    assert required is not None
    assert (required.action, required.counts) == ("continue", False)
    assert says in required.reason
    assert time.monotonic() - started < 8


def test_a_command_sees_what_is_judged_and_not_the_users_tree(toy: Toy) -> None:
    verdict, _ = command(
        toy, 'echo "$RALPH_TASK $RALPH_STAGE $OWN $(cat app.py new.txt)" >&2; exit 2', env={"OWN": "x"}
    )
    assert verdict is not None
    assert "one coder x x = 3\nnew" in verdict.feedback
    assert not (toy.root / "new.txt").exists()


def test_a_command_ends_when_the_run_is_cancelled(toy: Toy) -> None:
    case, examination = attempt(toy, FILES, hooks=user_hooks([Hook(name="mine", command="sleep 60")]))
    examination.verifiers.cancelled = cancelled = Cancellation()
    Timer(0.1, cancelled.set).start()
    with pytest.raises(Cancelled):
        hooks_before_gates(case, examination)


def test_hooks_are_asked_in_the_order_of_their_priorities_around_the_gates(toy: Toy) -> None:
    hooks = [Hook(name=f"p{priority}", command="exit 2", priority=priority) for priority in (60, 50, 1)]
    before, _ = asked(toy, *hooks)
    assert before is not None
    assert before.hook == "p1"
    after, _ = asked(toy, *hooks, after=True)
    assert after is not None
    assert after.hook == "p60"


# What a command is told


def test_what_hooks_are_told_fits_the_schema(toy: Toy) -> None:
    schema = resources.schema("hook-input")
    tools = (ToolResult(name="Bash", command="make", success=True),)
    whole = AgentResult(agent="test", status="finished", final_text="\ud800" + "é" * 1_000_000, tool_results=tools)
    for values in ({}, {"result": whole}, {"no_agent": True}):
        for gates in (None, [GREEN]):
            case, examination = attempt(toy, {**FILES, "app.py": None}, **values)
            told = json.loads(json.dumps(hook_input(case, examination, root=Path("/x"), gates=gates)))
            assert [error.message for error in Draft202012Validator(schema).iter_errors(told)] == []
            assert told.keys() == schema["properties"].keys()
            assert len(told["finalMessage"]) < 201_000


@pytest.mark.parametrize("after", [False, True])
def test_only_hooks_after_the_gates_are_told_of_them(toy: Toy, after: bool) -> None:
    text = f'"{sys.executable}" -c "import json, sys; print(json.load(sys.stdin)[\'gates\'], file=sys.stderr); sys.exit(2)"'
    verdict, _ = asked(toy, Hook(name="mine", command=text, priority=60 if after else 30), after=after, gates=[GREEN])
    assert verdict is not None
    assert ("make test" if after else "None") in verdict.feedback


# What is refused


@pytest.mark.parametrize(
    ("hooks", "says"),
    [
        ([Hook(name="a", command=" ")], "'a' needs a `command`"),
        ([Hook(name="a", command="x"), Hook(name="a", command="y")], "the name 'a' is taken"),
        ([Hook(name=" ", command="x")], "is taken or empty"),
        *(([Hook(name=name, command="x")], f"the name '{name}' is taken") for name in sorted(RULES)),
    ],
)
def test_a_hook_that_is_wrongly_configured_is_refused_at_the_start(hooks: list[Hook], says: str) -> None:
    with pytest.raises(RalphError) as refused:
        user_hooks(hooks)
    assert says in str(refused.value)


# The repository's own commit hooks, and all of it in a real clone


@pytest.fixture
def real(tmp_path: Path) -> Iterator[tuple[Toy, GateRunner]]:
    """A repository of its own with a real gate runner, in the sandbox where this machine has one."""
    made = project(tmp_path)
    environment = {**os.environ, **IDENTITY}
    clones = Clones(made.repository, tmp_path / "cache")
    cancelled, config = Event(), Config()
    workspace = ClonePreparer(
        made.repository,
        config,
        environment,
        hidden=(clones.root,),
        clean=str,
        cancelled=cancelled,
        report=lambda _: None,
    )
    redactor = Redactor({})
    yield (
        made,
        GateRunner(
            GateClones(clones, workspace),
            config,
            environment=environment,
            redactor=redactor,
            cancelled=cancelled,
            report=lambda _: None,
        ),
    )
    clones.close()


def _hook(made: Toy, name: str, text: str, folder: str = ".git/hooks") -> None:
    path = made.root / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)


def _agree(made: Toy, runner: GateRunner, **values: Any) -> Verdict | None:
    case, examination = attempt(made, FILES, **values)
    examination.verifiers.gates = runner
    return commit_is_taken(case, examination)


def test_commit_hooks_see_the_candidate_staged_and_its_message(real: tuple[Toy, GateRunner]) -> None:
    made, runner = real
    assert _agree(made, runner) is None, "there are none"
    _hook(
        made,
        "pre-commit",
        "git diff --cached --name-status; git diff --quiet || echo dirty; git log --oneline | wc -l; exit 1",
    )
    verdict = _agree(made, runner)
    assert verdict is not None
    assert (verdict.action, verdict.hook) == ("continue", "commit")
    assert verdict.reason == "the commit was refused: the pre-commit hook refused it (exit code 1)"
    assert verdict.feedback.splitlines()[2:] == ["M\tapp.py", "A\tnew.txt", "1"]
    _hook(made, "pre-commit", "exit 0")
    _hook(made, "commit-msg", 'grep -q "^feat:" "$1" || { echo "no type: $(head -1 "$1")"; exit 1; }')
    verdict = _agree(made, runner)
    assert verdict is not None
    assert "no type: Add add" in verdict.feedback
    assert _agree(made, runner, last_stage=False) is None, "there is no commit"
    assert made.git("status", "--porcelain") == ""


def test_commit_hooks_of_a_configured_folder_and_those_that_agree(real: tuple[Toy, GateRunner]) -> None:
    made, runner = real
    made.git("config", "core.hooksPath", ".husky")
    _hook(made, "pre-commit", "exit 1", ".git/hooks")
    _hook(made, "pre-commit", "grep -q 'x = 3' app.py && test -f new.txt", ".husky")
    assert _agree(made, runner) is None
    _hook(made, "pre-commit", "echo no; exit 1", ".husky")
    assert _agree(made, runner) is not None


def test_hooks_and_criteria_run_on_the_candidate_in_a_clone(real: tuple[Toy, GateRunner]) -> None:
    made, runner = real
    hooks = user_hooks([Hook(name="mine", command="cat new.txt >&2; touch left.txt; exit 2")])
    case, examination = attempt(
        made,
        FILES,
        hooks=hooks,
        criteria=Criteria(promise="DONE", verification=External(command="grep 'x = 3' app.py && ! test -e left.txt")),
    )
    examination.verifiers.gates = runner
    verdict = hooks_before_gates(case, examination)
    assert verdict is not None
    assert "new" in verdict.feedback
    found = criteria.verify(case, examination)
    assert (found.passed, found.proven, found.results[0].output.strip()) == (True, True, "x = 3")
    assert (
        subprocess.run(["git", "status", "--porcelain"], cwd=made.root, capture_output=True, check=True).stdout == b""
    )
