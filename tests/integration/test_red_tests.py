"""Tests that are red on the base, a green lint gate, and tasks that mend one test each, or none."""

import sys
from pathlib import Path

from tests.harness import PROMISE, make_project, task

TESTS = "import unittest\n\nimport calc\n\n\nclass TestCalc(unittest.TestCase):\n" + "".join(
    f"    def test_{name}(self):\n        self.assertEqual(calc.{name}(2, 1), {value})\n\n"
    for name, value in (("add", 3), ("sub", 1), ("mul", 2), ("div", 2), ("mod", 0))
)
GATES = [
    {"name": "tests", "kind": "test", "command": f"{sys.executable} -B -m unittest -q"},
    {"name": "lint", "kind": "lint", "command": "true"},
]


def test_each_task_mends_a_test_and_one_that_mends_none_is_refused(tmp_path: Path) -> None:
    project = make_project(
        tmp_path,
        files={"test_calc.py": TESTS, "calc.py": ""},
        gates=GATES,
        attempts=1,
        tasks=[task("add"), task("sub"), task("note"), task("mul")],
        agent="case $RALPH_TASK in add) op=+ ;; sub) op=- ;; mul) op=\\* ;; *) echo hi > note.txt ;; esac\n"
        'test -z "$op" || echo "def $RALPH_TASK(a, b): return a $op b" >> calc.py\n' + PROMISE,
    )
    assert project.ralph("run", "--no-retry-blocked").code == 3
    assert {name: project.task(name).status for name in ("add", "sub", "note", "mul")} == {
        "add": "completed",
        "sub": "completed",
        "note": "blocked",
        "mul": "completed",
    }
    (note,) = [record for record in project.records if record.task_id == "note"]
    assert note.failing_on_base == {"tests": 3}
    assert "fewer than 3 tests fail" in note.feedback
