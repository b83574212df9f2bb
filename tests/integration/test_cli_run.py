"""The commands around a run: flags, objects and events for programs, init, demo, pause, cancel, approve, land, restore."""

import json
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from rulebook_ralph.errors import ExitCode
from tests.harness import FILES, HONEST, PROMISE, TESTS, Project, finish, make_project, picture, task, wait_for

WAITS = 'touch "$BESIDE/began"; while ! [ -e "$BESIDE/go" ]; do sleep 0.02; done\n' + HONEST
LIST = "# Plan\n\n- [ ] First thing\n- [ ] Second thing\n"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path, tasks=[task("one"), task("two")])


def at_work(project: Project, *arguments: str) -> Any:
    """A run whose agent has begun, and waits for `go`."""
    project.agent(WAITS)
    process = project.start("run", *arguments)
    wait_for(lambda: (project.beside / "began").exists() or process.poll() is not None, "the agent's start")
    assert process.poll() is None, finish(process)
    return process


# What a run says


def test_the_object_of_json(project: Project) -> None:
    ran = project.ralph("run", "--json", "--task", "one")
    assert (ran.code, ran.json["success"], ran.json["completedCount"]) == (0, True, 1)
    assert ran.json.keys() == {
        *("success", "completedCount", "failedCount", "iterations", "stopReason"),
        *("error", "blockingIssue", "costUsd", "tokens", "durationMs"),
    }
    assert ran.json["costUsd"] is None, "nobody told it"
    for command in ("status", "summary"):
        told = project.ralph(command, "--json").json
        assert [told.get("totals", told)["costUsd"], *(each["costUsd"] for each in told["tasks"])] == [None, None, 0]
    assert project.ralph("summary", "--task", "one", "--json").json["attempts"][0]["costUsd"] is None
    story = project.ralph("summary", "--task", "one").out
    assert ("cost unknown" in story, "$0" in story, "0 tokens" in story) == (True, False, False)
    assert "$0" not in project.ralph("summary", "--task", "two").out, "nobody worked on it"
    assert "#1 one: completed" in ran.err
    assert [each.status for each in project.prd.tasks] == ["completed", "pending"]


def test_of_one_task_nothing_is_said_of_others(project: Project) -> None:
    project.tasks(task("one"), task("two", status="blocked", blocked_reason="no way"))
    ran = project.ralph("run", "--json", "--task", "one")
    assert (ran.code, ran.json["success"], ran.json["failedCount"], ran.json["blockingIssue"]) == (0, True, 0, None)
    assert "one complete: 1 completed" in ran.err
    assert "all complete" not in ran.err


def test_a_run_without_anything_to_do_says_so(project: Project) -> None:
    assert project.ralph("run", "--task", "one").code == 0
    assert "nothing to do: one is completed" in project.ralph("run", "--task", "one").out
    assert project.ralph("run").code == 0
    ran = project.ralph("run")
    assert (ran.code, "nothing to do: all 2 tasks are completed" in ran.out) == (0, True)
    assert "all complete" not in ran.out
    project.configure(gates=[{**TESTS, "command": "false"}])
    ran = project.ralph("run")
    assert (ran.code, "ended, but not complete: 0 completed" in ran.out) == (ExitCode.BLOCKED, True), ran
    assert "all 2 tasks are completed, but required gates are red" in ran.out


def test_where_another_branch_is_checked_out_it_is_said_where_the_task_list_is(project: Project) -> None:
    assert project.ralph("run", "--task", "one").code == 0
    project.git("switch", "-q", "main")
    assert not project.folder.path.exists()
    for command in ("status", "history", "summary", "approve --list", "task list"):
        ran = project.ralph(*command.split())
        assert (ran.code, "no task list on main; it is on branch ralph/toy" in ran.err) == (2, True), ran
    assert "the task list is on branch ralph/toy" in project.ralph("doctor").out
    assert "switched from main to branch ralph/toy, which has the task list" in project.ralph("run").out


def test_a_refusal_is_an_object_too(project: Project) -> None:
    ran = project.ralph("run", "--json", "--task", "three")
    assert (ran.code, ran.json["success"], ran.json["stopReason"]) == (2, False, "error")
    assert "there is no task 'three'" in ran.json["error"]


