"""Secrets in what was added. What they are is never told."""

import re
from collections.abc import Callable, Iterable, Iterator

from rulebook_ralph.checks.integrity.objection import Objection
from rulebook_ralph.core.diff import FileDiff

_PRIVATE_KEY = re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")
_EXAMPLE = re.compile(
    r"EXAMPLE|PLACEHOLDER|REDACTED|DUMMY|CHANGE.?ME|YOUR[-_ ]|NOT[-_ ]?(?:A[-_ ])?REAL|FAKE|SAMPLE|"
    r"(.)\1{5,}|(?:0?123456|abcdef|\.\.\.|<[\w -]+>|\$\{|\{\{)",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"[A-Za-z0-9_+/.-]{8,}")
_LONGEST = 20_000
_KEY_LINE = re.compile(r"^[\s\"'+\\n]*[A-Za-z0-9+/=]{32,}")


def secrets_in(diff: Iterable[FileDiff], has_secret: Callable[[str], bool]) -> Iterator[Objection]:
    """One objection for each file that was given one. `has_secret` says whether a line holds one."""
    for file in diff:
        if file.kind in ("A", "R") and has_secret(file.path) and not is_example(file.path, has_secret):
            folder = file.path.rpartition("/")[0] or "."
            yield Objection(folder, None, "a file whose name looks like a secret (a key or token) was added")
        whole = "\n".join(line.text for line in file.added)
        if "PRIVATE KEY" not in whole and not has_secret(whole):
            continue
        before = {line.text for line in file.removed}
        lines = [line for line in file.added if line.text not in before]
        for at, line in enumerate(lines):
            text = line.text[:_LONGEST]
            if begins := private_key_in(text):
                following = lines[at + 1].text if at + 1 < len(lines) else ""
                if _KEY_LINE.match(following) or _KEY_LINE.search(text[begins.end() :]):
                    yield Objection(file.path, line.number, "a private key was added")
                    break
            elif has_secret(text) and not is_example(text, has_secret):
                yield Objection(file.path, line.number, "what looks like a secret (a key or token) was added")
                break


def own_secrets_in(diff: Iterable[FileDiff], has_own_secret: Callable[[str], bool]) -> Iterator[Objection]:
    """One objection for each file that was given a secret of this environment; none of these is an example."""
    for file in diff:
        if file.kind in ("A", "R") and has_own_secret(file.path):
            folder = file.path.rpartition("/")[0] or "."
            yield Objection(folder, None, "a file was added whose name holds a secret of this environment")
        before = {line.text for line in file.removed}
        found = (line for line in file.added if line.text not in before and has_own_secret(line.text))
        if line := next(found, None):
            yield Objection(file.path, line.number, "a secret of this environment was added")


def is_example(line: str, has_secret: Callable[[str], bool]) -> bool:
    """Whether nothing is left to find in a line once what is plainly made up is taken out of it."""
    return not has_secret(_TOKEN.sub(lambda found: "" if _EXAMPLE.search(found[0]) else found[0], line))


def private_key_in(text: str) -> re.Match[str] | None:
    """Where a private key begins."""
    return _PRIVATE_KEY.search(text)
