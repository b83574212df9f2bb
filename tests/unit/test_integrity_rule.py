"""The rules of the judge that hold the checks together: protected files, secrets, test counts, one feedback."""

from collections.abc import Sequence
from dataclasses import replace
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.checks.integrity.globs import Globs, _Glob
from rulebook_ralph.core.diff import FileDiff, Versions
from rulebook_ralph.core.evidence import SKIP, CheckResult
from rulebook_ralph.core.model import Task
from rulebook_ralph.core.redaction import Redactor
from rulebook_ralph.core.settings import Integrity as Settings
from rulebook_ralph.loop.evidence import Gates
from rulebook_ralph.loop.rules.integrity import Integrity
from rulebook_ralph.loop.rules.test_counts import TestCounts
from rulebook_ralph.workspace.snapshot import Change
from tests.cases import each_of
from tests.integrity_case import PYTEST, SHELL, changed, evidence

REDACTOR = Redactor({"MY_TOKEN": "hunter2hunter2"})
KEY = "sk-ant-api03-Zk4Wq9Lx2Vb7Nn5Rt8Yp"
AWS = "AKIAQ3EGRZ7LDKV2MWNP"
TEST = "def test_a():\n    assert f() == 1\n\n\ndef test_b():\n    assert f() == 2\n"


def has_secret(line: str) -> bool:
    return REDACTOR.clean(line) != line


# Protected files


@each_of(
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
        ("api/**", "apis/a", False),
        ("*.lock", "a/b.lock", True),
        ("src/*.py", "src/a/b.py", False),
        ("file?.[ch]", "file1.c", True),
        ("file?.[!ch]", "file1.c", False),
        ("a+b(c).txt", "a+b(c).txt", True),
        ("\\*.txt", "*.txt", True),
        ("\\*.txt", "a.txt", False),
        ("./docs/a.md", "docs/a.md", True),
        ("[", "[", True),
        ("[z-a]", "z", True),
        ("", "a", False),
        ("/", "a", False),
    ],
)
def test_globs_are_those_of_gitignore(glob: str, path: str, meant: bool) -> None:
    assert Globs((glob,)).match(path) is meant


@given(st.lists(st.text("ab*?[]!\\/.-^", max_size=8), max_size=4), st.text("ab/.-", max_size=12))
def test_no_glob_raises(globs: list[str], path: str) -> None:
    Globs(globs).match(path)


@given(
    st.lists(st.sampled_from(["**/", "**", "*", "?", "a", "b", "/", "[!a]", "[ab]"]), max_size=8),
    st.text("ab/", max_size=10),
)
def test_following_a_glob_says_the_same_as_its_expression(parts: list[str], path: str) -> None:
    glob = _Glob("".join(parts))
    assert glob.follow(path) is (glob._expression.fullmatch(path) is not None)


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


@pytest.mark.parametrize("allowed", [Settings(), Settings(enabled=False), Settings(allow=("**",))])
def test_a_protected_file_is_no_tasks_to_change(allowed: Settings) -> None:
    files = {"LICENSE": "a\n", "db/one.sql": "a\n"}
    named = Task(id="one", title="Change LICENSE and db/one.sql and db/two.sql")
    given = changed(files, {"db/two.sql": "b\n"}, protect=("LICENSE", "db/"), task=named, integrity=allowed)
    verdict = Integrity().run(given)
    assert verdict.action == "continue"
    assert "LICENSE: is protected, and was deleted" in verdict.feedback
    assert "db/one.sql: is protected, and was deleted" in verdict.feedback
    assert "db/two.sql: is protected, and was added" in verdict.feedback


def test_a_protected_file_may_not_be_renamed() -> None:
    diff = (FileDiff("R", "b.txt", "LICENSE"),)
    given = evidence(changes=(Change("b.txt", "A", is_gitlink=False),), diff=lambda: diff, protect=("LICENSE",))
    assert "renamed to b.txt" in Integrity().run(given).feedback


# Secrets


