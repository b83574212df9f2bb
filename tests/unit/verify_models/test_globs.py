from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.tasks.patterns import Globs


@pytest.mark.parametrize(
    ("glob", "path", "meant"),
    [
        ("secrets.txt", "deep/er/secrets.txt", True),
        ("/secrets.txt", "deep/secrets.txt", False),
        ("migrations/", "db/migrations/0001.sql", True),
        ("migrations/", "migrations", False),
        ("db/migrations", "db/migrations/0001.sql", True),
        ("db/migrations", "old/db/migrations/0001.sql", False),
        ("**/api/*.json", "a/b/api/x.json", True),
        ("**/api/*.json", "api/x.json", True),
        ("api/**/x.json", "api/x.json", True),
        ("api/**", "api/a/b", True),
        ("api/**", "api", False),
        ("api/**", "apis/a", False),
        ("*.lock", "a/b.lock", True),
        ("src/*.py", "src/a/b.py", False),
        ("file?.[ch]", "file1.c", True),
        ("file?.[!ch]", "file1.c", False),
        ("file?.[^ch]", "file1.c", False),
        ("a+b(c).txt", "a+b(c).txt", True),
        ("\\*.txt", "*.txt", True),
        ("\\*.txt", "a.txt", False),
        ("./docs/a.md", "docs/a.md", True),
        ("[", "[", True),
        ("", "a", False),
        ("/", "a", False),
    ],
)
def test_globs_are_those_of_gitignore(glob: str, path: str, meant: bool) -> None:
    assert Globs((glob,)).match(path) is meant


@given(st.lists(st.text("ab*?[]!\\/.-^", max_size=8), max_size=4), st.text("ab/.-", max_size=12))
def test_no_glob_raises(globs: list[str], path: str) -> None:
    Globs(globs).match(path)


@pytest.mark.parametrize(
    "glob", ["**/a/" * 5 + "x", "**/" * 9 + "x", "/" + "*a" * 12 + "b", "**a" * 8 + "b", "a/**/" * 5 + "*"]
)
def test_no_glob_takes_long(glob: str) -> None:
    globs = Globs((glob,))
    started = process_time()
    for path in ("a/" * 200 + "y", "a" * 400):
        globs.match(path)
    assert process_time() - started < 0.5
    assert Globs(("**/a/" * 5 + "x",)).match("b/a/b/a/a/b/b/a/a/x")
    assert not Globs(("**/a/" * 5 + "x",)).match("b/a/b/a/a/b/b/a/x")


def test_the_last_glob_decides() -> None:
    globs = Globs(("docs/**", "!docs/mine.md"))
    assert globs.match("docs/a.md")
    assert not globs.match("docs/mine.md")
