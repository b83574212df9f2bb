"""Gates run on trees, in clones of Ralph's own: what stands there, what is remembered, what a red or slow one gives."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread, Timer
from typing import Any

import pytest

from rulebook_ralph.config.settings import VerificationStep
from rulebook_ralph.errors import RalphError
from rulebook_ralph.process.box import NoBox, probe_box
from rulebook_ralph.report.events import GateEnded, Notice
from rulebook_ralph.tasks.criteria import External
from rulebook_ralph.verify.workspace import Cancelled
from tests.judging import VERBOSE, YES, Court

Made = Callable[..., Court]
FILES = {"a.txt": "one\n", ".gitignore": "built\n"}


def step(command: str, name: str = "tests", **more: Any) -> VerificationStep:
    return VerificationStep(name=name, command=command, kind=more.pop("kind", "test"), **more)


@pytest.fixture
def court(tmp_path: Path) -> Iterator[Made]:
    made: list[Court] = []

    def make(*gates: VerificationStep, files: dict[str, str] = FILES, **settings: Any) -> Court:
        made.append(Court(tmp_path / f"p{len(made)}", files, gates=gates, **settings))
        return made[-1]

    yield make
    for each in made:
        each.clones.close()


def test_each_tree_stands_by_itself_and_is_run_once(court: Made) -> None:
    judged = court(step("cat *.txt; ls"))
    changed = judged.project.tree({"a.txt": "two\n", "new.txt": "x\n"})
    for tree, expected in (
        (judged.base, "one\na.txt\n"),
        (changed, "two\nx\na.txt\nnew.txt\n"),
        (judged.base, "one\na.txt\n"),
    ):
        (run,) = judged.runner.run(tree)
        assert run.result.output == expected
    assert judged.runs() == 2
    assert judged.project.content(judged.base) == {name: text.strip() for name, text in FILES.items()}


def test_a_commit_and_its_tree_are_the_same_to_gates_and_so_is_the_state(court: Made) -> None:
    judged = court(step("true"))
    judged.runner.run(judged.base)
    judged.runner.run(judged.repository.tree_of(judged.base))
    judged.runner.run(judged.project.tree({".rulebook-ralph/prd.json": "{}"}))
    assert judged.runs() == 1


def test_what_a_gate_builds_the_next_one_finds_and_what_it_spoils_not(court: Made) -> None:
    build = step("echo built > built; echo spoilt > a.txt; echo x > left.txt", "build", kind="build")
    judged = court(build, step("cat built a.txt; ls left.txt"))
    (_, run) = judged.runner.run(judged.base)
    assert run.result.output.splitlines()[:2] == ["built", "one"]
    assert run.result.failed
    assert "built" in judged.runner.again(judged.base, judged.config.verification.steps[1]).result.output


def test_no_bytecode_is_left_to_be_believed(court: Made) -> None:
    """A file of the same second and size is another file."""
    tests = "import unittest\nimport calc\n\n\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(calc.one(), 1)\n"
    judged = court(VERBOSE, files={"calc.py": "def one(): return 1\n", "test_calc.py": tests})
    for value in (1, 2, 1, 3):
        (run,) = judged.runner.run(judged.project.tree({"calc.py": f"def one(): return {value}\n#{value}\n"}))
        assert run.result.passed == (value == 1)


def test_results_tell_all(court: Made) -> None:
    judged = court(
        step("echo out; echo err >&2; exit 3", "red"),
        step("sleep 5", "slow", timeout=0.2),
        step("pwd; echo $WHAT", "there", working_dir="sub", env={"WHAT": "that"}),
        step("true", "nowhere", working_dir="none"),
        step("true", "outside", working_dir="../.."),
        files={"sub/x": ""},
    )
    red, slow, there, nowhere, outside = (run.result for run in judged.runner.run(judged.base))
    assert (red.exit_code, red.reason, red.output) == (3, "exit code 3", "out\nerr\n")
    assert (slow.exit_code, slow.reason) == (None, "did not end within 0.2 s")
    assert there.output.splitlines()[0].endswith("/sub")
    assert there.output.splitlines()[1] == "that"
    assert nowhere.reason.startswith("could not start")
    assert "leads out of the repository" in outside.reason


def test_retries(court: Made, tmp_path: Path) -> None:
    count = f"echo x >> {tmp_path}/n; test $(wc -l < {tmp_path}/n) -ge"
    judged = court(step(f"{count} 3", retries=2))
    (run,) = judged.runner.run(judged.base)
    assert (run.result.passed, run.result.flaky, run.result.attempts) == (True, True, 3)
    assert run.result.reason == "failed at first (exit code 1), passed at try 3"


def test_gates_at_once(court: Made) -> None:
    """Each waits for the other."""
    judged = court(
        *(
            step(
                f"touch /tmp/$$; touch built-{n}; while ! test -e built-{1 - n}; do sleep 0.01; done",
                f"g{n}",
                timeout=20,
            )
            for n in (0, 1)
        ),
        verification={"parallel": True},
    )
    assert [run.result.passed for run in judged.runner.run(judged.base)] == [True, True]


def test_when(court: Made) -> None:
    docs = step("true", "docs", kind="lint", when=("docs/",))
    judged = court(docs, step("true"))
    judgement = judged.judge({"b.txt": "x\n"}, YES())
    assert [(result.step, result.skipped) for result in judgement.checks] == [("docs", True), ("tests", False)]
    judgement = judged.judge({"docs/b.txt": "x\n"}, YES())
    assert [(result.step, result.skipped) for result in judgement.checks] == [("docs", False), ("tests", False)]


def test_cancelled(court: Made) -> None:
    judged = court(step("sleep 30"))
    Timer(0.3, judged.cancelled.set).start()
    with pytest.raises(Cancelled):
        judged.runner.run(judged.base)


def test_many_threads_share_one_clone(court: Made) -> None:
    judged = court(step("mkdir own && sleep 0.05 && cat a.txt"))
    trees = [judged.project.tree({"a.txt": f"{n}\n"}) for n in range(4)]
    told: dict[int, str] = {}

    def run(n: int) -> None:
        told[n] = judged.runner.run(trees[n])[0].result.output

    threads = [Thread(target=run, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == {n: f"{n}\n" for n in range(4)}
    assert judged.clones.names("gate-") == ("gate-1",)


def test_a_command_is_remembered_with_the_tree(court: Made, tmp_path: Path) -> None:
    judged = court()
    one = External(command=f"echo x >> {tmp_path}/n; cat a.txt", output_contains="one")
    for _ in range(2):
        assert judged.runner.command(judged.base, one, step="coder").passed
    assert (tmp_path / "n").read_text() == "x\n"
    other = judged.project.tree({"a.txt": "two\n"})
    found = judged.runner.command(other, one, step="coder")
    assert (found.passed, found.reason) == (False, "the output does not contain 'one'")


def test_setup_runs_once_and_again_where_manifests_differ(court: Made, tmp_path: Path) -> None:
    judged = court(
        step("cat built"),
        setup=f"echo x >> {tmp_path}/n; cp package-lock.json built",
        files={**FILES, "package-lock.json": "1"},
    )
    for changed, expected in (
        ({}, "1"),
        ({"a.txt": "x"}, "1"),
        ({"package-lock.json": "2"}, "2"),
        ({"a.txt": "y"}, "1"),
    ):
        (run,) = judged.runner.run(judged.project.tree(changed))
        assert run.result.output.strip() == expected
    assert (tmp_path / "n").read_text() == "x\n" * 3


def test_a_setup_that_fails(court: Made) -> None:
    """On the base it ends the run; with the work's own manifests it is the work's fault."""
    judged = court(
        step("true"),
        setup="cat package-lock.json; ! grep -q bad package-lock.json",
        files={**FILES, "package-lock.json": "good"},
    )
    judgement = judged.judge({"package-lock.json": "bad thing"}, YES())
    assert judgement.verdict.hook == "gates"
    assert "workspace.setup failed" in judgement.verdict.reason
    assert "bad thing" in judgement.verdict.feedback
    broken = court(step("true"), setup="echo no network; false")
    with pytest.raises(RalphError, match="setup failed"):
        broken.runner.red_required(broken.base)


def test_what_is_red(court: Made) -> None:
    judged = court(
        step("echo '1 failed, 2 passed in 0.1s'; false"),
        step("false", "lint", kind="lint", required=False),
        step("exit 7", "build", kind="build"),
    )
    assert judged.runner.red_required(judged.base) == ("tests: 1 failing", "build: exit code 7")
    assert [result.step for result in judged.runner.red_on(judged.base)] == ["tests", "lint", "build"]


@pytest.mark.skipif(isinstance(probe_box(os.environ), NoBox), reason="no sandbox works here (bwrap)")
def test_in_the_sandbox_gates_see_their_clone_at_the_repositorys_path(court: Made) -> None:
    """An absolute path into the repository leads to what is judged; the real one is not there."""
    code = "import pathlib, sys; print(pathlib.Path(sys.argv[1]).read_text())"
    judged = court(sandbox="auto")
    root = judged.repository.root
    gate = step(
        f"pwd; {sys.executable} -c '{code}' {root}/a.txt; ls -a {root}/.rulebook-ralph {root}/untracked; echo spoilt > {root}/a.txt"
    )
    (root / "untracked").write_text("mine")
    (run,) = judged.runner.run(judged.project.tree({"a.txt": "judged\n"}), [gate])
    assert run.result.output.splitlines()[:2] == [str(root), "judged"]
    assert run.result.output.count("No such file") == 2
    assert (root / "a.txt").read_text() == "one\n"


def test_two_gates_with_one_command_are_two_gates(court: Made) -> None:
    """One that is required does not hide behind one that is not."""
    same = "grep -q one a.txt"
    judged = court(step(same, "soft", kind="lint", required=False), step(same, "hard", kind="lint"))
    verdict = judged.judge({"a.txt": "two\n"}, YES()).verdict
    assert (verdict.hook, verdict.reason) == ("gates", "gate hard failed: exit code 1")


def test_a_gate_that_was_red_before_says_so(court: Made) -> None:
    judged = court(step("true"), step("echo bad style; exit 1", "lint", kind="lint"))
    judgement = judged.judge({"b.txt": "x\n"}, YES())
    assert judgement.verdict.action == "complete"
    (lint,) = [result for result in judgement.checks if result.step == "lint"]
    assert lint.reason == "exit code 1; red before, not counted"
    ended = [event.result.reason for event in judged.seen if isinstance(event, GateEnded) and event.result.failed]
    assert ended == ["exit code 1", "exit code 1; red on the base too"]


def test_what_the_canary_finds_is_not_the_base(court: Made) -> None:
    """The base without its code is red, and must be: the base itself is not."""
    judged = court(step("grep -q one a.txt"))
    runner, project = judged.runner, judged.project
    runner.run(judged.base, on_base=True)
    runner.on(judged.base).run(project.tree({"a.txt": ""}), on_base=True, about="the base without its code")
    runner.run(project.tree({"a.txt": "two\n"}))
    ended = [event.result.reason for event in judged.seen if isinstance(event, GateEnded) and event.result.failed]
    assert ended == ["exit code 1", "exit code 1"]


@pytest.mark.parametrize("command", ["sh not/there.sh", "sleep 9"])
def test_a_gate_that_cannot_work_in_the_clone_is_told_at_once(court: Made, command: str) -> None:
    judged = court(step(command, timeout=0.5), step("false", "lint", kind="lint"))
    for _ in range(2):
        judged.runner.red_required(judged.base)
    told = [event.text for event in judged.seen if isinstance(event, Notice)]
    assert [text.partition(",")[0] for text in told] == ["gate tests: if it passes in your tree"]
