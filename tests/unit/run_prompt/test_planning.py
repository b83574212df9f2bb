"""What a planner answers, from the question to the tasks that may be added: strict, whole, or nothing."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph import resources
from rulebook_ralph.agents.question import Ask, ModelError, Question
from rulebook_ralph.config.settings import AskedModel, Config, Defaults, Executor, Tools, Verification, VerificationStep
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.run import templates
from rulebook_ralph.run.planning import LONGEST_PLAN, NoPlanError, Planning, by_relevance, folded, planner, told
from rulebook_ralph.run.templates import PLAN, Templates
from rulebook_ralph.tasks import edits
from rulebook_ralph.tasks.disk import StateFolder
from rulebook_ralph.tasks.edits import Add
from rulebook_ralph.tasks.model import Json, Prd, Task
from rulebook_ralph.tasks.plan import MOST_TASKS, Plan, PlanAnswer, PlannedTask
from rulebook_ralph.tasks.struct_reading import fields_of
from rulebook_ralph.tasks.text import estimated_tokens as tokens
from rulebook_ralph.verify.redaction import Redactor

SECRET = "correct-horse-battery-staple"
GATED = Config(verification=Verification(steps=(VerificationStep(name="tests", command="make test"),)))
OLD = (
    Task(id="old", title="Old", status="completed", attempts={"coder": 3}),
    Task(id="open", title="Open", dependencies=("old",)),
)
PRD = Prd(version=1, project="toy", created_at="", updated_at="", tasks=OLD)
COMMAND = {"description": "d", "verificationMethod": "external", "verificationConfig": {"command": "make check"}}


def scripted(*answers: str) -> Ask:
    """Gives the answers in order, then the last one again."""
    left = iter([*answers, *answers[-1:] * 9])
    return lambda _: next(left)


def planned(task_id: str = "new", **changed: Any) -> Json:
    return {
        "id": task_id,
        "title": "New",
        "description": "Why",
        "priority": 1,
        "dependencies": [],
        "acceptanceCriteria": ["It is there"],
        "outcome": "It is there",
        "relevantFiles": [],
        **changed,
    }


def without(key: str) -> Json:
    return {name: value for name, value in planned().items() if name != key}


def answered(*tasks: Any, questions: Any = ()) -> str:
    return json.dumps({"questions": list(questions), "tasks": list(tasks)})


def planning(config: Config = GATED, *, wanted: str = "something", material: dict[str, Any] | None = None) -> Planning:
    clean = Redactor({"MY_PASSWORD": SECRET}).clean
    return Planning(config, PRD, wanted, material or {}, clean)


def asked(*answers: str, config: Config = GATED, left: int = 0) -> Plan:
    return planning(config).plan(scripted(*answers), (), questions_left=left)


def test_a_plan_becomes_tasks_that_are_pending_and_nothing_else_changes() -> None:
    plan = asked(
        answered(
            planned("first", completion={"coder": COMMAND}, estimatedComplexity="low"),
            planned("second", dependencies=["first", "old"], priority=2, relevantFiles=["app/main.py"]),
        )
    )
    applied = edits.apply(PRD, Add(tasks=plan.tasks), at="2026-01-01T00:00:00Z")
    assert applied.answer == "added 2 tasks: first, second"
    assert applied.prd.tasks[:2] == OLD
    first, second = applied.prd.tasks[2:]
    assert (first.status, first.attempts, first.estimated_complexity) == ("pending", {}, "low")
    assert first.completion == {"coder": COMMAND}
    assert (second.dependencies, second.priority, second.relevant_files) == (("first", "old"), 2, ("app/main.py",))
    sent = Add(tasks=plan.tasks)
    assert edits.decode(msgspec.json.encode(sent)) == sent


HOSTILE: dict[str, tuple[str, str]] = {
    "prose": ("Here is the plan: first do this, then that.", "$: it is not a single JSON object"),
    "prose before it": (f"Sure!\n{answered(planned())}", "$: it is not a single JSON object"),
    "cut off": (answered(planned())[:-20], "$: it is not a single JSON object"),
    "nothing": ("", "$: it is not a single JSON object"),
    "a list": (json.dumps([planned()]), "$: the JSON does not fit the schema"),
    "a lone surrogate": (answered(planned(title="\ud800")), "$: it is not a single JSON object"),
    "nested beyond reason": ("[" * 100_000, "$: "),
    "a key twice": ('{"questions": [], "tasks": [], "tasks": []}', "$: a key stands twice"),
    "another key at the top": ('{"questions": [], "tasks": [], "status": "done"}', "$: the JSON does not fit"),
    "too long": (answered(planned(description="x" * LONGEST_PLAN)), "$: the answer is longer"),
    "no tasks": (answered(), "$.tasks: nothing is planned"),
    "tasks that are no list": ('{"questions": [], "tasks": {}}', "$.tasks: expected a list"),
    "a task that is none": (answered("new"), "$.tasks[0]: expected"),
    "10,000 tasks": (answered(*[planned(f"t{n}") for n in range(200)]), f"$.tasks: expected at most {MOST_TASKS}"),
    "an id with a path": (answered(planned("../../etc/passwd")), "$.tasks[0].id: must start with"),
    "an id with a folder": (answered(planned("a/b")), "$.tasks[0].id: may hold only"),
    "an empty id": (answered(planned("")), "$.tasks[0].id: is empty"),
    "no id": (answered(without("id")), "$.tasks[0]: `id` is missing"),
    "an id that is there": (answered(planned("OLD")), "$.tasks[0].id: 'OLD' is the id of a task that is there already"),
    "an id twice": (
        answered(planned(), planned("NEW")),
        "$.tasks[1].id: 'NEW' is the id of a task that is there already",
    ),
    "itself": (answered(planned(dependencies=["new"])), "$.tasks[0].dependencies[0]: task 'new' depends on itself"),
    "unknown": (answered(planned(dependencies=["opne"])), "$.tasks[0].dependencies[0]: there is no task 'opne'"),
    "a circle": (
        answered(planned("a", dependencies=["b"]), planned("b", dependencies=["a"])),
        "$.tasks[0].dependencies: dependency cycle: a -> b -> a",
    ),
    "completed": (answered(planned(status="completed")), "$.tasks[0].status: unknown key"),
    "attempts": (answered(planned(attempts={"coder": 1})), "$.tasks[0].attempts: unknown key"),
    "a summary": (answered(planned(completedAt="2026-01-01T00:00:00Z")), "$.tasks[0].completedAt: unknown key"),
    "settings": (answered(planned(overrides={"executor": "evil"})), "$.tasks[0].overrides: unknown key"),
    "a priority of 0": (answered(planned(priority=0)), "$.tasks[0].priority: expected"),
    "a priority in words": (answered(planned(priority="high")), "$.tasks[0].priority: expected"),
    "no outcome": (answered(planned(outcome=" ")), "$.tasks[0].outcome: must not be empty"),
    "no criterion": (answered(planned(acceptanceCriteria=[])), "$.tasks[0].acceptanceCriteria: at least one"),
    "an empty criterion": (answered(planned(acceptanceCriteria=[" "])), "$.tasks[0].acceptanceCriteria[0]: must not"),
    "no title": (answered(planned(title="")), "$.tasks[0].title: must not be empty"),
    "a title of lines": (answered(planned(title="a\nb")), "$.tasks[0].title: expected one printable line"),
    "a title that hides": (answered(planned(title="a\u202eb")), "$.tasks[0].title: expected one printable line"),
    "a file outside": (answered(planned(relevantFiles=["../x"])), "$.tasks[0].relevantFiles[0]: expected a path"),
    "a file of the system": (answered(planned(relevantFiles=["/etc/x"])), "$.tasks[0].relevantFiles[0]: expected"),
    "a stage that none goes through": (
        answered(planned(completion={"qa": COMMAND})),
        "$.tasks[0].completion.qa: the tasks go through coder only",
    ),
    "no such stage": (answered(planned(completion={"boss": COMMAND})), "$.tasks[0].completion"),
    "a check without a command": (
        answered(planned(completion={"coder": {"verificationMethod": "external"}})),
        "$.tasks[0].completion.coder",
    ),
    "a command outside": (
        answered(planned(completion={"coder": COMMAND | {"verificationConfig": {"command": "x", "workingDir": "/"}}})),
        "$.tasks[0].completion.coder.verificationConfig.workingDir",
    ),
    "a secret": (
        answered(planned(completion={"coder": COMMAND | {"description": f"use {SECRET}"}})),
        "$.tasks[0].completion.coder.description: holds what looks like a secret",
    ),
    "a text too long": (answered(planned(description="x" * 20_000)), "$.tasks[0].description: is longer than"),
    "questions where none may be": (answered(questions=["Why?"]), "$.questions: nobody can be asked"),
    "questions beside tasks": (answered(planned(), questions=["Why?"]), "$.questions: nobody can be asked"),
    "questions that are no list": ('{"questions": "Why?", "tasks": []}', "$.questions: expected a list"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_plan_is_refused_at_its_place_and_asked_for_again_once(name: str) -> None:
    answer, place = HOSTILE[name]
    questions: list[Question] = []

    def ask(question: Question) -> str:
        questions.append(question)
        return answer

    with pytest.raises(NoPlanError) as refused:
        planning().plan(ask, (), questions_left=0)
    lines = [told(fault) for fault in refused.value.faults]
    assert any(line.startswith(place) for line in lines), lines
    assert all(line.isprintable() and len(line) < 400 for line in lines)
    assert refused.value.exit_code is ExitCode.AGENT
    first, second = questions
    assert "was refused" not in first.instructions
    assert f"- {place[:50]}" in second.instructions
    assert SECRET not in second.instructions + second.data
    answer_again = planning().plan(scripted(answer, answered(planned())), (), questions_left=0)
    assert [task["id"] for task in answer_again.tasks] == ["new"]


@pytest.mark.parametrize("place", ["id", "title", "description", "outcome", "dependencies"])
def test_every_fault_is_told_at_once(place: str) -> None:
    with pytest.raises(NoPlanError) as refused:
        asked(answered(without(place), planned("b", priority=None, colour="red")))
    lines = [told(fault) for fault in refused.value.faults]
    assert {line.partition(":")[0] for line in lines} == {"$.tasks[0]", "$.tasks[1].priority", "$.tasks[1].colour"}


def test_without_a_gate_each_task_needs_a_check_of_its_own() -> None:
    bare = Config()
    with pytest.raises(NoPlanError) as refused:
        asked(answered(planned("a"), planned("b", completion={"coder": COMMAND})), config=bare)
    (fault,) = refused.value.faults
    assert told(fault).startswith("$.tasks[0].completion: no gate is configured")
    assert asked(answered(planned(completion={"coder": COMMAND})), config=bare).tasks


def test_questions_come_instead_of_tasks_and_are_counted() -> None:
    assert asked(answered(questions=["Which?", "Where?"]), left=2) == Plan(("Which?", "Where?"), ())
    for given_questions, tasks in ((["a", "b", "c"], []), (["a"], [planned()]), ([" "], []), (["x" * 600], [])):
        with pytest.raises(NoPlanError):
            asked(answered(*tasks, questions=given_questions), left=2)


def test_a_model_that_cannot_be_asked_is_asked_once() -> None:
    calls = []

    def ask(question: Question) -> str:
        calls.append(question)
        raise ModelError("the API cannot be reached")

    with pytest.raises(NoPlanError, match="cannot be reached"):
        planning().plan(cast("Ask", ask), (), questions_left=0)
    assert len(calls) == 1


def test_the_question_holds_all_there_is_to_know_as_data_and_no_secret() -> None:
    material = {"rules": ["Use tabs"], "tasks": ["old (completed): Old"], "files": {"app/main.py": 'print("}")'}}
    seen: list[Question] = []

    def ask(question: Question) -> str:
        seen.append(question)
        return "no plan"

    wish = planning(Config(stages=("coder", "qa")), wanted=f"A login with {SECRET}", material=material)
    with pytest.raises(NoPlanError):
        wish.plan(ask, [("Which?", "The second")], questions_left=2)
    first, second = (json.loads(question.data) for question in seen)
    assert first["files"] == material["files"]
    assert first["answers"] == [{"question": "Which?", "answer": "The second"}]
    assert "lastAnswer" not in first
    assert second["lastAnswer"] == "no plan"
    question = seen[0]
    for text in ("A login with", "The second", "Use tabs", "print("):
        assert text not in question.instructions
    assert SECRET not in question.instructions + question.data
    assert "coder, qa" in question.instructions
    assert "at most 2 short questions" in question.instructions
    assert "No gate is configured" in question.instructions
    assert question.schema == resources.schema("plan")


SONNET = AskedModel(id="sonnet", model="claude-sonnet-5-5", timeout=5)
OPUS = AskedModel(id="opus", executor="anthropic")
CONFIGURED = Config(
    tools=Tools(executors=(Executor(id="mine", type="command", command="x"),), planners=(OPUS, SONNET)),
    defaults=Defaults(executor="mine"),
)


@pytest.mark.parametrize(
    ("config", "named", "model", "wanted"),
    [
        (CONFIGURED, "", "", OPUS),
        (CONFIGURED, "sonnet", "", SONNET),
        (CONFIGURED, "opus", "x", AskedModel(id="opus", executor="anthropic", model="x")),
        (CONFIGURED, "mine", "", AskedModel(id="mine", executor="mine", model="")),
        (CONFIGURED, "codex", "", AskedModel(id="codex", executor="codex", model="")),
        (CONFIGURED, "anthropic", "", AskedModel(id="anthropic", executor="anthropic")),
        (Config(), "", "", AskedModel(id="")),
        (Config(defaults=Defaults(planner="claude")), "", "", AskedModel(id="claude", executor="claude", model="")),
        (Config(defaults=Defaults(planner="claude")), "codex", "", AskedModel(id="codex", executor="codex", model="")),
    ],
)
def test_who_plans(config: Config, named: str, model: str, wanted: AskedModel) -> None:
    assert planner(config, named=named, model=model) == wanted


def test_a_planner_that_is_none_is_refused_with_those_there_are() -> None:
    with pytest.raises(RalphError, match=r"there is no planner 'opsu' .*opus, sonnet"):
        planner(CONFIGURED, named="opsu")


# What the planner is shown


paths = st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=5).map("/".join), max_size=40, unique=True)


@given(paths, st.integers(10, 200))
def test_a_listing_fits_and_counts_every_file(found: list[str], limit: int) -> None:
    lines = folded(found, limit)
    assert sum(tokens(line) + 2 for line in lines) <= limit
    if sum(tokens(path) + 2 for path in found) <= limit:
        assert set(lines) == set(found)


def test_a_long_listing_is_folded_at_its_depth() -> None:
    found = ["README.md", *(f"src/deep/er/f{n}.py" for n in range(100)), "src/a.py"]
    assert folded(found, 15) == ["README.md", "src/ (101 files)"]
    assert folded(found, 18) == ["README.md", "src/deep/ (100 files)", "src/a.py"]


def test_files_come_by_the_words_they_share_and_never_with_keys() -> None:
    found = [
        "README.md",
        "src/login_form.py",
        "src/other.py",
        "src/LoginPage.tsx",
        ".env.login",
        "login.pem",
        "docs/x.md",
    ]
    by_words = ["src/login_form.py", "src/LoginPage.tsx", "README.md"]
    assert by_relevance(found, "A login form that remembers")[:3] == by_words
    assert by_relevance(found, "as in docs/x.md, a login")[0] == "docs/x.md"
    assert by_relevance(["calc.py", "deep/er/x.py", "y.key"], "x") == ["calc.py", "deep/er/x.py"]
    assert by_relevance([f"f{n}.py" for n in range(100)], "a login") == []


def test_the_schema_tells_what_is_read() -> None:
    document = resources.schema("plan")
    for struct, described in ((PlanAnswer, document), (PlannedTask, document["$defs"]["task"])):
        fields = fields_of(struct)
        assert sorted(described["properties"]) == sorted(field.encode_name for field in fields)
        assert set(described["required"]) == {field.encode_name for field in fields if field.required}
        assert described["additionalProperties"] is False


def test_an_answer_by_the_schema_alone_is_a_plan() -> None:
    """Every choice that the schema offers is one that is taken."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415

    judged = {"description": "d", "verificationMethod": "semantic", "verificationConfig": {"checkFor": ["c"]}}
    external = COMMAND | {
        "verificationConfig": {"command": "x", "workingDir": "src", "timeout": 5, "outputContains": "ok"}
    }
    patterns = judged | {"verificationConfig": {"negativePatterns": ["TODO"]}}
    config = Config(stages=("coder", "reviewer", "tester", "qa"), verification=GATED.verification)
    completion = {"coder": external, "reviewer": judged, "tester": COMMAND, "qa": patterns}
    text = answered(planned(completion=completion, estimatedComplexity="very-high"))
    Draft202012Validator(resources.schema("plan")).validate(json.loads(text))
    (task,) = asked(text, config=config).tasks
    assert task["estimatedComplexity"] == "very-high"


def test_a_project_may_have_its_own_question_to_the_planner(tmp_path: Path) -> None:
    def found(text: str) -> tuple[str, ...]:
        StateFolder(tmp_path).templates.mkdir(parents=True, exist_ok=True)
        (StateFolder(tmp_path).templates / PLAN).write_text(text)
        return tuple(map(str, templates.problems(tmp_path)))

    own = '{% extends "builtin/plan.md.j2" %}{% block rules %}{{ super() }}9. Rhyme.\n{% endblock %}'
    assert found(own) == ()
    asked = replace(planning(), templates=Templates(((PLAN, own),))).question()
    assert asked.instructions.endswith("no code fence.\n9. Rhyme.\n")
    assert asked.data == planning().question().data
    where = f".rulebook-ralph/templates/{PLAN}"
    assert found("{{ most_task }}") == (f"{where}:1: 'most_task' is undefined; did you mean most_tasks?",)
    again = "Plan.\n{% if faults %}\n{{ oh }}\n{% endif %}\n"
    assert found(again) == (f"{where}:3: 'oh' is undefined; see what there is: ralph templates list",)
