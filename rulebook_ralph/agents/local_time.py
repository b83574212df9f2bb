"""The local time of an agent, which is that of the environment it runs in."""

from collections.abc import Callable, Mapping
from datetime import datetime, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

Now = Callable[[], datetime]
"""The time, aware, in the local zone of the agent."""

_SYSTEM = Path("/etc/localtime")


def local_clock(environment: Mapping[str, str]) -> Now:
    """A clock in the zone that `TZ` names there, else in the system's."""
    zone = _zone(environment.get("TZ", ""))
    return lambda: datetime.now(zone).astimezone(zone)


def _zone(name: str) -> tzinfo | None:
    """None is the zone of this process."""
    try:
        if name:
            return ZoneInfo(name.removeprefix(":"))
        with _SYSTEM.open("rb") as file:
            return ZoneInfo.from_file(file)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
