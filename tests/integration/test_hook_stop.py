"""A session's loop, stop by stop: what the hook answers, what it leaves alone, and who else may work meanwhile."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rulebook_ralph.core.model import Task
from rulebook_ralph.loop.session_process import started_in
from rulebook_ralph.state import lock
from tests.harness import CHECK, Project, Ran, make_project, wait_for

DONE = "It is done.\n\n<promise>IMPLEMENTATION_COMPLETE</promise>"
SESSION = "5e551011"


class Session:
    """Stands for Claude Code: this test's parent process is the agent."""

    def __init__(self, project: Project, patch: pytest.MonkeyPatch, *, session_id: str = SESSION) -> None:
        self.project, self.session_id = project, session_id
        self._patch = patch
        self.cwd: Path | None = None
        project.environment.update(CLAUDE_PID=str(os.getppid()), CLAUDE_PROJECT_DIR=str(project.root))

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


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = make_project(tmp_path)
    made.tasks(Task(id="one", title="One"), Task(id="two", title="Two"))
    made.configure(attempts=3)
    return made


@pytest.fixture
def session(project: Project, monkeypatch: pytest.MonkeyPatch) -> Session:
    return Session(project, monkeypatch)


def test_each_stop_judges_settles_and_hands_out_the_next_until_all_is_complete(session: Session) -> None:
    project = session.project
    project.configure(attempts=3, parallel={"workers": 2})
    assert "2 open tasks of 2, at most 6 iterations" in session.begin().out
    first = session.stop("ready")
    assert first["decision"] == "block"
    assert "# Your task: one" in first["reason"]
    refused = session.stop(DONE)
    assert (refused["decision"], "no file differs" in refused["reason"]) == ("block", True)
    project.write({"work/one.txt": "1\n"})
    assert "# Your task: two" in session.stop(DONE)["reason"]
    project.write({"work/two.txt": "2\n"})
    last = session.stop(DONE)
    assert "decision" not in last
    assert "ALL_TASKS_COMPLETE" in last["systemMessage"]
    assert [record.completion_status for record in project.records] == ["failed", "completed", "completed"]
    assert set(project.task_commits()) == {"one", "two"}
    assert session.stop("anything") == {}


def test_the_gates_decide_and_what_is_not_the_agents_is_put_back(session: Session) -> None:
    project = session.project
    session.begin()
    session.stop()
    project.write({"work/one.txt": "1\n", "app.txt": "broken\n"})
    prd = project.folder.prd.read_text()
    project.folder.prd.write_text(prd.replace("in_iteration", "completed"))
    project.git("config", "core.hooksPath", "/nowhere")
    answer = session.stop(DONE)
    assert "app.txt: not sound" in answer["reason"]
    assert "Your task: one" in answer["reason"]
    assert project.task().status == "in_iteration"
    assert project.git("config", "--get", "core.hooksPath", check=False) == ""


def test_a_session_that_leaves_its_base_has_no_part_of_another_commit_in_its_own(session: Session) -> None:
    project = session.project
    session.begin()
    session.stop()
    project.write({"work/one.txt": "1\n"})
    assert "# Your task: two" in session.stop(DONE)["reason"]
    project.git("rm", "-rfq", "work")
    project.git("symbolic-ref", "HEAD", "refs/heads/main")
    project.write({"work/two.txt": "2\n"})
    answer = session.stop(DONE)
    assert "You left another commit checked out" in answer["reason"]
    assert (project.root / "work/one.txt").exists()
    assert project.status() == []
    project.write({"work/two.txt": "2\n"})
    assert "ALL_TASKS_COMPLETE" in session.stop(DONE)["systemMessage"]
    assert {"work/one.txt", "work/two.txt"} <= project.tree().keys()


