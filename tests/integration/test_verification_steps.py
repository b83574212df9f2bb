"""Verification steps in real shells, and through a whole run."""

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from rulebook_ralph.cancellation import Cancellation
from rulebook_ralph.checks import external, gates
from rulebook_ralph.checks.shell import Cancelled, ResultCache, Surroundings
from rulebook_ralph.core.criteria import External
from rulebook_ralph.core.evidence import CheckResult
from rulebook_ralph.core.settings import VerificationStep
from tests.harness import PROMISE, TESTS, make_project, task, wait_for

FAILS_FIRST = "test -e {0} || {{ touch {0}; echo 1 failed; exit 3; }}; echo 1 passed"


def step(name: str, command: str, **values: Any) -> VerificationStep:
    return VerificationStep(name=name, command=command, **values)


def run(root: Path, *steps: VerificationStep, **values: Any) -> tuple[CheckResult, ...]:
    defaults: dict[str, Any] = {
        "environment": dict(os.environ),
        "clean": lambda text: text.replace("hidden", "[redacted]"),
        "cancelled": threading.Event(),
        "started": lambda _: None,
        "ended": lambda _: None,
    }
    return gates.run_steps(steps, root=root, **(defaults | values))


def meets(name: str, others: str) -> str:
    """A command that ends only once the others run too."""
    return f"touch {name}.here; for other in {others}; do until test -e $other.here; do sleep 0.01; done; done; "


def test_all_at_once_and_one_report_in_order(tmp_path: Path) -> None:
    """Each waits for the others, so that in a row they would never end; the first to begin is the last to end."""
    told: list[str] = []
    steps = (
        step("a", meets("a", "b c") + "until test -e b.done; do sleep 0.01; done; echo a; echo a2 >&2"),
        step("b", meets("b", "a c") + "echo b $MINE; touch b.done; exit 4", env={"MINE": "hidden"}, timeout=10),
        step("c", meets("c", "a b") + "echo c", required=False),
    )
    results = run(
        tmp_path,
        *steps,
        parallel=True,
        skipped={"d": "no need"},
        started=lambda one: told.append(f"+{one.name}"),
        ended=lambda one: told.append(f"-{one.step}"),
    )
    assert [(one.step, one.passed, one.output) for one in results] == [
        ("a", True, "a\na2\n"),
        ("b", False, "b [redacted]\n"),
        ("c", True, "c\n"),
    ]
    assert told == ["+a", "+b", "+c", "-a", "-b", "-c"]


def test_in_a_row_it_ends_at_the_first_required_failure(tmp_path: Path) -> None:
    steps = (
        step("skipped", "touch skipped"),
        step("optional", "exit 1", required=False),
        step("excused", "exit 1"),
        step("required", "exit 1"),
        step("never", "touch never"),
    )
    results = run(tmp_path, *steps, excused=("excused",), skipped={"skipped": "no file"})
    assert [(one.step, one.ending) for one in results] == [
        ("skipped", "skipped"),
        ("optional", "failed"),
        ("excused", "failed"),
        ("required", "failed"),
    ]
    assert not list(tmp_path.iterdir())
    assert len(run(tmp_path, *steps, to_the_end=True)) == 5


@pytest.mark.parametrize("parallel", [False, True])
def test_a_cancelled_run_ends_all_of_them(tmp_path: Path, parallel: bool) -> None:
    cancelled = Cancellation()
    steps = [step(name, f"(sleep 60 & echo $! > {name}.pid; wait)") for name in ("a", "b", "c")]
    expected = 3 if parallel else 1

    def cancel() -> None:
        wait_for(lambda: sum(1 for file in tmp_path.glob("*.pid") if file.read_text().strip()) == expected, "steps")
        cancelled.set()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    started = time.monotonic()
    with pytest.raises(Cancelled):
        run(tmp_path, *steps, cancelled=cancelled, parallel=parallel)
    canceller.join()
    assert time.monotonic() - started < 15
    for file in tmp_path.glob("*.pid"):
        with pytest.raises(ProcessLookupError):
            os.kill(int(file.read_text()), 0)


def test_a_step_that_passes_when_it_is_tried_again_is_flaky(tmp_path: Path) -> None:
    cache = ResultCache()
    (once, never, fine) = run(
        tmp_path,
        step("once", FAILS_FIRST.format("seen"), retries=3),
        step("never", "echo x >> tries; exit 5", retries=2, required=False),
        step("fine", "echo fine", retries=2),
        tree="t",
        cache=cache,
    )
    assert (once.passed, once.flaky, once.attempts, once.exit_code, once.output) == (True, True, 2, 0, "1 passed\n")
    assert once.reason == "failed at first (exit code 3), passed at try 2"
    assert (never.passed, never.flaky, never.attempts) == (False, False, 3)
    assert never.reason == "exit code 5 (the last of 3 tries)"
    assert (tmp_path / "tries").read_text() == "x\n" * 3
    assert (fine.flaky, fine.attempts, fine.reason) == (False, 1, "")
    (tmp_path / "seen").unlink()
    around = Surroundings(tmp_path, dict(os.environ), str, threading.Event(), "t", cache)
    assert external.check(External(command=FAILS_FIRST.format("seen")), around, step="x").passed, "as it was last"
    assert not external.check(External(command=FAILS_FIRST.format("seen")), _on(around, "u"), step="x").passed


def _on(around: Surroundings, tree: str) -> Surroundings:
    return Surroundings(around.root, around.environment, around.clean, around.cancelled, tree, around.cache)


def test_the_same_command_in_two_steps_at_once_runs_once_for_a_tree(tmp_path: Path) -> None:
    same = "echo x >> ran"
    results = run(
        tmp_path, step("a", same), step("b", same), step("c", same), parallel=True, tree="t", cache=ResultCache()
    )
    assert [one.passed for one in results] == [True] * 3
    assert (tmp_path / "ran").read_text() == "x\n"


