"""Completion hooks of the user's own: real commands, real entry points, real threads."""

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from rulebook_ralph import resources
from rulebook_ralph.agents.claude_stream import ClaudeReader
from rulebook_ralph.agents.local_time import local_clock
from rulebook_ralph.agents.transcript import conclude
from rulebook_ralph.cancellation import Cancellation
from rulebook_ralph.checks.shell import Cancelled
from rulebook_ralph.core import parser
from rulebook_ralph.core.diff import FileDiff, Line
from rulebook_ralph.core.evidence import AgentResult, CheckResult, Verdict
from rulebook_ralph.core.settings import Hook
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop.evidence import Evidence, Gates, Judgement
from rulebook_ralph.loop.pipeline import judge
from rulebook_ralph.loop.rules.attempt import WorkDone
from rulebook_ralph.loop.rules.built_in import built_in_hooks
from rulebook_ralph.loop.rules.gates import GatesPass
from rulebook_ralph.loop.rules.hook_input import hook_input
from rulebook_ralph.loop.rules.user_hooks import RESERVED, HookTools, load_plugins, user_hooks
from rulebook_ralph.supervisor import Ended
from tests.evidence import GREEN, Attempt

CAPTURES = Path(__file__).parent.parent / "data" / "captures"


@dataclass
class House:
    """A folder that hooks run in; `put_back` counts how often something was put back."""

    root: Path
    put_back: list[int] = field(default_factory=list)
    cancelled: Cancellation = field(default_factory=Cancellation)

    def tools(self) -> HookTools:
        return HookTools(
            root=self.root,
            environment={"PATH": os.environ["PATH"], "FROM": "gates"},
            clean=lambda text: text.replace("s3cret", "[redacted]"),
            cancelled=self.cancelled,
            put_back=lambda: self.put_back.append(1),
        )

    def judged(self, *hooks: Hook, evidence: Evidence | None = None) -> Judgement:
        mine = user_hooks(hooks, load_plugins(hooks), self.tools())
        rules = (WorkDone(), GatesPass())
        return judge(evidence or Attempt().evidence(), (*mine, *rules))

    def command(self, command: str, **settings: Any) -> Judgement:
        return self.judged(Hook(name="mine", command=command, **settings))


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


# Commands


@pytest.mark.parametrize(
    ("command", "action", "stop_reason", "says"),
    [
        ("true", "complete", None, ""),
        ("cat >/dev/null; echo", "complete", None, ""),
        ("echo 'no tabs, s3cret' >&2; exit 2", "continue", None, "no tabs, [redacted]"),
        ("exit 2", "continue", None, "it gave no reason"),
        ("""echo '{"action": "skip"}'""", "complete", None, ""),
        ("""echo '{"action": "continue", "message": "mend s3cret"}'""", "continue", None, "mend [redacted]"),
        ("""echo '{"action": "stop", "message": "needs a key"}'""", "stop", "blocked", "needs a key"),
        ("""echo '{"action": "stop", "reason": "paused", "message": "lunch"}'""", "stop", "paused", "lunch"),
        ("""echo '{"action": "stop", "reason": "cancelled"}'""", "stop", "cancelled", "it gave no reason"),
        ("""echo '{"action": "stop", "reason": "error", "message": "no disk"}'""", "stop", "error", "no disk"),
    ],
)
def test_what_a_command_answers(house: House, command: str, action: str, stop_reason: str | None, says: str) -> None:
    verdict = house.command(command).verdict
    assert (verdict.action, verdict.stop_reason) == (action, stop_reason)
    assert verdict.hook == ("pipeline" if action == "complete" else "mine")
    if action != "complete":
        assert says in verdict.reason
        assert says in verdict.feedback
        assert verdict.counts == (stop_reason in (None, "blocked"))
    assert house.put_back == [1]


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("echo sorry s3cret >&2; exit 1", "exit code 1: sorry [redacted]"),
        ("no-such-command-here", "exit code 127"),
        ("kill -9 $$", "exit code -9"),
        ("echo done", "no JSON"),
        ("echo '[1]'", "no object"),
        ("""echo '{"action": "complete"}'""", "no hook can complete"),
        ("""echo '{"action": "finish"}'""", "'finish'"),
        ("echo '{}'", "None"),
        ("""echo '{"action": "stop", "reason": "complete"}'""", "cannot stop with the reason 'complete'"),
        ("""echo '{"action": "continue", "message": 7}'""", "`message` that is no text"),
        ("yes", "printed more than"),
        ("sleep 60 & sleep 60", "did not end within 0.2 s"),
        ("head -c 100000 /dev/zero | tr '\\0' '['", "no JSON"),
    ],
)
def test_what_is_no_answer_is_an_error_of_the_hook(house: House, command: str, says: str) -> None:
    timeout = 0.2 if "sleep" in command else 30
    started = time.monotonic()
    optional = house.command(command, timeout=timeout)
    assert optional.verdict.action == "complete"
    assert says in optional.log[0]
    if "kill" in command or "finish" in command:
        required = house.command(command, required=True)
        assert (required.verdict.action, required.verdict.hook) == ("continue", "mine")
        assert says in required.verdict.feedback
    assert "s3cret" not in f"{optional}"
    assert time.monotonic() - started < 8


