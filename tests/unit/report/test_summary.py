"""`ralph summary`: what is told of the work, and that no text in it is more than words."""

import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.errors import RalphError
from rulebook_ralph.report import account, summary
from rulebook_ralph.report.account import Account
from rulebook_ralph.tasks import disk, prd_file
from rulebook_ralph.tasks.disk import StateFolder
from rulebook_ralph.tasks.history import Iteration
from rulebook_ralph.tasks.model import CompletionSummary, Prd, Task, Totals
from rulebook_ralph.tasks.results import CheckResult, ParsedIteration, Verdict
from rulebook_ralph.tasks.review import ReviewIssue, ReviewLook, reviewed
from rulebook_ralph.tasks.text import printable
from tests.cases import each_of
from tests.harness import save
from tests.rendered_markdown import RENDERED, references, tags

AT = "2026-01-01T00:00:00.000Z"
HOSTILE = (
    "@team",
    "#123",
    "owner/repo#4",
    "GH-5",
    "!7",
    "</details><h1>Merged</h1>",
    "![beacon](https://evil.example/p.png)",
    "[click](javascript:alert(1))",
    "<img src=x onerror=alert(1)>",
    "https://evil.example/a?b=c",
    "www.evil.example",
    "a@evil.example",
    "mailto:a@evil.example",
    "<!-- hidden",
    "``` ```",
    "`@team`",
    "# Heading",
    "- [x] reviewed",
    "1. one",
    "> quote",
    "---",
    "===",
    "| a | b |",
    "**bold** _it_ ~~gone~~",
    "$\\boldsymbol{x}$",
    "&lt;b&gt;",
    "[^1]: note",
    "\x1b[31mred\u202egnp",
    "Fixes #12\n\n# Heading\n<script>",
)
WORDS = st.text() | st.lists(st.sampled_from([*HOSTILE, "\n", " ", "\\", "`", "x"]), max_size=6).map("".join)


def shown(text: str) -> str:
    """What a reader sees of rendered words: without the tags of paragraphs, with entities as characters."""
    rendered: str = RENDERED.render(text)
    inner = rendered.removeprefix("<p>").removesuffix("</p>\n")
    assert "<" not in inner, rendered
    return unescape(inner)


@given(WORDS)
def test_words_stay_words(text: str) -> None:
    told = summary.inline(text, 1000)
    assert "\n" not in told
    if told:
        seen = shown(told)
        assert references(told) == []
        words = " ".join(printable(text).split())
        assert len(words) > 1000 or seen.replace("\u200b", "") == words.replace("\u200b", "")


@each_of("text", HOSTILE)
@each_of("around", ["- **{}** done", "  {}", "## {}: blocked", "a {} b"])
def test_hostile_words_are_shown_and_do_nothing(text: str, around: str) -> None:
    told = around.format(summary.inline(text))
    assert tags(told) == tags(around.format("words")), told
    assert references(told) == []


@given(WORDS)
def test_a_code_span_shows_the_text_as_it_is(text: str) -> None:
    told = summary.code(text, 1000)
    if told:
        rendered: str = RENDERED.render(told)
        inner = rendered.removeprefix("<p><code>").removesuffix("</code></p>\n")
        assert "<" not in inner


@given(WORDS)
def test_a_block_holds_all_of_the_text(text: str) -> None:
    lines = summary.block(text)
    if lines:
        rendered: str = RENDERED.render("\n".join([*lines, "", "after"]))
        assert rendered.endswith("</code></pre>\n<p>after</p>\n")
        assert rendered.count("<pre>") == 1


# What is told


def record(number: int, task_id: str = "one", **values: Any) -> Iteration:
    defaults: dict[str, Any] = {
        "phase": "settled",
        "stage": "coder",
        "attempt": 1,
        "agent": "script",
        "timestamp": AT,
        "started_at": AT,
        "base_commit": "0" * 40,
        "completion_status": "failed",
        "duration_ms": 1500,
        "snapshot": "a" * 40,
    }
    return Iteration(iteration_number=number, task_id=task_id, **(defaults | values))


GATE = CheckResult(step="tests", command="make test", passed=True, duration_ms=900)
REVIEW = reviewed(
    [
        ReviewIssue(
            file="src/a.py",
            lines=(3, 5),
            type="security",
            severity="low",
            description="Ask @team about #1",
            suggestion="",
            agent_prompt="Mend it",
        )
    ],
    [ReviewLook(tier="deep", reviewer="opus", decision="SHIP")],
)
FACTS = CompletionSummary(files_created=("src/a.py",), verification_steps=("tests: make test", "run it"))
DONE = Task(
    id="one",
    title="Do one",
    status="completed",
    attempts={"coder": 2, "qa": 1},
    summary="It is there.",
    cost_usd=0.5,
    completion_summary=FACTS,
)
STUCK = Task(
    id="two",
    title="Do two",
    status="blocked",
    blocked_reason="no key for </details>",
    attempts={"coder": 3},
    settled_iteration=3,
    acceptance_criteria=("It works",),
)


