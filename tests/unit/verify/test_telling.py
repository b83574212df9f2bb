"""Which line of an output tells why a command failed."""

from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.tasks.results import telling_line
from tests.cases import each_of

OUTPUTS = [
    ("starting\nFAIL: missing want/alpha\n", "FAIL: missing want/alpha"),
    ("cc -o a a.c\na.c:3: error: expected ';'\nmake: *** [Makefile:2: a] Error 1\n", "a.c:3: error: expected ';'"),
    ("Traceback (most recent call last):\n  File 'a.py', line 1\nKeyError: 'x'\n", "KeyError: 'x'"),
    ("____ test_a ____\n    def test_a():\nE   assert 1 == 2\n1 failed in 0.1s\n", "assert 1 == 2"),
    ("0 errors, 0 warnings\nsh: 1: foo: not found\n", "sh: 1: foo: not found"),
    ("app.txt: not sound\n", "app.txt: not sound"),
    ("one\ntwo\n=====\n\n", "two"),
    ("\n---\n", ""),
    ("", ""),
]


@each_of(("output", "told"), OUTPUTS)
def test_the_telling_line(output: str, told: str) -> None:
    assert telling_line(output) == told


@given(st.text())
def test_of_any_output_it_is_one_line(output: str) -> None:
    assert len(telling_line(output).splitlines()) <= 1
