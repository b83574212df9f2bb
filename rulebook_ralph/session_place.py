"""Where a loop in a Claude Code session leaves its note, found without git and importing next to nothing of Python."""

import os

SESSION_NOTE = "session.json"
_STATE_FOLDER = ".rulebook-ralph"
_LONGEST = 1 << 16


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
            told = file.read(_LONGEST).removeprefix("gitdir:").strip()
    except IsADirectoryError:
        return f"{git}/ralph"
    except OSError:
        return None
    return os.path.join(folder, told, "ralph")  # noqa: PTH118


def has_note(start: str) -> bool:
    """Whether a session's loop goes on in the project around a folder."""
    private = private_folder(start)
    return private is not None and os.path.lexists(f"{private}/{SESSION_NOTE}")