def test_environment_and_folder_of_a_command(house: House) -> None:
    verdict = house.command('echo "$FROM $RALPH_TASK $RALPH_STAGE $OWN $(pwd)" >&2; exit 2', env={"OWN": "x"}).verdict
    assert f"gates one coder x {house.root}" in verdict.feedback


def test_nothing_that_a_command_started_lives_on(house: House) -> None:
    verdict = house.command("sleep 300 & echo $! >&2; exit 2").verdict
    with pytest.raises(ProcessLookupError):
        os.kill(int(verdict.feedback.split()[-1]), 0)


def test_a_command_ends_when_the_run_is_cancelled(house: House) -> None:
    Timer(0.1, house.cancelled.set).start()
    with pytest.raises(Cancelled):
        house.command("sleep 60")
    assert house.put_back == [1]


def test_what_cannot_be_put_back_ends_the_run(house: House) -> None:
    def fail() -> None:
        raise OSError("index.lock")

    tools = HookTools(house.root, {"PATH": os.environ["PATH"]}, str, house.cancelled, fail)
    hooks = user_hooks((Hook(name="mine", command="true"),), {}, tools)
    with pytest.raises(RalphError, match=r"what the hook 'mine' changed could not be put back: index\.lock"):
        judge(Attempt().evidence(), hooks)


def test_user_hooks_are_kept_with_the_checks(house: House) -> None:
    judgement = house.judged(Hook(name="one", command="exit 1"), Hook(name="two", command="exit 2", priority=31))
    one, two = judgement.checks
    assert (one.step, one.method, one.command, one.passed, one.required) == ("one", "hook", "exit 1", False, False)
    assert (two.step, two.passed) == ("two", False)
    assert house.command("true").checks == (
        CheckResult(step="mine", method="hook", command="true", passed=True, required=False),
    )


def test_hooks_are_asked_in_the_order_of_their_priorities(house: House) -> None:
    late, early = Hook(name="late", command="exit 2", priority=60), Hook(name="early", command="exit 2", priority=1)
    assert house.judged(late, early).verdict.hook == "early"
    red = Attempt(Gates((CheckResult(step="tests", command="make test", passed=False),))).evidence()
    assert house.judged(late, evidence=red).verdict.hook == "gates"
    assert house.judged(Hook(name="same", command="exit 2", priority=50), evidence=red).verdict.hook == "same"


# What a command is told


def captured(scenario: str, **values: Any) -> Evidence:
    reader = ClaudeReader(lambda _: None, local_clock({}))
    reader.feed((CAPTURES / "claude-2.1.330" / f"{scenario}.out").read_bytes())
    result = conclude("claude", Ended(0), reader.close())
    diff = (FileDiff("M", "src/a.py", "src/a.py", added=(Line(1, "x"),)),)
    return Attempt().evidence(result=result, parsed=parser.parse(result), diff=lambda: diff, **values)


@pytest.mark.parametrize("scenario", ["success", "badtool", "no_permission", "max_turns_1", "garbage"])
def test_what_hooks_are_told_fits_the_schema(scenario: str) -> None:
    schema = resources.schema("hook-input")
    validator = Draft202012Validator(schema)
    for gates in (None, Gates((GREEN,))):
        told = json.loads(json.dumps(hook_input(captured(scenario), root=Path("/x"), gates=gates)))
        assert [error.message for error in validator.iter_errors(told)] == []
        assert told.keys() | {"attempt"} == schema["properties"].keys()


@pytest.mark.parametrize(("priority", "gates"), [(30, None), (50, None), (70, ["tests"])])
def test_structured_tool_results_of_a_real_stream_reach_a_hook(
    house: House, priority: int, gates: list[str] | None
) -> None:
    house.command("cat > told.json", priority=priority)
    house.judged(Hook(name="mine", command="cat > told.json", priority=priority), evidence=captured("success"))
    told = json.loads((house.root / "told.json").read_text())
    assert told["root"] == str(house.root)
    assert (told["taskId"], told["stage"], told["agentStatus"]) == ("one", "coder", "finished")
    assert told["finalMessage"].endswith("<promise>DONE</promise>")
    assert told["parsed"]["promises"] == ["DONE"]
    assert told["promiseGiven"] is False
    assert [{"name", "command", "success", "output"} == each.keys() for each in told["toolResults"]] == [True]
    assert told["toolResults"][0]["success"] is True
    assert told["toolResults"][0]["command"]
    assert told["filesChanged"] == ["src/a.py"]
    assert told["diffStat"][0]["added"] == 1
    assert told["costUsd"] == 0.00944
    assert (told["gates"] and [gate["step"] for gate in told["gates"]]) == gates


def test_a_message_that_is_long_and_no_text_is_told(house: House) -> None:
    result = AgentResult(agent="test", status="finished", final_text="\ud800" + "é" * 1_000_000 + "end")
    script = "import json, sys; print(len(json.load(sys.stdin)['finalMessage']), file=sys.stderr); sys.exit(2)"
    verdict = house.judged(
        Hook(name="mine", command=f'"{sys.executable}" -c "{script}"'), evidence=Attempt().evidence(result=result)
    ).verdict
    assert int(verdict.feedback.split()[-1]) < 201_000
    assert house.judged(Hook(name="deaf", command="exec 0<&-"), evidence=Attempt().evidence(result=result)).log == ()


# Plug-ins

