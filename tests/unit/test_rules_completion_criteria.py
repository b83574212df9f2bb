"""The rules of spec completion-criteria that values alone can show, each by its number in tests/README.md."""

import json
import re
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import click
import msgspec
import pytest
from msgspec.structs import replace

from rulebook_ralph.agents.models import full_name
from rulebook_ralph.agents.question import Question
from rulebook_ralph.cli.task_edit import add_command
from rulebook_ralph.config import requirements
from rulebook_ralph.config.settings import Config, Judge, Limits, Ralph, VerificationStep
from rulebook_ralph.errors import RalphError
from rulebook_ralph.run import policy, preflight
from rulebook_ralph.run import prompt as brief
from rulebook_ralph.run.policy import AttemptContext, RunTally
from rulebook_ralph.tasks import parser, prd_file
from rulebook_ralph.tasks.criteria import Criteria, External, MultiStage, Part, Semantic, StringMatch
from rulebook_ralph.tasks.criteria_reading import read_criteria
from rulebook_ralph.tasks.history import Decision
from rulebook_ralph.tasks.importers.task_lists import read_all
from rulebook_ralph.tasks.model import Prd, Stage, Task
from rulebook_ralph.tasks.results import AgentResult, CheckResult, ParsedIteration, Verdict, Verified
from rulebook_ralph.tasks.text import Fault
from rulebook_ralph.verify import criteria as verification
from rulebook_ralph.verify import rules
from tests.unit.run_prompt.situation import situation
from tests.unit.verify_models.support import Toy, attempt, project, shown

STAGES: tuple[Stage, ...] = ("coder", "reviewer", "tester", "qa")
ROLES = pytest.mark.parametrize("stage", STAGES)
CHECK = {"verification_method": "external", "verification_config": {"command": "make check"}}
GREETING = {"greet.py": "def greet(name):\n    return f'Hello, {name}'\n"}
GREET = Semantic(check_for=("defines `def greet`",))


@cache
def toy() -> Toy:
    return project(Path(mkdtemp(prefix="ralph-rules-")))


def read(written: dict[str, Any], stage: Stage = "coder") -> Criteria:
    faults: list[Fault] = []
    found = read_criteria(written, stage, (), faults)
    assert not faults, faults
    assert found is not None
    return found


def task(**values: Any) -> Task:
    return Task(**({"id": "one", "title": "Do one"} | values))


def prompt(
    one: Task, stage: Stage = "coder", *, steps: tuple[VerificationStep, ...] = (), config: Config | None = None
) -> str:
    """The prompt for a task's stage in its second attempt, the third iteration of nine."""
    given = situation(
        prd=Prd(version=1, project="toy", tasks=(one,)),
        task=one,
        stage=stage,
        config=config,
        steps=steps,
        iteration=3,
        attempt=2,
    )
    return brief.render(given).prompt


def settled(verdict: Verdict, *, attempt: int, allowed: int) -> Decision:
    standing = AttemptContext(
        verdict, verdict.feedback, "coder", ("coder",), attempt, {"coder": allowed}, {}, time_left=60
    )
    return policy.settle(standing)


def promise_of(text: str) -> Verdict | None:
    """What is said of the promise in a final message."""
    return rules.promise_given(*attempt(toy(), GREETING, said=text))


def said(text: str) -> ParsedIteration:
    return parser.parse(AgentResult(agent="test", status="finished", final_text=text))


def honest(question: Question) -> str:
    """Yes where a shown line holds all that stands in backquotes in the criterion, pointing to the first such line."""
    rulings = []
    for item in json.loads(question.data)["items"]:
        wanted = re.findall(r"`([^`]+)`", item["question"])
        lines = [
            (file, number, line) for file, lines in shown(question).items() for number, line in enumerate(lines, 1)
        ]
        places = [next(((f, n) for f, n, line in lines if one in line), None) for one in wanted]
        met = bool(places) and all(places)
        file, line = places[0] if met and places[0] else ("", 0)
        answer = "yes" if met else "no"
        rulings.append({"item": item["item"], "answer": answer, "file": file, "line": line, "reason": "so"})
    return json.dumps({"items": rulings})


