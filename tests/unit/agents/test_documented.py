"""The streams of amp, copilot and cursor-agent as their documentation tells of them, and whatever else could come."""

from typing import Any

import pytest

from rulebook_ralph.tasks.results import Usage
from tests.cases import each_of
from tests.unit.agents.streams import Stream, lines

AMP, COPILOT, CURSOR = Stream("amp"), Stream("copilot"), Stream("cursor")
SESSION = "f9941a25-53ab-4a65-9d3c-1c2b3d4e5f60"
DONE = "Done.\n<promise>DONE</promise>"
Event = dict[str, Any]


def said(*content: object, usage: Event | None = None, **fields: object) -> Event:
    """A message of amp's or cursor's; text stands for its block."""
    blocks = [{"type": "text", "text": block} if isinstance(block, str) else block for block in content]
    message = {"type": "message", "role": "assistant", "content": blocks, "usage": usage or {}}
    return {"type": "assistant", "message": message, "session_id": SESSION, **fields}


def answered(call: str, content: object) -> Event:
    block = {"type": "tool_result", "tool_use_id": call, "content": content, "is_error": False}
    return {"type": "user", "message": {"role": "user", "content": [block]}, "session_id": SESSION}


def result(**fields: object) -> Event:
    end = {"type": "result", "subtype": "success", "duration_ms": 9, "is_error": False, "result": DONE}
    return {**end, "session_id": SESSION, **fields}


def tool(subtype: str, call: str, **tool_call: object) -> Event:
    return {"type": "tool_call", "subtype": subtype, "call_id": call, "tool_call": tool_call, "session_id": SESSION}


def of_copilot(kind: str, **data: object) -> Event:
    return {"type": kind, "data": data}


def message(content: str, **data: object) -> Event:
    return of_copilot("assistant.message", messageId="m", content=content, toolRequests=[], **data)


def started(call: str, name: str, **arguments: object) -> Event:
    return of_copilot("tool.execution_start", toolCallId=call, toolName=name, arguments=arguments)


def ended(call: str, *, success: bool, **data: object) -> Event:
    return of_copilot("tool.execution_complete", toolCallId=call, success=success, **data)


def exited(exit_code: object = 0) -> Event:
    return {"type": "result", "sessionId": SESSION, "exitCode": exit_code, "usage": {"premiumRequests": 0.66}}


INIT = {"type": "system", "subtype": "init", "cwd": "/w", "session_id": SESSION, "model": "m", "tools": ["Bash"]}
PROMPT = {"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": "<promise>DONE</promise>"}]}}
SHELL = {"args": {"command": "make test"}}
PASSED = {**SHELL, "result": {"success": {"command": "make test", "exitCode": 0, "stdout": "ok\n", "stderr": ""}}}
RUNS: dict[str, list[Event]] = {
    "amp": [
        INIT,
        said(
            {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"cmd": "make test"}},
            usage={
                "input_tokens": 10,
                "output_tokens": 5,
                "cache_read_input_tokens": 3,
                "cache_creation_input_tokens": 2,
            },
        ),
        answered("toolu_1", "ok"),
        said(DONE, usage={"input_tokens": 20, "output_tokens": 7}),
        result(),
    ],
    "copilot": [
        of_copilot("session.start", sessionId=SESSION, producer="copilot-agent"),
        of_copilot("user.message", content="say <promise>DONE</promise>"),
        message("", outputTokens=30),
        started("c1", "bash", command="make test"),
        ended("c1", success=True, result={"content": "ok"}),
        message(DONE, outputTokens=12),
        message("  "),
        exited(),
    ],
    "cursor": [
        INIT,
        PROMPT,
        {"type": "thinking", "subtype": "delta", "text": "hm"},
        said("I begin."),
        tool("started", "t1", shellToolCall=SHELL),
        tool("completed", "t1", shellToolCall=PASSED),
        said("Done.", timestamp_ms=1),
        said(DONE),
        result(
            result=f"I begin.{DONE}",
            usage={"inputTokens": 120, "outputTokens": 45, "cacheReadTokens": 10, "cacheWriteTokens": 2},
        ),
    ],
}


