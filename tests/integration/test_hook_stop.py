"""A session's loop, stop by stop: what the hook answers, what it leaves alone, and who else may work meanwhile."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from msgspec.structs import replace

from rulebook_ralph.cli import places
from rulebook_ralph.run import lock
from rulebook_ralph.tasks import disk, prd_file
from rulebook_ralph.tasks.model import Task
from tests.harness import Project, Ran, make_project, wait_for
from tests.lineup import judged_by_script

DONE = "It is done.\n\n<promise>IMPLEMENTATION_COMPLETE</promise>"
SESSION = "5e551011"


class Session:
    """Stands for Claude Code: this test's parent process is the agent."""

    def __init__(self, project: Project, patch: pytest.MonkeyPatch, *, session_id: str = SESSION) -> None:
        self.project, self.session_id = project, session_id
        self._patch = patch
        self.cwd: Path | None = None
        project.environment.update(CLAUDE_PID=str(os.getppid()), CLAUDE_PROJECT_DIR=str(project.root))

    @property
    def private(self) -> Path:
        return self.project.root / ".git" / "ralph"

    def hook(self, *arguments: str, told: bytes = b"") -> Ran:
        self._patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(told)))
        return self.project.ralph("hook", *arguments, cwd=self.cwd)

    def begin(self, *options: str) -> Ran:
        return self.hook("begin", "--session", self.session_id, *options)

    def event(self, said: str = "", **more: Any) -> bytes:
        return json.dumps({"session_id": self.session_id, "last_assistant_message": said, **more}).encode()

    def stop(self, said: str = "", *, timeout: int = 600, **more: Any) -> dict[str, Any]:
        ran = self.hook("stop", "--timeout", str(timeout), told=self.event(said, **more))
        assert ran.code == 0
        answer: dict[str, Any] = json.loads(ran.out) if ran.out else {}
        return answer

    def elsewhere(self, *arguments: str) -> Ran:
        """A command in another terminal, which is none of the agent's."""
        with self._patch.context() as patch:
            patch.setattr(places, "_within_run", lambda _: False)
            return self.project.ralph(*arguments)

    def opened(self) -> None:
        """The first task is handed out."""
        assert self.begin().code == 0
        answer = self.stop("ready")
        assert "# Your task: one" in answer.get("reason", ""), answer

    def is_over(self) -> bool:
        return not (self.private / "session.json").exists() and lock.holder(self.private / "lock") is None


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = make_project(tmp_path)
    made.tasks(Task(id="one", title="One", priority=2), Task(id="two", title="Two", priority=2))
    configure(made)
    return made


def configure(project: Project, **settings: Any) -> None:
    """What has no test of its own is not asked about here; the judging model says no to all else."""
    judged = judged_by_script(project.beside.parent, "no")
    project.configure(**{"attempts": 3, **judged, "integrity": {"unproven": "allow"}, **settings})


@pytest.fixture
def session(project: Project, monkeypatch: pytest.MonkeyPatch) -> Session:
    return Session(project, monkeypatch)


def test_each_stop_judges_settles_and_hands_out_the_next_until_all_is_complete(session: Session) -> None:
    project = session.project
    project.write({"mine.txt": "not known to git\n"})
    assert "2 open tasks of 2, at most 6 iterations" in session.begin().out
    first = session.stop("ready")
    assert first.get("decision") == "block", first
    assert "# Your task: one" in first["reason"]
    assert project.git("symbolic-ref", "--short", "HEAD") == "ralph/toy"
    refused = session.stop(DONE)
    assert (refused.get("decision"), "the judging model says no" in refused["systemMessage"]) == ("block", True), (
        refused
    )
    project.write({"work/one.txt": "1\n", "mine.txt": "changed\n"})
    assert "# Your task: two" in session.stop(DONE)["reason"]
    assert "?? work" not in project.git("status", "--short")
    project.write({"work/two.txt": "2\n"})
    last = session.stop(DONE)
    assert "decision" not in last
    assert "ALL_TASKS_COMPLETE" in last["systemMessage"]
    assert [record.completion_status for record in project.records] == ["failed", "completed", "completed"]
    commits = project.task_commits()
    assert [project.changed(commits[name]) for name in ("one", "two")] == [["work/one.txt"], ["work/two.txt"]]
    assert project.subjects()[-1] == "ralph: state"
    assert project.status() == ["?? mine.txt"]
    assert session.is_over()
    assert session.stop("anything") == {}


