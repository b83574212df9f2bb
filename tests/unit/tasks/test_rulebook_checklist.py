"""Leaf items of a tasks.md: every word in exactly its criteria, whatever the layout."""

import time
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.tasks.importers import rulebook
from rulebook_ralph.tasks.importers.markdown import codes_in, read_document
from rulebook_ralph.tasks.importers.source import complexity
from tests.cases import each_of


def read(text: str) -> tuple[list[str], bool]:
    return rulebook.read_checklist(read_document(text))


def items(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(read(text)[0]))


def demands(text: str) -> list[str]:
    return list(rulebook.read_spec(read_document(text)))


@dataclass(frozen=True)
class Node:
    boxed: bool
    checked: bool
    continued: bool
    marker: str
    children: tuple["Node", ...]


@dataclass(frozen=True)
class Style:
    unit: str
    newline: str
    numbered: bool
    blank: bool
    word_first: str


NODES: st.SearchStrategy[Node] = st.recursive(
    st.builds(
        Node, st.just(True), st.booleans(), st.booleans(), st.sampled_from(["-", "*", "+", "1.", "1)"]), st.just(())
    ),
    lambda children: st.builds(
        Node,
        st.booleans(),
        st.booleans(),
        st.booleans(),
        st.sampled_from(["-", "*"]),
        st.lists(children, max_size=4).map(tuple),
    ),
    max_leaves=12,
)
STYLES = st.builds(
    Style,
    st.sampled_from(["  ", "    ", "\t"]),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["Alpha", "`code`", "é", "**Bold**:"]),
)


class Writer:
    """Writes a forest as a tasks.md and knows what each leaf must say: the words of its chain and its details."""

    def __init__(self, style: Style) -> None:
        self.style = style
        self.rows = ["\ufeff# Tasks: T", "", "## 1. Part"]
        self.expected: list[set[str]] = []
        self.count = 0

    def word(self) -> str:
        self.count += 1
        return f"w{self.count:04}q"

    def forest(self, nodes: tuple[Node, ...], depth: int, above: frozenset[str], number: str) -> None:
        for index, node in enumerate(nodes, 1):
            own_number = f"{number}.{index}"
            words = self.item(node, depth, own_number)
            chain = above | words
            below = [child for child in node.children if has_box(child)]
            if not below and node.boxed:
                self.expected.append(set(chain | self.details(node.children, depth + 1)))
            elif below:
                plain = tuple(child for child in node.children if not has_box(child))
                chain |= self.details(plain, depth + 1)
                self.forest(tuple(below), depth + 1, frozenset(chain), own_number)
            else:
                self.details(node.children, depth + 1)

    def item(self, node: Node, depth: int, number: str) -> frozenset[str]:
        indent = self.style.unit * depth
        first, second = self.word(), self.word()
        box = f"[{'x' if node.checked else ' '}] " if node.boxed else ""
        shown = f"{number} " if self.style.numbered and node.boxed else ""
        self.rows.append(f"{indent}{node.marker} {box}{shown}{self.style.word_first} {first}")
        if node.continued:
            self.rows.append(f"{indent}    {second}")
        if self.style.blank:
            self.rows.append("")
        return frozenset((first, second) if node.continued else (first,))

    def details(self, nodes: tuple[Node, ...], depth: int) -> frozenset[str]:
        words: frozenset[str] = frozenset()
        for node in nodes:
            words |= self.item(Node(False, False, node.continued, node.marker, ()), depth, "")
            words |= self.details(node.children, depth + 1)
        return words


def has_box(node: Node) -> bool:
    return node.boxed or any(map(has_box, node.children))


