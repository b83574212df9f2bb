"""`ralph task` and `ralph graph` on a real project, and the control socket between real processes."""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rulebook_ralph import control, lineage
from rulebook_ralph.commands.graph import tasks_diagram
from rulebook_ralph.commands.task_options import CLEARABLE
from rulebook_ralph.commands.task_yaml import words_of_yaml, yaml_text
from rulebook_ralph.core import edits, lifecycle
from rulebook_ralph.core.edits import Edit
from rulebook_ralph.core.evidence import Iteration
from rulebook_ralph.core.model import Prd
from rulebook_ralph.core.task_words import words_of
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop.inbox import INSIDE, Inbox
from rulebook_ralph.state import history, lock
from tests.harness import CREATED, Project, make_project, picture, task, wait_for
from tests.sampling import sample

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
        *(
            "add",
            "three",
            "Third",
            "--description",
            "why",
            "--outcome",
            "it runs",
            "--acceptance",
            "a",
            "--acceptance",
            "b",
        ),
        *("--depends", "one", "--depends", "two", "--priority", "2", "--file", "app.txt", "--stages", "coder, qa"),
        *("--coder-promise", "MADE", "--coder-verify-cmd", "make test", "--coder-verify-config", '{"timeout": "2m"}'),
        *(
            "--coder-max-iterations",
            "4",
            "--qa-verify-check",
            "no TODO",
            "--qa-verify-check",
            "{{acceptance_criteria}}",
        ),
        *("--note", "ask Ann"),
    )
    assert answer == "three: added"
    added = project.task("three")
    assert (added.title, added.description, added.outcome, added.acceptance_criteria) == (
        "Third",
        "why",
        "it runs",
        ("a", "b"),
    )
    assert (added.dependencies, added.priority, added.relevant_files) == (("one", "two"), 2, ("app.txt",))
    assert (added.overrides, added.notes, added.status) == ({"stages": ["coder", "qa"]}, "ask Ann", "pending")
    assert added.completion == {
        "coder": {
            "promise": "MADE",
            "verificationMethod": "external",
            "verificationConfig": {"command": "make test", "timeout": 120},
            "maxIterations": 4,
        },
        "qa": {
            "verificationMethod": "semantic",
            "verificationConfig": {"checkFor": ["no TODO", "{{acceptance_criteria}}"]},
        },
    }


def test_what_is_wrong_is_told_by_the_name_of_its_option_a_line_each(project: Project) -> None:
    lines = refused(
        project,
        *("add", "One", "", "--depends", "tow", "--acceptance", "", "--stages", "qa,coder", "--file", ""),
        *("--coder-promise", "<x>", "--coder-verify", "external", "--qa-verify", "semantic"),
        *("--tester-verify-cmd", "x", "--tester-verify-config", '{"comand": 1}'),
        *("--reviewer-verify", "string_match", "--reviewer-verify-config", '{"x": 1}'),
    )
    places = [line.partition(": ")[0] for line in lines]
    assert places[0] == "TITLE"
    wanted = {
        "TITLE",
        "ID",
        "--depends",
        "--acceptance",
        "--file",
        "--stages",
        "--coder-verify-cmd",
        "--qa-verify-check",
    }
    assert {*wanted, "--tester-verify-config", "--reviewer-verify-config"} <= set(places)
    assert any(line == "--depends: there is no task 'tow'; did you mean 'two'?" for line in lines)
    assert [line for line in lines if "\n" in line or len(line) > 300] == []
    (line,) = refused(project, "add", "x", "X", "--qa-verify-config", "{")
    assert line.startswith("--qa-verify-config: is no valid JSON")
    assert project.ralph("task", "add", "x", "X", "--qa-verify", "magic").code == 2


def test_edit_replaces_what_is_given_and_clears_what_is_named(project: Project) -> None:
    said(project, "edit", "two", "--title", "Second", "--priority", "3", "--coder-verify-cmd", "make", "--note", "n")
    changed = project.task("two")
    assert (changed.title, changed.priority, changed.notes, changed.dependencies) == ("Second", 3, "n", ("one",))
    said(
        project,
        "edit",
        "two",
        "--coder-verify-config",
        '{"output_contains": "ok"}',
        "--clear",
        "depends",
        "--clear",
        "notes",
    )
    changed = project.task("two")
    assert changed.completion["coder"]["verificationConfig"] == {"command": "make", "outputContains": "ok"}
    assert (changed.dependencies, changed.notes) == ((), "")
    said(project, "edit", "two", "--clear", "coder")
    assert project.task("two").completion == {}
    assert said(project, "edit", "two", "--title", "Second") == "two: nothing changed"
    assert refused(project, "edit", "too", "--title", "x") == ["there is no task 'too'; did you mean 'two'?"]
    said(project, "edit", "two", "--depends", "one")
    assert refused(project, "edit", "one", "--depends", "two") == ["--depends: dependency cycle: one -> two -> one"]


