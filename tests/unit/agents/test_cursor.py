"""cursor-agent's stream as its documentation tells of it, and whatever else could come."""

import pytest

from rulebook_ralph.tasks.results import Usage
from tests.unit.agents.streams import Stream, lines

STREAM = Stream("cursor")
SESSION = "c6b62c6f-7ead-4fd6-9922-e952131177ff"
DONE = "Done.\n<promise>DONE</promise>"


def said(text: str, **fields: object) -> dict[str, object]:
    message = {"role": "assistant", "content": [{"type": "text", "text": text}]}
    return {"type": "assistant", "message": message, "session_id": SESSION, **fields}


def tool(subtype: str, call: str, **tool_call: object) -> dict[str, object]:
    return {"type": "tool_call", "subtype": subtype, "call_id": call, "tool_call": tool_call, "session_id": SESSION}


def result(**fields: object) -> dict[str, object]:
    end = {"type": "result", "subtype": "success", "duration_ms": 9, "is_error": False, "result": f"I begin.{DONE}"}
    return {**end, "session_id": SESSION, "request_id": "r", **fields}


INIT = {"type": "system", "subtype": "init", "cwd": "/w", "session_id": SESSION, "model": "m"}
SHELL = {"args": {"command": "make test"}}
PASSED = {**SHELL, "result": {"success": {"command": "make test", "exitCode": 0, "stdout": "ok\n", "stderr": ""}}}
RUN = [
    INIT,
    {"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": "<promise>DONE</promise>"}]}},
    {"type": "thinking", "subtype": "delta", "text": "hm"},
    said("I begin."),
    tool("started", "t1", shellToolCall=SHELL),
    tool("completed", "t1", shellToolCall=PASSED),
    said("Done.", timestamp_ms=1),
    said(DONE),
    result(usage={"inputTokens": 120, "outputTokens": 45, "cacheReadTokens": 10, "cacheWriteTokens": 2}),
]


def test_a_run_that_ends_well() -> None:
    got = STREAM.concluded(lines(*RUN))
    assert (got.status, got.final_text, got.session_id) == ("finished", DONE, SESSION)
    assert got.usage == Usage(input_tokens=120, output_tokens=45, cache_read_tokens=10, cache_write_tokens=2)
    (shell,) = got.tool_results
    assert (shell.name, shell.command, shell.success, shell.output) == ("shell", "make test", True, "ok\n")
    assert [one.kind for one in STREAM.shown(lines(*RUN))] == ["text", "tool", "text"]


def test_a_promise_in_an_earlier_message_is_not_in_the_final_one() -> None:
    got = STREAM.read(lines(said(DONE), said("More remains.", timestamp_ms=3), said("More remains."), result()))
    assert (got.succeeded, got.final_text) == (True, "More remains.")


@pytest.mark.parametrize(
    ("outcome", "success", "output", "denied"),
    [
        ({"success": {"content": "text"}}, True, "text", False),
        ({"success": {"exitCode": 2, "stdout": "", "stderr": "no"}}, False, "", False),
        ({"error": {"message": "no such file"}}, False, "no such file", False),
        ({"rejected": {"command": "make test", "reason": "not allowed"}}, False, "not allowed", True),
        ({}, None, "", False),
    ],
)
def test_how_a_tool_ended(outcome: dict[str, object], success: bool | None, output: str, *, denied: bool) -> None:
    start = tool("started", "t", shellToolCall=SHELL)
    got = STREAM.read(lines(start, tool("completed", "t", shellToolCall={**SHELL, "result": outcome}), result()))
    (one,) = got.tool_results
    assert (one.success, one.output) == (success, output)
    assert got.permission_denials == (("shell make test",) if denied else ())


def test_tools_without_a_type_of_their_own_have_their_name() -> None:
    call = tool("started", "t", function={"name": "fetch", "arguments": "https://x"})
    (one,) = STREAM.read(lines(call)).tool_results
    assert (one.name, one.command, one.success) == ("fetch", "https://x", None)


@pytest.mark.parametrize("fields", [{"is_error": True}, {"is_error": None}, {"subtype": "error"}])
def test_only_a_result_that_says_so_is_success(fields: dict[str, object]) -> None:
    got = STREAM.concluded(lines(*RUN[:-1], result(result="usage limit reached", **fields)))
    assert (got.status, got.fault and got.fault.kind) == ("failed", "unknown")
    assert STREAM.concluded(lines(*RUN[:-1])).status == "truncated"
    assert STREAM.concluded(lines(*RUN, said("more"))).status == "truncated"