def verified(criteria: Criteria, *, promised: bool = True, **values: Any) -> Verified:
    """What the criteria say of work whose agent gave the promise, unless told otherwise."""
    text = f"Done.\n<promise>{criteria.promise}</promise>\n" if promised else "Done.\n"
    files = values.pop("files", GREETING)
    return verification.verify(*attempt(toy(), files, criteria=criteria, **{"said": text, "ask": honest, **values}))


def judged(wanted: Semantic, files: Any = GREETING, *, final_message: str = "Done.", **values: Any) -> CheckResult:
    if "acceptance_criteria" in values:
        values["task"] = task(acceptance_criteria=values.pop("acceptance_criteria"))
    text = f"{final_message}\n<promise>DONE</promise>\n"
    criteria = Criteria(promise="DONE", verification=wanted)
    return verified(criteria, files=files, said=text, **values).results[0]


# Goals


def test_cc1_outcome_and_acceptance_criteria_are_part_of_every_task() -> None:
    one = task(outcome="People are greeted", acceptance_criteria=("it says hello", "it knows the name"))
    data = prd_file.encode_prd(Prd(version=1, project="toy", tasks=(one,)))
    (written,) = json.loads(data)["tasks"]
    assert written["outcome"] == "People are greeted"
    assert written["acceptanceCriteria"] == ["it says hello", "it knows the name"]
    assert prd_file.decode_prd(data, name="prd.json").tasks == (one,)


def test_cc2_criteria_of_a_stage_are_optional_and_stand_beside_the_defaults_of_the_others() -> None:
    one = task(completion={"tester": CHECK})
    found = {stage: requirements.criteria_for(Config(), one, stage) for stage in STAGES}
    assert found["tester"].verification == External(command="make check")
    assert all(found[stage].verification == StringMatch() for stage in STAGES if stage != "tester")


def test_cc4_the_agent_is_told_before_it_works_what_ralph_will_run() -> None:
    text = prompt(task(completion={"coder": CHECK}), steps=(VerificationStep(name="unit", command="make unit"),))
    assert "Ralph runs `make check`" in text
    assert "unit: `make unit`" in text


def test_cc7_attempts_come_to_an_end_for_every_stage() -> None:
    failed = Verdict(action="continue", hook="criteria", reason="no")
    for stage in STAGES:
        allowed = requirements.max_attempts(Config(), task(), stage)
        assert settled(failed, attempt=allowed - 1, allowed=allowed).trigger == "retry"
        assert settled(failed, attempt=allowed, allowed=allowed).trigger == "block"


# Task Completion Data Model


def test_cc8_a_keyword_or_the_promise_alone_never_completes() -> None:
    """The promise proves nothing (whole runs: test_evidence_of_runs.py), and a keyword is no promise."""
    assert not verified(Criteria(promise="DONE")).proven
    verdict = promise_of("Verified. All tests passed. DONE. Task complete.")
    assert verdict is not None
    assert verdict.hook == "promise"


@ROLES
def test_cc15_a_stage_has_the_criteria_that_bear_its_name(stage: Stage) -> None:
    one = task(completion={each: {"promise": f"BY_{each}".upper()} for each in STAGES})
    assert requirements.criteria_for(Config(), one, stage).promise == f"BY_{stage}".upper()