@each_of(
    ("stream", "usage", "name", "shown"),
    [
        (AMP, Usage(input_tokens=30, output_tokens=12, cache_read_tokens=3, cache_write_tokens=2), "Bash", 2),
        (COPILOT, Usage(output_tokens=42), "bash", 2),
        (CURSOR, Usage(input_tokens=120, output_tokens=45, cache_read_tokens=10, cache_write_tokens=2), "shell", 3),
    ],
)
def test_a_run_that_ends_well(stream: Stream, usage: Usage, name: str, shown: int) -> None:
    run = lines(*RUNS[stream.kind])
    got = stream.concluded(run)
    assert (got.status, got.final_text, got.session_id) == ("finished", DONE, SESSION)
    assert (got.usage, got.cost_usd) == (usage, None)
    (one,) = got.tool_results
    assert (one.name, one.command, one.success, one.output.strip()) == (name, "make test", True, "ok")
    assert [each.kind for each in stream.shown(run)] == ["text", "tool", "text"][-shown:]


@each_of(
    ("end", "kind"),
    [
        ({"error": "401 Unauthorized"}, "authentication"),
        ({"error": "You're out of credits"}, "billing"),
        ({"error": "Rate limit reached (429)"}, "rate-limit"),
        ({"error": "You\u2019ve hit your daily limit"}, "usage-limit"),
        ({"subtype": "error_max_turns", "error": "x"}, "max-turns"),
        ({"is_error": True}, "unknown"),
        ({"is_error": None}, "unknown"),
        ({"subtype": "new_thing"}, "unknown"),
        ({"is_error": True, "result": "usage limit reached"}, "unknown"),  # the model's words
    ],
)
def test_errors_of_amp_and_cursor_have_their_kind_and_outrank_the_promise(end: Event, kind: str) -> None:
    failed = {"is_error": True, "subtype": "error_during_execution", **end} if "error" in end else end
    for stream, log_in in ((AMP, "amp login"), (CURSOR, "cursor-agent login")):
        got = stream.concluded(lines(*RUNS[stream.kind][:-1], result(**failed)))
        assert got.fault
        assert (got.status, got.fault.kind) == ("failed", kind)
        assert (log_in in got.fault.message) == (kind == "authentication")


@each_of(
    ("data", "kind"),
    [
        ({"errorType": "authentication", "message": "No authentication information found."}, "authentication"),
        ({"errorType": "authorization", "message": "x"}, "authentication"),
        ({"errorType": "quota", "message": "You have no quota"}, "usage-limit"),
        ({"errorType": "rate_limit", "message": "x"}, "rate-limit"),
        ({"errorType": "context_limit", "message": "x"}, "context-too-long"),
        ({"errorType": "query", "message": "x", "statusCode": 503}, "overloaded"),
        ({"errorType": "query", "message": "fetch failed"}, "network"),
        ({}, "unknown"),
    ],
)
def test_errors_of_copilot_have_their_kind_and_outrank_the_promise(data: Event, kind: str) -> None:
    run, error = RUNS["copilot"], of_copilot("session.error", **data)
    for end in ([], [exited()], [exited(1)]):
        got = COPILOT.concluded(lines(*run[:-1], error, *end))
        assert (got.status, got.fault and got.fault.kind) == ("failed", kind)
    assert COPILOT.concluded(lines(error, *run)).status == "finished", "it got over it"


def test_a_quota_says_when_it_is_there_again() -> None:
    quota = of_copilot("session.error", errorType="quota", message="Out of requests. Try again in 3 hours.")
    fault = COPILOT.read(lines(quota)).fault
    assert fault
    assert (fault.kind, fault.resets_at) == ("usage-limit", "2026-11-21T23:19:00Z")


def test_words_of_the_model_and_of_tools_are_no_error() -> None:
    words = "usage limit reached, invalid api key"
    failed = result(subtype="error_during_execution", is_error=True, result=words)
    got = AMP.concluded(lines(said(words), answered("x", words), failed))
    assert got.fault
    assert got.fault.kind == "unknown"


