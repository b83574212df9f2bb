"""Verification steps as values: which are skipped, and what a skipped or a flaky one counts for."""

import io
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rulebook_ralph import config
from rulebook_ralph.checks.step_selection import skipped
from rulebook_ralph.console_plain import _gate_line
from rulebook_ralph.core.events import GateEnded
from rulebook_ralph.core.evidence import CheckResult, Iteration, ParsedIteration
from rulebook_ralph.core.repeats import failure_of
from rulebook_ralph.core.settings import Config, Executor, Hook, StopCriteria, Tools, Verification, VerificationStep
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop.crew import Crew
from rulebook_ralph.loop.evidence import Gates, is_held
from rulebook_ralph.loop.expectations import gate
from rulebook_ralph.loop.pipeline import judge
from rulebook_ralph.loop.record import _of_gates, _quality
from rulebook_ralph.loop.rules.gates import GatesPass
from rulebook_ralph.loop.rules.stop_criteria import StopCriteria as Rule
from rulebook_ralph.state import codec
from tests.evidence import GREEN, LINT_GREEN, LINT_RED, RED, STEP, Attempt

LINT = VerificationStep(name="lint", kind="lint", command="make lint", when=("*.py",))
DOCS = VerificationStep(name="docs", command="make docs", when=("docs/", "!docs/drafts/"), required=False)
WEB = VerificationStep(name="web", kind="test", command="make web", when=("web/**",))
SKIPPED = CheckResult(
    step="web", kind="test", command="make web", passed=False, skipped=True, reason="no changed file matches web/**"
)
FLAKY = replace(GREEN, flaky=True, attempts=2, reason="failed at first (exit code 1), passed at try 2")


@pytest.mark.parametrize(
    ("changed", "left_out"),
    [
        (["src/a.py"], {"docs", "web"}),
        (["docs/guide.md"], {"lint", "web"}),
        (["docs/drafts/x.md"], {"lint", "docs", "web"}),
        (["web/app.ts", "docs/a.md", "b.py"], set()),
        ([], {"lint", "docs", "web"}),
    ],
)
def test_a_step_that_no_changed_file_concerns_is_skipped(changed: list[str], left_out: set[str]) -> None:
    found = skipped((STEP, LINT, DOCS, WEB), changed)
    assert set(found) == left_out
    assert found.get("docs", "no changed file matches docs/, !docs/drafts/") == (
        "no changed file matches docs/, !docs/drafts/"
    )


def test_all_but_some_files() -> None:
    but_docs = replace(WEB, when=("!docs/", "!*.md"))
    assert not skipped((STEP, but_docs), ["a.c"])
    assert set(skipped((STEP, but_docs), ["docs/a.c", "b/README.md"])) == {"web"}


def test_when_takes_no_evidence_away() -> None:
    """A kind that a stop criterion asks for is run, and so is a required gate that was not red before."""
    steps = (WEB, LINT, DOCS)
    assert set(skipped((*steps, STEP), ["a.c"], asked={"test"})) == {"lint", "docs"}
    assert set(skipped(steps, ["a.c"])) == {"docs"}, "nothing else would prove the work"
    assert set(skipped((*steps, STEP), ["a.c"], excused=("tests",))) == {"docs"}, "it proves nothing: red on the base"
    assert set(skipped((*steps, STEP), ["a.c"], excused=("web",))) == {"lint", "docs", "web"}


_steps = st.lists(
    st.builds(
        VerificationStep,
        name=st.uuids().map(str),
        command=st.just("true"),
        kind=st.sampled_from(("test", "lint", "other")),
        required=st.booleans(),
        when=st.lists(st.sampled_from(("*.py", "docs/", "!*.md", "**/a*")), max_size=2).map(tuple),
    ),
    max_size=5,
)


@given(_steps, st.lists(st.sampled_from(("a.py", "docs/x.md", "b/c", "README.md"))), st.sets(st.integers(0, 4)))
def test_what_is_left_can_prove_as_much(steps: list[VerificationStep], changed: list[str], red: set[int]) -> None:
    excused = {step.name for index, step in enumerate(steps) if index in red}
    found = skipped(steps, changed, asked={"lint"}, excused=excused)
    assert all(step.when and step.kind != "lint" for step in steps if step.name in found)
    proving = {step.name for step in steps if step.required} - excused
    assert not proving or proving - set(found)


def test_a_skipped_step_has_neither_passed_nor_failed() -> None:
    assert not SKIPPED.failed
    assert not is_held(SKIPPED, frozenset())
    assert _quality((SKIPPED, LINT_GREEN)) == {"lint": True}
    attempt = Attempt(gates=Gates((SKIPPED, LINT_GREEN)))
    assert judge(attempt.evidence(steps=(WEB, LINT)), (GatesPass(),)).verdict.action == "complete"
    nothing = Attempt(gates=Gates((SKIPPED,)))
    assert "no gate passed" in judge(nothing.evidence(steps=(WEB,)), (GatesPass(),)).verdict.reason
    asked = attempt.evidence(steps=(WEB, LINT), stop_criteria=StopCriteria(require_passing_tests=True))
    verdict = judge(asked, (Rule(),)).verdict
    assert verdict.reason == "stopCriteria.requirePassingTests: no gate of the kind test was run"


