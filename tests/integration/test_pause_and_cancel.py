"""`ralph pause`, `ralph cancel` and `ralph status` from another terminal, while a real run works."""

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rulebook_ralph.state import folder_lock, lock
from tests.harness import HONEST, Project, finish, make_project, task, wait_for
from tests.integration.test_limits import LIMITED, claude, resets_in

WAIT = 'touch "$BESIDE/started"; while test -e "$BESIDE/started" -a ! -e "$BESIDE/go"; do sleep 0.01; done\n'
CLI = f"{sys.executable} -c 'from rulebook_ralph.cli import main; import sys; main(sys.argv[1:])'"


def running(project: Project) -> subprocess.Popen[str]:
    process = project.start("run")
    wait_for((project.beside / "started").exists, "the agent")
    return process


def go_on(project: Project) -> None:
    (project.beside / "go").touch()


def test_a_pause_ends_the_run_after_the_iteration_and_status_tells_of_it(tmp_path: Path) -> None:
    project = make_project(tmp_path, agent=WAIT + HONEST, tasks=[task("one"), task("two")])
    process = running(project)
    assert "pausing" not in project.ralph("status").out
    told = "the run ends after iteration 1 (one); go on later with: ralph resume\n"
    assert project.ralph("pause").out == told
    assert project.ralph("pause", "--undo").out == "the pause is taken back; the run goes on\n"
    assert project.ralph("pause").out == told
    status = project.ralph("status").out
    assert re.search(rf"running: process {process.pid} \('ralph run', since .*Z\)", status)
    assert re.search(r"at work: iteration 1, one: Do one\n +attempt 1, agent script, for \d+\.\d s\n", status)
    assert "pausing: it ends after this iteration" in status
    told_as_json = project.ralph("status", "--json").json["running"]
    assert (told_as_json["pid"], told_as_json["answers"], told_as_json["pausing"]) == (process.pid, True, True)
    assert [each["taskId"] for each in told_as_json["iterations"]] == ["one"]
    assert told_as_json["waiting"] is None
    go_on(project)
    ran = finish(process)
    assert ran.code == 0, ran.err
    assert "paused as asked; 'ralph resume' goes on" in ran.out
    assert [each.status for each in project.prd.tasks] == ["completed", "pending"]
    assert len(project.records) == 1
    for command in ("pause", "cancel"):
        assert project.ralph(command).err == "error: no run is going on in this project\n"
        assert project.ralph(command).code == 2
    assert project.ralph("resume", "--quiet").code == 0
    assert project.task_commits().keys() == {"one", "two"}


def test_cancelling_cleans_up_and_waits_for_the_end(tmp_path: Path) -> None:
    """The second attempt, of an agent that does not care for an interrupt, with a child of its own; then a resume."""
    script = f"""
if [ "$RALPH_ATTEMPT" = 1 ]; then echo more > first.txt; echo "later"; exit 0; fi
test -e "$BESIDE/go" && {{ {HONEST.strip().replace(chr(10), "; ")}; exit 0; }}
echo half > half.txt; echo changed >> app.txt
trap '' INT
sleep 60 & echo $! > "$BESIDE/child"
{WAIT}"""
    project = make_project(tmp_path, agent=script)
    head = project.git("rev-parse", "HEAD")
    process = running(project)
    wait_for(lambda: (project.beside / "child").read_text().endswith("\n"), "the child")
    before = project.folder.progress.read_text()
    late = project.ralph("cancel", "--timeout", "0.1s")
    assert late.code == 4
    assert f"process {process.pid} is told to end and has not within 0.1 s" in late.err
    assert "ending now: cancelled" in project.ralph("status").out
    cancelled = project.ralph("cancel")
    assert cancelled.code == 0, cancelled
    assert cancelled.out.startswith(
        "cancelled: iteration 2 (one) is not counted, its work is saved (ralph show 2 --diff)"
    )
    assert lock.holder(project.root / ".git" / "ralph" / "lock") is None
    assert not lock.is_alive(int((project.beside / "child").read_text()))
    ran = finish(process)
    assert ran.code == 130
    assert "cancelled" in ran.out
    assert project.status() == [], "the tree is as before the run"
    assert project.git("rev-parse", "main") == head
    assert (project.task().status, dict(project.task().attempts)) == ("pending", {"coder": 1})
    last = project.last
    assert (last.phase, last.completion_status, last.stop_reason) == ("settled", "cancelled", "cancelled")
    assert {"half.txt", "first.txt"} <= set(project.tree(project.snapshots()[2]))
    assert project.folder.progress.read_text().startswith(before)
    assert project.ralph("validate").code == 0
    go_on(project)
    assert project.ralph("resume", "--quiet", "--task", "one").code == 0
    assert (project.last.task_id, project.last.attempt, project.last.iteration_number) == ("one", 2, 3)
    assert "The last attempt was cancelled by a person" in project.records[2].prompt
    assert not (project.root / "half.txt").exists()