def test_events_are_lines_as_they_happen(project: Project) -> None:
    ran = project.ralph("run", "--events", "--task", "one")
    told = [json.loads(line) for line in ran.out.splitlines()]
    names = [each["event"] for each in told]
    assert names[-1] == "RunEnded"
    assert [name for name in names if name in ("RunPlanned", "IterationOpened", "IterationSettled")] == [
        "RunPlanned",
        "IterationOpened",
        "IterationSettled",
    ]
    settled = told[names.index("IterationSettled")]
    assert (settled["iterationNumber"], settled["outcome"], settled["taskId"]) == (1, "completed", "one")


def test_quiet_says_ends_only(project: Project) -> None:
    out = project.ralph("run", "--quiet", "--task", "one").out
    said = [line.split(" ", 1)[1][:6] for line in out.splitlines()]
    assert [each for each in said if each not in ("warnin", "next: ")] == ["#1 one", "one co"]


def test_a_dry_run_prints_the_plan_and_touches_nothing(project: Project) -> None:
    criteria = {
        "promise": "READ",
        "verificationMethod": "semantic",
        "verificationConfig": {"checkFor": ["it reads well"]},
    }
    project.tasks(task("one", completion={"reviewer": criteria}), task("two", title="Do \x1b[31m\u202etwo"))
    before = picture(project.root)
    ran = project.ralph("run", "--dry-run", "--max-iterations", "3")
    assert ran.code == 0
    for text in ("Would work on branch ralph/toy with script.", "At most 3 iterations", "  two: Do two", "sh check.sh"):
        assert text in ran.out
    assert "    coder by script:\n      The promise IMPLEMENTATION_COMPLETE." in ran.out
    assert "    reviewer by script:\n      The promise READ.\n      A model judges" in ran.out
    assert "Where a model is to judge, nobody can be asked (" in ran.out
    assert not {"\x1b", "\u202e"} & set(ran.out)
    assert project.ralph("run", "--dry-run", "--json").json["tasks"][0]["id"] == "one"
    assert picture(project.root) == before


def test_a_dry_run_takes_in_what_was_edited_since_the_last_run(project: Project) -> None:
    assert project.ralph("run").code == 0
    listed = json.loads(project.folder.prd.read_text())
    listed["tasks"].append({"id": "three", "title": "By hand"})
    project.folder.prd.write_text(json.dumps(listed))
    before = picture(project.root)
    assert "  three: By hand" in project.ralph("run", "--dry-run").out
    assert picture(project.root) == before
    assert "three: By hand" in project.ralph("run").out


# Flags


def test_limits_of_the_command_line_hold(project: Project) -> None:
    ran = project.ralph("run", "--max-iterations", "1")
    assert (ran.code, len(project.records)) == (ExitCode.LIMITED, 1)
    assert "next: go on with 1 open task (two): ralph resume" in ran.out
    assert "all runs:" not in ran.out
    again = project.ralph("resume")
    assert (again.code, len(project.records)) == (0, 2)
    assert "1 completed · 1 iteration" in again.out
    assert "all runs: 2 iterations · cost unknown" in again.out
    assert "$0.00" not in ran.out + again.out + project.ralph("status").out
    assert project.ralph("run", "--max-wall-time", "soon").code == ExitCode.INVALID
    assert project.ralph("run", "--max-cost", "0").code == ExitCode.INVALID


def test_a_limit_of_cost_that_cannot_hold_is_refused(project: Project) -> None:
    ran = project.ralph("run", "--max-cost", "5")
    assert ran.code == ExitCode.INVALID
    assert "does not tell what it costs" in ran.err


def test_several_tasks_at_once(project: Project) -> None:
    ran = project.ralph("run", "--parallel", "2", "--events")
    assert ran.code == 0, ran
    assert "2 at once" in ran.err
    gates = [event for event in map(json.loads, ran.out.splitlines()) if event["event"] == "GateEnded"]
    assert {event.get("iterationNumber") for event in gates if not event["onBase"] and not event["about"]} == {1, 2}
    assert project.task_commits().keys() == {"one", "two"}


def test_another_branch(project: Project) -> None:
    assert project.ralph("run", "--task", "one", "--branch", "feature/x").code == 0
    assert project.git("branch", "--show-current") == "feature/x"


# Ending it


