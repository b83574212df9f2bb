import json
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.tasks import history, prd_file
from rulebook_ralph.tasks.history import Iteration
from rulebook_ralph.tasks.json_file import line_of
from rulebook_ralph.tasks.model import Prd, Task, Totals
from rulebook_ralph.tasks.results import CheckResult, ParsedIteration, Verdict
from tests.cases import each_of, iteration

SMALL = Prd(version=1, project="p", tasks=(Task(id="a", title="A"), Task(id="b", title="B", dependencies=("a",))))

_text = st.text(max_size=12)
_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
    max_leaves=6,
)
_ids = st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True)


def _extras(known: frozenset[str]) -> st.SearchStrategy[dict[str, Any]]:
    keys = (_text | st.just("$extra")).filter(lambda key: key not in known)
    return st.dictionaries(keys, _json, max_size=2)


@st.composite
def _tasks(draw: st.DrawFn, task_id: str) -> Task:
    return Task(
        id=task_id,
        title=draw(_text),
        description=draw(_text),
        priority=draw(st.integers(1, 99)),
        status=draw(st.sampled_from(("pending", "in_iteration", "completed", "blocked"))),
        acceptance_criteria=tuple(draw(st.lists(_text, max_size=2))),
        estimated_complexity=draw(st.sampled_from((None, "low", "very-high"))),
        metadata=draw(st.dictionaries(_text, _json, max_size=1)),
        stage=draw(st.sampled_from((None, "coder"))),
        attempts=draw(st.dictionaries(st.sampled_from(("coder", "qa")), st.integers(0, 9))),
        cost_usd=draw(st.floats(0, 1e9)),
        blocked_reason=draw(st.none() | _text),
        extra=draw(_extras(prd_file.TASK_KEYS)),
    )


@st.composite
def _prds(draw: st.DrawFn) -> Prd:
    ids = draw(st.lists(_ids, max_size=3, unique=True))
    return Prd(
        version=1,
        project="p" + draw(_text.filter(lambda text: "\0" not in text)),
        branch=draw(_text.filter(lambda text: "\0" not in text)),
        updated_at=draw(_text),
        tasks=tuple(draw(_tasks(task_id)) for task_id in ids),
        totals=Totals(iterations=draw(st.integers(0, 9)), extra=draw(_extras(prd_file.TOTALS_KEYS))),
        extra=draw(_extras(prd_file.PRD_KEYS)),
    )


@given(_prds())
def test_a_prd_comes_back_as_it_was_written(prd: Prd) -> None:
    data = prd_file.encode_prd(prd)
    assert prd_file.decode_prd(data) == prd
    assert prd_file.encode_prd(prd_file.decode_prd(data)) == data


@given(_extras(history.ITERATION_KEYS), _text, st.none() | st.floats(0, 10))
def test_an_iteration_comes_back_as_it_was_written(extra: dict[str, Any], output: str, cost: float | None) -> None:
    record = _iteration(output=output, cost_usd=cost, extra=extra)
    data = history.encode(record)
    assert history.decode(data, name="x") == record
    assert history.encode(history.decode(data, name="x")) == data


def _iteration(**changes: Any) -> Iteration:
    checks = (CheckResult(step="tests", command="make", passed=False),)
    verdict = Verdict(action="continue", hook="gates")
    return iteration(7, verdict=verdict, checks=checks, parsed=ParsedIteration(learnings=("x",)), **changes)


def test_the_file_is_made_for_git_and_people() -> None:
    prd = Prd(version=1, project="Füße", tasks=(Task(id="a", title="A", extra={"zebra": 1, "ant": 2}),))
    text = prd_file.encode_prd(prd).decode()
    assert "Füße" in text
    assert text.endswith("}\n")
    assert "\r" not in text
    assert "extra" not in text
    document = json.loads(text)
    assert list(document) == ["version", "project", "description", "tasks", "totals"]
    assert list(document["tasks"][0])[:3] == ["id", "title", "description"]
    assert list(document["tasks"][0])[-2:] == ["zebra", "ant"]
    assert text == json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def test_unknown_keys_are_kept_where_they_are() -> None:
    data = b'{"version":1,"project":"p","owner":"me","totals":{"x":1},"tasks":[{"id":"a","title":"A","$extra":4}]}'
    prd = prd_file.decode_prd(data)
    assert (prd.extra, prd.totals.extra, prd.tasks[0].extra) == ({"owner": "me"}, {"x": 1}, {"$extra": 4})
    assert json.loads(prd_file.encode_prd(prd))["tasks"][0]["$extra"] == 4


