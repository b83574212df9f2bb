"""A claim of completion beside words that deny it, and claims that the gates deny."""

from rulebook_ralph.core.evidence import AgentResult, CheckResult, ParsedIteration
from rulebook_ralph.core.model import Task
from rulebook_ralph.core.parser import parse
from rulebook_ralph.core.settings import CONTRADICTIONS, Integrity
from rulebook_ralph.loop.evidence import Gates
from rulebook_ralph.loop.rules.contradictions import Contradictions, contradicted_claims, denials
from tests.cases import each_of
from tests.integrity_case import evidence

TASK = Task(id="one", title="Do one")


def said(message: str, task: Task = TASK) -> list[str]:
    return list(denials(message, CONTRADICTIONS, task))


@each_of(
    "message",
    [
        "Done. Deployment requires manual approval.",
        "Done.\n\nThe migration Requires\n  MANUAL steps.",
        "I could not complete the second part.",
        "I couldn't complete the login page.",
        "All is done, but two tests are still failing.",
        "No errors remain in the parser, but one test is still failing.",
        "Everything works except the upload, which needs human review.",
        "It cannot be automated and requires manual work.",
        "The export is not yet implemented.",
        "- added the parser\n- error handling is left as an exercise\n",
        "There are no lint errors, and it requires manual intervention.",
        "I did not touch the API; the client is not yet implemented.",
        "Was unable to complete the docs",
        "```\ncode\n```\nSome of it remains to be done.",
        "```ralph-report\nnever closed: could not finish\n",
    ],
)
def test_a_denial_is_seen(message: str) -> None:
    assert said(message), message


@each_of(
    "message",
    [
        "No manual steps are required.",
        "Nothing requires manual intervention.",
        "No tests are still failing.",
        "None of the tests, old or new, is still failing.",
        "The suite no longer fails; nothing remains to be done.",
        "Manual steps: none",
        "Manual intervention is not needed.",
        "This doesn't require manual work.",
        "There was nothing that I could not complete.",
        "The release runs without manual intervention.",
        "Removed the manual step from the release.",
        "This eliminates manual intervention in deploys.",
        "Documented the manual steps in the README.",
        "My first attempt could not complete the migration, so I rewrote it.",
        "One test was still failing until I closed the file.",
        "If an upload could not finish, it is tried again.",
        "Raises an error for requests that could not complete.",
        'It now prints "not yet implemented" for unknown commands.',
        "It now answers `could not complete` in that case.",
        "> Deployment requires manual approval.\n\nThat rule is kept.",
        "```\nraise NotImplementedError('not yet implemented')  # still fails\n```\nDone.",
        "All tests pass.",
    ],
)
def test_an_honest_message_trips_nothing(message: str) -> None:
    assert said(message) == []


def test_the_tasks_own_words_are_no_denial() -> None:
    task = Task(id="one", title="Release", acceptance_criteria=("The page says what requires manual   approval",))
    assert said("The page now says what requires manual approval.", task) == []
    assert said("The rest could not be done: I was unable to complete it.", task)


def test_a_claim_beside_a_denial_goes_back_with_the_line() -> None:
    result = AgentResult(
        agent="t", status="finished", final_text="It works.\nThe key needs human input.\n<promise>DONE</promise>"
    )
    given = evidence(result=result, parsed=parse(result))
    rule = Contradictions()
    assert rule.priority == 42
    assert rule.should_run(given)
    verdict = rule.run(given)
    assert verdict.action == "continue"
    assert "The key needs human input." in verdict.feedback


def test_a_report_alone_is_a_claim_and_may_deny_it() -> None:
    text = '```ralph-report\n{"status": "completed", "summary": "One test is still failing"}\n```\n'
    result = AgentResult(agent="t", status="finished", final_text=text)
    given = evidence(result=result, parsed=parse(result))
    assert Contradictions().should_run(given)
    assert "still failing" in Contradictions().run(given).feedback


def test_without_a_claim_or_patterns_or_switched_off_it_says_nothing() -> None:
    partial = AgentResult(agent="t", status="finished", final_text="One test is still failing.")
    assert not Contradictions().should_run(evidence(result=partial, parsed=parse(partial)))
    claims = ParsedIteration(status="completed")
    for integrity in (Integrity(enabled=False), Integrity(contradictions=())):
        assert not Contradictions().should_run(evidence(parsed=claims, integrity=integrity))


def test_own_patterns_replace_the_built_in_ones() -> None:
    assert list(denials("This is a  STUB for now.", ("a stub",), TASK)) == ["This is a STUB for now."]
    assert list(denials("One test is still failing.", ("a stub",), TASK)) == []


def test_claims_that_a_gate_denies_are_told() -> None:
    red = CheckResult(step="unit", kind="test", command="make test", passed=False)
    lint = CheckResult(step="style", kind="lint", command="make lint", passed=True)
    claims = ParsedIteration(quality_claims={"tests": True, "lint": True, "typecheck": False})
    given = evidence(parsed=claims, run_gates=lambda: Gates((red, lint)))
    assert contradicted_claims(given) == ["You claimed that these pass; they failed when Ralph ran them: unit."]
    excused = evidence(parsed=claims, run_gates=lambda: Gates((red, lint)), excused=frozenset(("unit",)))
    assert contradicted_claims(excused) == []
    assert contradicted_claims(evidence(parsed=ParsedIteration())) == []


def test_a_long_message_costs_little() -> None:
    message = ("no " * 50 + "requires " * 50 + "manual, and " * 20) * 300
    assert said(message + "requires manual") is not None
