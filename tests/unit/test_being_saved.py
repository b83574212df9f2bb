"""Whether a file that cannot be read may be half of what an editor is writing."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rulebook_ralph.state import disk

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(("age", "may_be"), [(0.0, True), (0.9, True), (1.0, False), (3600.0, False), (-5.0, False)])
def test_a_file_is_being_saved_for_a_second(tmp_path: Path, age: float, may_be: bool) -> None:
    file = tmp_path / "prd.json"
    file.write_text("{")
    changed = (NOW - timedelta(seconds=age)).timestamp()
    os.utime(file, (changed, changed))
    assert disk.is_being_saved(file, NOW) == may_be


def test_a_file_that_is_not_there_is_not_being_saved(tmp_path: Path) -> None:
    assert not disk.is_being_saved(tmp_path / "prd.json", NOW)
