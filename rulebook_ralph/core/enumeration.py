"""Lists of names in a sentence."""

from collections.abc import Collection


def counted(count: int, noun: str, plural: str = "") -> str:
    """`1 problem`, `2 problems`; `plural` for a noun that takes more than an s."""
    return f"{count} {noun}" if count == 1 else f"{count} {plural or noun + 's'}"


def some(names: Collection[str], most: int = 5) -> str:
    """The first names, and how many more there are: `a, b and 3 more`."""
    shown = ", ".join(list(names)[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
