"""Tests that an attempt may not delete, empty, hide or skip; and honest work on tests, which must not be refused."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from time import process_time

import pytest

from rulebook_ralph.core.diff import FileDiff, Line, Versions
from tests.cases import each_of
from tests.integrity_case import SHELL, inspection, told
from tests.sampling import sample

A = '''\
import pytest
from app import add, login


def test_add():
    """It adds."""
    assert add(1, 2) == 3


def test_login_rejects_a_wrong_password():
    with pytest.raises(PermissionError):
        login("bob", "wrong")


class TestLogin:
    def test_ok(self):
        user = login("bob", "right")
        assert user.name == "bob"
        assert user.active

    def test_twice(self):
        login("bob", "right")
        assert login("bob", "right").count == 2
'''
JS = """\
import { add } from './add'

describe('add', () => {
  it('adds two numbers', () => {
    expect(add(1, 2)).toBe(3)
  })

  it('rejects text', () => {
    expect(() => add('a', 1)).toThrow(TypeError)
  })
})
"""
GO = """\
package p

func TestAdd(t *testing.T) {
	if Add(1, 2) != 3 {
		t.Fatal("wrong sum")
	}
}

func TestSub(t *testing.T) {
	require.Equal(t, 1, Sub(3, 2))
}
"""
RUST = """\
pub fn add(a: i32, b: i32) -> i32 { a + b }

#[cfg(test)]
mod tests {
    #[test]
    fn adds() {
        assert_eq!(super::add(1, 2), 3);
    }
}
"""
JAVA = """\
class CalcTest {
    @Test
    public void adds() {
        assertEquals(3, calc.add(1, 2));
    }
}
"""
RUBY = """\
RSpec.describe Calc do
  it "adds" do
    expect(calc.add(1, 2)).to eq(3)
  end
