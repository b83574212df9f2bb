"""Scripts that gates start in ways that their words hardly tell: an agent may not gut one, and may add others."""

import json
import time
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rulebook_ralph.checks.integrity.gate_commands import read_gate
from rulebook_ralph.checks.integrity.inspection import Inspection
from rulebook_ralph.core.settings import VerificationStep
from tests.cases import each_of
from tests.integrity_case import Files, inspection, step, told
from tests.sampling import sample

CHECK = "grep -q sound app.txt || exit 1\n"
GUTTED = "exit 0\n" + CHECK


def ways_of(folder: str, name: str = "a.sh") -> dict[str, str]:
    """Commands that start a script in a folder."""
    path = f"{folder}/{name}"
    return {
        "a loop over a glob": f"for f in {folder}/*.sh; do sh $f || exit 1; done",
        "a loop over names": f"for f in a b; do sh {folder}/$f.sh || exit 1; done",
        "a loop over lines": f'for f in {folder}/*.sh\ndo\n  sh "$f" || exit 1\ndone',
        "a loop that starts the file": f"for f in ./{folder}/*; do $f || exit 1; done",
        "a loop in a shell": f"bash -c 'for f in {folder}/*.sh; do bash \"$f\" || exit 1; done'",
        "a loop over what is listed": f"for f in $(ls {folder}/*.sh); do sh $f; done",
        "a loop over what ls lists": f"for f in $(ls {folder}); do sh {folder}/$f; done",
        "a loop over backticks": f"for f in `find {folder} -name '*.sh'`; do sh $f; done",
        "a loop over what git lists": f"for f in $(git ls-files '{folder}/*.sh' | sort); do sh $f; done",
        "a loop over braces": f"for f in {folder}/{{a,b}}.sh; do sh $f; done",
        "find -exec": f"find {folder} -name '*.sh' -exec sh {{}} \\;",
        "find -exec with many": f"find ./{folder} -type f -exec bash -e {{}} +",
        "find and xargs": f"find {folder} -name '*.sh' | sort | xargs -n1 sh",
        "find and xargs with a place": f"find {folder} -type f -print0 | xargs -0 -I{{}} sh -e {{}}",
        "xargs and a shell": f"ls {folder}/*.sh | xargs -I % sh -c 'sh %'",
        "read": f"ls {folder}/*.sh | while read f; do sh $f || exit 1; done",
        "read from find": f"while read -r f; do sh \"$f\"; done < <(find {folder} -name '*.sh')",
        "mapfile": f'mapfile -t all < <(ls {folder}/*.sh); for f in "${{all[@]}}"; do sh "$f"; done',
        "a variable": f"T={path}; sh $T",
        "a variable of a variable": f'D={folder} T=${{D}}/a; sh "$T.sh"',
        "an exported variable": f"export T='{path}' && sh ${{T}}",
        "a default": f"sh ${{T:-{path}}}",
        "an array": f'T=(x.sh {path}); for t in "${{T[@]}}"; do sh $t; done',
        "arguments that are set": f"set -- {folder}/*.sh; for t; do sh $t; done",
        "a command in a variable": f"RUN='sh {path}'; $RUN",
        "an unknown program in a variable": f"$RUNNER {path}" if folder == "tests" else f"R=sh; $R {path}",
        "eval": f'eval "sh {path}"',
        "eval of a variable": f'C="sh {path}"; eval "$C"',
        "a redirect": f"sh < {path}",
        "a redirect with a descriptor": f"sh -s < {path} 2>&1",
        "a pipe": f"cat {path} | sh",
        "a pipe with options": f"tail -n +1 {path} | bash -e -",
        "what cat gives": f'bash -c "$(cat {path})"',
        "what a redirect gives": f'bash -c "$(< {path})"',
        "a process substitution": f"bash <(cat {path})",
        "a text below": f"sh <<'END'\nset -e\nsh {path}\nEND\n",
        "sourced": f". ./{path}",
        "sourced in a loop": f"for f in {folder}/*.sh; do source $f; done",
        "cd": f"cd {folder} && sh {name}",
        "cd and a glob": f"cd {folder} && for f in *.sh; do sh ./$f; done",
        "cd in brackets": f"(cd {folder} && sh {name})",
        "cd to the top": f'cd "$(git rev-parse --show-toplevel)" && sh {path}',
        "a path from the working folder": f'sh "$PWD/{path}"',
        "a path from a script's": f'sh "$(dirname "$0")/{path}"',
        "env": f"/usr/bin/env -i A=1 bash {path}",
        "wrappers": f"time nice -n 5 timeout -k 5 60 stdbuf -oL sh {path}",
        "a wrapper that nobody knows": f"flock /tmp/x sh {path}",
        "a container": f"docker run --rm -v $PWD:/w img sh {path}",
        "a command in a word": f"nix-shell --run 'sh {path}'",
        "run-parts": f"run-parts --regex '.*' {folder}/",
        "bats": f"bats -r {folder}",
        "prove": f"prove -e sh {folder}",
        "parallel": f"parallel sh ::: {folder}/*.sh",
        "with pytest": f"pytest -q && sh {path}",
        "behind a condition": f"if [ -d {folder} ]; then sh {path}; else exit 1; fi",
        "behind a brace": f"{{ sh {path}; }} 2>&1 | tee log",
        "negated": f"! sh {path}",
        "an operator without spaces": f"true&&sh {path};true",
    }  # fmt: skip


