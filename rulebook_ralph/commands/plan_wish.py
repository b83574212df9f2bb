"""What a person wants, as text: given outright, in a file, or on standard input."""

import sys
from pathlib import Path

from rulebook_ralph.app import App
from rulebook_ralph.errors import RalphError
from rulebook_ralph.sources.text_file import UnreadableError, read_text

_FILE_ENDINGS = (".md", ".markdown", ".txt")
_STANDARD_INPUT = "-"


def text_of(app: App, wanted: str, *, most: int) -> str:
    """What is wanted: the text itself, or that of the file. Raises RalphError."""
    if wanted == _STANDARD_INPUT:
        name, text = "standard input", _standard_input(most)
    elif (file := _file(app, wanted)) is not None:
        name, text = str(file), _of_file(file)
    else:
        name, text = "the text", wanted
    if not text.strip():
        raise RalphError(f"{name} says nothing; say what you want")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise RalphError(f"{name} is no valid UTF-8 text") from None
    if size > most:
        raise RalphError(f"{name} is longer than {most:,} bytes; plan a part of it, or raise limits.promptTokens")
    return text


def _file(app: App, wanted: str) -> Path | None:
    """The file that is meant, if one is."""
    try:
        file = (app.cwd / wanted).resolve()
        if file.exists():
            return file
    except (OSError, ValueError):  # too long for a name, or no name at all: it is text
        return None
    if wanted.endswith(_FILE_ENDINGS) and not any(map(str.isspace, wanted)):
        raise RalphError(f"there is no file {wanted}")
    return None


def _of_file(file: Path) -> str:
    try:
        return read_text(file, within=file.parent)
    except UnreadableError as error:
        raise RalphError(error.problem.told(file.parent)) from None


def _standard_input(most: int) -> str:
    if sys.stdin is None:
        raise RalphError("there is no standard input; give the text, or a file")
    try:
        return sys.stdin.buffer.read(most + 1).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.start >= most - 3 and error.reason == "unexpected end of data":
            raise RalphError(f"standard input is longer than {most:,} bytes") from None
        raise RalphError(f"standard input is not UTF-8 (byte {error.start + 1}): save it as UTF-8") from None
