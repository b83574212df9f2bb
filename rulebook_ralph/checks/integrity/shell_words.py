"""A shell's text taken apart: its commands, their words, and what these are fed. In a time that grows with the text."""

import re
from dataclasses import dataclass, field

LONGEST = 20_000
"""Characters of a text that are read."""
_CONTROL = re.compile(r"[\0-\x08\x0b-\x1f]")
_PLAIN = re.compile(r"[^\s;&|()<>'\"\\$`]+")
_QUOTED = re.compile(r"[^\"\\$`]+")
_REDIRECT = re.compile(r"&>>?|<<<|<<-?|<>|<&|>>|>&|>\||[<>]")
_NESTING = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.|[()]", re.DOTALL)
_ASSIGNED = re.compile(r"[A-Za-z_]\w*\+?=")
BEGIN, END = "\x01", "\x02"
"""Stand around the number of a `$( )` in a word."""


@dataclass(slots=True)
class Command:
    """A simple command. `fed` are files that `<` names, `here` a text that it reads; `level` says in how many `( )`."""

    words: list[str] = field(default_factory=list)
    fed: list[str] = field(default_factory=list)
    here: str = ""
    is_piped: bool = False
    level: int = 0


def split(text: str, inner: list[str]) -> list[Command]:
    """The commands of a text (a `cleaned` one). What stands in `$( )`, `< ( )` or backticks is appended to `inner`."""
    return _Lexer(text[:LONGEST], inner).commands()


def cleaned(text: str) -> str:
    """A text without control characters, so that it holds no mark of ours."""
    return _CONTROL.sub("", text[:LONGEST])


def marked(number: int) -> str:
    return f"{BEGIN}{number}{END}"


class _Lexer:
    def __init__(self, text: str, inner: list[str]) -> None:
        self._text, self._inner = text, inner
        self._at = 0
        self._found: list[Command] = []
        self._command = Command()
        self._word: list[str] | None = None
        self._redirect = ""
        self._array = ""
        self._here: list[tuple[str, Command]] = []
        self._searches = 20

    def commands(self) -> list[Command]:
        text, end = self._text, len(self._text)
        while self._at < end:
            character = text[self._at]
            if plain := _PLAIN.match(text, self._at):
                self._plain(plain[0])
            elif character in "'\"":
                self._quote(character)
            elif character == "\\":
                self._escape()
            elif character in "$`":
                self._dollar()
            elif character in " \t":
                self._end_word()
                self._at += 1
            elif (redirect := _REDIRECT.match(text, self._at)) is not None:
                self._redirection(redirect[0])
            else:
                self._operator(character)
        self._end_command()
        return self._found

    def _add(self, text: str) -> None:
        self._word = [] if self._word is None else self._word
        self._word.append(text)

    def _plain(self, text: str) -> None:
        if self._word is None and text.startswith("#"):
            end = self._text.find("\n", self._at)
            self._at = len(self._text) if end < 0 else end
            return
        self._add(text)
        self._at += len(text)

    def _escape(self) -> None:
        following = self._text[self._at + 1 : self._at + 2]
        if following != "\n":
            self._add(following)
        self._at += 2

    def _quote(self, quote: str) -> None:
        end = self._text.find(quote, self._at + 1)
        if end < 0:  # it closes nowhere: it says nothing
            self._at += 1
        elif quote == "'":
            self._add(self._text[self._at + 1 : end])
            self._at = end + 1
        else:
            self._add("")
            self._at += 1
            self._in_double_quotes()

    def _in_double_quotes(self) -> None:
        while self._at < len(self._text) and self._text[self._at] != '"':
            if run := _QUOTED.match(self._text, self._at):
                self._add(run[0])
                self._at = run.end()
            elif self._text[self._at] == "\\":
                self._escape()
            else:
                self._dollar()
        self._at += 1

    def _dollar(self) -> None:
        """A reference, or what is run in place of a word."""
        text, at = self._text, self._at
        if text[at] == "`":
            end = text.find("`", at + 1)
            if end > 0:
                self._substitute(text[at + 1 : end])
            self._at = max(end, at) + 1
        elif text.startswith("$((", at):
            end = text.find("))", at)
            self._add("0")
            self._at = len(text) if end < 0 else end + 2
        elif text.startswith("$(", at):
            end = _closing(text, at + 2)
            self._substitute(text[at + 2 : end])
            self._at = end + 1
        elif text.startswith("${", at) and (end := text.find("}", at)) > 0:
            self._add(text[at : end + 1])
            self._at = end + 1
        else:
            self._add("$")
            self._at += 1

    def _substitute(self, text: str) -> None:
        self._add(marked(len(self._inner)))
        self._inner.append(text)

    def _redirection(self, operator: str) -> None:
        at = self._at + len(operator)
        if operator in "<>" and self._text.startswith("(", at):
            self._end_word()
            end = _closing(self._text, at + 1)
            self._substitute(self._text[at + 1 : end])
            self._at = end + 1
            return
        if self._word is not None and "".join(self._word).isdigit():
            self._word = None
        self._end_word()
        self._redirect = operator
        self._at = at

    def _operator(self, character: str) -> None:
        following = self._text[self._at : self._at + 2]
        if character == "(" and self._word is not None and _ASSIGNED.fullmatch("".join(self._word)):
            self._array = "".join(self._word)
            self._word = None
        elif self._array and character in ")\n":
            self._end_word()
            self._array = self._array if character == "\n" else ""
        else:
            self._end_command()
            self._command.is_piped = character == "|" and following != "||"
            if character in "()":
                self._command.level = max(0, self._command.level + (1 if character == "(" else -1))
            if following in ("||", "&&", ";;", "|&"):
                self._at += 1
        self._at += 1
        if character == "\n" and self._here:
            self._read_here()

    def _end_word(self) -> None:
        if self._word is None:
            return
        word, self._word = "".join(self._word), None
        redirect, self._redirect = self._redirect, ""
        if not redirect:
            self._command.words.append(f"{self._array.rstrip('+=')}+={word}" if self._array else word)
        elif redirect == "<":
            self._command.fed.append(word)
        elif redirect == "<<<":
            self._command.here = word
        elif redirect.startswith("<<"):
            self._here.append((word, self._command))

    def _end_command(self) -> None:
        self._end_word()
        self._redirect = ""
        level = self._command.level
        if self._command.words or self._command.fed:
            self._found.append(self._command)
        self._command = Command(level=level)

    def _read_here(self) -> None:
        """What stands below a command for it to read."""
        for delimiter, command in self._here[: self._searches]:
            self._searches -= 1
            end = re.compile(rf"^[ \t]*{re.escape(delimiter)}[ \t]*$", re.MULTILINE).search(self._text, self._at)
            if end:
                command.here = self._text[self._at : end.start()]
                self._at = end.end()
        self._here = []


def _closing(text: str, at: int) -> int:
    """Where the bracket closes that was opened before `at`; the end where nowhere."""
    depth = 1
    for match in _NESTING.finditer(text, at):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if depth == 0:
            return match.start()
    return len(text)