CHANGES: Mapping[str, tuple[str | None, str]] = {
    "exits at once": (GUTTED, "changed"),
    "is empty": ("", "changed"),
    "is deleted": (None, "deleted"),
}


def changed(path: str, after: str | None, before: str = CHECK, **beside: str) -> tuple[Files, Files]:
    others = {"app.txt": "sound\n", **beside}
    return {path: before, **others}, {**others, "app.txt": "broken\n", **({} if after is None else {path: after})}


def objections(path: str, command: str, after: str | None = GUTTED, **beside: str) -> list[str]:
    before, now = changed(path, after, **beside)
    return told(before, now, steps=[step(command)])


@each_of("folder", ["tests", "ops"])
@each_of("way", ways_of("x"))
def test_a_script_is_seen_to_be_started(way: str, folder: str) -> None:
    command = ways_of(folder)[way]
    for after, done in CHANGES.values():
        found = objections(f"{folder}/a.sh", command, after)
        assert found, command
        assert all(f"{folder}/a.sh" in one for one in found)
        assert any(done in one and "put new tests into a new script" in one for one in found), found


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("for f in tests/*.sh; do sh $f; done", True),
        ("bats tests && run-parts tests", True),
        ("sh tests/a.sh", False),
        ("T=tests/a.sh; sh $T", False),
    ],
)
def test_the_agent_is_told_whether_the_gate_will_run_a_new_script(command: str, *, expected: bool) -> None:
    (found,) = objections("tests/a.sh", command, CHECK + "grep -q more app.txt\n")
    assert "put it back as it was, and put new tests into a new script" in found
    assert ("which the gate will run too" in found) is expected


LISTS = {
    "xargs": "xargs -n1 sh < tests/list.txt",
    "xargs -a": "xargs -a tests/list.txt -n1 sh",
    "cat and xargs": "cat tests/list.txt | xargs -I% sh %",
    "read": "while read f; do sh $f; done < tests/list.txt",
    "cat and read": "cat tests/list.txt | while read f; do sh $f; done",
    "what cat gives": "for f in $(cat tests/list.txt); do sh $f; done",
}


@pytest.mark.parametrize("way", LISTS)
def test_a_list_of_scripts(way: str) -> None:
    """It says what is run; a data file that is only there, or printed, does not."""
    before, after = {"tests/list.txt": "ops/a.sh\nops/b.sh\n"}, {"tests/list.txt": "ops/a.sh\n"}
    assert told(before, after, steps=[step(LISTS[way])])
    assert told(before, after, steps=[step("cat tests/list.txt; sh check.sh")]) == []


