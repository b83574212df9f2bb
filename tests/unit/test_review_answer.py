"""What a reviewer answers is read strictly: nothing that is not a whole, consistent review ever ships."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.checks.model_answer import LONGEST_ANSWER, UnusableAnswerError
from rulebook_ralph.checks.review import answer_schema
from rulebook_ralph.checks.review_answer import Answer, read_review
from rulebook_ralph.checks.shown_files import Section, ShownLine
from tests.cases import each_of
from tests.schema_agreement import require_agreement

NONCE = "f00dfeed"
LINES = (ShownLine("=", 0, "file added"), *(ShownLine("+", number, "x") for number in range(1, 11)))
SECTIONS = (Section("src/a.py", "src/a.py", LINES), Section("withheld-name-1", "SHIP.md", LINES))


def issue(**changed: Any) -> dict[str, Any]:
    told = {"type": "logic_bug", "description": "Wrong.", "suggestion": "Mend.", "agentPrompt": "Mend it."}
    return {"file": "src/a.py", "lines": [2, 3], "severity": "low", **told, **changed}


def whole(*issues: dict[str, Any], **changed: Any) -> dict[str, Any]:
    found = [each.get("severity") for each in issues]
    summary = {"total": len(issues)} | {name: found.count(name) for name in ("high", "medium", "low")}
    return {"nonce": NONCE, "decision": "SHIP", "issues": list(issues), "summary": summary, **changed}


GOOD = whole(issue())
TEXT = json.dumps(GOOD)
BARE = json.dumps(whole())


def without(value: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: inner for name, inner in value.items() if name != key}


HOSTILE: dict[str, str] = {
    "prose": "The change looks good to me. SHIP",
    "one word": "SHIP",
    "one word in quotes": '"SHIP"',
    "prose before": f"Here is my review:\n{BARE}",
    "prose after": f"{BARE}\nIn short: SHIP.",
    "a code fence": f"```json\n{BARE}\n```",
    "a code fence without a language": f"```\n{BARE}\n```",
    "two objects": BARE + BARE,
    "two objects, one a line": f"{BARE}\n{BARE}",
    "a list of it": f"[{BARE}]",
    "wrapped in another object": f'{{"review": {BARE}}}',
    "cut off": BARE[:-1],
    "cut off in the middle": TEXT[: len(TEXT) // 2],
    "nothing": "",
    "an empty object": "{}",
    "null": "null",
    "a string with JSON in it": json.dumps(BARE),
    "a byte order mark": "\ufeff" + BARE,
    "a zero-width space before": "\u200b" + BARE,
    "a NUL after": BARE + "\0",
    "a comment": BARE.replace("{", "{ // fine\n", 1),
    "single quotes": BARE.replace('"', "'"),
    "a trailing comma": BARE[:-1] + ",}",
    "XML": "<decision>SHIP</decision>",
    "YAML": "decision: SHIP\nissues: []",
    "SHIP with a high issue": json.dumps(whole(issue(severity="high"))),
    "a high issue that is not counted": json.dumps(whole(issue(severity="high"), summary=whole()["summary"])),
    "counts too low": json.dumps(whole(issue(), summary={"total": 0, "high": 0, "medium": 0, "low": 0})),
    "counts too high": json.dumps(whole(summary={"total": 1, "high": 0, "medium": 0, "low": 1})),
    "counts of another severity": json.dumps(whole(issue(), summary={"total": 1, "high": 0, "medium": 1, "low": 0})),
    "a negative count": json.dumps(whole(issue(), summary={"total": 1, "high": -1, "medium": 1, "low": 1})),
    "a count that is no whole number": BARE.replace('"total": 0', '"total": 0.0'),
    "a count that is true": BARE.replace('"total": 0', '"total": false'),
    "NaN": BARE.replace('"total": 0', '"total": NaN'),
    "infinity": BARE.replace('"total": 0', '"total": Infinity'),
    "a number without end": BARE.replace('"total": 0', '"total": ' + "9" * 5000),
    "no summary": json.dumps(without(whole(), "summary")),
    "no issues": json.dumps(without(whole(), "issues")),
    "no decision": json.dumps(without(whole(), "decision")),
    "no nonce": json.dumps(without(whole(), "nonce")),
    "another nonce": json.dumps(whole(nonce="f00d")),
    "an empty nonce": json.dumps(whole(nonce="")),
    "lower case": json.dumps(whole(decision="ship")),
    "with a space": json.dumps(whole(decision="SHIP ")),
    "look-alike letters": json.dumps(whole(decision="\u0405HIP")),
    "an unknown decision": json.dumps(whole(decision="APPROVE")),
    "both decisions": json.dumps(whole(decision="SHIP|REVISE")),
    "a decision that is a list": json.dumps(whole(decision=["SHIP"])),
    "a decision that is nothing": json.dumps(whole(decision=None)),
    "a decision that is true": json.dumps(whole(decision=True)),
    "another key": json.dumps(whole(approved=True)),
    "another key in an issue": json.dumps(whole(issue(blocking=False))),
    "REVISE, then SHIP": BARE.replace('"decision"', '"decision": "REVISE", "decision"'),
    "issues twice": BARE.replace('"issues"', f'"issues": [{json.dumps(issue(severity="high"))}], "issues"'),
    "a severity twice": TEXT.replace('"severity"', '"severity": "high", "severity"'),
    "a key twice, once escaped": BARE.replace('"decision"', '"\\u0064ecision": "REVISE", "decision"'),
    "issues that are an object": json.dumps(whole(issues={})),
    "issues that are text": json.dumps(whole(issues="none")),
    "an issue that is text": json.dumps(whole(issues=["none"])),
    "an unknown severity": json.dumps(whole(issue(severity="none"))),
    "a severity in capitals": json.dumps(whole(issue(severity="LOW"))),
    "an unknown type": json.dumps(whole(issue(type="style"))),
    "a file that is not touched": json.dumps(whole(issue(file="src/b.py"))),
    "a file by its folder": json.dumps(whole(issue(file="src"))),
    "a file outside": json.dumps(whole(issue(file="../src/a.py"))),
    "an absolute file": json.dumps(whole(issue(file="/src/a.py"))),
    "the real name of a withheld one": json.dumps(whole(issue(file="SHIP.md"))),
    "no file": json.dumps(whole(issue(file=""))),
    "lines beyond the end": json.dumps(whole(issue(lines=[2, 11]))),
    "lines before the start": json.dumps(whole(issue(lines=[-1, 2]))),
    "lines from 0": json.dumps(whole(issue(lines=[0, 2]))),
    "lines backwards": json.dumps(whole(issue(lines=[3, 2]))),
    "one line number": json.dumps(whole(issue(lines=[3]))),
    "three line numbers": json.dumps(whole(issue(lines=[1, 2, 3]))),
    "lines as text": json.dumps(whole(issue(lines="2-3"))),
    "no description": json.dumps(whole(issue(description=" "))),
    "huge": BARE + " " * LONGEST_ANSWER + "x",
    "huge within": json.dumps(whole(issue(description="x" * LONGEST_ANSWER))),
    "nested deeply": "[" * 100_000 + "]" * 100_000,
    "nested deeply within": json.dumps(whole()).replace('"issues": []', '"issues": ' + "[" * 50_000 + "]" * 50_000),
    "SHIP inside REVISE without an issue": json.dumps(whole(decision="REVISE")),
    "a tool call": '{"name": "review", "arguments": ' + BARE + "}",
    "escaped quotes": BARE.replace('"', '\\"'),
}


def test_what_is_whole_and_consistent_ships() -> None:
    assert read_review(TEXT, nonce=NONCE, sections=SECTIONS)[0] == "SHIP"
    assert read_review(f"\n {BARE} \n", nonce=NONCE, sections=SECTIONS) == ("SHIP", ())


@each_of("text", HOSTILE.values())
def test_a_hostile_answer_never_ships(text: str) -> None:
    with pytest.raises(UnusableAnswerError):
        read_review(text, nonce=NONCE, sections=SECTIONS)


def test_there_are_many_hostile_answers() -> None:
    assert len(set(HOSTILE.values())) == len(HOSTILE) >= 25


def test_an_answer_to_another_question_is_refused_for_its_nonce() -> None:
    with pytest.raises(UnusableAnswerError, match="nonce"):
        read_review(json.dumps(whole(nonce="0")), nonce=NONCE, sections=SECTIONS)


def test_an_issue_has_the_real_path_and_texts_that_can_be_shown() -> None:
    told = issue(file="./withheld-name-1", lines=[0, 0], severity="high", description=" \x1b[31mred\u202e \n")
    decision, (found,) = read_review(json.dumps(whole(told, decision="REVISE")), nonce=NONCE, sections=SECTIONS)
    assert (decision, found.file, found.lines, found.description) == ("REVISE", "SHIP.md", (0, 0), "red")


def test_an_issue_may_lie_in_any_piece_of_a_large_file() -> None:
    pieces = [Section("src/a.py", "src/a.py", LINES[:6]), Section("src/a.py", "src/a.py", (LINES[0], *LINES[6:]))]
    for lines in ([2, 3], [10, 10]):
        assert read_review(json.dumps(whole(issue(lines=lines))), nonce=NONCE, sections=pieces)[0] == "SHIP"


PIECES = st.sampled_from(
    ['"', "{", "}", "[", "]", ",", ":", "SHIP", "REVISE", "high", "0", "1", "\\", "\n", "null", " "]
)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A valid answer with a high issue, which says REVISE, with pieces cut out, doubled or put in."""
    text = json.dumps(whole(issue(severity="high"), issue(severity="medium"), decision="REVISE"))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 30)))
        instead = draw(st.one_of(st.just(""), PIECES, st.just(text[start:end] * 2), st.text(max_size=5)))
        text = text[:start] + instead + text[end:]
    return text


@given(damaged())
def test_no_damage_turns_a_refusal_into_a_ship(text: str) -> None:
    try:
        decision, issues = read_review(text, nonce=NONCE, sections=SECTIONS)
    except UnusableAnswerError:
        return
    assert decision == "REVISE" and issues  # noqa: PT018 - one fact: something is to be mended


def test_the_reader_and_the_schema_take_the_same_answers() -> None:
    require_agreement(GOOD, Answer, answer_schema())


def test_a_name_that_begins_with_a_space_is_known() -> None:
    text = json.dumps(whole(issue(file=" a.py")))
    (found,) = read_review(text, nonce=NONCE, sections=[Section(" a.py", " a.py", LINES)])[1]
    assert found.file == " a.py"
