"""New paths that keep make from doing what a gate asks of it."""

from collections.abc import Mapping

import pytest

from tests.cases import each_of
from tests.integrity_case import step, told

PLAIN = "test:\n\tpytest -q\n\nunit:\n\tpytest tests/unit\n"
NEW = {"test/notes.md": "x\n"}
TAKEN: Mapping[str, tuple[str, str, dict[str, str], dict[str, str]]] = {
    "a folder": ("make test", "test", NEW, {}),
    "a file": ("make test", "test", {"test": "x\n"}, {}),
    "a target that is needed": ("make", "unit", {"unit": ""}, {"Makefile": "all: unit\n\nunit:\n\tpytest\n"}),
    "in another folder": ("make -C api test", "test", {"api/test": ""}, {"api/Makefile": PLAIN, "Makefile": "x:\n\ty\n"}),
    "a gate's own folder": ("cd api && make test", "test", {"api/test": ""}, {"api/Makefile": PLAIN}),
    "through a script": ("./check.sh", "test", NEW, {"check.sh": "#!/bin/sh\nset -e\nmake test\n"}),
    "another is phony": ("make test", "test", NEW, {"Makefile": f".PHONY: unit\n{PLAIN}"}),
    "an included file": (
        "make test", "includes this new file", {"local.mk": "test:\n\ttrue\n"}, {"Makefile": f"-include local.mk\n{PLAIN}"}),
    "an included folder": (
        "make test", "includes this new file", {"mk/a.mk": "test:\n\ttrue\n"}, {"Makefile": f"include mk/*.mk\n{PLAIN}"}),
}  # fmt: skip


@each_of("name", TAKEN)
def test_a_path_named_like_a_target_of_a_gate(name: str) -> None:
    command, words, new, beside = TAKEN[name]
    before = {"Makefile": PLAIN, **beside}
    steps = [step(command)]
    (found,) = told(before, {**before, **new}, steps=steps)
    assert words in found
    assert "'tests'" in found
    assert told(before, {**before, **new}, steps=steps, red=frozenset(("tests",))), "a red one would be green by it"
    assert told(before, {**before, **new}, steps=steps, allow=tuple(new)) == []
    assert told(before, {**before, **new}, steps=steps, description=f"Add {next(iter(new))}.") == []


INCLUDING = {
    "Makefile": f"include flags\n-include *.mk\n{PLAIN}\t$(RUN) sh check.sh\n",
    "flags": "RUN =\nV = 1\n",
    "a.mk": "W = 1\n",
}


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        ("flags", "RUN = true\nV = 1\n", "the variable `RUN` was changed, which a gate's target uses"),
        ("a.mk", "W = 1\nSHELL = true\n", "the variable `SHELL` was changed, which a gate's target uses"),
        ("flags", "RUN =\nV = 2\n", ""),
        ("a.mk", "W = 2\n", ""),
    ],
)
def test_a_file_that_a_makefile_includes(path: str, text: str, words: str) -> None:
    found = told(INCLUDING, INCLUDING | {path: text}, steps=[step("make unit")])
    assert [words in one and one.startswith(path) for one in found] == ([True] if words else [])


FREE: Mapping[str, tuple[str, dict[str, str], dict[str, str]]] = {
    "a phony target": ("make test", NEW, {"Makefile": f".PHONY: test \\\n  unit\n{PLAIN}"}),
    "phony by a variable": ("make test", NEW, {"Makefile": f"T = test unit\n.PHONY: $(T)\n{PLAIN}"}),
    "phony by what cannot be told": ("make test", NEW, {"Makefile": f".PHONY: $(shell ls)\n{PLAIN}"}),
    "forced": ("make test", NEW, {"Makefile": "test: FORCE\n\tpytest\n\nFORCE:\n"}),
    "another target": ("make test", {"unit/a.txt": ""}, {}),
    "the file that a target makes": ("make test", {"app": ""}, {"Makefile": "test: app\n\t./app\n\napp: a.c\n\tcc -o app a.c\n"}),
    "what a target makes": ("make test", {"app": ""}, {"Makefile": "test: app\n\t./app\n\napp: a.c\n\tcc a.c -o $@\n"}),
    "a name that begins like it": ("make test", {"tests/new.txt": "", "test.txt": ""}, {}),
    "elsewhere": ("make test", {"docs/test": ""}, {}),
    "a folder that was there": ("make test", NEW, {"test/old.txt": ""}),
    "no make": ("pytest", NEW, {}),
    "just": ("just test", NEW, {"justfile": "test:\n    pytest\n"}),
}  # fmt: skip


@each_of("name", FREE)
def test_other_new_paths_are_free(name: str) -> None:
    command, new, beside = FREE[name]
    before = {"Makefile": PLAIN, **beside}
    assert told(before, {**before, **new}, steps=[step(command)]) == []


def test_a_target_that_is_phony_no_more() -> None:
    before, after = {"Makefile": f".PHONY: test unit\n{PLAIN}"}, {"Makefile": f".PHONY: unit\n{PLAIN}"}
    (found,) = told(before, after, steps=[step("make test")])
    assert "the target `test` is no phony one any more" in found
    assert told(after, before, steps=[step("make test")]) == []
    assert told(before, after, steps=[step("make unit")]) == []
