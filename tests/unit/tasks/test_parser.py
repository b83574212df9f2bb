import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.tasks import parser
from rulebook_ralph.tasks.results import AgentResult, AgentStatus, ParsedIteration, ToolResult
from tests.cases import each_of

SIZE = 60_000
SECONDS = 0.5
PROMISE = "<promise>DONE</promise>"


def _parse(text: str, *, status: AgentStatus = "finished", tools: tuple[ToolResult, ...] = ()) -> ParsedIteration:
    return parser.parse(AgentResult(agent="test", status=status, final_text=text, tool_results=tools))


def _block(report: object) -> str:
    return f"```ralph-report\n{json.dumps(report)}\n```"


@each_of(
    ("text", "promises"),
    [
        (PROMISE, ("DONE",)),
        (f"  \t{PROMISE}\t ", ("DONE",)),
        ("<promise>IT  IS \t DONE</promise>", ("IT IS DONE",)),
        ("<PROMISE>DONE</PROMISE>", ("DONE",)),
        (f"<promise>OTHER</promise>\n{PROMISE}", ("OTHER", "DONE")),
        (f"I will say {PROMISE} when it is done.", ()),
        (f"> {PROMISE}", ("DONE",)),
        (f"**{PROMISE}**\nBut that is not all.", ()),
        (f"**{PROMISE}**", ("DONE",)),
        (f"{PROMISE}{PROMISE}", ()),
        ("<promise>\nDONE\n</promise>", ()),
        ("<promise></promise>", ()),
        (f"<promise><b>{PROMISE}</promise>", ()),
        (f"```ralph-report\n{{}}\n{PROMISE}\n```", ()),
        (f"```ralph-report\n{{}}\n```\n{PROMISE}", ("DONE",)),
        (f"```ralph-report\n{{}}\n```\n{PROMISE}\n```ralph-report\n{{}}\n```", ("DONE",)),
    ],
)  # fmt: skip
def test_a_promise_counts_only_alone_on_its_line_or_within_markdown_on_the_last_one(
    text: str, promises: tuple[str, ...]
) -> None:
    assert _parse(text).promises == promises


@each_of(
    ("text", "reason"),
    [
        ("<ralph>BLOCKED: no key</ralph>", "no key"),
        ("I stop here.\n <ralph>BLOCKED:  no\tkey </ralph>\n", "no key"),
        ("<ralph>BLOCKED:</ralph>", "no reason given"),
        ("<ralph>BLOCKED: one</ralph>\n<ralph>BLOCKED: two</ralph>", "two"),
        ("If I cannot go on I write <ralph>BLOCKED: why</ralph>", None),
        ("<ralph>BLOCKED: why</ralph> is what I would write", None),
        ("> <ralph>BLOCKED: why</ralph>", None),
        ("<ralph>COMPLETE</ralph>", None),
        (_block({"blocked": "no  key"}), "no key"),
        (_block({"blocked": ""}), None),
        (_block({"blocked": True}), None),
        (_block({"summary": "\n<ralph>BLOCKED: why</ralph>\n"}), None),
    ],
)
def test_the_blocked_marker(text: str, reason: str | None) -> None:
    parsed = _parse(text)
    assert parsed.blocked_reason == reason
    assert reason is None or parsed.status == "failed"


def test_a_report_says_everything() -> None:
    report = {
        "status": "completed",
        "summary": "Made  it.\nIt works.",
        "learnings": ["use\tthe cache", "", "  ", "no globals"],
        "errors": ["one left"],
        "quality": {"tests": True, "lint": False, "typecheck": None, "other": True},
        "commitMessage": "Make it",
    }
    parsed = _parse(f"Some prose. Tests fail.\nerror: not me\n\n{_block(report)}\n{PROMISE}")
    assert parsed == ParsedIteration(
        status="completed",
        promises=("DONE",),
        summary="Made it. It works.",
        learnings=("use the cache", "no globals"),
        errors=("one left",),
        quality_claims={"tests": True, "lint": False},
        commit_messages=("Make it",),
    )


@each_of(
    "block",
    [
        "",
        "not json",
        "{",
        "[1, 2]",
        '"text"',
        "null",
        "NaN",
        '{"summary": "\\ud800"}',
        "[" * 100_000,
        '{"status":' * 20_000 + "1" + "}" * 20_000,
        json.dumps({"status": ["completed"], "summary": {"a": 1}, "learnings": {"a": 1}, "errors": 7, "quality": "all", "blocked": [1]}),
        json.dumps({"status": "done", "summary": None, "learnings": [None, 1, ["x"], {"a": "b"}], "quality": {"tests": "yes", "lint": 1}}),
        '{"status": 1' + "0" * 5000 + "}",
    ],
)  # fmt: skip
def test_a_report_that_is_none_says_nothing(block: str) -> None:
    parsed = _parse(f"Prose says this.\n\n```ralph-report\n{block}\n```\n## Learnings\n- from prose")
    assert parsed == ParsedIteration(summary="Prose says this.", learnings=("from prose",))


@pytest.mark.parametrize(
    "text",
    [
        'say ```ralph-report\n{"status": "completed"}\n```',
        '```json\n{"status": "completed"}\n```',
        '```ralph-reports\n{"status": "completed"}\n```',
        '> ```ralph-report\n> {"status": "completed"}\n> ```',
        '```ralph-report\n{"status": "completed"}',
        '```ralph-report {"status": "completed"}\n```',
    ],
)
def test_what_is_no_report(text: str) -> None:
    assert _parse(text).status == "partial"


