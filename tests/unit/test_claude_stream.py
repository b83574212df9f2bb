"""claude's stream, from real captures (tests/data/captures) and from whatever else could come."""

import csv
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.agents.claude_stream import ClaudeReader
from rulebook_ralph.agents.giving_up import GivingUp
from rulebook_ralph.agents.transcript import Transcript, conclude
from rulebook_ralph.core.events import AgentActivity
from rulebook_ralph.core.evidence import AgentFault, AgentResult, Usage
from rulebook_ralph.supervisor import Ended
from tests.cases import each_of

CAPTURES = Path(__file__).parent.parent / "data" / "captures"
NOW = datetime(2026, 11, 21, 20, 19, tzinfo=UTC)
DONE = "The file is written.\n<promise>DONE</promise>"
TWO_TURNS = Usage(input_tokens=2000, output_tokens=68, cache_read_tokens=400)
ONE_TURN = Usage(input_tokens=1000, output_tokens=34, cache_read_tokens=200)
STARTED_TURN = Usage(input_tokens=1000, output_tokens=1, cache_read_tokens=200)


def read(stream: bytes, activities: list[AgentActivity] | None = None) -> Transcript:
    seen = [] if activities is None else activities
    reader = ClaudeReader(seen.append, lambda: NOW)
    for start in range(0, len(stream), 1000):
        reader.feed(stream[start : start + 1000])
    return reader.close()


def capture(version: str, scenario: str) -> bytes:
    return (CAPTURES / f"claude-{version}" / f"{scenario}.out").read_bytes()


def lines(*events: object) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def result(**fields: object) -> dict[str, object]:
    return {"type": "result", "subtype": "success", "is_error": False, "result": "ok", **fields}


def concluded(stream: bytes, exit_code: int = 0) -> AgentResult:
    return conclude("claude", Ended(exit_code), read(stream))


NO_USAGE = Usage()


@dataclass(frozen=True)
class Expected:
    status: str
    text: str = ""
    kind: str | None = None
    usage: Usage = NO_USAGE
    cost: float | None = 0.0
    resets_at: str | None = None


EXPECTED = {
    ("2.1.330", "success"): Expected("finished", DONE, usage=TWO_TURNS, cost=0.00944),
    ("2.1.330", "nopromise"): Expected(
        "finished", "The file is written; more remains to be done.", usage=TWO_TURNS, cost=0.00944
    ),
    ("2.1.330", "badtool"): Expected("finished", DONE, usage=TWO_TURNS, cost=0.00944),
    ("2.1.330", "http401"): Expected("killed", kind="authentication", cost=None),
    ("2.1.330", "http429x2"): Expected("finished", DONE, usage=TWO_TURNS, cost=0.00944),
    ("2.1.330", "credit"): Expected("failed", "Credit balance is too low", "billing"),
    ("2.1.330", "usage_limit"): Expected(
        "failed", "API Error: Request rejected (429) · You've hit your usage limit", "usage-limit"
    ),
    ("2.1.330", "oauth_usage_limit"): Expected(
        "failed",
        "You've hit your 5-hour limit · resets 9:19pm (UTC)",
        "usage-limit",
        resets_at="2026-11-21T21:19:03Z",
    ),
    ("2.1.330", "max_turns_1"): Expected("failed", kind="max-turns", usage=ONE_TURN, cost=0.00472),
    ("2.1.330", "max_budget"): Expected(
        "failed",
        kind="max-budget",
        usage=Usage(input_tokens=5000, output_tokens=170, cache_read_tokens=1000),
        cost=0.0236,
    ),
    ("2.1.330", "no_permission"): Expected("finished", DONE, usage=TWO_TURNS, cost=0.00944),
    ("2.1.330", "format_json"): Expected("finished", DONE, usage=TWO_TURNS, cost=0.00944),
    ("2.1.330", "format_text"): Expected("truncated", kind="cut-off", cost=None),
    ("2.1.330", "truncate"): Expected("killed", kind="network", cost=None),
    ("2.1.330", "garbage"): Expected("failed", "API Error: JSON Parse error: Unrecognized token '<'", "network"),
    ("2.1.330", "stop_always_block"): Expected(
        "finished", usage=Usage(input_tokens=10000, output_tokens=340, cache_read_tokens=2000), cost=0.0472
    ),
    ("2.1.330", "toolhang_SIGINT"): Expected("killed", usage=ONE_TURN, cost=0.00472),
    ("2.1.197", "success"): Expected("finished", DONE, usage=TWO_TURNS, cost=0.0119),
    ("2.1.197", "toolhang_term0"): Expected("killed", DONE, usage=TWO_TURNS, cost=0.0119),
    ("2.1.197", "truncate"): Expected("finished", DONE, usage=TWO_TURNS, cost=0.0119),
    ("2.1.197", "oauth_usage_limit"): Expected(
        "failed", "You've hit your session limit · resets 9:17pm (UTC)", "usage-limit", resets_at="2026-11-21T21:17:58Z"
    ),
}


