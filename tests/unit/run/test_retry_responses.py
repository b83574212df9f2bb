"""What an agent's failure leads to: waits that are bounded, rows that end, limits that are told in time zones."""

import itertools
from datetime import UTC, datetime, timedelta
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.run import retry
from rulebook_ralph.run.retry import Means, OnLimit, Response, Troubles, free_again, respond
from rulebook_ralph.tasks.results import AgentFault, ErrorKind
from tests.cases import each_of

NOW = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)
KINDS: tuple[ErrorKind, ...] = get_args(ErrorKind)
BACK_OFF: tuple[ErrorKind, ...] = ("rate-limit", "overloaded", "network")
OF_THE_TASK: tuple[ErrorKind, ...] = ("crash", "cut-off", "unknown", "permission", "context-too-long")
CANNOT_HEAL: tuple[ErrorKind, ...] = ("authentication", "billing", "not-installed")
MOST_IN_A_ROW = retry.MOST_LIMITS + retry.MOST_BACK_OFFS + retry.MOST_AT_ONE_TASK


def answer(
    kind: ErrorKind, troubles: Troubles | None = None, means: Means | None = None, *, resets_at: str | None = None
) -> Response:
    """The response to one more failure at the task `one`."""
    fault = AgentFault(kind=kind, message="so it said", resets_at=resets_at)
    return respond(fault, (troubles or Troubles()).and_one(kind, "one"), means or Means(), now=NOW)


def seconds_of(found: Response, now: datetime = NOW) -> float:
    """How long is to be waited."""
    return (found.until - now).total_seconds() if found.until else 0.0


def iso(seconds: float) -> str:
    return (NOW + timedelta(seconds=seconds)).isoformat()


def test_every_kind_of_failure_counts_or_has_a_remedy() -> None:
    assert set(KINDS) - retry.NOT_COUNTED == {"max-turns", "max-budget"}
    assert {*BACK_OFF, *OF_THE_TASK, *CANNOT_HEAL, "usage-limit"} == retry.NOT_COUNTED
    remedies = {kind: answer(kind).remedy for kind in sorted(retry.NOT_COUNTED)}
    assert {kind for kind, remedy in remedies.items() if remedy == "stop"} == set(CANNOT_HEAL)
    assert {kind for kind, remedy in remedies.items() if remedy == "wait"} == {*BACK_OFF, "usage-limit"}
    assert {kind for kind, remedy in remedies.items() if remedy == "retry"} == set(OF_THE_TASK)
    for kind in remedies:
        assert kind in answer(kind).reason or kind == "usage-limit"
        assert "so it said" in answer(kind).reason


def test_failures_are_counted_by_what_they_are() -> None:
    found = Troubles()
    for kind in ("network", "usage-limit", "crash", "rate-limit", "cut-off"):
        found = found.and_one(kind, "one")
    assert found == Troubles(limits=1, back_offs=2, task_id="one", at_tasks={"one": 2})
    assert all(found.and_one(kind, "one", beside=True) == found for kind in ("network", "usage-limit"))
    beside = found.and_one("crash", "two")
    assert beside == Troubles(limits=1, back_offs=2, task_id="two", at_tasks={"one": 2, "two": 1})
    assert beside.and_one("crash", "one").at_task == 3, "two that fail in turns are given up all the same"
    assert beside.after("give-up-task") == Troubles(limits=1, back_offs=2, at_tasks={"one": 2}, given_up=1)
    assert beside.ended_at("two") == Troubles(at_tasks={"one": 2})
    assert found.after("wait") == found.after("retry") == found
    assert found.after("give-up-task") == Troubles(limits=1, back_offs=2, given_up=1)
    assert found.after("fallback") == Troubles(limits=1), "another agent begins anew"


# Usage limits


def test_a_limit_is_waited_for_until_a_moment_after_its_reset() -> None:
    found = answer("usage-limit", resets_at=iso(10))
    assert (found.remedy, found.until) == ("wait", NOW + timedelta(seconds=12))
    assert f"until {iso(10)}" in found.reason
    to_the_minute = answer("usage-limit", resets_at=iso(30))
    assert seconds_of(to_the_minute) == 30 + 60, "the end of the minute that was told"


