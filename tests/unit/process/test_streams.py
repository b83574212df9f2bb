"""Lines and ends of streams that come in blocks of any size."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.process.streams import HeadTail, LineSplitter


def blocks(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(places)]


TEXTS = st.lists(st.sampled_from([b"a", b"bcd", b"\n", b"\r\n", b"\xff", b"long" * 9])).map(b"".join)
CUTS = st.lists(st.integers(0, 1000))


@given(TEXTS, CUTS, st.integers(0, 12))
def test_lines_are_the_same_however_the_blocks_are_cut(data: bytes, cuts: list[int], longest: int) -> None:
    lines: list[bytes] = []
    splitter = LineSplitter(lines.append, longest=longest)
    for block in blocks(data, cuts):
        splitter.feed(block)
    splitter.close()
    assert lines == [line for line in data.split(b"\n") if 0 < len(line) <= longest]


@given(TEXTS, CUTS, st.integers(0, 12), st.integers(0, 12))
def test_beginning_and_end_are_kept_and_the_rest_is_counted(data: bytes, cuts: list[int], head: int, tail: int) -> None:
    kept = HeadTail(head=head, tail=tail)
    for block in blocks(data, cuts):
        kept.feed(block)
    end = data[head:][-tail:] if tail else b""
    left_out = max(0, len(data) - head - tail)
    assert (kept.size, kept.tail()) == (len(data), end)
    between = f"\n… {left_out} bytes left out …\n" if left_out else ""
    parts = [data[:head], end] if left_out else [data]
    assert kept.text() == between.join(part.decode("utf-8", "replace") for part in parts)
