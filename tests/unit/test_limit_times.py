"""When a limit ends, from what agents say of it."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.agents.limit_times import iso_after, iso_time, seconds_of, stated_reset
from rulebook_ralph.agents.local_time import local_clock

BERLIN = datetime(2026, 11, 21, 21, 24, 30, tzinfo=ZoneInfo("Europe/Berlin"))
"""20:24:30 in UTC."""


@pytest.mark.parametrize(
    ("message", "at"),
    [
        ("You've hit your 5-hour limit · resets 9:19pm (UTC)", "2026-11-21T21:19:00Z"),
        ("You've hit your session limit · resets 8:22pm (UTC)", "2026-11-21T20:22:00Z"),  # two minutes ago
        ("5-hour limit reached ∙ resets 3am", "2026-11-22T02:00:00Z"),
        ("limit reached · resets 12am (America/New_York)", "2026-11-22T05:00:00Z"),
        ("limit reached · resets 12pm (Asia/Kolkata)", "2026-11-22T06:30:00Z"),
        ("You've hit your weekly limit · resets Nov 25 at 1pm (Europe/Berlin)", "2026-11-25T12:00:00Z"),
        ("You've hit your weekly limit · resets Jan 2, 9:30am (UTC)", "2027-01-02T09:30:00Z"),
        ("Your limit will reset at 3pm (Asia/Tokyo).", "2026-11-22T06:00:00Z"),
        ("Claude AI usage limit reached|1795295943", "2026-11-21T21:19:03Z"),
        ("You\u2019ve hit your usage limit. Upgrade or try again at 10:11 PM.", "2026-11-21T21:11:00Z"),
        ("or try again at 10:11\u202fPM", "2026-11-21T21:11:00Z"),
        ("or try again at May 11th, 2027 9:00 AM.", "2027-05-11T07:00:00Z"),  # then it is summer time there
        ("or try again in 2 days 10 hours 19 minutes.", "2026-11-24T06:43:30Z"),
        ("Your quota will reset after 3h20m15s.", "2026-11-21T23:44:45Z"),
        ("Access resets at 5:28 PM PST.", "2026-11-22T01:28:00Z"),
        ("Access resets at 22:05", "2026-11-21T21:05:00Z"),
        ("resets 9:19pm (Mars/Base)", None),
        ("resets 25:00", None),
        ("resets 13pm (UTC)", None),
        ("try again at Feb 31st, 2027 9:00 AM", None),
        ("try again in 3 parsecs", None),
        ("try again later", None),
        ("resets 9", None),
        ("try again at 9:00 AM and then some", "2026-11-22T08:00:00Z"),
    ],
)
def test_stated_times(message: str, at: str | None) -> None:
    assert stated_reset(message, BERLIN) == at


@given(st.text(max_size=200))
def test_no_text_raises(message: str) -> None:
    for said in (message, f"resets {message}", f"try again in {message}", f"limit reached|{message}"):
        stated_reset(said, BERLIN)
    seconds_of(message)


@given(st.from_regex(r"(resets|try again (at|in)) [0-9a-z: ,.()/|]{0,30}", fullmatch=True))
def test_no_time_raises(message: str) -> None:
    stated_reset(message, BERLIN)


@given(st.none() | st.integers() | st.floats() | st.text())
def test_no_number_raises(value: object) -> None:
    iso_time(value)
    iso_after(value, BERLIN)


def test_the_local_time_is_that_of_the_environment() -> None:
    tokyo = local_clock({"TZ": "Asia/Tokyo"})()
    assert (tokyo.utcoffset() or UTC.utcoffset(None)).total_seconds() == 9 * 3600
    for name in ("", ":Asia/Tokyo", "No/Such", "../../etc/passwd", "\0"):
        assert local_clock({"TZ": name})().tzinfo
