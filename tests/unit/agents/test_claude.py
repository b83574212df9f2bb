"""claude's stream beyond what was captured."""

import msgspec
import pytest

from rulebook_ralph.agents.claude import ClaudeReader
from rulebook_ralph.process.supervisor import Ended
from rulebook_ralph.tasks.results import AgentFault, AgentResult, Usage
from tests.cases import each_of
from tests.unit.agents.streams import NOW, Stream, lines
from tests.unit.agents.streams import capture as captured

STREAM = Stream("claude")
read, concluded = STREAM.read, STREAM.concluded


def capture(version: str, scenario: str) -> bytes:
    return captured(f"claude-{version}", scenario)


def result(**fields: object) -> dict[str, object]:
    return {"type": "result", "subtype": "success", "is_error": False, "result": "ok", **fields}


def test_an_interrupted_retry_is_told_by_what_it_retried_for() -> None:
    interrupted = result(subtype="error_during_execution", is_error=True, result=None, errors=["[ede_diagnostic]"])
    got = concluded(capture("2.1.330", "http401") + lines(interrupted), Ended(0, "wall-time"))
    assert (got.status, got.fault and got.fault.kind) == ("killed", "authentication")


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


def gave_up(stream: bytes) -> AgentFault | None:
    reader = ClaudeReader(lambda _: None, lambda: NOW)
    for event in stream.splitlines(keepends=True):
        reader.feed(event)
        if reader.hopeless:
            return reader.fault
    return None


def test_a_key_that_is_refused_again_and_again_is_given_up_and_says_what_to_do() -> None:
    """claude would try ten times, in three minutes."""
    first = gave_up(capture("2.1.330", "http401"))
    assert first
    assert first.kind == "authentication"
    assert "HTTP 401" in first.message
    assert "ANTHROPIC_API_KEY" in first.message


@pytest.mark.parametrize("attempts", [1, 2])
def test_a_token_may_be_refused_before_claude_renews_it(attempts: int) -> None:
    retry = {"type": "system", "subtype": "api_retry", "error_status": 401, "max_retries": 10}
    assert gave_up(lines(*({**retry, "attempt": number + 1} for number in range(attempts)))) is None


@pytest.mark.parametrize("status", [429, 500, 529, None])
def test_what_can_heal_is_not_given_up(status: int | None) -> None:
    retry = {"type": "system", "subtype": "api_retry", "error_status": status, "max_retries": 10}
    assert gave_up(lines(*({**retry, "attempt": number} for number in range(1, 11)))) is None
