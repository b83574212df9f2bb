"""The semantic verification: patterns first, then a model that judges on evidence (spec completion-criteria, 2)."""

import dataclasses
import json
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rulebook_ralph import resources
from rulebook_ralph.checks import semantic
from rulebook_ralph.checks.data_block import data
from rulebook_ralph.checks.model_answer import UnusableAnswerError
from rulebook_ralph.checks.semantic import SemanticResult, check, criteria_of
from rulebook_ralph.checks.semantic_answer import Answer, read_answer
from rulebook_ralph.checks.semantic_material import gather
from rulebook_ralph.checks.shell import Cancelled
from rulebook_ralph.checks.subject import Ask, ModelError, Question, Subject
from rulebook_ralph.core.criteria import Criteria, Semantic
from rulebook_ralph.core.diff import FileDiff, Line
from rulebook_ralph.core.model import Task
from rulebook_ralph.core.question import ModelRefusedError
from rulebook_ralph.loop import expectations
from tests.cases import each_of
from tests.judges import answer, honest, lines_of, nonce_of, ruling, scripted, statements_of, yes_to_all
from tests.schema_agreement import require_agreement
from tests.unit.semantic_cases import added, counting_token, numbered, work

GREET = Semantic(check_for=("defines `def greet`",))
GREETING = added("greet.py", "def greet(name):", "    return f'Hello, {name}'")


def never(_question: Question) -> str:
    raise AssertionError("no model may be asked")


def judged(subject: Subject, wanted: Semantic = GREET, *, budget: int = 60_000) -> SemanticResult:
    return check(wanted, subject, step="coder", token=counting_token(), budget=budget)


# Patterns


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("x = 1  # todo: later", "TODO"),
        ("PASSWORD   = 'x'", "password ="),
        ("# T\u200bO\u200bDO", "todo"),
        ("# \uff34\uff2f\uff24\uff2f", "TODO"),
    ],
)
def test_a_negative_pattern_in_an_added_line_fails_without_a_model(text: str, pattern: str) -> None:
    subject = work(added("a.py", "fine", text), ask=never)
    found = judged(subject, Semantic(check_for=("x",), negative_patterns=(pattern,)))
    assert not found.result.passed
    assert found.model_failed == ""
    assert f"'{pattern}' in a.py:2" in found.result.reason


def test_a_negative_pattern_in_the_final_message_fails() -> None:
    found = judged(
        work(GREETING, ask=never, final_message="Done.\nThis SHOULD be\treviewed."),
        Semantic(negative_patterns=("should be reviewed",)),
    )
    assert "in the final message: This SHOULD be reviewed." in found.result.reason


def test_a_removed_line_never_matches_and_patterns_alone_need_no_model() -> None:
    removed = FileDiff(kind="M", path="a.py", old_path="a.py", removed=numbered("# TODO"), added=numbered("done()"))
    found = judged(work(removed, ask=never), Semantic(negative_patterns=("TODO",)))
    assert found.result.passed
    assert found.model_failed == ""


def test_every_place_of_a_pattern_is_told() -> None:
    found = judged(work(added("a.py", *["TODO"] * 30)), Semantic(negative_patterns=("TODO",)))
    lines = found.result.output.splitlines()
    assert lines[9].startswith("'TODO' in a.py:10")
    assert lines[10:] == ["… and more"]


# Criteria


def test_the_placeholder_stands_for_the_acceptance_criteria() -> None:
    wanted = Semantic(check_for=("{{acceptance_criteria}}", "a", "Safe, and: {{ acceptance_criteria }}"))
    assert criteria_of(wanted, ("a", "b")) == ("a", "b", "Safe, and: a; b")


def test_without_acceptance_criteria_the_description_is_judged() -> None:
    wanted = Semantic(check_for=("{{ acceptance_criteria }}",))
    described = "The work does what the task describes: Greet people. Say hello to whoever comes"

    def ask(question: Question) -> str:
        place = ("greet.py", 1, "def greet(name):")
        verdicts = {name: "met" if said == described else "not_met" for name, said in statements_of(question).items()}
        return answer(question, [ruling(name, verdict, place) for name, verdict in verdicts.items()])

    found = judged(work(GREETING, ask=ask), wanted)
    assert found.result.passed, found
    assert [finding.criterion for finding in found.result.findings] == [described]
    assert not judged(work(GREETING, ask=honest), wanted).result.passed
    inside = Semantic(check_for=("Safe, and: {{acceptance_criteria}}",))
    assert criteria_of(inside, (), title="Do.") == ("Safe, and: The work does what the task describes: Do",)
    assert len(criteria_of(wanted, (), title="Do", description="x" * 9999)[0]) == 1000


