"""Every key of the configuration does something: for each leaf of its schema, what differs when it is set.

An entry is another value and what comes out otherwise then, or the name of the test that shows what the key does.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, cast

import msgspec

from rulebook_ralph.agents import registry
from rulebook_ralph.agents.logins import find_login
from rulebook_ralph.agents.prices import cost_of
from rulebook_ralph.checks import gates, step_selection
from rulebook_ralph.checks.shell import Surroundings
from rulebook_ralph.config_key import place_of
from rulebook_ralph.config_rules import checked
from rulebook_ralph.config_text import planted
from rulebook_ralph.core import requirements
from rulebook_ralph.core.evidence import Usage
from rulebook_ralph.core.model import Prd, Stage, Task
from rulebook_ralph.core.review import Tier
from rulebook_ralph.core.reviewers import reviewer_in_loop, reviewer_named, reviewer_of_branch, with_model
from rulebook_ralph.core.settings import Config
from rulebook_ralph.core.spending import nobody_pays
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop import expectations, preflight
from rulebook_ralph.loop.crew import Crew, settings_of
from rulebook_ralph.loop.options import RunOptions
from rulebook_ralph.loop.planning import planner
from rulebook_ralph.loop.preparation import iterations_allowed
from rulebook_ralph.loop.project import Project
from rulebook_ralph.resources import schema
from rulebook_ralph.state.store import StateFolder
from rulebook_ralph.workspace.repository import Repository
from tests.cases import each_of

TESTS = Path(__file__).parents[1]
TASK = Task(id="one", title="One", acceptance_criteria=("It works",), cost_usd=1, tokens=1000)
PRD = Prd(version=1, project="toy", created_at="", updated_at="", tasks=(TASK,))
BASE: dict[str, Any] = {
    "tools": {
        "executors": [{"id": "x", "type": "claude"}, {"id": "y", "type": "claude"}],
        "planners": [{"id": "p"}, {"id": "q"}],
        "reviewers": [{"id": "r", "executor": "x"}],
    },
    "defaults": {"executor": "x", "quickReviewer": "r"},
    "verification": {
        "steps": [{"name": "s", "command": 'echo $A; test -n "$A"'}, {"name": "other", "command": "true"}],
    },
    "prices": {"m": {"input": 1, "output": 2}},
}


@dataclass(frozen=True)
class Effect:
    """With `value` at the key something else comes out of `outcome`. `also` names a test of what that leads to."""

    value: Any
    outcome: Callable[[Config], object]
    also: str = ""


def argv(config: Config) -> object:
    agent: Any = registry.create(settings_of(config, "x"), {})
    return agent.argv()


def environment(config: Config) -> object:
    return Crew(config, {}).member("x").environment


def settings(config: Config) -> object:
    return settings_of(config, "x")


def attempts(stage: Stage) -> Callable[[Config], object]:
    return lambda config: requirements.max_attempts(config, TASK, stage)


def executor(stage: Stage) -> Callable[[Config], object]:
    return lambda config: requirements.executor_for(config, TASK, stage)


def asked_for(config: Config) -> object:
    return expectations.required(requirements.stop_criteria_for(config, TASK))


def stop_criteria(config: Config) -> object:
    return requirements.stop_criteria_for(config, TASK)


def results(config: Config) -> object:
    """The gates' results, run by a real shell."""
    verification = config.verification
    return [
        (result.step, result.passed, result.kind, result.required, result.attempts, result.output, result.reason)
        for result in gates.run_steps(
            verification.steps,
            root=TESTS,
            environment={"PATH": "/usr/bin:/bin"},
            clean=str,
            cancelled=Event(),
            started=lambda _: None,
            ended=lambda _: None,
            parallel=verification.parallel,
        )
    ]


def slow(config: Config) -> object:
    step = msgspec.structs.replace(config.verification.steps[0], command="exec sleep 0.3")
    return gates.run_step(step, Surroundings(TESTS, {"PATH": "/usr/bin:/bin"}, str, Event())).reason


def left_out(config: Config) -> object:
    return step_selection.skipped(config.verification.steps, ["README.md"])


def project(config: Config) -> Project:
    return Project(Path("/p"), StateFolder(Path("/p")), cast("Repository", None), config, {})


def refusal(config: Config) -> object:
    try:
        preflight.require_something_to_verify(project(config), PRD, trust_agent=False)
    except RalphError as error:
        return str(error)
    return ""


def judge(config: Config) -> object:
    return Crew(config, {}).judging_model(Event()).name


