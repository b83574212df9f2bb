"""What a task id may be. An id becomes part of branch and ref names, of file names and of command lines."""

import re

from rulebook_ralph.core.problem import escaped

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_ALLOWED = re.compile(r"[A-Za-z0-9._-]")
_FIRST = re.compile(r"[A-Za-z0-9]")
MAX_LENGTH = 100


def problem_with_id(task_id: str) -> str | None:
    """What is wrong with an id, worded to follow it in a sentence ("is empty"), or None when it may be used.

    Ids must also be unique without regard to case; that is for whoever sees all of them.
    """
    if not task_id:
        return "is empty"
    if len(task_id) > MAX_LENGTH:
        return f"is longer than {MAX_LENGTH} characters"
    if task_id[0].isascii() and not _FIRST.match(task_id):
        return "must start with a letter or digit"
    if not _ID.fullmatch(task_id):
        other = next(char for char in task_id if not _ALLOWED.match(char))
        return f"may hold only letters, digits, '.', '_' and '-' (a-z, A-Z, 0-9), not '{escaped(other)}'"
    if ".." in task_id or task_id.endswith((".", ".lock")):
        return "must not hold '..', nor end with '.' or '.lock'"
    return None
