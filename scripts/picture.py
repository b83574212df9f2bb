"""Make docs/images/run.svg: the screen of `ralph demo` while the second task is checked.

The demo runs on a real pseudo terminal, its stream is played by pyte, and rich draws what the terminal showed.
Run `python -m scripts.picture` where the extra `docs` is installed, and look at the picture before you commit it.
"""

import fcntl
import io
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
from itertools import groupby
from pathlib import Path

import pyte
from pyte import graphics
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "run.svg"
COLUMNS, ROWS = 122, 24
WANTED = ("attempt 3 of", "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
"""The last screen is taken with these words, and on which one of these spinners turns: a gate or a criterion runs."""

graphics.TEXT[2] = "+blink"  # pyte knows no faint text, and rich sends no blinking one


def main() -> None:
    lines = screen_of_the_demo()
    lines = lines[[line.plain for line in lines].index("") + 1 :]  # what the demo says first is cut off at the top
    console = Console(width=COLUMNS, record=True, file=io.StringIO(), force_terminal=True)
    for line in lines:
        console.print(line, soft_wrap=True)
    PICTURE.parent.mkdir(exist_ok=True)
    svg = console.export_svg(title="ralph demo", theme=MONOKAI, unique_id="ralph")
    PICTURE.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n", "utf-8")
    sys.stdout.write(f"{PICTURE}: {len(lines)} lines\n")


def screen_of_the_demo() -> list[Text]:
    """What the terminal shows at the moment that is wanted, without the empty lines at its end."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    taken: list[Text] = []
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:  # not below /tmp, which the sandbox has for itself
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        process = subprocess.Popen(
            [sys.executable, "-m", "rulebook_ralph", "demo", "--dir", f"{folder}/sundial"],
            cwd=folder,
            env=surroundings(folder),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        while block := read(ours):
            stream.feed(block)
            shown = "\n".join(screen.display)
            if WANTED[0] in shown and any(spinner in shown for spinner in WANTED[1]):
                taken = [drawn(screen, row) for row in range(ROWS)]
        os.close(ours)
        if process.wait() != 0 or not taken:
            sys.exit("the demo did not show what is wanted:\n" + "\n".join(screen.display))
    while taken and not taken[-1].plain.strip():
        del taken[-1]
    return taken


def surroundings(folder: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "PYTHONPATH"}}
    mine = {"HOME": folder, "TERM": "xterm-256color", "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT)}
    return kept | mine | {"RALPH_CACHE_DIR": f"{folder}/cache"}


def read(terminal: int) -> bytes:
    """What was sent since; nothing once the other end is closed."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def drawn(screen: pyte.Screen, row: int) -> Text:
    cells = [screen.buffer[row][column] for column in range(COLUMNS)]
    parts = groupby(cells, key=lambda cell: cell._replace(data=""))
    line = Text.assemble(*(("".join(cell.data for cell in part), style_of(look)) for look, part in parts))
    line.rstrip()
    return line


def style_of(cell: pyte.screens.Char) -> Style:
    colour = None if cell.fg == "default" else cell.fg.replace("brown", "yellow")
    return Style(color=colour, bold=cell.bold, dim=cell.blink, reverse=cell.reverse, underline=cell.underscore)


if __name__ == "__main__":
    main()
