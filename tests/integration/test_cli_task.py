"""`ralph task`: the task list from the command line, in an editor, and while a run goes on."""

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rulebook_ralph.cli.summary import tasks_diagram
from rulebook_ralph.cli.task_edit import words_of_yaml, yaml_text
from rulebook_ralph.tasks import lifecycle
from rulebook_ralph.tasks.edits import words_of
from rulebook_ralph.tasks.model import Prd
from tests.cases import iteration
from tests.harness import HONEST, Project, finish, make_project, picture, save, task, wait_for

MARKED = "RALPH_MARK_1_00"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path, tasks=[task("one"), task("two", dependencies=("one",))])


def said(project: Project, *arguments: str) -> str:
    """The command's answer; nothing but prd.json is changed."""
    before = picture(project.root, without=_of_the_lock)
    ran = project.ralph("task", *arguments)
    assert (ran.code, ran.err) == (0, ""), ran
    after = picture(project.root, without=_of_the_lock)
    assert {name for name in {**before, **after} if before.get(name) != after.get(name)} <= {".rulebook-ralph/prd.json"}
    return ran.out.strip()


def refused(project: Project, *arguments: str) -> list[str]:
    """The lines with which the command is refused; nothing is changed."""
    before = picture(project.root, without=_of_the_lock)
    ran = project.ralph("task", *arguments)
    assert (ran.code, ran.out) == (2, ""), ran
    assert picture(project.root, without=_of_the_lock) == before
    return [line.removeprefix("error: ") for line in ran.err.splitlines()]


def _of_the_lock(path: str) -> bool:
    return path.startswith(".git/ralph")


# Adding and changing


def test_add_takes_criteria_for_each_stage(project: Project) -> None:
    answer = said(
        project,
        *shlex.split("add three Third --description why --outcome 'it runs' --acceptance a --acceptance b"),
        *shlex.split("--depends one --depends two --priority 2 --file app.txt --stages 'coder, qa' --note 'ask Ann'"),
        *shlex.split("--coder-promise MADE --coder-verify-cmd 'make test' --coder-max-iterations 4"),
        *shlex.split("--qa-verify-check 'no TODO' --qa-verify-check '{{acceptance_criteria}}'"),
    )
    assert answer == "three: added"
    added = project.task("three")
    assert (added.title, added.description, added.outcome) == ("Third", "why", "it runs")
    assert added.acceptance_criteria == ("a", "b")
    assert (added.dependencies, added.priority, added.relevant_files) == (("one", "two"), 2, ("app.txt",))
    assert (added.overrides, added.notes, added.status) == ({"stages": ["coder", "qa"]}, "ask Ann", "pending")
    assert added.completion == {
        "coder": {
            "promise": "MADE",
            "verificationMethod": "external",
            "verificationConfig": {"command": "make test"},
            "maxIterations": 4,
        },
        "qa": {
            "verificationMethod": "semantic",
            "verificationConfig": {"checkFor": ["no TODO", "{{acceptance_criteria}}"]},
        },
    }


def test_a_task_without_outcome_or_criteria_is_warned_of_and_refused_when_strict(project: Project) -> None:
    answer = said(project, "add", "three", "Third", "--acceptance", "it runs", "--parallel")
    assert answer.splitlines()[0] == "three: added"
    assert answer.splitlines()[1].startswith("warning: it has no outcome (--outcome); give them with: ralph task edit")
    assert project.task("three").parallel
    said(project, "edit", "three", "--no-parallel")
    assert not project.task("three").parallel
    (line,) = refused(project, "add", "four", "Fourth", "--strict")
    assert line.startswith("four has no outcome (--outcome) and no criteria (--acceptance")
    assert (
        said(project, "add", "four", "Fourth", "--strict", "--outcome", "o", "--coder-verify-cmd", "make")
        == "four: added"
    )


@pytest.mark.parametrize(
    ("former", "today"),
    [("task-create", "task add"), ("ralph-status", "status"), ("ralph-cancel", "cancel"), ("staus", "status")],
)
def test_a_former_name_or_a_misspelt_one_names_todays_command(project: Project, former: str, today: str) -> None:
    ran = project.ralph(former)
    assert (ran.code, f"did you mean '{today}'?" in ran.err) == (2, True)


