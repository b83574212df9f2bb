"""Rules of many folders as one list mean what they meant."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.git.git_folder import read_rules
from tests.unit.git.project import Project, write

FOLDERS = ("", "d", "d/e", "o[d]d *")
NAMES = ("a", "b.o", "x", "d", "e")
PATTERNS = ("a", "*.o", "/a", "d/", "e/a", "/e/", "!a", "!*.o", "*", "**/x", "d/**", "\\!a", "# no", "a ", "", "/")
PATHS = sorted({"/".join(filter(None, (folder, name))) for folder in (*FOLDERS, "d/e/d", "a", "x/e") for name in NAMES})
ATTRIBUTES = ("text", "-text", "eol=crlf", "!text", "filter=f", "binary")
ATTRIBUTE_PATTERNS = ("a", "*.o", "/a", "e/a", "**/x", '"a"', "*", '"e/\\141"', "[ab]*")
RULES = st.dictionaries(st.sampled_from(FOLDERS), st.lists(st.sampled_from(PATTERNS), max_size=4))
LINES = st.tuples(st.sampled_from(ATTRIBUTE_PATTERNS), st.sampled_from(ATTRIBUTES)).map(" ".join)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp("rules") / "r", {"first": ""})


def outcomes(project: Project, place: Path, name: str, rules: dict[str, list[str]], *order: str) -> tuple[bytes, bytes]:
    """What git says with the rules in their folders, and with all of them in one list."""
    files = {f"{folder}/{name}" if folder else name: "\n".join(lines) for folder, lines in rules.items()}
    for root in ("with", "without"):
        for folder in FOLDERS:
            (place / root / folder).mkdir(parents=True, exist_ok=True)
    write(place / "with", files)
    before = ask(place / "with", project, *order)
    one = project.root / ".git/info" / ("exclude" if name == ".gitignore" else "attributes")
    one.write_bytes(read_rules(project.repository, project.tree(dict(files)), name))
    try:
        return before, ask(place / "without", project, *order)
    finally:
        one.unlink()


def ask(root: Path, project: Project, *command: str) -> bytes:
    environment = {**os.environ, "GIT_DIR": str(project.root / ".git"), "GIT_WORK_TREE": str(root)}
    told = b"\0".join(map(os.fsencode, PATHS))
    done = subprocess.run(["git", *command], cwd=root, input=told, env=environment, capture_output=True, check=False)
    assert not done.stderr, done.stderr
    return done.stdout


@given(RULES)
def test_ignored_by_one_list_is_what_was_ignored_before(
    project: Project, tmp_path_factory: pytest.TempPathFactory, rules: dict[str, list[str]]
) -> None:
    order = ("check-ignore", "--no-index", "-z", "--stdin")
    before, after = outcomes(project, tmp_path_factory.mktemp("rules"), ".gitignore", rules, *order)
    assert after == before


@given(st.dictionaries(st.sampled_from(FOLDERS), st.lists(LINES, max_size=4)))
def test_attributes_of_one_list_are_what_they_were_before(
    project: Project, tmp_path_factory: pytest.TempPathFactory, rules: dict[str, list[str]]
) -> None:
    order = ("check-attr", "-z", "--stdin", "text", "eol", "filter", "diff")
    before, after = outcomes(project, tmp_path_factory.mktemp("rules"), ".gitattributes", rules, *order)
    assert after == before