def judge_of_the_api(config: Config) -> object:
    return Crew(config, {"ANTHROPIC_API_KEY": "k"}).judging_model(Event()).name


def patience_of_the_judge(config: Config) -> object:
    return vars(Crew(config, {}).judging_model(Event()).ask)["_timeout"]


def who_plans(config: Config) -> object:
    return planner(config)


def who_reviews(tier: Tier) -> Callable[[Config], object]:
    return lambda config: reviewer_in_loop(config, TASK, tier)


def model_that_reviews(config: Config) -> object:
    asked = with_model(config, reviewer_named(config, "r"), "quick")
    return asked.executor, asked.model, asked.timeout


def summarizes(config: Config) -> object:
    return Crew(config, {}).summarizing_model(Event(), spend=nobody_pays) is not None


def cost(config: Config) -> object:
    usage = Usage(input_tokens=10, output_tokens=10, cache_read_tokens=10, cache_write_tokens=10)
    return cost_of(usage, config.prices["m"])


def roles() -> Iterator[tuple[str, "Effect | str"]]:
    stages: tuple[Stage, ...] = ("coder", "reviewer", "tester", "qa")
    for stage in stages:
        yield f"ralph.agents.{stage}.enabled", Effect(value=False, outcome=attempts(stage))
        yield f"ralph.agents.{stage}.executor", Effect("y", executor(stage))
        yield f"ralph.agents.{stage}.maxIterations", Effect(3, attempts(stage))


