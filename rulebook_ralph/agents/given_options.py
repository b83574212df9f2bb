"""Options that the user gave: not every CLI lets the last of two win, some end with an error at the second."""

from collections.abc import Sequence


def unless_given(args: Sequence[str], option: tuple[str, ...], *names: str) -> tuple[str, ...]:
    """`option`, or nothing where `args` have one of the names (`--name value`, `--name=value`, or the short `-n`)."""
    return () if any(_is(arg, name) for arg in args for name in names) else option


def _is(arg: str, name: str) -> bool:
    return arg == name or arg.startswith(f"{name}=")