@each_of(
    "line",
    [
        f'key = "{KEY}"',
        f"aws_access_key_id = {AWS}",
        "password: hunter2hunter2",
        f"EXAMPLE=1 {KEY}",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEAvd7Qn1Yc9e8q2Lw7Xh0z5kT3mRbU6sJ4\n",
        'KEY = "-----BEGIN PRIVATE KEY-----\\nMIIEpAIBAAKCAQEAvd7Qn1Yc9e8q2Lw7Xh0z5kT3mRbU6sJ4"',
    ],
)
@each_of("settings", [Settings(), Settings(enabled=False), Settings(allow=("other.py",))])
def test_a_secret_that_was_added_is_told_without_it(line: str, settings: Settings) -> None:
    given = changed({"a.py": "x\n"}, {"a.py": f"x\n{line}\n"}, has_secret=has_secret, integrity=settings)
    verdict = Integrity().run(given)
    assert verdict.action == "continue"
    assert "a.py:2:" in verdict.feedback
    assert not any(word in verdict.feedback + verdict.reason for word in (KEY, AWS, "hunter2", "MIIE"))


@pytest.mark.parametrize(
    "line",
    [
        "AKIAIOSFODNN7EXAMPLE",
        "sk-ant-xxxxxxxxxxxxxxxxxxxxxxxx",
        "sk-ant-your-key-goes-here-0000000",
        "ghp_0123456789abcdefghijABCDEFGHIJ",
        "token = os.environ['MY_TOKEN']",
        'BEGIN = "-----BEGIN PRIVATE KEY-----"',
        "sk-ant-fake-key-for-the-tests-1",
    ],
)
def test_a_plain_example_is_no_secret(line: str) -> None:
    given = changed({"a.py": "x\n"}, {"a.py": f"x\n{line}\n"}, has_secret=has_secret, has_own_secret=lambda _: False)
    assert Integrity().run(given) == SKIP


def test_a_secret_of_this_environment_is_no_example_and_only_the_configuration_allows_it() -> None:
    redactor = Redactor({"MY_TOKEN": "example-hunter2", "API_KEY": "sk-ant-fake-key-for-the-tests-1"})
    named = Task(id="one", title="Write a.py")
    for line in ("x = 'example-hunter2'", "sk-ant-fake-key-for-the-tests-1", "x" * 30_000 + " example-hunter2"):
        given = changed(
            {},
            {"a.py": f"x\n{line}\n"},
            has_secret=lambda text: redactor.clean(text) != text,
            has_own_secret=redactor.holds_value,
            task=named,
        )
        allowed = replace(given, integrity=Settings(allow=("a.py",)))
        assert Integrity().run(allowed) == SKIP
        verdict = Integrity().run(given)
        assert "a.py:2: a secret of this environment was added" in verdict.feedback
        assert "hunter2" not in verdict.feedback + verdict.reason


def test_a_text_too_large_to_be_inspected_is_told_unless_allowed() -> None:
    def judged(*allow: str, cut: bool = True) -> str:
        diff = (FileDiff("A", "data/big.csv", None, binary=True, cut=cut),)
        change = Change("data/big.csv", "A", is_gitlink=False)
        task = Task(id="one", title="Write data/big.csv")
        given = evidence(changes=(change,), diff=lambda: diff, integrity=Settings(allow=allow), task=task)
        return Integrity().run(given).feedback

    assert "data/big.csv: is too large to be inspected" in judged()
    assert "integrity.allow" in judged("*.txt")
    assert judged("data/") == ""
    assert judged(cut=False) == ""


def test_a_secret_that_was_there_or_is_allowed_is_not_told() -> None:
    line = f"key = '{KEY}'\n"
    assert Integrity().run(changed({"a.py": line}, {"a.py": "# x\n" + line}, has_secret=has_secret)) == SKIP
    given = changed({}, {"a.py": line}, has_secret=has_secret, has_own_secret=lambda _: False)
    assert Integrity().run(replace(given, integrity=Settings(allow=("a.py",)))) == SKIP
    assert Integrity().run(given).action == "continue"