def test_a_second_run_is_refused_by_name_and_pause_lets_the_iteration_end(project: Project) -> None:
    process = at_work(project)
    second = project.ralph("run")
    assert (second.code, f"process {process.pid} ('ralph run'" in second.err) == (ExitCode.INVALID, True)
    status = project.ralph("status", "--json").json["running"]
    assert (status["pid"], status["answers"], status["iterations"][0]["taskId"]) == (process.pid, True, "one")
    assert "after iteration #1 (one)" in project.ralph("pause").out
    assert "pausing: it ends after this iteration" in project.ralph("status").out
    (project.beside / "go").touch()
    assert finish(process).code == 0
    assert [each.status for each in project.prd.tasks] == ["completed", "pending"]
    assert project.ralph("pause").code == ExitCode.INVALID


def test_after_a_crash_status_says_that_the_run_is_dead(project: Project) -> None:
    process = at_work(project)
    process.kill()
    finish(process)
    told = project.ralph("status")
    assert f"the last run is dead: process {process.pid} ('ralph run'" in told.out
    assert "ended in #1\n    ralph resume saves its work" in told.out
    assert project.ralph("status", "--json").json["dead"]["pid"] == process.pid
    (project.beside / "go").touch()
    assert project.ralph("resume").code == 0
    assert "dead" not in project.ralph("status").out


def test_a_blocked_tasks_reason_is_said_once(project: Project) -> None:
    project.agent('echo "<ralph>BLOCKED: the key is missing</ralph>"\n')
    ran = project.ralph("run", "--task", "one")
    assert ran.out.count("the key is missing") == 1
    assert project.ralph("run", "--task", "two", "--json").json["blockingIssue"]["taskId"] == "two"


def test_cancel_ends_it_now_and_waits_for_the_end(project: Project) -> None:
    process = at_work(project)
    began = time.monotonic()
    said, ran = project.ralph("cancel"), finish(process)
    assert (said.code, ran.code) == (0, ExitCode.INTERRUPTED), said
    assert re.search(r"one +Do one +pending\n", ran.out), "no attempt is counted"
    assert time.monotonic() - began < 10
    assert "#1 (one) is not counted, its work is saved (ralph show 1 --diff)" in said.out
    assert project.last.completion_status == "cancelled"
    assert project.ralph("cancel").err == "error: no run is going on in this project\n"


# Work that waits


def test_work_that_waits_for_a_person_is_shown_agreed_to_and_landed(project: Project) -> None:
    project.configure(integrity={"unproven": "approve"})
    ran = project.ralph("run", "--task", "one")
    assert ran.code == ExitCode.BLOCKED
    assert "ralph approve --show one" in ran.out
    assert "one" in project.ralph("approve").out
    shown = project.ralph("approve", "--show", "one").out
    assert "one: Do one" in shown
    assert "ralph show 1 --diff" in shown
    assert [each["id"] for each in project.ralph("approve", "--list", "--json").json["waiting"]] == ["one"]
    assert "no work at 'two' waits" in project.ralph("approve", "two").err
    agreed = project.ralph("approve", "one")
    assert agreed.code == 0, agreed
    assert (project.task().status, project.git("show", "ralph/toy:work/one.txt")) == ("completed", "one")
    assert project.ralph("approve").out == "no work waits for approval\n"


@pytest.mark.parametrize(("order", "code"), [(signal.SIGINT, ExitCode.INTERRUPTED), (signal.SIGKILL, -9)])
def test_an_approval_that_is_cut_short_leaves_the_work_waiting(project: Project, order: int, code: int) -> None:
    project.configure(integrity={"unproven": "approve"})
    project.ralph("run", "--task", "one")
    hook = project.root / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {project.beside}/hooked; sleep 60\n")
    hook.chmod(0o755)
    approving = project.start("approve", "one")
    wait_for((project.beside / "hooked").exists, "the hook")
    approving.send_signal(order)
    assert finish(approving).code == code
    hook.unlink()
    assert "one" in project.ralph("approve").out
    assert project.ralph("resume", "--task", "one").code == ExitCode.BLOCKED
    assert len(project.records) == 1, "nobody worked again"
    agreed = project.ralph("approve", "one")
    assert agreed.code == 0, agreed


