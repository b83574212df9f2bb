"""What a run finds that another one, or a person since, has left: it is brought to its end, once."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rulebook_ralph.git.clone import Clone, Clones
from rulebook_ralph.git.repository import open_repository
from rulebook_ralph.run.workers import Worker
from tests.crash.scenario import Scenario, Zygote, make_scenario
from tests.harness import HONEST, PROMISE, Project, finish, make_project, task, wait_for


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    started = Zygote()
    yield started
    started.end()


@pytest.fixture(scope="module")
def landing(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, int]:
    """The numbers of the points where the first landing begins, and where the first task's record is settled after."""
    scenario = make_scenario(tmp_path_factory.mktemp("listing"), zygote, workers=1)
    listing = scenario.project.beside / "points"
    assert scenario.ralph("run", plan=scenario.plan("record", listing=str(listing))).code == 0
    points = [line.split("\t") for line in listing.read_text().splitlines()]
    begins = next(at for at, (_, _, path) in enumerate(points) if path.endswith("/.git/index.lock"))
    moved = [int(number) for kind, number, path in points[begins:] if (kind, path) == ("git", "update-ref")]
    return int(points[begins][1]), moved[1]


@pytest.fixture
def judged(tmp_path: Path, zygote: Zygote, landing: tuple[int, int]) -> Scenario:
    """A run that was killed when the first task was judged complete, and nothing had landed."""
    scenario = make_scenario(tmp_path, zygote, workers=1)
    assert scenario.ralph("run", plan=scenario.plan("kill", "link", landing[0])).code == -signal.SIGKILL
    assert scenario.project.task_commits("ralph/toy") == {}
    return scenario


@pytest.fixture
def landed(tmp_path: Path, zygote: Zygote, landing: tuple[int, int]) -> Scenario:
    """A run that was killed when the first task's commit was on the branch, and its record was not settled yet."""
    scenario = make_scenario(tmp_path, zygote, workers=1)
    assert scenario.ralph("run", plan=scenario.plan("kill", "git", landing[1])).code == -signal.SIGKILL
    assert scenario.project.task_commits("ralph/toy").keys() == {"one"}
    assert scenario.project.last.phase == "judged"
    return scenario


def calls(scenario: Scenario) -> list[str]:
    """Task and attempt of each agent that worked."""
    lines = (scenario.project.beside / "calls").read_text().splitlines()
    return [line.rpartition(" ")[0] for line in lines]


ONCE = ["one 1", "one 2", "two 1", "two 2"]


def commit_own(project: Project) -> None:
    project.write({"own.txt": "own\n"})
    project.git("add", "own.txt")
    project.git("commit", "-q", "-m", "own", "--", "own.txt")


def resume(scenario: Scenario) -> None:
    ran = scenario.ralph("resume")
    assert ran.code == 0, ran.out + ran.err
    scenario.check()
    assert scenario.project.task_commits("ralph/toy").keys() == {"one", "two"}


def test_judged_work_is_settled_as_it_was_judged(judged: Scenario) -> None:
    resume(judged)
    assert calls(judged) == ONCE


def test_judged_work_whose_branch_moved_is_done_on_top_of_that_and_not_counted(judged: Scenario) -> None:
    commit_own(judged.project)
    assert judged.ralph("resume").code == 0
    assert calls(judged) == ["one 1", "one 2", "one 2", "two 1", "two 2"]
    assert judged.project.subjects()[0] == "own"
    assert judged.project.task("one").attempts == {"coder": 2}


def test_landed_work_is_recognised_on_a_rebased_branch(landed: Scenario) -> None:
    project = landed.project
    tip = project.git("rev-parse", "HEAD")
    own = project.git("commit-tree", "-p", f"{tip}^", "-m", "own", f"{tip}^^{{tree}}")
    message = project.git("log", "-1", "--format=%B", tip)
    again = project.git("commit-tree", "-p", own, "-m", message, f"{tip}^{{tree}}")
    project.git("update-ref", "refs/heads/ralph/toy", again)
    resume(landed)
    assert calls(landed) == ONCE
    assert project.records[1].commit == again


def test_landed_work_is_settled_with_commits_on_top_of_it(landed: Scenario) -> None:
    commit_own(landed.project)
    resume(landed)
    assert calls(landed) == ONCE


