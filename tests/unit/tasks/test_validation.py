import json
import time
from pathlib import Path
from typing import Any

import pytest

from rulebook_ralph import resources
from rulebook_ralph.tasks import history, prd_file, progress
from rulebook_ralph.tasks.validation import MOST_PROBLEMS, near_misses, validate
from tests.cases import iteration

PRD = ".rulebook-ralph/prd.json"
GOOD = {"version": 1, "project": "p", "tasks": [{"id": "a", "title": "A"}]}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ".rulebook-ralph/history").mkdir(parents=True)
    _put(tmp_path, GOOD)
    return tmp_path


def _put(root: Path, prd: object) -> None:
    text = prd if isinstance(prd, bytes) else json.dumps(prd, indent=2).encode()
    (root / PRD).write_bytes(text)


def _put_iteration(root: Path, name: str, **changes: Any) -> Path:
    document = json.loads(history.encode(iteration(3))) | changes
    file = root / ".rulebook-ralph/history" / name
    file.write_text(json.dumps(document, indent=2), "utf-8")
    return file


def _told(root: Path) -> list[str]:
    return [str(problem) for problem in (*validate(root, resources.schema), *progress.problems(root))]


def test_a_good_project_has_no_problem(root: Path) -> None:
    _put_iteration(root, "iteration-3.json", ofAnotherTool=1)
    assert _told(root) == []