def test_what_is_wrong_is_told_by_the_name_of_its_option_a_line_each(project: Project) -> None:
    lines = refused(
        project,
        *("add", "One", "", "--depends", "tow", "--acceptance", "", "--stages", "qa,coder", "--file", ""),
        *("--coder-promise", "<x>", "--coder-verify", "external", "--qa-verify", "semantic"),
        *("--reviewer-promise", ""),
    )
    places = [line.partition(": ")[0] for line in lines]
    assert places[0] == "TITLE"
    wanted = "TITLE ID --depends --acceptance --file --stages --coder-verify-cmd --qa-verify-check"
    assert set(wanted.split()) <= set(places)
    assert any(line == "--depends: there is no task 'tow'; did you mean 'two'?" for line in lines)
    assert [line for line in lines if "\n" in line or len(line) > 300] == []
    assert project.ralph("task", "add", "x", "X", "--qa-verify", "magic").code == 2


def test_edit_replaces_what_is_given(project: Project) -> None:
    said(project, "edit", "two", "--title", "Second", "--priority", "3", "--coder-verify-cmd", "make", "--note", "n")
    changed = project.task("two")
    assert (changed.title, changed.priority, changed.notes, changed.dependencies) == ("Second", 3, "n", ("one",))
    said(project, "edit", "two", "--qa-verify-check", "it reads well", "--acceptance", "a", "--acceptance", "b")
    changed = project.task("two")
    assert changed.acceptance_criteria == ("a", "b")
    assert changed.completion.keys() == {"coder", "qa"}
    assert said(project, "edit", "two", "--title", "Second") == "two: nothing changed"
    assert refused(project, "edit", "too", "--title", "x") == ["there is no task 'too'; did you mean 'two'?"]
    assert refused(project, "edit", "one", "--depends", "two") == ["--depends: dependency cycle: one -> two -> one"]


def test_odd_arguments(project: Project) -> None:
    assert refused(project, "note", "one", "\udcff") == ["what was given is no valid UTF-8 text"]
    assert refused(project, "note", "one", " ") == ["TEXT: must not be empty"]
    (line,) = refused(project, "edit", "one", "--stages", "")
    assert line.startswith("--stages: expected one of coder")
    assert said(project, "edit", "one", "--note", "") == "one: nothing changed"
    assert refused(project, "done", "one", "--reason", " ") == ["--reason: must not be empty"]


# In an editor


def editor(project: Project, script: str) -> None:
    """The person's editor is this sh script on `$1`."""
    path = project.beside / "editor.sh"
    path.write_text(f"set -e\n{script}\n")
    project.environment["EDITOR"] = f"sh {shlex.quote(str(path))}"


def test_without_options_the_task_opens_in_the_editor(project: Project) -> None:
    editor(
        project,
        f'cp "$1" {project.beside}/seen; sed -i \'s/^title: .*/title: From the editor/; s/^notes:.*/notes: |-\\n  a\\n  b/\' "$1"',
    )
    assert said(project, "edit", "two") == "two: changed title, notes"
    changed = project.task("two")
    assert (changed.title, changed.notes, changed.dependencies) == ("From the editor", "a\nb", ("one",))
    seen = (project.beside / "seen").read_text()
    assert seen.startswith("# Task two.")
    assert all(f"\n{key}:" in seen for key in ("title", "description", "acceptanceCriteria", "completion", "outcome"))
    editor(project, "true")
    assert said(project, "edit", "two") == "two: nothing changed"
    meanwhile = f"sed -i 's/Do one/Do it/; s/From the editor/From elsewhere/' {project.folder.prd}"
    editor(project, f"{meanwhile}; sed -i 's/^priority: .*/priority: 5/' \"$1\"")
    assert said(project, "edit", "two") == "two: changed priority"
    assert (project.task("one").title, project.task("two").title) == ("Do it", "From elsewhere")
    assert not list(Path("/tmp").glob("ralph-two-*.yaml"))


def test_what_is_not_valid_is_told_with_its_line_and_the_edit_is_kept(project: Project) -> None:
    editor(project, "sed -i 's/^priority: .*/priority: high/; s/^dependencies:/depends:/' \"$1\"")
    *problems, kept = refused(project, "edit", "two")
    file = re.search(r"--from (\S+)", kept)
    assert file
    text = Path(file[1]).read_text()
    assert {line.partition(": ")[0] for line in problems} == {
        f"{file[1]}:{number}"
        for number, line in enumerate(text.splitlines(), 1)
        if line.startswith(("priority", "depends"))
    }
    Path(file[1]).write_text(text.replace("priority: high", "priority: 7").replace("depends:", "dependencies:"))
    assert said(project, "edit", "two", "--from", file[1]) == "two: changed priority"
    for broken in ("title: [", "", "- a"):
        Path(file[1]).write_text(broken)
        assert len(refused(project, "edit", "two", "--from", file[1])) == 1
    Path(file[1]).unlink()