def test_criteria_and_overrides_are_read_in_either_spelling_and_written_in_one() -> None:
    written = {
        "completion": {
            "coder": {"verification_method": "external", "verification_config": {"command": "x", "timeout": "2m"}},
            "qa": {},
        },
        "overrides": {"stop_criteria": {"require_lint": True}},
    }
    prd = prd_file.decode_prd(_prd_text(json.dumps({"id": "a", "title": "A", **written})))
    (_, task) = json.loads(prd_file.encode_prd(prd))["tasks"]
    assert task["completion"] == {
        "coder": {"verificationMethod": "external", "verificationConfig": {"command": "x", "timeout": 120}}
    }
    assert task["overrides"] == {"stopCriteria": {"requireLint": True}}
    assert prd_file.decode_prd(prd_file.encode_prd(prd)) == prd


def test_text_that_is_no_unicode_is_written_readably() -> None:
    record = history.decode(history.encode(_iteration(output="a\ud800b\ud83d\ude00")), name="x")
    assert record.output == "a\ufffdb\U0001f600"


def test_a_cost_that_could_not_be_read_again_is_never_written() -> None:
    with pytest.raises(ValueError, match="finite"):
        prd_file.encode_prd(Prd(version=1, project="p", totals=Totals(cost_usd=float("nan"))))


def _prd_text(task: str) -> bytes:
    return b'{\n  "version": 1,\n  "project": "p",\n  "tasks": [\n    {"id": "ok", "title": "t"},\n    ' + (
        task.encode() + b"\n  ]\n}\n"
    )


BAD_PRDS = {
    "empty": (b"", "p.json: is empty; restore it from git"),
    "torn": (b'{\n  "version": 1,\n  "tasks": [', "p.json:3:13: is no JSON: input data was truncated"),
    "comma": (b'{"version": 1,\n\n "x": ,}', "p.json:3:7: is no JSON: invalid character"),
    "nan": (b'{"version": NaN}', "p.json:1:13: is no JSON: invalid character"),
    "not utf-8": (b'{"version": 1,\n"project": "\xff"}', "p.json:2: is not UTF-8 text"),
    "half a character": (b'{"version":1,\n "project":"\\ud800"}', "p.json:"),
    "deep": (b'{"version":1,"project":"p","x":' + b"[" * 100_000, "nested too deeply"),
    "a little deep": (_prd_text('{"id": "a", "title": "t",\n "x": ' + "[" * 201 + "]" * 201 + "}"), "p.json:7: $.tasks[1].x: is nested more than 200 deep"),
    "deep metadata": (_prd_text('{"id": "a", "title": "t", "metadata": {"x":\n' + '{"y": [' * 101 + "]}" * 101 + "}}"), "p.json:7: $.tasks[1].metadata.x: is nested more than 200 deep"),
    "number": (b'{"version":1,"project":"p 1e999",\n "tasks":[{"id":"a","title":"A",\n"x":[-2.5, 1e999]}]}', "out of range"),
    "known number": (_prd_text('{"id": "a", "title": "t", "overrides": {"x": 1e999}}'), "out of range"),
    "list": (b"[]", "p.json:1: $: expected keys and values, got a list"),
    "no version": (b'{"project": "p"}', "p.json:1: $: `version` is missing"),
    "future": (b'{"version": 2, "tasks": 7}', "p.json: version 2 is of a format newer than 1"),
    "no id": (_prd_text('{"title": "t"}'), "p.json:6: $.tasks[1]: `id` is missing"),
    "type": (_prd_text('{"id": "a",\n"title": "t", "priority": "high"}'), "p.json:7: $.tasks[1].priority: expected a whole number, got a string"),
    "status": (_prd_text('{"id": "a", "title": "t", "status": "done"}'), "p.json:6: $.tasks[1].status: expected one of pending, in_iteration, completed, blocked, got 'done'"),
    "path": (_prd_text('{"id": "../x", "title": "t"}'), "p.json:6: $.tasks[1].id: "),
    "option": (_prd_text('{"id": "-x", "title": "t"}'), "p.json:6: $.tasks[1].id: "),
    "twice": (_prd_text('{"id": "OK", "title": "t"}'), "p.json:6: $.tasks[1].id: 'OK' is the id of a task"),
    "unknown": (_prd_text('{"id": "a", "title": "t", "dependencies": ["Ok"]}'), "p.json:6: $.tasks[1].dependencies[0]: there is no task 'Ok'; did you mean 'ok'?"),
    "itself": (_prd_text('{"id": "a", "title": "t", "dependencies": ["a"]}'), "p.json:6: $.tasks[1].dependencies[0]: task 'a' depends on itself"),
    "priority": (_prd_text('{"id": "a", "title": "t", "priority": 0}'), "p.json:6: $.tasks[1].priority: expected 1"),
    "criteria": (_prd_text('{"id": "a", "title": "t",\n "completion": {"coder": {\n"promse": "X"}}}'), "p.json:8: $.tasks[1].completion.coder.promse: unknown key; did you mean `promise`?"),
    "overrides": (_prd_text('{"id": "a", "title": "t", "overrides": {"executer": "x"}}'), "p.json:6: $.tasks[1].overrides.executer: unknown key; did you mean `executor`?"),
    "pattern": (_prd_text('{"id": "a", "title": "t", "overrides": {"stop_criteria": {"blocked_regex": ".*"}}}'), "p.json:6: $.tasks[1].overrides.stopCriteria.blockedRegex: matches an empty text"),
    "cycle": (_prd_text('{"id": "a", "title": "t", "dependencies": ["ok", "b"]}, {"id": "b", "title": "t", "dependencies": ["a"]}'), "p.json:6: $.tasks[1].dependencies: dependency cycle: a -> b -> a"),
}  # fmt: skip


