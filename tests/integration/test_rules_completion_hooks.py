"""The rules of spec completion-hooks that need the whole loop, by their numbers in tests/README.md."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rulebook_ralph.tasks.history import Iteration
from tests.conftest import isolate
from tests.harness import Project, Ran, make_project, task

AGENT = """\
case "$1" in --version) echo 1.0; exit ;; esac
cat > "$BESIDE/prompt-$RALPH_TASK-$RALPH_ATTEMPT"
echo $$ >> "$BESIDE/pids"
mkdir -p work
echo "attempt $RALPH_ATTEMPT" > "work/$RALPH_TASK.txt"
[ $RALPH_TASK != crash ] || { echo "nothing to read"; exit 3; }
cat "$BESIDE/stream-$RALPH_TASK-$RALPH_ATTEMPT"
"""
HOOK = """\
cat > {beside}/hook-$RALPH_TASK-$(ls {beside} | grep -c hook-$RALPH_TASK)
grep -q '"attempt": 1,' {beside}/hook-$RALPH_TASK-0 && [ ! -e {beside}/hook-$RALPH_TASK-1 ] || exit 0
echo "say it in the guide too" >&2
exit 2
"""
REPORT = {
    "status": "completed",
    "summary": "It was made.",
    "learnings": ["bricks are heavy"],
    "errors": ["one is loose"],
}


def played(tool: str, output: str, *, error: bool, final: str) -> str:
    """A run of claude with one command, as its stream of events."""
    use = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": tool}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": output, "is_error": error}
    events: list[dict[str, Any]] = [
        {"type": "assistant", "message": {"id": "m1", "content": [use]}},
        {"type": "user", "message": {"content": [result]}},
        {"type": "assistant", "message": {"id": "m2", "content": [{"type": "text", "text": final}]}},
        {"type": "result", "subtype": "success", "is_error": False, "result": final},
    ]
    return "".join(json.dumps(event) + "\n" for event in events)


@dataclass(frozen=True)
class Story:
    """`one` is stopped by the run's limit after its first attempt, which a hook refused, and resumed; `crash` crashes."""

    project: Project
    limited: Ran
    resumed: Ran

    def attempts(self, task_id: str) -> list[Iteration]:
        return [record for record in self.project.records if record.task_id == task_id]

    def prompt(self, task_id: str, attempt: int) -> str:
        return (self.project.beside / f"prompt-{task_id}-{attempt}").read_text("utf-8")

    def hook_input(self, call: int) -> dict[str, Any]:
        given: dict[str, Any] = json.loads((self.project.beside / f"hook-one-{call}").read_text("utf-8"))
        return given


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    with pytest.MonkeyPatch.context() as patch:
        isolate(patch, tmp_path_factory.mktemp("home"))
        return _told(tmp_path_factory.mktemp("story"))


def _told(folder: Path) -> Story:
    beside = folder / "beside"
    project = make_project(
        folder,
        agent=AGENT,
        tasks=(task("one", description="Lay the bricks."), task("crash", completion={"coder": {"maxIterations": 1}})),
        attempts=3,
        hooks=[{"name": "guide", "command": HOOK.format(beside=beside)}],
        tools={"executors": [{"id": "script", "type": "claude", "command": f"sh {beside}/agent.sh"}]},
    )
    report = f"```ralph-report\n{json.dumps(REPORT)}\n```\n<promise>IMPLEMENTATION_COMPLETE</promise>"
    first = played("make wall", "it fell", error=True, final=f"My own thoughts about walls.\n\n{report}")
    (beside / "stream-one-1").write_text(first, "utf-8")
    second = played("make wall again", "it stands", error=False, final=report)
    (beside / "stream-one-2").write_text(second, "utf-8")
    limited = project.ralph("run", "--max-iterations", "1")
    return Story(project, limited, project.ralph("resume"))


def test_ch1_every_iteration_is_a_fresh_agent_with_a_whole_prompt(story: Story) -> None:
    pids = (story.project.beside / "pids").read_text().split()
    assert len(pids) == 5
    for attempt in (1, 2):
        assert "Lay the bricks." in story.prompt("one", attempt)
        assert "# How it will be verified" in story.prompt("one", attempt)


def test_ch2_learnings_outlive_the_iteration_and_the_process(story: Story) -> None:
    assert "bricks are heavy" not in story.prompt("one", 1)
    assert "bricks are heavy" in story.prompt("one", 2)
    assert "bricks are heavy" in story.prompt("crash", 1)


def test_ch3_a_loop_comes_to_its_end_and_says_why(story: Story) -> None:
    assert story.limited.code == 4
    assert "the limit of one iteration is reached" in story.limited.out + story.limited.err
    assert story.resumed.code == 3
    assert [record.phase for record in story.project.records] == ["settled"] * 5


def test_ch5_the_next_attempt_is_told_what_was_wrong_with_the_last(story: Story) -> None:
    assert "# Feedback on the last attempt" not in story.prompt("one", 1)
    feedback = story.prompt("one", 2).partition("# Feedback on the last attempt")[2]
    assert "say it in the guide too" in feedback