@each_of(
    ("said", "remedy", "seconds"),
    [
        ("2026-03-01T14:00:40+02:00", "wait", 12),
        ("2026-03-01T07:00:40-05:00", "wait", 12),
        ("2026-03-01T12:00:40Z", "wait", 12),
        *((said, "wait", 300) for said in (None, "", "soon", "2026-03-01T12:00:40", "9pm", "2026-13-01T00:00:00Z")),
        *((said, "wait", 300) for said in (iso(-65), iso(-660), "0001-01-01T00:00:00+14:00", "1970-01-01T00:00:00Z")),
        *((said, "stop", None) for said in ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59-14:00")),
    ],
)
def test_a_reset_is_understood_in_its_own_time_zone_and_one_that_is_none_or_has_passed_is_backed_off_from(
    said: str | None, remedy: str, seconds: float | None
) -> None:
    found = answer("usage-limit", resets_at=said)
    assert found.remedy == remedy
    assert found.until is not None
    assert found.until.astimezone(), "also where it is absurd"
    assert seconds is None or seconds_of(found) == seconds
    assert (", until" in found.reason) == (seconds != 300)


def test_a_limit_that_is_not_stated_is_waited_for_longer_and_longer() -> None:
    found = [seconds_of(answer("usage-limit", Troubles(limits=times), resets_at="soon")) for times in range(6)]
    assert found == [300, 600, 1200, 2400, 3600, 3600]


@each_of(
    ("means", "seconds", "remedy"),
    [
        (Means("wait"), 3600, "wait"),
        (Means("wait", has_fallback=True), 3600, "wait"),
        (Means("stop", has_fallback=True), 3600, "stop"),
        (Means("fallback", has_fallback=True), 3600, "fallback"),
        (Means("fallback"), 3600, "wait"),
        (Means("wait", longest_wait=3000), 3600, "stop"),
        (Means("fallback", longest_wait=3000), 3600, "stop"),
        (Means("fallback", has_fallback=True, longest_wait=3000), 3600, "fallback"),
        (Means("wait", longest_wait=3602), 3600, "wait"),
        (Means("wait", longest_wait=3601.9), 3600, "stop"),
    ],
)
def test_what_a_limit_leads_to(means: Means, seconds: float, remedy: str) -> None:
    found = answer("usage-limit", means=means, resets_at=iso(seconds))
    assert (found.remedy, found.until) == (remedy, NOW + timedelta(seconds=seconds + 2))
    assert ("limits.maxLimitWait" in found.reason) == (remedy == "stop" and means.on_limit != "stop")


# Rows of failures

means_of = st.builds(
    Means, st.sampled_from(get_args(OnLimit)), has_fallback=st.just(False), longest_wait=st.floats(1, 1e6)
)
failures = st.builds(
    AgentFault,
    kind=st.sampled_from(sorted(retry.NOT_COUNTED)),
    message=st.just("m"),
    resets_at=st.one_of(st.none(), st.text(max_size=3), st.floats(-1e5, 1e5).map(iso)),
)


@given(st.lists(failures, min_size=1, max_size=6), means_of)
def test_failures_in_whatever_order_end_and_are_never_waited_for_longer_than_stated(
    row: list[AgentFault], means: Means
) -> None:
    troubles, now, waited = Troubles(), NOW, 0.0
    for times, fault in enumerate(itertools.cycle(row), 1):
        troubles = troubles.and_one(fault.kind, "one")
        found = respond(fault, troubles, means, now=now)
        if found.remedy == "wait":
            assert found.until is not None
            seconds = seconds_of(found, now)
            assert seconds >= 0
            stated = free_again(fault.resets_at)
            if fault.kind != "usage-limit":
                assert 5 <= seconds <= 300
            elif stated is not None and stated > now:
                assert found.until == stated
            else:
                assert 300 <= seconds <= 3600
            assert seconds <= max(300, means.longest_wait)
            now, waited = found.until, waited + seconds
        if found.remedy in ("stop", "give-up-task"):
            break
        assert times < MOST_IN_A_ROW
        troubles = troubles.after(found.remedy)


@given(st.lists(failures, min_size=1, max_size=6), st.lists(st.sampled_from("abc"), min_size=1, max_size=3))
def test_a_run_on_which_every_agent_fails_ends(row: list[AgentFault], tasks: list[str]) -> None:
    """With a fallback for everything but what would replace an agent for good; a task that is retried goes on first."""
    troubles, order = Troubles(), itertools.cycle(tasks)
    task = next(order)
    for times, fault in enumerate(itertools.cycle(row), 1):
        troubles = troubles.and_one(fault.kind, task)
        found = respond(fault, troubles, Means("fallback", has_fallback=fault.kind == "usage-limit"), now=NOW)
        if found.remedy == "stop":
            break
        assert times < 2 * MOST_IN_A_ROW * retry.MOST_AT_ONE_TASK
        troubles = troubles.after(found.remedy)
        if found.remedy in ("fallback", "give-up-task"):
            task = next(order)
