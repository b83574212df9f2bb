"""Reviews: nothing ships by default, a bad answer is asked for again, and findings go to whom they concern."""

import json
from collections.abc import Mapping
from threading import Event
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from msgspec.structs import replace

from rulebook_ralph.agents.question import Ask, GivenUpError, Question
from rulebook_ralph.config.settings import Config, Defaults, Reviewer, Tools
from rulebook_ralph.report import events
from rulebook_ralph.tasks.model import Prd, Task
from rulebook_ralph.tasks.review import Review, ReviewIssue, ReviewLook, feedback, reviewed
from rulebook_ralph.verify import reviewers as chosen
from rulebook_ralph.verify.redaction import Redactor
from rulebook_ralph.verify.review import ReviewedChange, Reviewers, reviewers_agree
from rulebook_ralph.verify.reviewers import TaskCommit, by_task
from tests.unit.verify_models.support import NO_ANSWER, TASK, Toy, attempt, project, scripted, shown

FILES: Mapping[str, str | None] = {"app.py": "x = 1\ny = 2\nz = x / 0\n"}
BOTH = Config(defaults=Defaults(quick_reviewer="quick", deep_reviewer="deep"))
SHIP = json.dumps({"decision": "SHIP", "issues": []})


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    return project(tmp_path_factory.mktemp("review"), {"app.py": "x = 1\ny = 2\n", "big.py": "line\n" * 400})


def issue(**values: Any) -> dict[str, Any]:
    known = {"file": "app.py", "lines": [3, 3], "type": "logic_bug", "severity": "high"}
    return {**known, "description": "It divides by zero.", "suggestion": "", "agentPrompt": "Divide by y.", **values}


def revise(*issues: dict[str, Any]) -> str:
    return json.dumps({"decision": "REVISE", "issues": list(issues or [issue()])})


def asking(toy: Toy, ask: Ask, config: Config = BOTH, **values: Any) -> Reviewers:
    redactor = Redactor({"MY_PASSWORD": "correct-horse-battery"})
    return Reviewers(config, toy.repository, lambda _: ask, redactor, Event(), **values)


def look(
    toy: Toy, *answers: Any, files: Mapping[str, str | None] = FILES, **values: Any
) -> tuple[Review, list[Question]]:
    ask, questions = scripted(*answers)
    change = ReviewedChange(title="Add z", base=toy.base, tree=toy.tree(files), description="It is z.", **values)
    return asking(toy, ask).review(Reviewer(id="quick"), "quick", change, lambda _: None), questions


# One look


def test_a_change_ships_where_the_reviewer_says_so(toy: Toy) -> None:
    said, questions = look(toy, SHIP, acceptance_criteria=("z is there",))
    assert (said.decision, said.issues, len(questions)) == ("SHIP", (), 1)
    assert said.looks[0].questions == 1
    (question,) = questions
    assert shown(question) == {"app.py": [" 1| x = 1", " 2| y = 2", "+3| z = x / 0"]}
    for told in ("The task: Add z", "It is z.", "- z is there", "1. Syntax", "3. Obvious bugs"):
        assert told in question.instructions
    assert "x / 0" not in question.instructions
    Draft202012Validator(question.schema).validate(json.loads(revise()))


def test_issues_come_with_real_places_and_worst_first(toy: Toy) -> None:
    said, _ = look(toy, revise(issue(severity="low", lines=[1, 2]), issue(file="./app.py")))
    assert said.decision == "REVISE"
    assert [(found.place, found.severity) for found in said.issues] == [("app.py:3", "high"), ("app.py:1-2", "low")]
    assert str(said) == "REVISE (1 high, 1 low)"
    assert "To do: Divide by y." in feedback(said)


@pytest.mark.parametrize(
    "bad",
    [
        "Looks good to me.",
        json.dumps({"decision": "SHIP", "issues": [issue()]}),
        json.dumps({"decision": "REVISE", "issues": []}),
        revise(issue(file="other.py")),
        revise(issue(lines=[3, 99])),
        revise(issue(lines=[3, 2])),
        revise(issue(description=" ")),
        revise(issue(severity="fatal")),
        json.dumps({"decision": "SHIP", "issues": [], "nonce": "x"}),
        SHIP[:-2],
    ],
)
def test_an_answer_that_contradicts_itself_or_the_change_is_asked_for_again(toy: Toy, bad: str) -> None:
    said, questions = look(toy, bad, SHIP)
    assert (said.decision, len(questions)) == ("SHIP", 2)
    assert "Your last answer could not be used: " in questions[1].instructions
    never, _ = look(toy, bad)
    assert (never.decision, never.unasked) == ("UNDECIDED", True), "it is nobody's doing"
    assert "no usable answer" in never.reason


