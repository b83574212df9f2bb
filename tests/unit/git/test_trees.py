"""Trees made of other trees."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.git.repository import Repository
from rulebook_ralph.git.trees import emptied, merge_trees, mix, without
from tests.unit.git.project import Project


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp("trees") / "r", {"src/a.py": "a\n", "tests/test_a.py": "old\n", "x": "x\n"})


def test_a_mix_has_the_base_s_files_where_it_is_asked_for(project: Project) -> None:
    new = project.tree({"src/a.py": "A\n", "tests/test_a.py": None, "tests/test_b.py": "b\n", "x/y": "D/F\n"})
    mixed = mix(project.repository, new, "HEAD", lambda path: path.startswith("tests/"))
    assert project.content(mixed) == {"src/a.py": "A", "tests/test_a.py": "old", "x/y": "D/F"}
    mixed = mix(project.repository, new, "HEAD", lambda path: path == "x")
    assert project.content(mixed)["x"] == "x"
    assert mix(project.repository, new, "HEAD", lambda _: False) == new
    assert mix(project.repository, new, "HEAD", lambda _: True) == project.repository.tree_of("HEAD")


def test_emptied_keeps_names_and_modes_without_removes(project: Project) -> None:
    head = project.repository.tree_of("HEAD")
    hollow = emptied(project.repository, head, lambda path: not path.startswith("tests/"))
    assert project.content(hollow) == {"src/a.py": "", "tests/test_a.py": "old", "x": ""}
    assert project.content(without(project.repository, head, lambda path: path == "x")).keys() == {
        "src/a.py",
        "tests/test_a.py",
    }
    assert emptied(project.repository, head, lambda _: False) == head


NAMES = st.sampled_from(["a", "b/c", "b/d", "e f", "new\nline", "ü"])
FILES = st.dictionaries(NAMES, st.sampled_from(["1", "2", "3"]))


@given(FILES, FILES, st.sets(NAMES))
def test_each_path_of_a_mix_comes_from_the_tree_it_should(
    repository: Repository, base: dict[str, str], new: dict[str, str], wanted: set[str]
) -> None:
    def tree(files: dict[str, str]) -> str:
        oids = {
            path: repository.text("hash-object", "-w", "--stdin", stdin=text.encode()) for path, text in files.items()
        }
        index = repository.private / "i"
        repository.private.mkdir(exist_ok=True)
        index.unlink(missing_ok=True)
        orders = "".join(f"100644 {oid}\t{path}\0" for path, oid in oids.items())
        repository.run("update-index", "-z", "--index-info", stdin=orders.encode(), index=index)
        return repository.text("write-tree", index=index)

    old_tree, new_tree = tree(base), tree(new)
    mixed = repository.entries(mix(repository, new_tree, old_tree, wanted.__contains__))
    expected = {path: entry for path, entry in repository.entries(old_tree).items() if path in wanted}
    expected |= {path: entry for path, entry in repository.entries(new_tree).items() if path not in wanted}
    assert mixed == expected


@pytest.fixture(scope="module")
def repository(project: Project) -> Repository:
    return project.repository


def test_merging_brings_changes_over_or_names_the_conflicts(project: Project) -> None:
    base = project.repository.tree_of("HEAD")
    ours, theirs = project.tree({"x": "ours\n"}), project.tree({"src/a.py": "theirs\n", "new": "n\n"})
    merged = merge_trees(project.repository, base, ours, theirs)
    assert merged.tree
    assert project.content(merged.tree) == {"x": "ours", "src/a.py": "theirs", "tests/test_a.py": "old", "new": "n"}
    clash = merge_trees(project.repository, base, ours, project.tree({"x": "theirs\n"}))
    assert (clash.tree, clash.conflicts) == (None, ("x",))
    assert merge_trees(project.repository, base, base, theirs).tree == theirs
    assert merge_trees(project.repository, base, ours, base).tree == ours


def test_attributes_of_the_tip_decide_how_it_is_merged_and_no_others(tmp_path: Path) -> None:
    project = Project(tmp_path / "r", {"docs/.gitattributes": "LOG merge=union\n", "docs/LOG": "0\n", "src/LOG": "0\n"})
    project.git("config", "merge.evil.driver", "touch ../evil; true")
    base = project.repository.tree_of("HEAD")
    ours = project.tree({"docs/LOG": "0\nours\n", "src/LOG": "0\nours\n"})
    theirs = project.tree({"docs/LOG": "0\ntheirs\n", ".gitattributes": "* merge=evil\n"})
    merged = merge_trees(project.repository, base, ours, theirs)
    assert merged.tree
    assert project.content(merged.tree)["docs/LOG"] == "0\nours\ntheirs"
    theirs = project.tree({"src/LOG": "0\ntheirs\n", ".gitattributes": "* merge=evil\n"})
    assert merge_trees(project.repository, base, ours, theirs).conflicts == ("src/LOG",)
    assert not (tmp_path / "evil").exists()
