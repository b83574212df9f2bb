"""Boxes in plans: exactly those of what was verified are ticked, and nothing else of the file changes."""

import random
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.core.model import Task
from rulebook_ralph.sources import boxes, checklist
from rulebook_ralph.sources.checklist_entries import read_entries

BOX = re.compile(rb"\[[ xX-]?\]")
JUNK = b"> caf\xe9 \xff\xfe prose\n"


@dataclass(frozen=True)
class Node:
    words: str
    box: str
    bullet: str
    numbered: bool
    fence: bool
    children: tuple["Node", ...]


NODES: st.SearchStrategy[Node] = st.recursive(
    st.builds(
        Node,
        st.sampled_from(["Add it", "Mend `x`", "日本", "[P] Twice", "**Bold** move", "Add it!", "[ ] odd"]),
        st.sampled_from(["[ ]", "[]", "[-]", "[x]", "[X]"]),
        st.sampled_from(["-", "*", "+", "1.", "12)"]),
        st.booleans(),
        st.booleans(),
        st.just(()),
    ),
    lambda children: st.builds(
        Node,
        st.sampled_from(["Group", "Add it"]),
        st.sampled_from(["[ ]", "[x]", ""]),
        st.sampled_from(["-", "*"]),
        st.just(value=False),
        st.booleans(),
        st.lists(children, min_size=1, max_size=3).map(tuple),
    ),
    max_leaves=10,
)


def written(node: Node, depth: int, number: str) -> list[tuple[str, str]]:
    """Rows, each as it is and as it is when all is done."""
    start = f"{'    ' * depth}{node.bullet} "
    rest = f"{number + ' ' if node.numbered else ''}{node.words}"
    rows = [(f"{start}{node.box} {rest}", f"{start}{node.box and ticked(node.box)} {rest}")]
    if node.fence:
        inside = f"{'    ' * depth}     "
        rows += [(inside + text, inside + text) for text in ("```", "- [ ] 1.1 no task", "```")]
    for index, child in enumerate(node.children, 1):
        rows += written(child, depth + 1, f"{number}.{index}")
    return rows


def ticked(box: str) -> str:
    return box if box in ("[x]", "[X]") else "[x]"


