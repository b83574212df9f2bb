"""Differences between trees as values, from real git."""

import os
from pathlib import Path

import pytest

from rulebook_ralph.git import diff
from rulebook_ralph.git.diff import FileDiff, Line, read_diff, read_text
from rulebook_ralph.git.repository import GitError, open_repository
from tests.unit.git.project import Project


class Trees(Project):
    """A repository whose work tree is changed by hand and saved as trees."""

    def put(self, name: str, content: bytes | str) -> None:
        self.write({name: content})

    def save(self) -> str:
        self.git("add", "-A", "-f")
        return self.git("write-tree")

    def diff(self, before: str) -> dict[str, FileDiff]:
        return {file.path: file for file in read_diff(self.repository, before, self.save())}


@pytest.fixture
def trees(tmp_path: Path) -> Trees:
    return Trees(tmp_path / "r", {})


def lines(*pairs: tuple[int, str]) -> tuple[Line, ...]:
    return tuple(Line(number, text) for number, text in pairs)


def test_every_kind_of_change_has_its_lines_and_their_numbers(trees: Trees) -> None:
    trees.put("kept.txt", "same\n")
    trees.put("changed.txt", "one\ntwo\nthree\nfour\n")
    trees.put("gone.txt", "a\nb\n")
    trees.put("old/name.txt", "".join(f"line {n}\n" for n in range(20)))
    trees.put("empty.txt", "")
    before = trees.save()
    trees.put("changed.txt", "one\nTWO\nthree\nfour\nfive")
    (trees.root / "gone.txt").unlink()
    (trees.root / "old/name.txt").unlink()
    trees.put("new/name.txt", "".join(f"line {n}\n" for n in range(20)) + "more\n")
    trees.put("added.txt", "-- x\n++ y\n@@ -1 +1 @@\ndiff --git a/x b/x\n")
    (trees.root / "empty.txt").unlink()
    trees.put("void.txt", "")
    found = trees.diff(before)
    assert found["changed.txt"] == FileDiff(
        "M", "changed.txt", "changed.txt", lines((2, "TWO"), (5, "five")), lines((2, "two"))
    )
    assert found["gone.txt"] == FileDiff("D", "gone.txt", "gone.txt", (), lines((1, "a"), (2, "b")))
    assert found["new/name.txt"] == FileDiff("R", "new/name.txt", "old/name.txt", lines((21, "more")), ())
    assert found["added.txt"].added == lines((1, "-- x"), (2, "++ y"), (3, "@@ -1 +1 @@"), (4, "diff --git a/x b/x"))
    assert found["added.txt"].old_path is None
    assert found["void.txt"].added == ()
    assert set(found) <= {"changed.txt", "gone.txt", "new/name.txt", "added.txt", "void.txt", "empty.txt"}


ODD = ["two words", "new\nline", 'quo"te', "back\\slash", "tab\tbed", "ünï", os.fsdecode(b"\xff\xfe"), "-x", ":(top)a"]


def test_odd_names_come_through_whole(trees: Trees) -> None:
    for name in ODD:
        trees.put(name, f"{name!a}\n")
    before = trees.save()
    for name in ODD:
        trees.put(name, "changed\n")
    trees.put("a\ndiff --git b", "forged?\n")
    after = trees.save()
    found = read_diff(trees.repository, before, after)
    assert sorted(file.path for file in found) == sorted([*ODD, "a\ndiff --git b"])
    assert {file.path: file.removed for file in found if file.kind == "M"} == {
        name: lines((1, ascii(name))) for name in ODD
    }
    for tree, name, text in (
        (before, "new\nline", "'new\\nline'\n"),
        (before, "a\ndiff --git b", None),
        (after, "a\ndiff --git b", "forged?\n"),
    ):
        assert read_text(trees.repository, tree, name) == text