BAD_FORM = b"""{
  "version": 1,
  "project": "p",
  "tasks": [
    {"id": "a", "title": 5, "status": "done", "estimatedComplexity": "big"},
    {"id": "b", "title": "t", "title": "u"},
    {"title": "no id"},
    7,
    {"id": "d", "title": "t", "completion": [], "priority": "1"},
    {"id": "e", "title": "t", "priority": 0, "dependencies": ["a", "ghost"]}
  ],
  "totals": {"tokens": "x"}
}
"""
BAD_MEANING = b"""{
  "version": 1,
  "project": "p",
  "tasks": [
    {"id": "a", "title": "t"},
    {"id": "../x", "title": "t"},
    {"id": "A", "title": "t", "priority": 0,
     "dependencies": ["ghost"]},
    {"id": "c", "title": "t", "dependencies": ["d"]},
    {"id": "d", "title": "t", "dependencies": ["c"]}
  ]
}
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            BAD_FORM,
            [
                "1: $: the key `title` of 'b' is there twice; only the last one counts",
                "5: $.tasks[0].title: expected a string, got a whole number",
                "5: $.tasks[0].status: expected one of blocked, completed, in_iteration, pending, got 'done'",
                "5: $.tasks[0].estimatedComplexity: expected one of high, low, medium, very-high, got 'big'",
                "7: $.tasks[2]: `id` is missing",
                "8: $.tasks[3]: expected an object, got a whole number",
                "9: $.tasks[4].completion: expected an object, got a list",
                "9: $.tasks[4].priority: expected a whole number, got a string",
                "10: $.tasks[5].priority: expected 1 (the highest) or more, got 0",
                "10: $.tasks[5].dependencies[1]: there is no task 'ghost'",
                "12: $.totals.tokens: expected a whole number, got a string",
            ],
        ),
        (
            BAD_MEANING,
            [
                "6: $.tasks[1].id: must start with a letter or digit",
                "7: $.tasks[2].id: 'A' is the id of a task that is there already; ids differ by more than case",
                "7: $.tasks[2].priority: expected 1 (the highest) or more, got 0",
                "8: $.tasks[2].dependencies[0]: there is no task 'ghost'",
                "9: $.tasks[3].dependencies: dependency cycle: c -> d -> c",
            ],
        ),
    ],
)
def test_every_problem_of_a_prd_is_told_with_its_line_and_path(root: Path, text: bytes, expected: list[str]) -> None:
    _put(root, text)
    told = [line.removeprefix(f"{PRD}:") for line in _told(root)]
    assert sorted(told) == sorted(expected)
    assert [line.split(":")[0] for line in told] == sorted((line.split(":")[0] for line in told), key=int)


CRITERIA = b"""{
  "version": 1,
  "project": "p",
  "tasks": [
    {"id": "a", "title": "A", "completion": {
      "coder": {"promis": "X"},
      "qa": {"verification_method": "external",
             "verification_config": {"command": ""}}
    }},
    {"id": "b", "title": "B", "completion": {"coder": {"promise": 3}}, "overrides": {
      "stop_criteria": {
        "success_regex": "("}}},
    {"id": "c", "title": "C", "overrides": {"stages": ["qa", "coder"]}}
  ]
}
"""


def test_each_fault_of_criteria_is_told_once_with_its_line(root: Path) -> None:
    _put(root, CRITERIA)
    assert [line.removeprefix(f"{PRD}:") for line in _told(root)] == [
        "6: $.tasks[0].completion.coder.promis: unknown key; did you mean `promise`?",
        "8: $.tasks[0].completion.qa.verification_config.command: must not be empty, nor hold a NUL character",
        "10: $.tasks[1].completion.coder.promise: expected a string, got a whole number",
        "10: $.tasks[1].overrides.stopCriteria.successRegex: is no regular expression: missing ) at position 1",
        "13: $.tasks[2].overrides.stages: each stage once, in the order coder, reviewer, tester, qa",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", f"{PRD}: is empty; restore it from git"),
        (b'{"version": 1,\n "tasks": [}', f"{PRD}:2:12: is no JSON: invalid character"),
        (b'{"a":\xff}', f"{PRD}:1: is not UTF-8 text"),
        (b"[]", f"{PRD}:1: $: expected an object, got a list"),
        (b'{"version": 9, "tasks": 1}', f"{PRD}: version 9 is of a format newer than 1"),
        (b'{"version": 0, "project": "p"}', f"{PRD}:1: $.version: expected 1, got 0"),
        (b'{"version": 1, "project": " "}', f"{PRD}:1: $.project: must not be empty"),
        (b'{"version": 1, "project": "p", "tasks": null}', f"{PRD}:1: $.tasks: expected a list, got null"),
        (b'{"version": 1, "project": "p", "tasks": ' + b"[" * 9999, f"{PRD}: is nested too deeply"),
        (b'{"version": 1, "project": "p", "$extra": 3, "x": 1' + b"0" * 5000 + b"}", f"{PRD}: is no JSON: "),
    ],
)
def test_a_prd_that_is_no_prd_is_told_of_once(root: Path, text: bytes, expected: str) -> None:
    _put(root, text)
    (told,) = _told(root)
    assert told.startswith(expected)
    assert len(told) < 300
    assert "\n" not in told


def test_a_missing_prd_and_one_that_is_a_folder(root: Path) -> None:
    (root / PRD).unlink()
    assert _told(root) == [f"{PRD}: is missing; `ralph init` makes it"]
    (root / PRD).mkdir()
    assert _told(root) == [f"{PRD}: cannot be read: Is a directory"]


def test_what_is_nested_too_deeply_is_told_where_it_stands(root: Path) -> None:
    deep = "[" * 201 + "]" * 201
    task = f'{{"id": "a", "title": "A", "v": {deep},\n"metadata": {{"w": {deep}}}}}'
    _put(root, f'{{"version": 1, "project": "p", "x": {deep},\n"totals": {{"y": {deep}}}, "tasks": [{task}]}}'.encode())
    _put_iteration(root, "iteration-3.json", z=json.loads(deep))
    places = [line.partition(": is nested more than 200 deep")[0].rpartition(" ")[2] for line in _told(root)]
    assert places == ["$.x", "$.totals.y", "$.tasks[0].v", "$.tasks[0].metadata.w", "$.z"]


def test_iteration_files(root: Path) -> None:
    folder = ".rulebook-ralph/history"
    _put_iteration(root, "iteration-3.json")
    _put_iteration(root, "iteration-12.json")
    _put_iteration(root, "iteration-5.json", iterationNumber=5, phase="over", verdict={"reason": 3, "action": "stop"})
    _put_iteration(root, "iteration-6.json", iterationNumber=6, usage=None)
    _put_iteration(root, "iteration-007.json", iterationNumber=7)
    torn = _put_iteration(root, "iteration-9.json")
    torn.write_bytes(torn.read_bytes()[:-30])
    (root / folder / "iteration-10.json").mkdir()
    (root / folder / "notes.txt").write_text("mine")
    told = [line.removeprefix(f"{folder}/iteration-") for line in _told(root)]
    assert told[0] == "5.json:3: $.phase: expected one of executing, judged, settled, got 'over'"
    assert told[1].startswith("5.json:")
    assert told[1].endswith("$.verdict.reason: expected a string, got a whole number")
    assert told[2].startswith("6.json:")
    assert "$.usage: expected an object, got null" in told[2]
    assert told[3] == "007.json:1: $: should be named iteration-7.json"
    assert told[4].startswith("9.json:")
    assert told[5] == "10.json: cannot be read: Is a directory"
    assert told[6] == "12.json:2: $.iterationNumber: is 3, but the file is iteration-12.json"
    assert len(told) == 7


def test_links_in_the_state_folder_are_told_of_as_a_run_refuses_them(root: Path) -> None:
    (root / ".rulebook-ralph/history").rmdir()
    for name in ("history", "progress.txt"):
        (root / ".rulebook-ralph" / name).symlink_to(root)
    told = "is a symbolic link; Ralph keeps its state in plain files: replace it by the file"
    assert _told(root) == [f".rulebook-ralph/history: {told}", f".rulebook-ralph/progress.txt: cannot be read: {told}"]


def test_a_large_prd_with_a_fault_in_every_task_is_told_soon_and_briefly(root: Path) -> None:
    tasks = [{"id": f"t{n}", "title": "t", "status": "new", "description": "x" * 400} for n in range(2000)]
    _put(root, GOOD | {"tasks": tasks})
    started = time.process_time()
    problems = validate(root, resources.schema)
    assert time.process_time() - started < 5
    assert len(problems) == MOST_PROBLEMS


def test_keys_that_were_probably_meant_as_others_are_told() -> None:
    prd = prd_file.decode_prd(
        b'{"version": 1, "project": "p", "$schema": "x", "brnch": "b", "tasks": [{"id": "a", "title": "A",'
        b' "priorty": 2, "depends_on": [], "acceptance_criteria": [], "team": "core", "tool": 3}]}'
    )
    told = [(fault.path[-1], fault.message.rpartition(" ")[2]) for fault in near_misses(prd)]
    assert told == [
        ("brnch", "`branch`?"),
        ("priorty", "`priority`?"),
        ("depends_on", "`dependencies`?"),
        ("acceptance_criteria", "`acceptanceCriteria`?"),
    ]
