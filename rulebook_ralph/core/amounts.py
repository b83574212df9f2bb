"""How durations, money and tokens read to a person: `1 h 02 min`, `$0.42`, `12.4k tokens`."""

_MINUTE = 60
_HOUR = 3600
_TENTHS_END = 59.95
_CENT = 0.01
_LEAST = 0.0001
_THOUSAND = 1000
_MILLION_BEGINS = 999.95


def duration(seconds: float) -> str:
    """`12.3 s`, from a minute on `1 min 05 s`, from an hour on `1 h 02 min`; never negative."""
    if seconds < _TENTHS_END:
        return f"{max(seconds, 0.0):.1f} s"
    whole = round(seconds)
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE:02d} s"
    minutes = round(seconds / _MINUTE)
    return f"{minutes // _MINUTE} h {minutes % _MINUTE:02d} min"


def span(seconds: float) -> str:
    """A round length of time, such as a limit: `0.5 s`, `90 s` is `1 min 30 s`, 600 s `10 min`, 3600 s `1 h`."""
    if seconds < _MINUTE and seconds == int(seconds):
        return f"{int(seconds)} s"
    return duration(seconds).removesuffix(" 00 s").removesuffix(" 00 min")


def money(usd: float) -> str:
    """Dollars with cents; below a cent with one digit that says something."""
    if 0 < usd < _LEAST:
        return f"<${_LEAST}"
    if 0 < usd < _CENT:
        return f"${usd:.4f}".rstrip("0")
    return f"${usd:,.2f}"


def tokens(count: int) -> str:
    """`1 token`, `950 tokens`, `12.4k tokens`, `1.2M tokens`."""
    if count < _THOUSAND:
        return f"{count} token{'' if count == 1 else 's'}"
    thousands = count / _THOUSAND
    if thousands < _MILLION_BEGINS:
        return f"{thousands:.1f}k tokens"
    return f"{thousands / _THOUSAND:,.1f}M tokens"