def captured_runs() -> list[tuple[str, str, Ended]]:
    with (CAPTURES / "index.tsv").open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return [
        (
            row["agent"].removeprefix("claude-"),
            row["scenario"],
            Ended(int(row["exit_code"]), "wall-time" if row["killed_by_timeout"] == "True" else None),
        )
        for row in rows
    ]


def test_every_capture_is_expected() -> None:
    assert {(version, scenario) for version, scenario, _ in captured_runs()} == set(EXPECTED)


@each_of(("version", "scenario", "ended"), captured_runs())
def test_captures_are_classified(version: str, scenario: str, ended: Ended) -> None:
    got = conclude("claude", ended, read(capture(version, scenario)))
    seen = Expected(
        got.status,
        got.final_text,
        got.fault.kind if got.fault else None,
        got.usage,
        got.cost_usd if got.cost_usd is None else round(got.cost_usd, 6),
        got.fault.resets_at if got.fault else None,
    )
    assert seen == EXPECTED[version, scenario]


def test_a_killed_run_keeps_why_it_hung() -> None:
    got = conclude("claude", Ended(143, "wall-time"), read(capture("2.1.330", "http401")))
    assert got.fault
    assert "401" in got.fault.message


def test_an_interrupted_retry_is_told_by_what_it_retried_for() -> None:
    interrupted = result(subtype="error_during_execution", is_error=True, result=None, errors=["[ede_diagnostic]"])
    got = conclude("claude", Ended(0, "wall-time"), read(capture("2.1.330", "http401") + lines(interrupted)))
    assert (got.status, got.fault and got.fault.kind) == ("killed", "authentication")


def test_tools_are_paired_with_their_results() -> None:
    success = "File created successfully at: /home/dev/project/hello.txt"
    (write,) = read(capture("2.1.330", "success")).tool_results
    assert (write.name, write.command, write.success) == ("Write", "/home/dev/project/hello.txt", True)
    assert write.output.startswith(success)
    (bad,) = read(capture("2.1.330", "badtool")).tool_results
    assert (bad.name, bad.success) == ("no_such_tool", False)
    *answered, open_one = read(capture("2.1.330", "max_budget")).tool_results
    assert [(tool.command, tool.success) for tool in answered] == [("date +%s%N", True)] * 4
    assert open_one.success is None


def test_a_refused_tool_is_named() -> None:
    assert read(capture("2.1.330", "no_permission")).permission_denials == ("Write /home/dev/project/hello.txt",)


def test_activity_is_reported_as_it_comes() -> None:
    activities: list[AgentActivity] = []
    read(capture("2.1.330", "http429x2"), activities)
    assert [one.kind for one in activities] == ["retry", "retry", "tool", "text"]
    assert activities[0].text == "retry 1 of 10"
    assert "429" in activities[0].detail
    assert activities[2:] == [
        AgentActivity("tool", "Write", "/home/dev/project/hello.txt"),
        AgentActivity("text", "The file is written."),
    ]


def test_a_turn_after_the_result_needs_a_result_of_its_own() -> None:
    turn = {"type": "assistant", "message": {"content": [{"type": "text", "text": "more"}]}}
    assert read(lines(result(), turn)).succeeded is None
    assert read(lines(result(), turn, result(result="both"))).final_text == "both"
    assert read(lines(result(), {**turn, "parent_tool_use_id": "toolu_1"})).succeeded


@pytest.mark.parametrize("exit_code", [1, 137, -9])
def test_success_with_a_bad_exit_code_is_a_crash(exit_code: int) -> None:
    got = concluded(lines(result()), exit_code)
    assert (got.status, got.fault and got.fault.kind) == ("failed", "crash")


@pytest.mark.parametrize("fields", [{"is_error": True}, {"is_error": None}, {"is_error": 0}, {"subtype": "new_thing"}])
def test_exit_code_0_is_no_success(fields: dict[str, object]) -> None:
    assert concluded(lines(result(**fields))).status == "failed"