@pytest.mark.parametrize("lost", [False, True])
def test_judged_work_outlives_git_gc(judged: Scenario, lost: bool) -> None:
    """Its commit is held; where it is lost all the same, as a power cut may do, the work is judged again."""
    judged.project.git("reflog", "expire", "--all", "--expire=now")
    judged.others = {}
    if lost:
        judged.project.git("update-ref", "-d", "refs/ralph/toy/candidate")
    judged.project.git("gc", "-q", "--prune=now")
    ran = judged.ralph("resume")
    assert ran.code == 0, ran.out + ran.err
    assert lost or calls(judged) == ONCE
    assert judged.project.task_commits("ralph/toy").keys() == {"one", "two"}
    assert {record.phase for record in judged.project.records} == {"settled"}


def test_the_list_of_an_older_save_takes_nothing_back(tmp_path: Path) -> None:
    project = make_project(tmp_path, agent=HONEST, tasks=[task("one"), task("two")])
    older = project.folder.prd.read_bytes()
    assert project.ralph("run").code == 0
    state = f"refs/ralph/{project.name}/state"
    saves = project.git("rev-list", state).splitlines()
    between = project.git("show", f"{saves[len(saves) // 2]}:.rulebook-ralph/prd.json").encode() + b"\n"
    for data in (older, between):
        project.folder.prd.write_bytes(data)
        assert project.ralph("run").code == 0
        assert [each.status for each in project.prd.tasks] == ["completed", "completed"]
    assert len(project.records) == 2


def test_files_that_a_dead_run_had_not_written_yet_are_written(tmp_path: Path) -> None:
    project = make_project(tmp_path, agent=HONEST)
    assert project.ralph("run").code == 0
    record, text = project.folder.iteration(1), project.folder.progress.read_text()
    settled = record.read_bytes()
    record.write_bytes(project.git("show", f"refs/ralph/toy/state~1:.rulebook-ralph/history/{record.name}").encode())
    project.folder.progress.write_text(text.partition("## Iteration 1 ")[0])
    assert project.ralph("run").code == 0
    assert record.read_bytes() == settled
    assert project.folder.progress.read_text().count("## End of iteration 1\n") == 1


SLEEPS = 'mkdir -p work; echo part > "work/$RALPH_TASK.txt"; touch "$BESIDE/begun"; sleep 30\n'


def killed(project: Project, *, number: int = signal.SIGKILL) -> None:
    """Run, and kill Ralph while the agent works."""
    process = project.start("run")
    wait_for((project.beside / "begun").exists, "the agent's first file")
    process.send_signal(number)
    finish(process)


def test_what_an_interrupted_agent_left_is_gone_on_from(tmp_path: Path) -> None:
    project = make_project(tmp_path, agent=SLEEPS)
    killed(project)
    project.agent('test "$(cat work/one.txt)" = part; echo whole > work/one.txt\n' + PROMISE)
    assert project.ralph("resume").code == 0
    interrupted, completed = project.records
    assert (interrupted.completion_status, interrupted.attempt, completed.attempt) == ("interrupted", 1, 1)
    assert project.git("show", f"{project.snapshots()[1]}:work/one.txt") == "part"
    assert project.task().attempts == {"coder": 1}


def test_without_its_clone_an_interrupted_attempt_is_begun_anew(tmp_path: Path) -> None:
    project = make_project(tmp_path, agent=SLEEPS)
    project.environment["RALPH_CACHE_DIR"] = str(project.beside / "cache")
    killed(project)
    shutil.rmtree(project.beside / "cache")
    project.agent("test ! -e work\n" + HONEST)
    assert project.ralph("resume").code == 0
    assert [record.completion_status for record in project.records] == ["interrupted", "completed"]


def test_a_torn_clone_keeps_no_run_from_beginning(tmp_path: Path) -> None:
    project = make_project(tmp_path, agent=SLEEPS)
    project.environment["RALPH_CACHE_DIR"] = str(project.beside / "cache")
    killed(project)
    for index in (project.beside / "cache").glob("*/agent-1.git/index"):
        index.write_bytes(index.read_bytes()[:40])
    project.agent(HONEST)
    resumed = project.ralph("resume")
    assert resumed.code == 0, resumed.out + resumed.err


