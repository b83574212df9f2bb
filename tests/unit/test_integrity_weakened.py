"""Tests that stay and check less, what they expect, and honest changes of both."""

from collections.abc import Mapping
from time import process_time

import pytest

from tests.cases import each_of
from tests.integrity_case import step, told

PY = "tests/test_calc.py"
TEST = (
    "import pytest\n\nfrom calc import add, div\n\n\ndef test_add():\n    total = add(1, 2)\n    assert total == 3\n"
    "    assert add(2, 2) == 4\n    assert add(-1, 1) == 0\n\n\ndef test_div():\n    with pytest.raises(ZeroDivisionError):\n"
    "        div(1, 0)\n    assert div(4, 2) == 2\n\n\ndef test_one():\n    assert add(5, 5) == 10\n"
)
CODE = {"calc.py": "def add(a, b):\n    return a + b\n\n\ndef div(a, b):\n    return a / b\n"}


def edited(*edits: tuple[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The work is real, and the tests have other words in some places."""
    text = TEST
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return {**CODE, PY: TEST}, {"calc.py": CODE["calc.py"] + "\n\nMORE = 1\n", PY: text}


LESS: Mapping[str, tuple[list[tuple[str, str]], str]] = {
    "or True": ([("assert total == 3", "assert total == 3 or True")], "always holds"),
    "or True alone": ([("assert add(5, 5) == 10", "assert add(5, 5) == 10 or True")], "always holds"),
    "assert True": ([("assert total == 3", "assert True")], "always holds"),
    "itself": ([("assert total == 3", "assert total == total")], "always holds"),
    "its own answer": ([("assert add(5, 5) == 10", "assert add(5, 5) == add(5, 5)")], "always holds"),
    "a tuple": ([("assert total == 3", "assert (total == 3, 'is three')")], "always holds"),
    "not False": ([("assert total == 3", "assert not False")], "always holds"),
    "removed": ([("    assert add(2, 2) == 4\n", "")], "lost 1 assertion of 3"),
    "removed twice": ([("    assert add(2, 2) == 4\n    assert add(-1, 1) == 0\n", "")], "lost 2 assertions of 3"),
    "commented out": ([("    assert add(2, 2) == 4\n", "    # assert add(2, 2) == 4\n")], "lost 1 assertion of 3"),
    "suppressed": (
        [
            (
                "    assert add(5, 5) == 10\n",
                "    with contextlib.suppress(AssertionError):\n        assert add(5, 5) == 10\n",
            )
        ],
        "goes on when an assertion fails",
    ),
    "tried": (
        [
            (
                "    assert add(5, 5) == 10\n",
                "    try:\n        assert add(5, 5) == 10\n    except Exception:\n        pass\n",
            )
        ],
        "goes on when an assertion fails",
    ),
    "tried, whatever comes": (
        [
            (
                "    assert add(5, 5) == 10\n",
                "    try:\n        assert add(5, 5) == 10\n    except:\n        print('x')\n",
            )
        ],
        "goes on when an assertion fails",
    ),
    "any exception": ([("raises(ZeroDivisionError)", "raises(Exception)")], "any exception"),
    "one of any": ([("raises(ZeroDivisionError)", "raises((ValueError, BaseException))")], "any exception"),
    "returns": ([("    assert add(2, 2)", "    return\n    assert add(2, 2)")], "may now end before"),
    "returns sometimes": (
        [("    total = add", "    if not total_is_known():\n        return\n    total = add")],
        "may now end",
    ),
    "never": ([("    assert add(2, 2) == 4\n", "    if 0:\n        assert add(2, 2) == 4\n")], "lost "),
}


@each_of("way", LESS)
def test_a_test_that_checks_less(way: str) -> None:
    edits, words = LESS[way]
    before, after = edited(*edits)
    (found,) = told(before, after)
    assert words in found, found
    assert found.startswith(f"{PY}:")
    assert told(before, after, title=f"Change {PY}") == []
    assert told(before, after, allow=("tests/",)) == []


MORE: Mapping[str, list[tuple[str, str]]] = {
    "another value": [("add(2, 2) == 4", "add(2, 2) == 5")],
    "put together": [
        ("    assert add(2, 2) == 4\n    assert add(-1, 1) == 0\n", "    assert (add(2, 2), add(-1, 1)) == (4, 0)\n")
    ],
    "a loop": [
        (
            "    assert add(2, 2) == 4\n    assert add(-1, 1) == 0\n",
            "    for a, b, c in ((2, 2, 4), (-1, 1, 0)):\n        assert add(a, b) == c\n",
        )
    ],
    "a function of its own": [
        ("    assert add(2, 2) == 4\n    assert add(-1, 1) == 0\n", "    sums()\n"),
        ("def test_one", "def sums():\n    assert add(2, 2) == 4\n    assert add(-1, 1) == 0\n\n\ndef test_one"),
    ],
    "a test of its own": [
        ("    assert add(-1, 1) == 0\n", "\n\ndef test_negative():\n    assert add(-1, 1) == 0\n"),
    ],
    "parameters": [
        (
            "def test_one():\n    assert add(5, 5) == 10",
            "@pytest.mark.parametrize('a', [5])\ndef test_one(a):\n    assert add(a, 5) == 10",
        )
    ],
    "a message": [("assert total == 3", "assert total == 3, 'three'")],
    "a try that fails": [
        (
            "    with pytest.raises(ZeroDivisionError):\n        div(1, 0)\n",
            "    try:\n        div(1, 0)\n    except ZeroDivisionError:\n        pass\n    else:\n        pytest.fail('no error')\n",
        )
    ],
    "cleaning up": [
        ("    assert add(5, 5) == 10\n", "    try:\n        assert add(5, 5) == 10\n    finally:\n        add(0, 0)\n")
    ],
    "another exception": [("raises(ZeroDivisionError)", "raises(ValueError, match='zero')")],
    "the same twice": [("    assert total == 3\n", "    assert total == 3\n    assert add(1, 2) == add(1, 2)\n")],
    "other quotes and names": [("total", "result")],
    "something that is no assertion": [
        ("    total = add(1, 2)\n    assert total == 3\n", "    assert add(1, 2) == 3\n")
    ],
}


@each_of("way", MORE)
def test_honest_changes_of_tests(way: str) -> None:
    assert told(*edited(*MORE[way])) == []


def test_an_assertion_about_what_the_program_has_no_more() -> None:
    before, after = edited(("    assert div(4, 2) == 2\n", ""))
    without = {
        **after,
        "calc.py": CODE["calc.py"].replace("def div(a, b):\n    return a / b\n", "def halve(a):\n    return a / 2\n"),
    }
    assert told(before, without) == []
    assert told(before, after)


GO = (
    'func TestAdd(t *testing.T) {\n\tif Add(1, 2) != 3 {\n\t\tt.Fatal("three")\n\t}\n'
    '\tif Add(2, 2) != 4 {\n\t\tt.Fatal("four")\n\t}\n}\n'
)
OTHERS = {
    "test/app.test.js": (
        'test("adds", () => {\n  expect(add(1, 2)).toBe(3);\n  expect(add(2, 2)).toBe(4);\n});\n',
        ("  expect(add(2, 2)).toBe(4);\n", ""),
    ),
    "src/app.test.ts": (
        'it("adds", () => {\n  expect(add(1, 2)).toBe(3);\n  expect(add(2, 2)).toBe(4);\n});\n',
        ("  expect(add(2, 2)).toBe(4);\n", "  try { expect(add(2, 2)).toBe(4); } catch (e) {}\n"),
    ),
    "calc_test.go": (GO, ('\tif Add(2, 2) != 4 {\n\t\tt.Fatal("four")\n\t}\n', "")),
}


@pytest.mark.parametrize("path", OTHERS)
def test_tests_of_other_languages_that_check_less(path: str) -> None:
    text, (old, new) = OTHERS[path]
    before = {"src/calc.x": "a\n", path: text}
    (found,) = told(before, {"src/calc.x": "b\n", path: text.replace(old, new)}, steps=[step("make test")])
    assert "lost 1 assertion of 2" in found or "goes on when" in found
    assert told(before, {"src/calc.x": "b\n", path: text.replace("4", "5")}, steps=[step("make test")]) == []


EXPECTED = (
    "src/__snapshots__/app.test.js.snap",
    "testdata/out.golden",
    "tests/expected/a.txt",
    "tests/expected_total.json",
)


@pytest.mark.parametrize("path", EXPECTED)
def test_what_is_expected_changes_with_the_program_alone(path: str) -> None:
    before = {path: "one\n", "src/app.js": "a\n", "tests/data.json": "1\n"}
    for more in ({}, {"note.txt": "x\n"}, {"README.md": "x\n"}, {"tests/data.json": "2\n"}):
        (found,) = told(before, {**before, path: "two\n", **more})
        assert "was changed though the program was not" in found
    assert told(before, {**before, path: "two\n", "src/app.js": "b\n"}) == []
    assert told(before, {**before, path: "one\ntwo\n", "tests/data.json": "2\n"}) == [], "only more is expected"
    assert told(before, {**before, path: "two\n"}, title=f"Correct {path}") == []
    assert told(before, {**before, path: "two\n"}, allow=(path,)) == []


def test_a_snapshot_that_is_deleted_beside_its_test() -> None:
    path, test = EXPECTED[0], "src/app.test.js"
    before = {
        path: "one\n",
        test: 'it("adds", () => {\n  expect(add(1)).toMatchSnapshot();\n});\n',
        "src/app.js": "a\n",
    }
    (found,) = told(before, {test: before[test], "src/app.js": "b\n"})
    assert "was deleted; the tests stay" in found
    moved = {"src/sum.test.js": before[test], "src/__snapshots__/sum.test.js.snap": "one\n", "src/app.js": "b\n"}
    assert told(before, moved, moved={test: "src/sum.test.js", path: "src/__snapshots__/sum.test.js.snap"}) == []


HOSTILE = {
    "deep": "(" * 400 + ")" * 400,
    "deep calls": "assert " + "f(" * 150 + ")" * 150,
    "a long chain": "x" + ".a" * 20_000 + " = 1",
    "many": "".join(f"assert x{n}\n    " for n in range(1500)),
    "escapes": "assert '\\d' == '\\w'",
    "many tries": "".join(f"try: assert x{n}\n    except: pass\n    " for n in range(80)),
    "no Python": "assert x ==",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_test_is_too_strange_to_be_read(name: str) -> None:
    text = f"import sys\n\n\ndef test_a():\n    {HOSTILE[name]}\n\n\nsys.modules['app'] = 1\n"
    started = process_time()
    told(
        {PY: text, "tests/conftest.py": "x = 1\n"}, {PY: text.replace("assert", "assert  "), "tests/conftest.py": text}
    )
    assert process_time() - started < 2
