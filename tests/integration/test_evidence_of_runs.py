"""What evidence costs, what survives a call that failed, and work that was there already: in whole runs."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests import lineup
from tests.harness import PROMISE, Project, make_project, task
from tests.integration.test_dishonest_python import BREAK, IN_UNITTEST, RED_IN_UNITTEST, UNITTEST, U
from tests.lineup import CLAIM

MEND = "sed -i 's/return b + a/return a - b/' calc.py\n"
WITH_TEST = (
    MEND
    + f"printf '\\n    def test_sub(self):\\n        from calc import sub\\n\\n        self.assertEqual(sub(3, 1), 2)\\n' >> {U}\n"
)


def counting(folder: Path, gate: dict[str, Any] = UNITTEST) -> dict[str, Any]:
    """The gate, which leaves a mark beside the repository each time it is run."""
    return {**gate, "command": f"echo run >> '{folder}/beside/gates'; {gate['command']}"}


def runs(project: Project) -> int:
    marks = project.beside / "gates"
    return len(marks.read_text().splitlines()) if marks.exists() else 0


def made(folder: Path, agent: str, *, files: Any = IN_UNITTEST, answer: str = "yes", **settings: Any) -> Project:
    settings = {**lineup.judged_by_script(folder, answer, "calc.py"), **settings}
    return make_project(folder, files=files, gates=[counting(folder)], agent=agent, **{"attempts": 3, **settings})


# Cost


@pytest.mark.parametrize(
    ("what", "script", "most"),
    [
        ("no check file is touched: the base, and the new code", "echo '# more' >> calc.py\n", 1),
        ("a check file is touched: the base's checks and the base's code too", WITH_TEST, 4),
        ("only a document", "echo '# Calc' > README.md\n", 1),
    ],
)
def test_gates_are_run_as_often_as_they_tell_something(tmp_path: Path, what: str, script: str, most: int) -> None:
    """The baseline and the canary are the run's; a red that decides is run once more, alone."""
    project = made(tmp_path, 'cp "$BESIDE/gates" "$BESIDE/before"\n' + script + PROMISE)
    assert project.ralph("run").code == 0, project.last.feedback
    before = len((project.beside / "before").read_text().splitlines())
    assert before <= 1, "the baseline"
    assert runs(project) - before - canaries(project) <= most, what
    at_first = runs(project)
    project.tasks(task("two"))
    project.agent('cp "$BESIDE/gates" "$BESIDE/before"\necho "# $RALPH_TASK" >> calc.py\n' + PROMISE)
    assert project.ralph("run").code == 0
    assert runs(project) - at_first <= 2, "the canary is remembered; a landing's run is the next one's"


def canaries(project: Project) -> int:
    """How often it was run on the base with product or checks emptied."""
    return 2


def test_equal_trees_are_run_once(tmp_path: Path) -> None:
    """Five tasks that change nothing that gates could see otherwise: one run each, none on a base that is known."""
    agent = 'echo "# $RALPH_TASK" >> calc.py\n' + PROMISE
    project = made(tmp_path, agent, tasks=[task(f"t{number}") for number in range(5)])
    assert project.ralph("run").code == 0
    assert runs(project) <= 1 + 5 + canaries(project)


# What survives


