"""Which lines of a file were last changed by commits with a trailer."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from rulebook_ralph.workspace.git import GitError
from rulebook_ralph.workspace.repository import Repository

_OWN_RULES = ("-c", "blame.ignoreRevsFile=", "-c", "diff.noprefix=false")
_HEADER_WORDS = (3, 4)


def made_with_trailer(repository: Repository, file: Path, key: str) -> Mapping[int, Collection[str]]:
    """By line (0 is the first) of the file as it stands, the trailer's values, where the commit that made the line has
    any. Lines that no commit has are nobody's, and so are all of a file that git does not have.
    """
    try:
        path = os.path.relpath(file.resolve(), repository.root.resolve())
        blamed = repository.git.raw(*_OWN_RULES, "blame", "--porcelain", "--", path)
    except (OSError, ValueError, GitError):
        return {}
    commits: dict[int, str] = {}
    for line in blamed.split(b"\n"):
        words = [] if line.startswith(b"\t") else line.decode("ascii", "replace").split(" ")
        if len(words) in _HEADER_WORDS and all(word.isdigit() for word in words[1:]):
            commits[int(words[2]) - 1] = words[0]
    values = _values(repository, sorted({commit for commit in commits.values() if commit.strip("0")}), key)
    return {row: values[commit] for row, commit in commits.items() if values.get(commit)}


def _values(repository: Repository, commits: list[str], key: str) -> Mapping[str, Collection[str]]:
    if not commits:
        return {}
    wanted = f"--format=%H %(trailers:key={key},valueonly,separator=%x20)"
    told = repository.git.text("log", "--no-walk=unsorted", wanted, "--stdin", stdin="\n".join(commits).encode())
    return {commit: values for commit, *values in (line.split() for line in told.splitlines())}