def test_cc16_a_task_has_the_fields_of_the_specification_and_its_criteria(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(
        "id: T1\nspec_id: greeting\ntitle: Greet\ndescription: Say hello\nstatus: pending\npriority: 3\n"
        "dependencies: []\nmetadata: {team: a}\ncompletion_spec:\n  outcome: Greeted\n  coder: {promise: MADE}\n"
    )
    (read_task,) = read_all([tmp_path / "t.yaml"], root=tmp_path).tasks
    assert (read_task.id, read_task.title, read_task.description) == ("T1", "Greet", "Say hello")
    assert (read_task.status, read_task.priority, read_task.dependencies) == ("pending", 3, ())
    assert read_task.metadata == {"team": "a", "specId": "greeting"}
    assert (read_task.outcome, read_task.completion) == ("Greeted", {"coder": {"promise": "MADE"}})


# String Match


@pytest.mark.parametrize(
    ("given", "passed"), [("MADE IT", True), ("MADE \t IT", True), ("made it", False), ("MADE IT TOO", False)]
)
def test_cc18_string_match_wants_the_very_token(given: str, passed: bool) -> None:
    assert verified(Criteria(promise="MADE IT"), said=f"<promise>{given}</promise>").passed == passed


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Done.\n<promise>MADE</promise>", ("MADE",)),
        ("I will say <promise>MADE</promise> later", ()),
        ("`<promise>MADE</promise>` is what I say later", ()),
        ("MADE", ()),
    ],
)
def test_cc19_the_promise_stands_alone_on_its_line_in_the_final_message(text: str, found: tuple[str, ...]) -> None:
    result = AgentResult(agent="test", status="finished", final_text=text, output="<promise>MADE</promise>\n" + text)
    assert parser.parse(result).promises == found


# Semantic Analysis


def test_cc23_the_model_is_the_one_that_is_named_else_a_small_one() -> None:
    asked: list[str] = []

    def ask(question: Question) -> str:
        asked.append(question.model)
        return honest(question)

    judged(replace(GREET, model="sonnet"), ask=ask)
    judged(GREET, ask=ask)
    assert asked == ["sonnet", ""]
    assert Judge().model == "haiku"
    assert "haiku" in full_name("haiku")


# Multi-Stage Verification


def part(name: str, passes: bool, **values: Any) -> Part:
    """Its command passes where its text says so; nothing is really run."""
    return Part(
        **({"name": name, "method": "external", "config": {"command": f"{str(passes).lower()} {name}"}} | values)
    )


def staged(*parts: Part, **settings: Any) -> tuple[Verified, list[str]]:
    """What is said of the parts, and which were run, in order."""
    criteria = Criteria(promise="DONE", verification=MultiStage(stages=parts, **settings))
    found = verified(criteria)
    return found, [result.step.partition("/")[2] for result in found.results if "/" in result.step]


def test_cc40_the_tasks_acceptance_criteria_are_put_in() -> None:
    written = {"verification_method": "semantic", "verification_config": {"check_for": "{{acceptance_criteria}}"}}
    wanted = read(written, "qa").verification
    assert isinstance(wanted, Semantic)
    found = judged(wanted, acceptance_criteria=("defines `def greet`", "defines `def part`"))
    assert [finding.met for finding in found.findings] == [True, False]


@pytest.mark.parametrize(
    ("promised", "greets", "passed"), [(True, True, True), (False, True, False), (True, False, False)]
)
def test_cc41_every_method_inside_really_runs_nested_ones_too(promised: bool, greets: bool, passed: bool) -> None:
    inner = {"stages": [{"name": "promise", "method": "string_match"}]}
    looks = {"checkFor": [GREET.check_for[0] if greets else "defines `def part`"]}
    parts = (
        Part(name="nested", method="multi_stage", config=inner),
        Part(name="judge", method="semantic", config=looks),
    )
    criteria = Criteria(promise="IMPLEMENTATION_COMPLETE", verification=MultiStage(stages=parts))
    assert verified(criteria, promised=promised).passed == passed


# Task Creation Integration


def test_cc45_every_stage_has_the_same_options() -> None:
    given = {option for each in add_command.params if isinstance(each, click.Option) for option in each.opts}
    assert {"--outcome", "--acceptance", "--depends", "--priority"} <= given
    for stage in STAGES:
        assert {
            f"--{stage}-{name}" for name in ("promise", "description", "verify", "verify-cmd", "max-iterations")
        } <= given


