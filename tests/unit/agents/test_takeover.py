"""What is read from the raw output of an agent whose Ralph died: all that it told, and never a success."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.agents import registry
from rulebook_ralph.agents.reader import Reader
from rulebook_ralph.agents.roster import Roster
from rulebook_ralph.config.settings import Config, Executor, Tools
from rulebook_ralph.tasks.results import AgentResult, Usage
from tests.cases import each_of
from tests.unit.agents.streams import CAPTURES

STREAMS = sorted(CAPTURES.glob("*/*.out"))
STARTED = datetime(2026, 11, 22, 10, 0, tzinfo=UTC)


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
    config = Config(tools=Tools(executors=(Executor(id="mine", type=kind),)))
    return Roster(config, {"TZ": "UTC"}).taken_over("mine", file, started=STARTED)


@each_of("capture", STREAMS)
def test_a_whole_stream_tells_the_same_as_to_a_living_ralph_but_for_its_end(tmp_path: Path, capture: Path) -> None:
    reader = reader_of(kind_of(capture))
    reader.feed(capture.read_bytes())
    reader.close()
    result = taken(tmp_path, kind_of(capture), capture.read_bytes())
    assert (result.usage, result.final_text) == (reader.usage, reader.final_text)
    assert reader.cost_usd in (None, result.cost_usd), "where none was told, the usual prices tell one"
    assert (result.session_id, result.tool_results) == (reader.session_id, reader.tool_results)
    assert result.status == ("failed" if reader.succeeded is False else "truncated")
    assert result.fault
    assert result.duration_ms == 90_000


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
