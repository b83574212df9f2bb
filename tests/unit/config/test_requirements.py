"""What holds for a task, from its own word, the configuration, and what a flag insists on."""

from pathlib import Path
from typing import Any

import pytest

from rulebook_ralph.config import requirements
from rulebook_ralph.config.layers import PROJECT_CONFIG, load_config
from rulebook_ralph.config.settings import Config, TaskLimits
from rulebook_ralph.tasks.model import Task


def task(**fields: Any) -> Task:
    return Task(id="a", title="", **fields)


def config(text: str = "", **flags: Any) -> Config:
    root = Path("/nowhere")
    return load_config(root, root, {}, flags, instead={root / PROJECT_CONFIG: text.encode()}).config


@pytest.mark.parametrize(
    ("text", "completion", "overrides", "stages"),
    [
        ("", {}, {}, ("coder",)),
        ("stages: [coder, qa]\n", {}, {}, ("coder", "qa")),
        ("", {"qa": {}, "tester": {}}, {}, ("coder", "tester", "qa")),
        ("stages: [coder, qa]\n", {}, {"stages": ["tester"]}, ("tester",)),
        ("stages: [coder, qa]\n", {"reviewer": {}}, {"stages": ["tester"]}, ("reviewer", "tester")),
    ],
)
def test_a_tasks_stages_are_the_configured_ones_and_every_role_its_completion_names(
    text: str, completion: Any, overrides: Any, stages: tuple[str, ...]
) -> None:
    assert requirements.stages_of(config(text), task(completion=completion, overrides=overrides)) == stages


def test_attempts_are_those_of_criteria_then_task_then_role_then_default_then_table() -> None:
    said = "ralph: {agents: {coder: {maxIterations: 7}}}\ndefaults: {maxIterations: 9}\n"
    own = {"limits": {"maxIterations": 3}}
    cases = [
        (said, {"coder": {"max_iterations": 2}}, own, 2),
        (said, {}, own, 3),
        (said, {}, {}, 7),
        ("defaults: {maxIterations: 9}\n", {}, {}, 9),
        ("", {}, {}, 15),
    ]
    for text, completion, overrides, attempts in cases:
        found = requirements.max_attempts(config(text), task(completion=completion, overrides=overrides), "coder")
        assert found == attempts
    insisting = config(said, defaults={"max_iterations": 1})
    assert requirements.max_attempts(insisting, task(overrides=own), "qa") == 1


def test_the_model_is_the_tasks_then_the_default_agents_then_the_agents_own() -> None:
    text = "tools: {executors: [{id: x, type: claude, model: own}, {id: y, type: claude, model: other}]}\n"
    text += "defaults: {executor: x, model: default}\n"
    assert requirements.model_for(config(text), task(overrides={"model": "mine"}), "coder") == "mine"
    assert requirements.model_for(config(text), task(), "coder") == "default"
    assert requirements.model_for(config(text), task(overrides={"executor": "y"}), "coder") == "other"
    insisting = config(text, defaults={"model": "flag"})
    assert requirements.model_for(insisting, task(overrides={"model": "mine"}), "coder") == "flag"


def test_a_tasks_limits_are_its_own_and_its_time_the_projects_where_it_says_none() -> None:
    own = {"limits": {"maxCostUsd": 2, "maxTokens": 100}}
    found = config("limits: {maxWallTime: 1h, maxCostUsd: 10}\n")
    assert requirements.limits_of(found, task(overrides=own)) == TaskLimits(
        max_wall_time=3600, max_cost_usd=2, max_tokens=100
    )
    assert requirements.wall_time_for(found, task(overrides={"limits": {"maxWallTime": "90s"}})) == 90
    assert requirements.over_budget(found, task(overrides=own, cost_usd=1.9, tokens=99)) == ""
    assert "overrides.limits.maxCostUsd" in requirements.over_budget(found, task(overrides=own, cost_usd=2.0))
    assert "overrides.limits.maxTokens" in requirements.over_budget(found, task(overrides=own, tokens=100))
    assert requirements.money_left(found, task(overrides=own, cost_usd=0.5), spent=4) == 1.5
    assert requirements.money_left(found, task(), spent=4, share=0.5) == 3
    assert requirements.money_left(config(), task(), spent=4) is None