def test_the_gates_decide_and_the_tree_is_gone_on_with(session: Session) -> None:
    project = session.project
    session.opened()
    project.write({"work/one.txt": "1\n", "app.txt": "broken\n"})
    answer = session.stop(DONE)
    assert "app.txt: not sound" in answer["reason"]
    assert "# Your task: one" in answer["reason"]
    assert (project.root / "app.txt").read_text() == "broken\n"
    project.write({"app.txt": "sound\n"})
    assert "# Your task: two" in session.stop(DONE)["reason"]
    assert project.status() == []


def test_what_is_ralphs_in_the_state_folder_is_put_back_and_a_persons_edit_waits(session: Session) -> None:
    project = session.project
    session.opened()
    project.write({"work/one.txt": "1\n", "app.txt": "broken\n"})
    prd = project.prd
    tasks = [replace(task, status="completed", attempts={"coder": 9}, notes="by hand") for task in prd.tasks]
    project.folder.prd.write_bytes(prd_file.encode_prd(replace(prd, tasks=tuple(tasks))))
    project.folder.config.write_text('{"verification": {"steps": []}}')
    answer = session.stop(DONE)
    assert "app.txt: not sound" in answer["reason"]
    assert "by hand" not in answer["reason"]
    assert [(task.status, task.attempts, task.notes) for task in project.prd.tasks] == [
        ("in_iteration", {"coder": 1}, "by hand"),
        ("pending", {}, "by hand"),
    ]
    configure(project)
    assert session.hook("cancel", "--session", SESSION).code == 0
    assert session.begin().code == 0
    assert "by hand" in session.stop()["reason"]


def test_an_edit_by_command_counts_at_the_next_stop(session: Session) -> None:
    project = session.project
    session.opened()
    assert "at its next stop" in session.elsewhere("task", "add", "three", "Three", "--priority", "1").out
    project.write({"work/one.txt": "1\n"})
    assert "# Your task: three" in session.stop(DONE)["reason"]
    assert [task.id for task in project.prd.tasks] == ["one", "two", "three"]


LEAVES = {
    "a branch of its own": ["switch -q -c mine", "add work", "commit -q -m mine"],
    "a commit": ["add work", "commit -q -m mine"],
    "staged": ["add work/two.txt"],
}
THOROUGH = {"main": ["switch -q main"], "no branch": ["checkout -q --detach"]}


@pytest.mark.parametrize(
    "leaves",
    [
        *(pytest.param(leaves, id=name) for name, leaves in LEAVES.items()),
        *(pytest.param(leaves, id=name, marks=pytest.mark.thorough) for name, leaves in THOROUGH.items()),
    ],
)
def test_what_the_session_does_to_head_branch_and_index_has_no_part_in_its_commit(
    session: Session, leaves: list[str]
) -> None:
    project = session.project
    session.opened()
    project.write({"work/one.txt": "1\n"})
    assert "# Your task: two" in session.stop(DONE)["reason"]
    one = project.git("rev-parse", "HEAD")
    project.write({"work/two.txt": "2\n"})
    for arguments in leaves:
        project.git(*arguments.split())
    project.write({"work/two.txt": "3\n"})
    answer = session.stop(DONE)
    assert "ALL_TASKS_COMPLETE" in answer["systemMessage"], answer
    assert project.git("symbolic-ref", "--short", "HEAD") == "ralph/toy"
    two = project.task_commits()["two"]
    assert (project.git("rev-parse", f"{two}^"), project.changed(two)) == (one, ["work/two.txt"])
    assert project.status() == []
    assert (project.root / "work" / "one.txt").exists()


def message(name: str, tokens: int) -> str:
    """A line of a transcript: an answer that uses a tool."""
    use = {"type": "tool_use", "id": name, "name": "Bash", "input": {"command": f"ls {name}"}}
    content = {"id": name, "content": [use], "usage": {"input_tokens": tokens}}
    return json.dumps({"type": "assistant", "message": content}) + "\n"


