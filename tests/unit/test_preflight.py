"""What is looked at before the first agent is paid, on values; with a real run: integration/test_validate_refusals.py."""

from rulebook_ralph.core.model import Prd, Task
from rulebook_ralph.core.settings import Config
from rulebook_ralph.loop.preflight import never_completed


def test_each_open_task_that_asks_for_a_gate_nobody_configured_is_told() -> None:
    lint = {"stopCriteria": {"requireLint": True}}
    tasks = (
        Task(id="lint", title="", overrides=lint),
        Task(id="done", title="", overrides=lint, status="completed"),
        Task(id="plain", title=""),
        Task(id="tests", title="", overrides={"stopCriteria": {"requirePassingTests": True}}),
        Task(id="alike", title="", overrides=lint),
    )
    prd = Prd(version=1, project="toy", tasks=tasks)
    told = [(task.id, problem.partition(" ")[0]) for task, problem in never_completed(Config(), prd)]
    assert told == [
        ("lint", "stopCriteria.requireLint"),
        ("tests", "stopCriteria.requirePassingTests"),
        ("alike", "stopCriteria.requireLint"),
    ]