def test_cc47_a_list_of_tasks_with_criteria_is_read_as_a_generator_writes_it(tmp_path: Path) -> None:
    (tmp_path / "tasks.yaml").write_text(
        "- id: T1\n  title: First\n  completion:\n    outcome: It runs\n    acceptance_criteria: [it starts, it ends]\n"
        "    tester: {promise: TESTED, verification_method: external, verification_config: {command: make test}}\n"
        "    qa:\n      verification_method: multi_stage\n      verification_config:\n        stages:\n"
        "          - {name: all, method: external, config: {command: make}}\n"
        '          - {name: criteria, method: semantic, config: {check_for: "{{acceptance_criteria}}"}}\n'
        "- id: T2\n  title: Second\n  dependencies: [T1]\n"
    )
    first, second = read_all([tmp_path / "tasks.yaml"], root=tmp_path).tasks
    assert (first.outcome, first.acceptance_criteria) == ("It runs", ("it starts", "it ends"))
    assert read(first.completion["tester"], "tester").verification == External(command="make test")
    assert read(first.completion["qa"], "qa").method == "multi_stage"
    assert second.dependencies == ("T1",)


def test_cc48_strict_refuses_a_task_without_criteria() -> None:
    prd = Prd(version=1, project="toy", tasks=(task(), Task(id="two", title="Two", acceptance_criteria=("it runs",))))
    with pytest.raises(RalphError, match="no criteria of their own: one;"):
        preflight.look_at_criteria(prd, strict=True, notice=lambda *_: None)
    whole = replace(prd, tasks=prd.tasks[1:])
    preflight.look_at_criteria(whole, strict=True, notice=lambda *_: pytest.fail("nothing is to be told"))


# Architecture


@pytest.mark.parametrize(("attempt", "trigger", "reason"), [(1, "retry", None), (3, "block", "max-iterations")])
def test_cc56_without_a_promise_it_goes_on_up_to_the_limit(attempt: int, trigger: str, reason: str | None) -> None:
    verdict = promise_of("All is well.")
    assert verdict is not None
    assert (verdict.action, verdict.reason) == ("continue", "the promise DONE was not given")
    decision = settled(verdict, attempt=attempt, allowed=3)
    assert (decision.trigger, decision.stop_reason) == (trigger, reason)


def test_cc58_work_verified_in_the_last_attempt_counts() -> None:
    assert settled(Verdict(action="complete"), attempt=3, allowed=3).trigger == "complete"


@pytest.mark.parametrize(
    ("text", "promises"),
    [("<PROMISE> MADE \t IT </promise>", ("MADE IT",)), ("<promise>MADE", ()), ("<promise></promise>", ())],
)
def test_cc62_the_promise_is_taken_from_its_tag_trimmed(text: str, promises: tuple[str, ...]) -> None:
    assert said(f"Done.\n{text}\n").promises == promises


def test_cc63_a_stage_is_verified_by_the_method_it_names() -> None:
    def by(verification: StringMatch | Semantic | MultiStage, **values: Any) -> tuple[bool, list[str]]:
        found = verified(Criteria(promise="IMPLEMENTATION_COMPLETE", verification=verification), **values)
        return found.passed, [result.method for result in found.results]

    staged = MultiStage(stages=(Part(name="promise", method="string_match"),))
    assert by(StringMatch()) == (True, [])  # the promise is a rule of its own, and no check that was run
    assert by(StringMatch(), promised=False) == (False, [])
    assert by(GREET, promised=False) == (True, ["semantic"])
    assert by(staged) == (True, ["string_match", "multi_stage"])


# The default criteria, and the prompt


@pytest.mark.parametrize("method", ["string_match", "semantic"])
def test_cc64_a_stage_without_criteria_is_verified_against_the_acceptance_criteria_where_configured(
    method: Any,
) -> None:
    config = Config(ralph=Ralph(default_verification=method))
    found = requirements.criteria_for(config, task(outcome="Greeted", acceptance_criteria=("it greets",)), "reviewer")
    assert (found.promise, found.description, found.method) == ("REVIEW_PASSED", "Greeted", method)
    if isinstance(found.verification, Semantic):
        assert verification.criteria_of(found.verification, ("it greets",)) == ("it greets",)


def test_cc65_the_prompt_says_which_iteration_and_attempt_of_how_many_it_is_and_of_which_stage() -> None:
    text = prompt(task(), "reviewer")
    assert "Iteration 3 of at most 9 in this run; attempt 2 of 5 at this task (reviewer stage)." in text


def test_cc66_the_prompt_says_the_outcome() -> None:
    assert "Outcome: People are greeted" in prompt(task(outcome="People are greeted"))


