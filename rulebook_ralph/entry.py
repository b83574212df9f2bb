"""The console script. A stop of a Claude Code session in which no loop goes on, as nearly every stop is one, ends here:
nothing else of Ralph is imported for it.
"""

import os
import sys
from typing import NoReturn

from rulebook_ralph.session_place import has_note

_STOP = ["hook", "stop"]
_BLOCK = 1 << 16


def main() -> NoReturn:
    """Ends the process with the exit code of DESIGN.md."""
    if sys.argv[1:3] == _STOP and not has_note(os.environ.get("CLAUDE_PROJECT_DIR") or os.curdir):
        try:
            while os.read(0, _BLOCK):  # whoever writes it expects it to be read
                pass
        except OSError:  # it is closed
            pass
        sys.exit(0)
    from rulebook_ralph.cli import main as command_line  # noqa: PLC0415 - see above

    command_line()
