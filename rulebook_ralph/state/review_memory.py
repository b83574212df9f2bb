"""What reviewers said of files before, for `ralph review`: a small file of the user's own, outside every repository.

A run neither reads nor writes it: what an agent could write to must not say that its work was reviewed.
"""

from pathlib import Path

import msgspec

from rulebook_ralph.core.review import Memory, Seen
from rulebook_ralph.errors import RalphError
from rulebook_ralph.state import disk

_LARGEST = 8 * 1024 * 1024
_MOST = 10_000
"""Files that are remembered; the oldest go first."""


def read(file: Path, *, root: Path) -> Memory:
    """What is remembered; nothing where the file cannot be believed, or could have come with the project at `root`."""
    if file.resolve().is_relative_to(root.resolve()):
        return {}
    try:
        return msgspec.json.decode(disk.read_file(file, largest=_LARGEST), type=dict[str, Seen])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}


def write(file: Path, memory: Memory, *, root: Path) -> None:
    """Remember the newest of it, if it can be written: without it, reviewers are only asked again."""
    if file.resolve().is_relative_to(root.resolve()):
        return
    newest = dict(list(memory.items())[-_MOST:])
    try:
        disk.make_folder(file.parent)
        disk.replace_file(file, msgspec.json.encode(newest))
    except RalphError:
        return
