"""Stages in the real loop: each its own role, promise, criteria, limit and agent; a later one sends the task back."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from rulebook_ralph.tasks.history import Iteration
from tests.harness import HONEST, PROMISE, Project, finish, make_project, task, wait_for
from tests.sampling import sample

STAGES = ["coder", "reviewer", "tester", "qa"]
KEEPS_THE_PROMPT = 'cat > "$BESIDE/prompt-$RALPH_ITERATION"\n'
WRITES = 'echo "round $RALPH_ATTEMPT" >> work.txt\n'
CODER = f'if test "$RALPH_STAGE" = coder; then\n{WRITES}{PROMISE}exit 0; fi\n'
HALT = 'if mkdir "$BESIDE/halted" 2>/dev/null; then touch "$BESIDE/started"; sleep 30; fi\n'


def staged(tmp_path: Path, agent: str, *, stages: list[str] | None = None, **settings: Any) -> Project:
    return make_project(tmp_path, agent=KEEPS_THE_PROMPT + agent, stages=stages or ["coder", "reviewer"], **settings)


def path_of(project: Project) -> list[tuple[str, int, str | None]]:
    """Stage, attempt and end of each iteration."""
    return [(record.stage, record.attempt, record.completion_status) for record in project.records]


def prompt(project: Project, record: Iteration) -> str:
    return (project.beside / f"prompt-{record.iteration_number}").read_text()


def test_each_stage_has_its_own_role_promise_criteria_agent_and_one_commit_ends_it(tmp_path: Path) -> None:
    completion = {
        "reviewer": {"promise": "SHIP IT", "description": "It reads well."},
        "tester": {
            "promise": "ALL_GREEN",
            "verificationMethod": "external",
            "verificationConfig": {"command": "grep -qx tested work/one.txt"},
        },
    }
    project = staged(
        tmp_path,
        'test "$RALPH_STAGE" = coder || test -e work/one.txt\n'
        "case $RALPH_STAGE in tester) echo tested >> work/one.txt ;; coder) mkdir work; echo made > work/one.txt ;; esac\n"
        + PROMISE,
        tasks=[task(completion=completion)],
        stages=STAGES,
        ralph={"agents": {"reviewer": {"executor": "critic", "maxIterations": 3}}},
    )
    add_agent(project, "critic", 'cat > "$BESIDE/critic"\ntest -e work/one.txt\n' + PROMISE)
    ran = project.ralph("run")
    assert ran.code == 0, ran.out
    assert path_of(project) == [(stage, 1, "completed") for stage in STAGES]
    assert [record.agent for record in project.records] == ["script", "critic", "script", "script"]
    assert [record.commit is None for record in project.records] == [True, True, True, False]
    assert project.subjects() == ["Do one", "ralph: state"]
    assert project.git("show", f"{project.task_commits()['one']}:work/one.txt") == "made\ntested"
    assert project.task().attempts == dict.fromkeys(STAGES, 1)
    assert project.prd.totals.completed == 1
    prompts: dict[str, str] = {
        record.stage: prompt(project, record) for record in project.records if record.stage != "reviewer"
    }
    prompts["reviewer"] = (project.beside / "critic").read_text()
    told = {
        "coder": ("You are working in a git", "IMPLEMENTATION_COMPLETE", "attempt 1 of 15"),
        "reviewer": ("You are the reviewer", "SHIP IT", "It reads well.", "attempt 1 of 3", "- work/one.txt"),
        "tester": ("You are the tester", "ALL_GREEN", "grep -qx tested", "attempt 1 of 10", "- work/one.txt"),
        "qa": ("You are the quality assurance", "QA_PASSED", "attempt 1 of 5", "- work/one.txt"),
    }
    for stage, texts in told.items():
        assert all(text in prompts[stage] for text in texts), stage
    assert "# Feedback" not in prompts["qa"], "what an earlier stage said in passing is no feedback on this one"
    assert "#1 one: stage verified (coder is done, reviewer is next)" in ran.out
    assert "#4 one: completed · 1 file" in ran.out
    assert "attempt 1 of 3 · reviewer" in ran.out
    assert "reason: reviewer is done, tester is next" in project.folder.progress.read_text()
    assert "#2: one, reviewer, attempt 1\n  result    verified\n" in project.ralph("show", "2").out
    rows = [line.split()[:5] for line in project.ralph("history").out.splitlines()[1:]]
    ends = ["verified", "verified", "verified", "completed"]
    assert rows == [
        [f"#{i}", "one", stage, "1", end] for i, (stage, end) in enumerate(zip(STAGES, ends, strict=True), 1)
    ]
    assert "1 of 1 task completed" in project.ralph("status").out
    assert project.ralph("validate").code == 0


def add_agent(project: Project, name: str, script: str) -> None:
    """Another command agent beside the default one."""
    (project.beside / f"{name}.sh").write_text(f"BESIDE='{project.beside}'\nset -e\n{script}")
    config = json.loads(project.folder.config.read_text())
    command = f"sh {project.beside}/{name}.sh"
    config["tools"]["executors"].append({"id": name, "type": "command", "command": command})
    project.folder.config.write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("flags", "agents"), [((), ["script", "critic", "other"]), (("--agent", "flagged"), ["flagged"] * 3)]
)
def test_which_agent_works_on_a_stage(tmp_path: Path, flags: tuple[str, ...], agents: list[str]) -> None:
    """The one of `--agent`, else the stage's own, else the task's, else the default."""
    tasks = [task("one"), task("two", overrides={"executor": "other", "stages": ["coder"]})]
    project = staged(tmp_path, HONEST, tasks=tasks, ralph={"agents": {"reviewer": {"executor": "critic"}}})
    for name in ("critic", "other", "flagged"):
        add_agent(project, name, HONEST)
    assert project.ralph("run", *flags).code == 0
    assert [(record.task_id, record.stage) for record in project.records] == [
        ("one", "coder"),
        ("one", "reviewer"),
        ("two", "coder"),
    ]
    assert [record.agent for record in project.records] == agents
    assert f"Ralph-Agent: {agents[2]}" in project.git("log", "-1", "--format=%B", project.task_commits()["two"])


@pytest.mark.parametrize("rollback", sample(["reset", "keep"], 1))
def test_a_later_stage_without_its_promise_sends_the_task_back_with_its_findings(tmp_path: Path, rollback: str) -> None:
    project = staged(
        tmp_path,
        CODER + 'test $RALPH_ATTEMPT = 2 || { echo "work.txt:1: not round enough"; exit 0; }\n' + PROMISE,
        git={"rollback": rollback},
    )
    ran = project.ralph("run")
    assert ran.code == 0, ran.out
    assert path_of(project) == [
        ("coder", 1, "completed"),
        ("reviewer", 1, "failed"),
        ("coder", 2, "completed"),
        ("reviewer", 2, "completed"),
    ]
    again = prompt(project, project.records[2])
    assert "The reviewer stage sent the task back to you" in again
    assert "work.txt:1: not round enough" in again
    assert "give the promise of your own stage" in again
    assert "You are the reviewer" not in again
    made = project.git("show", f"{project.task_commits()['one']}:work.txt")
    assert made == ("round 1\nround 2" if rollback == "keep" else "round 2")
    assert project.prd.totals.failed == 1


def test_a_later_stage_whose_criterion_fails_sends_the_task_back(tmp_path: Path) -> None:
    check = {"command": "grep -qx 'round 2' work.txt || { echo 'work.txt: one round is too few' >&2; false; }"}
    criteria = {"qa": {"verificationMethod": "external", "verificationConfig": check}}
    project = staged(tmp_path, CODER + PROMISE, stages=["coder", "qa"], tasks=[task(completion=criteria)])
    assert project.ralph("run").code == 0
    assert [stage for stage, _, _ in path_of(project)] == ["coder", "qa", "coder", "qa"]
    assert "work.txt: one round is too few" in prompt(project, project.records[2])
    (failed,) = [check for check in project.records[1].checks if check.method == "external"]
    assert (failed.passed, failed.exit_code) == (False, 1)


def test_a_later_stage_that_breaks_the_gates_sends_the_task_back(tmp_path: Path) -> None:
    project = staged(tmp_path, CODER + "test $RALPH_ATTEMPT != 1 || echo unsound > app.txt\n" + PROMISE)
    project.agent("echo sound > app.txt\n" + (project.beside / "agent.sh").read_text())
    assert project.ralph("run").code == 0
    assert [stage for stage, _, _ in path_of(project)] == ["coder", "reviewer", "coder", "reviewer"]
    assert "The gate 'tests' failed" in project.records[1].feedback


@pytest.mark.parametrize(
    ("limits", "path", "why"),
    [
        ({"reviewer": 2}, ["coder", "reviewer", "coder", "reviewer"], "2 of 2 attempts used"),
        ({"coder": 1}, ["coder", "reviewer"], "1 of 1 attempt of coder used"),
    ],
)
def test_the_limit_of_either_stage_blocks_the_task(
    tmp_path: Path, limits: dict[str, int], path: list[str], why: str
) -> None:
    completion = {stage: {"maxIterations": limit} for stage, limit in limits.items()}
    project = staged(tmp_path, CODER + 'echo "no. $RALPH_ATTEMPT: not yet"\n', tasks=[task(completion=completion)])
    ran = project.ralph("run", "--json")
    assert ran.code == 3
    assert [stage for stage, _, _ in path_of(project)] == path
    assert why in (project.task().blocked_reason or "")
    assert ran.json["blockingIssue"]["taskId"] == "one"
    assert project.status() == [], "a blocked task leaves the tree of the base"
    assert project.git("show", f"{project.snapshots()[len(path)]}:work.txt").startswith("round 1")


def test_a_later_stage_whose_agent_crashes_is_tried_again_itself(tmp_path: Path) -> None:
    """What the stages before brought about stays, also where a failed attempt is rolled back."""
    project = staged(
        tmp_path,
        CODER + 'test -e "$BESIDE/crashed" || { touch "$BESIDE/crashed"; exit 7; }\ntest -e work.txt\n' + PROMISE,
        git={"rollback": "reset"},
    )
    ran = project.ralph("run")
    assert ran.code == 0, ran.out
    assert path_of(project) == [("coder", 1, "completed"), ("reviewer", 1, "failed"), ("reviewer", 1, "completed")]
    assert project.git("show", f"{project.task_commits()['one']}:work.txt") == "round 1"


@pytest.mark.parametrize("order", sample([signal.SIGKILL, signal.SIGINT], 1))
def test_a_run_that_ends_in_a_later_stage_is_resumed_there(tmp_path: Path, order: signal.Signals) -> None:
    """The end is that of a run that was left alone: nothing is coded again, nothing counted twice."""
    project = staged(
        tmp_path, CODER + HALT + "grep -qx 'round 1' work.txt\necho reviewed >> work.txt\n" + PROMISE, attempts=1
    )
    process = project.start("run")
    wait_for((project.beside / "started").exists, "the reviewer")
    process.send_signal(order)
    assert finish(process).code == (130 if order == signal.SIGINT else -order)
    ran = project.ralph("resume")
    assert ran.code == 0, ran.err + ran.out
    assert path_of(project) == [("coder", 1, "completed"), ("reviewer", 1, "interrupted"), ("reviewer", 1, "completed")]
    assert project.git("show", f"{project.task_commits()['one']}:work.txt") == "round 1\nreviewed"
    assert project.task().attempts == {"coder": 1, "reviewer": 1}
    assert project.status() == []
    assert project.ralph("validate").code == 0


def test_findings_outlive_an_interrupted_attempt_to_mend_them(tmp_path: Path) -> None:
    project = staged(
        tmp_path,
        f'if test "$RALPH_STAGE-$RALPH_ATTEMPT" = coder-2; then\n{HALT}fi\n{CODER}'
        'test $RALPH_ATTEMPT = 2 || { echo "work.txt:1: not round enough"; exit 0; }\n' + PROMISE,
    )
    process = project.start("run")
    wait_for((project.beside / "started").exists, "the coder's second attempt")
    process.send_signal(signal.SIGKILL)
    finish(process)
    assert project.ralph("resume").code == 0
    assert path_of(project)[2:] == [
        ("coder", 2, "interrupted"),
        ("coder", 2, "completed"),
        ("reviewer", 2, "completed"),
    ]
    assert "not round enough" in prompt(project, project.records[3])


def test_a_limit_between_two_stages_is_resumed_at_the_next(tmp_path: Path) -> None:
    project = staged(tmp_path, CODER + PROMISE)
    assert project.ralph("run", "--max-iterations", "1").code == 4
    assert project.task().status == "in_iteration"
    assert project.status() == []
    assert project.ralph("resume").code == 0
    assert path_of(project) == [("coder", 1, "completed"), ("reviewer", 1, "completed")]


def test_a_stage_is_judged_by_the_criteria_it_started_with(tmp_path: Path) -> None:
    """A person's edit of the criteria counts for the next attempt, not for the one that goes on."""
    check = {"command": "grep -qx 'round 2' work.txt"}
    criteria = {"coder": {"verificationMethod": "external", "verificationConfig": check}}
    project = make_project(
        tmp_path,
        agent=WRITES
        + 'if mkdir "$BESIDE/halted" 2>/dev/null; then touch "$BESIDE/started"; while test ! -e "$BESIDE/go"; do sleep 0.01; done; fi\n'
        + PROMISE,
        tasks=[task(completion=criteria)],
    )
    process = project.start("run")
    wait_for((project.beside / "started").exists, "the agent")
    edited = project.ralph("task", "edit", "one", "--coder-verify-cmd", "grep -qx 'round 3' work.txt")
    (project.beside / "go").touch()
    assert edited.code == 0, edited.err
    assert "judged by what it started with" in edited.out
    ran = finish(process)
    assert ran.code == 0, ran.out
    commands = [check.command for record in project.records for check in record.checks if check.method == "external"]
    assert commands == ["grep -qx 'round 2' work.txt", *["grep -qx 'round 3' work.txt"] * 2]


