import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.state.json_position import line_of, lines_of

DOCUMENT = """\
{
  "a": 1,
  "tasks": [
    {"id": "x"},
    {
      "id": "y",
      "we\\u0069rd \\"}": [true,
        null]
    }
  ]
}
"""


def test_the_line_of_a_value_along_its_path() -> None:
    assert line_of(DOCUMENT, ()) == 1
    assert line_of(DOCUMENT, ("tasks", 0, "id")) == 4
    assert line_of(DOCUMENT, ("tasks", 1, "id")) == 6
    assert line_of(DOCUMENT, ("tasks", 1, 'weird "}', 1)) == 8


def test_what_is_missing_stands_where_it_should_have_stood() -> None:
    assert line_of(DOCUMENT, ("tasks", 1, "priority")) == 5
    assert line_of(DOCUMENT, ("tasks", 7)) == 3
    assert line_of(DOCUMENT, ("a", "b")) == 2


def test_a_document_that_breaks_off_has_the_lines_before_the_break() -> None:
    torn = DOCUMENT[: DOCUMENT.index("true")]
    assert line_of(torn, ("a",)) == 2
    assert line_of(torn, ("totals",)) is None
    assert line_of("", ("a",)) is None
    assert line_of("[" * 100_000 + "1", (0, 1)) is None


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(inner for step, member in members for inner in _paths(member, (*path, step)))]


@given(
    st.recursive(
        st.none() | st.text(max_size=4),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
        max_leaves=15,
    )
)
def test_every_value_of_any_document_is_found_on_the_line_it_is_written_on(value: Any) -> None:
    text = json.dumps(value, indent=1)
    found = lines_of(text, _paths(value))
    lines = text.split("\n")
    for path in _paths(value):
        assert line_of(text, path) == found[path]
        if path:
            start = lines[found[path] - 1].strip()
            owner = _at(value, path)
            prefix = "" if isinstance(path[-1], int) else f"{json.dumps(path[-1])}: "
            assert start.startswith(prefix + json.dumps(owner)[0])
    assert len(found) == len(_paths(value))
    assert [found[path] for path in _paths(value)] == sorted(set(found.values()))


def _at(value: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        value = value[step]
    return value
