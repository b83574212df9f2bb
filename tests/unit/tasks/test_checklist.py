"""Plans as checklists: which items are tasks, in which order, and what their details become."""

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.tasks.importers import task_files
from rulebook_ralph.tasks.importers.checklist_entries import dependencies, parted
from rulebook_ralph.tasks.importers.markdown import read_document
from rulebook_ralph.tasks.importers.source import RefusedTasksError
from rulebook_ralph.tasks.model import PRD_VERSION, Prd, Task
from rulebook_ralph.tasks.prd_file import problems_of

PLAN = """\
# Tasks: numerals
> - [ ] a quotation is no task

## Phase 1: Make it work

- [x] 1.1 Read numerals
  - **Do**:
    1. Write the parser
    2. Export it
  - **Files**: `src/read.py` (create), src/__init__.py, the rest
  - **Done when**: XIV gives 14
  - **Verify**: `pytest -q tests/test_read.py`
  - **Commit**: `feat(read): read numerals`
  - _Requirements: FR-1, AC-1.1_
- [ ] 1.2 [P] Write numerals
  **Do**: Write the printer
  and export it
  **Verify**: Manual test of the core flow
- [P] 1.3 Add numerals
  - **Verify**: All commands must pass:
    - Types: `pnpm check-types` or equivalent
    - Lint: `pnpm lint`
  - **Commit**: None
- [ ] 1.3.1 [RED] Mend adding
  - **Verify**: `src/add.py` exists
- [ ] 1.4 [VERIFY] Quality: `pnpm lint && pnpm test`
  - **Verify**: All of it exits with 0
  - **Commit**: `chore(all): pass` (only if fixes are needed)
- [ ] V1 [VERIFY] In CI
  - **Verify**: Run this:
    ```bash
    gh pr checks
    ```
"""


def read(folder: Path, text: str | bytes, name: str = "plan.md") -> dict[str, Task]:
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    tasks = task_files.read_all([folder / name], root=folder, known=(), read=()).tasks
    assert problems_of(Prd(version=PRD_VERSION, project="p", tasks=tasks)) == ()
    return {task.id: task for task in tasks}


def test_a_plan_with_details(tmp_path: Path) -> None:
    tasks = read(tmp_path, PLAN)
    assert list(tasks) == ["1.1", "1.2", "1.3", "1.3.1", "1.4", "V1"]
    assert {task_id: task.dependencies for task_id, task in tasks.items()} == {
        "1.1": (),
        "1.2": ("1.1",),
        "1.3": ("1.1",),
        "1.3.1": ("1.2", "1.3"),
        "1.4": ("1.3.1",),
        "V1": ("1.4",),
    }
    first = tasks["1.1"]
    assert (first.title, first.status, first.source) == ("Read numerals", "completed", "plan.md")
    assert first.metadata == {"commitMessage": "feat(read): read numerals", "imported": "completed"}
    assert first.relevant_files == ("src/read.py", "src/__init__.py", "plan.md")
    assert first.acceptance_criteria == ("XIV gives 14",)
    assert first.description == (
        "1. Write the parser\n2. Export it\n- _Requirements: FR-1, AC-1.1_\n\nPart of: Phase 1: Make it work"
    )
    second = tasks["1.2"]
    assert second.description.startswith("Write the printer and export it\n")
    assert (second.markers, second.completion, second.metadata) == (("P",), {}, {})
    assert second.acceptance_criteria == ("Manual test of the core flow",)


@pytest.mark.parametrize(
    ("task_id", "stage", "command"),
    [
        ("1.1", "coder", "pytest -q tests/test_read.py"),
        ("1.2", "coder", None),
        ("1.3", "coder", "set -e\npnpm check-types\npnpm lint"),
        ("1.3.1", "coder", None),
        ("1.4", "qa", "pnpm lint && pnpm test"),
        ("V1", "qa", "gh pr checks"),
    ],
)
def test_a_command_under_verify_is_run_and_anything_else_is_a_criterion(
    tmp_path: Path, task_id: str, stage: str, command: str | None
) -> None:
    task = read(tmp_path, PLAN)[task_id]
    assert task.completion.get(stage, {}).get("verificationConfig", {}).get("command") == command
    is_check = stage == "qa"
    assert task.overrides == ({"stages": ["qa"]} if is_check else {})
    assert (task.completion.get(stage, {}).get("promise") == "VERIFICATION_PASS") is is_check


def test_boxes_of_a_plain_list_are_tasks_named_by_their_words_and_those_below_them_their_criteria(
    tmp_path: Path,
) -> None:
    text = (
        "# Todo\n## Backend\n* [ ] Log **in**\n\t+ [ ] Form: add it!\n\t+ [x] Büro\n- plain\n  1. [ ] 日本\n"
        "  2. [ ] form, add it\n## Frontend\n1. [ ] form, add it\n```\n- [ ] no\n```\n<!-- - [ ] no\n- [ ] no -->\n"
    )
    tasks = read(tmp_path, text)
    assert [task.title for task in tasks.values()] == ["Log **in**", "日本", "form, add it", "form, add it"]
    assert tasks["log-in"].acceptance_criteria == ("Form: add it!", "Büro")
    again = read(tmp_path, text.replace("* [ ] Log **in**\n", "- [ ] New\n* [ ] Log **in**\n"))
    assert list(again) == ["new", *tasks]
    *_, third, last = tasks
    assert (third, last[:12]) == ("form-add-it", "form-add-it-")
    assert tasks[third].description == "Part of: Backend / plain"