def test_refused_work_is_tried_again_with_the_reason(project: Project) -> None:
    project.configure(integrity={"unproven": "approve"})
    project.ralph("run", "--task", "one")
    assert "--reject says nothing" in project.ralph("approve", "one", "--reject", " ").err
    assert project.ralph("approve", "one", "--reject", "not like that").code == 0
    assert project.task().status == "pending"
    project.ralph("run", "--task", "one")
    assert "not like that" in project.ralph("show", "2", "--prompt").out


def test_land_brings_in_what_waits(project: Project) -> None:
    assert project.ralph("land").out.startswith("nothing waits")
    project.ralph("run", "--task", "one")
    project.agent("echo sound > app.txt; echo more >> app.txt\n" + PROMISE)
    project.write({"app.txt": "mine\nsound\n"})
    ran = project.ralph("run", "--task", "two")
    assert ran.code == ExitCode.BLOCKED, ran
    assert "app.txt" in ran.out
    still = project.ralph("land")
    assert (still.code, "app.txt" in still.err) == (ExitCode.BLOCKED, True), still
    project.git("checkout", "-q", "app.txt")
    assert project.ralph("land").code == 0
    assert project.git("show", "HEAD:app.txt") == "sound\nmore"
    assert (project.root / "app.txt").read_text() == "sound\nmore\n"


def test_restore_makes_a_branch_or_a_folder(project: Project, tmp_path: Path) -> None:
    project.ralph("run", "--task", "one")
    assert "git cherry-pick" in project.ralph("restore", "1").out
    assert project.ralph("restore", "1", "--branch", "again", "--to", str(tmp_path / "there")).code == 0
    assert project.git("show", "again:work/one.txt") == "one"
    assert project.git("rev-list", "--parents", "-1", "again").count(" ") == 1
    assert (tmp_path / "there" / "work" / "one.txt").read_text() == "one\n"
    assert "there is a branch again already" in project.ralph("restore", "1", "--branch", "again").err
    assert "exists already" in project.ralph("restore", "1", "--to", str(tmp_path / "there")).err
    assert "iteration 9 is not there" in project.ralph("restore", "9").err


def test_prune_removes_what_is_old_and_settled(project: Project) -> None:
    assert project.ralph("run").code == 0
    assert "nothing was removed" in project.ralph("prune", "--keep", "1").err
    looked = project.ralph("prune", "--keep", "1", "--dry-run", "--json").json
    assert (looked["iterations"], looked["removed"]) == ([1], False)
    assert project.ralph("prune", "--keep", "1", "--yes").code == 0
    assert [record.iteration_number for record in project.records] == [2]
    assert project.snapshots().keys() == {2}
    assert project.ralph("validate").code == 0
    assert "was pruned" in project.ralph("show", "1").err


def test_an_agent_is_refused(project: Project) -> None:
    project.configure(integrity={"unproven": "approve"})
    project.ralph("run", "--task", "one")
    project.environment["RALPH_MARK_1_00"] = "1"
    for command in (("approve", "one"), ("land",), ("restore", "1"), ("prune", "--yes"), ("cancel",)):
        ran = project.ralph(*command)
        assert (ran.code, "inside an agent's process tree" in ran.err) == (ExitCode.INVALID, True), ran


# Beginning


def test_init_reads_a_checklist_and_finds_the_gates(tmp_path: Path) -> None:
    project = make_project(tmp_path, files={**FILES, "plan.md": LIST, "Makefile": "test:\n\tsh check.sh\n"})
    for path in (project.folder.prd, project.folder.progress, project.folder.config):
        path.unlink()
    ran = project.ralph("init", "--from", "plan.md")
    assert ran.code == 0, ran
    assert "2 tasks, 0 completed already, 2 new" in ran.out
    assert "make test" in ran.out
    assert [each.title for each in project.prd.tasks] == ["First thing", "Second thing"]
    assert (project.folder.path / "config.schema.json").is_file()
    assert project.ralph("validate").out == "no problems\n"
    again = project.ralph("init", "--from", "plan.md", "--json")
    assert again.json == {"success": True, "taskCount": 2, "prdPath": str(project.folder.prd)}
    assert project.ralph("init", "--empty", "plan.md").code == ExitCode.INVALID
    assert "--from" in project.ralph("init", "plan.md").err


def test_init_forgets_nothing_that_is_saved(project: Project) -> None:
    project.ralph("run", "--task", "one")
    project.folder.prd.unlink()
    assert "but one is saved" in project.ralph("init", "--empty").err