def test_the_criteria_of_earlier_stages_hold_for_what_lands(tmp_path: Path) -> None:
    """A reviewer may mend things; what it breaks of the coder's criteria it does not get past."""
    check = {
        "promise": "MADE",
        "verificationMethod": "external",
        "verificationConfig": {"command": "grep -q round work.txt"},
    }
    project = staged(
        tmp_path,
        "test $RALPH_STAGE = coder && echo round > work.txt || echo mended > work.txt\n" + PROMISE,
        tasks=[task("one", completion={"coder": check, "reviewer": {"maxIterations": 1}})],
    )
    assert project.ralph("run", "--no-retry-blocked").code == 3
    assert project.task_commits() == {}
    assert project.last.stage == "reviewer"
    assert project.last.verdict is not None
    assert project.last.verdict.hook == "criteria"
    assert "grep -q round work.txt" in project.last.feedback


# A task that is worked on again


def test_a_reopened_task_whose_work_still_stands_is_told_so_at_its_first_attempt(tmp_path: Path) -> None:
    project = staged(tmp_path, HONEST, stages=["coder"])
    assert project.ralph("run").code == 0
    commit = project.last.commit or ""
    assert project.ralph("task", "reopen", "one", "--reason", "look again").code == 0
    project.agent(KEEPS_THE_PROMPT + "echo more >> more.txt\n" + PROMISE)
    assert project.ralph("run").code == 0
    assert f"completed in commit {commit[:12]}, and reopened" in prompt(project, project.last)
    project.git("revert", "--no-edit", project.last.commit or "")
    project.ralph("task", "reopen", "one", "--reason", "it was reverted")
    project.agent(KEEPS_THE_PROMPT + "echo yet more >> more.txt\n" + PROMISE)
    assert project.ralph("run").code == 0
    assert "and reopened" not in prompt(project, project.last)


