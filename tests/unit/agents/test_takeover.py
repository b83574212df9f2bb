"""What is read from the raw output of an agent whose Ralph died: all that it told, and never a success."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.agents import registry
from rulebook_ralph.agents.reader import Reader
from rulebook_ralph.agents.roster import taken_over
from rulebook_ralph.config.settings import Executor
from rulebook_ralph.tasks.results import AgentResult, Usage
from tests.cases import each_of
from tests.unit.agents.streams import CAPTURES

STREAMS = sorted(CAPTURES.glob("*/*.out"))
STARTED = datetime(2026, 11, 22, 10, 0, tzinfo=UTC)
WHOLE = (CAPTURES / "claude-2.1.330" / "success.out").read_bytes()


def kind_of(capture: Path) -> str:
    return "claude" if capture.parent.name.startswith("claude") else capture.parent.name


def reader_of(kind: str) -> Reader:
    return registry.reader_class(Executor(id="x", type=kind))(lambda _: None, lambda: STARTED)


def taken(folder: Path, kind: str, output: bytes | None) -> AgentResult:
    file = folder / "output-1.log"
    if output is not None:
        file.write_bytes(output)
        last = (STARTED + timedelta(seconds=90)).timestamp()
        os.utime(file, (last, last))
    return taken_over(Executor(id="mine", type=kind), file, started=STARTED, now=lambda: STARTED)


@each_of("capture", STREAMS)
def test_a_whole_stream_tells_the_same_as_to_a_living_ralph_but_for_its_end(tmp_path: Path, capture: Path) -> None:
    reader = reader_of(kind_of(capture))
    reader.feed(capture.read_bytes())
    reader.close()
    result = taken(tmp_path, kind_of(capture), capture.read_bytes())
    assert (result.usage, result.cost_usd, result.final_text) == (reader.usage, reader.cost_usd, reader.final_text)
    assert (result.session_id, result.tool_results) == (reader.session_id, reader.tool_results)
    assert result.status == ("failed" if reader.succeeded is False else "truncated")
    assert result.fault
    assert result.duration_ms == 90_000


def test_cost_and_tokens_of_claude_are_taken_over(tmp_path: Path) -> None:
    result = taken(tmp_path, "claude", WHOLE)
    assert (result.status, result.cost_usd) == ("truncated", 0.00944)
    assert result.usage == Usage(input_tokens=2000, output_tokens=68, cache_read_tokens=400)
    assert result.final_text.startswith("The file is written.")
    assert result.output.startswith('{"')


def test_tokens_of_a_cut_stream_are_those_of_the_turns_that_were_seen(tmp_path: Path) -> None:
    cut = WHOLE[: WHOLE.rindex(b'"type":"result"')]
    result = taken(tmp_path, "claude", cut)
    assert (result.usage.output_tokens > 0, result.cost_usd, result.final_text) == (True, None, "")
    assert result.fault
    assert result.fault.kind == "cut-off"


@each_of("kind", ["claude", "codex", "aider", "command", "scripted", "plugged-in"])
@each_of("output", [None, b"", b"\xff\n{", b"done\n<promise>DONE</promise>\n"])
def test_nothing_and_noise_are_no_success(tmp_path: Path, kind: str, output: bytes | None) -> None:
    result = taken(tmp_path, kind, output)
    assert (result.status, result.usage, result.cost_usd) == ("truncated", Usage(), None)
    assert result.output_bytes == len(output or b"")


@given(st.sampled_from(STREAMS), st.floats(0, 1), st.binary(max_size=10))
def test_no_cut_reads_as_success(
    tmp_path_factory: pytest.TempPathFactory, capture: Path, part: float, rest: bytes
) -> None:
    whole = capture.read_bytes()
    result = taken(tmp_path_factory.getbasetemp(), kind_of(capture), whole[: int(len(whole) * part)] + rest)
    assert result.status in ("failed", "truncated")
    assert result.fault


def test_a_reset_is_meant_at_the_time_of_the_last_output(tmp_path: Path) -> None:
    capture = CAPTURES / "codex" / "usage_limit.out"
    result = taken(tmp_path, "codex", capture.read_bytes())
    assert result.fault
    assert result.fault.resets_at
    assert result.fault.resets_at.startswith("2026-11-22T")
