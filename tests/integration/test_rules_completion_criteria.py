"""The rules of spec completion-criteria that need real commands or the whole loop, by their numbers in tests/README.md."""

import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rulebook_ralph.tasks.criteria import Criteria, External, MultiStage, Part
from rulebook_ralph.tasks.criteria_reading import completion_faults
from rulebook_ralph.tasks.history import Iteration
from rulebook_ralph.tasks.model import Task
from rulebook_ralph.tasks.results import CheckResult
from rulebook_ralph.verify.case import Examination, StageCriteria
from rulebook_ralph.verify.criteria import verify_one
from rulebook_ralph.verify.evidence import Table
from tests.conftest import isolate
from tests.harness import Project, Ran, make_project, task
from tests.judging import Court

# External Validation


@pytest.fixture(scope="module")
def court(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Court]:
    with pytest.MonkeyPatch.context() as patch:
        isolate(patch, tmp_path_factory.mktemp("home"))
        yield Court(
            tmp_path_factory.mktemp("court"),
            {"api/a.py": "def go(): ...\n", "src/a.py": "def go(): ...\n"},
            verification={"parallel": True},
        )


def checked(court: Court, command: str, **settings: Any) -> CheckResult:
    external = External(command=command, **settings)
    return court.runner.command(court.repository.tree_of(court.base), external, step="coder")


def test_cc27_an_external_check_runs_at_the_root_and_passes_with_exit_code_0(court: Court) -> None:
    assert External(command="true").success_exit_code == 0
    assert checked(court, "test -d .git && test -f src/a.py").passed
    failed = checked(court, "exit 3")
    assert (failed.passed, failed.exit_code, failed.reason) == (False, 3, "exit code 3")


def test_cc28_success_exit_code_says_which_code_passes(court: Court) -> None:
    assert checked(court, "exit 3", success_exit_code=3).passed
    assert checked(court, "true", success_exit_code=3).reason == "exit code 0, expected 3"


@pytest.mark.parametrize(
    ("command", "passed"), [("echo 4 passed", True), ("echo 4 passed >&2", True), ("echo 4", False)]
)
def test_cc29_output_contains_must_be_in_the_output(court: Court, command: str, passed: bool) -> None:
    assert checked(court, command, output_contains="passed").passed == passed


@pytest.mark.parametrize(("command", "passed"), [("echo FAILED", False), ("echo FAILED >&2", False), ("echo ok", True)])
def test_cc30_output_not_contains_must_not_be_in_the_output(court: Court, command: str, passed: bool) -> None:
    assert checked(court, command, output_not_contains="FAILED").passed == passed


def test_cc31_a_timeout_fails_the_check_and_ends_all_that_it_started(court: Court) -> None:
    assert External(command="true").timeout == 300
    started = time.monotonic()
    mark = court.folder / "marks"
    late = checked(court, f"(while :; do echo x >> '{mark}'; sleep 0.05; done) & sleep 60", timeout=0.5)
    assert (late.passed, late.exit_code, late.reason) == (False, None, "did not end within 0.5 s")
    assert time.monotonic() - started < 10
    marks = mark.read_text()
    time.sleep(0.2)
    assert mark.read_text() == marks


def test_cc32_working_dir_is_a_folder_of_the_repository(court: Court) -> None:
    assert checked(court, "test -f a.py -a -d ../src", working_dir="api").passed
    assert not checked(court, "test -f a.py").passed
    for folder in ("..", "/tmp", "api/../.."):
        written = {
            "verification_method": "external",
            "verification_config": {"command": "true", "working_dir": folder},
        }
        (fault,) = completion_faults({"coder": written}, ())
        assert "must be a folder of the repository" in fault.message


@pytest.mark.parametrize(
    ("command", "passed"),
    [("echo fine", True), ("echo fine; exit 1", False), ("echo", False), ("echo fine but bad", False)],
)
def test_cc34_exit_code_and_both_texts_must_all_hold(court: Court, command: str, passed: bool) -> None:
    assert checked(court, command, output_contains="fine", output_not_contains="bad").passed == passed


def test_cc35_a_command_is_a_line_of_shell_and_may_be_several(court: Court) -> None:
    command = "test -f src/a.py &&\ntest -d src &&\ngrep -q 'def {0}' src/a.py\n"
    assert checked(court, command.format("go")).passed
    assert not checked(court, command.format("come")).passed


# Future Enhancements that are there


def verified(court: Court, *parts: Part, **settings: Any) -> bool:
    case = court.case(court.repository.tree_of(court.base))
    named = StageCriteria("coder", Criteria(promise="DONE", verification=MultiStage(stages=parts, **settings)))
    return verify_one(named, case, Examination(case, court.verifiers, Table(case, court.verifiers))).passed


