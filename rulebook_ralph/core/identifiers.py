"""What a task id and an iteration's number may be: parts of branch and ref names, of file names and command lines."""

import re

from rulebook_ralph.core.problem import escaped

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_ALLOWED = re.compile(r"[A-Za-z0-9._-]")
_OTHERS = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_FOLDER = 60
_NAMELESS = "project"
_FIRST = re.compile(r"[A-Za-z0-9]")
MAX_LENGTH = 100
ITERATION_NUMBER = "[1-9][0-9]{0,8}"
"""A pattern for the number of an iteration."""
LAST_ITERATION = 999_999_999


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


def project_name(folder: str) -> str:
    """What a project is called that nobody named: as its folder, with what may be part of a ref."""
    name = _OTHERS.sub("-", folder).strip("-._")[:_LONGEST_FOLDER] or _NAMELESS
    return _NAMELESS if problem_with_id(name) else name
