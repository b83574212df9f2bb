"""What is surely as a schema has it: never what jsonschema refuses, and always what Ralph itself writes."""

from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.resources import schema
from rulebook_ralph.state.schema_check import faults_against
from rulebook_ralph.state.schema_quick import is_surely_valid

RECORD: dict[str, Any] = {
    "iterationNumber": 3,
    "timestamp": "2026-01-01T00:00:00.000Z",
    "startedAt": "2026-01-01T00:00:00Z",
    "phase": "settled",
    "taskId": "one",
    "stage": "coder",
    "attempt": 1,
    "agent": "claude",
    "baseCommit": "0" * 40,
    "prompt": "do it",
    "checks": [
        {
            "step": "tests",
            "method": "gate",
            "command": "make",
            "passed": True,
            "exitCode": 0,
            "durationMs": 5,
            "tests": 3,
        }
    ],
    "verdict": {"action": "complete", "hook": "", "reason": "", "counts": True},
    "usage": {"inputTokens": 3, "outputTokens": 4},
    "testsOnBase": {"tests": 3},
    "filesChanged": ["a"],
}
TASK: dict[str, Any] = {
    "id": "one",
    "title": "One",
    "priority": 1,
    "status": "pending",
    "dependencies": ["zero"],
    "acceptanceCriteria": [],
    "attempts": {"coder": 1},
    "startedAt": "2026-01-01T00:00:00.000Z",
    "completionSummary": {"filesCreated": ["a"]},
}
ODD = st.sampled_from([None, True, -1, 0, 1.0, 1.5, "", "x", "2026-01-01", [], [1], {}, {"a": -1}, {"a": True}])


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, each in inner for found in places(each, (*path, key)))]


@st.composite
def spoilt(draw: st.DrawFn, whole: dict[str, Any]) -> dict[str, Any]:
    document = deepcopy(whole)
    for _ in range(draw(st.integers(1, 3))):
        *above, last = draw(st.sampled_from(places(document)[1:]))
        there: Any = document
        for key in above:
            there = there[key]
        if isinstance(there, dict) and draw(st.booleans()):
            del there[last]
        else:
            there[last] = deepcopy(draw(ODD))
        known = sorted(schema("iteration")["properties"])
        document[draw(st.sampled_from([*known, "unknown"]))] = deepcopy(draw(ODD))
    return document


def test_what_ralph_writes_is_sure() -> None:
    assert list(faults_against(RECORD, "iteration")) == []
    assert is_surely_valid(RECORD, "iteration")
    assert is_surely_valid(TASK, "prd", "task")


@given(spoilt(RECORD), spoilt(TASK))
def test_what_jsonschema_refuses_is_never_sure(record: dict[str, Any], task: dict[str, Any]) -> None:
    if is_surely_valid(record, "iteration"):
        assert list(faults_against(record, "iteration")) == []
    if is_surely_valid(task, "prd", "task"):
        assert list(faults_against(task, "prd", "task")) == []
