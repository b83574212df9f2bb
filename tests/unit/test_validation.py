import json
import time
from pathlib import Path
from typing import Any

import pytest

from rulebook_ralph.core.evidence import Iteration
from rulebook_ralph.core.problem import Problem
from rulebook_ralph.state import codec, progress
from rulebook_ralph.state.schema_check import faults_against
from rulebook_ralph.state.validation import MOST_PROBLEMS, validate

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
    iteration = Iteration(
        iteration_number=3,
        phase="settled",
        task_id="a",
        stage="coder",
        attempt=1,
        agent="claude",
        timestamp="2026-01-01T00:00:00Z",
        started_at="2026-01-01T00:00:00Z",
        base_commit="0" * 40,
    )
    document = json.loads(codec.encode_iteration(iteration)) | changes
    file = root / ".rulebook-ralph/history" / name
    file.write_text(json.dumps(document, indent=2), "utf-8")
    return file


def _told(root: Path, *, thorough: bool = False) -> list[str]:
    return [str(problem) for problem in validate(root, thorough=thorough)]


@pytest.mark.parametrize("thorough", [False, True])
def test_a_good_project_has_no_problem(root: Path, *, thorough: bool) -> None:
    _put_iteration(root, "iteration-3.json", ofAnotherTool=1)
    assert _told(root, thorough=thorough) == []


@pytest.mark.parametrize("thorough", [False, True])
def test_what_ralph_writes_itself_is_valid(root: Path, *, thorough: bool) -> None:
    _put(root, codec.encode_prd(codec.decode_prd(json.dumps(GOOD).encode())))
    assert _told(root, thorough=thorough) == []


def test_every_problem_of_a_prd_is_told_with_its_line_and_path(root: Path) -> None:
    _put(
        root,
        b"""{
  "version": 1,
  "project": "p",
  "tasks": [
    {"id": "a", "title": 5, "status": "done", "estimatedComplexity": "big"},
    {"id": "../x", "title": "t", "title": "u"},
    {"title": "no id"},
    7,
    {"id": "A", "title": "t", "priority": 0,
     "dependencies": ["ghost"]},
    {"id": "c", "title": "t", "dependencies": ["d"]},
    {"id": "d", "title": "t", "dependencies": ["c"], "priority": "1"}
  ],
  "totals": {"tokens": "x"}
}
""",
    )
    told = _told(root)
    for expected in (
        "5: $.tasks[0].title: expected string, got 5",
        "5: $.tasks[0].status: expected one of pending, in_iteration, completed, blocked, got 'done'",
        "5: $.tasks[0].estimatedComplexity: expected one of low, medium, high, very-high, null, got 'big'",
        "6: $.tasks[1].title: is there twice; only the last one counts",
        "6: $.tasks[1].id: ",
        "7: $.tasks[2]: `id` is missing",
        "8: $.tasks[3]: expected object, got 7",
        "9: $.tasks[4].id: 'A' is used already by tasks[0]; ids differ by more than case",
        "9: $.tasks[4].priority: expected 1 (the highest) or more, got 0",
        "10: $.tasks[4].dependencies[0]: there is no task 'ghost'",
        "11: $.tasks[5].dependencies: dependency cycle: c -> d -> c",
        "12: $.tasks[6].priority: expected integer, got '1'",
        "14: $.totals.tokens: expected integer, got 'x'",
    ):
        assert sum(line.startswith(f"{PRD}:{expected}") for line in told) == 1, (expected, told)
    assert len(told) == 13
    assert [line.split(":")[1] for line in told] == sorted((line.split(":")[1] for line in told), key=int)


CRITERIA = b"""{
  "version": 1,
  "project": "p",
  "tasks": [
    {"id": "a", "title": "A", "completion": {
      "coder": {"promis": "X"},
      "qa": {"verification_method": "external",
             "verification_config": {"command": ""}}
    }},
    {"id": "b", "title": "B", "completion": {"coder": 3}, "overrides": {
      "stop_criteria": {
        "success_regex": "("}}},
    {"id": "c", "title": "C", "completion": [], "overrides": {"stages": ["qa", "coder"]}}
  ]
}
"""


@pytest.mark.parametrize("thorough", [False, True])
def test_each_fault_of_criteria_is_told_once_with_its_line(root: Path, *, thorough: bool) -> None:
    _put(root, CRITERIA)
    assert [line.removeprefix(f"{PRD}:") for line in _told(root, thorough=thorough)] == [
        "6: $.tasks[0].completion.coder.promis: unknown key; did you mean `promise`?",
        "8: $.tasks[0].completion.qa.verification_config.command: must not be empty",
        "10: $.tasks[1].completion.coder: expected an object, got a whole number",
        "12: $.tasks[1].overrides.stop_criteria.success_regex: is no regular expression: missing ) at position 1",
        "13: $.tasks[2].completion: expected object, got an array",
        "13: $.tasks[2].overrides.stages: each stage once, in the order coder, reviewer, tester, qa",
    ]