@pytest.mark.parametrize("planted", ["hooks", "transport"])
def test_nothing_that_the_session_planted_in_gits_configuration_is_run(
    session: Session, tmp_path: Path, planted: str
) -> None:
    project = session.project
    session.begin()
    session.stop()
    project.write({"work/one.txt": "1\n"})
    command = tmp_path / "pre-commit"
    command.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    command.chmod(0o755)
    settings = {"core.hooksPath": str(tmp_path)}
    if planted == "transport":  # git fetches an object that it misses, by a command
        branch = project.git("symbolic-ref", "HEAD")
        settings = {
            "core.repositoryFormatVersion": "1",
            "extensions.partialClone": "far",
            "core.sshCommand": str(command),
        }
        settings |= {"remote.far.promisor": "true", "remote.far.url": "ssh://far/away"}
    for key, value in settings.items():
        project.git("config", key, value)
    if planted == "transport":
        (project.root / ".git" / branch).write_text("1" * 40 + "\n")
    answer = session.stop(DONE)
    assert "put back: config" in answer["systemMessage"]
    assert not (tmp_path / "ran").exists()


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
    (judged, _) = session.project.records
    assert (judged.usage.input_tokens, judged.session_id) == (35, SESSION)
    assert [tool.command for tool in judged.tool_results] == ["ls m2", "ls m3"]
    assert judged.output.endswith(DONE)


def message(name: str, tokens: int) -> str:
    """A line of a transcript: an answer that uses a tool."""
    use = {"type": "tool_use", "id": name, "name": "Bash", "input": {"command": f"ls {name}"}}
    return (
        json.dumps({"type": "assistant", "message": {"id": name, "content": [use], "usage": {"input_tokens": tokens}}})
        + "\n"
    )


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
    session.begin()
    session.stop()
    answer = session.stop(DONE, background_tasks=[{"id": "x"}])
    assert set(answer) == {"systemMessage"}
    assert session.project.last.phase == "executing"


def test_while_the_session_lives_nobody_else_works_and_when_it_is_dead_a_run_goes_on(session: Session) -> None:
    project = session.project
    session.begin()
    session.stop()
    holder = lock.holder(project.root / ".git" / "ralph" / "lock")
    assert holder is not None
    assert (holder.pid, holder.session, holder.is_agent) == (os.getppid(), SESSION, True)
    assert "a Claude Code session" in project.ralph("status").out
    told = project.ralph("status", "--json").json
    assert (told["phase"], told["taskIndex"], told["totalTasks"]) == ("execution", 0, 2)
    assert "a Claude Code session" in project.ralph("run").err
    with subprocess.Popen(["sleep", "60"]) as agent:
        project.environment["CLAUDE_PID"] = "0"
        path = project.root / ".git" / "ralph" / "lock"
        dead = json.loads(path.read_text()) | {"pid": agent.pid, "agent": agent.pid, "started": 0, "agent_started": 0}
        path.write_text(json.dumps(dead))
        assert "a Claude Code session" in project.ralph("run").err
        agent.kill()
    project.agent('mkdir -p work && echo x > "work/$RALPH_TASK.txt"\necho "<promise>$RALPH_PROMISE</promise>"\n')
    assert project.ralph("run", "-q").code == 0
    assert [record.completion_status for record in project.records] == ["interrupted", "completed", "completed"]
    project.environment["CLAUDE_PID"] = str(os.getppid())
    assert not (project.root / ".git" / "ralph" / "session.json").exists()
    assert session.stop(DONE) == {}


def test_a_session_that_was_ended_is_taken_over_though_its_process_lives(session: Session) -> None:
    project = session.project
    session.begin()
    session.stop()
    assert session.hook("end", told=session.event(reason="clear")).code == 0
    assert lock.holder(project.root / ".git" / "ralph" / "lock") is None
    project.agent("exit 1\n")
    project.ralph("run", "-q", "--max-iterations", "1")
    assert project.records[0].completion_status == "interrupted"


@pytest.mark.parametrize("word", ["pause", "cancel"])
def test_orders_from_another_terminal_are_obeyed_at_the_next_stop(session: Session, word: str) -> None:
    project = session.project
    session.begin()
    session.stop()
    project.write({"work/one.txt": "1\n"})
    assert "at its next stop" in project.ralph(word).out
    answer = session.stop(DONE)
    assert "decision" not in answer
    status = {"pause": "completed", "cancel": "cancelled"}[word]
    assert (project.last.completion_status, status in answer["systemMessage"]) == (status, True)
    assert (project.root / "work" / "one.txt").exists() == (word == "pause")


