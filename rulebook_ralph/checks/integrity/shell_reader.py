"""Follows a shell's text from command to command: folders, variables, loops, what is run in place of words."""

import posixpath
from collections.abc import Iterable, Sequence

from rulebook_ralph.checks.integrity.program_words import ASSIGNMENT, UNTOLD, of_find
from rulebook_ralph.checks.integrity.shell_values import ROOT, UNKNOWN, Values
from rulebook_ralph.checks.integrity.shell_words import Command, split

DEEPEST = 4
"""Texts within texts that are read."""
_LONGEST_PATH = 1000
_KEYWORDS = frozenset(("then", "do", "else", "elif", "if", "while", "until", "!", "{", "time"))
_DECLARING = frozenset(("export", "local", "declare", "readonly", "typeset"))
_PRINTING = frozenset(("echo", "printf", "realpath", "readlink", "ls", "git"))
_PASSING = frozenset(("sort", "uniq", "grep", "tr", "head", "tail", "tac", "sed", "awk", "shuf", "xargs"))


class ShellReader:
    """What each command does is left to `run`, what else is named to `saw`."""

    def __init__(self) -> None:
        self.values = Values(self._substituted)
        self._inner: list[str] = []
        self._printed: dict[int, list[str]] = {}
        self._folder = "."
        self._nested = 0

    def run(self, words: Sequence[str], command: Command, folder: str, depth: int) -> None:
        raise NotImplementedError

    def saw(self, words: Iterable[str], folder: str) -> None:
        raise NotImplementedError

    def read(self, text: str, folder: str, depth: int = 0) -> None:
        """Go through a cleaned text. What it assigns is known afterwards."""
        folders = [folder]
        for command in split(text, self._inner):
            del folders[command.level + 1 :]
            folders += [folders[-1]] * (command.level + 1 - len(folders))
            folders[command.level] = self._command(command, folders[command.level], depth)

    def _command(self, command: Command, folder: str, depth: int) -> str:
        """Returns the folder of the next command."""
        self._folder = folder
        self.values.assign("PWD", [f"{ROOT}/{folder}"])
        for word in command.fed:
            self.saw(self.values.expand(word), folder)
        at = 0
        words = command.words
        while at < len(words) and (words[at] in _KEYWORDS or ASSIGNMENT.match(words[at])):
            if words[at] not in _KEYWORDS:
                self._assign(words[at], folder)
            at += 1
        if at == len(words):
            return folder
        return self._simple(words[at], words[at + 1 :], command, folder, depth)

    def _simple(self, first: str, rest: Sequence[str], command: Command, folder: str, depth: int) -> str:
        if first in ("cd", "pushd"):
            plain = [word for word in rest if not word.startswith("-")]
            return within(folder, self.values.expand(plain[0])[0]) if plain else folder
        if first == "eval" and depth < DEEPEST:
            self.read(" ".join(rest), folder, depth + 1)
        elif not self._gives_values(first, rest, folder):
            self.run([first, *rest], command, folder, depth)
        return folder

    def _gives_values(self, first: str, rest: Sequence[str], folder: str) -> bool:
        """Whether it is a command that gives variables their values; it is done then."""
        if first in ("for", "select") and rest:
            values = self._all(rest[2:]) if rest[1:2] == ["in"] else self.values.expand("$@")
            self.values.assign(rest[0], values)
            self.saw(values, folder)
        elif first in ("read", "mapfile", "readarray"):
            for word in rest:
                self.values.assign(word, None)
        elif first in _DECLARING:
            for word in filter(ASSIGNMENT.match, rest):
                self._assign(word, folder)
        elif first == "set" and "--" in rest:
            values = self._all(rest[list(rest).index("--") + 1 :])
            for name in "@*":
                self.values.assign(name, values)
            self.saw(values, folder)
        else:
            return False
        return True

    def _assign(self, word: str, folder: str) -> None:
        self.values.assign_word(word)
        value = word.partition("=")[2]
        self.saw((part for each in self.values.expand(value) for part in each.split()), folder)

    def _all(self, words: Iterable[str]) -> list[str]:
        return [value for word in words for value in self.values.expand(word)]

    def _substituted(self, number: int) -> Sequence[str]:
        """What stands in place of a `$( )`; it is run, too."""
        if number not in self._printed:
            self._printed[number] = []
            if self._nested < DEEPEST:
                self._nested += 1
                folder = self._folder
                self._printed[number] = self._output(self._inner[number], folder)
                self._folder = folder
                self._nested -= 1
        return self._printed[number]

    def _output(self, text: str, folder: str) -> list[str]:
        """What a text prints, as far as that can be told."""
        printed: list[str] = []
        for command in split(text, self._inner):
            if command.words:
                printed = self._prints(command, folder, printed)
            elif command.fed:
                printed = [*self._all(command.fed), UNKNOWN]
            folder = self._command(command, folder, self._nested)
        return printed

    def _prints(self, command: Command, folder: str, before: list[str]) -> list[str]:
        first = posixpath.basename(command.words[0])
        rest = command.words[1:]
        plain = [value for value in self._all(rest) if not value.startswith("-")]
        printed: list[str] = []
        if first == "pwd":
            printed = [f"{ROOT}/{folder}"]
        elif first == "git" and "--show-toplevel" in rest:
            printed = [ROOT]
        elif first == "dirname":
            printed = [posixpath.dirname(value) or "." for value in plain]
        elif first == "find":
            printed = self._all(of_find(rest).places)
        elif first == "cat":
            printed = [*plain, UNKNOWN]
        elif first in _PRINTING:
            printed = [value for value in plain if any(sign in value for sign in "./*")]
        elif first in _PASSING and command.is_piped:
            printed = before
        return printed


def within(folder: str, path: str) -> str:
    """A path from the repository's root."""
    joined = posixpath.join(folder, path)
    if ROOT in joined:
        joined = joined.rpartition(ROOT)[2].lstrip("/") or "."
    if len(joined) > _LONGEST_PATH:
        return UNKNOWN
    return posixpath.normpath(joined).removeprefix("./")


def named(words: Iterable[str], folder: str) -> set[str]:
    """Places that words name, as far as they are known."""
    places = (within(folder, word) for word in words if word and not word.startswith("-") and word != UNTOLD)
    return {place.replace(UNKNOWN, "*") for place in places if place != "." and not place.startswith(UNKNOWN)}