PLUGINS = """
import os, sys, time
from rulebook_ralph.core.evidence import SKIP, Verdict

class Hook:
    name, priority = "theirs", 70
    verdict = SKIP
    def should_run(self, evidence):
        return True
    def run(self, evidence):
        return self.verdict

class Again(Hook):
    verdict = Verdict(action="continue", reason="more s3cret", feedback="do more")
class Stop(Hook):
    verdict = Verdict(action="stop", reason="lunch", stop_reason="paused")
class Complete(Hook):
    verdict = Verdict(action="complete", reason="trust me")
class Ended(Hook):
    verdict = Verdict(action="stop", stop_reason="complete", reason="all done")
class Odd(Hook):
    verdict = Verdict(action="continue", reason=7)
class Nothing(Hook):
    verdict = None
class Raises(Hook):
    def should_run(self, evidence):
        raise KeyError("table s3cret")
class Exits(Hook):
    def run(self, evidence):
        sys.exit(3)
class Hangs(Hook):
    timeout = 0.1
    def run(self, evidence):
        time.sleep(3)
class Early(Hook):
    priority = 20
    def run(self, evidence):
        return Verdict(action="continue", reason=str(evidence.run_gates().results[0].passed))
class Late(Early):
    priority = 70
class Required(Raises):
    required = True
class Broken:
    def __init__(self):
        raise RuntimeError("no licence")
def factory():
    return Again()
no_class = 7
class NoHook:
    pass
"""
NAMES = (
    "Again Stop Complete Ended Odd Nothing Raises Exits Hangs Early Late Required Broken factory no_class NoHook gone"
)


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A distribution with entry points, as pip would have installed it."""
    site = tmp_path / "site"
    info = site / "theirs-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "their_hooks.py").write_text(PLUGINS)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    points = "\n".join(f"{name} = their_hooks:{name}" for name in NAMES.split())
    (info / "entry_points.txt").write_text(f"[rulebook_ralph.hooks]\n{points}\n")
    monkeypatch.syspath_prepend(str(site))
    yield
    sys.modules.pop("their_hooks", None)


@pytest.mark.usefixtures("plugins")
class TestPlugins:
    @pytest.mark.parametrize(
        ("plugin", "action", "stop_reason", "says"),
        [
            ("Again", "continue", None, "more [redacted]"),
            ("factory", "continue", None, "more [redacted]"),
            ("Stop", "stop", "paused", "lunch"),
            ("Complete", "complete", None, ""),
            ("Late", "continue", None, "True"),
            ("Required", "continue", None, "KeyError: 'table [redacted]'"),
        ],
    )
    def test_what_a_plugin_answers(
        self, house: House, plugin: str, action: str, stop_reason: str | None, says: str
    ) -> None:
        verdict = house.judged(Hook(name="mine", plugin=plugin)).verdict
        assert (verdict.action, verdict.stop_reason) == (action, stop_reason)
        assert says in verdict.reason or action == "complete"
        assert house.put_back == [1]

    @pytest.mark.parametrize(
        ("plugin", "says"),
        [
            ("Ended", "cannot stop with the reason 'complete'"),
            ("Odd", "a Verdict that is none"),
            ("Nothing", "answered with a NoneType"),
            ("Raises", "KeyError: 'table [redacted]'"),
            ("Exits", "SystemExit: 3"),
            ("Hangs", "did not end within 0.1 s"),
            ("Early", "the gates have not been run"),
        ],
    )
    def test_what_goes_wrong_in_a_plugin_is_logged_and_left_out(self, house: House, plugin: str, says: str) -> None:
        started = time.monotonic()
        judgement = house.judged(Hook(name="mine", plugin=plugin))
        assert judgement.verdict.action == "complete"
        assert says in judgement.log[0]
        assert time.monotonic() - started < 2
        assert house.put_back == [1]

    def test_configured_values_override_the_plugins_own(self, house: House) -> None:
        def configured(**values: Any) -> Any:
            hooks = (Hook(name="mine", plugin="Hangs", **values),)
            return user_hooks(hooks, load_plugins(hooks), house.tools())[0]

        own, said = configured(), configured(priority=5, required=True, timeout=0.2)
        assert (own.name, own.priority, own.required) == ("mine", 70, False)
        assert (said.name, said.priority, said.required) == ("mine", 5, True)
        with pytest.raises(Exception, match=r"0\.2 s"):
            said.run(Attempt().evidence())

    def test_a_plugin_does_not_hold_up_a_run_that_is_cancelled(self, house: House) -> None:
        house.cancelled.set()
        with pytest.raises(Cancelled):
            house.judged(Hook(name="mine", plugin="Hangs", timeout=10))

    @pytest.mark.parametrize(
        ("plugin", "says"),
        [
            ("Broken", "RuntimeError: no licence"),
            ("no_class", "TypeError"),
            ("NoHook", "gives no object with should_run and run"),
            ("gone", "AttributeError"),
            ("Missing", "there is no plug-in 'Missing'; installed are: Again"),
        ],
    )
    def test_a_plugin_that_cannot_be_loaded_is_told_at_the_start(self, plugin: str, says: str) -> None:
        with pytest.raises(RalphError) as raised:
            load_plugins((Hook(name="mine", plugin=plugin),))
        assert "hook mine: " in str(raised.value)
        assert says in str(raised.value)


@pytest.mark.parametrize(
    "hooks",
    [
        (Hook(name="mine"),),
        (Hook(name="mine", command="true", plugin="theirs"),),
        (Hook(name="gates", command="true"),),
        (Hook(name="", command="true"),),
        (Hook(name="mine", command="true"), Hook(name="mine", command="false")),
    ],
)
def test_a_hook_that_is_wrongly_configured_is_told_at_the_start(hooks: tuple[Hook, ...]) -> None:
    with pytest.raises(RalphError, match="hooks: "):
        load_plugins(hooks)


def test_no_user_hook_can_bear_the_name_of_a_rule() -> None:
    assert {hook.name for hook in built_in_hooks()} <= RESERVED


def test_a_verdict_of_a_user_hook_is_settled_as_it_says(house: House) -> None:
    verdict: Verdict = house.command("""echo '{"action": "stop", "reason": "paused"}'""").verdict
    assert (verdict.stop_reason, verdict.counts) == ("paused", False)