def test_cc92_independent_external_parts_run_at_once_where_wanted(
    court: Court, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waits for the other: one after the other, neither would pass. Clones are there where processors are idle."""
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    wait = "touch {2}/{0}; for _ in $(seq 100); do [ -e {2}/{1} ] && exit 0; sleep 0.05; done; exit 1"
    parts = tuple(
        Part(name=own, method="external", config={"command": wait.format(own, other, court.folder)})
        for own, other in (("a", "b"), ("b", "a"))
    )
    assert verified(court, *parts, parallel=True)


def test_cc93_the_same_command_on_the_same_tree_runs_once(court: Court) -> None:
    mark = court.folder / "ran"
    parts = tuple(Part(name=name, method="external", config={"command": f"echo x >> '{mark}'"}) for name in ("c", "d"))
    assert verified(court, *parts)
    assert verified(court, *parts)
    assert mark.read_text() == "x\n"


# Task Creation Integration


def test_cc44_task_add_takes_the_criteria_of_each_stage(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    ran = project.ralph(
        *("task", "add", "TASK-001", "Implement JWT auth", "--outcome", "Endpoints require tokens"),
        *("--acceptance", "Middleware validates", "--acceptance", "Login gives a token"),
        *(
            "--coder-promise",
            "AUTH_IMPLEMENTED",
            "--coder-verify",
            "external",
            "--coder-verify-cmd",
            "grep -r verify src/",
        ),
        *("--tester-promise", "AUTH_TESTS_PASS", "--tester-verify", "external", "--tester-verify-cmd", "pytest tests"),
    )
    assert (ran.code, ran.err) == (0, "")
    added = project.task("TASK-001")
    assert (added.outcome, added.acceptance_criteria) == (
        "Endpoints require tokens",
        ("Middleware validates", "Login gives a token"),
    )
    assert added.completion == {
        stage: {
            "promise": promise,
            "verificationMethod": "external",
            "verificationConfig": {"command": command},
        }
        for stage, promise, command in (
            ("coder", "AUTH_IMPLEMENTED", "grep -r verify src/"),
            ("tester", "AUTH_TESTS_PASS", "pytest tests"),
        )
    }
    shown = project.ralph("task", "show", "TASK-001").out
    assert all(text in shown for text in ("AUTH_TESTS_PASS", "pytest tests", "Endpoints require tokens"))


def test_cc46_criteria_are_checked_when_a_task_is_made_and_the_fault_has_its_place(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    refused = project.ralph("task", "add", "two", "Second", "--coder-verify", "external")
    assert refused.code == 2
    assert "--coder-verify-cmd" in refused.err
    (project.root / "tasks.yaml").write_text(
        "- id: two\n  title: Second\n  completion:\n    qa:\n      verification_method: external\n"
        "      verification_config: {timeout: soon, command: make}\n"
    )
    refused = project.ralph("init", "--from", "tasks.yaml")
    assert refused.code == 2
    assert "tasks.yaml:6: " in refused.err
    assert "timeout" in refused.err
    assert [one.id for one in project.prd.tasks] == ["one"]


# The loop


@dataclasses.dataclass(frozen=True)
class Story:
    """One run over several tasks: `late` needs three attempts, the others are judged by what their name says."""

    project: Project
    ran: Ran

    def attempts(self, task_id: str) -> list[Iteration]:
        return [record for record in self.project.records if record.task_id == task_id]

    def task(self, task_id: str) -> Task:
        return self.project.task(task_id)

    def prompt(self, task_id: str, attempt: int) -> str:
        return (self.project.beside / f"prompt-{task_id}-{attempt}").read_text()


AGENT = """\
[ -n "$RALPH_TASK" ] || exit 127  # asked to judge: it cannot
cat > "$BESIDE/prompt-$RALPH_TASK-$RALPH_ATTEMPT"
mkdir -p work
echo "by attempt $RALPH_ATTEMPT" > "work/$RALPH_TASK.txt"
case $RALPH_TASK-$RALPH_ATTEMPT in
  late-1|never-*) echo "Not yet."; exit ;;
  late-3) echo ready >> work/late.txt ;;
  gone-2) printf '#!/bin/sh\\nexit 0\\n' > work/tool.sh; chmod +x work/tool.sh ;;
