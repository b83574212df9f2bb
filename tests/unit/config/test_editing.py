import difflib
import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from rulebook_ralph.config.editing import block_lines, with_value, without
from rulebook_ralph.config.keys import has, planted, uprooted, value_at
from rulebook_ralph.config.template import commented_config
from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks.plain_yaml import read_yaml
from rulebook_ralph.tasks.text import JsonPath
from tests.cases import each_of

OWN = """\
# Mine.
limits:   # what a night may cost
  maxCostUsd: 5     # dollars
  # not longer than the pizza takes
  idleTimeout:   15m

# Rules of the house
rules:
- "Use tabs"   # yes
- 'no ''new'' dependencies'
tools: {executors: [{id: claude, type: claude}]}
verification:
    steps:
      - name: tests
        command: |
          make test
          make lint
        # the slow ones
        timeout: 600
      - {name: types, command: mypy}
ralph:
  agents:
    # nobody reviews
git:
"""


def changed(text: str, path: JsonPath, value: Any) -> list[str]:
    """The lines that differ, after the sign of which side they are on."""
    return differing(text, with_value(text, path, value))


def differing(before: str, after: str) -> list[str]:
    lines = difflib.ndiff(before.splitlines(keepends=True), after.splitlines(keepends=True))
    return [line.rstrip("\n").replace(" ", "", 1) for line in lines if line[0] in "+-"]


@each_of(
    ("path", "value", "lines"),
    [
        (("limits", "maxCostUsd"), 7.0, ["-  maxCostUsd: 5     # dollars", "+  maxCostUsd: 7     # dollars"]),
        (("limits", "maxCostUsd"), 7.5, ["-  maxCostUsd: 5     # dollars", "+  maxCostUsd: 7.5     # dollars"]),
        (("limits", "idleTimeout"), "1h", ["-  idleTimeout:   15m", "+  idleTimeout:   1h"]),
        (("limits", "maxTokens"), 1000, ["+  maxTokens: 1000"]),
        (("rules", 0), "a: b", ['-- "Use tabs"   # yes', '+- "a: b"   # yes']),
        (("rules", 1), "it's", ["-- 'no ''new'' dependencies'", "+- \"it's\""]),
        (("rules", 2), "third", ["+- third"]),
        (("tools", "executors", 0, "model"), "opus", [
            "-tools: {executors: [{id: claude, type: claude}]}", "+tools: {executors: [{id: claude, type: claude, model: opus}]}",
        ]),
        (("verification", "steps", 0, "timeout"), 60, ["-        timeout: 600", "+        timeout: 60"]),
        (("verification", "steps", 0, "command"), "make", [
            "-        command: |", "-          make test", "-          make lint", "+        command: make",
        ]),
        (("verification", "steps", 1, "env"), {"A": "b"}, [
            "-      - {name: types, command: mypy}", "+      - {name: types, command: mypy, env: {A: b}}",
        ]),
        (("verification", "steps", 2), {"name": "x", "command": "make"}, ["+      - name: x", "+        command: make"]),
        (("verification", "enabled"), False, ["+    enabled: false"]),
        (("ralph", "agents", "qa", "executor"), "x", ["+    qa:", "+      executor: x"]),
        (("git", "rollback"), "reset", ["+  rollback: reset"]),
        (("rules",), ["one"], ["-rules:", '-- "Use tabs"   # yes', "-- 'no ''new'' dependencies'", "+rules: [one]"]),
        (("+rules",), ["one"], ["++rules:", "+  - one"]),
        (("defaults", "executor"), "x", ["+defaults:", "+  executor: x"]),
    ],
)  # fmt: skip
def test_only_what_is_asked_for_is_changed(path: JsonPath, value: Any, lines: list[str]) -> None:
    assert sorted(changed(OWN, path, value)) == sorted(lines)


@pytest.mark.parametrize(
    ("path", "lines"),
    [
        (("limits", "maxCostUsd"), ["-  maxCostUsd: 5     # dollars"]),
        (("rules", 0), ['-- "Use tabs"   # yes']),
        (("tools", "executors", 0, "type"), [
            "-tools: {executors: [{id: claude, type: claude}]}", "+tools: {executors: [{id: claude}]}",
        ]),
        (("tools", "executors", 0, "id"), [
            "-tools: {executors: [{id: claude, type: claude}]}", "+tools: {executors: [{type: claude}]}",
        ]),
        (("tools", "executors", 0), ["-tools: {executors: [{id: claude, type: claude}]}", "+tools: {executors: []}"]),
        (("verification", "steps", 1), ["-      - {name: types, command: mypy}"]),
        (("verification", "steps", 0, "command"), [
            "-        command: |", "-          make test", "-          make lint",
        ]),
        (("verification", "steps", 0, "name"), [
            "-      - name: tests", "-        command: |", "+      - command: |",
        ]),
    ],
)  # fmt: skip
def test_only_what_is_asked_for_is_taken_out(path: JsonPath, lines: list[str]) -> None:
    assert sorted(differing(OWN, without(OWN, path))) == sorted(lines)


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        (("limits", "maxCostUsd"), 5, "  maxCostUsd: 5"),
        (("git", "rollback"), "reset", "  rollback: reset"),
        (("ralph", "agents", "qa", "maxIterations"), 3, "      maxIterations: 3"),
        (("stages",), ["coder", "qa"], "stages:"),
    ],
)
def test_in_the_file_of_init_a_value_takes_the_place_of_its_commented_default(
    path: JsonPath, value: Any, line: str
) -> None:
    text = commented_config(())
    lines = changed(text, path, value)
    commented = next(each for each in lines if each.startswith("-"))
    assert commented.lstrip("- ").startswith(f"# {path[-1]}: ")
    assert f"+{line}" in lines
    assert without(with_value(text, path, value), path) == text


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "# no line feed at the end", "{}\n", "limits:\n", "limits: null\n"]
)
def test_what_is_missing_is_made(text: str) -> None:
    after = with_value(text, ("limits", "maxCostUsd"), 5)
    assert read_yaml(after).value["limits"]["maxCostUsd"] == 5
    assert text.partition("\n")[0].partition(":")[0].strip("{}") in after