def test_a_new_script_that_ends_a_gate_which_sources_it() -> None:
    steps = [step("for f in tests/*.sh; do . ./$f; done")]
    before = {"tests/b.sh": CHECK}
    (found,) = told(before, {**before, "tests/a.sh": "true\nexit 0\n"}, steps=steps)
    assert "tests/a.sh:2: the gate 'tests' sources this new script, and it would end the gate" in found
    assert told(before, {**before, "tests/a.sh": CHECK.replace("exit 1", "false")}, steps=steps) == []
    assert told(before, {**before, "tests/a.sh": "exit 0\n"}, steps=steps, allow=("tests/a.sh",)) == []


@each_of("way", ways_of("x"))
def test_scripts_may_be_added_beside_it(way: str) -> None:
    command = ways_of("ops")[way]
    before = {"ops/a.sh": CHECK}
    assert told(before, {**before, "ops/new.sh": CHECK}, steps=[step(command)]) == []


@each_of("way", ways_of("x"))
def test_a_named_or_allowed_script_may_be_changed(way: str) -> None:
    before, after = changed("ops/a.sh", GUTTED)
    steps = [step(ways_of("ops")[way])]
    assert told(before, after, steps=steps, description="Make ops/a.sh stricter.") == []
    assert told(before, after, steps=steps, allow=("/ops/",)) == []


def manifest(**scripts: str) -> str:
    return json.dumps({"name": "x", "scripts": scripts})


