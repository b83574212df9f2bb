"""What other programs wrote, made to outlive a power cut."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_EACH = 200
"""Of more files than that the whole disk is synced at once."""


def sync_file(path: Path) -> None:
    """Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_paths(root: Path, paths: Iterable[str]) -> None:
    """Those paths below `root`, whether they are there or were removed. What cannot be synced is left as it is."""
    named = [root / path for path in paths]
    if len(named) > _EACH:
        os.sync()
        return
    for path in (*named, *dict.fromkeys(path.parent for path in named)):
        with suppress(OSError):
            sync_file(path)