@pytest.mark.parametrize("placeholder", ["{{acceptance_criteria}}", "{{ acceptance_criteria }}"])
def test_the_agent_is_told_what_the_placeholder_stands_for(placeholder: str) -> None:
    asked = Criteria(promise="P", verification=Semantic(check_for=(placeholder, f"Safe, and: {placeholder}")))
    (bare,) = expectations.told(asked, Task(id="T-1", title="t"))
    assert bare.endswith(": the task is done as described; Safe, and: the task is done as described")
    (with_some,) = expectations.told(asked, Task(id="T-1", title="t", acceptance_criteria=("a", "b")))
    assert with_some.endswith(": the acceptance criteria above; Safe, and: a; b")


def test_without_acceptance_criteria_and_description_there_is_nothing_to_pass() -> None:
    nothing = dataclasses.replace(work(GREETING, ask=never), title=" ", description="")
    found = judged(nothing, Semantic(check_for=("{{acceptance_criteria}}", "Safe, and: {{acceptance_criteria}}")))
    assert not found.result.passed
    assert found.model_failed == ""
    assert "no acceptance criteria" in found.result.reason


def test_work_without_any_file_is_not_judged() -> None:
    assert "nothing to judge" in judged(work(ask=never)).result.reason


# Judging


def test_honest_work_passes_with_the_place_that_shows_it() -> None:
    found = judged(work(GREETING, ask=honest))
    assert found.result.passed
    assert found.model_failed == ""
    (finding,) = found.result.findings
    assert (finding.met, finding.file, finding.line) == (True, "greet.py", 1)
    assert "met: defines `def greet` (greet.py:1)" in found.result.output


def test_what_is_missing_is_told() -> None:
    wanted = Semantic(check_for=("defines `def greet`", "defines `def wave`", "defines `def bow`"))
    found = judged(work(GREETING, ask=honest), wanted)
    assert not found.result.passed
    assert found.result.reason == "not met: defines `def wave` (and 1 more)"
    assert "NOT met: defines `def bow`: it is not there" in found.result.output
    assert [finding.met for finding in found.result.findings] == [True, False, False]


def test_unclear_is_not_met() -> None:
    def unsure(question: Question) -> str:
        return answer(question, [ruling(name, "unclear") for name in statements_of(question)])

    found = judged(work(GREETING, ask=unsure))
    assert not found.result.passed
    assert found.model_failed == ""


def test_relevant_files_that_did_not_change_are_evidence() -> None:
    found = judged(work(ask=honest, relevant={"old.py": "a = 1\ndef greet(): ...\n"}))
    assert (found.result.passed, found.result.findings[0].line) == (True, 2)


def test_a_deleted_file_can_be_shown_to_be_gone() -> None:
    def ask(question: Question) -> str:
        place = next((f, n, t) for f, s, n, t in lines_of(question) if s == "=")
        verdicts = {
            name: "met" if said == "old.py is gone" else "unclear" for name, said in statements_of(question).items()
        }
        return answer(question, [ruling(name, verdict, place) for name, verdict in verdicts.items()])

    gone = FileDiff(kind="D", path="old.py", old_path="old.py", removed=numbered("x"))
    wanted = Semantic(check_for=("old.py is gone",))
    assert judged(work(gone, ask=ask), wanted).result.passed
    changed = FileDiff(kind="M", path="old.py", old_path="old.py", removed=numbered("x"))
    assert not judged(work(changed, ask=ask), wanted).result.passed, "that a file was changed shows nothing"


def test_the_model_of_the_criteria_is_asked_for() -> None:
    asked: list[Question] = []

    def ask(question: Question) -> str:
        asked.append(question)
        return honest(question)

    assert judged(work(GREETING, ask=ask), replace(GREET, model="opus")).result.passed
    assert asked[0].model == "opus"