BEHIND: Mapping[str, tuple[str, str, dict[str, str]]] = {
    "make": ("make test", "tests/smoke.sh", {"Makefile": "test:\n\tsh tests/smoke.sh\n"}),
    "make without its name": ("make", "tests/alpha", {"Makefile": "all:\n\tfor f in tests/*; do $$f || exit 1; done\n"}),
    "make in a folder": ("make -C ops check", "ops/one.sh", {"ops/Makefile": "check:\n\tsh one.sh\n"}),
    "make after cd": ("cd ops && make check", "ops/one.sh", {"ops/Makefile": "check:\n\tsh one.sh\n"}),
    "make in make": (
        "make test",
        "ops/one.sh",
        {"Makefile": "test:\n\t$(MAKE) -C ops check\n", "ops/Makefile": "check:\n\t@sh one.sh\n"},
    ),
    "a variable of make": (
        "make test",
        "ops/a.sh",
        {"Makefile": "TESTS = ops/a.sh ops/b.sh\ntest:\n\tfor t in $(TESTS); do sh $$t || exit 1; done\n"},
    ),
    "a wildcard of make": (
        "make test",
        "ops/a.sh",
        {"Makefile": "TESTS := $(sort $(wildcard ops/*.sh))\ntest:\n\tset -e; for t in $(TESTS); do sh $$t; done\n"},
    ),
    "a shell of make": (
        "make test",
        "ops/a.sh",
        {"Makefile": "ALL := $(shell find ops -name '*.sh')\ntest:\n\tset -e; for t in ${ALL}; do sh $$t; done\n"},
    ),
    "a pattern of make": (
        "make test",
        "ops/a.sh",
        {"Makefile": "test: ops/a.log\nops/%.log: ops/%.sh\n\tsh $< > $@\n"},
    ),
    "prerequisites of make": (
        "make test",
        "ops/a.sh",
        {"Makefile": "test: unit smoke\nunit:\n\tpytest\nsmoke:\n\t./ops/a.sh\n"},
    ),
    "just": ("just test", "ops/a.sh", {"justfile": "t := 'ops'\ntest:\n    sh {{t}}/a.sh\n"}),
    "npm": ("npm test", "ops/a.sh", {"package.json": manifest(test="for f in ops/*.sh; do sh $f || exit 1; done")}),
    "npm of npm": ("npm test", "ops/a.sh", {"package.json": manifest(test="npm run x", x="sh ops/a.sh")}),
    "npm elsewhere": ("npm --prefix web test", "web/ops/a.sh", {"web/package.json": manifest(test="sh ops/a.sh")}),
    "yarn in a folder": ("cd web && yarn test", "web/ops/a.sh", {"web/package.json": manifest(test="sh ops/a.sh")}),
    "npm and make": (
        "npm test",
        "ops/a.sh",
        {"package.json": manifest(test="make x"), "Makefile": "x:\n\tsh ops/a.sh\n"},
    ),
    "npm exec": ("npm exec -- bats tests", "tests/a.bats", {}),
    "a script": ("sh all.sh", "tests/smoke.sh", {"all.sh": "set -e\nsh tests/smoke.sh\n"}),
    "a script that loops": ("sh all.sh", "tests/smoke.sh", {"all.sh": "for f in tests/*.sh; do\n  sh $f\ndone\n"}),
    "a script that loops beside itself": (
        "sh tests/all.sh",
        "tests/cases/smoke.sh",
        {"tests/all.sh": 'for f in "$(dirname "$0")"/cases/*; do\n  sh "$f" || exit 1\ndone\n'},
    ),
    "a script that knows its folder": (
        "ci/all.sh",
        "ci/parts/verify.sh",
        {"ci/all.sh": 'D=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)\n"$D/parts/verify.sh"\n'},
    ),
    "a script that goes to its folder": (
        "./ci/all.sh",
        "ci/parts/verify.sh",
        {"ci/all.sh": 'cd "${0%/*}"\nsh parts/verify.sh\n'},
    ),
    "a script that is sourced": (
        "sh tests/a.sh",
        "tests/lib/assert.sh",
        {"tests/a.sh": ". tests/lib/assert.sh\nassert_sound\n"},
    ),
    "a script that is sourced elsewhere": (
        "sh check.sh",
        "lib/assert.sh",
        {"check.sh": 'here=$(dirname "$0")\n. "$here/lib/assert.sh"\nassert_sound\n'},
    ),
    "a script of a script of a script": (
        "sh a.sh",
        "deep/verify.sh",
        {"a.sh": "./b.sh", "b.sh": "#!/bin/bash\nbash c.sh\n", "c.sh": "sh deep/verify.sh\n"},
    ),
    "a script with quotes that never end": (
        "sh check.sh",
        "ops/verify.sh",
        {"check.sh": "cat <<END\ndon't\nEND\necho \"x\nsh ops/verify.sh\n"},
    ),
    "tox": ("tox", "tests/smoke.sh", {"tox.ini": "[testenv]\ncommands = sh tests/smoke.sh\n"}),
    "tox and a script elsewhere": ("tox -e py", "ops/a.sh", {"tox.ini": "[testenv]\ncommands = sh {toxinidir}/ops/a.sh\n"}),
    "rake": ("rake test", "ops/a.sh", {"Rakefile": "task :test do\n  sh 'ops/a.sh'\nend\n"}),
    "make in several folders": (
        "for d in a b; do make -C $d test || exit 1; done",
        "b/ops/a.sh",
        {"b/Makefile": "test:\n\tsh ops/a.sh\n"},
    ),
    "workspaces": ("npm test -ws", "packages/a/test/smoke.sh", {"package.json": manifest(test="jest")}),
    "nox": ("nox -s tests", "tests/smoke.sh", {"noxfile.py": "session.run('sh', 'tests/smoke.sh')\n"}),
    "an unknown program": ("mytool --all", "t/basic.t", {}),
    "a Python program": ("python tools/check.py", "tests/smoke.sh", {"tools/check.py": "run('tests/smoke.sh')\n"}),
    "a module": ("python -m tools.check", "e2e/smoke.exp", {}),
    "a script without an ending": ("make", "tests/alpha", {"Makefile": "all:\n\trun-parts tests\n"}),
}  # fmt: skip


