"""The rules of config-review-rollback.md that values alone can show; tests/README.md lists them."""

import json
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from rulebook_ralph.agents.question import Question
from rulebook_ralph.config.settings import Config, Defaults, Reviewer, Tools
from rulebook_ralph.run import prompt as brief
from rulebook_ralph.run.templates import Templates
from rulebook_ralph.tasks.model import CompletionSummary, Prd, Task
from rulebook_ralph.tasks.review import Review
from rulebook_ralph.tasks.struct_reading import camel
from rulebook_ralph.verify.review import ReviewedChange
from rulebook_ralph.verify.reviewers import checks_of, reviewer_in_loop, with_model
from tests.unit.run_prompt.situation import situation
from tests.unit.verify_models.support import Toy, project, scripted
from tests.unit.verify_models.test_review import asking

FACTS = CompletionSummary(files_created=("src/login.py",), exports_added=("login",))
LOGIN = Task(id="login", title="Log in", status="completed", summary="One can log in.", completion_summary=FACTS)


@cache
def toy() -> Toy:
    return project(Path(mkdtemp(prefix="ralph-rules-")))


def looked(*answers: str, **change: Any) -> tuple[Review, list[Question]]:
    """A quick review of a change that adds src/a.py, by a model that gives those answers."""
    ask, questions = scripted(*answers)
    tree = toy().tree({"src/a.py": "x\n"})
    about = ReviewedChange(**{"title": "Log in", "base": toy().base, "tree": tree, **change})
    return asking(toy(), ask).review(Reviewer(id="quick"), "quick", about, lambda _: None), questions


def needing(task: Task) -> str:
    needs = Task(id="next", title="Next", dependencies=(task.id,))
    return brief.render(situation(prd=Prd(version=1, project="toy", tasks=(task, needs)), task=needs)).moving


def test_cr1_a_task_is_given_the_files_to_look_at_first() -> None:
    given = brief.render(situation(task=Task(id="one", title="One", relevant_files=("src/a.py", "docs/b.md")))).prompt
    assert "# Files to look at first\n- src/a.py\n- docs/b.md\n" in given


def test_cr2_a_task_is_given_the_rules_of_the_project() -> None:
    rules = ("Use pnpm, never npm", "No new dependencies")
    assert Config(rules=rules).rules == rules
    assert all(f"\n- {rule}\n" in brief.render(situation(rules=rules)).stable for rule in rules)


def test_cr3_a_task_is_told_in_a_few_words_and_facts_what_it_builds_on() -> None:
    told = needing(LOGIN)
    assert "- login: Log in. One can log in.\n  files created: src/login.py\n" in told
    long = Task(id="login", title="Log in", status="completed", summary="raw output " * 5000)
    assert needing(long).count("raw output") < 1500


def test_cr4_a_task_is_given_the_facts_of_the_code_base() -> None:
    given = brief.render(situation(rules=("The package manager is pnpm",))).stable
    assert "\n- The package manager is pnpm\n" in given


def test_cr5_a_completed_task_leaves_a_summary_of_six_parts() -> None:
    assert [camel(name) for name in CompletionSummary.__struct_fields__] == [
        "summary",
        "filesCreated",
        "filesModified",
        "exportsAdded",
        "testsAdded",
        "verificationSteps",
    ]


def test_cr6_the_words_of_a_summary_are_the_agents_cut_to_a_share() -> None:
    told = needing(Task(id="login", title="Log in", status="completed", summary="It was " + "long " * 5000))
    assert "It was long" in told
    assert told.count("long") < 1500


def test_cr7_a_project_has_its_own_prompt_in_place_of_the_built_in_one() -> None:
    own = Templates((("coder.md.j2", "{% include 'builtin/coder.md.j2' %}And be brief.\n"),))
    assert brief.render(situation(), own).prompt == f"{brief.render(situation()).prompt}And be brief.\n"


# Structured reviews


REVIEWERS = (Reviewer(id="sonnet-quick", model="claude-sonnet-4-5"), Reviewer(id="plain", executor="anthropic"))


def test_cr12_the_quick_reviewer_is_sonnet_unless_it_says_otherwise() -> None:
    config = Config(tools=Tools(reviewers=REVIEWERS), defaults=Defaults(quick_reviewer="plain"))
    reviewer = reviewer_in_loop(config, LOGIN, "quick")
    assert reviewer is not None
    assert with_model(config, reviewer, "quick").model == "sonnet"
    assert with_model(config, REVIEWERS[0], "quick").model == "claude-sonnet-4-5"


def test_cr13_the_deep_reviewer_is_opus_unless_it_says_otherwise() -> None:
    config = Config(tools=Tools(reviewers=REVIEWERS), defaults=Defaults(deep_reviewer="plain"))
    reviewer = reviewer_in_loop(config, LOGIN, "deep")
    assert reviewer is not None
    assert with_model(config, reviewer, "deep").model == with_model(config, reviewer, "final").model == "opus"
    assert reviewer_in_loop(config, LOGIN, "quick") is None


def test_cr14_each_tier_looks_for_its_own() -> None:
    deep = ["Security", "Race conditions", "Memory leaks", "Error handling", "Logic bugs"]
    assert [check.partition(":")[0] for check in checks_of("quick", ())] == ["Syntax", "Types", "Obvious bugs"]
    assert [check.partition(":")[0] for check in checks_of("deep", ())] == deep
    assert [check.partition(":")[0] for check in checks_of("final", ())] == [*deep, "Accessibility", "Architecture"]


def test_cr15_a_reviewer_has_checks_of_its_own() -> None:
    assert [check.partition(":")[0] for check in checks_of("quick", ("security", "Uses pnpm"))] == [
        "Security",
        "Uses pnpm",
    ]


def test_cr16_the_reviewer_is_told_what_to_look_for_in_order_and_to_leave_taste_aside() -> None:
    _, (question,) = looked(json.dumps({"decision": "SHIP", "issues": []}))
    told = question.instructions
    places = [told.index(f"\n{number}. {check}") for number, check in enumerate(checks_of("quick", ()), start=1)]
    assert places == sorted(places)
    assert "taste" in told
    assert "`agentPrompt`" in told
