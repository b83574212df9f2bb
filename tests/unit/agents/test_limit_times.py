"""When a limit ends, from what agents say of it."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.agents.limit_times import iso_after, iso_time, local_clock, seconds_of, stated_reset
from tests.cases import each_of

BERLIN = datetime(2026, 11, 21, 21, 24, 30, tzinfo=ZoneInfo("Europe/Berlin"))
"""20:24:30 in UTC."""


@each_of(
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
        ("You've hit your weekly limit · resets Mon 9am", "2026-11-23T08:00:00Z"),  # that was a Saturday
        ("weekly limit reached ∙ resets Monday at 9:00 AM (UTC)", "2026-11-23T09:00:00Z"),
        ("resets on Sat, 9:20pm", "2026-11-21T20:20:00Z"),  # four minutes ago
        ("resets Sat 9am", "2026-11-28T08:00:00Z"),
        ("resets Thurs 12:30pm (America/New_York)", "2026-11-26T17:30:00Z"),
        ("resets Sunday", "2026-11-21T23:00:00Z"),
        ("resets: tomorrow at 7am", "2026-11-22T06:00:00Z"),
        ("resets today at 11pm", "2026-11-21T22:00:00Z"),
        ("resets Oct 9, 3pm (Europe/Berlin)", "2026-10-09T13:00:00Z"),  # six weeks ago: no later than that
        ("resets Wed, Nov 25 at 1pm (Europe/Berlin)", "2026-11-25T12:00:00Z"),
        ("resets Dec 1", "2026-11-30T23:00:00Z"),
        ("resets Dec 1 (UTC)", "2026-12-01T00:00:00Z"),
        ("resets Dec 1, 2027", "2027-11-30T23:00:00Z"),
        ("Your limit resets at 2026-11-22T03:00:00Z", "2026-11-22T03:00:00Z"),
        ("try again at 2026-11-22 03:00", "2026-11-22T02:00:00Z"),
        ("resets on 2026-11-22 03:00:30.5 +02:00", "2026-11-22T01:00:30Z"),
        ("resets in 3 hours 20 minutes", "2026-11-21T23:44:30Z"),
        ("Usage limit. Try again in about 3 hours and 20 minutes.", "2026-11-21T23:44:30Z"),
        ("Please wait 20 minutes before you go on", "2026-11-21T20:44:30Z"),
        ("available in 2h 5m", "2026-11-21T22:29:30Z"),
        ("usage limit reached for this week|1800000000", "2027-01-15T08:00:00Z"),
        ("Claude AI usage limit reached|1700000000", "2023-11-14T22:13:20Z"),  # as it was stated; who waits looks at it
        ("your limit resets at 1800000000.", "2027-01-15T08:00:00Z"),
        ("your quota resets monthly", None),
        ("your quota resets sunset 9", None),
        ("resets today", None),
        ("resets Mon 9", None),
        ("resets Mon 9am (Mars/Base)", None),
        ("try again at 9:00 AM and/or upgrade", "2026-11-22T08:00:00Z"),
        ("try again on 2026-13-40 03:00", None),
        ("resets 9:19pm (Mars/Base)", None),
        ("resets 25:00", None),
        ("resets 13pm (UTC)", None),
        ("try again at Feb 31st, 2027 9:00 AM", None),
        ("try again in 3 parsecs", None),
        ("try again later", None),
        ("resets 9", None),
        ("Your limit resets every 5 hours. Try again at 10:11 PM.", "2026-11-21T21:11:00Z"),
        ("usage resets weekly; try again at 10:11 PM", "2026-11-21T21:11:00Z"),
        ("resets 9pm (Mars/Base), try again in 3 parsecs, or try again in 1h", "2026-11-21T21:24:30Z"),
        ("resets on 2026-13-40 03:00 or resets on 2026-11-22 03:00", "2026-11-22T02:00:00Z"),
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