@each_of("name", BEHIND)
def test_a_script_behind_others_is_seen_to_be_started(name: str) -> None:
    command, path, beside = BEHIND[name]
    text = f"#!/bin/sh\n{CHECK}"
    for after in (f"#!/bin/sh\nexit 0\n{CHECK}", "", None):
        before, now = changed(path, after, before=text, **beside)
        found = told(before, now, steps=[step(command)])
        assert any(path in one and "tests' " in one for one in found), (name, after, found)
    before, now = changed(path, "", before=text, **beside)
    assert told(before, now, steps=[step(command)], allow=(f"/{path}",)) == []
    beside = {**beside, path: text}
    assert told(beside, {**beside, f"{path.rpartition('/')[0]}/new.sh": text}, steps=[step(command)]) == []


PLAIN = "import app\n\nif app.f() != 1:\n    raise SystemExit(1)\n"
OTHER_LANGUAGES: Mapping[str, tuple[str, str, str, dict[str, str]]] = {
    "a loop": ("for f in checks/*.py; do python3 $f || exit 1; done", "checks/a.py", PLAIN, {}),
    "a loop over tests": ("for f in tests/*.py; do python3 $f || exit 1; done", "tests/test_a.py", PLAIN, {}),
    "an interpreter": ("python3 tests/test_smoke.py", "tests/test_smoke.py", PLAIN, {}),
    "node": ("node test/app.test.js", "test/app.test.js", "assert(f())\n", {}),
    "node --test": ("node --test", "test/app.test.js", "assert(f())\n", {}),
    "node --test of a folder": ("node --test test/", "test/run.mjs", "assert(f())\n", {}),
    "perl": ("for f in t/*.t; do perl $f; done", "t/a.t", "ok(1)\n", {}),
    "prove": ("prove", "t/a.t", "ok(1)\n", {}),
    "prove of a folder": ("prove -lr t", "t/lib/a.pl", "ok(1)\n", {}),
    "ruby": ("ruby -Ilib checks/all.rb", "checks/all.rb", "exit 1 unless f\n", {}),
    "what is imported": ("python tests/all.py", "tests/cases.py", PLAIN, {"tests/all.py": "import cases\ncases.run()\n"}),
    "what an import imports": (
        "python tests/all.py",
        "tests/deep/tools.py",
        PLAIN,
        {"tests/all.py": "from deep import cases\n", "tests/deep.py": "import deep.tools\n"},
    ),
    "whatever is there": (
        "python tests/run_all.py",
        "tests/cases/one.py",
        PLAIN,
        {"tests/run_all.py": "for p in Path(__file__).parent.glob('cases/*.py'):\n    runpy.run_path(p)\n"},
    ),
    "runpy": ("python -m runpy checks/a.py", "checks/a.py", PLAIN, {}),
    "a program in a word": ("python -c 'import runpy; runpy.run_path(\"ops/a.py\")'", "ops/a.py", PLAIN, {}),
    "what is required": (
        "make test",
        "tests/lib/check.js",
        "module.exports = f\n",
        {"Makefile": "test:\n\tnode tests/run.js\n", "tests/run.js": "const f = require('./lib/check');\nf();\n"},
    ),
    "awk": ("awk -f ops/check.awk app.txt", "ops/check.awk", "/x/ { exit 1 }\n", {}),
    "expect": ("expect ops/a.exp", "ops/a.exp", "exit 1\n", {}),
    "bats with something before its tests": (
        "bats tests",
        "tests/a.bats",
        '@test "sound" {\n  run ./app\n  [ "$status" -eq 0 ]\n}\n',
        {},
    ),
}  # fmt: skip


@each_of("name", OTHER_LANGUAGES)
def test_scripts_of_other_languages(name: str) -> None:
    command, path, text, beside = OTHER_LANGUAGES[name]
    for after in (f"exit 0\n{text}", "", None):
        before, now = changed(path, after, before=text, **beside)
        assert told(before, now, steps=[step(command)]), (name, after)
    before, now = changed(path, f"exit 0\n{text}", before=text, **beside)
    assert told(before, now, steps=[step(command)], description=f"Change {path}.") == []


