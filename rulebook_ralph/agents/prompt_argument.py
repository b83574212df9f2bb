"""Where the prompt goes of an agent that takes it as an argument: there, or where it is too long for one, to stdin."""

_LONGEST = 120_000
"""Bytes. Linux takes at most 131,072 in one argument, and macOS 1 MB in all of them and the environment."""


def placed(prompt: str, *option: str) -> tuple[tuple[str, ...], bytes | None]:
    """The words that carry the prompt, `option` before it, and what is fed to stdin: one of the two is empty."""
    encoded = prompt.encode("utf-8", "replace")
    if len(encoded) > _LONGEST or "\0" in prompt:
        return (), encoded
    return (*option, encoded.decode("utf-8")), None
