"""When a silent process counts as idle: the clock that bytes and changes restart."""

import math
import time

from rulebook_ralph.process.supervisor import _Idleness as Idleness

LONG_AGO = -1e6


def test_without_a_limit_nothing_is_ever_idle() -> None:
    assert Idleness(None, None).seconds_left(LONG_AGO) == math.inf


def test_only_bytes_count_where_nothing_tells_of_changes() -> None:
    idleness = Idleness(10, None)
    left = idleness.seconds_left(time.monotonic())
    assert 9 < left <= 10
    assert idleness.is_over()


def test_a_change_restarts_the_clock_from_its_own_time() -> None:
    idleness = Idleness(10, lambda: time.time() - 4)
    assert not idleness.is_over()
    left = idleness.seconds_left(LONG_AGO)
    assert 5 < left <= 6
    left = idleness.seconds_left(time.monotonic())
    assert left > 9, "a later byte counts more"


def test_a_change_before_the_idle_time_is_none() -> None:
    assert Idleness(10, lambda: time.time() - 11).is_over()
    assert Idleness(10, lambda: None).is_over()


def test_the_same_change_counts_once_also_one_from_the_future() -> None:
    for change in (time.time() - 1, time.time() + 1e6):
        idleness = Idleness(10, lambda change=change: change)  # type: ignore[misc]  # bound at once
        assert not idleness.is_over()
        left = idleness.seconds_left(LONG_AGO)
        assert left <= 10
        assert idleness.is_over()


def test_a_change_just_before_the_end_does_not_lead_to_looks_without_end() -> None:
    changes = iter(range(100))
    idleness = Idleness(10, lambda: time.time() - 9.99 + next(changes) / 1e6)
    assert not idleness.is_over()
    left = idleness.seconds_left(LONG_AGO)
    assert left > 0.9  # a tenth of the limit at least, so ten looks at most
