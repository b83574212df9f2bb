"""What codex, gemini, qwen and opencode really printed (tests/data/captures), and what is made of it, whole or damaged."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rulebook_ralph.agents import codex_stream, gemini_ending, qwen_stream
from rulebook_ralph.agents.codex_stream import CodexReader
from rulebook_ralph.agents.gemini_stream import GeminiReader
from rulebook_ralph.agents.opencode_stream import OpenCodeReader
from rulebook_ralph.agents.qwen_stream import QwenReader
from rulebook_ralph.agents.transcript import Reader, Transcript, conclude
from rulebook_ralph.core.events import AgentActivity
from rulebook_ralph.core.evidence import AgentResult, Usage
from rulebook_ralph.supervisor import Ended
from tests.cases import each_of

CAPTURES = Path(__file__).parent.parent / "data" / "captures"
NOW = datetime(2026, 11, 21, 20, 24, tzinfo=ZoneInfo("UTC"))
DONE = "The file is written.\n<promise>DONE</promise>"
MORE = "The file is written; more remains to be done."
TWO_TURNS = Usage(input_tokens=2000, output_tokens=68, cache_read_tokens=400)
THREE_TURNS = Usage(input_tokens=3000, output_tokens=102, cache_read_tokens=600)
ONE_TURN = Usage(input_tokens=1000, output_tokens=34, cache_read_tokens=200)
NOTHING = Usage()
FILE = "/home/dev/project/hello.txt"

READERS: dict[str, Callable[[Callable[[AgentActivity], None]], Reader]] = {
    "codex": lambda report: CodexReader(report, lambda: NOW),
    "gemini": lambda report: GeminiReader(report, lambda: NOW),
    "qwen": lambda report: QwenReader(report, lambda: NOW),
    "opencode": lambda report: OpenCodeReader(report, lambda: NOW),
}


@dataclass(frozen=True)
class Run:
    """How a captured run ended, and what must come of it."""

    status: str
    text: str = ""
    usage: Usage = NOTHING
    kind: str | None = None
    code: int = 0
    resets_at: str | None = None
    killed: bool = False


GOOD, OPEN = Run("finished", DONE, TWO_TURNS), Run("finished", MORE, TWO_TURNS)

RUNS: dict[tuple[str, str], Run] = {
    ("codex", "success"): GOOD,
    ("codex", "nopromise"): OPEN,
    ("codex", "badtool"): GOOD,
    ("codex", "http401"): Run("failed", kind="authentication", code=1),
    ("codex", "http429x2"): GOOD,
    ("codex", "usage_limit"): Run("failed", kind="usage-limit", code=1, resets_at="2026-11-21T21:23:00Z"),
    ("codex", "truncate"): Run("failed", kind="network", code=1),
    ("codex", "full_auto_flag"): Run("failed", kind="crash", code=2),
    ("codex", "default_sandbox"): GOOD,
    ("codex", "shell"): GOOD,
    ("codex", "read_only_shell"): GOOD,
    ("codex", "credit"): Run("failed", kind="billing", code=1),
    ("codex", "http400"): Run("failed", kind="context-too-long", code=1),
    ("codex", "http500"): Run("failed", kind="overloaded", code=1),
    ("codex", "no_network"): Run("killed", kind="network", code=1, killed=True),
    ("opencode", "success"): GOOD,
    ("opencode", "nopromise"): OPEN,
    ("opencode", "http401"): Run("failed", kind="authentication", code=1),
    ("opencode", "http429x2"): GOOD,
    ("opencode", "badtool"): GOOD,
    ("opencode", "shell"): GOOD,
    ("opencode", "denied"): GOOD,
    ("opencode", "refused"): Run("failed", usage=ONE_TURN, kind="permission"),
    ("opencode", "http400"): Run("failed", DONE, TWO_TURNS, "context-too-long", code=1),
    ("gemini", "success"): GOOD,
    ("gemini", "nopromise"): OPEN,
    ("gemini", "http401"): Run("failed", kind="authentication", code=145),
    ("gemini", "usage_limit"): Run("failed", kind="usage-limit", code=173),
    ("gemini", "untrusted"): Run("failed", kind="permission", code=55),
    ("gemini", "format_json"): GOOD,
    ("gemini", "format_json_429"): Run("failed", kind="usage-limit", code=173),
    ("gemini", "toolhang"): Run("killed", killed=True),
    ("gemini", "credit"): Run("failed", kind="billing", code=144),
    ("gemini", "http429"): Run("killed", kind="rate-limit", killed=True),
    ("qwen", "success"): GOOD,
    ("qwen", "nopromise"): OPEN,
    ("qwen", "http401"): Run("failed", "[API Error: 401 invalid x-api-key]", kind="authentication"),
    ("qwen", "credit"): Run(
        "failed", "[API Error: 400 Your credit balance is too low to access the API]", kind="billing"
    ),
    ("qwen", "garbage"): Run("failed", "[API Error: Model stream ended without a finish reason.]", kind="network"),
    ("qwen", "max_turns"): Run("failed", usage=THREE_TURNS, kind="max-turns", code=53),
    ("qwen", "truncate_after_promise"): Run(
        "failed", f"{DONE}[API Error: terminated (cause: other side closed)]", ONE_TURN, "network"
    ),
    ("qwen", "slash"): Run("failed", kind="unknown"),
}


def capture(agent: str, scenario: str, end: str = "out") -> bytes:
    path = CAPTURES / agent / f"{scenario}.{end}"
    return path.read_bytes() if end == "out" or path.exists() else b""


def read(agent: str, stream: bytes, block: int = 1000) -> Transcript:
    reader = READERS[agent](lambda _: None)
    for start in range(0, len(stream), block):
        reader.feed(stream[start : start + block])
    return reader.close()


def concluded(agent: str, stream: bytes, ended: Ended) -> AgentResult:
    transcript = read(agent, stream)
    if agent == "codex":
        transcript = codex_stream.with_stderr(transcript, ended)
    elif agent == "gemini":
        transcript = gemini_ending.with_ending(transcript, ended, NOW)
    elif agent == "qwen":
        transcript = qwen_stream.with_ending(transcript, ended)
    return conclude(agent, ended, transcript)


def captured(agent: str, scenario: str) -> AgentResult:
    run = RUNS[agent, scenario]
    stderr = capture(agent, scenario, "err").decode()
    ended = Ended(run.code, "wall-time" if run.killed else None, stderr_tail=stderr)
    return concluded(agent, capture(agent, scenario), ended)


def test_every_capture_is_expected() -> None:
    there = {(agent, path.stem) for agent in READERS for path in (CAPTURES / agent).glob("*.out")}
    assert there == set(RUNS)


@each_of(("agent", "scenario"), RUNS)
def test_captures_are_classified(agent: str, scenario: str) -> None:
    run, got = RUNS[agent, scenario], captured(agent, scenario)
    fault = got.fault
    seen = Run(
        *(got.status, got.final_text, got.usage, fault.kind if fault else None, run.code),
        *(fault.resets_at if fault else None, run.killed),
    )
    assert seen == run
    assert got.cost_usd is None


def test_every_stream_names_its_session() -> None:
    assert all(captured(agent, "success").session_id for agent in READERS)
    assert captured("gemini", "format_json").session_id == "0c8c6bb9-b9b8-48f8-8441-69739b14bd23"


@each_of(
    ("agent", "scenario", "tools"),
    [
        ("codex", "success", [("apply_patch", FILE, True)]),
        ("codex", "shell", [("shell", "echo shelled > hello.txt && ls", True)]),
        ("codex", "read_only_shell", [("shell", "echo shelled > hello.txt && ls", False)]),
        ("gemini", "success", [("write_file", "hello.txt", True)]),
        ("gemini", "toolhang", [("run_shell_command", "echo $$ > tool.pid; sleep 7531", None)]),
        ("qwen", "success", [("write_file", FILE, True)]),
        ("qwen", "max_turns", [("run_shell_command", "date +%s%N", True)] * 3),
        ("opencode", "success", [("write", FILE, True)]),
        ("opencode", "shell", [("bash", "echo shelled > hello.txt && ls", True)]),
        ("opencode", "badtool", [("no_such_tool", "", False)]),
        ("opencode", "refused", [("bash", "echo shelled > hello.txt && ls", False)]),
    ],
)
def test_tools_are_told(agent: str, scenario: str, tools: list[tuple[str, str, bool | None]]) -> None:
    got = captured(agent, scenario).tool_results
    assert [(one.name, one.command, one.success) for one in got] == tools


def test_the_output_of_tools_is_kept() -> None:
    outputs = [captured(agent, "shell").tool_results[0].output for agent in ("codex", "opencode")]
    assert outputs == ["hello.txt\n"] * 2
    assert captured("qwen", "success").tool_results[0].output.startswith("Successfully created")


def test_what_was_refused_is_named() -> None:
    refused = "patch rejected: writing is blocked by read-only sandbox; rejected by user approval settings"
    assert captured("codex", "default_sandbox").permission_denials == (refused,)
    for scenario in ("refused", "denied"):
        assert captured("opencode", scenario).permission_denials == ("bash echo shelled > hello.txt && ls",)


def test_a_failure_says_what_to_do() -> None:
    for agent, word in (
        *(("codex", "codex login"), ("gemini", "GEMINI_API_KEY")),
        *(("qwen", "OPENAI_API_KEY"), ("opencode", "opencode auth login")),
    ):
        fault = captured(agent, "http401").fault
        assert fault
        assert word in fault.message
    untrusted = captured("gemini", "untrusted").fault
    assert untrusted
    assert "GEMINI_CLI_TRUST_WORKSPACE" in untrusted.message


def test_retries_are_shown() -> None:
    shown: list[AgentActivity] = []
    reader = READERS["codex"](shown.append)
    reader.feed(capture("codex", "http429x2"))
    assert [one.kind for one in shown] == ["retry", "retry", "tool", "text"]
    assert shown[0].text == "retry 1 of 5"


# what never was captured


def lines(*events: object) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def codex_failure(message: str) -> AgentResult:
    return concluded("codex", lines({"type": "turn.failed", "error": {"message": message}}), Ended(1))


def qwen_result(**fields: object) -> bytes:
    return lines({"type": "result", "subtype": "success", "is_error": False, **fields})


def opencode_error(**data: object) -> AgentResult:
    return concluded("opencode", lines({"type": "error", "error": {"name": "APIError", "data": data}}), Ended(1))


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("You\u2019ve hit your usage limit for GPT-5. Try again at Nov 23rd, 2026 9:00 AM.", "usage-limit"),
        ("exceeded retry limit, last status: 429 Too Many Requests", "rate-limit"),
        ("unexpected status 529 <unknown status code>: Overloaded, url: http://x", "overloaded"),
        ("Codex ran out of room in the model's context window.", "context-too-long"),
        ("Selected model is at capacity. Please try a different model.", "overloaded"),
        ("Quota exceeded. Check your plan and billing details.", "billing"),
        ("Your access token could not be refreshed. Please log out and sign in again.", "authentication"),
        ("something new", "unknown"),
    ],
)
def test_codex_errors_have_their_kind(message: str, kind: str) -> None:
    got = codex_failure(message)
    assert (got.status, got.fault and got.fault.kind) == ("failed", kind)


def test_a_turn_of_codex_needs_an_end_of_its_own() -> None:
    done, begun = {"type": "turn.completed", "usage": {}}, {"type": "turn.started"}
    assert read("codex", lines(done)).succeeded is True
    assert read("codex", lines(done, begun)).succeeded is None
    assert read("codex", lines(done, begun, {"type": "turn.failed", "error": {"message": "x"}})).succeeded is False


def test_limits_of_opencode_have_their_time() -> None:
    got = opencode_error(message="slow", statusCode=429, responseHeaders={"retry-after": "90"})
    assert got.fault
    assert (got.fault.kind, got.fault.resets_at) == ("rate-limit", "2026-11-21T20:25:30Z")
    body = json.dumps({"error": {"type": "usage_limit_reached", "message": "x", "resets_at": 1795295943}})
    limit = opencode_error(message="x", statusCode=429, responseBody=body, responseHeaders={"retry-after": "1"})
    assert limit.fault
    assert (limit.fault.kind, limit.fault.resets_at) == ("usage-limit", "2026-11-21T21:19:03Z")


def test_the_cost_of_opencode_is_summed_over_its_steps() -> None:
    step = {"type": "step_finish", "part": {"reason": "stop", "cost": 0.25, "tokens": {"output": 5, "reasoning": 7}}}
    got = read("opencode", lines(step, step))
    assert (got.cost_usd, got.usage.output_tokens) == (0.5, 24)


def test_what_opencode_says_by_itself_is_no_answer() -> None:
    said = {"type": "text", "part": {"text": "mine"}}
    assert read(
        "opencode", lines(said, {"type": "text", "part": {"text": "its own", "synthetic": True}})
    ).final_text == ("mine")


def test_an_answer_cut_at_its_longest_is_no_success() -> None:
    got = concluded("opencode", lines({"type": "step_finish", "part": {"reason": "length"}}), Ended(0))
    assert (got.status, got.fault and got.fault.kind) == ("failed", "cut-off")


@pytest.mark.parametrize(
    "suffix", ["", "\n", "\nPossible quota limitations in place. Please wait and try again later."]
)
def test_an_error_of_qwen_may_stand_behind_a_promise(suffix: str) -> None:
    got = concluded("qwen", qwen_result(result=f"{DONE}[API Error: 429 Too many requests]{suffix}"), Ended(0))
    assert (got.status, got.fault and got.fault.kind) == ("failed", "rate-limit")


@pytest.mark.parametrize("said", ["I now print [API Error: 401 x] for it.\n" + DONE, "[API Error: 1] is gone"])
def test_an_error_that_qwen_writes_about_is_none(said: str) -> None:
    assert concluded("qwen", qwen_result(result=said), Ended(0)).status == "finished"


def test_quota_of_a_day_is_a_usage_limit_with_its_time() -> None:
    details = [{"violations": [{"quotaId": "RequestsPerDay"}]}, {"retryDelay": "3600s"}]
    body = json.dumps({"error": {"code": 429, "message": "x", "status": "RESOURCE_EXHAUSTED", "details": details}})
    event = {"type": "result", "status": "error", "error": {"message": f"[API Error: {body}]"}}
    got = concluded("gemini", lines(event), Ended(173))
    assert got.fault
    assert (got.fault.kind, got.fault.resets_at) == ("usage-limit", "2026-11-21T21:24:00Z")


def test_thoughts_of_gemini_are_output() -> None:
    stats = {"total_tokens": 150, "input_tokens": 100, "cached": 40, "output_tokens": 20}
    got = read("gemini", lines({"type": "result", "status": "success", "stats": stats}))
    assert got.usage == Usage(input_tokens=60, output_tokens=50, cache_read_tokens=40)


def test_limit_words_in_tools_and_prose_are_no_limit() -> None:
    words = "You've hit your usage limit, try again at 10:11 PM. 401 invalid api key"
    tool = {"id": "1", "type": "command_execution", "command": words, "aggregated_output": words, "exit_code": 1}
    events = [{"type": "item.completed", "item": item} for item in (tool, {"type": "agent_message", "text": words})]
    assert concluded("codex", lines(*events, {"type": "turn.completed"}), Ended(0)).status == "finished"
    cut = concluded("codex", lines(*events), Ended(0))
    assert (cut.status, cut.fault and cut.fault.kind) == ("truncated", "cut-off")


@pytest.mark.parametrize("agent", READERS)
def test_lines_of_any_length_are_stepped_over(agent: str) -> None:
    long = b'{"type":"item.completed","item":{"aggregated_output":"' + b"x" * 17_000_000 + b'"}}\n'
    reader = READERS[agent](lambda _: None)
    for start in range(0, len(long), 1 << 20):
        reader.feed(long[start : start + (1 << 20)])
    reader.feed(capture(agent, "success"))
    assert reader.close().succeeded is True


# whatever could come


def tells_success(agent: str, stream: bytes) -> bool:
    """Whether there is a terminal success event at all."""
    wanted = {"codex": b"turn.completed", "gemini": b"success", "qwen": b"success", "opencode": b"stop"}[agent]
    document = agent == "gemini" and b'"response"' in stream and b'"stats"' in stream
    return document or any(wanted in line and b"{" in line for line in stream.split(b"\n"))


def check(agent: str, stream: bytes) -> None:
    got = concluded(agent, stream, Ended(0))
    assert got.status in ("finished", "failed", "truncated")
    assert got.status != "finished" or tells_success(agent, stream)
    assert msgspec.json.decode(msgspec.json.encode(got), type=AgentResult) == got


NAMES = st.sampled_from(sorted(RUNS))
AGENTS = st.sampled_from(sorted(READERS))
MOST = settings(max_examples=settings().max_examples * 3)  # for ten agents


@MOST
@given(AGENTS, st.binary(max_size=300))
def test_no_bytes_are_success(agent: str, stream: bytes) -> None:
    check(agent, stream)


@MOST
@given(NAMES, st.integers(1, 3000))
def test_blocks_do_not_matter(name: tuple[str, str], block: int) -> None:
    stream = capture(*name)
    assert read(name[0], stream, block) == read(name[0], stream, len(stream) or 1)


@MOST
@given(st.sampled_from([name for name, run in RUNS.items() if run.status == "finished"]), st.floats(0, 1))
def test_what_lacks_its_last_line_is_not_finished(name: tuple[str, str], part: float) -> None:
    whole = capture(*name).rstrip()
    kept = whole[: int((len(whole) - 1) * part)]
    assert concluded(name[0], kept, Ended(0)).status == "truncated"


@MOST
@given(NAMES, st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=30))
def test_damaged_captures_never_raise(name: tuple[str, str], damage: list[tuple[float, int]]) -> None:
    stream = bytearray(capture(*name))
    for place, byte in damage if stream else []:
        stream[int((len(stream) - 1) * place)] = byte
    check(name[0], bytes(stream))


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


@given(NAMES, st.lists(st.tuples(st.lists(st.integers(0, 40), min_size=2, max_size=6), JSON), min_size=1, max_size=5))
def test_events_with_values_of_other_types_never_raise(
    name: tuple[str, str], changes: list[tuple[list[int], object]]
) -> None:
    events = [json.loads(line) for line in capture(*name).splitlines() if line.startswith(b'{"')]
    for path, new in changes:
        events = replaced(events, path, new) if events else []
    check(name[0], lines(*events) if isinstance(events, list) else lines(events))