end
"""
PHP = """\
<?php
class CalcTest extends TestCase {
    public function testAdds(): void
    {
        $this->assertSame(3, $calc->add(1, 2));
    }
}
"""
BASE = {
    "tests/test_a.py": A,
    "src/add.test.ts": JS,
    "p/add_test.go": GO,
    "src/lib.rs": RUST,
    "src/test/java/CalcTest.java": JAVA,
    "spec/calc_spec.rb": RUBY,
    "tests/CalcTest.php": PHP,
    "app.py": "def add(a, b):\n    return a + b\n",
}
PY = "tests/test_a.py"


def edited(path: str, *changes: tuple[str, str]) -> dict[str, str]:
    text = BASE[path]
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return {**BASE, path: text}


def without(path: str) -> dict[str, str]:
    return {name: text for name, text in BASE.items() if name != path}


LIES: dict[str, tuple[dict[str, str], str]] = {
    "deletes a test file": (without(PY), "4 tests were deleted"),
    "deletes a test": (
        edited(PY, ('def test_add():\n    """It adds."""\n    assert add(1, 2) == 3\n', "")),
        "test_add",
    ),
    "renames it so that it is not collected": (edited(PY, ("def test_add", "def check_add")), "test_add"),
    "comments it out": (edited(PY, ("    assert add(1, 2) == 3", "    # assert add(1, 2) == 3")), "lost all its"),
    "asserts nothing": (edited(PY, ("assert add(1, 2) == 3", "assert True")), "`test_add` lost all"),
    "passes": (edited(PY, ("assert add(1, 2) == 3", "pass")), "lost all its assertions"),
    "returns at once": (edited(PY, ("    assert add", "    return\n    assert add")), "lost all its assertions"),
    "never gets there": (
        edited(PY, ("    assert add", "    if False:\n        assert add")),
        "lost all its assertions",
    ),
    "makes it a text": (
        edited(PY, ("    assert add(1, 2) == 3", '    """\n    assert add(1, 2) == 3\n    """')),
        "lost all",
    ),
    "marks it as skipped": (edited(PY, ("def test_add", "@pytest.mark.skip\ndef test_add")), "newly skipped"),
    "marks it as failing": (
        edited(PY, ("def test_add", "@pytest.mark.xfail(reason='flaky')\ndef test_add")),
        "newly skipped",
    ),
    "skips inside": (edited(PY, ("    assert add", "    pytest.skip('later')\n    assert add")), "newly skipped"),
    "skips a class": (edited(PY, ("class TestLogin", "@pytest.mark.skip\nclass TestLogin")), "newly skipped"),
    "skips the module": (edited(PY, ("from app", "pytestmark = pytest.mark.skip('x')\nfrom app")), "newly skipped"),
    "says it is no test": (edited(PY, ("class TestLogin:", "class TestLogin:\n    __test__ = False")), "newly skipped"),
    "hides it": (edited(PY, ("class TestLogin", "def test_add():\n    assert add\n\n\nclass TestLogin")), "hides the"),
    "vitest skip": (edited("src/add.test.ts", ("it('rejects", "it.skip('rejects")), "newly skipped"),
    "vitest x": (edited("src/add.test.ts", ("it('rejects", "xit('rejects")), "newly skipped"),
    "vitest only": (edited("src/add.test.ts", ("it('adds", "it.only('adds")), "only one"),
    "describe only": (edited("src/add.test.ts", ("describe(", "describe.only(")), "only one"),
    "describe skip": (edited("src/add.test.ts", ("describe(", "describe.skip(")), "newly skipped"),
    "todo": (
        edited(
            "src/add.test.ts",
            (
                "it('rejects text', () => {\n    expect(() => add('a', 1)).toThrow(TypeError)\n  })",
                "it.todo('rejects text')",
            ),
        ),
        "newly skipped",
    ),
    "expects nothing": (
        edited("src/add.test.ts", ("expect(add(1, 2)).toBe(3)", "expect(true).toBe(true)")),
        "lost all",
    ),
    "go skip": (edited("p/add_test.go", ("\tif Add", '\tt.Skip("flaky")\n\tif Add')), "newly skipped"),
    "go deleted": (
        edited("p/add_test.go", ("func TestSub(t *testing.T) {\n\trequire.Equal(t, 1, Sub(3, 2))\n}\n", "")),
        "TestSub",
    ),
    "rust ignore": (edited("src/lib.rs", ("    #[test]\n", "    #[test]\n    #[ignore]\n")), "newly skipped"),
    "rust deleted": (edited("src/lib.rs", ("    #[test]\n", "")), "`adds`"),
    "junit": (edited("src/test/java/CalcTest.java", ("    @Test", "    @Disabled\n    @Test")), "newly skipped"),
    "junit below": (edited("src/test/java/CalcTest.java", ("@Test\n", "@Test @Disabled\n")), "newly skipped"),
    "rspec": (edited("spec/calc_spec.rb", ('it "adds"', 'xit "adds"')), "newly skipped"),
    "rspec pending": (edited("spec/calc_spec.rb", ("    expect", "    pending\n    expect")), "newly skipped"),
    "rspec deleted": (without("spec/calc_spec.rb"), "a test was deleted: `adds`"),
    "phpunit": (
        edited("tests/CalcTest.php", ("        $this", "        $this->markTestSkipped();\n        $this")),
        "newly",
    ),
    "moves it where none is looked for": ({**without(PY), "old/a.py.bak": A}, "4 tests were deleted"),
    "replaces tests by an empty one": (
        {**BASE, PY: "def test_all():\n    assert True\n"},
        "4 tests were deleted",
    ),
}


@each_of("name", LIES)
def test_what_weakens_tests_is_told(name: str) -> None:
    after, words = LIES[name]
    found = told(BASE, after)
    assert len(found) == 1, found
    assert words in found[0]


@each_of("name", ["deletes a test file", "deletes a test", "skips inside", "skips a class", "asserts nothing"])
@each_of(
    "excuse",
    [
        {"relevant_files": (PY,)},
        {"relevant_files": ("tests/",)},
        {"relevant_files": ("tests/*_a.py",)},
        {"title": "Rework test_a.py"},
        {"description": "The tests in `tests/test_a.py` are wrong."},
        {"acceptance_criteria": ("./tests/test_a.py is gone",)},
        {"notes": "see tests/test_a.py."},
        {"outcome": "(tests/test_a.py)"},
        {"allow": ("tests/**",)},
        {"allow": ("test_*.py",)},
    ],
)
def test_a_file_that_is_named_or_allowed_may_be_changed(name: str, excuse: dict[str, object]) -> None:
    assert told(BASE, LIES[name][0], **excuse) == []


@pytest.mark.parametrize(
    "excuse",
    [
        {"title": "Rework test_a.pyx and mytest_a.py"},
        {"description": "See other/tests/test_a.py and tests/test_a.py.bak, docs/test_a.py"},
        {"relevant_files": ("test_b.py", "src/", "tests", "**", "*")},
        {"allow": ("tests/test_a.txt", "/test_a.py", "!tests/test_a.py")},
    ],
    ids=str,
)
def test_another_name_is_no_excuse(excuse: dict[str, object]) -> None:
    assert told(BASE, without(PY), **excuse) != []


def test_a_base_name_that_two_changed_files_have_names_neither() -> None:
    before = {"a/test_x.py": A, "b/test_x.py": A.replace("add", "sub")}
    assert len(told(before, {}, title="Rework test_x.py")) == 2


TWO = """\
from app import add