@pytest.mark.parametrize("stream", [AMP, CURSOR, COPILOT], ids=lambda stream: stream.kind)
def test_the_end_of_a_turn_before_the_last_is_no_end(stream: Stream) -> None:
    run = RUNS[stream.kind]
    further = message("more") if stream is COPILOT else said("more")
    assert stream.concluded(lines(*run[:-1])).status == "truncated"
    assert stream.concluded(lines(*run, further)).status == "truncated"
    helper = message("helper", parentToolCallId="c1") if stream is COPILOT else said("helper", parent_tool_use_id="t")
    got = stream.concluded(lines(*run, helper))
    assert (got.status, stream is CURSOR or got.final_text) == ("finished", stream is CURSOR or DONE)


@each_of("exit_code", [1, None, "0", True, False, -1])
def test_only_a_result_of_copilot_that_says_0_is_success(exit_code: object) -> None:
    stream = lines(*RUNS["copilot"][:-1], exited(exit_code))
    assert (COPILOT.concluded(stream).status, COPILOT.concluded(stream, 1).status) == ("truncated", "failed")


def test_a_message_that_comes_again_counts_once() -> None:
    once = {"type": "assistant", "message": {"id": "m1", "content": [], "usage": {"input_tokens": 5}}}
    again = {"type": "assistant", "message": {"id": "m1", "usage": {"input_tokens": 5, "output_tokens": 2}}}
    assert AMP.read(lines(once, again)).usage == Usage(input_tokens=5, output_tokens=2)


def test_refused_tools_are_named_once() -> None:
    denials = ["Bash", {"tool_name": "Bash", "tool_input": {"command": "rm -r x"}}, "Bash", 3]
    assert AMP.read(lines(result(permission_denials=denials))).permission_denials == ("Bash", "Bash rm -r x", "tool")


def test_a_tool_that_copilot_refused_is_named() -> None:
    refused = "Permission denied and could not request permission from user"
    stream = (
        *(started("1", "bash", command="npm test"), ended("1", success=False, result={"content": refused})),
        *(started("2", "create", path="a.txt"), ended("2", success=False, error={"code": "denied", "message": "no"})),
        *(started("3", "view", path="b.txt"), ended("3", success=False, error={"message": "no such file"})),
    )
    got = COPILOT.read(lines(*stream))
    assert got.permission_denials == ("bash npm test", "create a.txt")
    assert [each.output for each in got.tool_results] == [refused, "no", "no such file"]


def test_a_promise_in_an_earlier_message_of_cursor_is_not_in_the_final_one() -> None:
    got = CURSOR.read(lines(said(DONE), said("More remains.", timestamp_ms=3), said("More remains."), result()))
    assert (got.succeeded, got.final_text) == (True, "More remains.")


@each_of(
    ("outcome", "success", "output"),
    [
        ({"success": {"content": "text"}}, True, "text"),
        ({"success": {"exitCode": 2, "stdout": "", "stderr": "no"}}, False, ""),
        ({"error": {"message": "no such file"}}, False, "no such file"),
        ({"rejected": {"command": "make test", "reason": "not allowed"}}, False, "not allowed"),
        ({}, None, ""),
    ],
)
def test_how_a_tool_of_cursor_ended(outcome: Event, success: bool | None, output: str) -> None:
    start = tool("started", "t", shellToolCall=SHELL)
    got = CURSOR.read(lines(start, tool("completed", "t", shellToolCall={**SHELL, "result": outcome})))
    (one,) = got.tool_results
    assert (one.success, one.output) == (success, output)
    assert got.permission_denials == (("shell make test",) if "rejected" in outcome else ())


def test_tools_of_cursor_without_a_type_of_their_own_have_their_name() -> None:
    call = tool("started", "t", function={"name": "fetch", "arguments": "https://x"})
    (one,) = CURSOR.read(lines(call)).tool_results
    assert (one.name, one.command, one.success) == ("fetch", "https://x", None)
