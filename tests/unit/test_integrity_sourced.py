"""Scripts that a gate sources, starts by a link or loads by its environment: the program's own, and what checks it."""

from collections.abc import Mapping

import pytest

from tests.cases import each_of
from tests.integrity_case import step, told

LIB = (
    'greet() {\n  echo hello\n}\n\nexpect() {\n  test "$1" = "$2" || { echo no; exit 1; }\n}\n\n'
    "sound() { grep -q sound app.txt || exit 1; }\n"
)
CHECK = '#!/bin/sh\nset -e\n. lib/common.sh\nsound\nexpect "$(greet)" hello\n'
BASE = {"check.sh": CHECK, "lib/common.sh": LIB, "app.txt": "sound\n"}
FALSE: Mapping[str, tuple[str, str]] = {
    "ends it": (LIB + "exit 0\n", "would end the gate"),
    "ends it with what came last": (LIB + "true; exit\n", "would end the gate"),
    "ends it in a function": (LIB.replace("echo hello", "echo hello; exit 0"), "would end the gate"),
    "is another program then": (LIB + "exec true\n", "would end the gate"),
    "returns early": ("return 0\n" + LIB, "decides how"),
    "traps its end": (LIB + "trap 'exit 0' EXIT\n", "decides how"),
    "goes on after failures": (LIB + "set +e\n", "decides how"),
    "has an alias": (LIB + "alias sound=true\n", "decides how"),
    "finds other programs": (LIB + "PATH=$PWD/bin:$PATH\n", "decides how"),
    "replaces a command": (LIB + "grep() { true; }\n", "command `grep`"),
    "replaces test": (LIB + "test() {\n  return 0\n}\n", "command `test`"),
    "empties what checks": (LIB.replace('test "$1" = "$2" || { echo no; exit 1; }', "true"), "another `expect`"),
    "weakens what fails": (LIB.replace("grep -q sound app.txt || exit 1", "true"), "another `sound`"),
    "removes what checks": (LIB[: LIB.index("expect")], "another `expect`"),
}
WAYS = {
    "a script": ([step("./check.sh")], {}),
    "the gate's own command": ([step(". lib/common.sh && sound")], {}),
    "source": ([step("bash check.sh")], {"check.sh": CHECK.replace(". lib", "source lib")}),
    "make": ([step("make test")], {"Makefile": "test:\n\t./check.sh\n"}),
    "the environment": ([step("bash check.sh", env={"BASH_ENV": "lib/common.sh"})], {"check.sh": "sound\n"}),
    "a variable": ([step("BASH_ENV=lib/common.sh bash check.sh")], {"check.sh": "sound\n"}),
    "a variable of env": ([step("env -i BASH_ENV=lib/common.sh bash check.sh")], {"check.sh": "sound\n"}),
}


@each_of("name", FALSE)
def test_what_decides_a_gate_that_sources_it(name: str) -> None:
    text, words = FALSE[name]
    (found,) = told(BASE, {**BASE, "lib/common.sh": text}, steps=WAYS["a script"][0])
    assert found.startswith("lib/common.sh")
    assert words in found
    assert told(BASE, {**BASE, "lib/common.sh": text}, steps=[step("./check.sh")], title="Change lib/common.sh") == []


@pytest.mark.parametrize("way", WAYS)
def test_ways_to_source_it(way: str) -> None:
    steps, beside = WAYS[way]
    before = {**BASE, **beside}
    assert told(before, {**before, "lib/common.sh": LIB + "exit 0\n"}, steps=steps)


HONEST = {
    "another function": LIB + "bye() {\n  echo bye\n  return 0\n}\n",
    "other words": LIB.replace("hello", "good day"),
    "a function that was missing": LIB + 'part() {\n  test -n "$1" || return 1\n  (cd "$1" && ls)\n}\n',
    "failing more": LIB.replace("echo hello", 'test -n "$1" || exit 2\n  echo hello'),
    "a comment": LIB + "# exit 0 is never right here; set +e neither\n",
    "moved functions": LIB[LIB.index("expect") :] + LIB[: LIB.index("expect")],
    "output to a file": LIB + "logged() { exec 3>&1; exec >log; }\n",
}