def test_the_final_review_looks_at_the_branch_and_reopens_the_tasks_concerned(tmp_path: Path) -> None:
    found = {"file": "made-two.txt", "lines": [1, 1], "type": "logic_bug", "severity": "high", "suggestion": ""}
    found |= {"description": "It is wrong.", "agentPrompt": "Write it twice."}
    project = staged(
        tmp_path,
        'if test -z "$RALPH_TASK"; then if mkdir "$BESIDE/reviewed" 2>/dev/null; then cat "$BESIDE/revise.json"; else\n'
        'echo \'{"decision": "SHIP", "issues": []}\'; fi; exit 0; fi\n'
        "echo made >> made-$RALPH_TASK.txt\n" + PROMISE,
        tasks=[task("one"), task("two")],
        stages=["coder"],
        defaults={"executor": "script", "finalReviewer": "script"},
    )
    (project.beside / "revise.json").write_text(json.dumps({"decision": "REVISE", "issues": [found]}))
    assert project.ralph("run").code == 0
    assert [record.task_id for record in project.records] == ["one", "two", "two"]
    assert "Write it twice." in prompt(project, project.last)


def test_a_task_has_its_own_way_with_git_and_its_own_limits(tmp_path: Path) -> None:
    own = {"limits": {"maxIterations": 2}, "git": {"rollback": "reset"}}
    project = staged(tmp_path, "echo x >> x.txt\n", stages=["coder"], tasks=[task("one", overrides=own), task("two")])
    assert project.ralph("run", "--max-iterations", "4").code != 0
    of = {name: [record for record in project.records if record.task_id == name] for name in ("one", "two")}
    assert [len(of["one"]), of["one"][0].rolled_back, of["two"][0].rolled_back] == [2, True, False]
