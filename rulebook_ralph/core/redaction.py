"""Keeping secrets out of everything that is written or shown."""

import re
from collections.abc import Iterable, Iterator, Mapping

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
_SHORTEST = 8
_SHAPES = (
    r"sk-ant-[A-Za-z0-9_-]{16,}",
    r"(?<![aeiou])sk-[A-Za-z0-9_-]{20,}",  # not the end of task-, disk- or risk-
    r"gh[pousr]_[A-Za-z0-9]{20,}",
    r"github_pat_[A-Za-z0-9_]{20,}",
    r"glpat-[A-Za-z0-9_-]{16,}",
    r"xox[abprs]-[A-Za-z0-9-]{10,}",
    r"AKIA[0-9A-Z]{16}",
    r"AIza[0-9A-Za-z_-]{30,}",
    r"eyJ[A-Za-z0-9_-]{10,500}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
)
MARK = "[redacted]"
_MARK_BYTES = MARK.encode()
_LONGEST_SHAPE = 4096


class Redactor:
    """Replaces the values of secret-named environment variables, and known token shapes, by a mark."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        values = {value for name, value in environment.items() if _SECRET_NAME.search(name) and len(value) >= _SHORTEST}
        literal = [re.escape(value) for value in sorted(values, key=len, reverse=True)]
        self._values = re.compile("|".join(literal)) if literal else None
        self._pattern = re.compile("|".join([*literal, *_SHAPES]))
        self._bytes_pattern = re.compile(self._pattern.pattern.encode("utf-8", "surrogatepass"))
        self._longest = max([_LONGEST_SHAPE, *(len(value.encode("utf-8", "surrogatepass")) for value in values)])

    def holds_value(self, text: str) -> bool:
        """Whether a secret of the environment itself is in the text, not only what looks like one."""
        return self._values is not None and self._values.search(text) is not None

    def clean(self, text: str) -> str:
        """The text with every secret replaced."""
        return self._pattern.sub(MARK, text)

    def clean_blocks(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """The same for a stream: a secret that lies across two blocks is found too."""
        rest = b""
        for block in blocks:
            data = rest + block
            end = max(0, len(data) - self._longest)
            across = (match for match in self._bytes_pattern.finditer(data) if match.start() < end < match.end())
            end = min((match.start() for match in across), default=end)
            yield self._bytes_pattern.sub(_MARK_BYTES, data[:end])
            rest = data[end:]
        yield self._bytes_pattern.sub(_MARK_BYTES, rest)
