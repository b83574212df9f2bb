"""The words that follow a program, taken apart: what `find`, `xargs`, `make` and the package managers are asked for."""

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from rulebook_ralph.checks.integrity import known_programs as known

UNTOLD = "$?"
"""A word of which nothing is known."""
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_NAMES = frozenset(("-name", "-iname", "-path", "-ipath", "-wholename"))
_EXECS = frozenset(("-exec", "-execdir", "-ok", "-okdir"))
_WITH_VALUE = frozenset(("-n", "-P", "-L", "-s", "-d", "-E", "--max-args", "--max-procs", "--delimiter"))
_PLACES = frozenset(("-C", "--directory", "--prefix", "--cwd", "--dir", "--working-directory", "-d"))
_FILES = frozenset(("-f", "--file", "--makefile", "--justfile"))


@dataclass(slots=True)
class Asked:
    """`places` are folders and patterns that it is pointed at, `files` what it reads, `runs` commands in it, `names`
    what is left.
    """

    places: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    runs: list[list[str]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)


def of_find(words: Sequence[str]) -> Asked:
    """`places`: what it finds, as globs."""
    asked = Asked()
    folders: list[str] = []
    patterns: list[str] = []
    at = 0
    while at < len(words) and not words[at].startswith(("-", "!")):
        folders.append(words[at])
        at += 1
    while at < len(words):
        word = words[at]
        if word in _NAMES and at + 1 < len(words):
            at += 1
            patterns.append(words[at] if "path" in word or word == "-wholename" else f"**/{words[at]}")
        elif word in _EXECS:
            end = next((i for i in range(at, len(words)) if words[i] in (";", "+")), len(words))
            asked.runs.append(_without_braces(words[at + 1 : end]))
            at = end
        at += 1
    for folder in folders[:20] or ["."]:
        for pattern in patterns[:20] or [""]:
            asked.places.append(posixpath.join(folder, pattern) if pattern.startswith("**/") else pattern or folder)
    return asked


def of_xargs(words: Sequence[str]) -> Asked:
    """`runs`: the command, with a word that is not known where it puts what it reads; `files` that it reads."""
    asked = Asked()
    rest = list(words[:500])
    replaced = "{}"
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in ("-a", "--arg-file") and rest:
            asked.files.append(rest.pop(0))
        elif option == "-I" and rest:
            replaced = rest.pop(0)
        elif option.startswith("-I"):
            replaced = option[2:]
        elif option in _WITH_VALUE and rest:
            del rest[0]
    if rest:
        asked.runs.append([*(UNTOLD if replaced in word else word for word in rest), UNTOLD])
    return asked


def of_parallel(words: Sequence[str]) -> Asked:
    """`runs`: the command; `names`: what it is run with."""
    end = next((i for i, word in enumerate(words) if word.startswith(":::")), len(words))
    rest = list(words[: min(end, 500)])
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in ("-j", "-n", "-N", "-a", "--jobs") and rest:
            del rest[0]
    runs = [[*_without_braces(rest), UNTOLD]] if rest else [[UNTOLD]]
    return Asked(runs=runs, names=[word for word in words[end:] if not word.startswith(":::")])


def of_runner(words: Sequence[str], *, with_files: bool) -> Asked:
    """What make, just or a package manager is asked for; `places` are the folders where."""
    asked = Asked()
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        if option in _PLACES:
            asked.places.append(value if equals else next(rest, "."))
        elif with_files and option in _FILES:
            asked.files.append(value if equals else next(rest, ""))
        elif with_files and word.startswith(("-C", "-f")) and not word.startswith("--"):
            (asked.places if word[1] == "C" else asked.files).append(word[2:])
        elif not word.startswith("-"):
            asked.names.append(word)
    return asked


def _without_braces(words: Sequence[str]) -> list[str]:
    return [UNTOLD if "{}" in word else word for word in words]


def without_wrappers(words: Sequence[str]) -> list[str]:
    """A command without what only goes before it."""
    left = list(words)
    while left:
        if ASSIGNMENT.match(left[0]) or posixpath.basename(left[0]) in known.WRAPPERS:
            del left[0]
            while left and left[0].startswith("-") and left[0] != "-":
                option = left.pop(0)
                if left and (left[0].isdigit() or option in ("-u", "-C")):
                    del left[0]
        elif left[0] == "timeout":
            at = next((i for i, word in enumerate(left[1:], 1) if re.match(r"\d", word)), len(left) - 1)
            del left[: at + 1]
        elif tuple(left[:2]) in known.PREFIXES:
            del left[:2]
            while left and left[0].startswith("-"):
                del left[0]
        else:
            break
    return left
