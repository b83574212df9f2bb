"""Splitting lines and keeping head and tail, in bounded memory, whatever the pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.agents import stream
from rulebook_ralph.core.streams import HeadTail, LineSplitter

TEXT = st.binary(max_size=60).map(lambda raw: raw.replace(b"a", b"\n"))


def split(blocks: list[bytes], longest: int) -> tuple[list[bytes], int]:
    lines: list[bytes] = []
    splitter = LineSplitter(lines.append, longest=longest)
    for block in blocks:
        splitter.feed(block)
    splitter.close()
    return lines, splitter.dropped


@given(st.lists(TEXT, max_size=8), st.integers(1, 70))
def test_lines_are_whole_whatever_the_blocks(blocks: list[bytes], longest: int) -> None:
    lines, dropped = split(blocks, longest)
    every = [line for line in b"".join(blocks).split(b"\n") if line]
    assert lines == [line for line in every if len(line) <= longest]
    assert dropped == len(every) - len(lines)


@given(st.lists(TEXT, max_size=8), st.integers(0, 20), st.integers(0, 20))
def test_head_and_tail_are_kept_whatever_the_blocks(blocks: list[bytes], head: int, tail: int) -> None:
    kept = HeadTail(head=head, tail=tail)
    for block in blocks:
        kept.feed(block)
    whole = b"".join(blocks)
    assert kept.size == len(whole)
    assert kept.head() == whole[:head]
    assert kept.tail() == whole[max(head, len(whole) - tail) :]
    assert kept.omitted == max(0, len(whole) - head - tail)
    if not kept.omitted:
        assert kept.text() == whole.decode("utf-8", "replace")


def test_a_gap_is_told() -> None:
    kept = HeadTail(head=2, tail=3)
    kept.feed(b"0123456789")
    assert kept.text() == "01\n… 5 bytes left out …\n789"


@pytest.mark.parametrize("value", ["3", True, -1, 2**60, None, [], 1.5])
def test_no_count_is_zero(value: object) -> None:
    assert stream.count(value) == 0


@pytest.mark.parametrize("value", ["3", True, -0.5, float("nan"), float("inf"), None])
def test_no_amount_is_none(value: object) -> None:
    assert stream.dollars(value) is None


def test_shown_text_is_one_safe_line() -> None:
    assert stream.first_line("\n  \n \x1b[31mred\x1b[0m alert\u202e\nmore") == "red alert"
    assert len(stream.first_line("x" * 10_000)) == 200
