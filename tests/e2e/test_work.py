"""Each genuine agent at work in the real loop: what it does well is committed, what it only says is not."""

import signal

from .clis import AIDER, ALL, CLAUDE, CODEX, OPENCODE, QWEN, of
from .house import ADD, DOUBLE, House
from .model.api import TOKENS
from .model.turns import Hang, Say, Shell
from .work import ADD_COMMIT, DONE, DOUBLE_COMMIT, PROMISE, adds, doubles

SECONDS_TO_START = 60
FIFTY_MEGABYTES = 50 * 1024 * 1024


@of(*ALL)
def test_two_tasks_become_two_verified_commits(house: House) -> None:
    """aider tells of its tokens in round numbers."""
    house.model.script = {ADD: [[*adds(), DONE]], DOUBLE: [[*doubles(), DONE]]}
    ended = house.ralph("run", "--json")
    assert (ended.result["success"], ended.result["completedCount"], ended.result["iterations"]) == (True, 2, 2)

    branch, agent = "ralph/calculator", house.cli.name
    assert house.git("log", "--reverse", "--format=%s", f"main..{branch}").splitlines() == [
        "Add two numbers",
        "Double a number",
        "ralph: state",
    ]
    for number, task, back, files in ((1, ADD, 2, ADD_COMMIT), (2, DOUBLE, 1, DOUBLE_COMMIT)):
        commit = house.git("rev-parse", f"{branch}~{back}").strip()
        record = house.iteration(number)
        assert (record["commit"], record["completionStatus"], record["taskId"]) == (commit, "completed", task)
        assert house.files_of(commit) == files
        trailers = [house.trailer(f"Ralph-{name}", commit) for name in ("Task", "Iteration", "Attempt", "Agent")]
        assert trailers == [task, str(number), "1", agent]
        assert {check["passed"] for check in record["checks"]} == {True}
        assert [tool["success"] for tool in record["toolResults"]] == [True] * (number + 1 if house.cli.tools else 2)
    assert house.git("status", "--porcelain") == ""
    assert [task["status"] for task in house.prd()["tasks"]] == ["completed", "completed"]
    used = house.model.answers * TOKENS
    assert house.prd()["totals"]["tokens"] == ended.result["tokens"]
    assert ended.result["tokens"] == used if house.cli is not AIDER else ended.result["tokens"] > 0


@of(*ALL)
def test_work_without_the_promise_is_gone_on_with(house: House) -> None:
    """The promise is quoted in prose and printed by a tool, which both is none."""
    quoted = Say(f"Once the docs are written I shall say {PROMISE}, but not yet.")
    house.model.script = {ADD: [[*adds(), Shell(f"echo '{PROMISE}'"), quoted], [DONE]]}
    house.ralph("run", "--task", ADD)
    first = house.iteration(1)
    assert (first["verdict"]["hook"], first["completionStatus"]) == ("promise", "failed")
    assert {check["passed"] for check in first["checks"]} == {True}
    assert "The promise was not given alone on its line: Once the docs" in house.model.prompts(ADD)[1]
    assert house.files_of(house.iteration(2)["commit"]) == ADD_COMMIT


@of(CLAUDE, CODEX, QWEN, OPENCODE)
def test_fifty_megabytes_of_a_tools_output_do_no_harm(house: House) -> None:
    house.model.script = {ADD: [[Shell(f"yes 0123456789abcdef | head -c {FIFTY_MEGABYTES}"), *adds(), DONE]]}
    house.ralph("run", "--task", ADD)
    assert (house.iterations(), house.task(ADD)["status"]) == (1, "completed")
    record = house.root / ".rulebook-ralph" / "history" / "iteration-1.json"
    assert record.stat().st_size < 200_000


@of(*ALL)
def test_ralph_killed_at_work_goes_on_where_it_was(house: House) -> None:
    """Its agent ends with it, in the sandbox. aider has but one answer to give."""
    first_half, second_half = adds()
    begun = [first_half, Hang(), second_half] if house.cli.tools else [Hang(), first_half, second_half]
    house.model.script = {ADD: [[*begun, DONE]]}
    process = house.start("run", "--task", ADD)
    assert house.model.hanging.wait(SECONDS_TO_START)
    process.kill()
    process.communicate()
    assert (process.returncode, house.task(ADD)["status"]) == (-signal.SIGKILL, "in_iteration")

    house.ralph("resume", "--task", ADD)
    assert house.processes() == []
    statuses = [house.iteration(number)["completionStatus"] for number in (1, 2)]
    assert (house.iterations(), statuses) == (2, ["interrupted", "completed"])
    assert house.task(ADD)["attempts"] == {"coder": 1}
    assert house.files_of(house.iteration(2)["commit"]) == ADD_COMMIT
