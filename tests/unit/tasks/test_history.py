"""The iteration files: read, also those of the first edition, created once, looked through for what a dead run left."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks import history, prd_file
from rulebook_ralph.tasks.disk import StateFolder, find_root
from tests.cases import iteration
from tests.harness import save

OLD = Path(__file__).parents[2] / "data" / "first_edition"


def test_files_are_read_by_number(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    assert history.numbers(folder) == []
    for number in (10, 2):
        save(folder, iteration(number, phase="executing"))
    save(folder, iteration(2))
    (folder.history / "iteration-03.json").write_text("mine")
    assert history.numbers(folder) == [2, 10]
    assert history.read(folder, 2) == iteration(2)
    with pytest.raises(RalphError, match=r"iteration 9 was pruned"):
        history.read(folder, 9)
    with pytest.raises(RalphError, match=r"iteration 11 is not there"):
        history.read(folder, 11)


def test_what_a_dead_run_left_is_found_readable_or_not(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    for number, phase in enumerate(("settled", "judged", "executing"), 1):
        save(folder, iteration(number, phase=phase))
    folder.iteration(4).write_text("{")
    assert history.unsettled_numbers(folder) == [2, 3, 4]
    folder.iteration(4).unlink()
    assert [each.iteration_number for each in history.unsettled(folder)] == [2, 3]


@pytest.mark.parametrize("name", ["base_commit", "commit", "tree", "snapshot"])
def test_what_names_no_object_of_git_is_not_gone_on_with(name: str, tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    save(folder, replace(iteration(1, phase="judged"), **{name: "--upload-pack=x"}))
    with pytest.raises(RalphError, match=r"is no object id of git; restore the file from git"):
        list(history.unsettled(folder))


def test_files_of_the_first_edition_are_read_and_their_keys_kept() -> None:
    data = (OLD / "iteration-7.json").read_bytes()
    record = history.decode(data, name="x")
    assert (record.attempt, record.phase, record.verdict and record.verdict.hook) == (2, "judged", "gates")
    assert record.extra["redOnBase"] == ["tests"]
    assert history.decode(history.encode(record), name="x") == record
    prd = prd_file.decode_prd((OLD / "prd.json").read_bytes())
    assert prd.tasks[0].overrides == {"stages": ["coder"], "limits": {"maxIterations": 4}}
    assert prd.totals.extra == {"withoutTask": [2]}


def test_the_root_is_found_upwards_within_the_repository(tmp_path: Path) -> None:
    inside = tmp_path / "repository" / "a" / "b"
    inside.mkdir(parents=True)
    StateFolder(tmp_path).path.mkdir()
    assert find_root(inside) == tmp_path
    (tmp_path / "repository" / ".git").mkdir()
    assert find_root(inside) is None
    StateFolder(tmp_path / "repository").path.mkdir()
    assert find_root(inside) == tmp_path / "repository"
