"""What a terminal shows after a stream of output."""

import re
from dataclasses import dataclass, field

TOKEN = re.compile(r"\x1b\[(\??\d*(?:;\d+)*)([A-Za-z])|([\r\n])|([^\x1b\r\n\x00-\x1f\x7f-\x9f]+)")


@dataclass
class Played:
    """What a terminal of that many columns shows after a stream; fails on anything Ralph has no reason to send."""

    columns: int
    rows: list[str] = field(default_factory=lambda: [""])
    cursor: bool = True
    _x: int = 0
    _y: int = 0

    def play(self, stream: str) -> "Played":
        at = 0
        while at < len(stream):
            token = TOKEN.match(stream, at)
            assert token, f"not expected in the stream: {stream[at : at + 20]!r}"
            at = token.end()
            arguments, code, control, text = token.groups()
            if text:
                self._write(text)
            elif control == "\r":
                self._x = 0
            elif control == "\n":
                self._down()
            else:
                self._obey(arguments, code)
        return self

    def _write(self, text: str) -> None:
        for character in text:
            if self._x == self.columns:
                self._down()
                self._x = 0
            row = self.rows[self._y].ljust(self._x)
            self.rows[self._y] = row[: self._x] + character + row[self._x + 1 :]
            self._x += 1

    def _down(self) -> None:
        self._y += 1
        if self._y == len(self.rows):
            self.rows.append("")

    def _obey(self, arguments: str, code: str) -> None:
        match arguments, code:
            case "?25", "h" | "l":
                self.cursor = code == "h"
            case up, "A":
                self._y -= int(up)
                assert self._y >= 0
            case "2", "K":
                self.rows[self._y] = ""
            case "", "H":
                self._x = self._y = 0
            case "2", "J":
                self.rows = [""] * len(self.rows)
            case _, "m":
                pass
            case _:
                raise AssertionError(f"not expected: {arguments}{code}")