def test_a_reviewer_that_cannot_be_asked_decides_nothing(toy: Toy) -> None:
    said, questions = look(toy, NO_ANSWER)
    assert (said.decision, said.unasked, said.reason, len(questions)) == (
        "UNDECIDED",
        True,
        "the API cannot be reached",
        1,
    )
    gone, _ = look(toy, GivenUpError("given up", "rate-limited"))
    assert gone.stop_reason == "rate-limited"


def test_a_large_change_is_reviewed_in_parts_and_the_same_is_not_asked_twice(toy: Toy) -> None:
    files = {f"f{n}.py": f"# {n}\n" * 200 for n in range(3)}
    ask, questions = scripted(
        lambda question: revise(issue(file="f1.py", lines=[1, 1])) if "f1.py" in shown(question) else SHIP
    )
    reviewing = asking(toy, ask, budget=1200)
    change = ReviewedChange(title="t", base=toy.base, tree=toy.tree(files))
    first = reviewing.review(Reviewer(id="quick"), "quick", change, lambda _: None)
    assert (first.decision, len(questions)) == ("REVISE", 3)
    again = reviewing.review(Reviewer(id="quick"), "quick", change, lambda _: None)
    assert (again.issues, len(questions), again.looks[0].questions) == (first.issues, 3, 0)
    reviewing.review(Reviewer(id="other"), "quick", change, lambda _: None)
    assert len(questions) == 6
    far_too_large = ReviewedChange(title="t", base=toy.base, tree=toy.tree({"f.py": "# line\n" * 20_000}))
    said = reviewing.review(Reviewer(id="quick"), "quick", far_too_large, lambda _: None)
    assert (said.decision, said.unasked) == ("UNDECIDED", False)
    assert "too large to be reviewed" in said.reason


def test_of_a_long_file_the_changes_and_what_is_around_them_are_shown(toy: Toy) -> None:
    lines = ["line\n"] * 400
    lines[200] = "changed\n"
    _, questions = look(toy, SHIP, files={"big.py": "".join(lines)})
    text = shown(questions[0])["big.py"]
    assert text[0] == text[-1] == "…"
    assert "+201| changed" in text
    assert "-201| line" in text
    assert len(text) == 2 + 2 + 20


def test_what_cannot_be_shown_is_named_and_keys_are_not_sent(toy: Toy) -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEowIBAAKCAQEA0Zk4Wq9Lx2Vb7Nn5Rt8YpQ3EGRZ7LDKV2MWNP\n" * 3
    files = {**FILES, "logo.bin": "\0\1\2" * 50, "conf.py": "p = 'correct-horse-battery'\n", "a.pem": key}
    said, questions = look(toy, SHIP, files=files)
    assert said.not_reviewed == ("logo.bin: a binary file",)
    assert shown(questions[0])["conf.py"] == ["+1| p = '[redacted]'"]
    assert "MIIEowIB" not in questions[0].data
    with_secrets, _ = look(toy, SHIP, files=files, with_secrets=True)
    assert with_secrets.decision == "REVISE"
    assert {found.file for found in with_secrets.issues} == {"conf.py", "a.pem"}
    assert "correct-horse" not in feedback(with_secrets)


# The rule


def judged(toy: Toy, *answers: Any, config: Config = BOTH, **values: Any) -> tuple[Any, Any, list[Question]]:
    ask, questions = scripted(*answers)
    case, examination = attempt(toy, FILES, reviewers=asking(toy, ask, config), **values)
    seen: list[events.Event] = []
    examination.verifiers.report = seen.append
    verdict = reviewers_agree(case, examination)
    assert len(seen) == 2 * len(examination.review.looks if examination.review else ())
    return verdict, examination, questions


def test_the_deep_reviewer_is_asked_before_a_task_completes_and_only_where_the_quick_one_ships(toy: Toy) -> None:
    verdict, examination, questions = judged(toy, SHIP)
    assert verdict is None
    assert [each.tier for each in examination.review.looks] == ["quick", "deep"]
    assert "1. Security" in questions[1].instructions
    _, examination, _ = judged(toy, SHIP, last_stage=False)
    assert [each.tier for each in examination.review.looks] == ["quick"]
    verdict, examination, questions = judged(toy, revise())
    assert (verdict.action, verdict.hook, len(questions)) == ("continue", "review", 1)
    assert verdict.reason == "quick review says REVISE: app.py:3: It divides by zero."
    assert "1. app.py:3 (high, logic_bug): It divides by zero." in verdict.feedback