def test_secrets_are_not_sent_and_not_told() -> None:
    asked: list[Question] = []

    def ask(question: Question) -> str:
        asked.append(question)
        return honest(question)

    secret = "correct-horse-battery"
    subject = work(
        added("greet.py", f"def greet(): return '{secret}'"),
        ask=ask,
        relevant={"keys": f"{secret}\n"},
        final_message=f"I used {secret}.",
        commit_messages=(f"Add {secret}",),
        environment={"API_TOKEN": secret},
    )
    found = judged(subject)
    assert found.result.passed, "evidence is looked up in what was shown"
    assert secret not in asked[0].data + asked[0].instructions
    assert secret not in found.result.output + found.result.reason
    assert secret not in judged(subject, Semantic(negative_patterns=("greet",))).result.reason


def test_a_secret_over_several_lines_hides_its_file() -> None:
    secret = "-----BEGIN-----\nabcdefgh\n-----END-----"
    subject = work(GREETING, added("key.pem", *secret.split("\n")), ask=honest, environment={"SSH_KEY": secret})
    found = judged(subject)
    assert found.result.passed
    assert "key.pem (file added) is not shown: a secret over several lines" in found.result.output


# Evidence


@each_of(
    ("place", "good"),
    [
        (("greet.py", 1, "def greet(name):"), True),
        (("./greet.py", 1, "  def   greet(name): "), True),
        (("greet.py", 2, "+     2| return f'Hello, {name}'"), True),
        (("greet.py", 2, "f'Hello, {name}'"), True),
        (("greet.py", 2, "return"), False),
        (("greet.py", 2, "def greet(name):"), False),
        (("greet.py", 9, "def greet(name):"), False),
        (("other.py", 1, "def greet(name):"), False),
        (("greet.py", 0, "file added"), True),
        (("greet.py", 1, ""), False),
        (("greet.py", 3, "}"), False),
    ],
)
def test_met_needs_a_line_that_is_there(place: tuple[str, int, str], good: bool) -> None:
    def ask(question: Question) -> str:
        verdicts = {
            name: "met" if said == GREET.check_for[0] else "not_met" for name, said in statements_of(question).items()
        }
        return answer(question, [ruling(name, verdict, place) for name, verdict in verdicts.items()])

    file = added("greet.py", "def greet(name):", "    return f'Hello, {name}'", "}")
    found = judged(work(file, ask=ask))
    assert found.result.passed is good
    assert found.model_failed == ""
    if not good:
        assert "could point to no line" in found.result.output


def test_evidence_that_is_not_there_is_asked_for_once_more() -> None:
    def wrong_line(question: Question) -> str:
        return honest(question).replace('"line": 1,', '"line": 7,')

    assert judged(work(GREETING, ask=scripted(wrong_line, honest))).result.passed


# Answers of no use


def without(question: Question, *, left_out: int = 1) -> str:
    whole = json.loads(honest(question))
    return json.dumps({**whole, "criteria": whole["criteria"][left_out:]})


def twice(question: Question) -> str:
    whole = json.loads(honest(question))
    return json.dumps({**whole, "criteria": [*whole["criteria"], whole["criteria"][0]]})


def unknown(question: Question) -> str:
    whole = json.loads(honest(question))
    extra = {**whole["criteria"][0], "id": "s00000000"}
    return json.dumps({**whole, "criteria": [*whole["criteria"], extra]})


USELESS: dict[str, Ask] = {
    "prose": lambda _question: "VERIFIED: all criteria appear to be met",
    "empty": lambda _question: "",
    "cut off": lambda question: honest(question)[:-20],
    "no object": lambda _question: "[1, 2]",
    "missing criteria": without,
    "no criteria": lambda question: without(question, left_out=9),
    "a criterion twice": twice,
    "an unknown criterion": unknown,
    "an unknown verdict": lambda question: honest(question).replace('"met"', '"VERIFIED"'),
    "an unknown key": lambda question: honest(question).replace('"nonce"', '"passed": true, "nonce"'),
    "a line that is no number": lambda question: honest(question).replace('"line": 1', '"line": "1"'),
    "two fences": lambda question: f"```json\n{honest(question)}\n```\nor\n```json\n{yes_to_all(question)}\n```",
    "deep": lambda _question: '{"nonce":' + "[" * 100_000,
    "surrogates": lambda _question: '{"nonce": "\ud800"}',
}


@each_of("useless", USELESS.values())
def test_a_useless_answer_is_asked_again_once_and_then_fails_the_work(useless: Ask) -> None:
    assert judged(work(GREETING, ask=scripted(useless, honest))).result.passed
    found = judged(work(GREETING, ask=scripted(useless, useless, honest)))
    assert (found.result.passed, found.model_failed) == (False, ""), "which would fall back to the promise"
    assert found.result.reason.startswith("the judge is not to be believed: the answer cannot be used")