def test_the_last_report_wins() -> None:
    first, second = _block({"status": "completed", "summary": "one"}), _block({"status": "failed", "summary": "two"})
    assert (_parse(f"{first}\n{second}").status, _parse(f"{first}\n{second}").summary) == ("failed", "two")
    assert _parse(f"{second}\n{first}").status == "completed"
    broken = "```ralph-report\n{\n```"
    assert _parse(f"{first}\n{broken}").status == "partial"
    unclosed = '```ralph-report\n{"status": "failed"}'
    assert _parse(f"{unclosed}\n\n{first}").status == "completed"


def test_without_a_report_a_promise_is_the_claim() -> None:
    assert _parse(PROMISE).status == "completed"
    assert _parse("It is all done.").status == "partial"
    assert _parse(f"{_block({'status': 'partial'})}\n{PROMISE}").status == "partial"


def test_prose_is_read_for_learnings_and_errors() -> None:
    text = """I changed the parser
in two places.

## Learnings
- tabs are four wide
  * and no more
1. numbers too

  indented prose is skipped
3) after it

Not a bullet, so the list ends.
- stray bullet

**Errors:**
+ disk full

- disk slow
Patterns discovered by me
- one writer
"""
    parsed = _parse(text)
    assert parsed.summary == "I changed the parser in two places."
    assert parsed.learnings == (
        "tabs are four wide",
        "and no more",
        "numbers too",
        "after it",
        "one writer",
    )
    assert parsed.errors == ("disk full", "disk slow")


def test_commit_messages_of_tools() -> None:
    commands = [
        "git commit -m 'Add it'",
        'cd x && git add -A && git commit -am "Fix  it"',
        "git commit --message 'Say it'",
        "git commit -m 'no end",
        "git commit --amend",
        "echo commit -m no",
        "git log -m x",
    ]
    tools = tuple(ToolResult(name="Bash", command=command) for command in commands)
    assert _parse("x", tools=tools).commit_messages == ("Add it", "Fix it", "Say it")


def test_context_is_lost_where_the_agent_was_cut_off_or_said_nothing() -> None:
    for status, text, lost in (("failed", "done", False), ("truncated", "done", True), ("finished", " \n", True)):
        assert _parse(text, status=status).context_loss is lost  # type: ignore[arg-type]


def test_what_is_kept_is_bounded() -> None:
    long = "x" * (2 * parser.MAX_ITEM_CHARS)
    report = {"summary": long, "learnings": [long] * 60, "errors": ["e"] * 500, "blocked": long}
    for text in (_block(report), "\n".join(["## Learnings", *[f"- {long[:300]}"] * 500, *[PROMISE] * 500])):
        parsed = _parse(text)
        texts = [parsed.summary, *parsed.learnings, *parsed.errors, *parsed.promises, parsed.blocked_reason or ""]
        assert max(map(len, texts)) <= parser.MAX_ITEM_CHARS
        assert max(len(parsed.learnings), len(parsed.errors), len(parsed.promises)) <= parser.MAX_ITEMS


_PIECES = (
    "<promise>", "</promise>", "DONE", "<ralph>", "BLOCKED:", "</ralph>", "```ralph-report", "```", "````", "\n", "\r\n", "\r", " ", "\t",
    "\u2028", "\x0c", "\x85", "\ud800", "\udfff", "\x00", "{", "}", "[", '"', '"status":', '"completed"', "## Learnings", "**error", "- ", "1. ",
    "learned: ", "tests pass", "2 failed", "é", "\U0001f600",
)  # fmt: skip
_texts = st.text(st.characters()) | st.lists(st.sampled_from(_PIECES), max_size=40).map("".join)


@given(_texts, st.lists(_texts.map(lambda text: ToolResult(name="Bash", command=f"git commit -m {text}")), max_size=3))
def test_no_text_raises(text: str, tools: list[ToolResult]) -> None:
    parsed = _parse(text, tools=tuple(tools))
    assert all(promise in " ".join(text.split()) and "<" not in promise for promise in parsed.promises)
    assert all("\n" not in item for item in (*parsed.learnings, *parsed.errors, *parsed.commit_messages))


@each_of(
    "piece",
    [
        "<promise>", "<promise> ", "**error", "**error\n", "error:   ", "tests ", "all the tests ", "```ralph-report\n", "```ralph-report\n{\n",
        "```ralph-report\n\n```x\n", "```", "```\n", "`", "<ralph>BLOCKED:", "<ralph>\n", "<ralph>BLOCKED:\n", " ", "\n", "\n ", "\t", "- ", "-  \n",
        "1", "9 ", "#", "###### ", "## learnings\n- x\n", "type check ", "\r", "\u2028", "\ud800", "learning: ", "** ", "lint ",
    ],
)  # fmt: skip
def test_no_text_is_slow(piece: str) -> None:
    text = f"{piece * (SIZE // len(piece))}x\n{PROMISE}\n"
    start = time.process_time()
    parsed = _parse(text)
    assert time.process_time() - start < SECONDS
    assert parsed.promises[-1:] == ("DONE",)


def test_a_promise_with_other_text_beside_it_is_told() -> None:
    parsed = _parse(f"Done.\n\nI am done: {PROMISE}.\n")
    assert (parsed.promises, parsed.stray_promise) == ((), f"I am done: {PROMISE}.")
    assert _parse(f"I will say {PROMISE}\n{PROMISE}").stray_promise == ""


@each_of(
    ("given", "reasons"),
    [
        ({"tests/a.py": "the new format"}, {"tests/a.py": "the new format"}),
        ({"a": "b\nc", "": "d"}, {"a": "b c"}),
        ({"a": None}, {"a": ""}),
        ("a", {}),
    ],
)
def test_reasons_for_changed_checks_are_read(given: object, reasons: dict[str, str]) -> None:
    assert _parse(_block({"status": "completed", "changedChecks": given})).changed_checks == reasons