def test_cc67_the_prompt_lists_each_acceptance_criterion() -> None:
    text = prompt(task(acceptance_criteria=("it says hello", "it knows the name")))
    assert "Acceptance criteria:\n- it says hello\n- it knows the name\n" in text


def test_cc68_the_prompt_says_what_the_stage_must_bring_about() -> None:
    one = task(completion={"tester": {"description": "Every edge is tested."}})
    assert "What your stage (tester) must bring about: Every edge is tested." in prompt(one, "tester")


def test_cc69_the_prompt_says_how_to_promise_and_never_spells_the_tag_out() -> None:
    text = prompt(task(title="Say <promise>MADE</promise>", completion={"coder": {"promise": "MADE"}}))
    assert "the word MADE, and the closing tag" in text
    assert not re.search(r"<\s*promise\s*>", text, re.IGNORECASE)
    repeated = parser.parse(AgentResult(agent="parrot", status="finished", final_text=text))
    assert repeated.promises == ()


def test_cc70_the_prompt_says_by_which_means_it_is_verified() -> None:
    config = {"command": "make a", "success_exit_code": 3, "output_contains": "fine", "output_not_contains": "bad"}
    parts = [
        {"name": "run", "method": "external", "config": config},
        {"name": "look", "method": "semantic", "config": {"check_for": ["it is safe"], "negative_patterns": ["FIXME"]}},
    ]
    text = prompt(
        task(completion={"qa": {"verification_method": "multi_stage", "verification_config": {"stages": parts}}}), "qa"
    )
    assert "run: Ralph runs `make a`; it must end with exit code 3 and print 'fine' and not print 'bad'." in text
    assert "look: A model judges" in text
    assert "it is safe" in text
    assert "may contain: FIXME" in text


@ROLES
def test_cc71_the_prompt_warns_of_false_promises_and_asks_why_if_blocked(stage: Stage) -> None:
    text = " ".join(prompt(task(), stage).split())
    assert "When all of it is truly done, end your final message with" in text
    assert "completes the task only if they pass" in text
    assert "If you cannot go on without a person, say why" in text


# Configuration Reference, Per-Agent Defaults


def test_cc74_tasks_from_before_there_were_criteria_are_read_as_they_are() -> None:
    old = b'{"version": 1, "project": "toy", "tasks": [{"id": "one", "title": "Do one"}]}'
    (one,) = prd_file.decode_prd(old, name="prd.json").tasks
    assert (one.outcome, one.acceptance_criteria, one.completion) == ("", (), {})
    assert requirements.criteria_for(Config(), one, "coder") == Criteria(promise="IMPLEMENTATION_COMPLETE")


def test_cc75_work_is_tried_again_unless_told_otherwise() -> None:
    assert all(requirements.max_attempts(Config(), task(), stage) > 1 for stage in STAGES)


def test_cc77_the_default_verification_is_string_match() -> None:
    assert Config().ralph.default_verification == "string_match"
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"defaultVerification": "trust"}, Ralph)


@pytest.mark.parametrize(("stage", "most"), [("coder", 15), ("reviewer", 5), ("tester", 10), ("qa", 5)])
def test_cc78_each_agent_has_its_own_limit(stage: Stage, most: int) -> None:
    assert requirements.max_attempts(Config(), task(), stage) == most


@pytest.mark.parametrize(
    ("stage", "token"),
    [
        ("coder", "IMPLEMENTATION_COMPLETE"),
        ("reviewer", "REVIEW_PASSED"),
        ("tester", "TESTS_PASSED"),
        ("qa", "QA_PASSED"),
    ],
)
def test_cc79_each_agent_has_its_own_promise(stage: Stage, token: str) -> None:
    assert requirements.criteria_for(Config(), task(), stage).promise == token
    assert read({"description": "said without a promise"}, stage).promise == token


@ROLES
def test_cc80_no_agent_has_a_method_of_its_own_the_configured_default_holds_for_all(stage: Stage) -> None:
    one = task(acceptance_criteria=("it greets",))
    assert requirements.criteria_for(Config(), one, stage).method == "string_match"
    config = Config(ralph=Ralph(default_verification="semantic"))
    assert requirements.criteria_for(config, one, stage).method == "semantic"
    assert requirements.criteria_for(config, task(), stage).method == "string_match"


