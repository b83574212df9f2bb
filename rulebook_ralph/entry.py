"""The console script. A stop of a Claude Code session in which no loop goes on, as nearly every stop is one, ends here:
nothing else of Ralph is imported for it.
"""

import os
import sys
from typing import NoReturn

SESSION_NOTE = "session.json"
"""The file in Ralph's part of the git folder that is there while a session's loop goes on."""

_STOP = ["hook", "stop"]
_STATE_FOLDER = ".rulebook-ralph"
_BLOCK = 1 << 16


def main() -> NoReturn:
    """Ends the process with one of the exit codes of errors.py."""
    if sys.argv[1:3] == _STOP and not has_note(os.environ.get("CLAUDE_PROJECT_DIR") or os.curdir):
        try:
            while os.read(0, _BLOCK):  # whoever writes it expects it to be read
                pass
        except OSError:  # it is closed
            pass
        sys.exit(0)
    from rulebook_ralph.cli.main import main as command_line  # noqa: PLC0415 - see above

    command_line()


def private_folder(start: str) -> str | None:
    """Ralph's part of the git folder of the project around a folder; None outside of any project."""
    folder = os.path.abspath(start)  # noqa: PTH100 - pathlib alone takes longer than all of this
    while not os.path.isdir(f"{folder}/{_STATE_FOLDER}"):  # noqa: PTH112
        above = os.path.dirname(folder)  # noqa: PTH120
        if above == folder:
            return None
        folder = above
    git = f"{folder}/.git"
    try:
        with open(git, encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
            target = file.read(_BLOCK).removeprefix("gitdir:").strip()
    except IsADirectoryError:
        return f"{git}/ralph"
    except OSError:
        return None
    return os.path.join(folder, target, "ralph")  # noqa: PTH118


def has_note(start: str) -> bool:
    """Whether a session's loop goes on in the project around a folder."""
    private = private_folder(start)
    return private is not None and os.path.lexists(f"{private}/{SESSION_NOTE}")
