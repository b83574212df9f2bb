"""How many tokens a text may come to, before any model has counted them."""

BYTES_PER_TOKEN = 3
"""Of UTF-8: English has about four."""


def tokens(text: str) -> int:
    """An upper estimate of a text's tokens."""
    return len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN
