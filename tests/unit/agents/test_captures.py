"""What the agents' CLIs really printed (tests/data/captures), and what is made of it, whole or damaged."""

import csv
import json
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from rulebook_ralph.process.supervisor import Ended
from rulebook_ralph.tasks.results import AgentResult, Usage
from tests.cases import each_of
from tests.unit.agents.streams import CAPTURES, CHANGES, DAMAGE, PARTS, REST, Stream, capture, lines
from tests.unit.agents.test_documented import RUNS as DOCUMENTED

DONE = "The file is written.\n<promise>DONE</promise>"
MORE = "The file is written; more remains to be done."
TWO_TURNS = Usage(input_tokens=2000, output_tokens=68, cache_read_tokens=400)
THREE_TURNS = Usage(input_tokens=3000, output_tokens=102, cache_read_tokens=600)
ONE_TURN = Usage(input_tokens=1000, output_tokens=34, cache_read_tokens=200)
NOTHING = Usage()
FILE = "/home/dev/project/hello.txt"


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
    cost: float | None = None


GOOD, OPEN = Run("finished", DONE, TWO_TURNS), Run("finished", MORE, TWO_TURNS)
NEW, OLD = "claude-2.1.330", "claude-2.1.197"


def claude(status: str, text: str = "", kind: str | None = None, usage: Usage = NOTHING, **more: object) -> Run:
    return Run(status, text, usage, kind, **{"cost": 0.0, **more})  # type: ignore[arg-type]


RUNS: dict[tuple[str, str], Run] = {
    (NEW, "success"): claude("finished", DONE, usage=TWO_TURNS, cost=0.00944),
    (NEW, "nopromise"): claude("finished", MORE, usage=TWO_TURNS, cost=0.00944),
    (NEW, "badtool"): claude("finished", DONE, usage=TWO_TURNS, cost=0.00944),
    (NEW, "http401"): claude("killed", kind="authentication", cost=None),
    (NEW, "http429x2"): claude("finished", DONE, usage=TWO_TURNS, cost=0.00944),
    (NEW, "credit"): claude("failed", "Credit balance is too low", "billing"),
    (NEW, "usage_limit"): claude(
        "failed", "API Error: Request rejected (429) · You've hit your usage limit", "usage-limit"
    ),
    (NEW, "oauth_usage_limit"): claude(
        "failed",
        "You've hit your 5-hour limit · resets 9:19pm (UTC)",
        "usage-limit",
        resets_at="2026-11-21T21:19:03Z",
    ),
    (NEW, "max_turns_1"): claude("failed", kind="max-turns", usage=ONE_TURN, cost=0.00472),
    (NEW, "max_budget"): claude(
        "failed",
        kind="max-budget",
        usage=Usage(input_tokens=5000, output_tokens=170, cache_read_tokens=1000),
        cost=0.0236,
    ),
    (NEW, "no_permission"): claude("finished", DONE, usage=TWO_TURNS, cost=0.00944),
    (NEW, "format_json"): claude("finished", DONE, usage=TWO_TURNS, cost=0.00944),
    (NEW, "format_text"): claude("truncated", kind="cut-off", cost=None),
    (NEW, "truncate"): claude("killed", kind="network", cost=None),
    (NEW, "garbage"): claude("failed", "API Error: JSON Parse error: Unrecognized token '<'", "network"),
    (NEW, "stop_always_block"): claude(
        "finished", usage=Usage(input_tokens=10000, output_tokens=340, cache_read_tokens=2000), cost=0.0472
    ),
    (NEW, "toolhang_SIGINT"): claude("killed", usage=ONE_TURN, cost=0.00472),
    (OLD, "success"): claude("finished", DONE, usage=TWO_TURNS, cost=0.0119),
    (OLD, "toolhang_term0"): claude("killed", DONE, usage=TWO_TURNS, cost=0.0119),
    (OLD, "truncate"): claude("finished", DONE, usage=TWO_TURNS, cost=0.0119),
    (OLD, "oauth_usage_limit"): claude(
        "failed",
        "You've hit your session limit · resets 9:17pm (UTC)",
        "usage-limit",
        resets_at="2026-11-21T21:17:58Z",
    ),
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
    ("aider", "success"): Run("finished", f"hello.txt\n\n{DONE}", Usage(input_tokens=2500, output_tokens=34)),
    ("aider", "nopromise"): Run("finished", f"hello.txt\n\n{MORE}", Usage(input_tokens=2500, output_tokens=33)),
    ("aider", "http401"): Run("failed", kind="authentication"),
    ("aider", "credit"): Run("failed", kind="billing"),
}


def stream_of(name: str) -> Stream:
    return Stream(name.partition("-")[0])


def ended(agent: str, scenario: str) -> Ended:
    run = RUNS[agent, scenario]
    code, killed = run.code, run.killed
    if agent in (NEW, OLD):
        with (CAPTURES / "index.tsv").open() as file:
            rows = {(row["agent"], row["scenario"]): row for row in csv.DictReader(file, delimiter="\t")}
        row = rows[agent, scenario]
        code, killed = int(row["exit_code"]), row["killed_by_timeout"] == "True"
    stderr = capture(agent, scenario, "err").decode()
    return Ended(code, "wall-time" if killed else None, stderr_tail=stderr)


def captured(agent: str, scenario: str) -> AgentResult:
    return stream_of(agent).concluded(capture(agent, scenario), ended(agent, scenario))


def whole(name: tuple[str, str]) -> bytes:
    """What an agent printed, or by its documentation prints."""
    return lines(*DOCUMENTED[name[0]]) if name[0] in DOCUMENTED else capture(*name)


def test_every_capture_is_expected() -> None:
    assert {(path.parent.name, path.stem) for path in CAPTURES.glob("*/*.out")} == set(RUNS)