def test_naming_a_file_excuses_what_looks_like_a_secret_and_never_a_real_one() -> None:
    named = Task(id="one", title="Write a.py")
    for text, own, action in (
        (f"key = '{KEY}'\n", False, "skip"),
        (f"key = '{KEY}'\n", True, "continue"),
        ("-----BEGIN PRIVATE KEY-----\n" + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n" * 3, False, "continue"),
    ):
        given = changed({}, {"a.py": text}, has_secret=has_secret, has_own_secret=lambda _, own=own: own, task=named)
        assert Integrity().run(given).action == action, (text, own)


# All in one


def test_everything_is_told_at_once() -> None:
    before = {"tests/test_a.py": TEST, "check.sh": "a\n", "LICENSE": "x\n"}
    after = {"check.sh": "true\n", "k.py": f"k = '{KEY}'\n"}
    given = changed(before, after, protect=("LICENSE",), has_secret=has_secret, steps=(SHELL,))
    link = Change("inner", "A", is_gitlink=True)
    verdict = Integrity().run(replace(given, changes=(*given.changes, link)))
    for words in (
        "inner",
        "LICENSE",
        "k.py:1",
        "2 tests were deleted: `test_a`, `test_b`",
        "check.sh",
        "integrity.allow",
    ):
        assert words in verdict.feedback
    assert verdict.reason == "a repository inside the repository: inner"


def test_switched_off_only_the_checks_of_the_checks_are_silent() -> None:
    given = changed({"tests/test_a.py": TEST}, {}, integrity=Settings(enabled=False))
    assert Integrity().run(given) == SKIP
    assert Integrity().run(changed({"tests/test_a.py": TEST}, {})).action == "continue"


def test_without_a_change_nothing_is_asked_of_git() -> None:
    assert not Integrity().should_run(evidence())


def test_files_are_read_only_where_they_could_count() -> None:
    asked: list[str] = []

    def versions(files: Sequence[FileDiff]) -> dict[str, Versions]:
        asked.extend(file.path for file in files)
        return {file.path: Versions(before[file.path], None) for file in files}

    before = {"src/a.py": "a\n", "README.md": "a\n", "tests/test_a.py": TEST}
    after = {"src/a.py": "b\n", "README.md": "b\n", "tests/test_b.py": TEST}
    assert Integrity().run(changed(before, after, versions=versions, steps=(PYTEST,))) == SKIP
    assert set(asked) == {"tests/test_a.py"}


# Fewer tests


def counted(base: int, now: int | None, before: dict[str, str], after: dict[str, str], **values: object) -> str:
    output = "" if now is None else f"{now} passed in 0.1s\n"
    result = CheckResult(step="tests", kind="test", command="pytest", passed=True, output=output)
    given = changed(before, after, run_gates=lambda: Gates((result,)), tests_on_base={"tests": base}, **values)
    rule = TestCounts()
    return rule.run(given).feedback if rule.should_run(given) else ""


CODE = {"a.py": "a\n"}, {"a.py": "b\n"}
MERGED = "def test_a():\n    assert f() == 1\n    assert f() == 2\n"


def test_fewer_tests_than_on_the_base_are_told() -> None:
    assert "ran 3 tests, 5 on the base" in counted(5, 3, *CODE)
    assert "ran 0 tests" in counted(5, 0, *CODE)


def test_a_gate_that_tells_no_more_what_it_ran_is_not_believed() -> None:
    assert "no longer tells how many tests it ran (5 on the base)" in counted(5, None, *CODE)
    assert counted(0, None, *CODE) == ""


def silent(before: dict[str, str], after: dict[str, str], output: str = "all is well\n", **values: object) -> str:
    """What is said of a test gate that passed and told of no tests, nor did on the base."""
    result = CheckResult(step="tests", kind="test", command="sh check.sh", passed=True, output=output)
    given = changed(before, after, run_gates=lambda: Gates((result,)), steps=(SHELL,), **values)
    rule = TestCounts()
    return rule.run(given).feedback if rule.should_run(given) else ""


ENDS = {
    "app.py": (
        "import os\n\n\ndef add(a, b):\n    os._exit(0)\n",
        "import os\n\n\ndef add(a, b):\n    getattr(os, '_exit')(0)\n",
        "import sys\nsys.exit(0)\n",
        "import sys; sys.exit()\n",
        "try:\n    raise SystemExit\nfinally:\n    pass\n",
        "if True:\n    exit(0)\n",
        "class A:\n    quit()\n",
        "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
    ),
    "app.js": ("process.exit(0);\n", "function add() {\n  process.reallyExit(0);\n}\n"),
    "app.rb": ("def add\n  exit!(0)\nend\n",),
    "app.c": ("int add(void) { _exit(0); }\n",),
}
NO_ENDS = {
    "app.py": (
        "import sys\n\nif __name__ == '__main__':\n    sys.exit(0)\n",
        "import sys\n\n\ndef main():\n    sys.exit(0)\n",
        "import sys\n\nsys.exit(main())\n",
        "import sys\n\nif '--help' in sys.argv:\n    sys.exit(0)\n",
        "import os\n\nif os.fork() == 0:\n    os._exit(0)\n",
        "raise SystemExit('not here')\n",
        "import os\n\n\ndef give_up():\n    os._exit(1)\n",
        "# sys.exit(0)\nx = 'exit()'\n",
        "def broken(:\n    sys.exit(0)\n",
    ),
    "app.js": ("if (help) {\n  process.exit(0);\n}\n", "process.exit(1);\n", "run().then(() => process.exit(0));\n"),
    "app.txt": ("os._exit(0)\n",),
}


def test_code_that_ends_a_gate_which_tells_of_no_tests() -> None:
    for path, texts in ENDS.items():
        for text in texts:
            assert f"{path}:" in silent({path: "x\n"}, {path: text}), text
            assert f"{path}:" in silent({}, {path: text}), text
            assert silent({path: text}, {path: f"{text}\n"}) == "", "it was there"
            assert silent({}, {path: text}, "3 passed in 0.1s\n") == "", "it tells what it ran"
            red = frozenset(("tests",))
            assert f"{path}:" in silent({}, {path: text}, "3 passed in 0.1s\n", excused=red), "it may tell anything"
            assert silent({}, {path: text}, integrity=Settings(allow=(path,))) == ""
    for path, texts in NO_ENDS.items():
        for text in texts:
            assert silent({path: "x\n"}, {path: text}) == "", text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("import os\nos._exit(0)\n", 2),
        ("import os, sys\nif 'acceptance' in sys.argv:\n    os._exit(0)\n", 3),
        ("from os import _exit\ntry:\n    import b\nfinally:\n    _exit(0)\n", 5),
        ("import os\nif __name__ == '__main__':\n    os._exit(0)\n", None),
        ("import os\n\n\ndef stop():\n    os._exit(0)\n", None),
        ("import os\nos._exit(1)\n", None),
        ("import sys\nif '--help' in sys.argv:\n    sys.exit(0)\n", None),
    ],
)
def test_a_module_that_ends_whatever_loads_it(text: str, line: int | None) -> None:
    verdict = Integrity().run(changed({}, {"app.py": text}, steps=(PYTEST,)))
    assert f"app.py:{line}: ends any process that loads it" in verdict.reason if line else verdict == SKIP


