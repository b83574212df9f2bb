"""When a usage limit ends, as agents say it: an epoch, a clock time in some time zone, or a duration. Pure.

Only for what an agent itself reports as its error; never for tool output, never for what a model wrote.
"""

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_OFFSETS = {
    "UTC": 0,
    "GMT": 0,
    "BST": 1,
    "CET": 1,
    "CEST": 2,
    "EST": -5,
    "EDT": -4,
    "CST": -6,
    "CDT": -5,
    "MST": -7,
    "MDT": -6,
    "PST": -8,
    "PDT": -7,
    "JST": 9,
}
"""Hours east of UTC of the abbreviations that mean one thing to most."""

_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_UNIT = r"(?P<unit>ms|(?P<letter>[smhdw])(?:ec(?:ond)?s?|in(?:ute)?s?|(?:ou)?rs?|ays?|eeks?)?)(?![a-z])"
_AMOUNT = re.compile(rf"(?P<amount>\d+(?:\.\d+)?)\s?{_UNIT}", re.IGNORECASE)
_SAID = r"\b(?:resets?|try again|available again|renews)"
_DURATION = re.compile(
    rf"(?:{_SAID}|\bretry) (?:in|after) (?P<amounts>(?:\d+(?:\.\d+)?\s?[a-z]+[,\s]*(?:and )?){{1,5}})", re.IGNORECASE
)
_DATE = (
    rf"(?P<month>{'|'.join(_MONTHS)})[a-z]*\.? (?P<day>\d{{1,2}})(?:st|nd|rd|th)?"
    r"(?:,? (?P<year>20\d\d))?,?\s+(?:at )?"
)
_CLOCK = re.compile(
    rf"{_SAID}(?: (?:at|on))?\s+(?:{_DATE})?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d)(?::\d\d)?)?(?:\s?(?P<half>[ap])\.?m\b\.?)?"
    rf"(?:\s*\((?P<zone>[\w/+-]+)\)|\s+(?P<abbreviation>{'|'.join(_OFFSETS)})\b)?",
    re.IGNORECASE,
)
_EPOCH = re.compile(r"limit reached\|(\d{9,13})\b")

_JUST_PASSED = timedelta(minutes=5)
_HALF_A_YEAR = timedelta(days=183)
_NOON = 12


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
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds < 0:
        return None
    try:
        return _iso(now + timedelta(seconds=seconds))
    except (ValueError, OverflowError):
        return None


def seconds_of(duration: str) -> float | None:
    """`3h20m15s`, `59.5s` or `2 days 10 hours` in seconds; None where nothing of it is understood."""
    amounts = [(float(one["amount"]), one["unit"].lower(), one["letter"]) for one in _AMOUNT.finditer(duration)]
    if not amounts:
        return None
    return sum(amount * _SECONDS[(letter or unit).lower()] for amount, unit, letter in amounts)


def stated_reset(message: str, now: datetime) -> str | None:
    """When a message says that its limit ends, as an ISO time in UTC; None where it says nothing that is understood.

    `now` is aware, in the agent's local time zone, which a clock time without a zone is meant in. A clock time without
    a date is the next such, or one that has just passed.
    """
    plain = message.replace("\u2019", "'")[:10_000]
    epoch = _EPOCH.search(plain)
    if epoch:
        return iso_time(int(epoch[1]))
    duration = _DURATION.search(plain)
    if duration:
        return iso_after(seconds_of(duration["amounts"]), now)
    clock = _CLOCK.search(plain)
    try:
        return _iso(_moment(clock, now)) if clock else None
    except (ValueError, OverflowError):
        return None


def _moment(said: re.Match[str], now: datetime) -> datetime:
    """Raises ValueError for a time that there is not, and for a zone that is not known."""
    if not said["half"] and not said["minute"]:
        raise ValueError(said[0])
    zone = _zone(said["zone"] or said["abbreviation"]) or now.tzinfo
    here = now.astimezone(zone)
    time = here.replace(hour=_hour(said), minute=int(said["minute"] or 0), second=0, microsecond=0)
    if not said["month"]:
        return time + timedelta(days=1) if time < here - _JUST_PASSED else time
    month = _MONTHS.index(said["month"].lower()) + 1
    dated = time.replace(year=int(said["year"] or here.year), month=month, day=int(said["day"]))
    if not said["year"] and dated < here - _HALF_A_YEAR:
        return dated.replace(year=here.year + 1)
    return dated


def _hour(said: re.Match[str]) -> int:
    hour, half = int(said["hour"]), said["half"]
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
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(name) from error


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
