"""Boxes in plans: exactly those of what was verified are ticked, and nothing else of the file changes."""

import random
import re
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.tasks.importers import task_files
from rulebook_ralph.tasks.importers.checklist_entries import parted
from rulebook_ralph.tasks.importers.markdown import read_document
from rulebook_ralph.tasks.model import Task

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
        st.sampled_from(["-", "*", "+", "1.", "1)"]),
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
    entries, _ = parted(read_document(before.replace("\r\n", "\n").replace("\r", "\n")))
    assert len({entry.id.casefold() for entry in entries}) == len(entries)
    head = (b"\xef\xbb\xbf" if marked else b"") + JUNK
    data = head + before.encode()
    order = [Task(id=entry.id, title=entry.title, source="plan.md") for entry in entries]
    chance.shuffle(order)
    for task in order:
        now = task_files.ticked(data, task)
        assert now is not None
        assert now.startswith(head)
        assert BOX.sub(b"[]", now) == BOX.sub(b"[]", data)
        assert task_files.ticked(now, task) == now
        data = now
    assert data == head + after.encode()


def plan_task(task_id: str, title: str = "") -> Task:
    return Task(id=task_id, title=title or task_id, source="plan.md")


def test_a_marker_in_the_place_of_a_box_stays() -> None:
    assert task_files.ticked(b"- [P] 1.2 Second\n", plan_task("1.2")) == b"- [x] [P] 1.2 Second\n"


def test_the_line_is_found_again_wherever_it_went_by_id_and_where_that_is_not_enough_by_its_words() -> None:
    moved = b"\xff\n# Else\n* [ ] **1.2** Renamed\n- [ ] 1.1 Impostor\n+ [ ] 1.1 First\n"
    assert task_files.ticked(moved, plan_task("1.2")) == moved.replace(b"[ ] **", b"[x] **")
    assert task_files.ticked(moved, plan_task("1.1", "First")) == moved.replace(b"+ [ ]", b"+ [x]")
    assert task_files.ticked(moved, plan_task("1.1", "Neither")) is None
    assert task_files.ticked(b"", plan_task("1.1")) is None
    assert task_files.ticked(b"<!--\n--> - [ ] 1.1 First\n", plan_task("1.1")) is None


def test_of_a_rulebook_only_the_criteria_that_were_the_tasks_are_ticked() -> None:
    text = "## 1. A\r\n- [ ] 1.1 do a\r\n- [ ] 1.2 more\r\n  - [ ] 1.2.1 deep\r\n## 2. B\r\n- [ ] 2.1 new since\r\n"
    task = Task(id="t", title="t", source="rulebook/tasks/t", acceptance_criteria=("do a", "more: deep"))
    wanted = text.replace("[ ] 1.", "[x] 1.")
    assert task_files.file_of(task) == "rulebook/tasks/t/tasks.md"
    assert task_files.ticked(text.encode(), task) == wanted.encode()
    assert task_files.ticked(b"- [ ] other\n", task) is None
