"""Tasks with criteria from YAML: the specification's own example, every spelling, every fault, and back again."""

import re
from pathlib import Path
from typing import Any

import pytest

from rulebook_ralph.tasks.importers.source import RefusedTasksError, SourceReading
from rulebook_ralph.tasks.importers.task_lists import read_all
from tests.cases import each_of

WHOLE = """\
task:
  id: TASK-001
  spec_id: auth-feature
  title: "Implement JWT authentication"
  description: |
    Add JWT-based authentication to all API endpoints.
    Include login.
  priority: 2
  dependencies: []

  completion:
    outcome: "All API endpoints require valid JWT tokens for access"
    acceptance_criteria:
      - "Login endpoint returns JWT"
      - "Invalid tokens return 401"
    coder:
      promise: "AUTH_IMPLEMENTED"
      description: "Implemented and committed"
      verification_method: external
      verification_config:
        command: |
          test -f src/auth/middleware.py &&
          test -f src/auth/jwt.py
        success_exit_code: 0
      max_iterations: 15
    reviewer:
    qa:
      promise: "AUTH_QA_COMPLETE"
      verification_method: multi_stage
      verification_config:
        require_all: true
        stages:
          - name: "all_tests_pass"
            method: external
            config:
              command: "pytest tests/ -v"
            required: true
          - name: "acceptance_verified"
            method: semantic
            config:
              check_for: "{{acceptance_criteria}}"
"""


def _read(folder: Path, text: str, **more: Any) -> SourceReading:
    (folder / "tasks.yaml").write_text(text, "utf-8")
    return read_all([folder / "tasks.yaml"], root=folder, **more)


def _refusal(folder: Path, text: str, **more: Any) -> list[str]:
    with pytest.raises(RefusedTasksError) as refusal:
        _read(folder, text, **more)
    told = [str(problem) for problem in refusal.value.problems]
    more_told = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
    assert str(refusal.value) == told[0] + more_told
    assert not any("\n" in line or len(line) > 400 for line in told)
    return told


def test_the_example_of_the_specification(tmp_path: Path) -> None:
    reading = _read(tmp_path, WHOLE)
    (task,) = reading.tasks
    assert reading == SourceReading(tasks=(task,), folders=("tasks.yaml",))
    assert (task.id, task.title, task.priority) == ("TASK-001", "Implement JWT authentication", 2)
    assert task.description == "Add JWT-based authentication to all API endpoints.\nInclude login."
    assert task.acceptance_criteria == ("Login endpoint returns JWT", "Invalid tokens return 401")
    assert task.outcome == "All API endpoints require valid JWT tokens for access"
    assert (task.source, task.metadata) == ("tasks.yaml", {"specId": "auth-feature"})
    assert list(task.completion) == ["coder", "qa"]
    assert task.completion["coder"] == {
        "promise": "AUTH_IMPLEMENTED",
        "description": "Implemented and committed",
        "verificationMethod": "external",
        "verificationConfig": {
            "command": "test -f src/auth/middleware.py &&\ntest -f src/auth/jwt.py\n",
            "successExitCode": 0,
        },
        "maxIterations": 15,
    }
    tests, acceptance = task.completion["qa"]["verificationConfig"]["stages"]
    assert tests["config"] == {"command": "pytest tests/ -v"}
    assert acceptance["config"] == {"checkFor": ["{{acceptance_criteria}}"]}


def _as_camel(text: str) -> str:
    return re.sub(r"^( *(?:- )?)([a-z_]+):", lambda m: m[1] + re.sub("_(.)", lambda u: u[1].upper(), m[2]) + ":", text, flags=re.MULTILINE)  # fmt: skip