@pytest.mark.parametrize("answer", ["Looks good to me.", NO_ANSWER])
def test_a_reviewer_that_answers_badly_blocks_its_task_and_not_the_run(toy: Toy, answer: Any) -> None:
    verdict, _, _ = judged(toy, answer)
    assert (verdict.action, verdict.stop_reason, verdict.counts) == ("stop", "blocked", False)


def test_work_waits_for_a_reviewer_that_cannot_be_asked_and_is_not_charged(toy: Toy) -> None:
    verdict, examination, _ = judged(toy, GivenUpError("no network", "blocked"))
    assert (verdict.action, verdict.stop_reason, verdict.counts) == ("stop", "blocked", False)
    assert verdict.reason == "no quick review: no network"
    assert examination.review.decision == "UNDECIDED"


def test_where_nobody_reviews_nothing_is_asked(toy: Toy) -> None:
    verdict, examination, questions = judged(toy, SHIP, config=Config())
    assert (verdict, examination.review, questions) == (None, None, [])


# Who reviews


def test_who_reviews_what() -> None:
    task = Task(id="a", title="a", overrides={"reviewer": "own"})
    assert chosen.reviewer_in_loop(BOTH, TASK, "quick") == Reviewer(id="quick", executor="quick")
    assert chosen.reviewer_in_loop(BOTH, task, "deep") == Reviewer(id="own", executor="own")
    assert chosen.reviewer_in_loop(Config(), TASK, "quick") is None
    assert chosen.reviewer_of_branch(BOTH).id == "deep"
    assert chosen.reviewer_of_branch(Config()).id == chosen.JUDGE
    known = Reviewer(id="deep", executor="anthropic", checks=("tier", "no-globals"))
    config = replace(BOTH, tools=Tools(reviewers=(known,)), defaults=replace(BOTH.defaults, final_reviewer="last"))
    assert chosen.reviewer_of_branch(config).id == "last"
    assert chosen.with_model(config, known, "deep").model == "opus"
    assert chosen.checks_of("quick", known.checks)[-1] == "no-globals"
    assert chosen.looked_for(config, TASK, last_stage=True)[-1] == "no-globals"
    assert chosen.looked_for(config, TASK, last_stage=False) == ("syntax", "types", "obvious_bugs")
    named = {key for key, _, _ in chosen.in_use(config, Prd(version=1, project="p", tasks=(task,)))}
    assert named == {
        "defaults.quickReviewer",
        "defaults.deepReviewer",
        "defaults.finalReviewer",
        "$.tasks[0].overrides.reviewer",
    }


# The findings of a branch


def _issue(file: str) -> ReviewIssue:
    return ReviewIssue(
        file=file, lines=(1, 1), type="other", severity="low", description=file, suggestion="", agent_prompt=""
    )


_files = st.sampled_from("abcdef")


@given(
    st.lists(_files, min_size=1, max_size=6, unique=True),
    st.lists(st.tuples(st.sampled_from(("one", "two", "three")), st.frozensets(_files, max_size=4)), max_size=5),
)
def test_every_finding_goes_to_the_last_task_that_changed_its_file(
    files: list[str], made: list[tuple[str, frozenset[str]]]
) -> None:
    whole = reviewed([_issue(file) for file in files], [ReviewLook(tier="final", reviewer="r", decision="REVISE")])
    found = by_task(whole, [TaskCommit(*each) for each in made])
    told = {found_issue.file: task_id for task_id, own in found.items() for found_issue in own.issues}
    assert told.keys() == (set(files) if made else set())
    for file, task_id in told.items():
        last = [name for name, paths in made if file in paths] or [made[-1][0]]
        assert task_id == last[-1]
    assert all(own.decision == "REVISE" for own in found.values())


def test_the_branch_is_reviewed_by_its_own_reviewer(toy: Toy) -> None:
    ask, questions = scripted(SHIP)
    config = replace(BOTH, defaults=replace(BOTH.defaults, final_reviewer="last"))
    change = ReviewedChange(title="all", base=toy.base, tree=toy.tree(FILES))
    said = asking(toy, ask, config).review(chosen.reviewer_of_branch(config), "final", change, lambda _: None)
    assert (said.looks[0].tier, said.looks[0].reviewer) == ("final", "last")
    assert "Accessibility" in questions[0].instructions
