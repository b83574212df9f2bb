"""`ralph plan` with real planners: the API on loopback, an agent as a process; what is added, and when nothing is."""

import json
import os
import shutil
import signal
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from rulebook_ralph.core.model import Prd
from rulebook_ralph.process_table import MARK
from tests.harness import FILES, Project, Ran, finish, make_project, picture, task, wait_for
from tests.integration.test_judging_model import Reply, Server, as_question, said, serving
from tests.terminal import at_terminal

FIRST = {
    "id": "read-numerals",
    "title": "Read Roman numerals",
    "description": "They stand in old books.",
    "priority": 1,
    "dependencies": ["one"],
    "acceptanceCriteria": ["`read('XIV')` gives 14"],
    "outcome": "Numerals are read",
    "relevantFiles": ["app.txt"],
    "completion": {
        "coder": {
            "description": "It reads",
            "verificationMethod": "external",
            "verificationConfig": {"command": "test -f work/read-numerals.txt"},
        }
    },
}
SECOND = {**FIRST, "id": "write-numerals", "title": "Write them", "dependencies": ["read-numerals"], "completion": {}}
PLAN = json.dumps({"questions": [], "tasks": [FIRST, SECOND]})
ASKS = json.dumps({"questions": ["Up to which number?"], "tasks": []})


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = make_project(tmp_path, tasks=[task("one")])
    plans(made, PLAN)
    return made


def plans(project: Project, *answers: str) -> None:
    """The default agent, asked for a plan, gives these in order, the last for ever; it keeps what it was asked."""
    for number, answer in enumerate(answers, 1):
        (project.beside / f"answer{number}").write_text(answer, "utf-8")
    project.agent(
        'n=$(cat "$BESIDE/count" 2>/dev/null || echo 0); n=$((n + 1)); echo $n > "$BESIDE/count"\n'
        'cat > "$BESIDE/asked$n"; pwd > "$BESIDE/folder"; ls -A > "$BESIDE/seen"; echo x > made-by-planner\n'
        f'[ $n -lt {len(answers)} ] || n={len(answers)}; cat "$BESIDE/answer$n"\n'
    )


def refused(project: Project, *arguments: str, code: int = 2) -> str:
    """What stands on stderr; nothing is added."""
    before = picture(project.root, without=lambda path: path.startswith(".git/"))
    ran = project.ralph("plan", *arguments)
    assert ran.code == code, ran
    assert picture(project.root, without=lambda path: path.startswith(".git/")) == before
    return ran.err


def added(project: Project, before: Prd) -> None:
    assert project.prd.tasks[: len(before.tasks)] == before.tasks
    first, second = project.prd.tasks[len(before.tasks) :]
    assert (first.id, first.status, first.dependencies) == ("read-numerals", "pending", ("one",))
    assert first.completion == FIRST["completion"]
    assert (second.id, second.dependencies, second.outcome) == (
        "write-numerals",
        ("read-numerals",),
        "Numerals are read",
    )


def test_an_agent_plans_in_an_empty_folder_and_its_tasks_can_be_done(project: Project) -> None:
    project.write({"wish.md": "# Numerals\n\nRoman ones, please.\n"})
    before = project.prd
    ran = project.ralph("plan", "wish.md", "--yes")
    assert (ran.code, ran.err) == (0, ""), ran
    added(project, before)
    assert "\n+   coder: runs: test -f work/read-numerals.txt\n" in ran.out
    assert ran.out.endswith("added 2 tasks: read-numerals, write-numerals\n")
    asked = (project.beside / "asked1").read_text()
    for shown in (
        "Roman ones, please.",
        "one (pending)",
        "app.txt",
        "docs/guide.md",
        "sh check.sh",
        "# Guide",
    ):
        assert shown in asked
    folder = Path((project.beside / "folder").read_text().strip())
    assert not folder.exists()
    assert not folder.is_relative_to(project.root)
    assert (project.beside / "seen").read_text() == ""
    assert not (project.root / "made-by-planner").exists()

    project.agent('mkdir -p work && echo x > "work/$RALPH_TASK.txt"\necho "<promise>$RALPH_PROMISE</promise>"\n')
    project.commit("a wish", **{"wish.md": (project.root / "wish.md").read_text()})
    assert project.ralph("run").code == 0
    assert {each.status for each in project.prd.tasks} == {"completed"}