def test_a_question_that_is_refused_fails_the_work() -> None:
    def refusing(_question: Question) -> str:
        raise ModelRefusedError("HTTP 413: too long")

    found = judged(work(GREETING, ask=refusing))
    assert (found.result.passed, found.model_failed) == (False, "")
    assert found.result.reason == "the judge is not to be believed: HTTP 413: too long"


def test_an_answer_to_another_question_is_not_believed_and_no_fault_of_the_model() -> None:
    def foreign(question: Question) -> str:
        return honest(question).replace(nonce_of(question), "0" * 32)

    assert judged(work(GREETING, ask=scripted(foreign, honest))).result.passed
    found = judged(work(GREETING, ask=scripted(foreign, foreign, honest)))
    assert (found.result.passed, found.model_failed) == (False, "")
    assert "nonce" in found.result.reason


@pytest.mark.parametrize(
    "form", ["```json\n{}\n```", "```\n{}\n```\n", "Here you are:\n\n```JSON\n{}\n```\nBye.", "\n {} \n"]
)
def test_a_code_fence_around_the_answer_does_no_harm(form: str) -> None:
    assert judged(work(GREETING, ask=lambda question: form.replace("{}", honest(question)))).result.passed


def test_the_second_question_says_what_was_wrong_and_has_new_words() -> None:
    asked: list[Question] = []

    def ask(question: Question) -> str:
        asked.append(question)
        return "Certainly!"

    judged(work(GREETING, ask=ask))
    first, second = asked
    assert "An answer to this was refused: the answer cannot be used" in second.instructions
    assert nonce_of(first) != nonce_of(second)
    assert not statements_of(first).keys() & statements_of(second).keys()


def test_a_model_that_cannot_be_asked_is_told() -> None:
    def down(_question: Question) -> str:
        raise ModelError("HTTP 529: overloaded")

    found = judged(work(GREETING, ask=down))
    assert (found.result.passed, found.model_failed) == (False, "HTTP 529: overloaded")
    missing = judged(work(GREETING, ask=None, no_model="set ANTHROPIC_API_KEY"))
    assert (missing.result.passed, missing.model_failed) == (False, "set ANTHROPIC_API_KEY")


def test_the_end_of_the_run_is_no_fault_of_the_model() -> None:
    cancelled = Event()

    def ask(_question: Question) -> str:
        cancelled.set()
        raise ModelError("the run was told to end")

    with pytest.raises(Cancelled):
        judged(dataclasses.replace(work(GREETING, ask=ask), cancelled=cancelled))


def test_the_reader_and_the_schema_take_the_same_answers() -> None:
    place = {"file": "a", "line": 1, "quote": "x"}
    whole = {"nonce": "n", "criteria": [{"id": "a", "verdict": "met", "evidence": [place], "reason": "r"}]}
    require_agreement(whole, Answer, resources.schema("judgement"))


@given(st.text(), st.text(max_size=5))
def test_no_answer_breaks_the_reader(text: str, nonce: str) -> None:
    with pytest.raises(UnusableAnswerError):
        read_answer(text, nonce=nonce, ids=("a",))


# Parts


def test_large_work_is_judged_in_parts_and_none_is_skipped() -> None:
    asked: list[Question] = []

    def ask(question: Question) -> str:
        asked.append(question)
        in_part = honest(question)
        return in_part.replace('"not_met"', '"unclear"') if "def greet" not in question.data else in_part

    files = [added(f"f{number}.py", *["filler = 'x' * 10"] * 20) for number in range(6)]
    found = judged(work(*files, GREETING, ask=ask), budget=400)
    assert found.result.passed
    assert 2 < len(asked) <= semantic.MOST_PARTS
    shown = {file for question in asked for file, *_rest in lines_of(question)}
    assert shown == {"greet.py", *(f"f{number}.py" for number in range(6))}
    assert all(f"part {number} of {len(asked)}" in one.instructions for number, one in enumerate(asked, start=1))


def test_one_part_that_breaks_a_criterion_breaks_it() -> None:
    files = [added("good.py", "def greet(): ...", *["x = 1"] * 60), added("bad.py", *["y = 2"] * 60)]
    found = judged(work(*files, ask=honest), budget=500)
    assert not found.result.passed
    assert "it is not there" in found.result.findings[0].reason