@each_of(
    ("fields", "kind"),
    [
        ({"result": "Invalid API key · Please run /login"}, "authentication"),
        ({"api_error_status": 401, "result": "x"}, "authentication"),
        ({"api_error_status": 403, "result": "x"}, "authentication"),
        ({"api_error_status": 400, "result": "Prompt is too long"}, "context-too-long"),
        ({"api_error_status": 413, "result": "x"}, "context-too-long"),
        ({"api_error_status": 429, "result": "API Error: Rate limit exceeded"}, "rate-limit"),
        ({"api_error_status": 429, "result": "You\u2019ve hit your weekly limit"}, "usage-limit"),
        ({"api_error_status": 529, "result": "x"}, "overloaded"),
        ({"api_error_status": 500, "result": "x"}, "overloaded"),
        ({"result": "API Error: Connection error."}, "network"),
        ({"subtype": "error_during_execution", "result": None, "errors": ["fetch failed"]}, "network"),
        ({"result": "something new"}, "unknown"),
    ],
)
def test_errors_have_their_kind(fields: dict[str, object], kind: str) -> None:
    got = concluded(lines(result(is_error=True, **fields)), 1)
    assert (got.status, got.fault and got.fault.kind) == ("failed", kind)


def test_a_stated_epoch_is_the_reset() -> None:
    got = concluded(lines(result(is_error=True, result="Claude AI usage limit reached|1795295943")), 1)
    assert got.fault
    assert (got.fault.kind, got.fault.resets_at) == ("usage-limit", "2026-11-21T21:19:03Z")


def test_a_stated_clock_time_is_the_reset() -> None:
    said = "You've hit your 5-hour limit · resets 9:19pm (UTC)"
    got = concluded(lines(result(is_error=True, api_error_status=429, result=said)), 1)
    assert got.fault
    assert (got.fault.kind, got.fault.resets_at) == ("usage-limit", "2026-11-21T21:19:00Z")


LIMIT = {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": 1795295943}}


@pytest.mark.parametrize("info", [{"status": "allowed"}, {"status": "allowed_warning"}, {"isUsingOverage": True}])
def test_a_warning_is_no_limit(info: dict[str, object]) -> None:
    event = {"type": "rate_limit_event", "rate_limit_info": {**LIMIT["rate_limit_info"], **info}}  # type: ignore[dict-item]
    got = concluded(lines(event, result(is_error=True, api_error_status=429, result="x")), 1)
    assert got.fault
    assert (got.fault.kind, got.fault.resets_at) == ("rate-limit", None)


def test_limit_words_in_tools_and_prose_are_no_limit() -> None:
    words = "You've hit your usage limit. Invalid API key. Credit balance is too low."
    events = (
        {"type": "assistant", "message": {"content": [{"type": "text", "text": words}]}},
        {"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "1", "name": "Bash", "input": {}}]}},
        {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "1", "content": words}]}},
    )
    assert concluded(lines(*events, result(result=words))).status == "finished"
    failed = concluded(lines(*events, result(is_error=True, subtype="error_during_execution", result=None)), 1)
    assert failed.fault
    assert failed.fault.kind == "unknown"


def test_result_without_model_usage_counts_usage() -> None:
    usage = {"input_tokens": 5, "output_tokens": 6, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 8}
    assert read(lines(result(usage=usage))).usage.total == 26


def test_tokens_of_an_unfinished_run_are_summed_per_message() -> None:
    def turn(message_id: str, output: int) -> dict[str, object]:
        usage = {"input_tokens": 10, "output_tokens": output}
        return {"type": "assistant", "message": {"id": message_id, "content": [], "usage": usage}}

    stream = lines(turn("a", 1), turn("a", 5), turn("b", 7))
    assert read(stream).usage == Usage(input_tokens=20, output_tokens=12)


def test_only_the_last_tools_are_kept_and_their_output_is_cut() -> None:
    def tool(number: int) -> bytes:
        use = {"type": "tool_use", "id": str(number), "name": "Bash", "input": {"command": f"echo {number}"}}
        answer = {"type": "tool_result", "tool_use_id": str(number), "content": "x" * 10_000 + "END", "is_error": False}
        return lines(
            {"type": "assistant", "message": {"content": [use]}}, {"type": "user", "message": {"content": [answer]}}
        )

    tools = read(b"".join(map(tool, range(300)))).tool_results
    assert [one.command for one in tools] == [f"echo {number}" for number in range(100, 300)]
    assert all(len(one.output) < 4100 and one.output.endswith("END") for one in tools)


def test_noise_between_events_is_stepped_over() -> None:
    noise = b"warning: not json\n[1]\n{\n\xff\xfe\n\n"
    assert read(noise + lines(result()) + noise).succeeded