TWO = 'load helper\n\n@test "sound" {\n  run ./app\n  [ "$status" -eq 0 ]\n}\n'
FINE: Mapping[str, tuple[str, str, str, str, dict[str, str]]] = {
    "pytest alone": ("python3 -m pytest -q", "tests/fixtures/setup.sh", "a\n", "b\n", {}),
    "known tools": ("ruff check . && uv run pytest tests && npx tsc", "tests/tools/gen.sh", "a\n", "b\n", {}),
    "make of known tools": ("make test", "tests/gen.sh", "a\n", "b\n", {"Makefile": "test: lint\n\t@pytest\nlint:\n\truff check\n"}),
    "npm of known tools": ("npm test", "tests/gen.sh", "a\n", "b\n", {"package.json": manifest(test="jest && npm run lint", lint="eslint .")}),
    "a script of known tools": ("sh check.sh", "tests/gen.sh", "a\n", "b\n", {"check.sh": "#!/bin/sh\n# It's all.\nset -e\npytest -q\nruff check .\n"}),
    "data": ("for f in tests/*; do sh $f; done", "tests/values.json", "1\n", "2\n", {}),
    "data of an unknown program": ("mytool tests", "tests/cases/one.txt", "1\n", "2\n", {}),
    "a snapshot": ("make test", "tests/__snapshots__/a.snap", "1\n", "1\n2\n", {"Makefile": "test:\n\tmytool\n"}),
    "prose without an ending": ("mytool", "tests/README", "one\n", "two\n", {}),
    "the program of a script": ("sh check.sh", "bin/tool.sh", "a\n", "b\n", {"check.sh": "sh bin/tool.sh | grep -q ok\n"}),
    "the program of a target": ("make test", "src/tool.sh", "a\n", "b\n", {"Makefile": "test:\n\tsh src/tool.sh | grep ok\n"}),
    "what a virtual environment gives": (
        "make test",
        "tests/gen.sh",
        "a\n",
        "b\n",
        {"Makefile": "V = .venv\ntest:\n\t. $(V)/bin/activate && pip install -e . && $(V)/bin/pytest\n"},
    ),
    "what builds it": ("make test", "build.sh", "a\n", "b\n", {"Makefile": "test: out\n\tpytest\nout:\n\tsh build.sh\n"}),
    "what shellcheck reads": ("shellcheck scripts/*.sh && sh check.sh", "scripts/deploy.sh", "a\n", "b\n", {"check.sh": CHECK}),
    "what bash only parses": ("for f in scripts/*.sh; do bash -n $f; done", "scripts/deploy.sh", "a\n", "b\n", {}),
    "what is searched": ("grep -rn TODO scripts tests; sh check.sh", "scripts/deploy.sh", "a\n", "b\n", {"check.sh": CHECK}),
    "a module of the program": ("for f in checks/*.py; do python $f; done", "app/core.py", "a = 1\n", "a = 2\n", {}),
    "a script beside the loop": ("for f in checks/*.sh; do sh $f; done", "ops/deploy.sh", "a\n", "b\n", {}),
    "a library that a script sources": ("sh check.sh", "src/lib.sh", "a\n", "b\n", {"check.sh": ". src/lib.sh\nsound\n"}),
    "one more bats test": ("bats tests", "tests/a.bats", TWO, TWO + '\n@test "more" {\n  run ./app 2\n  [ "$status" -eq 1 ]\n}\n', {}),
    "a longer bats test": ("bats tests", "tests/a.bats", TWO, TWO.replace("  run", "  touch x\n  run"), {}),
    "tests that pytest knows": (
        "make test",
        "tests/test_a.py",
        "def test_a():\n    assert f()\n",
        "import b\n\n\ndef test_a():\n    assert f(b)\n",
        {"Makefile": "test:\n\tpython tests/all.py\n", "tests/all.py": "import glob\n"},
    ),
    "specs": ("rake", "spec/a_spec.rb", "it 'works' do\n  expect(f).to eq 1\nend\n", "it 'works' do\n  expect(f).to eq 2\nend\n", {}),
}  # fmt: skip