@given(st.lists(NODES, min_size=1, max_size=5).map(tuple), STYLES)
def test_each_leaf_is_one_criterion_with_its_words_and_no_others(forest: tuple[Node, ...], style: Style) -> None:
    writer = Writer(style)
    writer.forest(forest, 0, frozenset(), "1")
    text = style.newline.join(writer.rows)
    found = items(text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n"))
    if not any(map(has_box, forest)):
        return
    assert len(found) == len(writer.expected)
    for criterion, expected in zip(found, writer.expected, strict=True):
        words = {f"w{number:04}q" for number in range(1, writer.count + 1) if f"w{number:04}q" in criterion}
        assert words == expected
        assert "\n" not in criterion


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
        ("- [ ] 1) Add it", "Add it"),
        ("- [ ] 3) Add it", "Add it"),
        ("- [ ] 2 problems", "2 problems"),
        ("- [ ] **A-1**: b **c** `**`", "A-1: b **c** `**`"),
        ("- [ ] **/*.ts are **new**", "**/*.ts are **new**"),
        ("- [ ] a <!-- 89a0f44 --> <!-- x -->", "a"),
        ("- [ ] say `<!-- x -->`", "say `<!-- x -->`"),
        ("- [~] doing", "doing"),
        ("- [] open", "open"),
        ("1. [x] first", "first"),
        ("\t* [X] tab", "tab"),
        ("- [ ] a\nlazy", "a lazy"),
        ("- [ ] a\n\n  own paragraph", "a own paragraph"),
        ("- [ ] a\n\nnot its own", "a"),
        ("- [ ] a\n> quoted", "a"),
        ("- [ ] a\n  ```sh\n  - [ ] no item\n    x\n  ```\n  b", "a\n```sh\n- [ ] no item\n  x\n```\nb"),
        ("- [ ] [link](url) kept", "[link](url) kept"),
    ],
)
def test_one_item(line: str, criterion: str) -> None:
    assert items(line) == (criterion,)


@each_of(
    ("text", "criteria"),
    [
        ("- [ ] 1.1 a\n- [ ] 1.2 b", ("a", "b")),
        ("- [ ] 1. a\n- [ ] 2. b", ("a", "b")),
        ("- [ ] 1.1 a\n- [ ] b", ("1.1 a", "b")),
        ("```\n- [ ] no\n## no\n```\n- [ ] yes", ("yes",)),
        ("<!--\n- [ ] no\n-->\n- [ ] yes", ("yes",)),
        ("## A\n- [ ] Write tests\n## B\n- [ ] Write tests\n", ("A: Write tests", "B: Write tests")),
        ("## A\n- [ ] same\n- [x] same\n", ("same",)),
        ("- no\n- boxes\n  - below", ("no", "boxes: below")),
        ("- [ ] a\n  - plain\n    - [ ] b", ("a: plain: b",)),
        ("- [ ] Do a.\n  - [ ] b", ("Do a. b",)),
        ("- [ ] a\n - [ ] one column is no nesting", ("a", "one column is no nesting")),
        ("- [ ] \n- [ ] b", ("b",)),
        ("[x](url)\n- [x](url) is a link\n- [ ] a", ("a",)),
        ("* * *\n- - -\n- [ ] a", ("a",)),
        ("- ```\n  - [ ] no\n  ```\n- [ ] a", ("a",)),
        ("just prose", ()),
        ("", ()),
    ],
)
def test_lists(text: str, criteria: tuple[str, ...]) -> None:
    assert items(text) == criteria


def test_long_context_is_told_once() -> None:
    long = "p" * 1200
    assert items(f"- [ ] {long}\n  - [ ] a\n  - [ ] b") == (long, "a", "b")


@each_of(
    ("text", "trouble"),
    [
        ("- [ ] a\n\n```\n- [ ] b", (2, "begins a block of code that never ends")),
        ("- [ ] a\n\n<!--\n- [ ] b", (2, "begins a comment that never ends")),
        ("- [ ] a\n\n```\n- [ ] b\n```\n<!-- c -->\n", None),
    ],
)
def test_what_hides_items_that_were_meant_to_be_seen_is_told(text: str, trouble: tuple[int, str] | None) -> None:
    assert read_document(text).trouble == trouble


@pytest.mark.parametrize(
    "text",
    ["```x\n" * 15_000, "<!-- a\n" * 15_000, "- [ ] " + "<!-- -->" * 15_000, "`" * 100_000, "MUST a:\n" * 15_000],
)
def test_long_texts_take_time_in_proportion(text: str) -> None:
    start = time.process_time()
    read(text)
    demands(text)
    codes_in(text)
    assert time.process_time() - start < 2  # a tenth of it is usual; growing with the square, minutes


def test_an_empty_open_box_keeps_a_task_open() -> None:
    assert not read("- [x] a\n- [ ]\n")[1]


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
