"""A run from outside: what lies on disk and in git afterwards, its options, its limits, interruption and recovery."""

import signal
import subprocess
import time
from pathlib import Path

import pytest

from rulebook_ralph.process.supervisor import NO_LIMITS
from tests.harness import HONEST, PROMISE, TESTS, Project, finish, make_project, picture, task, wait_for
from tests.sampling import sample

FAIL = 'echo "$RALPH_TASK $RALPH_ATTEMPT" >> tried.txt\necho "learned: the door is green"\nexit 0\n'
WAIT = 'touch "$BESIDE/started"\nsleep 30\n'


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path)


def two(tmp_path: Path, **settings: object) -> Project:
    return make_project(tmp_path, tasks=[task("one"), task("two")], **settings)  # type: ignore[arg-type]


# The write order


def test_what_a_run_leaves_on_disk(tmp_path: Path) -> None:
    project = two(tmp_path)
    ran = project.ralph("run")
    assert ran.code == 0, ran.err
    assert project.subjects() == ["Do one", "Do two", "ralph: state"]
    for number, name in ((1, "one"), (2, "two")):
        commit = project.task_commits()[name]
        record = project.records[number - 1]
        assert project.changed(commit) == [f"work/{name}.txt"]
        assert project.git("rev-parse", f"{commit}^{{tree}}") == record.tree
        assert (record.commit, record.phase, record.completion_status) == (commit, "settled", "completed")
        assert record.tasks_completed == (name,)
        assert project.task(name).status == "completed"
        assert project.task(name).completed_at
        assert project.task(name).settled_iteration == number
    state_commits = project.git("log", "--format=%H", "--grep=^ralph: ").splitlines()
    for commit in state_commits:
        assert all(path.startswith(".rulebook-ralph/") for path in project.changed(commit))
    assert project.git("status", "--porcelain") == ""
    prd = project.prd
    assert (prd.totals.iterations, prd.totals.completed, prd.totals.failed) == (2, 2, 0)
    text = project.folder.progress.read_text()
    assert text.index("## Iteration 0 ·") < text.index("## Iteration 1 · one · coder · attempt 1 · completed")
    assert text.index("## End of iteration 1\n") < text.index("## Iteration 2 · two ·")
    assert picture(project.folder.history).keys() == {"iteration-1.json", "iteration-2.json"}
    assert project.ralph("validate").code == 0


def test_no_state_commits_where_none_are_wanted(project: Project) -> None:
    project.configure(git={"stateCommit": "none"})
    assert project.ralph("run").code == 0
    assert project.subjects() == ["Do one"]
    assert project.task().status == "completed"


def test_a_second_run_does_nothing_and_says_so(project: Project) -> None:
    assert project.ralph("run").code == 0
    before = project.refs()
    ran = project.ralph("run")
    assert ran.code == 0
    assert "complete" in ran.out
    assert project.refs("refs/heads") == {name: commit for name, commit in before.items() if "heads" in name}


# Which task, how often


def test_order_of_dependencies_and_priorities(tmp_path: Path) -> None:
    tasks = [
        task("late", priority=9),
        task("needs-late", priority=1, dependencies=("late",)),
        task("first", priority=1),
        task("middle", priority=5),
        task("done", status="completed"),
        task("after-done", priority=2, dependencies=("done",)),
    ]
    project = make_project(tmp_path, tasks=tasks)
    assert project.ralph("run").code == 0
    assert [record.task_id for record in project.records] == ["first", "after-done", "middle", "late", "needs-late"]


def test_a_task_behind_a_blocked_one_waits(tmp_path: Path) -> None:
    tasks = [task("one"), task("two", dependencies=("one",)), task("three")]
    project = make_project(
        tmp_path, tasks=tasks, attempts=1, agent=f"test $RALPH_TASK != one || {{ {FAIL} }}\n" + HONEST
    )
    ran = project.ralph("run", "--json")
    assert ran.code == 3
    assert [project.task(name).status for name in ("one", "two", "three")] == ["blocked", "pending", "completed"]
    assert ran.json["blockingIssue"]["taskId"] == "one"
    assert ran.json["completedCount"] == 1


@pytest.mark.parametrize(
    ("command", "again"),
    sample(
        [
            (["run"], True),
            (["run", "--no-retry-blocked"], False),
            (["resume"], False),
            (["resume", "--retry-blocked"], True),
        ],
        always=[(["run"], True), (["resume"], False)],
    ),
)
def test_blocked_tasks_are_tried_again_once(tmp_path: Path, command: list[str], again: bool) -> None:
    project = two(tmp_path, attempts=2, agent=f"test $RALPH_TASK = two || {{ {FAIL} }}\n" + HONEST)
    assert project.ralph("run", "--max-iterations", "2").code == 4
    assert project.task("one").status == "blocked"
    ran = project.ralph(*command)
    assert ran.code == 3, ran.out
    names = [record.task_id for record in project.records[2:]]
    assert names == (["two", "one", "one"] if again else ["two"])
    if again:
        assert [record.attempt for record in project.records[3:]] == [1, 2]
    assert project.task("one").status == "blocked"


