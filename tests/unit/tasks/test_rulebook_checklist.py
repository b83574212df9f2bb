"""Leaf items of a tasks.md: every word in exactly its criteria, whatever the layout."""

import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.tasks.importers import rulebook
from rulebook_ralph.tasks.importers.markdown import codes_in, read_document
from rulebook_ralph.tasks.importers.source import UnreadableError, complexity
from tests.cases import each_of


def read(text: str) -> tuple[list[str], bool]:
    return rulebook.read_checklist(read_document(text))


def items(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(read(text)[0]))


def demands(text: str) -> list[str]:
    return list(rulebook.read_spec(read_document(text)))


Tree = tuple["Tree", ...]
TREES: st.SearchStrategy[Tree] = st.recursive(
    st.just(()), lambda below: st.lists(below, min_size=1, max_size=3).map(tuple), max_leaves=10
)


@given(st.lists(TREES, min_size=1, max_size=4), st.sampled_from(["  ", "    ", "\t"]), st.booleans())
def test_each_leaf_is_one_criterion_with_its_words_and_those_above_it(
    forest: list[Tree], unit: str, numbered: bool
) -> None:
    rows: list[str] = []
    expected: list[list[str]] = []

    def write(tree: Tree, above: list[str], number: str) -> None:
        words = [*above, f"w{len(rows):03}q"]
        rows.append(f"{unit * len(above)}- [ ] {number + ' ' if numbered else ''}{words[-1]}")
        for index, below in enumerate(tree, 1):
            write(below, words, f"{number}.{index}")
        if not tree:
            expected.append(words)

    for index, tree in enumerate(forest, 1):
        write(tree, [], f"1.{index}")
    found = items("\n".join(rows))
    assert [re.findall(r"w\d{3}q", criterion) for criterion in found] == expected
    assert not numbered or not any(re.search(r"\d\.\d", criterion) for criterion in found)


@given(st.lists(st.booleans(), max_size=6))
def test_a_task_is_completed_when_it_has_boxes_and_all_are_ticked(boxes: list[bool]) -> None:
    text = "\n".join(f"- [{'x' if box else ' '}] item {index}" for index, box in enumerate(boxes))
    assert read(text)[1] == (bool(boxes) and all(boxes))


@given(st.text(alphabet=st.sampled_from("-*+ [x]1.#`~<!>|\n\tSHALM:ab"), max_size=200))
def test_no_text_makes_a_reader_fail(text: str) -> None:
    read(text)
    demands(text)
    rulebook.read_proposal(text)
    codes_in(text)


@each_of(
    ("line", "criterion"),
    [
        ("- [ ] 1.1 Add it", "Add it"),
        ("- [ ] **1.1** Add it", "Add it"),
        ("- [ ] **1.1 Add it**", "Add it"),
        ("- [ ] 1.1. **Add** it", "Add it"),
        ("- [ ] 3) Add it", "Add it"),
        ("- [ ] 2 problems", "2 problems"),
        ("- [ ] **A-1**: b **c** `**`", "A-1: b **c** `**`"),
        ("- [ ] **/*.ts are **new**", "**/*.ts are **new**"),
        ("- [ ] a <!-- 89a0f44 --> <!-- x -->", "a"),
        ("- [ ] say `<!-- x -->`", "say `<!-- x -->`"),
        ("- [~] doing", "doing"),
        ("- [] open", "open"),
        ("\t* [X] tab", "tab"),
        ("- [ ] a\n\n  own paragraph", "a own paragraph"),
        ("- [ ] a\n\nnot its own", "a"),
        ("- [ ] a\n> quoted", "a"),
        ("- [ ] a\n  ```sh\n  - [ ] no item\n    x\n  ```\n  b", "a\n```sh\n- [ ] no item\n  x\n```\nb"),
    ],
)
def test_one_item(line: str, criterion: str) -> None:
    assert items(line) == (criterion,)


@each_of(
    ("text", "criteria"),
    [
        ("- [ ] 1.1 a\n- [ ] 1.2 b", ("a", "b")),
        ("- [ ] 1.1 a\n- [ ] b", ("1.1 a", "b")),
        ("```\n- [ ] no\n## no\n```\n- [ ] yes", ("yes",)),
        ("<!--\n- [ ] no\n-->\n- [ ] yes", ("yes",)),
        ("## A\n- [ ] Write tests\n## B\n- [ ] Write tests\n", ("A: Write tests", "B: Write tests")),
        ("## A\n- [ ] same\n- [x] same\n", ("same",)),
        ("- no\n- boxes\n  - below", ("no", "boxes: below")),
        ("- [ ] a\n  - plain\n    - [ ] b", ("a: plain: b",)),
        ("- [ ] Do a.\n  - [ ] b", ("Do a. b",)),
        ("- [ ] \n- [ ] b", ("b",)),
        ("[x](url)\n- [x](url) is a link\n- [ ] a", ("a",)),
        ("- ```\n  - [ ] no\n  ```\n- [ ] a", ("a",)),
        ("", ()),
        (f"- [ ] {'p' * 1200}\n  - [ ] a\n  - [ ] b", ("p" * 1200, "a", "b")),
    ],
)
def test_lists(text: str, criteria: tuple[str, ...]) -> None:
    assert items(text) == criteria