def test_ch6_every_iteration_can_be_looked_at(story: Story) -> None:
    shown = story.project.ralph("show", "1")
    assert shown.code == 0
    assert "the hook 'guide' asks for another attempt: say it in the guide too" in shown.out
    assert story.project.ralph("show", "1", "--prompt").out.strip() == story.prompt("one", 1).strip()
    assert "it fell" in story.project.ralph("show", "1", "--raw").out


def test_ch7_hooks_are_configured_and_decide(story: Story) -> None:
    verdicts = [record.verdict for record in story.attempts("one")]
    assert [verdict and (verdict.action, verdict.hook) for verdict in verdicts] == [
        ("continue", "guide"),
        ("complete", "judge"),
    ]


def test_ch41_iterations_are_counted_and_tool_results_are_those_of_the_iteration(story: Story) -> None:
    assert [record.iteration_number for record in story.project.records] == [1, 2, 3, 4, 5]
    results = [record.tool_results for record in story.attempts("one")]
    assert [[(tool.command, tool.success) for tool in each] for each in results] == [
        [("make wall", False)],
        [("make wall again", True)],
    ]


def test_ch42_tool_results_reach_hooks_as_the_agents_stream_tells_them(story: Story) -> None:
    first, second = story.hook_input(0), story.hook_input(1)
    assert first["toolResults"] == [{"name": "Bash", "command": "make wall", "success": False, "output": "it fell"}]
    assert second["toolResults"][0]["output"] == "it stands"
    assert (first["iterationNumber"], second["iterationNumber"], second["attempt"]) == (1, 2, 2)
    assert first["durationMs"] > 0


def test_ch45_nothing_of_the_last_conversation_is_carried_over(story: Story) -> None:
    """Only what was distilled: no message, no output of a tool."""
    raw = story.attempts("one")[0].output
    assert "My own thoughts about walls." in raw
    assert "it fell" in raw
    assert "My own thoughts about walls." not in story.prompt("one", 2)
    assert "it fell" not in story.prompt("one", 2)


def test_ch46_every_settled_iteration_is_written_whether_it_goes_on_or_ends(story: Story) -> None:
    first, second = story.attempts("one")
    assert (first.completion_status, second.completion_status) == ("failed", "completed")
    entries = story.project.folder.progress.read_text("utf-8")
    assert entries.index("## Iteration 1 · one") < entries.index("## Iteration 2 · one")
    assert story.project.task("one").status == "completed"


def test_ch47_an_agent_that_crashed_leaves_its_record_too(story: Story) -> None:
    *_, crashed = story.attempts("crash")
    assert (crashed.agent_status, crashed.completion_status, crashed.phase) == ("failed", "blocked", "settled")
    assert crashed.verdict is not None
    assert crashed.verdict.hook == "agent"
    assert "## Iteration 3 · crash" in story.project.folder.progress.read_text("utf-8")
    assert story.project.task("crash").status == "blocked"


def test_ch48_an_iteration_keeps_files_tools_errors_verdict_and_the_end_of_the_output(story: Story) -> None:
    first = story.attempts("one")[0]
    assert first.files_changed == ("work/one.txt",)
    assert [tool.command for tool in first.tool_results] == ["make wall"]
    assert first.parsed is not None
    assert (first.parsed.summary, first.parsed.errors) == ("It was made.", ("one is loose",))
    assert first.verdict is not None
    assert "guide" in first.verdict.reason
    assert first.output


def test_ch49_progress_only_grows(story: Story) -> None:
    before = story.prompt("one", 2).partition("# Progress so far (progress.txt)\n")[2].partition("# Statuses now")[0]
    assert "## Iteration 1 · one" in before
    assert story.project.folder.progress.read_text("utf-8").startswith(before.rstrip("\n"))


def test_ch50_the_state_of_an_iteration_can_be_read_from_its_file(story: Story) -> None:
    file = story.project.folder.history / "iteration-2.json"
    state = json.loads(file.read_text("utf-8"))
    assert (state["taskId"], state["iterationNumber"], state["stopReason"]) == ("one", 2, "complete")
    assert state["startedAt"] <= state["endedAt"] <= state["timestamp"]
    assert state["parsed"]["promises"] == ["IMPLEMENTATION_COMPLETE"]
    assert state["parsed"]["errors"] == ["one is loose"]
    assert state["verdict"]["reason"] == "everything that is configured holds"


def test_ch59_the_run_shows_how_far_it_is(story: Story) -> None:
    assert "1 of at most 1 in this run · attempt 1 of 3" in story.limited.out + story.limited.err


def test_ch60_a_loop_that_was_ended_is_gone_on_with(story: Story) -> None:
    assert [record.attempt for record in story.attempts("one")] == [1, 2]
    assert list(story.project.task_commits()) == ["one"]