# Limits


def test_max_iterations_then_resume(project: Project) -> None:
    project.configure(attempts=3)
    project.agent(FAIL)
    ran = project.ralph("run", "--max-iterations", "2", "--json")
    assert ran.code == 4
    assert (ran.json["stopReason"], ran.json["iterations"], ran.json["success"]) == ("max-iterations", 2, False)
    assert project.task().status == "in_iteration"
    assert project.subjects() == ["ralph: state"]
    project.agent('cat > "$BESIDE/prompt"\n' + HONEST)
    assert project.ralph("resume").code == 0
    assert project.last.attempt == 3
    assert project.changed(project.task_commits()["one"]) == ["tried.txt", "work/one.txt"]
    assert project.git("show", "HEAD:tried.txt") == "one 1\none 2"
    prompt = (project.beside / "prompt").read_text()
    assert "the door is green" in prompt
    assert "The promise IMPLEMENTATION_COMPLETE was not given" in prompt


# The base


def test_red_gate_is_not_held_until_it_was_green_once(tmp_path: Path) -> None:
    lint = {"name": "lint", "kind": "lint", "command": "test -e lint-ok.txt"}
    project = make_project(
        tmp_path,
        tasks=[task("one"), task("two"), task("three")],
        gates=[lint, TESTS],
        attempts=1,
        agent="case $RALPH_TASK in two) touch lint-ok.txt ;; three) rm lint-ok.txt ;; esac\n" + HONEST,
    )
    ran = project.ralph("run")
    assert ran.code == 3
    assert "lint" in ran.out
    assert [project.task(name).status for name in ("one", "two", "three")] == ["completed", "completed", "blocked"]
    assert "gate 'lint' failed" in project.last.feedback


def test_strict_refuses_a_red_base(project: Project) -> None:
    project.tasks(task(outcome="It is done.", acceptance_criteria=("It is there.",)))
    project.configure(gates=[{"name": "tests", "command": "false"}])
    ran = project.ralph("run", "--strict")
    assert ran.code == 2
    assert "tests" in ran.err
    assert project.records == []
    project.configure()
    assert project.ralph("run", "--strict").code == 0


def test_a_gate_whose_command_is_not_there_ends_the_run_before_an_agent_is_paid(project: Project) -> None:
    project.configure(gates=[{"name": "tests", "command": "no-such-runner --all"}])
    ran = project.ralph("run")
    assert (ran.code, project.records) == (2, [])
    assert "gate tests: its command is not found: no-such-runner (in: no-such-runner --all)" in ran.err


def test_a_gate_whose_script_a_task_is_to_write_is_only_red(project: Project) -> None:
    project.configure(gates=[TESTS, {"name": "lint", "kind": "lint", "command": "./lint.sh"}])
    project.agent("printf '#!/bin/sh\\n' > lint.sh; chmod +x lint.sh\n" + HONEST)
    ran = project.ralph("run")
    assert ("is not found" in ran.err, len(project.records)) == (False, 1)


def test_detached_head_becomes_the_branch(project: Project) -> None:
    project.commit("second", **{"second.txt": "2\n"})
    project.git("checkout", "-q", "--detach", "HEAD^")
    assert project.ralph("run").code == 0
    assert project.git("symbolic-ref", "--short", "HEAD") == "ralph/toy"
    assert project.git("merge-base", "main", "ralph/toy") == project.git("rev-parse", "main^")


def test_the_branch_that_the_prd_names(project: Project) -> None:
    project.tasks(task(), branch="feature/x")
    assert project.ralph("run").code == 0
    assert project.git("symbolic-ref", "--short", "HEAD") == "feature/x"
    assert "one" in project.task_commits("feature/x")


def test_a_branch_is_never_reset(project: Project) -> None:
    assert project.ralph("run").code == 0
    tip = project.git("rev-parse", "ralph/toy")
    project.git("switch", "-q", "main")
    project.git("checkout", "-q", "ralph/toy", "--", ".rulebook-ralph")
    project.git("commit", "-qm", "state on main too")
    project.tasks(task(), task("two"))
    project.git("commit", "-qam", "one more")
    ran = project.ralph("run")
    assert project.git("merge-base", "--is-ancestor", tip, "ralph/toy") == ""
    assert ran.code == 2 or "two" in project.task_commits("ralph/toy"), ran.out + ran.err