@each_of("case", BAD_PRDS)
def test_a_bad_prd_is_refused_in_one_line_that_says_where(case: str) -> None:
    data, message = BAD_PRDS[case]
    with pytest.raises(RalphError) as refusal:
        prd_file.decode_prd(data, name="p.json")
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 300
    assert refusal.value.exit_code is ExitCode.INVALID


def test_a_byte_order_mark_is_no_harm_and_lines_are_right_after_it() -> None:
    assert prd_file.decode_prd(b"\xef\xbb\xbf" + prd_file.encode_prd(SMALL)) == SMALL
    with pytest.raises(RalphError, match=r"^p.json:2:1:"):
        prd_file.decode_prd(b"\xef\xbb\xbf{\n]", name="p.json")


@given(st.binary(max_size=60) | _json.map(lambda value: json.dumps(value).encode()))
def test_no_bytes_bring_anything_but_one_clear_line(data: bytes) -> None:
    for read in (prd_file.decode_prd, prd_file.decode_prd_quick):
        with pytest.raises(RalphError):
            read(data)
    with pytest.raises(RalphError):
        history.decode(data, name="x")


def test_an_iteration_that_is_nested_too_deeply_is_refused() -> None:
    data = history.encode(_iteration(extra={"x": json.loads("[" * 201 + "]" * 201)}))
    with pytest.raises(RalphError, match=r"^i\.json:\d+: \$\.x: is nested more than 200 deep$"):
        history.decode(data, name="i.json")
    assert history.decode(data.replace(b"[]", b"0"), name="i.json").extra


# Rules

IDS = "abcdef"


def _messages(edges: dict[str, list[str]]) -> list[str]:
    tasks = tuple(Task(id=name, title="t", dependencies=tuple(on)) for name, on in edges.items())
    return [fault.message for fault in prd_file.problems_of(Prd(version=1, project="p", tasks=tasks))]


@given(st.permutations(IDS), st.fixed_dictionaries({name: st.lists(st.sampled_from(IDS), max_size=3) for name in IDS}))
def test_a_cycle_is_told_exactly_where_there_is_no_order_of_work(order: list[str], edges: dict[str, list[str]]) -> None:
    edges = {name: [on for on in edges[name] if on != name] for name in order}
    try:
        TopologicalSorter(edges).prepare()
        ordered = True
    except CycleError:
        ordered = False
    told = _messages(edges)
    assert ordered == (not told)
    for message in told:
        if message.startswith("dependency cycle: "):
            cycle = message.removeprefix("dependency cycle: ").split(" -> ")
            assert cycle[0] == cycle[-1]
            assert all(then in edges[now] for now, then in pairwise(cycle))


def test_a_cycle_of_long_ids_is_told_too() -> None:
    first, second = "a" * 100, "b" * 100
    (told,) = _messages({first: [second], second: [first]})
    assert told.startswith(f"dependency cycle: {'a' * 79}… -> bbb")


def test_a_long_chain_and_a_long_cycle_need_no_recursion() -> None:
    chain = {f"t{n}": [f"t{n + 1}"] for n in range(5_000)} | {"t5000": []}
    assert _messages(chain) == []
    (told,) = _messages(chain | {"t5000": ["t0"]})
    assert told.startswith("dependency cycle: t0 -> t1 -> ")
    assert told.endswith(" more")


# Lines

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


def test_what_is_missing_stands_where_it_should_have_stood() -> None:
    assert line_of(DOCUMENT, ("tasks", 1, "priority")) == 5
    assert line_of(DOCUMENT, ("tasks", 7)) == 3
    assert line_of(DOCUMENT, ("a", "b")) == 2


def test_a_document_that_breaks_off_has_the_lines_before_the_break() -> None:
    torn = DOCUMENT[: DOCUMENT.index("true")]
    assert line_of(torn, ("a",)) == 2
    assert line_of(torn, ("totals",)) == 1
    assert line_of("", ("a",)) == 1
    assert line_of("[" * 100_000 + "1", (0, 1)) == 1


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
    found = {path: line_of(text, path) for path in _paths(value)}
    lines = text.split("\n")
    for path in _paths(value):
        if path:
            start = lines[found[path] - 1].strip()
            owner = _at(value, path)
            prefix = "" if isinstance(path[-1], int) else f"{json.dumps(path[-1])}: "
            assert start.startswith(prefix + json.dumps(owner)[0])
    assert [found[path] for path in _paths(value)] == sorted(set(found.values()))


def _at(value: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        value = value[step]
    return value