def test_pause_and_cancel_end_a_wait_for_a_usage_limit_at_once(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    claude(project, LIMITED)
    resets_in(project, 7200)
    for command, code, reason in (("pause", 0, "paused"), ("cancel", 130, "cancelled")):
        process = project.start("run", "--json")
        wait_for(lambda: "waiting until" in project.ralph("status").out, "the wait")
        waits = project.ralph("status", "--json").json["running"]
        assert waits["waiting"]["until"], waits
        assert waits["iterations"] == []
        assert project.ralph(command).code == 0
        ran = finish(process)
        assert (ran.code, ran.json["stopReason"]) == (code, reason), ran.err
    assert project.task().status == "pending"
    assert len(project.records) == 1, "no agent was asked again"


def test_an_agent_may_not_end_its_own_run(tmp_path: Path) -> None:
    """Neither in its own process tree, nor with an environment that it emptied; `status` it may ask for."""
    asked = f"""
{CLI} cancel > "$BESIDE/said-1" 2>&1 && exit 1
env -i PATH="$PATH" HOME="$HOME" {CLI} pause > "$BESIDE/said-2" 2>&1 && exit 1
{CLI} status > "$BESIDE/said-3" 2>&1 || exit 1
"""
    project = make_project(tmp_path, agent=asked + HONEST)
    assert project.ralph("run", "--quiet").code == 0
    for number in (1, 2):
        said = (project.beside / f"said-{number}").read_text()
        assert said.startswith("error: ")
        assert "agent" in said
    status = (project.beside / "said-3").read_text()
    assert "running: process" in status
    assert "at work" not in status


def test_an_agent_removes_the_lock_and_no_second_run_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it has ended the run cannot be named; then the lock is there again, for whoever would end the run."""
    monkeypatch.setattr(folder_lock, "_LOOKS", 3)
    project = make_project(tmp_path, agent="rm -rf .git/ralph\n" + WAIT + HONEST, tasks=[task("one"), task("two")])
    process = running(project)
    gone = f"although its lock file {lock_of(project)} is gone; find it: fuser -v {project.root / '.git'}\n"
    for command in (("resume",), ("pause",), ("task", "add", "three", "Do three"), ("accept", "--yes")):
        ran = project.ralph(*command)
        assert (ran.code, ran.err.endswith(gone)) == (2, True), ran.err
    assert "running: a process that its lock does not name" in project.ralph("status").out
    (project.beside / "started").unlink()
    wait_for((project.beside / "started").exists, "the agent's second task")
    go_on(project)
    ran = finish(process)
    assert (ran.code, len(project.records)) == (0, 2)
    assert ran.out.count(f"the lock {lock_of(project)} was removed or changed while an agent") == 2, ran.out
    assert lock_of(project).read_bytes() == b""


# Runs that cannot be reached


@pytest.fixture
def idle(tmp_path: Path) -> Project:
    return make_project(tmp_path)


def lock_of(project: Project) -> Path:
    return project.root / ".git" / "ralph" / "lock"


@pytest.mark.parametrize("command", ["pause", "cancel"])
def test_a_run_that_does_not_listen_is_named(command: str, idle: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rulebook_ralph.commands.ordering._LISTENING", 0.1)
    arguments = (command, "--timeout", "0.1s") if command == "cancel" else (command,)
    with lock.held(lock_of(idle), since="noon", command="run"):
        ran = idle.ralph(*arguments)
        told = f"error: process {os.getpid()} ('ralph run', since noon) cannot be reached; interrupt it with: kill -INT {os.getpid()}\n"
        assert (ran.code, ran.err) == (2, told)
        assert "at work" not in idle.ralph("status").out
    with lock.held(lock_of(idle), since="noon", command="init"):
        assert "it is no run and ends by itself" in idle.ralph(*arguments).err


def test_a_run_that_was_stopped_is_told_of_at_once(tmp_path: Path) -> None:
    project = make_project(tmp_path, agent=WAIT + HONEST)
    process = running(project)
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    for command in ("pause", "cancel"):
        ran = project.ralph(command)
        assert (ran.code, f"was stopped: let it go on with kill -CONT {process.pid}" in ran.err) == (2, True)
    assert f"running: process {process.pid}" in project.ralph("status").out
    for command in ("run", "resume", "init"):
        ran = project.ralph(command)
        assert (ran.code, f"process {process.pid} ('ralph run'" in ran.err) == (2, True)
    process.send_signal(signal.SIGCONT)
    assert project.ralph("pause").code == 0
    go_on(project)
    ran = finish(process)
    assert ran.code == 0
    assert "all complete: 1 completed" in ran.out, "which is more than paused"


def test_a_run_that_ends_while_it_is_asked_is_over(idle: Project) -> None:
    held = lock.held(lock_of(idle), since="noon", command="run")
    held.__enter__()
    ending = threading.Timer(0.15, held.__exit__, (None, None, None))
    ending.start()
    assert idle.ralph("cancel").err == "error: no run is going on in this project\n"
    ending.join()


def test_after_a_run_that_was_killed_cancel_says_what_to_do_and_changes_nothing(tmp_path: Path) -> None:
    project = make_project(tmp_path, agent=WAIT + HONEST)
    process = running(project)
    process.kill()
    finish(process)
    dead = lock_of(project).read_bytes()
    ran = project.ralph("cancel")
    assert (ran.code, ran.err) == (
        2,
        "error: no run is going on: the last one died in iteration 1 (one); 'ralph resume' saves its work and goes on\n",
    )
    assert lock_of(project).read_bytes() == dead
    assert project.last.phase == "executing"
    go_on(project)  # the agent outlived its Ralph, and ends by itself