def test_untracked_and_ignored_files_are_never_touched(tmp_path: Path) -> None:
    project = two(tmp_path, attempts=2)
    project.configure(attempts=2, git={"rollback": "reset"})
    mine = {
        "notes.txt": "mine",
        "folder/a b": "mine",
        "cache.o": "ignored",
        "folder/c.o": "ignored",
        "work/mine": "mine",
    }
    project.write(mine)
    project.agent(f"echo $RALPH_ATTEMPT > tmp.txt\ntest $RALPH_TASK = two || {{ {FAIL} }}\nrm tmp.txt\n" + HONEST)
    assert project.ralph("run", "--no-retry-blocked").code == 3
    assert {name: (project.root / name).read_text() for name in mine} == mine
    assert project.changed(project.task_commits()["two"]) == ["work/two.txt"]
    assert project.status() == ['?? "folder/a b"', "?? notes.txt", "?? work/mine"]
    assert project.tree().keys() - project.tree("main").keys() == {"work/two.txt"}


# A person at the same time


def test_an_edit_after_a_run_is_taken_over(project: Project) -> None:
    project.configure(attempts=1)
    project.agent(FAIL)
    assert project.ralph("run").code == 3
    text = (
        project.folder.prd.read_text()
        .replace('"status": "blocked"', '"status": "pending"')
        .replace("Do one", "Do it so")
    )
    project.folder.prd.write_text(text)
    project.agent('cat > "$BESIDE/prompt"\n' + HONEST)
    assert project.ralph("resume").code == 0
    assert project.last.attempt == 1
    assert "Do it so" in (project.beside / "prompt").read_text()
    assert project.git("log", "-1", "--format=%s", project.task_commits()["one"]) == "Do it so"


# Interruption


def started(project: Project, *arguments: str) -> subprocess.Popen[str]:
    process = project.start(*arguments)
    wait_for((project.beside / "started").exists, "the agent's start")
    return process


@pytest.mark.parametrize("order", sample([signal.SIGINT, signal.SIGTERM, signal.SIGHUP], 1))
def test_interrupted_once(project: Project, order: signal.Signals) -> None:
    project.configure(attempts=1)
    project.agent("echo half > half.txt\n" + WAIT)
    process = started(project, "run")
    process.send_signal(order)
    ran = finish(process)
    assert ran.code == 130, ran.err
    assert project.task().status == "pending"
    assert project.task().attempts == {}
    assert project.last.completion_status == "interrupted"
    assert not (project.root / "half.txt").exists()
    assert project.git("show", f"{project.snapshots()[1]}:half.txt") == "half"
    assert "ralph resume" in ran.out
    for told in (project.ralph("history").out, project.ralph("show", "1").out):
        assert told.count("interrupted") == 1, told
    project.agent("test -e half.txt\n" + HONEST)
    assert project.ralph("resume").code == 0
    assert project.last.attempt == 1
    assert project.changed(project.task_commits()["one"]) == ["half.txt", "work/one.txt"]


def test_interrupted_twice_ends_at_once(project: Project) -> None:
    traps = """trap ': > "$BESIDE/told"' INT\ntrap '' TERM\n"""
    project.agent(traps + 'touch "$BESIDE/started"\nset +e\nwhile :; do sleep 0.05; done\n')
    process = started(project, "run")
    process.send_signal(signal.SIGINT)
    wait_for((project.beside / "told").exists, "the agent is told")
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    ran = finish(process)
    assert time.monotonic() - began < NO_LIMITS.interrupt_grace + NO_LIMITS.terminate_grace
    assert (ran.code, "saved by: ralph resume" in ran.err) == (130, True), ran
    project.agent(HONEST)
    ran = project.ralph("resume")
    assert ran.code == 0, ran.err
    assert project.task_commits().keys() == {"one"}


def test_interrupted_while_a_gate_runs(project: Project) -> None:
    project.configure(
        attempts=1,
        gates=[{**TESTS, "command": f"test ! -e work/one.txt || {{ touch '{project.beside}/started'; sleep 30; }}"}],
    )
    process = started(project, "run")
    process.send_signal(signal.SIGINT)
    assert finish(process).code == 130
    assert project.task().status == "pending"
    project.configure(attempts=1)
    project.agent('mkdir -p work; echo "$RALPH_TASK" > work/again.txt\n' + PROMISE)
    assert project.ralph("resume").code == 0
    assert project.changed(project.task_commits()["one"]) == ["work/again.txt", "work/one.txt"]


# Death


def test_from_a_folder_below(project: Project) -> None:
    assert project.ralph("run", cwd=project.root / "docs").code == 0
    assert project.changed(project.task_commits()["one"]) == ["work/one.txt"]