@each_of("name", FINE)
def test_honest_changes(name: str) -> None:
    command, path, old, new, beside = FINE[name]
    assert told({path: old, **beside}, {path: new, **beside}, steps=[step(command)]) == []


def test_deleting_a_script_that_the_task_removes_the_subject_of() -> None:
    before = {"tests/legacy_import.sh": CHECK, "src/legacy_import.py": "def legacy_import(): ...\n"}
    steps = [step("for f in tests/*.sh; do sh $f; done")]
    assert told(before, {}, steps=steps)
    assert told(before, {}, steps=steps, description="Remove the legacy import and its tests.") == []


def test_a_renamed_script_is_none_of_the_gates_any_more() -> None:
    before, after = {"tests/a.sh": CHECK}, {"old/a.sh": CHECK}
    found = told(before, after, steps=[step("run-parts tests")], moved={"tests/a.sh": "old/a.sh"})
    assert any("it was renamed" in one for one in found), found


def test_criteria_commands_are_held_too() -> None:
    """They come as further steps, of which none is the first."""
    steps = [step("pytest"), VerificationStep(name="accept", command="for f in ops/*.sh; do sh $f; done")]
    before, after = changed("ops/a.sh", GUTTED)
    assert any("the gate 'accept' starts" in one for one in told(before, after, steps=steps))


LOCAL = {
    "package.json": '{"scripts": {"test": "mini test/*.js"}, "devDependencies": {"@a/tap": "file:./tools/tap", "b": "file:b"}}',
    "tools/tap/package.json": '{"bin": {"mini": "run.js"}}',
    "tools/tap/run.js": "run();\n",
    "tools/tap/test/run.test.js": "it('runs', run);\n",
    "b/package.json": "{}",
    "b/index.js": "1;\n",
}


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        ("tools/tap/run.js", "console.log('ok');\n", "tools/tap/run.js: the gate 'tests' runs this as @a/tap"),
        ("package.json", LOCAL["package.json"].replace("tools", "libs"), 'where "@a/tap" comes from was changed'),
        ("package.json", LOCAL["package.json"].replace("file:b", "file:c"), ""),
        ("b/index.js", "2;\n", ""),
        ("tools/tap/test/run.test.js", "it('runs', run);\nit('stops', stop);\n", ""),
    ],
)
def test_a_runner_that_is_a_dependency_within_the_repository(path: str, text: str, words: str) -> None:
    found = told(LOCAL, LOCAL | {path: text}, steps=[step("npm test")])
    assert [words in one for one in found] == ([True] if words else [])
    assert told(LOCAL, LOCAL | {path: text}, steps=[step("npm test")], allow=(path,)) == []


@pytest.mark.parametrize("command", ["pytest -q $(cat args.txt)", "pytest $(< args.txt)", "pytest @args.txt", "make"])
def test_files_whose_text_stands_among_the_words_of_a_gate(command: str) -> None:
    before = {"args.txt": "-q\n", "VERSION": "1\n", "Makefile": "test:\n\tpytest $(shell cat args.txt)\n"}
    beside = 'test "$(cat VERSION)" = 1 && docker build -t "a:$(cat VERSION)" . && echo $(cat VERSION)'
    steps = [step(f"{beside} && {command}")]
    (found,) = told(before, before | {"args.txt": "--co\n"}, steps=steps)
    assert found == "args.txt:1: was changed; the gate 'tests' is given it"
    assert told(before, before | {"VERSION": "2\n"}, steps=steps) == []
    assert told(before, before | {"args.txt": "--co\n"}, steps=steps, allow=("args.txt",)) == []


