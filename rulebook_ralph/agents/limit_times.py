"""When a usage limit ends, as agents say it: an epoch, a date, a weekday or a clock time in some time zone, or a
duration; and the clock of an agent, since such a time is meant in its local zone.

Only for what an agent itself reports as its error; never for tool output, never for what a model wrote.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

Now = Callable[[], datetime]
"""The time, aware, in the local zone of the agent."""

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_EAST = "UTC=0 GMT=0 BST=1 CET=1 CEST=2 JST=9 EST=-5 EDT=-4 CST=-6 CDT=-5 MST=-7 MDT=-6 PST=-8 PDT=-7"
_OFFSETS = {name: int(hours) for name, _, hours in (each.partition("=") for each in _EAST.split())}
"""Hours east of UTC of the abbreviations that mean one thing to most."""

_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_AMOUNT = re.compile(
    r"(\d+(?:\.\d+)?)\s?(ms|s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:(?:ou)?rs?)?|d(?:ays?)?|w(?:eeks?)?)(?![a-z])",
    re.IGNORECASE,
)
_SAID = r"\b(?:resets?|try\sagain|available\sagain|renews)"
_DURATION = re.compile(
    rf"(?:(?:{_SAID}|\b(?:retry|available|come back)):? (?:in|after)|\bwait(?: for)?) (?:about |approximately |~ ?)?"
    r"((?:\d+(?:\.\d+)?\s?[a-z]+[,\s]*(?:and )?){1,5})",
    re.IGNORECASE,
)
_WEEK = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_STATED = re.compile(
    rf"""
    {_SAID}:?\s+(?:(?:at|on)\s+)?
    (?:(?P<word>today|tomorrow|(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?)\b\.?,?\s*(?:at\s+)?)?
    (?:(?P<month>{"|".join(_MONTHS)})[a-z]*\.?\s(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\s(?P<year>20\d\d))?,?\s*(?:at\s+)?)?
    (?P<clock>(?P<hour>\d{{1,2}})(?::(?P<minute>\d\d)(?::\d\d)?)?(?:\s?(?P<half>[ap])\.?m\b\.?)?)?
    (?:
        \s*\((?P<zone>[\w/+:-]+)\)
        |\s*(?P<abbreviation>\b(?:{"|".join(_OFFSETS)})\b)
    )?
    """,
    re.IGNORECASE | re.VERBOSE,
)
_ISO = re.compile(
    rf"{_SAID}:?\s+(?:(?:at|on)\s+)?(\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?)(?:\.\d+)?(?:\s?(Z|UTC|[+-]\d\d:?\d\d))?",
    re.IGNORECASE,
)
_EPOCH = re.compile(rf"(?:limit[^|]{{0,80}}\||{_SAID}:?(?: at)? )(\d{{9,13}})\b", re.IGNORECASE)

_JUST_PASSED = timedelta(minutes=5)
_HALF_A_YEAR = timedelta(days=183)
_NOON = 12
_LONGEST_WAIT = 10**9


def local_clock(environment: Mapping[str, str]) -> Now:
    """A clock in the zone that `TZ` names there, else in the system's."""
    zone: tzinfo | None = None
    with suppress(ZoneInfoNotFoundError, ValueError, OSError):
        zone = ZoneInfo(environment.get("TZ", "").removeprefix(":"))
    return lambda: datetime.now(zone).astimezone(zone)


def iso_time(epoch: object) -> str | None:
    """Seconds (or milliseconds) since 1970 as an ISO time in UTC; None for anything that is none."""
    if isinstance(epoch, bool) or not isinstance(epoch, int | float):
        return None
    try:
        seconds = epoch / 1000 if epoch > 1e11 else epoch  # noqa: PLR2004 - in seconds, the year 5138
        return _iso(datetime.fromtimestamp(seconds, UTC))
    except (ValueError, OverflowError, OSError):
        return None


def iso_after(seconds: object, now: datetime) -> str | None:
    """The time that many seconds after `now` as an ISO time in UTC; None for anything that is no such number."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= _LONGEST_WAIT:
        return None
    return _iso(now + timedelta(seconds=seconds))


def seconds_of(duration: str) -> float | None:
    """`3h20m15s`, `59.5s` or `2 days 10 hours` in seconds; None where nothing of it is understood."""
    amounts = [(float(amount), unit.lower()) for amount, unit in _AMOUNT.findall(duration)]
    return sum(amount * _SECONDS[unit if unit == "ms" else unit[0]] for amount, unit in amounts) if amounts else None


def stated_reset(message: str, now: datetime) -> str | None:
    """When a message says that its limit ends, as an ISO time in UTC; None where it says nothing that is understood.

    `now` is aware, in the agent's local time zone, which a clock time without a zone is meant in. A clock time without
    a date is the next such, or one that has just passed. Where a message speaks of more than one, the first that is
    understood counts.
    """
    plain = message.replace("\u2019", "'")[:10_000]
    for pattern, reset_of in _WAYS:
        for said in pattern.finditer(plain):
            try:
                reset = reset_of(said, now)
            except (ValueError, OverflowError):
                continue
            if reset:
                return reset
    return None


def _dated(said: re.Match[str], now: datetime) -> str:
    """A time that is written as computers do. Raises ValueError for one that there is not."""
    moment = datetime.fromisoformat(said[1] + (said[2] or "").upper().replace("UTC", "Z"))
    return _iso(moment if moment.tzinfo else moment.replace(tzinfo=now.tzinfo))


def _stated(said: re.Match[str], now: datetime) -> str:
    """A day alone begins at 0:00. Raises ValueError for a time that there is not, and for a zone that is not known."""
    word = (said["word"] or "").lower()
    vague = not said["clock"] and not said["month"] and word in ("", "today")
    if vague or (said["clock"] and not said["half"] and not said["minute"]):
        raise ValueError(said[0])
    here = now.astimezone(_zone(said["zone"] or said["abbreviation"]) or now.tzinfo)
    time = here.replace(hour=_hour(said), minute=int(said["minute"] or 0), second=0, microsecond=0)
    if said["month"]:
        month, year = _MONTHS.index(said["month"].lower()) + 1, int(said["year"] or here.year)
        time = time.replace(year=year, month=month, day=int(said["day"]))
        if not said["year"] and time < here - _HALF_A_YEAR:
            time = time.replace(year=year + 1)
    elif word in ("today", "tomorrow"):
        time += timedelta(days=word == "tomorrow")
    else:
        time += timedelta(days=(_WEEK.index(word[:3]) - here.weekday()) % 7 if word else 0)
        if time < here - _JUST_PASSED:
            time += timedelta(days=7 if word else 1)
    return _iso(time)


def _hour(said: re.Match[str]) -> int:
    hour, half = int(said["hour"] or 0), said["half"]
    if not half:
        return hour
    if not 1 <= hour <= _NOON:
        raise ValueError(said[0])
    return hour % _NOON + (_NOON if half.lower() == "p" else 0)


def _zone(name: str | None) -> tzinfo | None:
    """The zone of that name; None where none is named. Raises ValueError for one that is not known."""
    if not name:
        return None
    if name.upper() in _OFFSETS:
        return timezone(timedelta(hours=_OFFSETS[name.upper()]))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError) as error:
        raise ValueError(name) from error


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_WAYS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], datetime], str | None]], ...] = (
    (_EPOCH, lambda said, _: iso_time(int(said[1]))),
    (_DURATION, lambda said, now: iso_after(seconds_of(said[1]), now)),
    (_ISO, _dated),
    (_STATED, _stated),
)
"""The plainest ways of saying it first."""
