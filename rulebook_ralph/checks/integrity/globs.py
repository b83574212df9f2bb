"""Globs as in a .gitignore: without a slash at any depth, a folder stands for all in it, `**`, `!` takes back."""

import re
from collections.abc import Iterable


class Globs:
    """Several globs; of those that match a path the last one decides."""

    def __init__(self, globs: Iterable[str]) -> None:
        self._rules = [
            (re.compile(_expression(glob.removeprefix("!")), re.DOTALL), not glob.startswith("!"))
            for glob in globs
            if glob.strip("/!")
        ]

    def match(self, path: str) -> bool:
        """Whether a path of the repository (of a file, with slashes) is meant."""
        return next((meant for rule, meant in reversed(self._rules) if rule.fullmatch(path)), False)


def _expression(glob: str) -> str:
    anchored = "/" in glob.rstrip("/")
    inside = "/.*" if glob.endswith("/") else "(?:/.*)?"
    glob = glob.strip("/").removeprefix("./")
    parts: list[str] = []
    at = 0
    while at < len(glob):
        if glob.startswith("**/", at):
            parts.append("(?:.*/)?")
            at += 3
        elif glob.startswith("**", at):
            parts.append(".*")
            at += 2
        elif glob[at] == "[" and "]" in glob[at + 2 :]:
            end = glob.index("]", at + 2)
            parts.append(_characters(glob[at + 1 : end]))
            at = end + 1
        elif glob[at] == "\\" and at + 1 < len(glob):
            parts.append(re.escape(glob[at + 1]))
            at += 2
        else:
            parts.append({"*": "[^/]*", "?": "[^/]"}.get(glob[at], re.escape(glob[at])))
            at += 1
    return ("" if anchored else "(?:.*/)?") + "".join(parts) + inside


def _characters(text: str) -> str:
    negated = text.startswith(("!", "^"))
    text = text[1:] if negated else text
    safe = re.sub(r"([\\\[\]^&~|])", r"\\\1", text)
    if re.search(r"(.)-(.)", safe) and any(a > b for a, b in re.findall(r"(.)-(.)", safe)):
        safe = safe.replace("-", r"\-")
    return f"[{'^/' if negated else ''}{safe}]" if safe else "(?!)"
