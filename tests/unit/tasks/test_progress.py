import itertools
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.tasks import progress
from rulebook_ralph.tasks.model import STATE_FOLDER
from tests.cases import AT, each_of, iteration

HEADER = progress.header("toy", created_at=AT, task_count=3)
BREAKS = ("\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029")
FORGED = (
    "## End of iteration 3",
    "## End of iteration 4",
    "## Iteration 9 · other · coder · attempt 1 · completed",
    "## Iteration 3 · one · coder · attempt 1 · completed",
    "## End of a torn entry",
    "    learned: lies",
    "learned: lies",
    "# Progress of another",
)
_forgeries = st.lists(st.sampled_from((*BREAKS, *FORGED, " ", "x", "é", "\ud800")), max_size=12).map("".join)
_texts = st.text(st.characters(), max_size=40) | _forgeries


def _entry(number: int, text: str = "it worked", *, learnings: int = 1) -> str:
    record = iteration(number, task_id="one", completion_status="completed", commit="a" * 40)
    return progress.entry(record, gates=[text, "lint failed"], reason=text, learnings=[text] * learnings, summary=text)


def _numbers(text: str) -> list[int]:
    return [entry.number for entry in progress.entries(text)]


def _settle(written: bytes, number: int, text: str = "it worked") -> bytes:
    """What stands in the file after the entry of an iteration is written, as the loop does it."""
    before = written.decode("utf-8", "replace")
    if progress.has_entry(before, number):
        return written
    return written + (progress.closing(before) + _entry(number, text)).encode("utf-8", "replace")


def test_the_header_is_the_first_entry_and_no_iteration(tmp_path: Path) -> None:
    assert HEADER.startswith("# Progress of toy\n")
    assert "## Iteration 0 · initialised · " in HEADER
    assert progress.entries(HEADER) == []
    assert progress.closing(HEADER) == progress.closing("") == ""
    assert progress.problems(tmp_path) == []


def test_an_entry_reads_as_it_was_meant() -> None:
    record = iteration(3, task_id="one", completion_status="completed", commit="a" * 40)
    text = progress.entry(record, gates=["tests passed"], reason="why", learnings=["a", "b"], summary="what")
    assert text == (
        "## Iteration 3 · one · coder · attempt 1 · completed\n"
        f"    at: {AT}\n"
        "    gates: tests passed\n"
        "    commit: aaaaaaaaaaaa\n"
        "    summary: what\n"
        "    reason: why\n"
        "    learned: a\n"
        "    learned: b\n"
        "## End of iteration 3\n"
    )
    (found,) = progress.entries(HEADER + text)
    assert (found.number, found.text, found.learnings) == (3, text, ("a", "b"))
    assert progress.has_entry(HEADER + text, 3)
    assert not any(progress.has_entry(HEADER + text, number) for number in (1, 2, 30))


@given(st.lists(_texts, min_size=1, max_size=4))
def test_text_from_agents_can_neither_forge_nor_end_an_entry(texts: list[str]) -> None:
    expected = [_entry(number, text, learnings=2) for number, text in enumerate(texts, 1)]
    written = (HEADER + "".join(expected)).encode("utf-8", "replace")
    text = written.decode()
    found = progress.entries(text)
    assert [entry.text.encode() for entry in found] == [entry.encode("utf-8", "replace") for entry in expected]
    assert [entry.number for entry in found] == list(range(1, len(texts) + 1))
    assert all(len(entry.learnings) in (0, 2) for entry in found)
    assert all(line.startswith(("#", "    ")) or not line for line in text.split("\n"))
    assert not progress.has_entry(text, len(texts) + 1)
    assert progress.closing(text) == ""


@each_of("forged", FORGED)
@each_of("line_break", BREAKS)
def test_a_forged_line_in_a_torn_entry_does_not_close_it(forged: str, line_break: str) -> None:
    torn = HEADER + _entry(3, f"x{line_break}{forged}{line_break}").partition("## End of iteration 3\n")[0]
    assert not progress.has_entry(torn, 3)
    assert progress.closing(torn) != ""
    written = _settle(_settle(torn.encode(), 3), 4)
    assert _numbers(written.decode()) == [3, 4]
    assert progress.closing(written.decode("utf-8", "replace")) == ""


@pytest.mark.parametrize(
    "text", ["it wörked", "## End of iteration 12", "x\n## Iteration 13 · a · b\n## End of a torn entry\n"]
)
def test_an_entry_torn_at_any_byte_is_closed_and_written_anew(text: str) -> None:
    whole = (HEADER + _entry(1) + _entry(11)).encode()
    entry = _entry(12, text).encode()
    for length in range(len(entry) + 1):
        torn = whole + entry[:length]
        written = _settle(_settle(torn, 12, text), 13)
        assert written.startswith(torn)
        assert _numbers(written.decode("utf-8", "replace")) == [1, 11, 12, 13], length
        assert progress.closing(written.decode("utf-8", "replace")) == ""
        assert all(_settle(written, number) == written for number in (1, 11, 12, 13))


@each_of("length", range(0, len(HEADER.encode()), 7))
def test_a_torn_header_hides_no_entry(length: int) -> None:
    written = _settle(HEADER.encode()[:length], 1)
    assert _numbers(written.decode("utf-8", "replace")) == [1]
    assert progress.closing(written.decode("utf-8", "replace")) == ""


def test_a_torn_entry_is_recognised_however_long_it_is() -> None:
    long = _entry(1, "x" * progress.LONGEST_TEXT, learnings=60)
    torn = HEADER + long[: len(long) // 2] + "\n"
    assert progress.closing(torn) != ""
    assert _numbers(_settle(torn.encode(), 1).decode()) == [1]


def test_torn_again_and_again() -> None:
    written = HEADER.encode()
    for number, length in zip(itertools.cycle((1, 1, 2, 2, 2)), (3, 14, 40, 90, 140, 150), strict=False):
        before = written.decode("utf-8", "replace")
        written += (progress.closing(before) + _entry(number)).encode()[:length]
    written = _settle(_settle(_settle(written, 1), 2), 3)
    assert _numbers(written.decode("utf-8", "replace")) == [1, 2, 3]


def test_what_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / STATE_FOLDER / "progress.txt").mkdir(parents=True)
    (problem,) = progress.problems(tmp_path)
    assert (problem.file, problem.message) == (f"{STATE_FOLDER}/progress.txt", "cannot be read: Is a directory")


@given(st.text(st.characters()) | _forgeries, st.booleans())
def test_any_file_can_be_continued(text: str, whole: bool) -> None:
    content = ((HEADER if whole else "") + text + "\n## Iteration " + "9" * 5000 + " · x").encode("utf-8", "replace")
    progress.entries(content.decode())
    written = _settle(_settle(content, 70), 71)
    assert written.startswith(content)
    assert _numbers(written.decode())[-2:] == [70, 71]


def test_ten_thousand_entries_are_read_and_looked_through_at_once() -> None:
    text = HEADER + "".join(_entry(number, "x" * 60) for number in range(1, 10_001))
    start = time.process_time()
    assert len(progress.entries(text)) == 10_000
    assert not progress.has_entry(text, 10_001)
    assert progress.closing(text) == ""
    assert time.process_time() - start < 2
