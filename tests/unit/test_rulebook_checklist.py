"""Leaf items of a tasks.md: every word in exactly its criteria, whatever the layout."""

import time
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.sources import rulebook_checklist, rulebook_proposal, rulebook_spec
from rulebook_ralph.sources.rulebook_task import complexity
from tests.cases import each_of


def items(text: str) -> tuple[str, ...]:
    return rulebook_checklist.read(text).items


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
        Node, st.just(True), st.booleans(), st.booleans(), st.sampled_from(["-", "*", "+", "1.", "12)"]), st.just(())
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
    read = rulebook_checklist.read(text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n"))
    if not any(map(has_box, forest)):
        return
    assert len(read.items) == len(writer.expected)
    for criterion, expected in zip(read.items, writer.expected, strict=True):
        words = {f"w{number:04}q" for number in range(1, writer.count + 1) if f"w{number:04}q" in criterion}
        assert words == expected
        assert "\n" not in criterion


@given(st.lists(st.booleans(), max_size=6))
def test_a_task_is_completed_when_it_has_boxes_and_all_are_ticked(boxes: list[bool]) -> None:
    text = "\n".join(f"- [{'x' if box else ' '}] item {index}" for index, box in enumerate(boxes))
    assert rulebook_checklist.read(text).completed == (bool(boxes) and all(boxes))


@given(st.text(alphabet=st.sampled_from("-*+ [x]1.#`~<!>|\n\tSHALM:ab"), max_size=200))
def test_no_text_makes_a_reader_fail(text: str) -> None:
    rulebook_checklist.read(text)
    rulebook_spec.read(text)
    rulebook_proposal.read(text)
    rulebook_proposal.named_files([text], lambda _: False)


@each_of(
    ("line", "criterion"),
    [
        ("- [ ] 1.1 Add it", "Add it"),
        ("- [ ] **1.1** Add it", "Add it"),
        ("- [ ] **1.1 Add it**", "Add it"),
        ("- [ ] 1.1. **Add** it", "Add it"),
        ("- [ ] 1) Add it", "Add it"),
        ("- [ ] 3) Add it", "3) Add it"),  # alone, it may mean anything
        ("- [ ] 2.0 release", "2.0 release"),
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
        ("```\n- [ ] a fence that never closes hides nothing", ("a fence that never closes hides nothing",)),
        ("<!--\n- [ ] no\n-->\n- [ ] yes", ("yes",)),
        ("<!-- never closed\n- [ ] yes", ("yes",)),
        ("- [ ] a <!-- x\n- [ ] no\n--> tail\n- [ ] b", ("a tail", "b")),
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


def test_deep_nesting_loses_nothing() -> None:
    text = "\n".join(f"{'  ' * depth}- [ ] d{depth}" for depth in range(500))
    assert any("d499" in item for item in items(text))


@pytest.mark.parametrize(
    "text",
    ["```x\n" * 15_000, "<!-- a\n" * 15_000, "- [ ] " + "<!-- -->" * 15_000, "`" * 100_000, "MUST a:\n" * 15_000],
)
def test_long_texts_take_time_in_proportion(text: str) -> None:
    start = time.process_time()
    rulebook_checklist.read(text)
    rulebook_spec.read(text)
    assert time.process_time() - start < 2  # a tenth of it is usual; growing with the square, minutes


def test_an_empty_open_box_keeps_a_task_open() -> None:
    assert not rulebook_checklist.read("- [x] a\n- [ ]\n").completed


def test_complexity_follows_its_rule() -> None:
    assert [complexity(size) for size in (0, 3, 4, 8, 9, 20, 21)] == [
        "low", "low", "medium", "medium", "high", "high", "very-high",
    ]  # fmt: skip