def test_line_feeds_of_windows_stay() -> None:
    after = with_value(OWN.replace("\n", "\r\n"), ("verification", "steps", 2), {"name": "x", "command": "make"})
    assert after.count("\n") == after.count("\r\n") == OWN.count("\n") + 2
    assert with_value(after, ("limits", "maxTokens"), 1).replace("\r\n", "").count("\r") == 0


@pytest.mark.parametrize(
    ("text", "path"),
    [("rules: &r [a]\nprotect: *r\n", ("protect", 0)), ("rules: [a,  # because\n  b]\n", ("rules", 0))],
)
def test_what_cannot_be_changed_safely_is_refused(text: str, path: JsonPath) -> None:
    with pytest.raises(RalphError, match="ralph config edit"):
        with_value(text, path, "x")


_keys = st.sampled_from(["a", "bc", "d e", "+f", "maxTokens"])
_scalars = st.one_of(
    st.booleans(), st.integers(-5, 500), st.none(), st.text("ab :#-'\"\\[]{},|>&*!%\n\té ", max_size=8)
)
_values = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(
            inner.filter(lambda item: item is not None and not isinstance(item, list)), max_size=3
        ),  # as no setting has them
        st.dictionaries(_keys, inner, max_size=3),
    ),
    max_leaves=8,
)
_documents = st.dictionaries(_keys, _values, min_size=1, max_size=4)


def written(values: Any, style: int) -> str:
    if style == 0:
        return "\n".join(block_lines(values)) + "\n"
    yaml = YAML(typ="rt" if style < 3 else "safe", pure=True)
    yaml.default_flow_style = style == 3
    if style == 2:
        yaml.indent(mapping=3, sequence=5, offset=2)
    yaml.width = 4000
    text = io.StringIO()
    yaml.dump(values, text)
    return text.getvalue()


def commented(text: str, places: list[int]) -> str:
    """With comments over some lines, as deep as these, where no text over several lines is taken apart."""
    lines = text.splitlines(keepends=True)
    if any(mark in text for mark in ("|", ">", "'\n", '"', "\t")):
        return text
    for place in sorted({place % len(lines) for place in places}, reverse=True):
        line = lines[place]
        lines.insert(place, f"{' ' * (len(line) - len(line.lstrip(' ')))}# comment {place}\n")
    return "".join(lines)


def paths(values: Any, path: JsonPath = ()) -> list[JsonPath]:
    inner = values.items() if isinstance(values, dict) else enumerate(values) if isinstance(values, list) else ()
    return [path, *(deeper for key, item in inner for deeper in paths(item, (*path, key)))]


@settings(max_examples=settings().max_examples * 2)
@given(_documents, st.integers(0, 3), st.lists(st.integers(0, 30), max_size=4), st.data())
def test_any_value_can_be_set_and_taken_out_again(
    values: dict[str, Any], style: int, places: list[int], data: st.DataObject
) -> None:
    text = commented(written(values, style), places)
    values = read_yaml(text).value
    path = data.draw(st.sampled_from(paths(values)))
    if isinstance(value_at(values, path), dict):
        path = (*path, data.draw(_keys))
    elif isinstance(value_at(values, path), list):
        path = (*path, len(value_at(values, path)))
    value = data.draw(_values)
    try:
        after = with_value(text, path, value)
    except RalphError:  # `[a: 1]` holds a map that has no braces to write between
        if style != 3:
            raise
        return
    expected = planted(values, path, value)
    assert value_at(read_yaml(after).value, path) == value_at(expected, path)
    was = value_at(values, path)
    if not isinstance(was, (dict, list, str)) and not (style == 3 and not has(values, path)):
        assert len([line for line in differing(text, after) if line.startswith("-")]) <= 1
        assert [line for line in after.splitlines() if "# comment" in line] == [
            line for line in text.splitlines() if "# comment" in line
        ]
    if has(values, path) and len(value_at(values, path[:-1])) > 1:  # `[a: 1]` holds a map that has no braces
        gone = without(text, path)
        assert value_at(read_yaml(gone).value, path[:-1]) in (value_at(uprooted(values, path), path[:-1]), None)