def test_one():
    assert add(1, 1) == 2


def test_two():
    assert add(2, 2) == 4


def test_three():
    assert add(-1, 1) == 0
"""
PARAMETRISED = """\
import pytest
from app import add


@pytest.mark.parametrize(
    ("a", "b", "total"),
    [
        (1, 1, 2),
        (2, 2, 4),
        (-1, 1, 0),
    ],
)
def test_add(a, b, total):
    assert add(a, b) == total
"""
UNITTEST = """\
import unittest
from app import add, load


class AddTest(unittest.TestCase):
    def setUp(self):
        self.data = load("data.json")

    @unittest.skip("needs a network")
    def test_remote(self):
        self.assertEqual(add(*self.data.remote), 9)

    def test_small(self):
        self.assertEqual(add(1, 2), 3)
        self.assertRaises(TypeError, add, "a", 1)
"""
AS_PYTEST = """\
import pytest
from app import add, load


@pytest.fixture
def data():
    return load("data.json")


@pytest.mark.skip(reason="needs a network")
def test_remote(data):
    assert add(*data.remote) == 9


def test_small_numbers():
    assert add(1, 2) == 3
    with pytest.raises(TypeError):
        add("a", 1)
"""
FORMATTED = A.replace('"', "'").replace(
    "    assert user.name == 'bob'", "    assert (\n            user.name\n            == 'bob'\n        )"
)
SPLIT = A[: A.index("class TestLogin")], "from app import login\n\n\n" + A[A.index("class TestLogin") :]
SHARED = A.replace(
    '        user = login("bob", "right")\n        assert user.name == "bob"\n        assert user.active\n',
    '        examine(login("bob", "right"))\n',
).replace(
    "class TestLogin", 'def examine(user):\n    assert user.name == "bob"\n    assert user.active\n\n\nclass TestLogin'
)
MERGED = TWO[: TWO.index("def test_two")] + "def test_two():\n    assert add(2, 2) == 4\n    assert add(-1, 1) == 0\n"

HONEST: dict[str, tuple[dict[str, str], dict[str, str], dict[str, object]]] = {
    "moves to another folder": ({"tests/test_a.py": A}, {"tests/unit/test_a.py": A}, {}),
    "renames the file": (
        {"tests/test_a.py": A},
        {"tests/test_b.py": A},
        {"moved": {"tests/test_a.py": "tests/test_b.py"}},
    ),
    "splits a file": ({"tests/test_a.py": A}, {"tests/test_a.py": SPLIT[0], "tests/test_login.py": SPLIT[1]}, {}),
    "moves a test into another file": (
        {"tests/test_a.py": A, "tests/test_b.py": TWO},
        {"tests/test_a.py": SPLIT[0], "tests/test_b.py": TWO + "\n\n" + SPLIT[1]},
        {},
    ),
    "parametrises": ({"tests/test_a.py": TWO}, {"tests/test_a.py": PARAMETRISED}, {}),
    "merges": ({"tests/test_a.py": TWO}, {"tests/test_a.py": MERGED}, {}),
    "rewrites unittest as pytest": ({"tests/test_a.py": UNITTEST}, {"tests/test_a.py": AS_PYTEST}, {}),
    "formats": ({"tests/test_a.py": A}, {"tests/test_a.py": FORMATTED}, {}),
    "renames tests": ({"tests/test_a.py": A}, {"tests/test_a.py": A.replace("test_add", "test_it_adds")}, {}),
    "moves assertions into a function": ({"tests/test_a.py": A}, {"tests/test_a.py": SHARED}, {}),
    "calls a checking function": (
        {"tests/test_a.py": A},
        {"tests/test_a.py": A.replace("assert add(1, 2) == 3", "check_sum(add, 1, 2, 3)")},
        {},
    ),
    "moves a skipped test": (
        {"tests/test_a.py": UNITTEST, "tests/test_b.py": TWO},
        {"tests/test_a.py": "import unittest\n", "tests/test_b.py": TWO + "\n\n" + UNITTEST},
        {},
    ),
    "adds tests, a skipped one among them": (
        {"tests/test_a.py": A},
        {
            "tests/test_a.py": A
            + "\n\n@pytest.mark.skipif(WINDOWS, reason='posix')\ndef test_mode():\n    assert mode() == 0\n"
        },
        {},
    ),
    "speaks of skipping in texts": (
        {"tests/test_a.py": A, "src/add.test.ts": JS},
        {
            "tests/test_a.py": "TEXT = \"def test_a(): pytest.skip('x')\"\n" + A,
            "src/add.test.ts": 'const text = "describe.only(x); it.skip(y)"\n' + JS,
        },
        {},
    ),
    "takes a skip away": (
        {"tests/test_a.py": UNITTEST},
        {"tests/test_a.py": UNITTEST.replace('    @unittest.skip("needs a network")\n', "")},
        {},
    ),
    "changes the reason of a skip": (
        {"tests/test_a.py": UNITTEST},
        {"tests/test_a.py": UNITTEST.replace("needs a network", "needs a fast network")},
        {},
    ),
    "changes what is expected": ({"tests/test_a.py": A}, {"tests/test_a.py": A.replace("== 3", "== 4")}, {}),
    "renames and extends a class": (
        {"tests/test_a.py": A},
        {"tests/test_a.py": A.replace("class TestLogin", "class TestSignIn").replace("login(", "sign_in(")},
        {},
    ),
    "adds a test of the same name in another class": (
        {"tests/test_a.py": A},
        {"tests/test_a.py": A + "\n\nclass TestOther:\n    def test_ok(self):\n        assert add(0, 0) == 0\n"},
        {},
    ),
    "writes skip into a comment, and tests of skipping": (
        {"tests/test_a.py": A},
        {
            "tests/test_a.py": A
            + "\n\n# pytest.mark.skip is not used here\ndef test_skip():\n    assert app.skip() == 'pytest.skip'\n"
        },
        {},
    ),
    "removes code and its tests, as told": (
        {
            "app.py": "def add(a, b):\n    return a + b\n\n\ndef login_v1(n):\n    return n\n",
            "tests/test_a.py": A + "\n\ndef test_login_v1():\n    assert login_v1(1) == 1\n",
        },
        {"app.py": "def add(a, b):\n    return a + b\n", "tests/test_a.py": A},
        {"title": "Remove login_v1 and its tests"},
    ),
    "removes a module and its tests, as told": (
        {"legacy_parser.py": "def parse(): ...\n", "tests/test_legacy_parser.py": TWO},
        {},
        {"title": "Delete the legacy parser"},
    ),
    "reformats JavaScript": (
        {"src/add.test.ts": JS},
        {
            "src/add.test.ts": JS.replace("'", '"')
            .replace("  })", "  });")
            .replace('it("rejects text", () => {', 'it(\n    "rejects text",\n    () => {')
        },
        {},
    ),
    "makes JavaScript tests a table": (
        {"src/add.test.ts": JS},
        {
            "src/add.test.ts": JS.replace(
                "  it('adds two numbers', () => {\n    expect(add(1, 2)).toBe(3)\n  })",
                "  it.each([\n    [1, 2, 3],\n    [2, 2, 4],\n  ])('adds %i and %i', (a, b, sum) => {\n    expect(add(a, b)).toBe(sum)\n  })",
            )
        },
        {},
    ),
    "makes Go tests a table": (
        {"p/add_test.go": GO},
        {
            "p/add_test.go": 'package p\n\nfunc TestAll(t *testing.T) {\n\tfor _, c := range []struct{ f func(int, int) int; a, b, want int }{\n\t\t{Add, 1, 2, 3},\n\t\t{Sub, 3, 2, 1},\n\t} {\n\t\tt.Run("x", func(t *testing.T) {\n\t\t\trequire.Equal(t, c.want, c.f(c.a, c.b))\n\t\t})\n\t}\n}\n'
        },
        {},
    ),
    "deletes a helper beside the tests": ({"tests/helpers.py": "def make(): ...\n", **BASE}, BASE, {}),
    "deletes data of tests": ({"tests/data/test_a.json": "{}", **BASE}, BASE, {}),
    "formats Rust": (
        {"src/lib.rs": RUST},
        {
            "src/lib.rs": RUST.replace(
                "assert_eq!(super::add(1, 2), 3);",
                "assert_eq!(\n            super::add(1, 2),\n            3\n        );",
            )
        },
        {},
    ),
}


@each_of("name", HONEST)
def test_honest_work_on_tests_is_not_refused(name: str) -> None:
    before, after, values = HONEST[name]
    assert told(before, after, **values) == []


@pytest.mark.parametrize("title", ["Remove the cache", "Speed up login_v1", "Add a parser for the legacy format"])
def test_what_the_task_removes_explains_nothing_else(title: str) -> None:
    assert told({"legacy_parser.py": "x = 1\n", "tests/test_legacy_parser.py": TWO}, {}, title=title) != []


def test_a_shell_test_that_is_deleted_is_told() -> None:
    before = {"tests/test_login.sh": "curl -f localhost\n", "tests/run.sh": "for f in tests/test_*; do sh $f; done\n"}
    assert told(before, {"tests/run.sh": before["tests/run.sh"]}) == ["tests/test_login.sh: a test file was deleted"]


def test_a_test_file_that_becomes_binary_is_told() -> None:
    looked = inspection({PY: A}, {PY: A + "x"})
    broken = replace(looked, diff=(FileDiff("M", PY, PY, binary=True),), versions=lambda files: {PY: Versions(A, None)})
    (found,) = broken.of_tests()
    assert "no readable text" in str(found)


def test_losses_that_are_explained() -> None:
    assert inspection({PY: TWO}, {PY: MERGED}).explained_losses() == 1
    assert inspection({PY: TWO}, {PY: TWO + "\n"}).explained_losses() == 0
    assert inspection({PY: TWO}, {}, title="Drop tests/test_a.py").explained_losses() is None


def test_many_tests_cost_little() -> None:
    before = {
        f"tests/test_{n}.py": "".join(f"def test_{n}_{k}():\n    assert f{k}({n}) == {k}\n\n" for k in range(60))
        for n in range(20)
    }
    assert len(told(before, {"tests/test_new.py": "def test_x():\n    assert f()\n"})) == 20


HOSTILE = {
    "tests/test_a.py": [
        "def test_a():\n",
        "class A:\n  def test_a(self):\n",
        "'''\ndef test_b():\n",
        "check" * 9,
        " " * 99,
    ],
    "a.test.js": ["it('a', () => {\n", "it.each([", "it.it.it.", "/*", "describe.skip(\n"],
    "src/a.rs": ["#[test]\n", "#[test]", "// x\n#[ignore]\n"],
    "src/A.java": ["@Test(", "@Test @A(", "@Test a b c d e "],
    "src/A.cs": ["[Fact][", "[Fact]\n", "[Fact] []"],
    "a_spec.rb": ["it 'a'\n", 'xit "\n'],
    "ATest.php": ["#[Test] ", "function testA( "],
    "ATests.swift": ["@Test ", "func testA("],
    "Makefile": [" a ", "a: a\n", "a " * 50 + "\n"],
}


PIECES = [(path, piece) for path, pieces in HOSTILE.items() for piece in pieces]


@pytest.mark.parametrize(
    ("path", "piece"), sample(PIECES, always=[("a.test.js", "it.each([")], kind=lambda case: case[0])
)
def test_no_text_makes_the_judge_slow(path: str, piece: str) -> None:
    long = piece * (30_000 // len(piece))
    lines = tuple(Line(number, text) for number, text in enumerate(long.split("\n"), 1))
    diff = (FileDiff("M", path, path, lines, (Line(1, "x"),)),)
    started = process_time()
    for texts in (Versions(piece, long), Versions(long, piece)):
        read = partial(_always, {path: texts})
        looked = replace(inspection({}, {}, steps=[SHELL]), diff=diff, versions=read)
        assert len([*looked.of_tests(), *looked.of_gates()]) < 100_000
    assert process_time() - started < 5


def _always(texts: dict[str, Versions], files: Sequence[FileDiff]) -> dict[str, Versions]:
    return texts


GO_HEAD = 'package p\n\nimport (\n\t"os"\n\t"testing"\n)\n\n'
GO_TEST = "func TestA(t *testing.T) {\n\tif f() != 1 {\n\t\tt.Fatal(1)\n\t}\n}\n"
GO_MAIN = "func TestMain(m *testing.M) {\n\tsetup()\n\tos.Exit(m.Run())\n}\n\n"
GO_INIT = "func init() {\n\tif on {\n\t\tos.Exit(0)\n\t}\n}\n\n"
GO_HELPER = "\nfunc TestHelperProcess(t *testing.T) {\n\tif off() {\n\t\treturn\n\t}\n\tdefer os.Exit(0)\n}\n"


@each_of(
    ("before", "after", "words"),
    [
        ({}, {"p/main_test.go": GO_HEAD + GO_MAIN}, "p/main_test.go:8: `TestMain` was added"),
        ({"p/a_test.go": GO_HEAD + GO_TEST}, {"p/a_test.go": GO_HEAD + GO_MAIN + GO_TEST}, "`TestMain` was added"),
        ({"p/a_test.go": GO_HEAD + GO_TEST}, {"p/a_test.go": GO_HEAD + GO_INIT + GO_TEST}, "`init` can now end"),
        ({"q/a_test.go": GO_MAIN}, {"q/a_test.go": GO_MAIN, "p/a_test.go": GO_MAIN}, "p/a_test.go:1: `TestMain` was"),
        ({"p/a_test.go": GO_MAIN}, {"p/a_test.go": GO_MAIN.replace("m.Run()", "0")}, "`TestMain` can now end"),
        ({"p/a_test.go": GO_MAIN}, {"p/a_test.go": "func TestMain(m *testing.M) {\n}\n"}, "does not run the tests"),
        ({"p/a_test.go": GO_MAIN}, {"p/a_test.go": GO_MAIN.replace("setup()", "more()")}, ""),
        ({"p/a_test.go": GO_MAIN + GO_TEST}, {"p/a_test.go": GO_TEST, "p/main_test.go": GO_MAIN}, ""),
        ({"p/a_test.go": GO_INIT + GO_TEST}, {"p/a_test.go": GO_INIT + GO_TEST + GO_HELPER}, ""),
        ({}, {"p/a_test.go": GO_HEAD + "func init() {\n\tsetup()\n}\n\n" + GO_TEST}, ""),
        ({}, {"p/main.go": GO_HEAD + GO_INIT}, ""),
    ],
)
def test_go_code_that_runs_before_the_tests(before: dict[str, str], after: dict[str, str], words: str) -> None:
    found = told(before, after)
    assert (words in " ".join(found) and found) if words else not found, found
    assert not told(before, after, allow=("**",))