SPEC_CRITERIA: dict[str, Any] = {
    "coder": {"promise": "X", "verification_method": "external", "verification_config": {"command": "x", "timeout": 3}},
    "reviewer": {"verificationMethod": "semantic", "verificationConfig": {"check_for": "{{acceptance_criteria}}"}},
    "tester": {"verificationMethod": "string_match", "maxIterations": None},
    "qa": {
        "verification_method": "multi_stage",
        "verificationConfig": {
            "require_all": True,
            "stages": [{"name": "a", "method": "external", "config": {"command": "x", "success_exit_code": 1}}],
        },
    },
}


def test_criteria_in_either_spelling_are_good_for_the_schema_too(root: Path) -> None:
    overrides = {"stop_criteria": {"require_lint": True}, "rules": ["x"], "stages": ["coder", "qa"]}
    task = {"id": "a", "title": "A", "completion": SPEC_CRITERIA, "overrides": overrides}
    _put(root, GOOD | {"tasks": [task]})
    assert _told(root, thorough=True) == []
    _put(root, codec.encode_prd(codec.decode_prd(json.dumps(GOOD | {"tasks": [task]}).encode())))
    assert _told(root, thorough=True) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"coder": {"verification_method": "external", "verification_config": {"comand": "x"}}},
        {"coder": {"verificationMethod": "external", "verificationConfig": {}}},
        {"coder": {"verificationMethod": "string_match", "verification_config": {"command": "x"}}},
        {"coder": {"verificationMethod": "semantic", "verificationConfig": {"check_for": [3]}}},
        {"qa": {"verification_method": "multi_stage", "verification_config": {"stages": [{"name": "a"}]}}},
        {
            "qa": {
                "verificationMethod": "multi_stage",
                "verificationConfig": {"stages": [{"name": "a", "method": "external", "config": {"x": 1}}]},
            }
        },
    ],
)
def test_the_schema_itself_knows_the_settings_of_each_method(wrong: dict[str, Any]) -> None:
    assert [*faults_against({"id": "a", "title": "A", "completion": wrong}, "prd", "task")]
    assert not [*faults_against({"id": "a", "title": "A", "completion": SPEC_CRITERIA}, "prd", "task")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", f"{PRD}: is empty; restore it from git"),
        (b'{"version": 1,\n "tasks": [}', f"{PRD}:2: expecting value (column 12)"),
        (b'{"a":\xff}', f"{PRD}:1: is not UTF-8 text (byte 5)"),
        (b"[]", f"{PRD}:1: $: expected object, got an array"),
        (b'{"version": 9, "tasks": 1}', f"{PRD}:1: $.version: version 9 is of a format newer than 1"),
        (b'{"version": 0, "project": "p"}', f"{PRD}:1: $.version: expected 1, got 0"),
        (b'{"version": 1, "project": " "}', f"{PRD}:1: $.project: must not be empty"),
        (b'{"version": 1, "project": "p", "tasks": null}', f"{PRD}:1: $.tasks: expected array, got None"),
        (b'{"version": 1, "project": "p", "tasks": ' + b"[" * 9999, f"{PRD}:1: is nested too deeply"),
        (b'{"version": 1, "project": "p", "$extra": 3, "x": 1' + b"0" * 5000 + b"}", f"{PRD}:1: "),
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
    assert _told(root) == [f"{PRD}: is no regular file"]


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
    assert told[1].endswith("$.verdict.reason: expected string, got 3")
    assert told[2].startswith("6.json:")
    assert "$.usage: expected object, got None" in told[2]
    assert told[3] == "007.json:1: $: should be named iteration-7.json"
    assert told[4].startswith("9.json:")
    assert told[5] == "10.json: is no regular file"
    assert told[6] == "12.json:2: $.iterationNumber: is 3, but the file is iteration-12.json"
    assert len(told) == 7


def test_links_in_the_state_folder_are_told_of_as_a_run_refuses_them(root: Path) -> None:
    (root / ".rulebook-ralph/history").rmdir()
    for name in ("history", "progress.txt"):
        (root / ".rulebook-ralph" / name).symlink_to(root)
    told = "is a symbolic link; Ralph keeps its state in plain files: replace it by the file"
    assert [str(problem) for problem in validate(root, others=[progress.problems])] == [
        f".rulebook-ralph/history: {told}",
        f".rulebook-ralph/progress.txt: {told}",
    ]


def test_only_a_thorough_look_minds_badly_written_times(root: Path) -> None:
    _put(root, GOOD | {"createdAt": "yesterday"})
    assert _told(root) == []
    (told,) = _told(root, thorough=True)
    assert "$.createdAt: 'yesterday' does not match" in told


def test_others_are_asked_about_the_files_they_know(root: Path) -> None:
    found = Problem("progress.txt", 4, "", "an entry breaks off")
    assert validate(root, others=[lambda where: [found] if where == root else []]) == (found,)


def test_a_large_prd_with_a_fault_in_every_task_is_told_soon_and_briefly(root: Path) -> None:
    tasks = [{"id": f"t{n}", "title": "t", "status": "new", "description": "x" * 400} for n in range(2000)]
    _put(root, GOOD | {"tasks": tasks})
    started = time.process_time()
    problems = validate(root)
    assert time.process_time() - started < 5
    assert len(problems) == MOST_PROBLEMS + 1
    assert str(problems[-1]) == f"{PRD}: has 1000 more problems"
