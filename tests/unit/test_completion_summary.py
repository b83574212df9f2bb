"""What a completed task leaves to those that build on it: git and syntax tell, and what the agent says is held against
them.
"""

import time
import warnings
from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rulebook_ralph.core.diff import FileDiff, Versions
from rulebook_ralph.core.evidence import AgentResult, CheckResult, Iteration, ParsedIteration
from rulebook_ralph.core.model import CompletionSummary, Prd, Stage, Task
from rulebook_ralph.core.parser import parse
from rulebook_ralph.core.policy import Settlement
from rulebook_ralph.core.settling import settled
from rulebook_ralph.core.token_estimate import tokens
from rulebook_ralph.loop.completion_summary import summarise, told
from rulebook_ralph.loop.exported_names import exported_names
from rulebook_ralph.state import codec
from tests.cases import each_of
from tests.evidence import GREEN, LINT_RED

AT = "2026-01-01T00:00:00.000Z"
TEXTS: Mapping[str, tuple[str | None, str | None]] = {
    "src/auth/login.ts": (None, "export function login() {}\nconst secret = 1\nexport { secret as key }\n"),
    "src/a.py": ("def old():\n    pass\n\n\ndef gone(): pass\n", "def old():\n    pass\n\n\nLIMIT = 3\n"),
    "src/moved.py": ("def kept(): pass\n", "def kept(): pass\n\n\nasync def more(): pass\n"),
    "tests/test_a.py": (
        "def test_old(): pass\n",
        "def test_old(): pass\n\n\nclass TestIt:\n    def test_new(self): pass\n",
    ),
    "README.md": ("# A\n", "# B\n"),
    "src/gone.py": ("def away(): pass\n", None),
}
DIFF = (
    FileDiff("A", "src/auth/login.ts", None),
    FileDiff("M", "src/a.py", "src/a.py"),
    FileDiff("R", "src/moved.py", "src/before.py"),
    FileDiff("M", "tests/test_a.py", "tests/test_a.py"),
    FileDiff("M", "README.md", "README.md"),
    FileDiff("A", "logo.png", None, binary=True),
    FileDiff("D", "src/gone.py", "src/gone.py"),
)


def read(files: Sequence[FileDiff]) -> Mapping[str, Versions]:
    unchanged = {"src/there.py": ("x", "x")}
    known = {**TEXTS, **unchanged}
    return {file.path: Versions(*known.get(file.path, (None, None))) for file in files}


def summary(words: str = "", *steps: str, checks: Sequence[CheckResult] = ()) -> CompletionSummary:
    return summarise(ParsedIteration(summary=words, verification_steps=steps), DIFF, checks, read)


def test_facts_come_from_git_and_syntax() -> None:
    found = summary(checks=(GREEN, LINT_RED, replace(GREEN, step="web", passed=False, skipped=True)))
    assert found == CompletionSummary(
        files_created=("src/auth/login.ts", "src/moved.py", "logo.png"),
        files_modified=("src/a.py", "tests/test_a.py", "README.md"),
        exports_added=("key", "login", "LIMIT", "more"),
        tests_added=("tests/test_a.py::TestIt::test_new",),
        verification_steps=("tests: make test",),
    )


@each_of(
    ("words", "kept"),
    [
        ("Added login in src/auth/login.ts. It uses JWT.", "Added login in src/auth/login.ts. It uses JWT."),
        ("Created src/auth/register.ts. It uses JWT.", "It uses JWT."),
        ("Updated `login.ts` and `a.py`.", "Updated `login.ts` and `a.py`."),
        ("Also wrote `test_register.py`.", ""),
        ("Modified src/there.py to call it. Fine.", "Fine."),
        ("It follows src/there.py closely.", "It follows src/there.py closely."),
        ("See src/nowhere.py for more.", ""),
        ("Removed src/gone.py and renamed src/before.py.", "Removed src/gone.py and renamed src/before.py."),
        ("Works with Node.js e.g. 20.1 and https://example.org/a/b.html now.",) * 2,
        ("Wrote /etc/hosts.conf and ../x/y.py.",) * 2,
        ("Added it.\n\nCreated src/never.py\nDone", "Added it. Done"),
        ("", ""),
    ],
)
def test_what_git_denies_is_left_out(words: str, kept: str) -> None:
    assert summary(words).summary == kept