@pytest.mark.parametrize(
    ("value", "says"), [("", "no editor is set"), ("no-such-editor", "no-such-editor"), ("false", "Editing failed")]
)
def test_no_editor(project: Project, value: str, says: str) -> None:
    project.environment.update(EDITOR=value, VISUAL="")
    (line,) = refused(project, "edit", "two")
    assert says in line
    assert not list(Path("/tmp").glob("ralph-two-*.yaml"))


_texts = st.text(st.characters(codec="utf-8"), max_size=30) | st.sampled_from(
    [
        "a\nb",
        " a\nb",
        "a\n",
        "a \nb",
        "\n",
        "null",
        "2024-01-01",
        "yes",
        "1e3",
        "- a",
        "# a",
        "a: b",
        "a\r\nb",
        "\ufeff",
        "…\n",
        "'",
        "a\n\n b\n",
    ]
)
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(_texts, _values, min_size=1, max_size=4))
def test_words_survive_the_editor(words: dict[str, Any]) -> None:
    assert words_of_yaml(yaml_text(words, heading="Task one."), name="x")[0] == words


def test_a_task_survives_the_editor() -> None:
    words = words_of(task(dependencies=("a",), completion={"qa": {"promise": "P"}}, extra={"odd": [1, {"a": None}]}))
    assert words_of_yaml(yaml_text(words), name="x")[0] == words


# Looking


def test_list_and_show(project: Project) -> None:
    said(project, "edit", "two", "--acceptance", "it holds", "--coder-promise", "P")
    rows = said(project, "list").splitlines()
    assert rows[0].split() == ["status", "task", "priority", "title", "needs"]
    assert rows[2].split() == ["pending", "two", "1", "Do", "two", "one"]
    assert said(project, "list", "--status", "blocked") == "no task is blocked"
    listed = json.loads(said(project, "list", "--json"))["tasks"]
    assert [(each["id"], each["dependencies"]) for each in listed] == [("one", []), ("two", ["one"])]
    assert json.loads(said(project, "show", "two", "--json"))["acceptanceCriteria"] == ["it holds"]
    assert "it holds" in said(project, "show", "two")
    assert refused(project, "show", "tow") == ["there is no task 'tow'; did you mean 'two'?"]
    ran = project.ralph("task", "shwo")
    assert (ran.code, "did you mean 'show'?" in ran.err) == (2, True)


def test_the_statuses_that_a_person_may_set(project: Project) -> None:
    assert said(project, "done", "one", "--reason", "there since v1") == "one: completed, on your word"
    assert (project.task().status, project.task().summary) == ("completed", "there since v1")
    assert said(project, "reopen", "one", "--reason", "no tests") == "one: pending again"
    assert "no tests" in project.task().notes
    assert refused(project, "unblock", "one") == ["one is pending; only a blocked task can be unblocked"]
    assert refused(project, "remove", "one") == ["two depends on one; change that first"]
    assert said(project, "note", "two", "mind the gap") == "two: changed notes"
    assert said(project, "remove", "two") == "two: removed"
    assert [each.id for each in project.prd.tasks] == ["one"]
    assert project.ralph("validate").code == 0


def test_an_agent_is_refused(project: Project) -> None:
    project.environment[MARKED] = "1"
    for arguments in (("add", "x", "X"), ("done", "one", "--reason", "r"), ("edit", "one")):
        (line,) = refused(project, *arguments)
        assert "inside an agent's process tree" in line
    assert project.ralph("task", "list").code == 0


def test_after_a_run_that_was_killed_the_resume_comes_first(project: Project) -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    died = f'{{"pid":{child.pid},"since":"noon","command":"run"}}'
    lock_file = project.root / ".git" / "ralph" / "lock"
    lock_file.parent.mkdir()
    lock_file.write_text(died)
    record = iteration(phase="executing", task_id="one")
    save(project.folder, record)
    (line,) = refused(project, "done", "one", "--reason", "r")
    assert "ended in the middle of #1 (one)" in line
    assert "run 'ralph resume' first" in line
    assert said(project, "note", "two", "x") == "two: changed notes", "its words are nobody else's"
    save(project.folder, replace(record, phase="judged"))
    assert len(refused(project, "done", "one", "--reason", "r")) == 1
    assert lock_file.read_text() == died, "what the lock says of the dead run stays"