def test_a_parallel_mark_may_stand_behind_the_title(tmp_path: Path) -> None:
    tasks = read(tmp_path, "- [ ] Sum\n- [ ] [P] Half\n- [ ] Median [P]\n- [ ] Take [P] out\n")
    assert [(task.id, task.title) for task in tasks.values()][2:] == [
        ("median", "Median"),
        ("take-p-out", "Take [P] out"),
    ]
    assert (tasks["median"].markers, tasks["median"].dependencies) == (("P",), ("sum",))
    assert tasks["take-p-out"].markers == ()


def test_ids_made_of_words_are_short_and_tell_apart_what_begins_alike(tmp_path: Path) -> None:
    begins = "Add tests for the parser of roman"
    tasks = read(
        tmp_path, f"- [ ] {begins} numerals\n- [ ] {begins} letters\n- [ ] Mend the very long name of a file\n"
    )
    first, second, third = tasks
    assert (first[:24], second[:24], third) == (
        "add-tests-for-the-parser",
        "add-tests-for-the-parser",
        "mend-the-very-long-name-of-a",
    )
    assert all(len(task_id) <= 30 for task_id in tasks)
    assert list(read(tmp_path, f"- [ ] {begins} letters\n- [ ] {begins} numerals\n")) == [second, first]


def test_a_group_with_an_id_holds_tasks_with_ids(tmp_path: Path) -> None:
    lines = ("- [ ] 1. Set up", "  - [ ] 1.1 Folder", "  - [ ] 1.2 Files", "- [ ] 2. Build", "  - [ ] a", "  - [ ] b")
    assert list(read(tmp_path, "\n".join(lines))) == ["1.1", "1.2", "2"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "- [ ] 1.1 a\n- [ ] V1 b\n\n- [ ] 1.1 c\n- [ ] 1.1 d\n",
            r"plan.md:4: '1.1' is used already in line 1 \(and 1 more\)$",
        ),
        ("- a\n- b\n", "plan.md: has no task"),
        (b"- [ ] a\n- [ ] caf\xe9\n", r"plan.md:2: is not UTF-8 \(byte 0xe9\)"),
        (b"- [ ] a\n\0", "plan.md:2: holds a NUL"),
        (b"-" * (10 * 1024 * 1024), "plan.md: is larger than 2 MB"),
    ],
)
def test_what_cannot_be_taken_is_said_with_its_line(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(RefusedTasksError, match=message):
        read(tmp_path, text)


def test_hostile_words_do_no_harm(tmp_path: Path) -> None:
    words = ("../../etc/passwd", "\x1b[31mred\x1b[0m \x07bell", "x" * 100_000, "", ".lock")
    tasks = read(tmp_path, "".join(f"- [ ] {each}\n" for each in words))
    assert list(tasks)[:2] == ["etc-passwd", "red-bell"]
    assert all(len(task.title) <= 200 and task.title.isprintable() for task in tasks.values())


@given(st.lists(st.tuples(st.sampled_from(["", "[P] ", "[VERIFY] ", "[P] [VERIFY] "]), st.booleans()), min_size=1))
def test_order_is_dependency_but_for_runs_of_parallel_tasks(marks: list[tuple[str, bool]]) -> None:
    text = "\n".join(f"- [{'x' if done else ' '}] 1.{n} {mark}t" for n, (mark, done) in enumerate(marks, 1))
    entries, _ = parted(read_document(text))
    needed = dependencies(entries)
    reach: list[set[int]] = []
    numbers = {entry.id: index for index, entry in enumerate(entries)}
    for direct in needed:
        ids = {numbers[each] for each in direct}
        reach.append(ids.union(*(reach[each] for each in ids)))
    beside = [mark == "[P] " for mark, _ in marks]
    for later in range(len(entries)):
        for earlier in range(later):
            parallel = all(beside[earlier : later + 1])
            if not marks[earlier][1]:  # what is open is waited for
                assert (earlier in reach[later]) is not parallel
            assert not (parallel and earlier in reach[later])


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"- [ ] 1.{n} [P] Task\n  - **Done when**: it is {n}\n- [ ] again\n" for n in range(1_000)),
        *(
            f"- [ ] 1.1 {words * 10_000}\n  - **Verify**: {words * 10_000}\n"
            for words in ("[P]", "**", "` ", "(", "[ ] ", "- ", "**a", "__: ", "run ")
        ),
        f"- [ ] 1.1 _a:{' ' * 500_000}x\n",
    ],
    ids=range(11),
)
def test_what_is_long_is_read_in_linear_time(tmp_path: Path, text: str) -> None:
    before = time.process_time()
    read(tmp_path, text)
    assert time.process_time() - before < 2  # a tenth of it is usual; growing with the square, minutes