@each_of(
    ("text", "told"),
    [
        ("- [ ] a\n\n```\n- [ ] b", "begins a block of code that never ends"),
        ("- [ ] a\n\n<!--\n- [ ] b", "begins a comment that never ends"),
    ],
)
def test_what_hides_items_that_were_meant_to_be_seen_is_refused(text: str, told: str) -> None:
    with pytest.raises(UnreadableError, match=told) as refusal:
        read_document(text, Path("tasks.md"))
    assert refusal.value.line == 3
    assert read_document(f"{text}\n```\n<!-- c -->\n" if "```" in text else f"{text} -->", Path("tasks.md")).flow


@pytest.mark.parametrize(
    "text",
    [
        *("```x\n" * 15_000, "<!-- a\n" * 15_000, "- [ ] " + "<!-- -->" * 15_000, "`" * 100_000, "MUST a:\n" * 15_000),
        *(f"## REMOVED Requirements\nMUST{piece * 30_000}b\n" for piece in ("\n", " ", "#", "`#", "* ", "~~~\n", "**")),
    ],
    ids=range(12),
)
def test_long_texts_take_time_in_proportion(text: str) -> None:
    start = time.process_time()
    read(text)
    demands(text)
    codes_in(text)
    assert time.process_time() - start < 2  # a tenth of it is usual; growing with the square, minutes


def test_complexity_follows_its_rule() -> None:
    assert [complexity(size) for size in (0, 3, 4, 8, 9, 20, 21)] == [
        "low", "low", "medium", "medium", "high", "high", "very-high",
    ]  # fmt: skip


# spec.md

HEAD = "## ADDED Requirements\n\n### Requirement: Login\n"


@each_of(
    ("text", "criteria"),
    [
        (
            HEAD + "The login SHALL reject\nbad passwords. It MUST wait.\n\nWaiting is slow.\n",
            ("Login: The login SHALL reject bad passwords. It MUST wait. Waiting is slow.",),
        ),
        (
            HEAD + "It MUST offer:\n\n- a\n  more\n\n  and b\n- c\n\nEnd.\n",
            ("Login: It MUST offer: a more and b; c End.",),
        ),
        (
            HEAD + "It MUST read:\n```\n# MUST\n```\n| a | b |\n|---|---|\n",
            ("Login: It MUST read:\n```\n# MUST\n```\n| a | b |\n|---|---|",),
        ),
        (HEAD + "The login must, SHOULD and `MUST` do nothing.\n", ()),
        ("# Spec\n\n## Gate\n\n- SHALL a\n", ("Gate: SHALL a",)),
        ("The system SHALL a.", ("The system SHALL a.",)),
        (
            HEAD
            + "#### Scenario: Bad\n- **GIVEN** a user\n- **WHEN** it fails\n- **THEN** it MUST\n  c\n- **AND** it MUST d\n",
            ("Login — Bad: GIVEN a user, WHEN it fails, THEN it MUST c, AND it MUST d",),
        ),
        (HEAD + "#### Scenario: Bad\nGiven a\nWhen b\nThen c\n", ()),
        (
            "## REMOVED Requirements\n### Requirement: Old\n**Reason**: a\n**Migration**: b\n#### Scenario: S\nThen c\n",
            ('Removed requirement "Old": Reason: a Migration: b',),
        ),
        ("## REMOVED Requirements\n### Requirement: Old\n", ('Removed requirement "Old"',)),
        ("## REMOVED Requirements\n### Requirement: Old\nIt SHALL x.\n", ('Removed requirement "Old": It SHALL x.',)),
        ("## Removed requirements\n- `### Requirement: Old`\n", ("Removed requirement: Old",)),
        (
            "## RENAMED Requirements\n- FROM: `### Requirement: Old`\n- TO: `### Requirement: New`\n",
            ("Renamed requirement: FROM: Old; TO: New",),
        ),
        (
            "## MODIFIED Requirements\n### Requirement: A\nIt MUST a.\n## REMOVED Requirements\n### Requirement: B\n",
            ("A: It MUST a.", 'Removed requirement "B"'),
        ),
    ],
)
def test_criteria(text: str, criteria: tuple[str, ...]) -> None:
    assert tuple(demands(text)) == criteria