FAULTS = {
    "silent": "exit 0",
    "crashed": "echo oh no >&2; exit 9",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_feedback_survives_a_call_that_failed(tmp_path: Path, fault: str) -> None:
    """The first attempt breaks a test; the call after it fails; the next one is still told which test, and how."""
    agent = f"""\
cat > "$BESIDE/prompt-$(ls "$BESIDE" | grep -c prompt)"
if mkdir "$BESIDE/once" 2>/dev/null; then
{BREAK}{CLAIM}exit 0
fi
if mkdir "$BESIDE/twice" 2>/dev/null; then {FAULTS[fault]}; fi
sed -i 's/return a - b/return a + b/' calc.py; echo '# mended' >> calc.py
{PROMISE}"""
    project = made(tmp_path, agent)
    assert project.ralph("run").code == 0, project.last.feedback
    assert len(project.records) == 3
    last = (project.beside / "prompt-2").read_text()
    assert "TestCalc.test_add" in last, project.records[1].feedback
    assert "AssertionError" in last


def test_while_a_suite_is_red_it_is_told_which_test_of_before_is_broken(tmp_path: Path) -> None:
    project = made(tmp_path, BREAK + CLAIM, files={**IN_UNITTEST, **RED_IN_UNITTEST}, attempts=1)
    assert project.ralph("run").code == 3
    told = project.last.feedback
    assert "TestCalc.test_add" in told
    assert "TestCalc.test_double" in told
    assert "2 more fail as they did before" in told
    assert "AssertionError" in told
    listed = told.partition("Output:")[0]
    assert "test_mul" not in listed
    assert "test_sub" not in listed


# What was there already


def test_work_that_was_there_is_completed_by_a_criterions_command(tmp_path: Path) -> None:
    """Nobody is asked and nobody paid again; a promise alone would not do."""
    check = {"verificationMethod": "external", "verificationConfig": {"command": "grep -q 'return a + b' calc.py"}}
    project = made(tmp_path, CLAIM, tasks=[task(completion={"coder": check})], answer="no")
    assert project.ralph("run").code == 0, project.last.feedback
    assert project.task().status == "completed"
    assert len(project.records) == 1
    assert lineup.asked(project) == []
    assert project.task_commits() == {}
    assert "already" in " ".join(project.last.log)


def test_work_that_was_there_is_completed_by_a_yes(tmp_path: Path) -> None:
    project = made(tmp_path, CLAIM, tasks=[task(acceptance_criteria=("add adds",))])
    assert project.ralph("run").code == 0, project.last.feedback
    assert project.task().status == "completed"
    assert len(project.records) == 1
    assert [item["question"].rpartition(": ")[2] for each in lineup.asked(project) for item in each["items"]] == [
        "add adds"
    ]


def test_work_that_is_not_there_is_no_promise_away(tmp_path: Path) -> None:
    check = {"verificationMethod": "external", "verificationConfig": {"command": "grep -q 'def mul' calc.py"}}
    project = made(tmp_path, CLAIM, tasks=[task(completion={"coder": check})], attempts=2)
    assert project.ralph("run", "--no-retry-blocked").code == 3
    assert lineup.asked(project) == []
    assert project.task().status == "blocked"


# A person


def test_where_nobody_can_be_asked_the_work_waits_for_approval_and_the_run_goes_on(tmp_path: Path) -> None:
    tasks = [task("one"), task("needs", dependencies=("one",)), task("two")]
    project = make_project(
        tmp_path,
        files=IN_UNITTEST,
        gates=[UNITTEST],
        tasks=tasks,
        agent="test $RALPH_TASK = two && { "
        + WITH_TEST.replace("\n", "; ", 1).strip()
        + "; } || echo '# note' > note.md\n"
        + PROMISE,
        integrity={"changed": "approve", "unproven": "approve"},
    )
    ran = project.ralph("run", "--no-retry-blocked")
    assert ran.code == 3, ran.out
    assert [project.task(each.id).status for each in tasks] == ["blocked", "pending", "completed"], ran.out
    assert "needs approval" in (project.task("one").blocked_reason or "")
    assert "ralph approve" in ran.out
    assert re.search(r"one +Do one +blocked *\n", ran.out), "as in status, no attempt is counted"
    shown = project.ralph("approve", "--list")
    assert "one" in shown.out
    approved = project.ralph("approve", "one")
    assert approved.code == 0, approved.err
    assert project.task("one").status == "completed"
    assert "note.md" in project.tree()
    assert project.tree() == {**project.tree("main"), **project.tree()}