@pytest.mark.parametrize("name", HONEST)
def test_the_program_that_a_gate_sources_may_be_changed(name: str) -> None:
    assert told(BASE, {**BASE, "lib/common.sh": HONEST[name]}, steps=[step("./check.sh")]) == []


def test_a_script_that_no_gate_sources_may_do_anything() -> None:
    before = {"check.sh": "sh bin/run.sh | grep -q ok\n", "bin/run.sh": "echo ok\n", "ops/lib.sh": LIB}
    after = {**before, "bin/run.sh": "echo ok\nexit 0\n", "ops/lib.sh": "exit 0\n", "new.sh": "exec true\n"}
    assert told(before, after, steps=[step("sh check.sh")]) == []


def test_a_new_script_among_those_that_are_sourced() -> None:
    before = {**BASE, "check.sh": '. lib/common.sh\nfor f in lib/*.sh; do . "$f"; done\nsound\n'}
    for text, words in (
        ("sound() { true; }\n", "second `sound`"),
        ("exec true\n", "end the gate"),
        ("[() { :; }\n", "`[`"),
    ):
        (found,) = told(before, {**before, "lib/z.sh": text}, steps=[step("sh check.sh")])
        assert "sources this new script" in found
        assert words in found
    assert told(before, {**before, "lib/z.sh": "bye() { echo bye; }\n"}, steps=[step("sh check.sh")]) == []


@pytest.mark.parametrize("command", ["./check.sh", "sh check.sh", "make"])
def test_a_script_behind_a_link(command: str) -> None:
    before = {"check.sh": "ops/sound.sh", "ops/sound.sh": "grep -q sound app.txt\n", "Makefile": "all:\n\t./check.sh\n"}
    (found,) = told(before, {**before, "ops/sound.sh": "true\n"}, steps=[step(command)])
    assert "ops/sound.sh:1: the gate 'tests' starts this script" in found
    assert told(before, {**before, "ops/other.sh": "true\n"}, steps=[step(command)]) == []


LOADED = {
    "node": ({"NODE_OPTIONS": "--require ./hooks/early.js"}, "node check.js", "hooks/early.js"),
    "node by equals": ({"NODE_OPTIONS": "--import=./hooks/early.mjs"}, "npm test", "hooks/early.mjs"),
    "ruby": ({"RUBYOPT": "-r./hooks/early.rb"}, "rake", "hooks/early.rb"),
    "plugins of pytest": ({"PYTEST_PLUGINS": "hooks.early"}, "pytest", "hooks/early.py"),
    "make": ({"MAKEFILES": "hooks/early.mk"}, "make test", "hooks/early.mk"),
}


@pytest.mark.parametrize("name", LOADED)
def test_what_the_environment_of_a_gate_loads(name: str) -> None:
    environment, command, path = LOADED[name]
    steps = [step(command, env=environment)]
    assert told({path: "a\n"}, {path: "b\n"}, steps=steps)
    assert told({path: "a\n"}, {path: "b\n"}, steps=[step(command, env={"HOME": f"./{path}"})]) == [] or "make" in name


HELPERS = {
    "python ci_run.py": (
        {"ci_run.py": "from helpers.core import expect\nimport app\n\nexpect(app.one() == 1)\n"},
        "helpers/core.py",
        "def expect(fine):\n    if not fine:\n        raise SystemExit('no')\n\n\ndef load():\n    raise OSError\n",
        "raise SystemExit('no')",
    ),
    "node run.js": (
        {"run.js": "const { check } = require('./helpers/core');\ncheck(require('./app').one() === 1);\n"},
        "helpers/core.js",
        "function check(fine) {\n  if (!fine) {\n    process.exit(1);\n  }\n}\n",
        "process.exit(1);",
    ),
}


@pytest.mark.parametrize("command", HELPERS)
def test_what_a_script_of_a_gate_checks_by(command: str) -> None:
    beside, path, text, fails = HELPERS[command]
    before = {**beside, path: text}
    (found,) = told(before, {**before, path: text.replace(fails, "fine = true")}, steps=[step(command)])
    assert "cannot fail any more" in found
    assert told(before, {**before, path: text.replace(fails, f"{fails}  # or so")}, steps=[step(command)]) == []
    assert told(before, {**before, path: text.replace("raise OSError", "return 1")}, steps=[step(command)]) == []
    assert told(before, {**before, path: text.replace(fails, "pass")}, steps=[step("pytest")]) == []