@each_of(("agent", "scenario"), RUNS)
def test_captures_are_classified(agent: str, scenario: str) -> None:
    run, got = RUNS[agent, scenario], captured(agent, scenario)
    fault = got.fault
    seen = Run(
        *(got.status, got.final_text, got.usage, fault.kind if fault else None, run.code),
        *(fault.resets_at if fault else None, run.killed),
        got.cost_usd if got.cost_usd is None else round(got.cost_usd, 6),
    )
    assert seen == run


def test_every_stream_names_its_session() -> None:
    assert all(captured(agent, "success").session_id for agent in (NEW, OLD, "codex", "gemini", "qwen", "opencode"))


@each_of(
    ("agent", "scenario", "tools"),
    [
        (NEW, "success", [("Write", FILE, True)]),
        (NEW, "badtool", [("no_such_tool", "", False)]),
        (NEW, "max_budget", [("Bash", "date +%s%N", True)] * 4 + [("Bash", "date +%s%N", None)]),
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
        ("aider", "success", [("edit", "hello.txt", True)]),
    ],
)
def test_tools_are_told(agent: str, scenario: str, tools: list[tuple[str, str, bool | None]]) -> None:
    got = captured(agent, scenario).tool_results
    assert [(one.name, one.command, one.success) for one in got] == tools


def test_the_output_of_tools_is_kept() -> None:
    outputs = [captured(agent, "shell").tool_results[0].output for agent in ("codex", "opencode")]
    assert outputs == ["hello.txt\n"] * 2
    assert captured("qwen", "success").tool_results[0].output.startswith("Successfully created")
    assert captured(NEW, "success").tool_results[0].output.startswith("File created successfully at")


def test_what_was_refused_is_named() -> None:
    refused = "patch rejected: writing is blocked by read-only sandbox; rejected by user approval settings"
    assert captured("codex", "default_sandbox").permission_denials == (refused,)
    assert captured(NEW, "no_permission").permission_denials == (f"Write {FILE}",)
    for scenario in ("refused", "denied"):
        assert captured("opencode", scenario).permission_denials == ("bash echo shelled > hello.txt && ls",)


@each_of(
    ("agent", "scenario", "word"),
    [
        (NEW, "http401", "ANTHROPIC_API_KEY"),
        ("codex", "http401", "codex login"),
        ("gemini", "http401", "GEMINI_API_KEY"),
        ("gemini", "untrusted", "GEMINI_CLI_TRUST_WORKSPACE"),
        ("qwen", "http401", "OPENAI_API_KEY"),
        ("opencode", "http401", "opencode auth login"),
        ("aider", "http401", "set the API key"),
    ],
)
def test_a_failure_says_what_to_do(agent: str, scenario: str, word: str) -> None:
    fault = captured(agent, scenario).fault
    assert fault
    assert word in fault.message


@each_of(("agent", "most"), [(NEW, 10), ("codex", 5)])
def test_activity_is_shown_as_it_comes(agent: str, most: int) -> None:
    shown = stream_of(agent).shown(capture(agent, "http429x2"))
    assert [one.kind for one in shown] == ["retry", "retry", "tool", "text"]
    assert shown[0].text == f"retry 1 of {most}"
    assert "429" in shown[0].detail
    assert shown[3].text == "The file is written."


@each_of("agent", ["claude-2.1.330", "codex", "gemini", "qwen", "opencode"])
def test_lines_of_any_length_are_stepped_over(agent: str) -> None:
    long = b'{"type":"item.completed","item":{"aggregated_output":"' + b"x" * 17_000_000 + b'"}}\n'
    assert stream_of(agent).read(long + capture(agent, "success"), piece=1 << 20).succeeded is True


NAMES = st.sampled_from([*sorted(RUNS), *((kind, "documented") for kind in DOCUMENTED)])
MOST = settings(max_examples=settings().max_examples * 3)  # for seven agents


@MOST
@given(
    st.sampled_from(["claude", "codex", "gemini", "opencode", "qwen", "amp", "copilot", "cursor", "aider"]), st.binary()
)
def test_no_bytes_are_success(agent: str, stream: bytes) -> None:
    Stream(agent).check(stream)


@MOST
@given(NAMES, st.integers(1, 3000))
def test_blocks_do_not_matter(name: tuple[str, str], block: int) -> None:
    stream, read = whole(name), stream_of(name[0]).read
    assert read(stream, piece=block) == read(stream, piece=len(stream) or 1)


@MOST
@given(st.sampled_from([name for name, run in RUNS.items() if run.status == "finished"]), PARTS)
def test_what_lacks_its_last_line_is_not_finished(name: tuple[str, str], part: float) -> None:
    lacking = b"\nTokens: " if name[0] == "aider" else b""
    whole = capture(*name).rstrip().partition(lacking)[0] if lacking else capture(*name).rstrip()
    kept = whole[: int((len(whole) - 1) * part)]
    assert stream_of(name[0]).concluded(kept).status == "truncated"


@MOST
@given(NAMES, PARTS, REST)
def test_a_cut_stream_is_no_success(name: tuple[str, str], part: float, rest: bytes) -> None:
    stream_of(name[0]).check_cut(whole(name), part, rest)


@MOST
@given(NAMES, DAMAGE)
def test_damaged_streams_never_raise(name: tuple[str, str], damage: list[tuple[float, int]]) -> None:
    stream_of(name[0]).check_damaged(whole(name), damage)


@MOST
@given(NAMES, CHANGES)
def test_events_with_values_of_other_types_never_raise(
    name: tuple[str, str], changes: list[tuple[list[int], object]]
) -> None:
    events = [json.loads(line) for line in whole(name).splitlines() if line.startswith(b'{"')]
    stream_of(name[0]).check_changed(events, changes)