# While a run goes on


WAITS = 'touch "$BESIDE/began"; while ! [ -e "$BESIDE/go" ]; do sleep 0.02; done\n' + HONEST


def test_while_a_run_goes_on_it_takes_the_edit(project: Project) -> None:
    project.agent(WAITS)
    process = project.start("run", "--task", "one")
    wait_for(lambda: (project.beside / "began").exists() or process.poll() is not None, "the agent's start")
    assert process.poll() is None, finish(process)
    noted = project.ralph("task", "note", "two", "mind the gap")
    assert (noted.code, noted.out) == (0, "two: changed notes\n"), noted
    wait_for(lambda: project.task("two").notes == "mind the gap", "the note in the file")
    refused_lines = project.ralph("task", "add", "x", "X", "--depends", "tow", "--coder-verify", "external").err
    assert refused_lines.splitlines() == [
        "error: --coder-verify-cmd: `command` is missing",
        "error: --depends: there is no task 'tow'; did you mean 'two'?",
    ]
    at_work = project.ralph("task", "remove", "one").err
    assert "one is being worked on" in at_work
    (project.beside / "go").touch()
    assert finish(process).code == 0
    assert project.task("two").notes == "mind the gap"
    assert project.task("one").status == "completed"


def test_while_a_workspace_is_set_up_a_task_is_taken_at_once_and_has_its_own_attempts(project: Project) -> None:
    beside = project.beside
    setup = f"touch {beside}/began; while ! [ -e {beside}/go ]; do sleep 0.02; done"
    project.configure(attempts=1, workspace={"setup": setup})
    project.tasks(task("one"))
    process = project.start("run")
    wait_for(lambda: (beside / "began").exists() or process.poll() is not None, "the setup's start")
    added = project.ralph("task", "add", "x", "X", "--outcome", "It is x", "--acceptance", "x is there")
    (beside / "go").touch()
    assert added.code == 0, added
    assert finish(process).code == 0
    assert (project.task("x").title, project.task("x").status) == ("X", "completed")


def test_a_status_that_was_set_between_two_runs_stays(project: Project) -> None:
    assert project.ralph("run", "--task", "one").code == 0
    assert said_at_all(project, "reopen", "one", "--reason", "again") == "one: pending again"
    assert said_at_all(project, "done", "two", "--reason", "there") == "two: completed, on your word"
    assert project.ralph("run", "--task", "two").code == 0, "nothing is left to do of it"
    assert (project.task("one").status, project.task("two").status) == ("pending", "completed")


def said_at_all(project: Project, *arguments: str) -> str:
    ran = project.ralph("task", *arguments)
    assert (ran.code, ran.err) == (0, ""), ran
    return ran.out.strip()


def test_two_edits_at_once_are_both_made(project: Project) -> None:
    started = [project.start("task", "note", "one", f"note {number}") for number in range(2)]
    ended = [finish(process) for process in started]
    assert [ran.code for ran in ended] == [0, 0], ended
    assert sorted(project.task("one").notes.splitlines()) == ["note 0", "note 1"]


# The graph


def test_graph(project: Project) -> None:
    assert project.ralph("graph", "--lifecycle").out == lifecycle.mermaid()
    tasks = project.ralph("graph", "--tasks").out
    assert tasks.splitlines()[0] == "flowchart TD"
    assert "    t0 --> t1" in tasks.splitlines()
    project.tasks(task("one", title='Say "hi" & \x1b[31mgo'))
    assert "Say #34;hi#34; #38; go" in project.ralph("graph", "--tasks").out
    tasks, both = project.ralph("graph", "--tasks").out, project.ralph("graph").out
    assert re.findall(r"^```mermaid\n(.*?)^```$", both, re.DOTALL | re.MULTILINE) == [tasks, lifecycle.mermaid()]


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_no_title_breaks_the_graph(title: str) -> None:
    prd = Prd(version=1, project="p", tasks=(task("end", title=title, status="blocked"),))
    _, node, style = tasks_diagram(prd).splitlines()
    label = re.fullmatch(r'    t0\["end<br/>(.*)"\]:::blocked', node)
    assert label
    assert re.fullmatch(r"(?:[^\W_]|[ .,_\-:/()]|#\d+;)*", label[1])
    assert style.startswith("    classDef blocked ")