AGENT = """
case $RALPH_TASK in
  guide) echo "# More" >> docs/guide.md ;;
  moved) git mv src/a.py a.txt ;;
  code) echo "def second(): pass" >> src/b.py; mkdir -p tests
        echo "def test_second(): pass" > tests/test_b.py ;;
esac
sed "s/TASK/$RALPH_TASK/g" <<'END'
```ralph-report
{"status": "completed", "summary": "Did TASK. Created src/never.py for it.",
 "learnings": ["Sound is all.", "sound  is all"]}
```
END
"""


def test_through_a_run(tmp_path: Path) -> None:
    """What a task does not concern is skipped, the kind that is asked for is not; flaky steps land, and are told."""
    lint = {"name": "lint", "kind": "lint", "command": "echo ran >> $LOG; sh check.sh", "when": ["src/**"]}
    asked = {"name": "asked", "kind": "typecheck", "command": "sh check.sh", "when": ["nothing/"], "required": False}
    flaky = {"name": "flaky", "command": FAILS_FIRST.format("$LOG.$(git hash-object docs/guide.md)"), "retries": 1}
    log = {"env": {"LOG": str(tmp_path / "log")}}
    project = make_project(
        tmp_path,
        agent=AGENT + PROMISE,
        tasks=[
            task("guide", overrides={"stopCriteria": {"requireTypeCheck": True}}),
            task("moved", dependencies=("guide",)),
            task("code", dependencies=("moved",)),
        ],
        files={
            "app.txt": "sound\n",
            "check.sh": "grep -q sound app.txt",
            "docs/guide.md": "# Guide\n",
            "src/a.py": "def first():\n    pass\n",
            "src/b.py": "def other():\n    pass\n",
            "pyproject.toml": "[project]\nname = 'x'\nversion = '1'\ndependencies = ['click>=8']\n",
        },
        verification={
            "parallel": True,
            "steps": [TESTS, {**lint, **log}, asked, {**flaky, **log}],
        },
    )
    ran = project.ralph("run")
    assert ran.code == 0, ran.out + ran.err
    guide, moved, code = project.records
    assert endings(guide.checks) == ["tests passed", "lint skipped", "asked passed", "flaky passed at try 2 (flaky)"]
    assert endings(moved.checks)[1:3] == ["lint passed", "asked skipped"], "what moved away was changed, too"
    assert endings(code.checks)[1:] == ["lint passed", "asked skipped", "flaky passed"]
    assert guide.checks[1].reason == "no changed file matches src/**"
    assert (tmp_path / "log").read_text().count("ran") == 3, "on the base all run"
    assert "gate lint: skipped, no changed file matches src/**" in ran.err + ran.out
    assert "gate flaky: ok but flaky" in ran.err + ran.out
    progress = project.folder.progress.read_text()
    assert "gates: tests passed, lint skipped, asked passed, flaky passed at try 2 (flaky)\n" in progress
    assert progress.lower().count("sound is all") == 1, "what was learned is told once"

    done = project.task("code").completion_summary
    assert done is not None
    assert project.task("code").summary == "Did code."
    assert (done.files_created, done.files_modified) == (("tests/test_b.py",), ("src/b.py",))
    assert (done.exports_added, done.tests_added) == (("second",), ("tests/test_b.py::test_second",))
    assert "tests: sh check.sh" in done.verification_steps
    assert code.completion_summary is not None
    assert code.completion_summary.summary == "Did code."
    assert "- guide: Do guide. Did guide.\n  files modified: docs/guide.md\n" in moved.prompt
    shown = project.ralph("show", "1").out
    assert "lint: skipped: no changed file matches src/**" in shown
    assert project.ralph("validate").code == 0
    stable = json.loads(project.ralph("run", "--dry-run", "--json").out)["prompt"]
    assert stable == ""
    verified = project.ralph("verify").out
    assert "gate lint: ok" in verified + project.ralph("verify").err


def endings(checks: tuple[CheckResult, ...]) -> list[str]:
    return [f"{check.step} {check.ending}" for check in checks if check.method == "gate"]


def test_a_step_that_mends_the_tree_between_its_tries_is_judged_on_the_final_tree(tmp_path: Path) -> None:
    mends = "test -e work/mended || { mkdir -p work; echo mended > work/mended; exit 1; }; echo ran >> $LOG"
    step = {"name": "mends", "command": mends, "retries": 1, "env": {"LOG": str(tmp_path / "log")}}
    project = make_project(tmp_path, gates=[step, TESTS], attempts=1)
    ran = project.ralph("run")
    assert ran.code == 0, ran.out + ran.err
    assert endings(project.last.checks) == ["mends passed", "tests passed"], "as it is on the tree that lands"
    assert "work/mended" in project.tree(project.last.commit or "")
    assert (tmp_path / "log").read_text() == "ran\n" * 3, "on the base, at the second try, and on the final tree"


def test_the_facts_of_the_code_base_stand_in_the_first_prompt(tmp_path: Path) -> None:
    files = {"app.txt": "sound\n", "check.sh": "true", "src/a.py": "", "tests/test_a.py": "", "uv.lock": ""}
    manifest = {"pyproject.toml": "[project]\nname = 'x'\nversion = '1'\ndependencies = ['flask']\n"}
    project = make_project(tmp_path, files=files | manifest)
    prompt = json.loads(project.ralph("run", "--dry-run", "--json").out)["prompt"]
    assert (
        "# The code base\n- Languages: Python, Shell\n- Package manager: uv\n- Frameworks and tools: Flask\n"
        "- Folders: src/, tests/\n- Tests in: tests/\n\n# The task list\n"
    ) in prompt