esac
echo "<promise>$RALPH_PROMISE</promise>"
"""


def by(command: str, most: int) -> dict[str, Any]:
    return {
        "verificationMethod": "external",
        "verificationConfig": {"command": command},
        "maxIterations": most,
    }


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    with pytest.MonkeyPatch.context() as patch:
        isolate(patch, tmp_path_factory.mktemp("home"))
        return _told(tmp_path_factory.mktemp("story"))


def _told(folder: Path) -> Story:
    looks = f"echo looked >> {folder}/beside/looked; cat work/late.txt; grep -q ready work/late.txt"
    judged = {"verificationMethod": "semantic", "verificationConfig": {"checkFor": ["there is a file"]}}
    tasks = (
        task("late", completion={"coder": {"promise": "LATE_DONE", **by(looks, 3)}}),
        task("never", completion={"coder": {"maxIterations": 1}}),
        task("wrong", completion={"coder": by("echo broken thing; exit 4", 1)}),
        task("gone", completion={"coder": by("work/tool.sh", 2)}),
        task("judged", completion={"coder": judged}),
    )
    project = make_project(folder, agent=AGENT, tasks=tasks, attempts=1)
    return Story(project, project.ralph("run"))


def test_cc5_work_is_tried_again_until_its_criteria_hold(story: Story) -> None:
    assert [record.completion_status for record in story.attempts("late")] == ["failed", "failed", "completed"]
    assert story.task("late").status == "completed"


def test_cc50_without_a_promise_the_criteria_are_not_run(story: Story) -> None:
    first, second, third = story.attempts("late")
    assert not any(check.method == "external" for check in first.checks)
    assert [[check.passed for check in each.checks if check.method == "external"] for each in (second, third)] == [
        [False],
        [True],
    ]


def test_cc51_a_promise_is_verified_before_it_counts(story: Story) -> None:
    second = story.attempts("late")[1]
    assert second.parsed is not None
    assert second.parsed.promises == ("LATE_DONE",)
    assert second.verdict is not None
    assert (second.verdict.action, second.verdict.hook) == ("continue", "criteria")


def test_cc52_verified_work_ends_the_task_with_one_commit(story: Story) -> None:
    last = story.attempts("late")[-1]
    assert story.project.task_commits()["late"] == last.commit
    assert last.stop_reason == "complete"


def test_cc54_the_limit_of_the_criteria_holds_in_the_loop(story: Story) -> None:
    """The configuration allows one attempt."""
    assert len(story.attempts("late")) == 3
    assert "attempt 2 of 3" in story.prompt("late", 2)
    assert story.task("judged").attempts == {"coder": 1}


def test_cc55_attempts_are_counted_from_one_and_each_counts_once(story: Story) -> None:
    assert [record.attempt for record in story.attempts("late")] == [1, 2, 3]
    assert story.task("late").attempts == {"coder": 3}
    numbers = [record.iteration_number for record in story.project.records]
    assert numbers == list(range(1, len(numbers) + 1))


def test_cc57_at_the_limit_without_a_promise_the_task_is_blocked(story: Story) -> None:
    never = story.task("never")
    assert never.status == "blocked"
    last = "1 of 1 attempt used; the last one: the promise IMPLEMENTATION_COMPLETE was not given"
    assert (never.blocked_reason or "").startswith(last)
    assert story.attempts("never")[-1].stop_reason == "max-iterations"


def test_cc59_a_failed_verification_goes_on_and_the_next_attempt_is_told_why(story: Story) -> None:
    told = story.prompt("late", 3).partition("# Feedback on the last attempt")[2]
    assert "What completes this stage does not hold yet." in told
    assert "Result: exit code 1" in told
    assert "Output:\nby attempt 2" in told


def test_cc60_at_the_limit_the_last_verification_is_the_reason(story: Story) -> None:
    wrong = story.task("wrong")
    assert wrong.status == "blocked"
    last = "1 of 1 attempt used; the last one: not met: coder: broken thing"
    assert (wrong.blocked_reason or "").startswith(last)


def test_cc61_every_verification_is_kept_with_verdict_reason_and_time(story: Story) -> None:
    second = story.attempts("late")[1]
    (check,) = [check for check in second.checks if check.method == "external"]
    assert (check.step, check.passed, check.reason, check.output) == ("coder", False, "exit code 1", "by attempt 2\n")
    assert second.started_at <= (second.ended_at or "")
    assert "not met: coder: by attempt 2" in story.project.folder.progress.read_text("utf-8")


def test_cc72_status_shows_how_far_the_loop_is(story: Story) -> None:
    status = story.project.ralph("status", "--json").json
    tasks = {each["id"]: each for each in status["tasks"]}
    assert tasks["late"]["attempts"] == {"coder": 3}
    assert tasks["wrong"]["blockedReason"] == story.task("wrong").blocked_reason
    assert status["iterationNumber"] == len(story.project.records)


def test_cc73_the_criteria_of_a_task_are_shown(story: Story) -> None:
    shown = story.project.ralph("task", "show", "late").out
    assert all(text in shown for text in ("LATE_DONE", "external", "grep -q ready work/late.txt", "3"))


def test_cc85_a_command_that_cannot_run_is_recorded_with_its_words(story: Story) -> None:
    (check,) = [check for check in story.attempts("gone")[0].checks if check.method == "external"]
    assert (check.command, check.exit_code, check.reason) == ("work/tool.sh", 127, "exit code 127")
    assert "not found" in check.output


def test_cc86_a_command_that_cannot_run_is_a_failed_verification(story: Story) -> None:
    first = story.attempts("gone")[0]
    assert first.verdict is not None
    assert (first.completion_status, first.verdict.hook) == ("failed", "criteria")


def test_cc87_after_a_command_that_could_not_run_the_loop_goes_on(story: Story) -> None:
    assert [record.completion_status for record in story.attempts("gone")] == ["failed", "completed"]
    assert story.ran.code == 3  # for the two that are blocked, and not for an error of Ralph's
    assert "Traceback" not in story.ran.out + story.ran.err


def test_cc90_after_a_model_that_failed_the_loop_goes_on(story: Story) -> None:
    (only,) = story.attempts("judged")
    assert [(check.method, check.skipped) for check in only.checks if check.method != "gate"][:1] == [
        ("semantic", True)
    ]
    assert story.task("judged").status == "completed"
    assert "warning: judged: " in story.ran.out + story.ran.err
