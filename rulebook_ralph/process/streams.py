"""Bytes as they come from a process, in bounded memory: whole lines, or the beginning and end of everything."""

from collections.abc import Callable

LONGEST_LINE = 8 * 1024 * 1024


class LineSplitter:
    """Hands each whole line (bytes, without its end, never empty) to `on_line`.

    A line longer than `longest` bytes is dropped and counted in `dropped`; what follows it is read as usual.
    """

    def __init__(self, on_line: Callable[[bytes], None], *, longest: int = LONGEST_LINE) -> None:
        self._on_line = on_line
        self._longest = longest
        self._pieces: list[bytes] = []
        self._length = 0
        self.dropped = 0

    def feed(self, block: bytes) -> None:
        first, *others = block.split(b"\n")
        self._extend(first)
        if not others:
            return
        self._finish()
        rest = others.pop()
        for line in others:
            self._hand_over(line)
        self._extend(rest)

    def close(self) -> None:
        """The end of the stream: a last line without a line end counts as a line."""
        self._finish()

    def _extend(self, piece: bytes) -> None:
        if not piece:
            return
        self._length += len(piece)
        if self._length <= self._longest:
            self._pieces.append(piece)
        else:
            self._pieces.clear()

    def _finish(self) -> None:
        length, line = self._length, b"".join(self._pieces)
        self._pieces.clear()
        self._length = 0
        if length > self._longest:
            self.dropped += 1
        else:
            self._hand_over(line)

    def _hand_over(self, line: bytes) -> None:
        if len(line) > self._longest:
            self.dropped += 1
        elif line:
            self._on_line(line)


class HeadTail:
    """Keeps the first `head` and the last `tail` bytes of everything it is fed; `size` is the count of all of them."""

    def __init__(self, *, head: int, tail: int) -> None:
        self._head_size = head
        self._tail_size = tail
        self._head = bytearray()
        self._tail = bytearray()
        self.size = 0

    def feed(self, block: bytes) -> None:
        self.size += len(block)
        room = self._head_size - len(self._head)
        if room > 0:
            self._head += block[:room]
            block = block[room:]
        if len(block) >= self._tail_size:
            self._tail = bytearray(block[len(block) - self._tail_size :])
            return
        self._tail += block
        if len(self._tail) > 2 * self._tail_size:
            del self._tail[: len(self._tail) - self._tail_size]

    @property
    def omitted(self) -> int:
        """How many bytes in the middle were not kept."""
        return max(0, self.size - self._head_size - self._tail_size)

    def head(self) -> bytes:
        return bytes(self._head)

    def tail(self) -> bytes:
        """The end, as far as it is not in `head` already."""
        return bytes(self._tail[max(0, len(self._tail) - self._tail_size) :])

    def text(self) -> str:
        """What was kept, with a line that says how much was left out. Bytes that are not UTF-8 become U+FFFD."""
        if not self.omitted:
            return (self.head() + self.tail()).decode("utf-8", "replace")
        parts = (self.head().decode("utf-8", "replace"), self.tail().decode("utf-8", "replace"))
        return f"\n… {self.omitted} bytes left out …\n".join(parts)