def test_a_claim_is_held_against_what_was_run_and_flakiness_saves_none() -> None:
    claims = ParsedIteration(status="completed", quality_claims={"tests": True})
    for gates, denied in (((SKIPPED,), False), ((FLAKY,), False), ((replace(RED, attempts=3),), True)):
        feedback = judge(Attempt(gates=Gates(gates)).evidence(parsed=claims), (GatesPass(),)).verdict.feedback
        assert ("You claimed that these pass" in feedback) == denied


def test_same_failures_are_told_by_what_failed() -> None:
    base = Iteration(
        iteration_number=1,
        phase="judged",
        task_id="one",
        stage="coder",
        attempt=1,
        agent="a",
        timestamp="",
        started_at="",
        base_commit="",
        verdict=judge(Attempt(gates=Gates((RED,))).evidence(), (GatesPass(),)).verdict,
    )
    assert failure_of(replace(base, checks=(RED, SKIPPED))) == failure_of(replace(base, checks=(RED,)))
    assert failure_of(replace(base, checks=(RED, LINT_RED))) != failure_of(replace(base, checks=(RED,)))


def test_a_person_is_told() -> None:
    assert [check.ending for check in (GREEN, FLAKY, SKIPPED, RED)] == [
        "passed",
        "passed at try 2 (flaky)",
        "skipped",
        "failed",
    ]
    assert _gate_line(GateEnded(SKIPPED)) == "  gate web: skipped, no changed file matches web/**"
    assert "ok but flaky: failed at first (exit code 1), passed at try 2" in _gate_line(GateEnded(FLAKY))
    assert list(_of_gates((FLAKY, SKIPPED, RED, replace(LINT_RED, required=False)))) == [
        "the gate tests is flaky: failed at first (exit code 1), passed at try 2",
        "the gate lint failed and is not required: exit code 2",
    ]


def test_the_live_screen_shows_them_too() -> None:
    from rich.console import Console  # noqa: PLC0415 - rich is heavy

    from rulebook_ralph.console_record import base_gate  # noqa: PLC0415

    out = io.StringIO()
    for result in (SKIPPED, FLAKY):
        Console(file=out, width=120).print(*base_gate(GateEnded(result, on_base=True), 120))
    assert "- gate web" in out.getvalue()
    assert "skipped, no changed file" in out.getvalue()
    assert "but flaky: failed at first" in out.getvalue()


def test_it_is_kept_in_the_record() -> None:
    record = Iteration(
        iteration_number=1,
        phase="judged",
        task_id="one",
        stage="coder",
        attempt=1,
        agent="a",
        timestamp="2026-01-01T00:00:00Z",
        started_at="2026-01-01T00:00:00Z",
        base_commit="0" * 40,
        checks=(FLAKY, SKIPPED, GREEN),
    )
    data = codec.encode_iteration(record)
    assert codec.decode_iteration(data, name="x").checks == record.checks
    assert (data.count(b'"flaky": true'), data.count(b'"attempts": 2'), data.count(b'"skipped": true')) == (1, 1, 1)


def test_how_they_are_configured() -> None:
    step = "name: t, command: t, retries: 2, when: [src/**, '!*.md'], workingDir: web, env: {CI: '1'}"
    read = config.parse(f"verification: {{parallel: true, steps: [{{{step}}}]}}".encode()).verification
    assert read.parallel
    assert (read.steps[0].retries, read.steps[0].when, read.steps[0].working_dir) == (2, ("src/**", "!*.md"), "web")
    for wrong in ("retries: -1", "retries: 21", "when: ['']", "when: [../x]", "workingDir: ..", "when: src"):
        with pytest.raises(RalphError, match=wrong.partition(":")[0]):
            config.parse(f"verification: {{steps: [{{name: t, command: t, {wrong}}}]}}".encode())


def test_the_agent_is_told_when_and_where_they_run() -> None:
    assert gate(STEP) == "tests: `make test`"
    assert gate(DOCS) == "docs: `make docs` (a warning only, for changes of docs/, !docs/drafts/)"
    assert gate(replace(LINT, working_dir="web", retries=3)) == "lint: `make lint` (in web, for changes of *.py)"


def test_secrets_that_only_steps_hooks_or_agents_are_given_are_known() -> None:
    named = product(("A_TOKEN",), ("step-secret", "hook-secret", "agent-secret"))
    step, hook, agent = ({name: value} for name, value in named)
    whole = Config(
        tools=Tools(executors=(Executor(id="a", type="command", env=agent),)),
        verification=Verification(steps=(replace(STEP, env=step),)),
        hooks=(Hook(name="h", command="true", env=hook),),
    )
    cleaned = Crew(whole, {}).redactor().clean("step-secret hook-secret agent-secret words")
    assert cleaned == "[redacted] [redacted] [redacted] words"