def test_the_api_plans_and_what_it_cost_is_told(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    project.configure(
        tools={"planners": [{"id": "big", "name": "The big one", "model": "opus-next"}]},
        prices={"opus-next": {"input": 1000, "output": 1000}},
    )

    def answer(_request: dict[str, Any]) -> Reply:
        return said(PLAN, usage={"input_tokens": 900, "output_tokens": 100})

    before = project.prd
    with serving(answer) as server:
        ran = _with_api(project, server, "plan", "Numerals", "--yes", "--json")
    assert ran.code == 0, ran
    assert (ran.json["added"], ran.json["tokens"], ran.json["costUsd"]) == (True, 1000, 1.0)
    assert [each["id"] for each in ran.json["tasks"]] == ["read-numerals", "write-numerals"]
    assert "asking The big one (opus-next) for a plan" in ran.err
    assert "planned with 1.0k tokens, $1.00" in ran.err
    added(project, before)
    (request,) = server.requests
    assert request["model"] == "opus-next"
    assert "Numerals" in as_question(request).data


def _with_api(project: Project, server: Server, *arguments: str) -> Ran:
    project.environment.update(ANTHROPIC_BASE_URL=server.url, ANTHROPIC_API_KEY="k-123456789")
    return project.ralph(*arguments)


def test_a_refused_answer_is_asked_for_again_once_and_then_nothing_is_added(project: Project) -> None:
    bad = json.dumps({"questions": [], "tasks": [{**FIRST, "id": "../x", "dependencies": ["nobody"]}, SECOND]})
    plans(project, bad, PLAN)
    assert project.ralph("plan", "x", "--json").json["added"] is False
    assert "- $.tasks[0].id: must start with a letter or digit" in (project.beside / "asked2").read_text()

    (project.beside / "count").unlink()
    plans(project, bad)
    lines = refused(project, "x", "--yes", code=5).splitlines()
    assert lines[0] == "error: $.tasks[0].id: must start with a letter or digit"
    assert lines[-1] == "error: the planner's answer cannot be used, and nothing was added"
    assert (project.beside / "count").read_text() == "2\n"


def test_a_planner_is_not_waited_for_beyond_its_time(project: Project) -> None:
    sleeper = {"id": "sleeper", "type": "command", "command": "sleep 30"}
    project.configure(tools={"executors": [sleeper], "planners": [{"id": "p", "executor": "sleeper", "timeout": 0.2}]})
    assert "the planner gave no answer: agent sleeper: no answer within 0.2 s" in refused(project, "x", code=5)


def test_a_person_who_interrupts_gets_no_plan(project: Project) -> None:
    before = project.prd
    project.agent('touch "$BESIDE/started"; exec sleep 30\n')
    process = project.start("plan", "x", "--yes")
    wait_for((project.beside / "started").exists, "the planner")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, err, project.prd) == (130, "", before), out


def test_where_nobody_can_be_asked_the_plan_is_shown_and_nothing_added(project: Project) -> None:
    assert "--yes adds a plan without asking" in refused(project, "x")
    plans(project, ASKS)
    assert "nobody can be asked any more" in refused(project, "x", code=5)
    assert "Nobody can be asked" in (project.beside / "asked2").read_text()


@pytest.mark.parametrize(("typed", "code"), [("1000\ny\n", 0), ("\nn\n", 0)])
def test_at_a_terminal_it_may_ask_and_a_person_agrees(project: Project, typed: str, code: int) -> None:
    plans(project, ASKS, PLAN)
    before = project.prd
    ended, shown = at_terminal(project, "plan", "numerals", typed=typed)
    assert ended == code
    assert shown.count("Up to which number?") == 1
    second = (project.beside / "asked2").read_text()
    assert f"The answer: {'1000' if '1000' in typed else 'decide yourself'}" in second
    assert "at most 2 short questions" in second
    if "y" in typed:
        added(project, before)
    else:
        assert project.prd == before