def test_links_modes_types_submodules_and_binary_files(trees: Trees) -> None:
    trees.put("run.sh", "#!/bin/sh\n")
    trees.put("was.txt", "text\n")
    trees.put("image", b"\x89PNG\0\0")
    before = trees.save()
    (trees.root / "run.sh").chmod(0o755)
    (trees.root / "was.txt").unlink()
    (trees.root / "was.txt").symlink_to("run.sh")
    trees.put("image", b"\x89PNG\0\1")
    trees.put("latin.py", "x = 'é'\n".encode("latin-1"))
    trees.put("zz.txt", "last\n")
    trees.save()
    trees.repository.run("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
    after = trees.repository.text("write-tree")
    found = {file.path: file for file in read_diff(trees.repository, before, after)}
    assert found["run.sh"] == FileDiff("M", "run.sh", "run.sh")
    assert (found["was.txt"].kind, found["was.txt"].added) == ("M", lines((1, "run.sh")))
    assert found["was.txt"].removed == lines((1, "text"))
    assert found["image"] == FileDiff("M", "image", "image", binary=True)
    assert found["latin.py"].added == lines((1, "x = '\ufffd'"))
    assert found["sub"].kind == "A"
    assert found["zz.txt"].added == lines((1, "last"))
    texts = {name: read_text(trees.repository, after, name) for name in ("image", "was.txt", "sub")}
    assert texts == {"image": None, "was.txt": "run.sh", "sub": None}


def test_neither_configuration_nor_attributes_hide_anything(trees: Trees, monkeypatch: pytest.MonkeyPatch) -> None:
    trees.put("tests/test_a.py", "def test_a():\n    assert f()\n")
    trees.put("b.txt", "b\n")
    before = trees.save()
    (trees.root / "tests/test_a.py").unlink()
    trees.put("b.txt", "c\n")
    trees.put(".gitattributes", "*.py -diff\n*.txt diff=evil binary\n")
    (trees.root / ".git/info").mkdir(exist_ok=True)
    for name, value in {
        "diff.noprefix": "true",
        "diff.mnemonicPrefix": "true",
        "diff.algorithm": "patience",
        "diff.external": "/bin/false",
        "diff.evil.command": "/bin/false",
        "diff.evil.textconv": "/bin/false",
        "diff.renames": "false",
        "color.ui": "always",
        "diff.context": "7",
        "diff.orderFile": "/nowhere",
    }.items():
        trees.repository.run("config", name, value)
    monkeypatch.setenv("GIT_DIFF_OPTS", "-u9")
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "/bin/false")
    trees.repository = open_repository(trees.root, os.environ)
    found = trees.diff(before)
    assert [line.text for line in found["tests/test_a.py"].removed] == ["def test_a():", "    assert f()"]
    assert found["b.txt"] == FileDiff("M", "b.txt", "b.txt", lines((1, "c")), lines((1, "b")))
    assert [path.name for path in trees.repository.private.iterdir()] == []


def test_the_state_folder_is_no_part_of_it(trees: Trees) -> None:
    trees.put(".rulebook-ralph/prd.json", "1\n")
    before = trees.save()
    trees.put(".rulebook-ralph/prd.json", "2\n")
    trees.put("sub/.rulebook-ralph/x", "2\n")
    assert list(trees.diff(before)) == ["sub/.rulebook-ralph/x"]


def test_what_is_kept_is_bounded(trees: Trees, monkeypatch: pytest.MonkeyPatch) -> None:
    """One large file uses up its own share, not that of the files after it."""
    monkeypatch.setattr(diff, "MOST_OF_A_FILE", 1000)
    monkeypatch.setattr(diff, "MOST_OF_A_PATCH", 1500)
    before = trees.save()
    trees.put("a-long-line", "x" * 5000 + "\n")
    trees.put("b-many-lines", "x\n" * 2000)
    trees.put("c", "small\n" * 10)
    trees.put("c-large-image", b"\x89PNG\0\0" * 1000)
    trees.put("c-like\na-text", "x\n" * 2000)
    trees.put("c-marked", "\0" + "x = 1\n" * 2000)
    for number in range(4):
        trees.put(f"d{number}", "fills\n" * 50)
    after = trees.save()
    found = {file.path: file for file in read_diff(trees.repository, before, after)}
    assert [file.path for file in found.values() if file.cut] == [
        *("a-long-line", "b-many-lines", "c-like\na-text", "c-marked", "d2", "d3"),
    ]
    assert [file.path for file in found.values() if file.binary and not file.cut] == ["c-large-image"]
    assert len(found["c"].added) == 10
    assert found["d0"].added
    assert found["d3"] == FileDiff("A", "d3", None, binary=True, cut=True)
    assert read_text(trees.repository, after, "a-long-line") is None
    assert read_text(trees.repository, after, "c") == "small\n" * 10


def test_the_same_tree_and_a_tree_that_is_not_there(trees: Trees) -> None:
    tree = trees.save()
    assert read_diff(trees.repository, tree, tree) == ()
    with pytest.raises(GitError, match="names no tree"):
        read_diff(trees.repository, tree, "1" * 40)
