"""aider's plain text: the genuine one's captures, and whatever else could come."""

import pytest

from rulebook_ralph.process.supervisor import Ended
from rulebook_ralph.tasks.results import Usage
from tests.cases import each_of
from tests.unit.agents.streams import Stream

STREAM = Stream("aider")

HEAD = b"Aider v0.86.2\nModel: openai/m with diff edit format\nGit repo: .git with 1 files\nRepo-map: using 1024 tokens\n\n"
TOKENS = b"Tokens: 2.5k sent, 34 received.\n"
DONE = b"It is done.\n<promise>DONE</promise>\n"


@pytest.mark.parametrize(
    "work",
    [
        b"a.txt\n```\n<promise>DONE</promise>\n```\n",
        b"a.txt\n```\n<<<<<<< SEARCH\n=======\n<promise>DONE</promise>\n>>>>>>> REPLACE\n```\n",
        b"<<<<<<< SEARCH\n<promise>DONE</promise>\n=======\n>>>>>>> REPLACE\n",
        b"docs/x.md\n````markdown\n```\n<promise>DONE</promise>\n```\n````\n",
    ],
)
def test_what_goes_into_a_file_is_no_message(work: bytes) -> None:
    assert "DONE" not in STREAM.read(HEAD + b"I edit.\n\n" + work + b"\nMore to do.\n" + TOKENS).final_text
    assert "<promise>DONE</promise>" in STREAM.read(HEAD + work + b"\n" + DONE + TOKENS).final_text


def test_a_report_is_part_of_the_message() -> None:
    report = b'report.json\n```ralph-report\n{"status": "completed"}\n```\n'
    assert '"completed"' in STREAM.read(HEAD + report + TOKENS).final_text


RETRY = b"litellm.RateLimitError: RateLimitError: OpenAIException - Rate limit exceeded\nThe API provider has rate limited you.\nRetrying in 0.2 seconds...\n"


def test_errors_before_a_whole_answer_were_overcome() -> None:
    stream = HEAD + RETRY + RETRY + DONE + TOKENS
    got = STREAM.concluded(stream)
    assert (got.status, got.fault, got.final_text) == ("finished", None, DONE.decode().strip())


@each_of(
    ("end", "kind"),
    [
        (RETRY, "rate-limit"),
        (b"litellm.RateLimitError: OpenAIException - Usage limit reached\n", "usage-limit"),
        (b"litellm.RateLimitError: OpenAIException - You exceeded your current quota, check your plan\n", "billing"),
        (b"litellm.APIConnectionError: APIConnectionError: OpenAIException - refused\n", "network"),
        (b"litellm.Timeout: APITimeoutError - Request timed out\n", "network"),
        (b"litellm.InternalServerError: InternalServerError: oh\n", "overloaded"),
        (b"litellm.BadRequestError: OpenAIException - prompt is too long\n", "context-too-long"),
        (b"litellm.BadRequestError: OpenAIException - odd\n", "unknown"),
        (b"litellm.NotFoundError: no such model\n", "unknown"),
        (
            b'litellm.RateLimitError: AnthropicException - {"error": {"type": "rate_limit_error", "message": "x"}}\n',
            "rate-limit",
        ),
        (b"Model openai/m has hit a token limit!\nToken counts below are approximate.\n", "context-too-long"),
        (b"Only 3 reflections allowed, stopping.\n", "max-turns"),
        (b"No LLM model was specified and no API keys were provided.\n", "authentication"),
    ],
)
def test_an_error_at_the_end_outranks_the_promise(end: bytes, kind: str) -> None:
    for stream in (HEAD + end, HEAD + DONE + TOKENS + b"\n" + end):
        got = STREAM.concluded(stream)
        assert (got.status, got.fault and got.fault.kind) == ("failed", kind)


BROKEN_OFF = b"The filitellm.APIConnectionError: APIConnectionError: OpenAIException - peer closed connection\n"


def test_an_answer_that_broke_off_is_no_part_of_the_one_that_came() -> None:
    retry = BROKEN_OFF + b"Retrying in 0.2 seconds...\n"
    stream = HEAD + b"<promise>EARLY</promise>\n" + retry + DONE + TOKENS
    got = STREAM.concluded(stream)
    assert (got.status, got.final_text) == ("finished", DONE.decode().strip())
    cut = STREAM.concluded(HEAD + DONE + BROKEN_OFF + b"\nApplied edit to hello.txt\n")
    assert (cut.status, cut.fault and cut.fault.kind) == ("failed", "network")


def test_an_error_that_is_talked_about_is_none() -> None:
    said = b"I mended how litellm.APIError: is caught.\n\n"
    got = STREAM.concluded(HEAD + said + DONE + TOKENS)
    assert (got.status, got.fault, got.final_text.endswith("</promise>")) == ("finished", None, True)


def test_a_killed_retry_keeps_why_it_hung() -> None:
    got = STREAM.concluded(HEAD + RETRY, Ended(-15, "idle-time"))
    assert (got.status, got.fault and got.fault.kind) == ("killed", "rate-limit")


def test_an_answer_without_its_tokens_was_cut_off() -> None:
    got = STREAM.concluded(HEAD + DONE + TOKENS[:-12])
    assert (got.status, got.fault and got.fault.kind) == ("truncated", "cut-off")
    assert STREAM.concluded(HEAD + DONE + TOKENS, 1).status == "failed"


def test_tokens_are_summed_and_the_cost_of_the_session_is_the_last() -> None:
    first = b"Tokens: 6.2k sent, 42 received. Cost: $0.02 message, $0.02 session.\n"
    second = (
        b"Tokens: 12k sent, 1.0k cache write, 2.0k cache hit, 1.5k received.\nCost: $0.0312 message, $0.0512 session.\n"
    )
    got = STREAM.read(HEAD + b"one\n" + first + b"\nApplied edit to a b.txt\n\n" + DONE + second)
    assert [tool.command for tool in got.tool_results] == ["a b.txt"]
    assert got.usage == Usage(input_tokens=15_200, output_tokens=1542, cache_read_tokens=2000, cache_write_tokens=1000)
    assert got.cost_usd == 0.0512
    assert got.final_text == DONE.decode().strip()
    assert STREAM.read(HEAD + b"one\n" + first).cost_usd == 0.02


def test_a_forged_cost_is_not_believed_without_a_line_of_tokens() -> None:
    assert STREAM.read(HEAD + b"Cost: $9.00 message, $9.00 session.\n" + TOKENS).cost_usd is None