def test_odd_arguments(project: Project) -> None:
    assert refused(project, "note", "one", "\udcff") == ["what was given is no valid UTF-8 text"]
    assert refused(project, "note", "one", " ") == ["TEXT: must not be empty"]
    (line,) = refused(project, "edit", "one", "--stages", "")
    assert line.startswith("--stages: expected one of coder")
    assert said(project, "edit", "one", "--note", "") == "one: nothing changed"
    assert refused(project, "done", "one", "--reason", " ") == ["--reason: must not be empty"]


def test_everything_that_can_be_cleared_can_be_given() -> None:
    from rulebook_ralph.commands.task_edit import edit_command  # noqa: PLC0415

    options = {name.removeprefix("--") for each in edit_command.params for name in each.opts}
    assert {name for name in CLEARABLE if name not in options} == {"notes", "coder", "reviewer", "tester", "qa"}


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
    meanwhile = "sed -i 's/Do one/Do it/; s/From the editor/From elsewhere/' .rulebook-ralph/prd.json"
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
    ("value", "says"), [("", "no editor is set"), ("no-such-editor", "no-such-editor"), ("false", "ended with 1")]
)
def test_no_editor(project: Project, value: str, says: str) -> None:
    project.environment.update(EDITOR=value, VISUAL="")
    (line,) = refused(project, "edit", "two")
    assert says in line
    for left in Path("/tmp").glob("ralph-two-*.yaml"):
        left.unlink()


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
    shown, _ = words_of_yaml(said(project, "show", "two", "--yaml"), name="x")
    assert shown["completion"] == {"coder": {"promise": "P"}}
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
    record = Iteration(
        iteration_number=1,
        phase="executing",
        task_id="one",
        stage="coder",
        attempt=1,
        agent="script",
        timestamp=CREATED,
        started_at=CREATED,
        base_commit="0" * 40,
    )
    history.create(project.folder, record)
    (line,) = refused(project, "note", "two", "x")
    assert "ended in the middle of iteration 1 (one)" in line
    assert "run 'ralph resume' first" in line
    history.update(project.folder, replace(record, phase="judged"))
    assert said(project, "note", "two", "x") == "two: changed notes"
    assert len(refused(project, "done", "one", "--reason", "r")) == 1
    assert lock_file.read_text() == died, "what the lock says of the dead run stays"


# The control socket


SERVE = """
import sys
from pathlib import Path
from rulebook_ralph.core import edits
from rulebook_ralph.loop.inbox import Inbox
from rulebook_ralph.state import lock, store
from rulebook_ralph.supervisor import Command, run

root = Path(sys.argv[1])
folder, private = store.StateFolder(root), root / ".git" / "ralph"

def take(edit):
    if edit.task_id == "boom":
        raise ValueError("boom")
    applied = edits.apply(store.read_prd(folder), edit, at="2026-01-01T00:00:00.000Z")
    store.write_prd(folder, applied.prd)
    return f"the run says {applied.answer}"

with lock.held(private / "lock", since="now", command="run"), Inbox(private, take, seconds=0.3) as inbox:
    print(inbox.problem or "ready", flush=True)
    for script in sys.stdin:
        said = []
        run(Command(("sh", "-c", script), root, {"PATH": sys.argv[2]}), on_output=said.append)
        print(b"".join(said).decode().strip(), flush=True)
"""
SEND = """
import sys
from pathlib import Path
from rulebook_ralph import control
server, message = int(sys.argv[2]), sys.argv[3].encode()
answer = control.ask(control.address(Path(sys.argv[1]), server), message, server=server, seconds=10)
print(answer)
"""