def test_what_stood_in_a_clone_before_an_attempt_began_is_none_of_its_work(tmp_path: Path) -> None:
    """Two task lists of one repository count their iterations from 1 each."""
    repository = open_repository(make_project(tmp_path).root, os.environ)
    clone, head = Clones(repository, tmp_path / "cache").open("agent-1"), repository.head()

    def prepare(clone: Clone, commit: str, tree: str, *, keep: bool) -> None:
        clone.hold(commit, tree=tree, keep=keep)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    def worker(prepare: Callable[..., None]) -> Worker:
        tools: Any = SimpleNamespace(roster=None, ledger=None, workspace=SimpleNamespace(prepare=prepare))
        return Worker(clone, tools, 1, lambda _: None)

    worker(prepare).prepare(head, repository.tree_of(head))
    (clone.root / "left.txt").write_text("of another list")
    assert worker(prepare).left() not in (None, repository.tree_of(head))
    with pytest.raises(KeyboardInterrupt):
        worker(killed).prepare(head, repository.tree_of(head))
    assert worker(killed).left() is None


def test_a_setup_that_fails_ends_the_run_in_one_line_and_is_recovered(tmp_path: Path) -> None:
    """With three workers, whose gates need no setup that fails: it does so in agents' clones alone."""
    setup = 'case "$RALPH_TASK" in "") ;; esac; test ! -e broken || { echo no such package >&2; exit 7; }'
    project = make_project(
        tmp_path,
        agent=HONEST,
        tasks=[task("one"), task("two")],
        parallel={"workers": 3},
        workspace={"setup": setup},
        files={"app.txt": "sound\n", "check.sh": "exit 0\n", "broken": ""},
    )
    ran = project.ralph("run")
    assert ran.code == 2, ran.out + ran.err
    assert ran.err.startswith("error: workspace.setup failed (exit code 7)")
    assert "no such package" in ran.err
    assert "Traceback" not in ran.err
    project.git("rm", "-q", "broken")
    project.git("commit", "-q", "-m", "mended", "--", "broken")
    again = project.ralph("run")
    assert again.code == 0, again.out + again.err
    assert {record.phase for record in project.records} == {"settled"}
    assert project.task_commits().keys() == {"one", "two"}


def test_interrupted_while_a_workspace_is_set_up(tmp_path: Path) -> None:
    """It says so, and leaves nothing but what the next run recovers."""
    slow = f"touch '{tmp_path}/beside/begun'; sleep 30"
    project = make_project(tmp_path, agent=HONEST, workspace={"setup": slow}, sandbox={"mode": "off"})
    process = project.start("run")
    wait_for((project.beside / "begun").exists, "the setup")
    process.send_signal(signal.SIGINT)
    ran = finish(process)
    assert ran.code == 130, ran.out + ran.err
    assert "unexpected" not in ran.err
    assert "Traceback" not in ran.err
    project.configure()
    assert project.ralph("resume").code == 0


def test_the_lock_of_a_dead_run_keeps_nobody_out_and_its_temporary_files_go(tmp_path: Path) -> None:
    project = make_project(tmp_path, agent=SLEEPS)
    killed(project)
    left = [
        project.folder.path / ".prd.json.99999999.tmp",
        project.folder.history / ".iteration-1.json.99999999.tmp",
        project.root / ".git/ralph/marks-99999999-abcdefgh",
        project.root / ".git/ralph/output-7.log",
    ]
    for path in left:
        path.write_text("half")
    project.agent(HONEST)
    assert project.ralph("run").code == 0
    assert [path for path in left if path.exists()] == []
    assert list((project.root / ".git/ralph").glob("output-*")) == []


def test_processes_of_an_agent_outside_a_sandbox_end_with_the_next_run(tmp_path: Path) -> None:
    stays = 'sleep 300 > /dev/null 2>&1 & echo $! > "$BESIDE/pid"; ' + SLEEPS
    project = make_project(tmp_path, agent=stays, sandbox={"mode": "off"})
    killed(project)
    pid = (project.beside / "pid").read_text().strip()
    project.agent(HONEST)
    assert project.ralph("run").code == 0
    time.sleep(0.1)
    living = subprocess.run(["ps", "-o", "stat=", "-p", pid], capture_output=True, text=True, check=False).stdout
    assert living.strip()[:1] in ("", "Z")
