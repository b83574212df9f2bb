"""Criteria as a person writes them: read whole, every fault with its place, written back in one form."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.tasks.criteria import (
    STAGES,
    Criteria,
    External,
    MultiStage,
    Part,
    Semantic,
    Verification,
)
from rulebook_ralph.tasks.criteria_reading import (
    DEEPEST_NESTING,
    canonical,
    completion_faults,
    override_faults,
    read_criteria,
    task_in_one_form,
)
from rulebook_ralph.tasks.model import Prd, Stage, Task
from rulebook_ralph.tasks.prd_file import problems_of
from rulebook_ralph.tasks.struct_reading import camel
from rulebook_ralph.tasks.text import Fault, json_path
from tests.cases import each_of


def _read(written: object, stage: Stage = "coder") -> Criteria:
    faults: list[Fault] = []
    found = read_criteria(written, stage, (), faults)
    assert not faults
    assert found is not None
    return found


def overrides_of(overrides: Any) -> Any:
    return task_in_one_form(Task(id="a", title="A", overrides=overrides)).overrides


def _told(completion: dict[str, Any]) -> list[str]:
    return [f"{json_path(fault.path)}: {fault.message}" for fault in completion_faults(completion, ())]


def _told_of_coder(**written: Any) -> list[str]:
    return _told({"coder": written})


def test_the_four_methods_are_read_as_the_spec_writes_them() -> None:
    assert _read({"promise": " A\n B ", "verification_method": "string_match"}).promise == "A B"
    assert _read({"verification_method": "string_match"}) == Criteria(promise="IMPLEMENTATION_COMPLETE")
    external = {"command": "pytest", "success_exit_code": 5, "timeout": "5m", "working_dir": "api"}
    assert _read({"verification_method": "external", "verification_config": external}).verification == External(
        command="pytest", success_exit_code=5, timeout=300, working_dir="api"
    )
    semantic = {"check_for": "{{acceptance_criteria}}", "negative_patterns": ["TODO"], "model": "haiku"}
    assert _read({"verification_method": "semantic", "verification_config": semantic}).verification == Semantic(
        check_for=("{{acceptance_criteria}}",), negative_patterns=("TODO",), model="haiku"
    )
    parts = [{"name": "b", "method": "multi_stage", "config": {"stages": [{"name": "c", "method": "string_match"}]}}]
    found = _read({"verificationMethod": "multi_stage", "verificationConfig": {"stages": parts}}, "qa")
    assert (found.promise, found.method) == ("QA_PASSED", "multi_stage")
    assert isinstance(found.verification, MultiStage)
    assert found.verification.stages[0].verification == MultiStage(stages=(Part(name="c", method="string_match"),))


EXTERNAL = {"verificationMethod": "external"}
MULTI = {"verification_method": "multi_stage"}
FAULTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "what belongs to the task": (
        {"outcome": "x", "acceptance_criteria": ["y"], "qa": {}},
        [
            "$.outcome: belongs to the task itself, beside `completion`",
            "$.acceptance_criteria: belongs to the task itself, beside `completion`",
        ],
    ),
    "key": ({"qa": {"promis": "X"}}, ["$.qa.promis: unknown key; did you mean `promise`?"]),
    "all at once": (
        {"coder": {"promise": 3, "maxIterations": 0}, "qa": {"promise": "<x>"}},
        [
            "$.coder.promise: expected a string, got a whole number",
            "$.coder.maxIterations: expected a whole number >= 1",
            "$.qa.promise: expected one line of text without < and >, at most 200 characters, got '<x>'",
        ],
    ),
    "method": (
        {"qa": {"verification_method": "external_command"}},
        [
            "$.qa.verification_method: expected one of string_match, external, semantic, multi_stage, got 'external_command'"
        ],
    ),
    "no method": ({"qa": {"verificationConfig": {"command": "x"}}}, ["$.qa: `verificationMethod` is missing"]),
    "string match": (
        {"qa": {"verificationMethod": "string_match", "verification_config": {"command": "x"}}},
        ["$.qa.verification_config: `string_match` takes no settings: it looks for the promise alone"],
    ),
    "no command": ({"qa": EXTERNAL}, ["$.qa.verificationConfig: `command` is missing"]),
    "empty command": (
        {"qa": {**EXTERNAL, "verification_config": {"command": " ", "working_dir": "../x"}}},
        [
            "$.qa.verification_config.command: must not be empty, nor hold a NUL character",
            "$.qa.verification_config.working_dir: must be a folder of the repository, from its root, got '../x'",
        ],
    ),
    "timeout": (
        {"qa": {**EXTERNAL, "verificationConfig": {"command": "a", "timeout": "soon"}}},
        [
            "$.qa.verificationConfig.timeout: expected seconds, or a time such as 90s, 15m or 1h30m, got 'soon'",
        ],
    ),
    "nothing to judge": (
        {"qa": {"verificationMethod": "semantic"}},
        ["$.qa.verificationConfig: `checkFor` or `negativePatterns` is needed"],
    ),
    "empty text": (
        {"qa": {"verificationMethod": "semantic", "verificationConfig": {"check_for": "", "negative_patterns": [" "]}}},
        [
            "$.qa.verificationConfig.check_for[0]: must not be empty",
            "$.qa.verificationConfig.negative_patterns[0]: must not be empty",
        ],
    ),
    "plus": (
        {"qa": {"verificationMethod": "semantic", "verificationConfig": {"+check_for": ["x"]}}},
        ["$.qa.verificationConfig.+check_for: unknown key; did you mean `checkFor`?"],
    ),
    "no parts": (
        {"qa": {**MULTI, "verificationConfig": {"stages": []}}},
        ["$.qa.verificationConfig.stages: at least one stage is needed"],
    ),
    "name of a part": (
        {"qa": {**MULTI, "verification_config": {"stages": [{"name": "x\ny", "method": "string_match"}]}}},
        [
            "$.qa.verification_config.stages[0].name: expected one line of text, at most 100 characters, got 'x\\ny'",
        ],
    ),
    "parts": (
        {
            "qa": {
                **MULTI,
                "verification_config": {
                    "stages": [
                        {"name": "a", "method": "external", "config": {"comand": "x"}, "needs": ["b"]},
                        {"name": "a", "method": "semantic", "config": {"check_for": ["x"]}},
                    ]
                },
            }
        },
        [
            "$.qa.verification_config.stages[0].needs: 'b' is the name of no earlier stage",
            "$.qa.verification_config.stages[1].name: each stage needs a name of its own",
            "$.qa.verification_config.stages[0].config.comand: unknown key; did you mean `command`?",
            "$.qa.verification_config.stages[0].config: `command` is missing",
        ],
    ),
}


@each_of("case", FAULTS)
def test_each_fault_has_its_place_and_a_way_out(case: str) -> None:
    completion, expected = FAULTS[case]
    assert _told(completion) == expected


def test_a_verification_nested_too_deeply_is_refused_without_recursion() -> None:
    def nested(depth: int) -> dict[str, Any]:
        config: dict[str, Any] = {"stages": [{"name": "end", "method": "string_match"}]}
        for _ in range(depth - 1):
            config = {"stages": [{"name": "more", "method": "multi_stage", "config": config}]}
        return {"verificationMethod": "multi_stage", "verificationConfig": config}

    assert _told_of_coder(**nested(DEEPEST_NESTING)) == []
    (told,) = _told_of_coder(**nested(600))
    assert told.endswith(f"is nested more than {DEEPEST_NESTING} deep")


def test_overrides() -> None:
    def told(**overrides: Any) -> list[str]:
        return [f"{json_path(fault.path)}: {fault.message}" for fault in override_faults(overrides, ())]

    assert told(executor="x", rules=["be brief"], stages=["coder", "qa"], stop_criteria={"success_regex": "DONE"}) == []
    assert told(stages=[], reviewer="thorough", max_iterations=3) == []
    assert told(maxIterations=0)[0].startswith("$.limits.maxIterations: ")
    assert told(stages=["qa", "coder"]) == ["$.stages: each stage once, in the order coder, reviewer, tester, qa"]
    assert told(stages=["coder", "coder"]) == ["$.stages: each stage once, in the order coder, reviewer, tester, qa"]
    assert told(**{"+rules": ["x"]}) == ["$.+rules: unknown key; did you mean `rules`?"]
    assert told(stopCriteria={"requirePassingTest": True}) == [
        "$.stopCriteria.requirePassingTest: unknown key; did you mean `requirePassingTests`?"
    ]
    (bad,) = told(stop_criteria={"blocked_regex": "("})
    assert bad.startswith("$.stopCriteria.blockedRegex: is no regular expression: missing )")
    assert overrides_of({"stop_criteria": {"success_regex": "x"}}) == {"stopCriteria": {"successRegex": "x"}}


_text = st.text(max_size=12)
_some = st.text(min_size=1, max_size=12).filter(lambda text: text.strip() and "\0" not in text)
_plain: st.SearchStrategy[tuple[str, Any]] = st.one_of(
    st.just(("string_match", {})),
    st.fixed_dictionaries(
        {"command": _some},
        optional={
            "success_exit_code": st.integers(0, 255),
            "output_contains": _text,
            "output_not_contains": _text,
            "timeout": st.sampled_from([1, 2.5, "90s", 300]),
            "working_dir": st.sampled_from([".", "api", "a/b"]),
        },
    ).map(lambda config: ("external", config)),
    st.fixed_dictionaries(
        {"check_for": st.lists(_some, min_size=1, max_size=3) | st.just("{{acceptance_criteria}}")},
        optional={"negative_patterns": st.lists(_some, max_size=2), "model": _text},
    ).map(lambda config: ("semantic", config)),
)


def _multi(kinds: st.SearchStrategy[tuple[str, Any]]) -> st.SearchStrategy[tuple[str, Any]]:
    def config(parts: list[tuple[tuple[str, Any], bool]]) -> tuple[str, Any]:
        stages = [
            {"name": f"p{index}", "method": method, "config": config, "required": required}
            for index, ((method, config), required) in enumerate(parts)
        ]
        return "multi_stage", {"stages": stages}

    return st.lists(st.tuples(kinds, st.booleans()), min_size=1, max_size=3).map(config) | kinds


def _spelled(value: Any, *, in_camel: bool) -> Any:
    if isinstance(value, dict):
        return {camel(key) if in_camel else key: _spelled(item, in_camel=in_camel) for key, item in value.items()}
    return [_spelled(item, in_camel=in_camel) for item in value] if isinstance(value, list) else value


def _written(kind: tuple[str, Any], rest: dict[str, Any], in_camel: bool) -> Any:
    whole = {**rest, "verification_method": kind[0], "verification_config": kind[1]}
    return _spelled(whole, in_camel=in_camel)


_rest = {"promise": st.just("PROMISE KEPT"), "description": _text, "max_iterations": st.none() | st.integers(1, 99)}
completions = st.dictionaries(
    st.sampled_from([str(stage) for stage in STAGES]),
    st.builds(_written, _multi(_multi(_plain)), st.fixed_dictionaries({}, optional=_rest), st.booleans()),
    max_size=4,
)


@given(completions)
def test_any_criteria_mean_the_same_in_the_one_form(completion: dict[str, Any]) -> None:
    assert _told(completion) == []
    one_form = canonical(completion)
    assert canonical(one_form) == one_form
    assert _told(one_form) == []
    for stage in STAGES:
        if stage in completion:
            mine, again = _read(completion[stage], stage), _read(one_form.get(stage, {}), stage)
            assert (again.promise, again.description, again.max_iterations) == (
                mine.promise,
                mine.description,
                mine.max_iterations,
            )
            assert _meaning(again.verification) == _meaning(mine.verification)
    assert "_" not in "".join(_keys(one_form))


def _meaning(verification: Verification) -> Any:
    """The verification with the settings of its parts read."""
    if not isinstance(verification, MultiStage):
        return verification
    parts = [(part.name, part.required, _meaning(part.verification)) for part in verification.stages]
    return verification.require_all, verification.parallel, parts


def _keys(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(key for item in value.values() for key in _keys(item))]
    return [key for item in value for key in _keys(item)] if isinstance(value, list) else []


_words = st.sampled_from(
    [
        *(
            "promise",
            "coder",
            "qa",
            "verificationMethod",
            "verification_config",
            "stages",
            "+stages",
            "command",
            "name",
        ),
        *("method", "config", "check_for", "timeout", "needs", "+needs", "rules", "stopCriteria", "successRegex"),
        *("executor", "external", "semantic", "multi_stage", "("),
    ]
)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _text | _words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_words, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(STAGES) | _text, _json, max_size=3))
def test_no_value_brings_anything_but_faults(value: dict[str, Any]) -> None:
    if not _told(value):
        assert all(canonical(value).values())
    if not [*override_faults(value, ())]:
        assert not [*override_faults(overrides_of(value), ())]


@pytest.mark.parametrize("completion", [{}, {"coder": EXTERNAL | {"verificationConfig": {"command": "make"}}}])
def test_ten_thousand_tasks_are_checked_soon(completion: dict[str, Any]) -> None:
    tasks = tuple(Task(id=f"t{n}", title="t", completion=completion) for n in range(10_000))
    started = time.process_time()
    assert problems_of(Prd(version=1, project="p", tasks=tasks)) == ()
    assert time.process_time() - started < 1