class Running:
    """A process that holds the project's lock and takes edits as a run does; it runs what it is given as its agent."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.private = project.root / ".git" / "ralph"
        arguments = [sys.executable, "-c", SERVE, str(project.root), os.environ["PATH"]]
        self.process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.line() == "ready"

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def agent(self, script: str) -> str:
        """What an agent of it that is this one-line shell script prints."""
        assert self.process.stdin is not None
        self.process.stdin.write(script + "\n")
        self.process.stdin.flush()
        return self.line()

    def sending(self, edit: Edit) -> str:
        """A shell command that sends the edit past `ralph task`."""
        message = msgspec.json.encode(edit).decode()
        return shlex.join(
            [
                sys.executable,
                "-c",
                SEND.replace("\n", ";").strip(";"),
                str(self.private),
                str(self.process.pid),
                message,
            ]
        )

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(10)
        connection.connect(control.address(self.private, self.process.pid))
        return connection


@pytest.fixture
def running(project: Project) -> Iterator[Running]:
    run = Running(project)
    with run.process:
        yield run
        assert run.process.poll() is None, "nothing that was sent has ended it"
        run.process.kill()


def test_while_a_run_goes_on_it_takes_the_edit(running: Running) -> None:
    project = running.project
    assert said(project, "note", "two", "mind the gap") == "the run says two: changed notes"
    assert project.task("two").notes == "mind the gap"
    assert said(project, "add", "three", "T") == "the run says three: added"
    assert refused(project, "add", "x", "X", "--depends", "tow", "--coder-verify", "external") == [
        "--coder-verify-cmd: `command` is missing",
        "--depends: there is no task 'tow'; did you mean 'two'?",
    ]
    assert refused(project, "remove", "one") == ["two depends on one; change that first"]
    (line,) = refused(project, "remove", "boom")
    assert line == "unexpected error (ValueError: boom)"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no subreaper")
@pytest.mark.parametrize(
    "how",
    sample(
        [
            "{}",
            "env -i {}",
            "setsid env -i {} > out & wait; cat out",
            "(setsid env -i {} > out &) ; while ! [ -s out ]; do sleep 0.02; done; cat out",
        ],
        2,
    ),
)
def test_an_agent_is_refused_by_the_run_however_it_asks(running: Running, how: str) -> None:
    before = running.project.folder.prd.read_bytes()
    answer = running.agent(how.format(running.sending(edits.Done(task_id="one", reason="r"))))
    assert INSIDE in answer
    assert "refused=True" in answer
    assert running.project.folder.prd.read_bytes() == before
    sent = subprocess.run(
        running.sending(edits.Done(task_id="one", reason="r")), shell=True, capture_output=True, text=True, check=True
    )
    assert "completed, on your word" in sent.stdout, "the same from outside"


def test_a_process_that_carries_a_mark_is_refused(running: Running) -> None:
    command = running.sending(edits.Done(task_id="one", reason="r"))
    sent = subprocess.run(
        command, shell=True, capture_output=True, text=True, check=True, env={**os.environ, MARKED: "1"}
    )
    assert INSIDE in sent.stdout


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_another_user_is_told_nothing(running: Running) -> None:
    program = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1].replace('@', chr(0))); print(s.recv(99))"
    place = control.address(running.private, running.process.pid).replace("\0", "@")
    sent = subprocess.run(
        ["python3", "-c", program, place], user=65534, capture_output=True, text=True, check=False, cwd="/"
    )
    assert sent.stdout == "b''\n", sent


def test_what_is_hostile_or_broken_neither_blocks_nor_hurts(running: Running) -> None:
    silent = [running.connect() for _ in range(3)]
    began = time.monotonic()
    assert said(running.project, "note", "one", "x") == "the run says one: changed notes"
    assert time.monotonic() - began < 5
    for connection in silent:
        assert b"did not come within" in control.receive(connection, seconds=5)
        connection.close()
    for message in (
        b"",
        b"{",
        b"\xff" * 100,
        b"[" * 200_000,
        b'{"edit":"add","taskId":"x","words":{"title":3}}',
        b"x" * (control.MOST_BYTES + 9),
    ):
        with running.connect() as connection:
            try:
                control.send(connection, message, seconds=5)
            except OSError:
                assert len(message) > control.MOST_BYTES
            assert b'"refused":true' in control.receive(connection, seconds=5)
    running.connect().close()
    assert said(running.project, "note", "two", "y") == "the run says two: changed notes"
    with running.connect() as connection:  # it does not wait for the answer
        control.send(connection, msgspec.json.encode(edits.Change(task_id="two", note="z")), seconds=5)
    wait_for(lambda: running.project.task("two").notes == "y\nz", "the edit")


def test_a_run_that_takes_no_edits(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rulebook_ralph.commands.task_delivery._LISTENING", 0.1)
    lock_file = project.root / ".git" / "ralph" / "lock"
    with lock.held(lock_file, since="noon", command="init"):
        (line,) = refused(project, "note", "one", "x")
    assert (
        line
        == f"process {os.getpid()} ('ralph init', since noon) is working on this project and takes no edits; wait for it or end it"
    )


def test_a_lock_that_an_agent_wrote_into_holds_nobody_up_for_ever(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "_LOOKS", 3)
    lock_file = project.root / ".git" / "ralph" / "lock"
    with lock.held(lock_file, since="noon", command="run"):
        lock_file.write_text("{}")
        (line,) = refused(project, "note", "one", "x")
    assert line.startswith("something holds the lock")


def test_the_edit_waits_for_a_run_that_is_about_to_end(project: Project) -> None:
    held = lock.held(project.root / ".git" / "ralph" / "lock", since="noon", command="run")
    held.__enter__()
    ending = threading.Timer(0.15, held.__exit__, (None, None, None))
    ending.start()
    assert said(project, "note", "one", "x") == "one: changed notes"
    ending.join()


def test_an_impostor_is_not_talked_to(tmp_path: Path) -> None:
    place = control.address(tmp_path, 1)
    listener = control.listen(place)
    with pytest.raises(RalphError, match=f"process {os.getpid()} answers in place of the running Ralph"):
        control.ask(place, b"{}", server=1, seconds=1)
    control.stop_listening(listener, place)
    assert control.ask(place, b"{}", server=1, seconds=1) is None


def test_where_there_are_no_abstract_names_a_folder_of_the_users_own_holds_the_socket(tmp_path: Path) -> None:
    place = control.address(tmp_path / ("long" * 40), os.getpid(), abstract=False)
    assert len(place.encode()) < 100
    Path(place).parent.mkdir(mode=0o700, exist_ok=True)
    Path(place).touch()
    listener = control.listen(place)
    assert Path(place).parent.stat().st_mode & 0o077 == 0
    serving = threading.Thread(target=lambda: _answer_once(listener))
    serving.start()
    assert control.ask(place, b"hello", server=os.getpid(), seconds=5) == control.Answer("hello")
    serving.join()
    control.stop_listening(listener, place)
    assert not Path(place).exists()
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "link").symlink_to(tmp_path)
    for folder in ("open", "link"):
        with pytest.raises(PermissionError):
            control.listen(str(tmp_path / folder / "socket"))


def _answer_once(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        text = control.receive(connection, seconds=5).decode()
        control.send(connection, msgspec.json.encode(control.Answer(text)), seconds=5)


def test_an_inbox_that_cannot_listen_ends_no_run(tmp_path: Path) -> None:
    with Inbox(tmp_path, lambda _: "") as first, Inbox(tmp_path, lambda _: "") as second:
        assert first.problem == ""
        assert "cannot reach this run" in second.problem


def test_whose_child_a_process_is() -> None:
    child = subprocess.Popen(["sleep", "60"])
    assert lineage.inside(child.pid, os.getpid()) is True
    assert lineage.inside(os.getpid(), child.pid) is lineage.carries_mark(_names_of_this_process())
    child.kill()
    child.wait()
    assert lineage.inside(child.pid, os.getpid()) is None


def _names_of_this_process() -> list[str]:
    entries = Path("/proc/self/environ").read_bytes().split(b"\0") if sys.platform == "linux" else []
    return [os.fsdecode(entry) for entry in entries]


# The graph


def test_graph(project: Project) -> None:
    assert project.ralph("graph", "--lifecycle").out == lifecycle.mermaid()
    tasks = project.ralph("graph", "--tasks").out
    assert tasks.splitlines()[0] == "flowchart TD"
    assert "    t0 --> t1" in tasks.splitlines()
    both = project.ralph("graph").out
    assert re.findall(r"^```mermaid\n(.*?)^```$", both, re.DOTALL | re.MULTILINE) == [tasks, lifecycle.mermaid()]


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_no_title_breaks_the_graph(title: str) -> None:
    prd = Prd(version=1, project="p", tasks=(task("end", title=title, status="blocked"),))
    _, node, style = tasks_diagram(prd).splitlines()
    label = re.fullmatch(r'    t0\["end<br/>(.*)"\]:::blocked', node)
    assert label
    assert re.fullmatch(r"(?:[^\W_]|[ .,_\-:/()]|#\d+;)*", label[1])
    assert style.startswith("    classDef blocked ")