def test_text_that_is_no_valid_unicode_can_still_be_stored() -> None:
    stream = b'{"type":"result","subtype":"success","is_error":false,"result":"cut \\ud83d here \xff"}\n'
    got = concluded(stream)
    assert got.final_text == "cut \ufffd here \ufffd"
    assert msgspec.json.decode(msgspec.json.encode(got), type=AgentResult) == got


def is_terminal_success(stream: bytes) -> bool:
    for line in stream.split(b"\n"):
        try:
            event = json.loads(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and event.get("type") == "result" and event.get("is_error") is False:
            return True
    return False


def check(stream: bytes) -> None:
    got = concluded(stream)
    assert got.status in ("finished", "failed", "truncated")
    assert got.status != "finished" or is_terminal_success(stream)
    assert msgspec.json.decode(msgspec.json.encode(got), type=AgentResult) == got


SCENARIOS = st.sampled_from(sorted(EXPECTED))


@given(st.binary(max_size=300))
def test_no_bytes_are_success(stream: bytes) -> None:
    check(stream)


@given(SCENARIOS, st.floats(0, 1), st.binary(max_size=20))
def test_cut_captures_are_no_success(name: tuple[str, str], part: float, rest: bytes) -> None:
    whole = capture(*name)
    check(whole[: int(len(whole) * part)] + rest)


@given(SCENARIOS, st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=30))
def test_damaged_captures_never_raise(name: tuple[str, str], damage: list[tuple[float, int]]) -> None:
    stream = bytearray(capture(*name))
    for place, byte in damage:
        stream[int((len(stream) - 1) * place)] = byte
    check(bytes(stream))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


def replaced(value: Any, path: list[int], new: object) -> Any:
    """`value` with the part that `path` leads to, an index at each level, put to `new`."""
    if not path or not isinstance(value, dict | list) or not value:
        return new
    key = list(value)[path[0] % len(value)] if isinstance(value, dict) else path[0] % len(value)
    changed = value.copy()
    changed[key] = replaced(value[key], path[1:], new)
    return changed


@given(
    SCENARIOS, st.lists(st.tuples(st.lists(st.integers(0, 40), min_size=2, max_size=7), JSON), min_size=1, max_size=6)
)
def test_events_with_values_of_other_types_never_raise(
    name: tuple[str, str], changes: list[tuple[list[int], object]]
) -> None:
    events = [json.loads(line) for line in capture(*name).splitlines() if line.startswith(b"{")]
    for path, new in changes:
        events = replaced(events, path, new) if events else []
    check(lines(*events))


def gave_up(stream: bytes) -> list[AgentFault]:
    told: list[AgentFault] = []
    ClaudeReader(lambda _: None, lambda: NOW, give_up=told.append).feed(stream)
    return told


def test_a_key_that_is_refused_again_and_again_is_given_up_and_says_what_to_do() -> None:
    """claude would try ten times, in three minutes."""
    first, *_ = gave_up(capture("2.1.330", "http401"))
    assert first.kind == "authentication"
    assert "HTTP 401" in first.message
    assert "ANTHROPIC_API_KEY" in first.message


@pytest.mark.parametrize("attempts", [1, 2])
def test_a_token_may_be_refused_before_claude_renews_it(attempts: int) -> None:
    retry = {"type": "system", "subtype": "api_retry", "error_status": 401, "max_retries": 10}
    assert gave_up(lines(*({**retry, "attempt": number + 1} for number in range(attempts)))) == []


@pytest.mark.parametrize("status", [429, 500, 529, None])
def test_what_can_heal_is_not_given_up(status: int | None) -> None:
    retry = {"type": "system", "subtype": "api_retry", "error_status": status, "max_retries": 10}
    assert gave_up(lines(*({**retry, "attempt": number} for number in range(1, 11)))) == []


WRONG_KEY = AgentFault(kind="authentication", message="HTTP 401")
KILLED = AgentResult(agent="claude", status="killed", killed_by="interrupted")


def test_an_agent_that_was_given_up_failed_and_was_not_interrupted() -> None:
    end = GivingUp(Event())
    end.give_up(WRONG_KEY)
    assert end.is_set()
    outcome = end.outcome(KILLED)
    assert (outcome.status, outcome.killed_by, outcome.fault) == ("failed", None, WRONG_KEY)


def test_an_order_to_end_and_other_ends_outrank_giving_up() -> None:
    order = Event()
    end = GivingUp(order)
    assert not end.is_set()
    too_long = msgspec.structs.replace(KILLED, killed_by="wall-time")
    end.give_up(WRONG_KEY)
    assert end.outcome(too_long) is too_long
    order.set()
    assert end.outcome(KILLED) is KILLED