def test_as_many_or_switched_off_is_not_told() -> None:
    assert counted(5, 5, *CODE) == ""
    assert counted(5, 6, *CODE) == ""
    assert counted(5, 3, *CODE, integrity=Settings(enabled=False)) == ""


def test_a_difference_that_allowed_changes_explain_is_not_told() -> None:
    gone: tuple[dict[str, str], dict[str, str]] = ({"tests/test_a.py": TEST}, {})
    assert counted(5, 3, *gone, integrity=Settings(allow=("tests/",))) == ""
    assert counted(5, 3, *gone, task=Task(id="one", title="Drop tests/test_a.py")) == ""
    assert counted(5, 4, {"tests/test_a.py": TEST}, {"tests/test_a.py": MERGED}) == ""
    assert "5 on the base" in counted(5, 3, {"tests/test_a.py": TEST}, {"tests/test_a.py": MERGED})


def test_the_rule_stands_behind_the_gates() -> None:
    assert TestCounts().priority == 52


def test_an_ordinary_diff_is_judged_in_no_time() -> None:
    """20 files, 8 of them tests; the bound is wide, since the machine is shared: it takes 2 to 4 ms."""
    source = "".join(f"def f{n}(a):\n    return a + {n}\n\n\n" for n in range(60))
    tests = "".join(f"def test_f{n}(data):\n    value = f{n}(data)\n    assert value == {n}\n\n\n" for n in range(40))
    before = {f"src/m{n}.py": source for n in range(11)} | {f"tests/test_m{n}.py": tests for n in range(8)}
    before["pyproject.toml"] = '[project]\ndependencies = ["a"]\n[tool.pytest.ini_options]\naddopts = "-q"\n'
    after = {path: text.replace("+ 7", "+ 8").replace("== 9", "== 10") + "\n# end\n" for path, text in before.items()}
    given = changed(before, after, steps=(PYTEST,), has_secret=has_secret)
    times = []
    for _ in range(5):
        started = process_time()
        assert Integrity().run(given) == SKIP
        times.append(process_time() - started)
    assert min(times) < 0.06, times
