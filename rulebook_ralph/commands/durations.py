"""A length of time on the command line, as in the configuration."""

import re

import click

_FORM = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?", re.ASCII)


class Duration(click.ParamType[float]):
    """Seconds: a number, or parts such as 90s, 45m, 1h30m."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        match = _FORM.fullmatch(str(value))
        if match is None or not any(match.groups()):
            self.fail(f"'{value}' is no length of time; write 90s, 45m or 1h30m", param, ctx)
        hours, minutes, seconds = (float(part or 0) for part in match.groups())
        total = hours * 3600 + minutes * 60 + seconds
        if total <= 0:
            self.fail("must be more than nothing", param, ctx)
        return total
