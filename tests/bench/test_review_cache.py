"""What a review of a tree costs that was reviewed before. Prints figures, and fails only where a reviewer is asked."""

import sys
import time
from pathlib import Path
from threading import Event

from rulebook_ralph.checks.review import Desk, Reviewer, review
from rulebook_ralph.checks.reviewed_change import ReviewedChange
from rulebook_ralph.core.diff import FileDiff, Line, Versions
from rulebook_ralph.core.review import Memory
from rulebook_ralph.state import review_memory
from tests.reviewers import remembering, ship
from tests.unit.semantic_cases import counting_token

FILES, LINES = 100, 200


def changed(version: int) -> ReviewedChange:
    """So many files; one of them differs from version to version."""
    lines = tuple(Line(at, f"x = {at}") for at in range(1, LINES + 1))
    files = [FileDiff("A", f"f{number}.py", None, lines) for number in range(FILES)]
    files[0] = FileDiff("A", "f0.py", None, (Line(1, f"version = {version}"),))
    return ReviewedChange(
        "A large change", tuple(files), lambda asked: {each.path: Versions(None, None) for each in asked}
    )


def test_a_second_review_of_an_unchanged_tree_asks_nothing(tmp_path: Path) -> None:
    ask, asked = remembering(ship)
    memory: Memory = {}
    took = []
    for version in (1, 1, 2):
        asked.clear()
        started = time.perf_counter()
        desk = Desk(str, Event(), counting_token(), 50_000, memory)
        assert review(changed(version), Reviewer("final", "one", "one", (), ask), desk).decision == "SHIP"
        took.append((time.perf_counter() - started, len(asked), sum(len(each.data) for each in asked)))
    (first, questions, _), (second, none, _), (third, one, shown) = took
    assert (none, one) == (0, 1)
    assert questions > 1
    assert shown < 1000
    file = tmp_path / "state" / "reviews.json"
    started = time.perf_counter()
    review_memory.write(file, memory, root=tmp_path / "project")
    assert review_memory.read(file, root=tmp_path / "project") == memory
    kept = time.perf_counter() - started
    sys.stdout.write(
        f"\n{FILES} files of {LINES} lines: {questions} questions, {first * 1000:.0f} ms of Ralph's own; again: none,"
        f" {second * 1000:.0f} ms; one file changed: one question about it alone, {third * 1000:.0f} ms;"
        f" written and read: {kept * 1000:.1f} ms, {file.stat().st_size:,} bytes\n"
    )
