from typing import Any

import pytest

from rulebook_ralph.config.keys import given_value, place_of
from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks.text import JsonPath
from tests.cases import each_of

VALUES: dict[str, Any] = {
    "tools": {"executors": [{"id": "claude"}, {"id": "gpt-5.5"}], "+executors": [{"id": "more"}]},
    "prices": {"gpt-5.5": {"input": 1}},
    "limits": {"max_cost_usd": 3},
    "rules": ["a"],
    "verification": {"steps": [{"name": "Type Check", "env": {"A": "b"}}]},
}


@each_of(
    ("key", "path"),
    [
        ("limits", ("limits",)),
        ("limits.maxCostUsd", ("limits", "max_cost_usd")),
        ("limits.max_tokens", ("limits", "maxTokens")),
        ("rules.0", ("rules", 0)),
        ("rules[1]", ("rules", 1)),
        ("+rules", ("+rules",)),
        ("verification.+steps[0].name", ("verification", "+steps", 0, "name")),
        ("verification.steps.Type Check.timeout", ("verification", "steps", 0, "timeout")),
        ("verification.steps.0.env.A", ("verification", "steps", 0, "env", "A")),
        ("verification.steps[0].env.B.C", ("verification", "steps", 0, "env", "B.C")),
        ("tools.executors.claude.model", ("tools", "executors", 0, "model")),
        ("tools.executors.gpt-5.5.args.0", ("tools", "executors", 1, "args", 0)),
        ("tools.executors.2", ("tools", "executors", 2)),
        ("prices.gpt-5.5.input", ("prices", "gpt-5.5", "input")),
        ("prices.new-1.5.cached_input", ("prices", "new-1.5", "cachedInput")),
        ("prices.new-1.5", ("prices", "new-1.5")),
        ("tools.+executors.more.model", ("tools", "+executors", 0, "model")),
        ("ralph.agents.qa.executor", ("ralph", "agents", "qa", "executor")),
    ],
)
def test_a_key_leads_to_its_place(key: str, path: JsonPath) -> None:
    assert place_of(key, VALUES, also_new=True).path == path


@each_of(
    ("key", "said"),
    [
        ("limit.x", "limit: unknown key; did you mean `limits`?"),
        ("limits.maxcost", "limits.maxcost: unknown key; did you mean `maxCostUsd`?"),
        ("limits.maxCostUsd.x", "limits.max_cost_usd: is a single value, so that there is no `x` in it"),
        ("tools.executors.cloude.model", "tools.executors: there is no item `cloude`; did you mean `claude`?"),
        ("tools.executors.5", "tools.executors: there is no item `5`; there are: claude, gpt-5.5"),
        ("+limits", "+limits: `+` adds to a list, and `limits` is none"),
        ("", "'' is no key; keys are as in limits.maxCostUsd"),
        ("limits..x", "'limits..x' is no key"),
        (".limits", "'.limits' is no key"),
        ("rules[x]", "'rules[x]' is no key"),
    ],
)
def test_what_is_no_key_is_refused_with_the_nearest(key: str, said: str) -> None:
    with pytest.raises(RalphError) as refusal:
        place_of(key, VALUES)
    assert str(refusal.value).startswith(said)


@each_of(
    ("key", "text", "value"),
    [
        ("limits.maxCostUsd", ".5", 0.5),
        ("limits.maxCostUsd", "-1", -1),
        ("limits.maxCostUsd", "null", None),
        ("limits.idleTimeout", "15m", "15m"),
        ("verification.enabled", "false", False),
        ("defaults.executor", "007", "007"),
        ("git.rollback", "reset", "reset"),
        ("rules.0", "- no # tabs: ever", "- no # tabs: ever"),
        ("rules", "[a, 'b c']", ["a", "b c"]),
        ("verification.steps.0.env.A", "null", "null"),
        ("verification.steps.0.env", "{A: '1'}", {"A": "1"}),
    ],
)
def test_a_value_is_read_as_what_belongs_there(key: str, text: str, value: object) -> None:
    found = given_value(text, place_of(key, VALUES, also_new=True))
    assert found == value
    assert type(found) is type(value)