def test_steps_to_verify_it() -> None:
    found = summary("", "POST /auth/login returns a token", "pytest  tests/test_a.py", "pytest tests/test_never.py")
    assert found.verification_steps == ("POST /auth/login returns a token", "pytest tests/test_a.py")
    told_by_agent = parse(
        AgentResult(
            agent="a",
            status="finished",
            final_text='```ralph-report\n{"summary": "s", "verificationSteps": ["one", 2, "two"]}\n```',
        )
    )
    assert told_by_agent.verification_steps == ("one", "two")


@given(st.text(max_size=300), st.lists(st.text(max_size=60), max_size=3))
def test_any_words_can_be_read(words: str, steps: list[str]) -> None:
    found = summary(words, *steps)
    assert len(found.summary) <= len(words)
    assert found.files_created == summary().files_created


@each_of(
    ("path", "text", "names"),
    [
        ("a.py", "import os\ndef f(): pass\nasync def g(): pass\nclass C:\n    def m(self): pass\nX: int = 1\n_y = 2\n", "f g C X"),
        ("a.py", "__all__ = ['f', '_h']\ndef f(): pass\ndef g(): pass\ndef _h(): pass\n", "f _h"),
        ("a.py", "def broken(:\n", ""),
        ("a.py", "x = '\\d'\n", "x"),
        ("a.py", "(" * 5000, ""),
        ("a.py", "def f(): pass\0", ""),
        (
            "a.tsx",
            ("export default function App() {}\nexport const a = 1\nexport async function b() {}\nexport type T = {}\n"
            "export { c, d as e, type F } from './x'\nexport default Thing;\n// export const no = 1\nconst inner = 1\n"
            "export abstract class K {}\nexport declare const enum E {}\n"),
            "App a b T c e F Thing K E",
        ),
        ("a.cjs", "module.exports = { one, two: 2 }\nexports.three = 3\nmodule.exports.four = 4\n", "one two three four"),
        (
            "a.go",
            ("package a\nfunc Do() {}\nfunc (s *Server) Start() {}\nfunc inner() {}\ntype Server struct {\n\tName string\n}\n"
            "const (\n\tMost = 1\n\tleast = 2\n)\nvar Version = 1\n"),
            "Do Server.Start Server Most Version",
        ),
        (
            "lib.rs",
            ("pub fn run() {}\npub(crate) fn hidden() {}\npub async fn go() {}\npub struct S { pub x: i32 }\n"
            "impl S {\n    pub fn method() {}\n}\npub const MAX: u8 = 1;\nfn inner() {}\n"),
            "run go S MAX",
        ),
        ("a.txt", "def f(): pass", ""),
        ("a.py", "x = 1\n" * 200_001, ""),
    ],
)  # fmt: skip
def test_exported_names(path: str, text: str, names: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert exported_names(path, text) == set(names.split())


@given(st.sampled_from(("py", "ts", "go", "rs")), st.text())
def test_any_text_can_be_looked_into(ending: str, text: str) -> None:
    assert all(name in text for names in exported_names(f"a.{ending}", text) for name in names.split("."))


@each_of(
    ("ending", "begins", "piece", "ends"),
    [
        ("go", "", "type (\n", ""),
        ("go", "", "const (\n\tA = 1\n", ""),
        ("go", "", "func (a\n", ""),
        ("go", "func (", "a", ""),
        ("go", "func (", "a ", ""),
        ("js", "export default a", " ", "x"),
        ("js", "", "export {\n", ""),
        ("js", "export", " ", "x"),
        ("rs", "pub ", "const ", ""),
    ],
)
def test_no_file_is_slow(ending: str, begins: str, piece: str, ends: str) -> None:
    text = f"{begins}{piece * (140_000 // len(piece))}{ends}"
    start = time.process_time()
    exported_names(f"a.{ending}", text)
    assert time.process_time() - start < 0.5


@each_of("piece", ["+", "@", "a", "a/", "./", ".", "-", "`a", "+a/b.", "a.b/"])
def test_no_summary_is_slow(piece: str) -> None:
    start = time.process_time()
    said = ParsedIteration(summary=f"I changed {piece * (20_000 // len(piece))}")
    summarise(said, (), (), lambda _: {})
    assert time.process_time() - start < 0.5


def test_a_group_of_go_ends_with_its_bracket() -> None:
    text = "type (\n\tOne int\n)\nfunc Do() {\n\tCall()\n}\nvar (\n    Two = 2\n\tthree = 3\n)\nconst (\n\tFour"
    assert exported_names("a.go", text) == {"One", "Do", "Two"}


# Where it is kept, and what becomes of it


def iteration(number: int, words: str, stage: Stage = "coder", facts: CompletionSummary | None = None) -> Iteration:
    return Iteration(
        iteration_number=number,
        phase="judged",
        task_id="one",
        stage=stage,
        attempt=1,
        agent="a",
        timestamp=AT,
        started_at=AT,
        base_commit="0" * 40,
        parsed=ParsedIteration(summary=f"{words} Created src/never.py."),
        completion_summary=replace(facts or summary(), summary=words),
    )


def prd() -> Prd:
    return Prd(version=1, project="toy", tasks=(Task(id="one", title="Do one", status="in_iteration"),))


COMPLETE = Settlement("complete", "completed", "", rollback=False, counts=True, stop_reason="complete")
ADVANCE = Settlement("advance", "completed", "", rollback=False, counts=True, next_stage="qa")


def test_the_task_keeps_the_words_and_the_first_of_the_facts() -> None:
    many = CompletionSummary(files_created=tuple(f"src/{number}.py" for number in range(100)))
    done = settled(prd(), iteration(1, "There is a login.", facts=many), COMPLETE, at=AT)
    kept = done.task("one")
    assert kept.summary == "There is a login."
    assert kept.completion_summary == CompletionSummary(files_created=many.files_created[:20])
    data = codec.encode_prd(done)
    assert codec.decode_prd(data) == done
    assert b'"completionSummary": {' in data
    assert codec.decode_prd(codec.encode_prd(prd())).task("one").completion_summary is None


def test_later_stages_look_and_the_words_are_of_who_did_it() -> None:
    after = settled(prd(), iteration(1, "There is a login."), ADVANCE, at=AT)
    assert (after.task("one").summary, after.task("one").completion_summary) == ("There is a login.", None)
    opened = after.replacing(replace(after.task("one"), status="in_iteration"))
    done = settled(opened, iteration(2, "All criteria hold.", "qa"), COMPLETE, at=AT).task("one")
    assert done.summary == "There is a login."
    assert done.completion_summary is not None
    alone = settled(prd(), iteration(1, "All criteria hold.", "qa"), COMPLETE, at=AT).task("one")
    assert alone.summary == "All criteria hold."


def test_what_other_tasks_are_told_fits() -> None:
    facts = CompletionSummary(
        files_created=tuple(f"src/part_{number}.py" for number in range(20)),
        exports_added=("login", "logout"),
        tests_added=("tests/test_a.py::test_new",),
    )
    done = Task(id="one", title="Do one", summary="There is\na login.", completion_summary=facts)
    assert told(done, 1000).splitlines()[:2] == ["one: Do one. There is a login.", "  exports: login, logout"]
    assert "src/part_19.py" in told(done, 1000)
    assert "src/part_4.py and 15 more" in told(done, 100)
    assert told(done, 20) == "one: Do one. There is a login.\n  exports: login, logout"
    for limit in range(0, 300, 7):
        assert tokens(told(done, limit)) <= max(limit, 0)
    assert told(Task(id="two", title="Do two"), 100) == "two: Do two"
