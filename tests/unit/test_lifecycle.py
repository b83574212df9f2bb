import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import cast, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.core import lifecycle
from rulebook_ralph.core.lifecycle import STATUSES, TRANSITIONS, IllegalTransition, Trigger, advance
from rulebook_ralph.core.model import Status
from tests.cases import each_of

TRIGGERS: tuple[Trigger, ...] = get_args(Trigger)
DIAGRAM = {(trigger, source): target for trigger, source, target in TRANSITIONS}
PAIRS = [(trigger, status) for trigger in TRIGGERS for status in STATUSES]


def test_the_diagram_is_the_one_of_the_design() -> None:
    assert set(get_args(Status)) == set(STATUSES)
    assert len(DIAGRAM) == len(TRANSITIONS)
    assert {trigger for trigger, _ in DIAGRAM} == set(TRIGGERS)
    arrows = {(source, target) for _, source, target in TRANSITIONS if source != target}
    assert arrows == {
        ("pending", "in_iteration"),
        ("in_iteration", "completed"),
        ("in_iteration", "blocked"),
        ("in_iteration", "pending"),
        ("blocked", "pending"),
        ("completed", "pending"),
        ("pending", "completed"),
        ("blocked", "completed"),
    }


@each_of(("trigger", "status"), PAIRS)
def test_each_pair_is_legal_exactly_as_the_diagram_says(trigger: Trigger, status: Status) -> None:
    wanted = DIAGRAM.get((trigger, status))
    if wanted is not None:
        assert advance(status, trigger) == wanted
    else:
        with pytest.raises(IllegalTransition, match=f"cannot {trigger} while {status}"):
            advance(status, trigger)


@pytest.mark.parametrize("name", ["", "opens", "to_completed", "is_pending", "state", "trigger", "__class__"])
def test_an_unknown_trigger_is_illegal(name: str) -> None:
    with pytest.raises(IllegalTransition):
        advance("pending", cast("Trigger", name))


@given(st.sampled_from(STATUSES), st.lists(st.sampled_from(TRIGGERS), max_size=30))
def test_no_sequence_of_triggers_leaves_the_diagram(status: Status, triggers: list[Trigger]) -> None:
    for trigger in triggers:
        before = status
        try:
            status = advance(status, trigger)
        except IllegalTransition:
            assert (trigger, before) not in DIAGRAM
        else:
            assert status == DIAGRAM[trigger, before]


def test_the_drawing_shows_each_arrow_of_the_table_and_no_other() -> None:
    first, start, *arrows = lifecycle.mermaid().splitlines()
    assert (first, start.split()) == ("stateDiagram-v2", ["[*]", "-->", "pending"])
    drawn = set()
    for arrow in arrows:
        ends, _, names = arrow.strip().partition(": ")
        source, _, target = ends.partition(" --> ")
        drawn |= {(trigger, source, target) for trigger in names.split(", ")}
    assert drawn == set(TRANSITIONS)


def test_threads_do_not_disturb_each_other() -> None:
    threads, rounds = 8, 300
    lifecycle._machine.cache_clear()  # the machine itself is built by whoever comes first
    together = Barrier(threads)

    def work(offset: int) -> int:
        together.wait()
        wrong = 0
        for index in range(rounds):
            trigger, status = PAIRS[(offset + index) % len(PAIRS)]
            try:
                got: str | None = advance(status, trigger)
            except IllegalTransition:
                got = None
            wrong += got != DIAGRAM.get((trigger, status))
        return wrong

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(threads) as pool:
            assert sum(pool.map(work, range(0, 5 * threads, 5))) == 0
    finally:
        sys.setswitchinterval(interval)