# Example: Complete Task Definition

WHOLE = """\
task:
  id: TASK-001
  spec_id: doors
  title: "A door that locks"
  description: |
    Doors get a lock.
    Keys open it.
  priority: 1
  dependencies: []
  completion:
    outcome: "No door opens without its key"
    acceptance_criteria: ["a wrong key is refused", "a key can be revoked"]
    coder:
      promise: "LOCK_MADE"
      description: "The lock is there"
      verification_method: external
      verification_config:
        command: |
          test -f src/lock.py &&
          grep -q "def turn" src/lock.py
        success_exit_code: 0
      max_iterations: 15
    reviewer:
      promise: "LOCK_REVIEWED"
      verification_method: semantic
      verification_config:
        check_for: ["no key stands in the code"]
        negative_patterns: ["TODO", "key ="]
      max_iterations: 5
    tester:
      promise: "LOCK_TESTED"
      verification_method: external
      verification_config: {command: "pytest -v", success_exit_code: 0, output_not_contains: "FAILED"}
      max_iterations: 10
    qa:
      promise: "LOCK_ACCEPTED"
      verification_method: multi_stage
      verification_config:
        require_all: true
        stages:
          - {name: tests, method: external, config: {command: "pytest"}, required: true}
          - {name: accepted, method: semantic, config: {check_for: ["a wrong key is refused"]}, required: true}
      max_iterations: 5
"""


def test_cc81_a_whole_definition_with_all_four_stages_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / "task.yaml").write_text(WHOLE)
    (one,) = read_all([tmp_path / "task.yaml"], root=tmp_path).tasks
    found = {stage: requirements.criteria_for(Config(), one, stage) for stage in STAGES}
    assert [found[stage].method for stage in STAGES] == ["external", "semantic", "external", "multi_stage"]
    assert [found[stage].max_iterations for stage in STAGES] == [15, 5, 10, 5]
    assert [found[stage].promise for stage in STAGES] == ["LOCK_MADE", "LOCK_REVIEWED", "LOCK_TESTED", "LOCK_ACCEPTED"]
    assert found["coder"].verification == External(
        command='test -f src/lock.py &&\ngrep -q "def turn" src/lock.py\n', success_exit_code=0
    )
    assert found["reviewer"].verification == Semantic(
        check_for=("no key stands in the code",), negative_patterns=("TODO", "key =")
    )


# Error Handling


def test_cc82_a_task_without_criteria_is_warned_about_once() -> None:
    told: list[tuple[str, str]] = []
    prd = Prd(
        version=1,
        project="toy",
        tasks=(task(), Task(id="two", title="Two"), Task(id="old", title="", status="completed")),
    )
    preflight.look_at_criteria(prd, strict=False, notice=lambda *said: told.append(said))
    ((level, text),) = told
    assert level == "warning"
    assert "one, two" in text
    assert "old" not in text


@ROLES
def test_cc83_a_task_without_criteria_has_those_of_the_agents_role(stage: Stage) -> None:
    roles = {stage: requirements.criteria_for(Config(), task(), stage).promise for stage in STAGES}
    assert len(set(roles.values())) == len(STAGES)
    assert f"the word {roles[stage]}, " in prompt(task(), stage)


def test_cc84_a_task_without_criteria_falls_back_to_string_match() -> None:
    config = Config(ralph=Ralph(default_verification="semantic"))
    assert all(requirements.criteria_for(config, task(), stage).verification == StringMatch() for stage in STAGES)


# Future Enhancements that are there


def test_cc91_a_cost_limit_ends_the_run() -> None:
    stop = policy.limit_reached(Limits(max_cost_usd=2), RunTally(cost_usd=2.5), max_iterations=9)
    assert stop is not None
    assert stop.stop_reason == "max-cost"
    assert policy.limit_reached(Limits(max_cost_usd=2), RunTally(cost_usd=1.5), max_iterations=9) is None