def project(root: Path, *tasks: Task, records: tuple[Iteration, ...] = ()) -> Account:
    folder = StateFolder(root)
    folder.history.mkdir(parents=True)
    totals = Totals(iterations=len(records), cost_usd=0.62, tokens=12_400)
    disk.replace_file(folder.prd, prd_file.encode_prd(Prd(version=1, project="sundial", tasks=tasks, totals=totals)))
    for each in records:
        save(folder, each)
    return account.read(folder)


def whole(root: Path) -> Account:
    red = CheckResult(step="tests", command="make test", passed=False, reason="exit code 1", duration_ms=900)
    first = record(
        1,
        checks=(red,),
        verdict=Verdict(action="continue", reason="gate failed: tests"),
        feedback="It fell over:\n```\n@team </details>",
        files_changed=("src/a.py",),
        parsed=ParsedIteration(learnings=("Bricks are heavy", "bricks are heavy.")),
    )
    done = record(
        2,
        attempt=2,
        checks=(GATE,),
        completion_status="completed",
        tasks_completed=("one",),
        commit="c" * 40,
        review=REVIEW,
    )
    return project(root, DONE, STUCK, Task(id="three", title="Do three"), records=(first, done, record(3, "two")))


def test_a_pull_request_is_told_all_that_it_needs(tmp_path: Path) -> None:
    text = summary.whole(whole(tmp_path))
    lines = text.splitlines()
    assert lines[0] == "## sundial: 1 of 3 tasks completed"
    assert lines[2] == "branch `ralph/sundial` · 3 iterations · agents worked 4.5 s · $0.62 · 12.4k tokens"
    order = ["### Blocked", "### Reviews", "### Gates, as they ran last (#2)", "### Done", "### Still open"]
    assert [line for line in lines if line.startswith("### ")] == [
        *order,
        "### How to verify it",
        "### Learned on the way",
    ]
    for told in (
        "- **Do two** (`two`): no key for &lt;/details&gt;",
        "`ralph show 3`; edit its task in .rulebook-ralph/prd.json, or mend what is in its way, then `ralph run`",
        "- **Do one** (`one`): SHIP, 1 low",
        "  - low, security, `src/a.py:3-5`: Ask @\u200bteam about #\u200b1",
        "- tests: **passed**, `make test`, 0.9 s",
        "- **Do one** (`one`) · `cccccccccccc` · coder 2, qa 1 · $0.50",
        "  It is there.",
        "  New: `src/a.py`",
        "- **Do three** (`three`)",
        "- `make test`",
        "- run it",
        "- Bricks are heavy",
    ):
        assert any(line.endswith(told) for line in lines), told
    assert text.count("ricks are heavy") == 1


def test_one_tasks_story_has_each_attempt(tmp_path: Path) -> None:
    told = whole(tmp_path)
    text = summary.story(told, told.tasks[0])
    for words in (
        "## Do one: completed",
        f"Commit `{'c' * 40}`",
        "### #1: coder, attempt 1, failed",
        "- Verdict: gate failed: tests",
        "- tests: **failed** (exit code 1), `make test`, 0.9 s",
        "- Snapshot: `refs/ralph/sundial/tasks/one/1`",
        "````text\nIt fell over:\n```\n@team </details>\n````",
        "### #2: coder, attempt 2, completed",
        "- Review: SHIP, 1 low",
    ):
        assert words in text, words
    assert "two" not in text
    story = account.story_as_json(told, told.tasks[0])
    assert [each["commit"] for each in story["attempts"]] == [None, "c" * 40]  # type: ignore[attr-defined]
    assert account.as_json(told)["blockedCount"] == 1


@pytest.mark.parametrize("longest", [2_000, summary.LONGEST])
def test_its_length_is_bounded_and_the_rest_is_said(tmp_path: Path, longest: int) -> None:
    many = [
        Task(id=f"t{number}", title="T" * 500, status="blocked", blocked_reason="<" * 5000, summary="s" * 5000)
        for number in range(400)
    ]
    told = project(tmp_path, *many, records=tuple(record(n, "t0", feedback="f" * 20_000) for n in range(1, 41)))
    for text, rest in (
        (summary.whole(told, longest=longest), "ralph summary --json"),
        (summary.story(told, told.tasks[0], longest=longest), "ralph summary --task t0 --json"),
    ):
        assert len(text) <= longest
        assert re.search(rf"\*\d+ more sections left out here; all of it: `{rest}`\*\n$", text)


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    whole(tmp_path)
    folder = StateFolder(tmp_path)
    folder.iteration(1).write_text("{")
    text = summary.whole(account.read(folder))
    assert "*1 iteration file is left out, as nobody can read them: " in text
    folder.prd.write_text('{"version": 1,\n"project": }')
    with pytest.raises(RalphError, match=r"prd\.json:2:"):
        account.read(folder)
