"""What is kept of a live iteration against a crash: its record is renewed beside the rest, and goes after it."""

import shutil
from pathlib import Path

import pytest

from rulebook_ralph.core.settings import Config
from rulebook_ralph.loop import leftovers
from rulebook_ralph.loop.leftovers import Leftovers
from rulebook_ralph.loop.project import Project
from rulebook_ralph.state import history
from rulebook_ralph.state.store import StateFolder
from rulebook_ralph.workspace import guard
from rulebook_ralph.workspace.repository import open_repository
from rulebook_ralph.workspace.snapshot import Opening
from tests.harness import make_project

NAME = history.name_of(1)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    root = make_project(tmp_path).root
    return Project(root, StateFolder(root), open_repository(root, {}), Config(), {})


def save(project: Project) -> Path:
    """Returns the file."""
    opening = Opening("0" * 40, "1" * 40, frozenset(), {})
    state = {"prd.json": b"list", NAME: b"executing"}
    leftovers.save(project, 1, opening, guard.remember(project.repository), state, covered=())
    return project.repository.private / "opening-1"


def left(project: Project) -> Leftovers:
    [found] = leftovers.of_dead_runs(project)
    return found


def test_the_renewed_record_is_believed_and_the_rest_stays_untouched(project: Project) -> None:
    opening = save(project)
    before = opening.stat()
    leftovers.renew_record(project, 1, b"judged")
    assert opening.stat() == before, "it may be large"
    assert (left(project).record, left(project).state["prd.json"]) == (b"judged", b"list")
    leftovers.renew(project, 1, {"config.yaml": b"edited"})
    assert left(project).state == {"prd.json": b"list", "config.yaml": b"edited", NAME: b"judged"}


def test_a_record_that_stood_there_before_the_iteration_is_nobodys(project: Project) -> None:
    save(project)
    leftovers.renew_record(project, 1, b"planted")
    save(project)
    assert left(project).record == b"executing"


@pytest.mark.parametrize("clear", [True, False])
def test_no_opening_is_ever_left_without_its_record(project: Project, *, clear: bool) -> None:
    """It would say that the agent still works, and what a person changed since would be put back."""
    opening = save(project)
    leftovers.renew_record(project, 1, b"judged")
    shutil.move(opening, opening.with_name("aside"))
    opening.mkdir()  # it cannot be removed
    for expected in ({"opening-1", "opening-1.record"}, set()):
        if clear:
            leftovers.clear(project)
        else:
            leftovers.remove(project, 1)
        assert {path.name for path in project.repository.private.glob("opening-*")} == expected
        if expected:
            opening.rmdir()
            opening.with_name("aside").rename(opening)