FORMS = {
    "camelCase": _as_camel(WHOLE),
    "a list": "- " + "\n".join(WHOLE.splitlines()[1:]).strip().replace("\n  ", "\n  ") + "\n",
    "tasks": "tasks:\n  - " + "\n".join("  " + line for line in WHOLE.splitlines()[1:]).strip() + "\n",
    "a list of wrapped ones": "- " + WHOLE.strip().replace("\n", "\n  ") + "\n",
    "the task alone": re.sub("^  ", "", WHOLE.split("\n", 1)[1], flags=re.MULTILINE),
    "criteria beside": re.sub(r"^    ", "  ", WHOLE, flags=re.MULTILINE).replace("  completion:\n", ""),
    "as the model's own field": WHOLE.replace("completion:", "completion_spec:"),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_and_spelling_says_the_same(tmp_path: Path, form: str) -> None:
    (expected,) = _read(tmp_path, WHOLE).tasks
    text = FORMS[form]
    if form == "criteria beside":
        text = text.replace("  Add JWT", "    Add JWT").replace("  Include", "    Include")
    (found,) = _read(tmp_path, text).tasks
    assert found == expected


def test_unknown_keys_are_kept_and_said(tmp_path: Path) -> None:
    text = "- id: a\n  title: t\n  assignee: me\n  created_at: 2026-01-02\n  iteration: 0\n  metadata: {team: [x]}\n"
    reading = _read(tmp_path, text)
    assert reading.tasks[0].metadata == {"team": ["x"], "assignee": "me", "created_at": "2026-01-02", "iteration": 0}
    assert [str(problem) for problem in reading.problems] == [
        "tasks.yaml:3: a: kept in metadata, Ralph has no such keys: assignee, created_at, iteration"
    ]
    reading = _read(tmp_path, "team: p\ntasks:\n- {id: a, title: t, status: completed}\n")
    assert [str(problem) for problem in reading.problems] == ["tasks.yaml:1: not about a task, left out: team"]
    assert (reading.tasks[0].status, reading.tasks[0].metadata) == ("completed", {"imported": "completed"})


def test_texts_for_lists_and_other_names_of_dependencies(tmp_path: Path) -> None:
    text = (
        "- {id: a, title: ' A  task\n  ', acceptance: it works, depends_on: [b, b]}\n- {id: b, title: B, depends: c}\n"
    )
    first, second = _read(tmp_path, text, known_ids=["c"]).tasks
    assert (first.title, first.acceptance_criteria, first.dependencies) == ("A task", ("it works",), ("b",))
    assert second.dependencies == ("c",)


def test_what_a_task_may_change_and_whether_it_runs_alone(tmp_path: Path) -> None:
    (task,) = _read(tmp_path, "{id: a, title: t, may_change: 'tests/**', kind: docs, parallel: false}\n").tasks
    assert (task.may_change, task.kind, task.parallel, task.metadata) == (("tests/**",), "docs", False, {})


BAD_FILES = {
    "": "tasks.yaml: $: has no task: expected `task:`, `tasks:`, `userStories` or a list of tasks",
    "[]\n": "tasks.yaml:1: $: has no task: expected `task:`, `tasks:`, `userStories` or a list of tasks",
    "taks:\n- id: a\n": "tasks.yaml:1: $: has no task: expected `task:`, `tasks:`, `userStories` or a list of tasks",
    "tasks: {id: a}\n": "tasks.yaml:1: $.tasks: expected a list of tasks",
    "task: a\n": "tasks.yaml:1: $.task: expected a task: keys and values",
    "- a\n": "tasks.yaml:1: $[0]: expected a task: keys and values",
    "- id: a\n  title: t\n  id: b\n": "tasks.yaml:3:3: $[0].id: is there twice",
    "task: [\n": "tasks.yaml:2:1: is no valid YAML",
    "task: !x {}\n": "tasks.yaml:1:7: $.task: the YAML tag !x has no meaning here",
    "- {id: a}\n": "tasks.yaml:1: $[0]: `title` is missing",
    "- {id: 1, title: t}\n": "tasks.yaml:1: $[0].id: expected a string, got a whole number",
    "- {id: a/b, title: t}\n": "tasks.yaml:1: $[0].id: may hold only letters",
    "- {id: a, title: ' '}\n": "tasks.yaml:1: $[0].title: must not be empty",
    "- id: a\n  title: t\n  priority: 0\n": "tasks.yaml:3: $[0].priority: expected 1 (the highest) or more, got 0",
    "- id: a\n  title: t\n  status: done\n": "tasks.yaml:3: $[0].status: expected one of pending, completed, got 'done'",
    "- id: a\n  title: t\n  acceptence_criteria: [x]\n": "tasks.yaml:3: $[0].acceptence_criteria: unknown key; did you mean `acceptance_criteria`?",
    "- id: a\n  title: t\n  acceptance_criteria:\n  - fine\n  - Gives 401: Unauthorized\n": "tasks.yaml:5: $[0].acceptance_criteria[1]: expected a string, got an object; a text with a colon needs quotes",
    "- id: a\n  title: t\n  depends_on:\n  - x\n": "tasks.yaml:4: $[0].depends_on[0]: there is no task 'x'",
    "- id: a\n  title: t\n  depends: [a]\n": "tasks.yaml:3: $[0].depends[0]: task 'a' depends on itself",
    "- {id: a, title: t, depends: b}\n- {id: b, title: t, dependencies: a}\n": "tasks.yaml:1: $[0].depends: dependency cycle: a -> b -> a",
    "- {id: a, title: t}\n- {id: A, title: t}\n": "tasks.yaml:2: $[1].id: 'A' is the id of a task that is there already; ids differ by more than case",
    "- {id: a, title: t, spec_id: x, specId: y}\n": "tasks.yaml:1: $[0].specId: is the same key as `spec_id`",
    "task:\n  id: a\n  title: t\n  completion: done\n": "tasks.yaml:4: $.task.completion: expected keys and values",
    "task:\n  id: a\n  title: t\n  outcome: x\n  completion:\n    outcome: y\n": "tasks.yaml:6: $.task.completion.outcome: is the same key as `outcome`, which is there already",
    "task:\n  id: a\n  title: t\n  completion:\n    codr: {}\n": "tasks.yaml:5: $.task.completion.codr: unknown key; did you mean `coder`?",
    "task:\n  id: a\n  title: t\n  completion:\n    qa:\n      verification_method: external\n      verification_config:\n        comand: x\n": "tasks.yaml:8: $.task.completion.qa.verification_config.comand: unknown key; did you mean `command`?",
    "- id: a\n  title: t\n  qa:\n    promise: <x>\n": "tasks.yaml:4: $[0].qa.promise: expected one line of text",
    "- id: a\n  title: t\n  overrides:\n    stop_criteria:\n      success_regex: '('\n": "tasks.yaml:3: $[0].overrides.stopCriteria.successRegex: is no regular expression",
}  # fmt: skip


@each_of("text", BAD_FILES)
def test_a_bad_file_is_refused_with_its_place(tmp_path: Path, text: str) -> None:
    told = _refusal(tmp_path, text)
    assert any(BAD_FILES[text] in line for line in told), told


def test_every_problem_of_every_file_is_told_in_order(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("- {id: x, title: t, priority: 0}\n- {id: y}\n- {id: z, title: t, depends: [x]}\n")
    (tmp_path / "b.yml").write_text("- {id: Z, title: t}\n")
    with pytest.raises(RefusedTasksError) as refusal:
        read_all([tmp_path / name for name in ("a.yaml", "b.yml", "gone.yaml")], root=tmp_path)
    assert [str(problem) for problem in refusal.value.problems] == [
        "a.yaml:1: $[0].priority: expected 1 (the highest) or more, got 0",
        "a.yaml:2: $[1]: `title` is missing",
        "b.yml:1: $[0].id: 'Z' is the id of a task that is there already; ids differ by more than case",
        "gone.yaml: there is no such file",
    ]
    assert str(refusal.value).endswith("(and 3 more)")


def test_files_that_are_no_text_and_bombs(tmp_path: Path) -> None:
    file = tmp_path / "tasks.yaml"
    file.write_bytes(b"- id: \xff\n")
    with pytest.raises(RefusedTasksError, match=r"^tasks.yaml:1: is not UTF-8"):
        read_all([file], root=tmp_path)
    bomb = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
    assert "expands to more than" in _refusal(tmp_path, bomb)[0]
    assert "is nested too deeply" in _refusal(tmp_path, "- " * 5000)[0]
    assert "is larger than" in _refusal(tmp_path, "# " + "x" * 2**20)[0]
