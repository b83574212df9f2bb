"""Tests that are red on the base, a green lint gate, and tasks that mend one test each, or none."""

import sys
from pathlib import Path
from typing import Any

from rulebook_ralph.core.model import Task
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


OF_ADD, OF_SUB = (
    f"import unittest\n\nimport calc\n\n\nclass Test(unittest.TestCase):\n    def test_{name}(self):\n"
    f"        self.assertEqual(calc.{name}(3, 1), {value})\n"
    for name, value in (("add", 4), ("sub", 2))
)
FILES = {
    "calc.py": "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    return b + a\n",
    "test_add.py": OF_ADD,
    "test_sub.py": OF_SUB,
}
LATER = "import atexit, pathlib\n_f = pathlib.Path('test_sub.py')\n_s = _f.read_text()\n"
KINDS = {
    "expects": "sed -i.bak 's/, 2)/, 4)/' test_sub.py; rm test_sub.py.bak; echo '# x' >> calc.py\n",
    "writes": f"cat >> calc.py <<'X'\n{LATER}_f.write_text(_s.replace(', 2)', ', 4)'))\n"
    "atexit.register(_f.write_text, _s)\nX\n",
    "honest": "sed -i.bak 's/return b + a/return a - b/' calc.py; rm calc.py.bak\n"
    "sed -i.bak 's/calc.sub(3, 1)/calc.sub(a=3, b=1)/' test_sub.py; rm test_sub.py.bak\n",
}


def test_red_tests_are_mended_by_the_program_not_by_what_is_done_to_them(tmp_path: Path) -> None:
    project = make_project(
        tmp_path,
        files=FILES,
        verification={"clean": True, "steps": GATES[:1]},
        attempts=1,
        tasks=[task(kind) for kind in KINDS],
        agent="".join(f"if test $RALPH_TASK = {kind}; then\n{script}fi\n" for kind, script in KINDS.items()) + PROMISE,
    )
    project.environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    project.ralph("run", "--no-retry-blocked")
    told = {record.task_id: record.verdict.reason if record.verdict else "" for record in project.records}
    assert "with the tests as they were before the work, 'tests' is as red as it was" in told["expects"]
    assert "tests were changed while they were run: test_sub.py" in told["writes"]
    assert [name for name in KINDS if project.task(name).status == "completed"] == ["honest"], told


def criterion(kind: str, test: str = "test_sub") -> Task:
    command = f"{sys.executable} -B -m unittest -q {test}"
    verification: Any = {"verification_method": "external", "verification_config": {"command": command}}
    return task(kind, completion={"coder": {"promise": "IMPLEMENTATION_COMPLETE", **verification}})


OF_CRITERIA = {
    "expects": KINDS["expects"],
    "keeps": f"cat >> calc.py <<'X'\n{LATER}if ', 2)' in _s:\n    _f.write_text(_s.replace(', 2)', ', 4)'))\nX\n",
    "adds": "printf '\\n    def test_zero(self):\\n        self.assertEqual(calc.add(0, 0), 0)\\n' >> test_add.py\n"
    "sed -i.bak 's/3, 1/1, 3/' test_add.py; rm test_add.py.bak\n",
    "honest": KINDS["honest"].partition("\n")[0]
    + "\nmkdir more; touch more/__init__.py; git mv test_sub.py more/test_minus.py\n"
    "printf 'from more.test_minus import Test\\n' > test_sub.py\n",
}


def test_criteria_that_were_red_are_met_by_the_program_too(tmp_path: Path) -> None:
    project = make_project(
        tmp_path,
        files=FILES,
        verification={
            "clean": True,
            "steps": [{"name": "tests", "kind": "test", "command": f"{sys.executable} -B -m unittest -q test_add"}],
        },
        attempts=1,
        tasks=[criterion(kind, "test_add.Test.test_zero" if kind == "adds" else "test_sub") for kind in OF_CRITERIA],
        agent="".join(f"if test $RALPH_TASK = {kind}; then\n{script}fi\n" for kind, script in OF_CRITERIA.items())
        + PROMISE,
    )
    project.environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    project.ralph("run", "--no-retry-blocked", "--trust-commands")
    told = {record.task_id: record.verdict.reason if record.verdict else "" for record in project.records}
    assert told["expects"] == "with the tests as they were before the work, 'coder' does not hold (exit code 1)"
    assert "with the tests as they were before the work, " in told["keeps"]
    assert [name for name in OF_CRITERIA if project.task(name).status == "completed"] == ["adds", "honest"], told


def test_gates_may_write_to_the_tests_that_they_write_to_on_the_base(tmp_path: Path) -> None:
    project = make_project(
        tmp_path,
        files={"calc.py": "def add(a, b):\n    return a + b\n", "test_add.py": OF_ADD, "test_sub.py": OF_SUB},
        verification={
            "clean": True,
            "steps": [
                {"name": "way", "command": "chmod -R g+w . && touch test_add.py test_new*.py"},
                {"name": "tests", "kind": "test", "command": f"{sys.executable} -B -m unittest -q test_add"},
            ],
        },
        attempts=1,
        tasks=[task("honest"), task("writes")],
        agent="if test $RALPH_TASK = honest; then echo '# x' >> calc.py; cp test_add.py test_new.py\n"
        f"else printf '%s\\n' \"import pathlib\" \"pathlib.Path('test_late.py').touch()\" >> calc.py; fi\n{PROMISE}",
    )
    project.environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    assert project.ralph("run", "--no-retry-blocked").code == 0, project.last.feedback
    assert project.last.written_on_base == ("test_add.py", "test_sub.py")