EFFECTS: Mapping[str, Effect | str] = {
    "tools.executors[].id": Effect("z", settings),
    "tools.executors[].type": Effect("codex", argv),
    "tools.executors[].command": Effect("my-claude", argv),
    "tools.executors[].args": Effect(["--more"], argv),
    "tools.executors[].env": Effect({"A": "b"}, environment),
    "tools.executors[].model": Effect("opus", argv),
    "tools.executors[].permissions": Effect("edit", argv),
    "tools.executors[].promptVia": Effect(
        "file", settings, "integration/test_command_agent::test_prompt_by_file_outside_the_workspace"
    ),
    "tools.executors[].endpoint": Effect(
        "http://localhost:1",
        lambda config: find_login(settings_of(config, "x"), {}, home=Path("/nowhere"), platform="linux").state,
        "integration/test_other_agents::test_opencode_attaches_to_a_server",
    ),
    "tools.executors[].name": Effect(
        "z",
        lambda config: Crew(config, {}).name_of("x"),
        "integration/test_summary::test_a_small_model_says_what_was_brought_about",
    ),
    "tools.executors[].fallback": Effect("y", lambda config: Crew(config, {}).chain("x")),
    "tools.planners[].id": Effect("z", who_plans),
    "tools.planners[].name": Effect(
        "z", who_plans, "integration/test_plan_command::test_the_api_plans_and_what_it_cost_is_told"
    ),
    "tools.planners[].executor": Effect(
        "y", who_plans, "integration/test_plan_command::test_a_planner_is_not_waited_for_beyond_its_time"
    ),
    "tools.planners[].model": Effect(
        "z", who_plans, "integration/test_plan_command::test_the_api_plans_and_what_it_cost_is_told"
    ),
    "tools.planners[].timeout": Effect(
        1, who_plans, "integration/test_plan_command::test_a_planner_is_not_waited_for_beyond_its_time"
    ),
    "tools.reviewers[].id": Effect("s", who_reviews("quick")),
    "tools.reviewers[].name": Effect(
        "s",
        who_reviews("quick"),
        "integration/test_review_loop::test_revise_leads_to_a_better_brief_and_ship_to_one_commit",
    ),
    "tools.reviewers[].executor": Effect(
        "y", model_that_reviews, "e2e/test_review::test_claude_reviews_what_claude_made"
    ),
    "tools.reviewers[].model": Effect("opus", model_that_reviews),
    "tools.reviewers[].timeout": Effect(1, model_that_reviews),
    "tools.reviewers[].checks": Effect(
        ["types"],
        who_reviews("quick"),
        "unit/test_review::test_each_tier_looks_for_its_own_and_a_reviewer_for_what_it_is_told",
    ),
    "defaults.executor": Effect("y", executor("coder")),
    "defaults.quickReviewer": Effect("y", who_reviews("quick")),
    "defaults.deepReviewer": Effect("r", who_reviews("deep")),
    "defaults.finalReviewer": Effect("y", lambda config: reviewer_of_branch(config, "final")),
    "defaults.planner": Effect("q", who_plans),
    "defaults.summarizer": Effect(
        "y", summarizes, "integration/test_summary::test_a_small_model_says_what_was_brought_about"
    ),
    "defaults.maxIterations": Effect(2, attempts("coder")),
    "rules": Effect(["Use tabs"], lambda config: requirements.rules_for(config, TASK)),
    "verification.enabled": Effect(value=False, outcome=refusal),
    "verification.parallel": Effect(value=True, outcome=results),
    "verification.clean": "integration/test_clean_checkout::test_what_git_does_not_hold_decides_nothing",
    "verification.steps[].name": Effect("t", results),
    "verification.steps[].command": Effect("echo no", results),
    "verification.steps[].kind": Effect("lint", results),
    "verification.steps[].required": Effect(value=False, outcome=results),
    "verification.steps[].timeout": Effect(0.05, slow),
    "verification.steps[].retries": Effect(1, results),
    "verification.steps[].when": Effect(["*.py"], left_out),
    "verification.steps[].workingDir": Effect("no-such-folder", results),
    "verification.steps[].env": Effect({"A": "b"}, results),
    "workspace.setup": "integration/test_clean_checkout::test_the_setup_runs_again_when_dependencies_change",
    "workspace.copy": "integration/test_clean_checkout::test_what_is_copied_and_linked_is_there",
    "workspace.link": "integration/test_clean_checkout::test_what_is_copied_and_linked_is_there",
    "stages": Effect(["coder", "qa"], lambda config: requirements.stages_of(config, TASK)),
    "stopCriteria.requirePromise": Effect(
        value=False, outcome=stop_criteria, also="unit/test_stop_criteria::test_the_promise_or_what_stands_for_it"
    ),
    "stopCriteria.requirePassingTests": Effect(value=True, outcome=refusal),
    "stopCriteria.requireLint": Effect(value=True, outcome=refusal),
    "stopCriteria.requireTypeCheck": Effect(value=True, outcome=refusal),
    "stopCriteria.requireNoErrors": Effect(
        value=True, outcome=asked_for, also="unit/test_stop_criteria::test_the_last_run_of_each_tool_command_counts"
    ),
    "stopCriteria.successRegex": Effect(
        "DONE", asked_for, "unit/test_stop_criteria::test_the_promise_or_what_stands_for_it"
    ),
    "stopCriteria.blockedRegex": Effect(
        "BLOCKED", stop_criteria, "unit/test_stop_criteria::test_a_pattern_says_that_the_agent_is_blocked"
    ),
    "hooks[].name": "integration/test_user_hooks::test_no_user_hook_can_bear_the_name_of_a_rule",
    "hooks[].command": "integration/test_user_hooks::test_what_a_command_answers",
    "hooks[].plugin": "integration/test_user_hooks::test_what_a_plugin_answers",
    "hooks[].priority": "integration/test_user_hooks::test_hooks_are_asked_in_the_order_of_their_priorities",
    "hooks[].required": "integration/test_user_hooks::test_what_is_no_answer_is_an_error_of_the_hook",
    "hooks[].timeout": "integration/test_user_hooks::test_what_is_no_answer_is_an_error_of_the_hook",
    "hooks[].env": "integration/test_user_hooks::test_environment_and_folder_of_a_command",
    "protect": "unit/test_integrity_rule::test_a_protected_file_is_no_tasks_to_change",
    "integrity.enabled": "unit/test_integrity_rule::test_switched_off_only_the_checks_of_the_checks_are_silent",
    "integrity.allow": "unit/test_integrity_rule::test_a_secret_that_was_there_or_is_allowed_is_not_told",
    "integrity.contradictions": (
        "unit/test_contradictions::test_without_a_claim_or_patterns_or_switched_off_it_says_nothing"
    ),
    "judge.executor": Effect("y", judge),
    "judge.model": Effect("sonnet", judge_of_the_api),
    "judge.timeout": Effect(1, patience_of_the_judge),
    "review.promptTokens": "unit/test_review::test_a_large_change_is_reviewed_in_parts_and_no_line_is_left_out",
    "ralph.enabled": Effect(value=False, outcome=attempts("coder")),
    "ralph.defaultMaxIterations": Effect(2, attempts("coder")),
    "ralph.defaultVerification": Effect(
        "semantic", lambda config: requirements.criteria_for(config, TASK, "coder").method
    ),
    **dict(roles()),
    "limits.maxIterations": Effect(
        2, lambda config: iterations_allowed(project(config), PRD, RunOptions(command="run"), ())
    ),
    "limits.maxRunWallTime": "unit/test_rules_completion_hooks::test_ch23_max_wall_time_of_a_task_and_of_a_run",
    "limits.maxCostUsd": Effect(1, lambda config: requirements.money_left(config.limits, TASK, spent=0.5)),
    "limits.maxTokens": "unit/test_budgets::test_a_run_s_tokens_are_a_limit",
    "limits.maxWallTime": "unit/test_rules_completion_hooks::test_ch23_max_wall_time_of_a_task_and_of_a_run",
    "limits.iterationTimeout": "integration/test_never_fooled::test_killed_by_a_limit_after_the_promise",
    "limits.idleTimeout": "integration/test_never_fooled::test_killed_by_a_limit_after_the_promise",
    "limits.maxTaskCostUsd": Effect(0.5, lambda config: requirements.has_spent_all(config.limits, TASK)),
    "limits.maxTaskTokens": Effect(500, lambda config: requirements.has_spent_all(config.limits, TASK)),
    "limits.promptTokens": "unit/test_brief::test_no_part_can_break_the_limit",
    "limits.onLimit": "unit/test_faults::test_what_a_limit_leads_to",
    "limits.maxLimitWait": "unit/test_faults::test_what_a_limit_leads_to",
    "prices.*.input": Effect(3, cost),
    "prices.*.output": Effect(3, cost),
    "prices.*.cachedInput": Effect(0.5, cost),
    "prices.*.cacheWrite": Effect(0.5, cost),
    "notify.urls": "integration/test_notification::test_a_run_tells_of_its_tasks_and_its_end",
    "notify.on": "unit/test_notify_urls::test_only_the_chosen_stop_reasons_are_told_of",
    "notify.taskCompleted": "integration/test_notification::test_a_run_tells_of_its_tasks_and_its_end",
    "notify.timeout": "integration/test_notification::test_a_service_that_does_not_answer_costs_the_timeout_and_a_warning",
    "git.rollback": "integration/test_honest_agents::test_rollback_gives_each_attempt_the_base",
    "git.workspace": "integration/test_parallel::test_a_person_goes_on_working_in_the_tree_meanwhile",
    "parallel.workers": "integration/test_parallel::test_tasks_marked_p_are_done_at_once_and_all_land",
    "parallel.all": "unit/test_selection::test_with_all_any_may_join_but_those_that_verify",
    "git.stateCommit": "integration/test_run::test_no_state_commits_where_none_are_wanted",
}


