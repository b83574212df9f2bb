"""Whether a regular expression from a file may be used: it compiles, and can neither fill the memory nor match all."""

import re
from math import prod

LONGEST = 1000
MOST_REPEATS = 10_000
"""Of all counted repeats together: `regex` copies what is inside `{n}`, and a few nested ones fill any memory."""

_COUNTED = re.compile(r"\{(\d*),?(\d*)\}", re.ASCII)
_RECURSIVE = re.compile(r"\(\?(?:R|[+-]?\d+|&\w+|P>\w+)\)")


def problem_with_pattern(text: str) -> str | None:
    """What is wrong with a regular expression of the `regex` package, worded as a message, or None."""
    if len(text) > LONGEST:
        return f"is longer than {LONGEST} characters"
    counts = [max(int(low[:9] or 1), int(high[:9] or 1), 1) for low, high in _COUNTED.findall(text)]
    if prod(counts) > MOST_REPEATS:
        return f"its counted repeats come to more than {MOST_REPEATS}"
    if _RECURSIVE.search(text):
        return "must not call itself"
    import regex  # noqa: PLC0415 - costs 15 ms, and few files have a pattern

    try:
        pattern = regex.compile(text)
        matches_nothing = pattern.search("", timeout=1) is not None
    except regex.error as error:
        return f"is no regular expression: {error}"
    except (RecursionError, MemoryError, OverflowError, ValueError, TimeoutError):
        return "is no regular expression that can be used: it is too complex"
    return "matches an empty text, and so every text" if matches_nothing else None
