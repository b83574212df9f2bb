"""amp's stream as its documentation tells of it, and whatever else could come."""

import pytest

from rulebook_ralph.tasks.results import Usage
from tests.unit.agents.streams import Stream, lines

STREAM = Stream("amp")
THREAD = "T-f9941a25-53ab-4a65-9d3c-1c2b3d4e5f60"
DONE = "Done.\n<promise>DONE</promise>"


def said(*content: object, **usage: int) -> dict[str, object]:
    message = {"type": "message", "role": "assistant", "content": content, "stop_reason": "end_turn", "usage": usage}
    return {"type": "assistant", "message": message, "parent_tool_use_id": None, "session_id": THREAD}


def answered(call: str, content: object, *, is_error: bool = False) -> dict[str, object]:
    block = {"type": "tool_result", "tool_use_id": call, "content": content, "is_error": is_error}
    return {"type": "user", "message": {"role": "user", "content": [block]}, "session_id": THREAD}


def result(**fields: object) -> dict[str, object]:
    end = {"type": "result", "subtype": "success", "duration_ms": 9, "is_error": False, "num_turns": 2, "result": DONE}
    return {**end, "session_id": THREAD, **fields}


INIT = {"type": "system", "subtype": "init", "cwd": "/w", "session_id": THREAD, "tools": ["Bash"], "mcp_servers": []}
USE = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"cmd": "make test"}}
RUN = [
    INIT,
    said(USE, input_tokens=10, output_tokens=5, cache_read_input_tokens=3, cache_creation_input_tokens=2),
    answered("toolu_1", '{"output":"ok","exitCode":0}'),
    said({"type": "text", "text": DONE}, input_tokens=20, output_tokens=7),
    result(),
]


def test_a_run_that_ends_well() -> None:
    got = STREAM.concluded(lines(*RUN))
    assert (got.status, got.final_text, got.session_id) == ("finished", DONE, THREAD)
    assert got.usage == Usage(input_tokens=30, output_tokens=12, cache_read_tokens=3, cache_write_tokens=2)
    assert got.cost_usd is None
    (tool,) = got.tool_results
    assert (tool.name, tool.command, tool.success) == ("Bash", "make test", True)
    assert [one.kind for one in STREAM.shown(lines(*RUN))] == ["tool", "text"]


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"subtype": "error_during_execution", "error": "401 Unauthorized"}, "authentication"),
        ({"subtype": "error_during_execution", "error": "You're out of credits"}, "billing"),
        ({"subtype": "error_during_execution", "error": "Rate limit reached (429)"}, "rate-limit"),
        ({"subtype": "error_during_execution", "error": "You\u2019ve hit your daily limit"}, "usage-limit"),
        ({"subtype": "error_max_turns", "error": "x"}, "max-turns"),
        ({"is_error": True}, "unknown"),
        ({"is_error": None}, "unknown"),
        ({"subtype": "new_thing"}, "unknown"),
    ],
)
def test_errors_have_their_kind_and_outrank_the_promise(fields: dict[str, object], kind: str) -> None:
    end = {"is_error": True, **fields} if "error" in fields else fields
    got = STREAM.concluded(lines(*RUN[:-1], result(**end)))
    assert (got.status, got.fault and got.fault.kind) == ("failed", kind)
    if kind == "authentication":
        assert got.fault
        assert "amp login" in got.fault.message


def test_words_of_the_model_and_of_tools_are_no_error() -> None:
    words = "usage limit reached, invalid api key"
    failed = result(subtype="error_during_execution", is_error=True, result=words)
    got = STREAM.concluded(lines(said({"type": "text", "text": words}), answered("x", words), failed))
    assert got.fault
    assert got.fault.kind == "unknown"


def test_the_end_of_a_turn_before_the_last_is_no_end() -> None:
    assert STREAM.concluded(lines(*RUN, said({"type": "text", "text": "more"}))).status == "truncated"
    helper = {**said({"type": "text", "text": "helper"}), "parent_tool_use_id": "toolu_1"}
    assert STREAM.concluded(lines(*RUN, helper)).status == "finished"
    assert STREAM.concluded(lines(*RUN[:-1])).status == "truncated"


def test_a_message_that_comes_again_counts_once() -> None:
    message = {"id": "m1", "content": [], "usage": {"input_tokens": 5}}
    again = {"type": "assistant", "message": {**message, "usage": {"input_tokens": 5, "output_tokens": 2}}}
    usage = STREAM.read(lines({"type": "assistant", "message": message}, again)).usage
    assert usage == Usage(input_tokens=5, output_tokens=2)


def test_refused_tools_are_named_once() -> None:
    denials = ["Bash", {"tool_name": "Bash", "tool_input": {"command": "rm -r x"}}, "Bash", 3]
    assert STREAM.read(lines(result(permission_denials=denials))).permission_denials == ("Bash", "Bash rm -r x", "tool")