def leaves(part: dict[str, Any], definitions: dict[str, Any], path: str = "") -> Iterator[str]:
    """Every key of the schema that holds no others: `[]` for an item of a list, `.*` for a name of a person's own."""
    if "$ref" in part:
        part = definitions[part["$ref"].rpartition("/")[2]]
    items, others = part.get("items", {}), part.get("additionalProperties")
    if "properties" in part:
        for key, inner in part["properties"].items():
            yield from leaves(inner, definitions, f"{path}.{key}".lstrip("."))
    elif "$ref" in items:
        yield from leaves(items, definitions, f"{path}[]")
    elif isinstance(others, dict) and "$ref" in others:
        yield from leaves(others, definitions, f"{path}.*")
    else:
        yield path


DOCUMENT = schema("config")
LEAVES = tuple(leaves(DOCUMENT, DOCUMENT["$defs"]))


def configured(values: dict[str, Any]) -> Config:
    result = checked(values)
    assert not result.faults
    return msgspec.convert(result.tree, Config)


def test_every_key_of_the_schema_has_an_entry_and_nothing_else_has() -> None:
    assert set(EFFECTS) == set(LEAVES)
    assert len(LEAVES) == len(set(LEAVES)) > 60


@each_of("key", [key for key, effect in EFFECTS.items() if isinstance(effect, Effect)])
def test_a_key_that_is_set_has_its_effect(key: str) -> None:
    effect = EFFECTS[key]
    assert isinstance(effect, Effect)
    place = place_of(key.replace("[]", "[0]").replace("*", "m"), BASE)
    assert effect.outcome(configured(planted(BASE, place.path, effect.value))) != effect.outcome(configured(BASE))


def test_the_tests_that_are_named_are_there() -> None:
    named = {effect if isinstance(effect, str) else effect.also for effect in EFFECTS.values()} - {""}
    for name in named:
        file, _, function = name.partition("::")
        source = (TESTS / f"{file}.py").read_text("utf-8")
        assert re.search(rf"^ *def {function}\(", source, re.MULTILINE), name