def test_what_the_session_and_its_subagents_took_and_did_is_read_from_their_transcripts(
    session: Session, tmp_path: Path
) -> None:
    transcript = tmp_path / "t" / "s.jsonl"
    beside = tmp_path / "t" / "s" / "subagents" / "agent-1.jsonl"
    beside.parent.mkdir(parents=True)
    transcript.write_text(message("m1", 1000) + "noise\n")
    session.begin()
    session.stop("ready", transcript_path=str(transcript))
    with transcript.open("a") as file:
        file.write(message("m2", 5) + message("m2", 5))
    beside.write_text(message("m3", 30))
    session.project.write({"work/one.txt": "1\n"})
    session.stop(DONE, transcript_path=str(transcript))
    judged = session.project.records[0]
    assert judged.usage
    assert (judged.usage.input_tokens, judged.session_id) == (35, SESSION)
    assert [tool.command for tool in judged.tool_results] == ["ls m2", "ls m3"]
    assert judged.output.endswith(DONE)


def test_other_sessions_and_noise_are_left_alone(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Session(session.project, monkeypatch, session_id="another")
    assert other.stop("no loop yet") == {}
    session.begin()
    assert other.stop(DONE) == {}
    for noise in (b"", b"[]", b"{", b'{"session_id": 7}', b"\xff"):
        ran = session.hook("stop", "--timeout", "600", told=noise)
        assert ran.code == 0
        assert "Ralph lets you go" in json.loads(ran.out)["systemMessage"]
    assert "is working on this project" in other.begin().err
    assert session.project.records == []


def test_a_session_waits_for_what_runs_in_the_background(session: Session) -> None:
    session.opened()
    answer = session.stop(DONE, background_tasks=[{"id": "x"}])
    assert set(answer) == {"systemMessage"}
    assert session.project.last.phase == "executing"


def test_while_the_session_lives_nobody_else_works_and_when_it_is_dead_a_run_goes_on(session: Session) -> None:
    project = session.project
    session.opened()
    assert "goes on already" in session.begin().err
    found = lock.holder(session.private / "lock")
    assert found is not None
    assert (found.pid, found.session, found.is_agent) == (os.getppid(), SESSION, True)
    assert "a Claude Code session" in project.ralph("status").out
    assert "a Claude Code session" in project.ralph("run").err
    project.write({"work/one.txt": "half\n", "app.txt": "sound\nmore\n"})
    with subprocess.Popen(["sleep", "60"]) as agent:
        path = session.private / "lock"
        dead = json.loads(path.read_text()) | {"pid": agent.pid, "agent": agent.pid, "started": 0, "agentStarted": 0}
        path.write_text(json.dumps(dead))
        assert "a Claude Code session" in project.ralph("run").err
        agent.kill()
    project.agent('mkdir -p work && echo x >> "work/$RALPH_TASK.txt"\necho "<promise>$RALPH_PROMISE</promise>"\n')
    ran = project.ralph("run", "-q")
    assert ran.code == 0, ran.err
    assert [record.completion_status for record in project.records] == ["interrupted", "completed", "completed"]
    assert (project.root / "work" / "one.txt").read_text() == "half\nx\n"
    assert (project.root / "app.txt").read_text() == "sound\nmore\n"
    assert project.status() == []
    assert session.is_over()
    assert session.stop(DONE) == {}


def test_a_session_that_was_ended_is_taken_over_though_its_process_lives(session: Session) -> None:
    session.opened()
    session.project.write({"work/one.txt": "half\n"})
    assert session.hook("end", told=session.event(reason="clear")).code == 0
    assert lock.holder(session.private / "lock") is None
    assert session.begin().code == 0
    answer = session.stop()
    assert "The last attempt was interrupted" in answer["reason"]
    assert (session.project.root / "work" / "one.txt").read_text() == "half\n"
    assert "# Your task: two" in session.stop(DONE)["reason"]
    assert [record.completion_status for record in session.project.records][:2] == ["interrupted", "completed"]


@pytest.mark.parametrize("word", ["pause", "cancel"])
def test_orders_from_another_terminal_are_obeyed_at_the_next_stop(session: Session, word: str) -> None:
    project = session.project
    session.opened()
    project.write({"work/one.txt": "1\n"})
    assert "at its next stop" in session.elsewhere(word).out
    answer = session.stop(DONE)
    assert "decision" not in answer
    status = {"pause": "completed", "cancel": "cancelled"}[word]
    assert (project.last.completion_status, word in answer["systemMessage"]) == (status, True)
    assert (project.root / "work" / "one.txt").exists() == (word == "pause")
    assert session.is_over()


def test_a_slash_command_cancels_and_keeps_progress(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    project = session.project
    session.opened()
    project.write({"work/one.txt": "1\n"})
    other = Session(project, monkeypatch, session_id="another")
    assert "another session's" in other.hook("cancel", "--session", "another").err
    ran = session.hook("cancel", "--session", SESSION)
    assert (ran.code, "progress.txt is kept" in ran.out) == (0, True)
    assert (project.last.completion_status, project.task().status, project.task().attempts) == (
        "cancelled",
        "pending",
        {},
    )
    assert "work/one.txt" in project.git("ls-tree", "-r", "--name-only", project.snapshots()[1])
    assert project.status() == []
    assert project.folder.progress.exists()
    assert session.is_over()
    assert session.stop(DONE) == {}


@pytest.mark.parametrize(("cap", "told"), [("", "stuck"), ("2", "used no tool")])
def test_it_never_loops_for_ever(session: Session, tmp_path: Path, cap: str, told: str) -> None:
    configure(session.project, attempts=50)
    session.project.environment["CLAUDE_CODE_STOP_HOOK_BLOCK_CAP"] = cap
    session.begin()
    (transcript := tmp_path / "t.jsonl").touch()
    answers = [session.stop("hm", transcript_path=str(transcript)) for _ in range(9)]
    ends = next(index for index, answer in enumerate(answers) if "decision" not in answer)
    assert 1 < ends <= 8
    assert told in answers[ends]["systemMessage"]
    assert answers[-1] == {}
    assert all(record.phase == "settled" for record in session.project.records)


def test_as_many_tasks_are_worked_on_as_were_asked_for(session: Session) -> None:
    session.begin("--tasks", "1")
    assert "# Your task: one" in session.stop()["reason"]
    session.project.write({"work/one.txt": "1\n"})
    answer = session.stop(DONE)
    assert ("decision" in answer, "as were asked for" in answer["systemMessage"]) == (False, True)
    assert [task.status for task in session.project.prd.tasks] == ["completed", "pending"]


def work_before_a_slow_gate(session: Session, beside: Path) -> Project:
    """The first task's work stands there; its gate takes long while the file `slow` stands beside the project."""
    project = session.project
    command = f"touch {beside}/run; test ! -e {beside}/slow || sleep 30"
    configure(project, gates=[{"name": "slow", "kind": "lint", "command": command}])
    session.opened()
    project.write({"work/one.txt": "1\n"})
    (beside / "run").unlink()
    (beside / "slow").touch()
    return project


def test_judging_ends_before_the_hooks_timeout_and_says_so(session: Session, tmp_path: Path) -> None:
    project = work_before_a_slow_gate(session, tmp_path / "beside")
    answer = session.stop(DONE, timeout=31)
    assert "decision" not in answer
    assert "ralph resume" in answer["systemMessage"]
    assert (project.last.completion_status, project.task().attempts) == ("interrupted", {})
    assert "work/one.txt" in project.git("ls-tree", "-r", "--name-only", project.snapshots()[1])
    assert project.status() == []


def test_a_hook_that_is_killed_is_mended_by_the_next_stop(session: Session, tmp_path: Path) -> None:
    project = work_before_a_slow_gate(session, tmp_path / "beside")
    command = [sys.executable, "-m", "rulebook_ralph", "hook", "stop", "--timeout", "600"]
    environment = {**os.environ, **project.environment, "CLAUDE_PID": str(os.getpid())}
    with subprocess.Popen(command, cwd=project.root, env=environment, stdin=subprocess.PIPE) as hook:
        assert hook.stdin is not None
        hook.stdin.write(session.event(DONE))
        hook.stdin.close()
        wait_for((tmp_path / "beside" / "run").exists, "the gate")
        hook.kill()
    (tmp_path / "beside" / "slow").unlink()
    answer = session.stop(DONE)
    assert "The last attempt was interrupted" in answer["reason"]
    assert (project.root / "work" / "one.txt").exists()
    assert "# Your task: two" in session.stop(DONE)["reason"]
    assert [record.completion_status for record in project.records][:2] == ["interrupted", "completed"]


DIES = """
import os, sys
from rulebook_ralph.tasks import lifecycle
from rulebook_ralph.entry import main
lifecycle.settled = lambda *_, **__: os._exit(9)
sys.argv[1:] = ["hook", "stop", "--timeout", "600"]
main()
"""
"""The hook, which dies when the commit has landed and the task list does not say so yet."""


def test_a_hook_that_died_while_it_settled_is_settled_once_by_the_next_stop(session: Session) -> None:
    project = session.project
    session.opened()
    project.write({"work/one.txt": "1\n"})
    environment = {**os.environ, **project.environment, "CLAUDE_PID": str(os.getpid())}
    command = [sys.executable, "-c", DIES]
    died = subprocess.run(command, cwd=project.root, env=environment, input=session.event(DONE), check=False)
    assert died.returncode == 9
    assert (project.last.phase, project.task().status) == ("judged", "in_iteration")
    assert "# Your task: two" in session.stop(DONE)["reason"]
    assert [task.status for task in project.prd.tasks] == ["completed", "in_iteration"]
    assert list(project.task_commits()) == ["one"]


def test_what_stops_a_run_lets_the_session_go_and_says_why(session: Session) -> None:
    project = session.project
    session.begin()
    project.write({"app.txt": "sound\nmine\n"})
    answer = session.stop()
    assert "decision" not in answer
    assert "app.txt" in answer["systemMessage"]
    assert session.is_over()
    assert "app.txt; commit or stash them first" in session.begin().err
    assert (project.root / "app.txt").read_text() == "sound\nmine\n"


def test_a_loop_that_cannot_even_begin_leaves_no_lock(session: Session) -> None:
    project = session.project
    session.begin()
    project.git("config", "core.repositoryFormatVersion", "99")
    assert "Ralph: " in session.stop()["systemMessage"]
    project.git("config", "--file", ".git/config", "core.repositoryFormatVersion", "0")
    assert session.is_over()
    assert session.stop() == {}


def test_a_session_whose_shell_went_elsewhere_is_judged_where_it_began(session: Session, tmp_path: Path) -> None:
    session.begin()
    session.cwd = tmp_path
    assert "# Your task: one" in session.stop()["reason"]
    session.project.write({"work/one.txt": "1\n"})
    assert "# Your task: two" in session.stop(DONE)["reason"]
    assert session.hook("end", told=session.event()).code == 0
    assert lock.holder(session.private / "lock") is None


def test_a_session_begins_only_in_the_project_that_its_hooks_go_by(session: Session, tmp_path: Path) -> None:
    project = session.project
    project.environment["CLAUDE_PROJECT_DIR"] = str(tmp_path)
    ran = session.begin()
    told = f"Claude Code was started in {tmp_path}, outside of this project; start it in {project.root} instead"
    assert (ran.code, told in ran.err) == (2, True)
    assert session.is_over()
    project.environment["CLAUDE_PROJECT_DIR"] = ""
    assert f"Claude Code was started in {psutil.Process(os.getppid()).cwd()}, outside" in session.begin().err
    project.environment["CLAUDE_PROJECT_DIR"] = str(project.root / ".rulebook-ralph")
    assert session.begin().code == 0


def test_without_the_official_plugin_its_driver_changes_nothing(session: Session) -> None:
    install = session.project.ralph("plugin", "install", "--driver", "ralph-loop")
    for ran in (session.begin("--driver", "ralph-loop"), install):
        assert (ran.code, "/plugin install ralph-loop@claude-plugins-official" in ran.err) == (2, True)
    assert not (session.project.root / ".claude").exists()
    assert session.is_over()


def install_official(home: Path) -> None:
    """What stands for the official plugin, for all projects."""
    script = home / "official" / "scripts" / "setup-ralph-loop.sh"
    script.parent.mkdir(parents=True)
    script.write_text('mkdir -p .claude && printf "%s\\n" "$@" > .claude/ralph-loop.local.md\n')
    (home / ".claude" / "plugins").mkdir(parents=True)
    name = "ralph-loop@claude-plugins-official"
    installed = {"version": 2, "plugins": {name: [{"scope": "user", "installPath": str(home / "official")}]}}
    (home / ".claude" / "plugins" / "installed_plugins.json").write_text(json.dumps(installed))
    (home / ".claude" / "settings.json").write_text(json.dumps({"enabledPlugins": {name: True}}))


def test_where_the_official_plugin_drives_the_hook_writes_down_and_the_agent_asks_for_judgement(
    session: Session, surroundings: Path
) -> None:
    project = session.project
    install_official(surroundings)
    assert "ralph hook turn" in session.begin("--driver", "ralph-loop").out
    state = (project.root / ".claude" / "ralph-loop.local.md").read_text()
    assert "--max-iterations\n6\n--completion-promise\nALL_TASKS_COMPLETE" in state

    assert session.stop(DONE) == {}
    watched = session.hook("watch", told=session.event(DONE))
    assert (watched.code, watched.out) == (0, "")
    assert f"session={SESSION}" in (session.private / "session.log").read_text()
    assert session.hook("watch", told=b"{").code == 0

    assert "# Your task: one" in session.hook("turn").out
    assert "# Your task: one" in session.hook("turn").out
    assert "the judging model says no" in session.hook("turn", "--done", told=DONE.encode()).out
    project.write({"work/one.txt": "1\n"})
    assert "# Your task: two" in session.hook("turn", "--done", told=DONE.encode()).out
    project.write({"work/two.txt": "2\n"})
    last = session.hook("turn", "--done", told=DONE.encode()).out
    assert "<promise>ALL_TASKS_COMPLETE</promise>" in last
    assert not (project.root / ".claude" / "ralph-loop.local.md").exists()


def test_the_plugin_is_installed_edited_and_removed(project: Project, surroundings: Path) -> None:
    install_official(surroundings)
    folder = project.root / ".claude" / "skills" / "ralph"
    assert "written" in project.ralph("plugin", "install").out
    assert "up to date" in project.ralph("plugin", "install").out
    assert "written" in project.ralph("plugin", "install", "--driver", "ralph-loop").out
    command = folder / "commands" / "implement.md"
    command.write_text("mine\n")
    (folder / "commands" / "own.md").write_text("mine too\n")
    for word in ("install", "uninstall"):
        ran = project.ralph("plugin", word)
        assert (ran.code, "commands/implement.md" in ran.err) == (2, True)
        assert command.read_text() == "mine\n"
    assert project.ralph("plugin", "uninstall", "--force").code == 0
    assert [path.name for path in folder.rglob("*") if path.is_file()] == ["own.md"]
    (folder / "commands" / "own.md").unlink()
    assert project.ralph("plugin", "uninstall").code == 2


def test_the_plugin_is_not_written_through_a_link(project: Project, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (project.root / ".claude").symlink_to(tmp_path / "elsewhere")
    ran = project.ralph("plugin", "install")
    assert (ran.code, "is a link" in ran.err) == (2, True)
    assert list((tmp_path / "elsewhere").iterdir()) == []


LOADED = """
import atexit, sys
from rulebook_ralph.entry import main
atexit.register(lambda: print(*sorted(sys.modules)))
sys.argv[1:] = ["hook", "stop"]
main()
"""


def test_a_stop_with_nothing_to_do_loads_nothing_of_ralph(session: Session) -> None:
    command = [sys.executable, "-c", LOADED]
    ran = subprocess.run(command, cwd=session.project.root, input=session.event(), capture_output=True, check=True)
    loaded = ran.stdout.decode().split()
    assert [name for name in loaded if name.startswith(("rulebook_ralph", "click", "msgspec", "pathlib"))] == [
        "rulebook_ralph",
        "rulebook_ralph.entry",
    ]
    assert disk.content_of(session.private / "session.json") is None