def test_a_plan_is_added_while_a_run_goes_on(project: Project) -> None:
    """The run works on what was planned for it; its planner is another agent than the one at work."""
    planner = {"id": "planner", "type": "command", "command": f"cat {project.beside}/answer1"}
    worker = {"id": "script", "type": "command", "command": f"sh {project.beside}/agent.sh"}
    project.configure(tools={"executors": [worker, planner]})
    project.agent(
        'if [ $RALPH_TASK = one ]; then touch "$BESIDE/started"; while ! [ -f "$BESIDE/go" ]; do sleep 0.05; done; fi\n'
        'mkdir -p work && echo x > "work/$RALPH_TASK.txt"\necho "<promise>$RALPH_PROMISE</promise>"\n'
    )
    process = project.start("run")
    wait_for((project.beside / "started").exists, "the agent")
    ran = project.ralph("plan", "numerals", "--planner", "planner", "--yes")
    (project.beside / "go").touch()
    assert (ran.code, ran.err) == (0, ""), ran
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, (out, err)
    assert "ralph plan: added 2 tasks" in out
    assert [each.status for each in project.prd.tasks] == ["completed"] * 3


def test_nobody_is_paid_for_a_plan_that_would_be_refused(project: Project) -> None:
    project.agent("kill -9 $PPID\n")
    finish(project.start("run"))
    plans(project, PLAN)
    assert "run 'ralph resume' first" in refused(project, "x", "--yes")
    assert not (project.beside / "count").exists()
    assert len(project.ralph("plan", "x", "--json").json["tasks"]) == 2, "it is only shown"


def test_an_agent_may_not_plan_and_nobody_is_asked_in_vain(project: Project) -> None:
    project.environment[f"{MARK}1_00"] = "1"
    assert "inside an agent's process tree" in refused(project, "x", "--yes")
    del project.environment[f"{MARK}1_00"]
    assert "there is no planner 'nobody'" in refused(project, "x", "--planner", "nobody")
    assert "neither ANTHROPIC_API_KEY" in refused(project, "x", "--planner", "anthropic", code=5)
    assert "amp cannot be held to permissions" in refused(project, "x", "--planner", "amp", code=5)
    assert not (project.beside / "count").exists()


def test_the_planner_of_a_clone_waits_until_a_person_agreed(project: Project) -> None:
    project.commit("with its state")
    shutil.rmtree(Path(os.environ["HOME"]) / ".local")
    assert "agree: ralph trust" in refused(project, "x", "--yes")
    assert not (project.beside / "count").exists()
    assert project.ralph("trust", "--yes").code == 0
    assert project.ralph("plan", "x", "--yes").code == 0


def test_what_is_wanted_must_be_a_text_of_a_bearable_size(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    (project.root / "bytes.md").write_bytes(b"# A\n\xff\n")
    (project.root / "large.md").write_text("x" * 70_000)
    (project.root / "empty.md").write_text(" \n")
    for wanted, problem in (
        ("bytes.md", "bytes.md:2: is not UTF-8"),
        ("large.md", "is longer than 60,000 bytes"),
        ("empty.md", "says nothing"),
        ("missing.md", "there is no file missing.md"),
        ("docs", "is not a regular file"),
        ("", "is not a regular file"),
        ("w" * 70_000, "the text is longer than"),
        ("a\udcffb", "no valid UTF-8"),
    ):
        assert problem in refused(project, wanted, "--yes"), wanted
    for data, problem in ((b"a\xffb", "is not UTF-8 (byte 2)"), ("é".encode() * 40_000, "is longer than 60,000")):
        monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(data)))
        assert problem in refused(project, "-", "--yes")
    assert not (project.beside / "count").exists()
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO("Zahlen, römische".encode())))
    assert project.ralph("plan", "-", "--yes").code == 0
    assert "römische" in (project.beside / "asked1").read_text("utf-8")


def test_without_a_task_list_the_way_to_one_is_told(tmp_path: Path) -> None:
    bare = make_project(tmp_path, tasks=[task("one")], files={**FILES, "Makefile": "test:\n\ttrue\n"})
    told = _without_state(bare)
    command = told.partition(": ralph ")[2].split()
    made = bare.ralph(*command)
    assert (made.code, bare.prd.tasks) == (0, ())
    assert "make test" in made.out
    assert "Next: ralph plan" in made.out
    bare.configure()
    plans(bare, json.dumps({"questions": [], "tasks": [{**FIRST, "dependencies": []}]}))
    assert bare.ralph("plan", "x", "--yes").code == 0
    assert bare.task("read-numerals").title == "Read Roman numerals"


def _without_state(project: Project) -> str:
    project.git("rm", "-q", "-r", "--cached", ".rulebook-ralph", check=False)
    for path in sorted(project.folder.path.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    ran = project.ralph("plan", "x", "--yes")
    assert ran.code == 2
    return ran.err