def test_what_one_part_breaks_stands_though_the_model_fails_in_another() -> None:
    def down(_question: Question) -> str:
        raise ModelError("overloaded")

    files = [added("bad.py", *["y = 2"] * 60), added("good.py", "def greet(): ...", *["x = 1"] * 60)]
    found = judged(work(*files, ask=scripted(honest, down)), budget=500)
    assert (found.result.passed, found.model_failed) == (False, "")
    found = judged(work(*reversed(files), ask=scripted(honest, down)), budget=500)
    assert (found.result.passed, found.model_failed) == (False, "overloaded")


def test_work_that_takes_too_many_questions_fails() -> None:
    files = [added(f"f{number}.py", *["filler = 'x' * 10"] * 20) for number in range(20)]
    found = judged(work(*files, ask=never), budget=200)
    assert not found.result.passed
    assert found.model_failed == ""
    assert "too large to be judged" in found.result.reason


def test_binary_and_huge_files_are_named() -> None:
    huge = added("huge.json", *["[" + "1, " * 300 + "]"] * 400)
    logo = FileDiff(kind="A", path="logo.png", old_path=None, binary=True)
    asked: list[Question] = []

    def ask(question: Question) -> str:
        asked.append(question)
        return honest(question)

    found = judged(work(huge, logo, GREETING, ask=ask))
    assert found.result.passed
    assert "huge.json (file added) is not shown:" in found.result.output
    headings = {file: text for file, sign, _number, text in lines_of(asked[0]) if sign == "="}
    assert headings["logo.png"] == "binary file added"
    assert headings["huge.json"].startswith("file added, not shown:")


# What is shown


@given(st.lists(st.text(max_size=60), max_size=8), st.text(max_size=80))
def test_any_text_can_be_shown_and_every_shown_line_can_be_cited(texts: list[str], message: str) -> None:
    lines = [text.replace("\n", " ") for text in texts]
    material = gather([added(message, *lines)], {}, final_message=message, commit_messages=texts, clean=str)
    (section,) = material.sections
    assert [line.number for line in section.lines] == list(range(len(lines) + 1))
    for line in section.lines:
        assert section.shows(line.number, line.text) == (line.citable and any(char.isalnum() for char in line.text))
    shown = data(material.sections, material.said, "f00d")
    assert sum(line.startswith("<<<") for line in shown.split("\n")) == 4, "nothing looks like a delimiter"


def test_a_changed_file_is_shown_in_order_with_what_stands_around() -> None:
    asked: list[Question] = []

    def ask(question: Question) -> str:
        asked.append(question)
        return honest(question)

    changed = FileDiff(
        kind="M",
        path="a.py",
        old_path="a.py",
        removed=(Line(2, "old two"),),
        added=(Line(2, "new two"), Line(5, "five")),
    )
    judged(work(changed, ask=ask, relevant={"a.py": "one\nnew two\nthree\nfour\nfive\nsix\n"}))
    shown = [f"{sign}{number} {text}" for _file, sign, number, text in lines_of(asked[-1])]
    assert shown == [
        "=0 file modified",
        " 1 one",
        "-2 old two",
        "+2 new two",
        " 3 three",
        " 4 four",
        "+5 five",
        " 6 six",
    ]
    judged(work(changed, ask=ask))
    shown = [f"{sign}{number} {text}" for _file, sign, number, text in lines_of(asked[-1])]
    assert shown == ["=0 file modified", "-2 old two", "+2 new two", "+5 five"]


def test_the_criteria_are_instructions_and_the_work_is_data() -> None:
    asked: list[Question] = []

    def ask(question: Question) -> str:
        asked.append(question)
        return honest(question)

    judged(work(GREETING, ask=ask, final_message="I say hello.", commit_messages=("Say hello",)))
    (question,) = asked
    assert "Greet people" in question.instructions
    assert "defines `def greet`" in question.instructions
    assert "hello" not in question.instructions.replace("Say hello to whoever comes", "")
    assert "I say hello." in question.data
    nonce = nonce_of(question)
    outside = [
        line for block in question.data.split(f"<<<DATA {nonce}>>>") for line in block.split(f"<<<END {nonce}>>>")[1:]
    ]
    assert not "".join(outside).strip()
