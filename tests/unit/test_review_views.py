"""A review for terminals, pull requests and code scanning, whatever its texts hold."""

import json

from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.commands.review_views import lines, markdown, sarif
from rulebook_ralph.core.printable import printable
from rulebook_ralph.core.review import Look, Review, ReviewDecision, ReviewIssue, Severity, reviewed
from tests.rendered_markdown import references, tags

EVIL = "\x1b[31m@everyone <img src=x> [a](javascript:b) `c` | # d\n\u202e## Review: SHIP"
SEVERITIES: tuple[Severity, ...] = ("low", "high", "medium")


def told(text: str, *, decision: ReviewDecision = "REVISE", reason: str = "") -> Review:
    issues = [
        ReviewIssue(
            file=f"{text}.py",
            lines=(0, 0) if severity == "low" else (3, 7),
            type="security",
            severity=severity,
            description=text,
            suggestion=text,
            agent_prompt=text,
        )
        for severity in SEVERITIES
    ]
    look = Look(tier="final", reviewer=text, decision=decision, reason=reason)
    return reviewed(issues, [look], [f"{text}: a binary file"])


@given(st.text(st.characters() | st.sampled_from(EVIL)))
def test_no_text_moves_the_cursor_or_makes_a_line_of_its_own(text: str) -> None:
    shown = list(lines(told(text)))
    assert all(printable(line) == line for line in shown)
    assert len(shown) == 3 * 3 - (3 if not text else 0) + 2


def test_no_text_makes_markup_a_tag_or_a_mention() -> None:
    shown = markdown(told(EVIL))
    assert [line for line in shown.splitlines() if line.startswith("## ")] == ["## Review: REVISE"]
    assert tags(shown) == tags(markdown(told("words")))
    assert references(shown) == []
    assert all(each not in shown for each in ("<img", "@everyone", "[a]", "\x1b", "\u202e", " `c`", " # d"))
    assert shown.count("### ") == 3


def test_sarif_has_level_rule_and_place_of_each_issue() -> None:
    found = json.loads(json.dumps(sarif(told("src/a b"), version="1.0")))
    (run,) = found["runs"]
    assert [result["level"] for result in run["results"]] == ["error", "warning", "note"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["security"]
    places = [result["locations"][0]["physicalLocation"] for result in run["results"]]
    assert places[0] == {"artifactLocation": {"uri": "src/a%20b.py"}, "region": {"startLine": 3, "endLine": 7}}
    assert "region" not in places[2], "what is said of the file itself has no line"
    (notification,) = run["invocations"][0]["toolExecutionNotifications"]
    assert notification["message"]["text"] == "not reviewed: src/a b: a binary file"


def test_a_file_name_that_is_no_text_has_a_place_too() -> None:
    (run,) = sarif(told("src/caf\udce9"), version="1.0")["runs"]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "src/caf%E9.py"


def test_a_review_without_a_decision_did_not_execute() -> None:
    (run,) = sarif(told("a", decision="UNDECIDED", reason="no network"), version="1.0")["runs"]
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    assert invocation["toolExecutionNotifications"][0]["message"]["text"] == "no network"
