"""Text that a person is asked to agree to: all of it, in one line, nothing in it unseen or pushed out of sight."""

import re

from rulebook_ralph.core.problem import escaped

_BLANKS = re.compile(" {3,}")
_INDENTED = 40
_EMPTY_GLYPHS = re.compile("[\u034f\u115f\u1160\u2800\u3164\uffa0]")
"""They count as printable, and show nothing."""


def whole(text: str) -> str:
    """The text uncut. Three or more blanks in a row are told by their number, unless they only indent it."""
    margin = len(text) - len(text.lstrip(" "))
    indent, rest = (text[:margin], text[margin:]) if margin <= _INDENTED else ("", text)
    seen = _EMPTY_GLYPHS.sub(lambda match: f"\\u{ord(match[0]):04x}", escaped(rest, len(rest)))
    return indent + _BLANKS.sub(lambda match: f"␣\u00d7{len(match[0])}", seen)