@given(
    st.lists(NODES, min_size=1, max_size=5),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_ticking_each_task_of_a_plan_changes_exactly_its_boxes(
    nodes: list[Node], end: str, marked: bool, chance: random.Random
) -> None:
    rows = [row for index, node in enumerate(nodes, 1) for row in written(node, 0, f"{index}.0")]
    before, after = (end.join(["# Plan", "", *(row[side] for row in rows)]) for side in (0, 1))
    entries = read_entries(before.replace("\r\n", "\n").replace("\r", "\n"))
    assert len({entry.id.casefold() for entry in entries}) == len(entries)
    head = (b"\xef\xbb\xbf" if marked else b"") + JUNK
    data = head + before.encode()
    order = [Task(id=entry.id, title=entry.title, source="plan.md") for entry in entries]
    chance.shuffle(order)
    for task in order:
        now = boxes.ticked(data, task)
        assert now is not None
        assert now.startswith(head)
        assert BOX.sub(b"[]", now) == BOX.sub(b"[]", data)
        assert task.id in boxes.said_to_be_done(now, order)
        assert boxes.ticked(now, task) == now
        data = now
    assert data == head + after.encode()


PLAN = """\
- [ ] 1.1 First
  - **Done when**:
    - [ ] it is there
- [P] 1.2 Second
- [ ] Group
  - [ ] part a
  - [x] part b
"""


def plan_task(task_id: str, title: str = "") -> Task:
    return Task(id=task_id, title=title or task_id, source="plan.md")


@pytest.mark.parametrize(
    ("task", "old", "new"),
    [
        (
            plan_task("1.1"),
            "- [ ] 1.1 First\n  - **Done when**:\n    - [ ]",
            "- [x] 1.1 First\n  - **Done when**:\n    - [x]",
        ),
        (plan_task("1.2"), "- [P] 1.2", "- [x] [P] 1.2"),
        (plan_task("part-a"), "- [ ] Group\n  - [ ] part a", "- [x] Group\n  - [x] part a"),
    ],
    ids=lambda value: value.id if isinstance(value, Task) else "",
)
def test_a_tasks_own_boxes_go_with_it_and_a_group_with_its_last_task(task: Task, old: str, new: str) -> None:
    assert boxes.ticked(PLAN.encode(), task) == PLAN.replace(old, new).encode()


def test_the_line_is_found_again_wherever_it_went_by_id_and_where_that_is_not_enough_by_its_words() -> None:
    moved = b"\xff\n# Else\n* [ ] **1.2** Renamed\n- [ ] 1.1 Impostor\n+ [ ] 1.1 First\n"
    assert boxes.ticked(moved, plan_task("1.2")) == moved.replace(b"[ ] **", b"[x] **")
    assert boxes.ticked(moved, plan_task("1.1", "First")) == moved.replace(b"+ [ ]", b"+ [x]")
    assert boxes.ticked(moved, plan_task("1.1", "Neither")) is None
    assert boxes.ticked(b"", plan_task("1.1")) is None
    assert boxes.ticked(b"<!--\n--> - [ ] 1.1 First\n", plan_task("1.1")) is None


def test_of_a_rulebook_only_the_criteria_that_were_the_tasks_are_ticked() -> None:
    text = "## 1. A\r\n- [ ] 1.1 do a\r\n- [ ] 1.2 more\r\n  - [ ] 1.2.1 deep\r\n## 2. B\r\n- [ ] 2.1 new since\r\n"
    task = Task(id="t", title="t", source="rulebook/tasks/t", acceptance_criteria=("do a", "more: deep"))
    wanted = text.replace("[ ] 1.", "[x] 1.")
    assert boxes.file_of(task) == "rulebook/tasks/t/tasks.md"
    assert boxes.ticked(text.encode(), task) == wanted.encode()
    assert boxes.ticked(b"- [ ] other\n", task) is None
    assert not boxes.said_to_be_done(wanted.encode(), [task])
    assert boxes.said_to_be_done(wanted.replace("[ ]", "[x]").encode(), [task])


def test_a_plan_without_line_end_and_with_lone_carriage_returns_keeps_them(tmp_path: Path) -> None:
    (tmp_path / "plan.md").write_bytes(b"\xef\xbb\xbf- [ ] 1.1 A\r\t- [ ] 1.1.1 B")
    (task,) = checklist.read(tmp_path / "plan.md", "plan.md")
    assert task.id == "1.1.1"
    assert boxes.ticked((tmp_path / "plan.md").read_bytes(), task) == b"\xef\xbb\xbf- [x] 1.1 A\r\t- [x] 1.1.1 B"


@pytest.mark.parametrize(
    ("source", "text", "rows", "expected"),
    [
        ("plan.md", "- [x] 1.1 One\n- [x] 1.2 Two\n", {1}, True),
        ("plan.md", "- [x] 1.1 One\n- [x] 1.2 Two\n", {0, 7}, False),
        ("plan.md", "- [x] 1.1 One\n  - [x] a\n", {1}, True),
        ("rulebook/tasks/one", "- [x] a\n- [x] b\n", {1}, False),
        ("rulebook/tasks/one", "- [x] a\n- [x] b\nprose\n", {2}, True),
        ("prd.json", '{"title": "One",\n"passes": true}\n', {1}, False),
        ("prd.json", '{"title": "One",\n"passes": true}\n', {0}, True),
    ],
)
def test_whether_a_task_is_said_to_be_done_without_some_rows(
    source: str, text: str, rows: set[int], expected: bool
) -> None:
    task = Task(id="1.1", title="One", source=source)
    assert boxes.is_said_to_be_done(text.encode(), task, without=rows) is expected


@pytest.mark.parametrize(
    ("base", "data", "expected"),
    [
        ("- [ ] 1.1 A\n- [x] 1.2 B\n", "- [x] 1.1 A\n- [x] 1.2 B\n", {0: "plan-1.1"}),
        ("- [ ] 1.1 A\n", "# New\r\n- [ ] 1.2 B\r\n- [X] 1.1 Renamed\r\n", {2: "plan-1.1"}),
        ("- [x] 1.1 A\n", "- [ ] 9\n- [x] 1.1 A\n- [x] 1.3 no task of the PRD\n", {}),
        ("", "- [x] Group\n  - [x] 1.1 A\n  - [ ] 1.2 B\n", {1: "plan-1.1"}),
    ],
)
def test_only_what_was_ticked_since_for_those_tasks_is_opened_again(
    base: str, data: str, expected: dict[int, str]
) -> None:
    tasks = [
        Task(id=f"plan-{own}", title="A", source="plan.md", metadata={"idInSource": own}) for own in ("1.1", "1.2")
    ]
    rows = boxes.ticked_since(base.encode(), data.encode(), tasks)
    assert rows == expected
    opened = boxes.with_open(b"\xef\xbb\xbf" + data.encode() + b"\xff", rows)
    lines = data.splitlines(keepends=True)
    wanted = [re.sub(r"\[[xX]\]", "[ ]", line) if row in expected else line for row, line in enumerate(lines)]
    assert opened == b"\xef\xbb\xbf" + "".join(wanted).encode() + b"\xff"


def test_of_another_rulebook_task_the_criteria_are_opened_again_that_were_ticked_since() -> None:
    base = "- [x] 1.1 do a\n- [ ] 1.2 do b\n- [ ] 1.3 mine\n"
    task = Task(id="t", title="t", source="rulebook/tasks/t", acceptance_criteria=("do a", "do b"))
    assert boxes.ticked_since(base.encode(), base.replace("[ ]", "[x]").encode(), [task]) == {1: "t"}
