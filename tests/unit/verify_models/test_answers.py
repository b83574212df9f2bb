"""Answers of models: one JSON object, each key once, by a schema that says what is read."""

from threading import Event

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.agents.question import ModelError, Question
from rulebook_ralph.verify.material import UnusableAnswerError, asked, decoded
from rulebook_ralph.verify.workspace import Cancelled


class Yes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    yes: bool


@pytest.mark.parametrize(
    "text",
    [
        '{"yes": true}',
        ' {"yes": true}\n',
        '```json\n{"yes": true}\n```',
        'Here:\n```\n{"yes": true}\n```\nThat is all.',
    ],
)
def test_an_answer_may_stand_in_one_fence(text: str) -> None:
    assert decoded(text, Yes).yes


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yes",
        '{"yes": 1}',
        '{"yes": true} and more',
        '{"yes": false, "yes": true}',
        '{"yes": true, "no": false}',
        '```\n{"yes": true}\n```\n```\n{"yes": false}\n```',
        '{"yes": "' + "x" * 1_100_000 + '"}',
    ],
)
def test_what_leaves_a_doubt_is_no_answer(text: str) -> None:
    with pytest.raises(UnusableAnswerError):
        decoded(text, Yes)


@given(st.lists(st.sampled_from(['{"yes": true}', "no", "{}"]), min_size=2, max_size=2))
def test_a_bad_answer_is_asked_for_once_more_and_then_as_good_as_none(answers: list[str]) -> None:
    told: list[str] = []

    def ask(question: Question) -> str:
        told.append(question.instructions)
        return answers[len(told) - 1]

    good = [text == '{"yes": true}' for text in answers]
    try:
        assert asked(ask, Question("Say yes.", "", {}), Yes, lambda answer: answer.yes, Event())
        assert any(good)
    except ModelError:
        assert not any(good)
    assert len(told) == (1 if good[0] else 2)
    assert ["could not be used" in each for each in told] == [False, True][: len(told)]


@pytest.mark.parametrize("asked_first", [False, True])
def test_an_order_to_stop_is_heeded(asked_first: bool) -> None:
    """Before the question, and where it ends the answer."""
    cancelled = Event()

    def ask(_: Question) -> str:
        assert asked_first
        cancelled.set()
        raise ModelError("interrupted")

    if not asked_first:
        cancelled.set()
    with pytest.raises(Cancelled):
        asked(ask, Question("Say yes.", "", {}), Yes, lambda answer: answer.yes, cancelled)