def test_a_slash_command_cancels_and_keeps_progress(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    project = session.project
    session.begin()
    session.stop()
    project.write({"work/one.txt": "1\n"})
    other = Session(project, monkeypatch, session_id="another")
    assert "another session's" in other.hook("cancel", "--session", "another").err
    ran = session.hook("cancel", "--session", SESSION)
    assert (ran.code, "progress.txt is kept" in ran.out) == (0, True)
    assert (project.last.completion_status, project.task().attempts) == ("cancelled", {})
    assert project.folder.progress.exists()
    assert not (project.root / ".git" / "ralph" / "session.json").exists()
    assert session.stop(DONE) == {}


def test_it_never_loops_for_ever(session: Session, tmp_path: Path) -> None:
    session.project.configure(attempts=50)
    session.begin()
    (transcript := tmp_path / "t.jsonl").touch()
    answers = [session.stop("hm", transcript_path=str(transcript)) for _ in range(10)]
    assert [answer.get("decision") for answer in answers[:8]] == ["block"] * 8
    ends = next(index for index, answer in enumerate(answers) if "decision" not in answer)
    assert ends <= 8
    assert session.stop("hm") == {}
    assert all(record.phase == "settled" for record in session.project.records)


def work_before_a_slow_gate(session: Session, command: str) -> Project:
    """The first task's work stands there; its gate runs the command while the file `slow` does too."""
    project = session.project
    project.configure(gates=[{"name": "slow", "kind": "test", "command": f"test ! -e slow || {command}"}])
    session.begin()
    session.stop()
    project.write({"work/one.txt": "1\n", "slow": ""})
    return project


def test_judging_ends_before_the_hooks_timeout_and_says_so(session: Session) -> None:
    project = work_before_a_slow_gate(session, "sleep 30")
    answer = session.stop(DONE, timeout=31)
    assert "decision" not in answer
    assert "ralph verify" in answer["systemMessage"]
    assert (project.last.completion_status, project.task().attempts) == ("interrupted", {})
    assert (project.root / "work" / "one.txt").exists()


def test_a_hook_that_is_killed_is_mended_by_the_next_stop(session: Session) -> None:
    project = work_before_a_slow_gate(session, "(touch run; sleep 61)")
    command = [sys.executable, "-m", "rulebook_ralph", "hook", "stop", "--timeout", "600"]
    environment = {**os.environ, **project.environment, "CLAUDE_PID": str(os.getpid())}
    with subprocess.Popen(command, cwd=project.root, env=environment, stdin=subprocess.PIPE) as hook:
        assert hook.stdin is not None
        hook.stdin.write(session.event(DONE))
        hook.stdin.close()
        wait_for((project.root / "run").exists, "the gate")
        assert f"running: a Claude Code session (its hook is process {hook.pid}, " in project.ralph("status").out
        hook.kill()
    (project.root / "slow").unlink()
    answer = session.stop(DONE)
    assert "The last attempt was interrupted" in answer["reason"]
    assert "two" not in {record.task_id for record in project.records}
    assert "# Your task: two" in session.stop(DONE)["reason"]
    assert [record.completion_status for record in project.records][:2] == ["interrupted", "completed"]


def test_what_stops_a_run_lets_the_session_go_and_says_why(session: Session) -> None:
    project = session.project
    session.begin()
    project.write({"app.txt": "sound\nmine\n"})
    answer = session.stop()
    assert "decision" not in answer
    assert "app.txt" in answer["systemMessage"]
    assert lock.holder(project.root / ".git" / "ralph" / "lock") is None


def test_a_loop_that_cannot_even_begin_leaves_no_lock(session: Session) -> None:
    project = session.project
    session.begin()
    project.git("config", "core.repositoryFormatVersion", "99")
    assert "Ralph: " in session.stop()["systemMessage"]
    project.git("config", "--file", ".git/config", "core.repositoryFormatVersion", "0")
    assert lock.holder(project.root / ".git" / "ralph" / "lock") is None
    assert session.stop() == {}


def test_a_session_whose_shell_went_elsewhere_is_judged_where_it_began(session: Session, tmp_path: Path) -> None:
    project = session.project
    session.begin()
    session.cwd = tmp_path
    assert "# Your task: one" in session.stop()["reason"]
    project.write({"work/one.txt": "1\n"})
    assert "# Your task: two" in session.stop(DONE)["reason"]
    assert session.hook("end", told=session.event()).code == 0
    assert lock.holder(project.root / ".git" / "ralph" / "lock") is None


def test_a_session_begins_only_in_the_project_that_its_hooks_go_by(session: Session, tmp_path: Path) -> None:
    project = session.project
    project.environment["CLAUDE_PROJECT_DIR"] = str(tmp_path)
    ran = session.begin()
    told = f"Claude Code was started in {tmp_path}, outside of this project; start it in {project.root} instead"
    assert (ran.code, told in ran.err) == (2, True)
    assert lock.holder(project.root / ".git" / "ralph" / "lock") is None
    project.environment["CLAUDE_PROJECT_DIR"] = ""
    assert f"Claude Code was started in {started_in(os.getppid())}, outside" in session.begin().err
    project.environment["CLAUDE_PROJECT_DIR"] = str(project.root / ".rulebook-ralph")
    assert session.begin().code == 0


def test_without_the_official_plugin_its_driver_changes_nothing(session: Session) -> None:
    before = sorted(path.name for path in (session.project.root / ".git").iterdir())
    install = session.project.ralph("plugin", "install", "--driver", "ralph-loop")
    for ran in (session.begin("--driver", "ralph-loop"), install):
        assert (ran.code, "/plugin install ralph-loop@claude-plugins-official" in ran.err) == (2, True)
    assert not (session.project.root / ".claude").exists()
    assert sorted(path.name for path in (session.project.root / ".git").iterdir()) == before


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
    log = project.root / ".git" / "ralph" / "session.log"
    assert f"session={SESSION}" in log.read_text()
    log.write_text("some stop\n" * 110_000)
    session.hook("watch", told=session.event(DONE))
    assert log.stat().st_size < 600_000
    assert (log.read_text().splitlines()[0], SESSION in log.read_text()) == ("some stop", True)
    assert session.hook("watch", told=b"{").code == 0

    assert "# Your task: one" in session.hook("turn").out
    assert "# Your task: one" in session.hook("turn").out
    assert "no file differs" in session.hook("turn", "--done", told=DONE.encode()).out
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


def test_the_plugin_is_not_written_through_a_link(project: Project, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (project.root / ".claude").symlink_to(tmp_path / "elsewhere")
    ran = project.ralph("plugin", "install")
    assert (ran.code, "is a link" in ran.err) == (2, True)
    assert list((tmp_path / "elsewhere").iterdir()) == []


PLAN = """# Plan

## Phase 1: Numbers

- [ ] 1.1 [P] Write one
- [ ] 1.2 [P] Write two
- [ ] 1.3 [P] Write three
- [ ] 1.4 [VERIFY] Look at them
"""


def numbered(project: Project, *, verify: str = "") -> None:
    """The tasks of PLAN; each of the first three must make a file, which a command of its own looks for."""
    project.commit(**{"plan.md": PLAN})
    made = [task_of_plan(f"1.{number}", f"Write {word}", word) for number, word in enumerate(WORDS, 1)]
    look = {"qa": {"promise": "VERIFICATION_PASS", **command_for("test -e work/three.txt")}}
    last = Task(
        id="1.4",
        title="Look at them",
        markers=("VERIFY",),
        dependencies=("1.1", "1.2", "1.3"),
        completion=look,
        overrides={"stages": ["qa"]},
        source="plan.md",
    )
    project.tasks(*made, last)
    project.configure(attempts=3)


WORDS = ("one", "two", "three")


def command_for(command: str) -> dict[str, Any]:
    return {"verificationMethod": "external", "verificationConfig": {"command": command}}


def task_of_plan(name: str, title: str, word: str) -> Task:
    criteria = {"promise": "IMPLEMENTATION_COMPLETE", **command_for(f"test -e work/{word}.txt")}
    return Task(
        id=name,
        title=title,
        description=f"The file work/{word}.txt is to be there.",
        acceptance_criteria=(f"work/{word}.txt exists",),
        relevant_files=("check.sh",) if word == "three" else (),
        markers=("P",),
        completion={"coder": criteria},
        source="plan.md",
    )


def test_parallel_tasks_are_handed_out_judged_and_settled_as_one_group(session: Session, tmp_path: Path) -> None:
    project = session.project
    numbered(project)
    (transcript := tmp_path / "t.jsonl").touch()
    session.begin()
    brief = session.stop("ready", transcript_path=str(transcript))["reason"]
    assert "# Your task: 1.1, 1.2, 1.3\n3 tasks at once\n" in brief
    assert "all of them in ONE message with 3 Task calls" in brief
    for number, word in enumerate(WORDS, 1):
        section = brief.partition(f"## Task 1.{number}: Write {word}\n")[2].partition("## Task")[0]
        assert f"The file work/{word}.txt is to be there." in section
        assert f"- work/{word}.txt exists" in section
        assert f"Ralph runs `test -e work/{word}.txt`" in section
    assert {task.iteration_number for task in project.prd.tasks[:3]} == {1}

    with transcript.open("a") as file:
        file.write(message("m1", 100))
    project.write({"work/one.txt": "1\n", "work/three.txt": "3\n"})
    refused = session.stop(DONE, transcript_path=str(transcript))
    first = project.records[0]
    assert first.verdict is not None
    assert (first.verdict.reason, first.failed_count) == ("the criteria are not met: 1.2/coder (exit code 1)", 3)
    assert "The check '1.2/coder' failed" in refused["reason"]
    assert "# Your task: 1.1, 1.2, 1.3" in refused["reason"]
    assert [task.attempts for task in project.prd.tasks[:3]] == [{"coder": 1}] * 3
    assert [task.tokens for task in project.prd.tasks[:3]] == [34, 33, 33]
    assert (project.prd.totals.tokens, project.prd.totals.iterations) == (100, 1)

    project.write({"work/two.txt": "2\n", "check.sh": CHECK + "# more\n"})  # which the third task names
    answer = session.stop(DONE, transcript_path=str(transcript))
    assert "Ralph: 1.1, 1.2, 1.3: completed" in answer["systemMessage"]
    assert "# Your task: 1.4\n" in answer["reason"]
    record = project.records[1]
    assert record.tasks_completed == record.tasks_attempted == ("1.1", "1.2", "1.3")
    landed = str(record.commit)
    assert [project.task(name).settled_iteration for name in record.tasks] == [2, 2, 2]
    trailers = project.git("log", "-1", "--format=%(trailers:key=Ralph-Task,valueonly)", landed).split()
    assert trailers == ["1.1", "1.2", "1.3"]
    assert project.git("log", "-1", "--format=%s", landed) == "Write one; Write two; Write three"
    assert project.changed(landed) == ["check.sh", "plan.md", "work/one.txt", "work/three.txt", "work/two.txt"]
    ticked = project.git("show", f"{landed}:plan.md")
    assert (ticked.count("- [x]"), ticked.count("- [ ]")) == (3, 1)
    assert (project.prd.totals.tokens, project.prd.totals.completed) == (100, 1)

    last = session.stop("All is there.\n\n<promise>VERIFICATION_PASS</promise>", transcript_path=str(transcript))
    assert "ALL_TASKS_COMPLETE" in last["systemMessage"]
    assert all(task.status == "completed" for task in project.prd.tasks)
    assert named_everywhere(project) == []
    assert project.ralph("verify", "1.2").code == 0


def named_everywhere(project: Project) -> list[str]:
    """Where not all of the group are named."""
    told = {
        "progress": project.folder.progress.read_text(),
        "history": project.ralph("history").out,
        "show": project.ralph("show", "2").out,
        "state commits": "\n".join(project.subjects()),
    }
    found = [place for place, text in told.items() if "1.1, 1.2, 1.3" not in text]
    for name in ("1.2", "1.3"):
        of_task = project.ralph("history", "--task", name, "--json").json["iterations"]
        if [each["iterationNumber"] for each in of_task] != [1, 2]:
            found.append(f"history of {name}")
        summary = project.ralph("summary", "--task", name, "--json").json
        if (len(summary["attempts"]), summary["commit"]) != (2, project.records[1].commit):
            found.append(f"summary of {name}")
    return found


def test_a_group_whose_session_died_goes_back_whole_and_is_handed_out_again(session: Session) -> None:
    project = session.project
    numbered(project)
    session.begin()
    session.stop()
    project.write({"work/two.txt": "2\n"})
    assert session.hook("end", told=session.event(reason="clear")).code == 0
    assert "iteration 1 (1.1, 1.2, 1.3)" in project.ralph("task", "unblock", "1.2").err
    session.begin()
    brief = session.stop()["reason"]
    assert (project.records[0].completion_status, project.records[0].tasks_attempted[1:]) == (
        "interrupted",
        ("1.2", "1.3"),
    )
    assert [(task.status, task.attempts) for task in project.prd.tasks[:3]] == [("in_iteration", {})] * 3
    assert "# Your task: 1.1, 1.2, 1.3" in brief
    assert "The last attempt was interrupted" in brief
    project.write({"work/one.txt": "1\n", "work/three.txt": "3\n"})
    assert "# Your task: 1.4\n" in session.stop(DONE)["reason"]
    assert project.changed(str(project.records[1].commit))[1:] == [f"work/{word}.txt" for word in sorted(WORDS)]


@pytest.mark.parametrize(
    ("options", "settings", "handed_out"),
    [
        (("--tasks", "1"), {}, "1.1"),
        (("--tasks", "2"), {}, "1.1, 1.2"),
        ((), {"parallel": {"workers": 2}}, "1.1, 1.2"),
        ((), {"stages": ["coder", "qa"]}, "1.1"),
    ],
)
def test_a_group_is_as_large_as_was_asked_for_and_of_one_stage(
    session: Session, options: tuple[str, ...], settings: dict[str, Any], handed_out: str
) -> None:
    numbered(session.project)
    session.project.configure(**settings)
    session.begin(*options)
    assert f"# Your task: {handed_out}\n" in session.stop()["reason"]


def test_a_task_that_a_person_takes_out_of_a_group_is_left_out_of_its_next_attempt(session: Session) -> None:
    project = session.project
    numbered(project)
    session.begin()
    session.stop()
    project.write({"work/one.txt": "1\n"})
    project.ralph("pause")
    assert "decision" not in session.stop(DONE)
    before = project.prd
    project.tasks(*(replace(task, status="blocked") if task.id == "1.2" else task for task in before.tasks))
    session.begin()
    brief = session.stop()["reason"]
    assert "# Your task: 1.1, 1.3\n2 tasks at once\n" in brief
    assert "The check '1.3/coder' failed" in brief
    project.write({"work/three.txt": "3\n"})
    assert "# Your task: 1.2\n" in session.stop(DONE)["reason"]  # blocked tasks are tried once more, alone
    assert project.records[1].tasks_completed == ("1.1", "1.3")


DIES = """
import os, sys
from rulebook_ralph.core import settling
from rulebook_ralph.entry import main
settling.settled = lambda *_, **__: os._exit(9)
sys.argv[1:] = ["hook", "stop", "--timeout", "600"]
main()
"""
"""The hook, which dies when the commit has landed and the task list does not say so yet."""


def test_a_group_whose_hook_died_while_it_was_settled_is_settled_once_by_the_next_stop(session: Session) -> None:
    project = session.project
    numbered(project)
    session.begin()
    session.stop()
    project.write({f"work/{word}.txt": "1\n" for word in WORDS})
    environment = {**os.environ, **project.environment, "CLAUDE_PID": str(os.getpid())}
    died = subprocess.run(
        [sys.executable, "-c", DIES], cwd=project.root, env=environment, input=session.event(DONE), check=False
    )
    assert died.returncode == 9
    assert (project.last.phase, {task.status for task in project.prd.tasks[:3]}) == ("judged", {"in_iteration"})
    assert "# Your task: 1.4\n" in session.stop(DONE)["reason"]
    assert [record.tasks_completed for record in project.records] == [("1.1", "1.2", "1.3"), ()]
    assert {task.status for task in project.prd.tasks[:3]} == {"completed"}
    trailers = project.git("log", "--format=%(trailers:key=Ralph-Task,valueonly)").split()
    assert sorted(trailers) == ["1.1", "1.2", "1.3"]
