"""copilot's stream as its documentation tells of it, and whatever else could come."""

import pytest

from rulebook_ralph.tasks.results import Usage
from tests.unit.agents.streams import Stream, lines

STREAM = Stream("copilot")
SESSION = "0f5c6ad8-5a52-4d0a-9f0e-0c5b9f3a1e11"
DONE = "Done.\n<promise>DONE</promise>"


def message(content: str, **data: object) -> dict[str, object]:
    return {"type": "assistant.message", "data": {"messageId": "m", "content": content, "toolRequests": [], **data}}


def started(call: str, name: str, **arguments: object) -> dict[str, object]:
    return {"type": "tool.execution_start", "data": {"toolCallId": call, "toolName": name, "arguments": arguments}}


def ended(call: str, *, success: bool, **data: object) -> dict[str, object]:
    return {"type": "tool.execution_complete", "data": {"toolCallId": call, "success": success, **data}}


def result(exit_code: object = 0) -> dict[str, object]:
    usage = {"premiumRequests": 0.66, "totalApiDurationMs": 5000}
    return {"type": "result", "sessionId": SESSION, "exitCode": exit_code, "usage": usage}


def error(**data: object) -> dict[str, object]:
    return {"type": "session.error", "data": data}


RUN = [
    {"type": "session.start", "data": {"sessionId": SESSION, "producer": "copilot-agent"}},
    {"type": "user.message", "data": {"content": "say <promise>DONE</promise>"}},
    message("", outputTokens=30),
    started("c1", "bash", command="make test"),
    ended("c1", success=True, result={"content": "ok"}),
    message(DONE, outputTokens=12),
    message("  "),
    result(),
]


def test_a_run_that_ends_well() -> None:
    got = STREAM.concluded(lines(*RUN))
    assert (got.status, got.final_text, got.session_id) == ("finished", DONE, SESSION)
    assert (got.usage, got.cost_usd) == (Usage(output_tokens=42), None)
    (tool,) = got.tool_results
    assert (tool.name, tool.command, tool.success, tool.output) == ("bash", "make test", True, "ok")
    assert [one.kind for one in STREAM.shown(lines(*RUN))] == ["tool", "text"]


@pytest.mark.parametrize(
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
def test_errors_have_their_kind_and_outrank_the_promise(data: dict[str, object], kind: str) -> None:
    for end in ([], [result()], [result(1)]):
        got = STREAM.concluded(lines(*RUN[:-1], error(**data), *end))
        assert (got.status, got.fault and got.fault.kind) == ("failed", kind)


def test_a_quota_says_when_it_is_there_again() -> None:
    fault = STREAM.read(lines(error(errorType="quota", message="Out of requests. Try again in 3 hours."))).fault
    assert fault
    assert (fault.kind, fault.resets_at) == ("usage-limit", "2026-11-21T23:19:00Z")


def test_an_error_that_it_got_over_is_none() -> None:
    assert STREAM.concluded(lines(error(message="x"), *RUN)).status == "finished"


@pytest.mark.parametrize("exit_code", [1, None, "0", True, False, -1])
def test_only_a_result_that_says_0_is_success(exit_code: object) -> None:
    assert STREAM.concluded(lines(*RUN[:-1], result(exit_code))).status == "truncated"
    assert STREAM.concluded(lines(*RUN[:-1], result(exit_code)), 1).status == "failed"
    assert STREAM.concluded(lines(*RUN[:-1])).status == "truncated"


def test_a_refused_tool_is_named() -> None:
    refused = "Permission denied and could not request permission from user"
    got = STREAM.read(
        lines(
            started("1", "bash", command="npm test"),
            ended("1", success=False, result={"content": refused}),
            started("2", "create", path="a.txt"),
            ended("2", success=False, error={"code": "denied", "message": "no"}),
            started("3", "view", path="b.txt"),
            ended("3", success=False, error={"message": "no such file"}),
            result(),
        )
    )
    assert got.permission_denials == ("bash npm test", "create a.txt")
    assert [(tool.success, tool.output) for tool in got.tool_results] == [
        (False, refused),
        (False, "no"),
        (False, "no such file"),
    ]


def test_what_a_helper_says_is_not_the_final_message() -> None:
    helper = message("helper <promise>DONE</promise>", parentToolCallId="c1")
    got = STREAM.read(lines(message("mine"), helper, result()))
    assert (got.succeeded, got.final_text) == (True, "mine")