def test_a_script_behind_a_variable_that_may_be_empty() -> None:
    before = {
        "Makefile": "include flags\ntest:\n\t$(RUN) sh all.sh\n",
        "all.sh": "sh tools/more.sh\n",
        "tools/more.sh": CHECK,
    }
    assert told(before, before | {"tools/more.sh": GUTTED}, steps=[step("make test")])


def test_nothing_is_read_where_no_script_was_changed() -> None:
    before = {"Makefile": "test:\n\tsh tests/a.sh\n", "src/a.py": "a\n", "docs/a.md": "a\n", "src/b.go": "a\n"}
    after = {**before, "src/a.py": "b\n", "docs/a.md": "b\n", "src/b.go": "b\n"}
    looked = inspection(before, after, steps=[step("make test"), step("sh check.sh"), step("npm test")])

    def never(files: object) -> dict[str, object]:
        raise AssertionError(files)

    silent = Inspection(looked.task, looked.diff, never, never, looked.steps, looked.red, looked.allow)  # type: ignore[arg-type]
    assert list(silent.of_gates()) == []


HOSTILE = {
    "brackets": "$(" * 10_000,
    "brackets that close": "$(" * 4000 + "a" + ")" * 4000,
    "backticks": "`" * 20_000,
    "quotes": "\"'" * 10_000,
    "quotes in brackets": "$('\"" * 5000,
    "braces": "${" * 10_000,
    "commas": "sh {" + "a," * 9000,
    "redirects": "a<<b\n" * 4000,
    "here": "sh <<x\n" * 2500 + "x\n",
    "eval": "eval " * 4000,
    "xargs": "xargs " * 3000 + "sh",
    "find": "find -exec " * 1800,
    "unknown": "x sh " * 4000,
    "words of words": "x 'y " * 4000,
    "doubling": "a=xx;" + "a=$a$a;" * 2500,
    "doubling lists": "for a in 1 2; do b=$a$a$a$a$a$a$a$a; c=$b$b$b$b$b$b$b$b;" * 300,
    "many of many": "a='" + "x " * 500 + "';" + "sh $a/$a;" * 2000,
    "growing": "a=1;" + "a+=(1);" * 2500,
    "assignments": "a=1 " * 5000,
    "cd": "cd a;" * 4000,
    "stars": "sh " + "*a" * 5000,
    "starts": "sh a*b*c*d*e*f*$x;" * 1000,
    "levels": "(" * 20_000,
    "wrappers": "env " * 5000,
    "make": "make " + "$(x)" * 4000,
}


@pytest.mark.parametrize("name", sample(HOSTILE, 14))
def test_hostile_commands_take_no_time(name: str) -> None:
    path = "tests/" + "a" * 200 + ".sh"
    begun = time.process_time()
    objections(path, HOSTILE[name])
    objections(path, "make", Makefile=f"all: a\n\t{HOSTILE[name]}\nX = {HOSTILE[name]}\n")
    objections(path, "sh x.sh", **{"x.sh": HOSTILE[name] * 3})
    objections(path, "npm test", **{"package.json": manifest(test=HOSTILE[name])})
    assert time.process_time() - begun < 3


@settings(max_examples=settings().max_examples * 2)
@given(
    st.lists(
        st.sampled_from("$(){}[]<>|&;`'\"\\ \n=*?!#%@:-/.ab1")
        | st.sampled_from(["sh ", "for ", "do ", " in ", "eval ", "$(", "xargs ", "find ", "<<a\n", "${a"]),
        max_size=60,
    ).map("".join)
)
def test_no_text_raises_anything(text: str) -> None:
    gate = read_gate(VerificationStep(name="x", command=f"{text} x"))
    assert all("\x00" not in path for path in gate.paths)
    before = {"Makefile": f"a:\n\t{text}\n", "x.sh": text, "package.json": manifest(test=text), "tests/b.sh": text}
    for command in (text or "x", "make a", "sh x.sh", "npm test"):
        told(before, {**before, "tests/b.sh": "x"}, steps=[VerificationStep(name="x", command=command)])
