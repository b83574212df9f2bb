"""`ralph run --watch` and `ralph resume --watch`: real processes that stay, wait and start again."""

import json
import os
import re
import select
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rulebook_ralph.state import lock
from tests.harness import HONEST, Project, Ran, finish, make_project, task, wait_for

AGENT = 'test -e "$BESIDE/$RALPH_TASK" || exit 0\n' + HONEST
"""Does a task once a file of its name lies in the scratch folder; else it changes nothing and is blocked."""


class Watching:
    """A watch as a process, with what it said so far."""

    def __init__(self, project: Project, *arguments: str) -> None:
        self.project = project
        self.said = project.beside / "said"
        self.process = project.start(*arguments, "--watch")
        self._out = b""

    @property
    def out(self) -> str:
        stream = self.process.stdout
        assert stream is not None
        while select.select([stream], [], [], 0)[0] and (block := os.read(stream.fileno(), 65536)):
            self._out += block
        return self._out.decode()

    def until(self, text: str, times: int = 1) -> None:
        try:
            wait_for(lambda: self.out.count(text) >= times, text)
        except AssertionError:
            self.process.kill()
            raise AssertionError(f"{text!r} was not said {times} times: {self.out} {self.ended().err}") from None

    def end(self, number: signal.Signals = signal.SIGINT) -> Ran:
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> Ran:
        ran = finish(self.process)
        return Ran(ran.code, self._out.decode() + ran.out, ran.err)


@contextmanager
def watching(project: Project, *arguments: str) -> Iterator[Watching]:
    watch = Watching(project, *arguments)
    try:
        yield watch
    finally:
        if watch.process.poll() is None:
            watch.process.kill()
            watch.process.communicate()


def allow(project: Project, *names: str) -> None:
    for name in names:
        (project.beside / name).touch()


def add(project: Project, task_id: str) -> None:
    """As an editor does it: written beside, then renamed."""
    listed = json.loads(project.folder.prd.read_text())
    listed["tasks"].append({"id": task_id, "title": f"Do {task_id}"})
    beside = project.folder.path / "prd.json~"
    beside.write_text(json.dumps(listed))
    beside.rename(project.folder.prd)


def ticks(pid: int) -> int:
    """CPU time of a process in nanoseconds, all its threads together."""
    return sum(int(each.read_text().split()[0]) for each in Path(f"/proc/{pid}/task").glob("*/schedstat"))


def test_it_waits_and_starts_again_as_edits_give_it_something_to_do(tmp_path: Path, thorough: bool) -> None:
    project = make_project(tmp_path, agent=AGENT, tasks=[task("one"), task("two")], attempts=1)
    allow(project, "one")
    with watching(project, "run") as watch:
        watch.until("waiting: 1 blocked (two); edit prd.json, or: ralph task unblock two")
        assert lock.holder(project.root / ".git" / "ralph" / "lock") is None
        status = project.ralph("status").out
        assert f"watching: process {watch.process.pid} ('ralph run --watch'" in status
        assert "waiting: 1 blocked (two)" in status
        assert project.ralph("run", "--watch").code == 2, "one watch is enough"
        before = ticks(watch.process.pid)
        burst = project.root / ".git" / "burst"
        burst.mkdir()
        for number in range(5_000 if thorough else 500):
            (burst.parent / f"x{number}").write_text("x")
            (burst / f"{number}").write_text("x")
        assert ticks(watch.process.pid) - before < 50_000_000, "it does not listen to .git"

        allow(project, "two", "three", "four")
        assert project.ralph("task", "unblock", "two").code == 0
        watch.until("starting again: two was unblocked")
        watch.until("waiting: 2 tasks completed; edit prd.json, or: ralph task add")
        whole = project.folder.prd.read_text()
        project.folder.prd.write_text(whole[:-30])
        os.utime(project.folder.prd, (1, 1))
        watch.until("waiting until it is mended")
        project.folder.prd.write_text(whole)
        add(project, "three")
        watch.until("starting again: three was added")
        watch.until("waiting: 3 tasks completed")
        ran = watch.end()
    assert ran.code == 0, "which is the last run's"
    assert re.search(r"warning: \S+prd\.json:\d+:\d+: .*; waiting until it is mended", ran.out)
    assert ran.out.count("waiting until it is mended") == 1
    assert ran.out.count("starting again") == 2, "an edit is one start, and no run starts the next"
    assert project.task_commits().keys() == {"one", "two", "three"}


@pytest.mark.thorough
def test_the_folder_may_go_and_come_and_branches_may_change(tmp_path: Path) -> None:
    """Deleted and restored, moved away, another branch with a list of its own: it waits, and hears of the next edit."""
    project = make_project(tmp_path, agent=AGENT, attempts=1)
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "the list")
    allow(project, "one", "two", "three")
    with watching(project, "resume", "--trust-commands") as watch:
        watch.until("waiting: 1 task completed")
        project.git("switch", "-q", "main")
        watch.until("waiting: main is checked out, and the work is on ralph/toy: git switch ralph/toy")
        project.git("switch", "-q", "ralph/toy")
        watch.until("waiting: 1 task completed", times=2)
        kept = project.root / "kept"
        project.folder.path.rename(kept)
        watch.until("prd.json is gone; put it back")
        kept.rename(project.folder.path)
        watch.until("waiting: 1 task completed", times=3)
        add(project, "two")
        watch.until("starting again: two was added")
        watch.until("waiting: 2 tasks completed")
        ran = watch.end(signal.SIGTERM)
    assert ran.code == 0
    assert ran.out.count("starting again") == 1
    assert project.task_commits().keys() == {"one", "two"}


def _renamed(root: Path, aside: Path) -> None:
    root.rename(aside)


def _copied(root: Path, aside: Path) -> None:
    shutil.copytree(root, aside, symlinks=True)
    shutil.rmtree(root)


def _renamed_beside_another(root: Path, aside: Path) -> None:
    root.rename(aside)
    root.mkdir()


def _without_git(root: Path, aside: Path) -> None:
    aside.mkdir()
    (root / ".git").rename(aside / ".git")


def _without_head(root: Path, aside: Path) -> None:
    aside.mkdir()
    (aside / ".git").mkdir()
    (root / ".git" / "HEAD").rename(aside / ".git" / "HEAD")


def _put_back(root: Path, aside: Path) -> None:
    if (aside / "app.txt").exists():
        if root.exists():
            root.rmdir()
        aside.rename(root)
    elif (aside / ".git" / "HEAD").exists() and not (root / ".git").exists():
        (aside / ".git").rename(root / ".git")
    else:
        (aside / ".git" / "HEAD").rename(root / ".git" / "HEAD")


@pytest.mark.parametrize(
    ("taken", "told"),
    [
        pytest.param(_copied, "toy is gone; put it back"),
        pytest.param(_renamed, "toy is gone; put it back", marks=pytest.mark.thorough),
        pytest.param(_renamed_beside_another, "no git repository any more", marks=pytest.mark.thorough),
        pytest.param(_without_git, "no git repository any more", marks=pytest.mark.thorough),
        pytest.param(_without_head, "git symbolic-ref failed", marks=pytest.mark.thorough),
    ],
)
def test_the_project_itself_may_go_and_come(tmp_path: Path, taken: Callable[[Path, Path], None], told: str) -> None:
    project = make_project(tmp_path, agent=AGENT, attempts=1)
    told = told.replace("toy", project.root.name)
    allow(project, "one", "two")
    aside = project.root.with_name("aside")
    with watching(project, "run") as watch:
        watch.until("waiting: 1 task completed")
        taken(project.root, aside)
        watch.until(told)
        _put_back(project.root, aside)
        watch.until("waiting: 1 task completed", times=2)
        assert f"watching: process {watch.process.pid}" in project.ralph("status").out
        assert project.ralph("run", "--watch").code == 2, "one watch is enough, in the new folder too"
        add(project, "two")
        watch.until("starting again: two was added")
        watch.until("waiting: 2 tasks completed")
        ran = watch.end()
    assert ran.code == 0
    assert ran.out.count(told) == 1
    assert "git is not installed" not in ran.out
    assert project.task_commits().keys() == {"one", "two"}


def test_a_run_whose_project_goes_away_breaks_off_and_goes_on_when_it_is_back(tmp_path: Path) -> None:
    wait = """cd /
test -e "$BESIDE/gone" || { touch "$BESIDE/at"; while test ! -e "$BESIDE/gone"; do sleep 0.01; done; exit 0; }
cd "$OLDPWD"
"""
    project = make_project(tmp_path, agent=wait + HONEST)
    aside = project.root.with_name("aside")
    with watching(project, "run") as watch:
        wait_for((project.beside / "at").exists, "the agent")
        project.root.rename(aside)
        allow(project, "gone")
        watch.until("the run broke off, and goes on when its folder is back: ")
        watch.until("is gone; put it back")
        aside.rename(project.root)
        watch.until("starting again: one can be worked on")
        watch.until("waiting: 1 task completed")
        assert watch.end().code == 0
    assert project.task_commits().keys() == {"one"}
    assert project.ralph("validate").code == 0


@pytest.mark.thorough
def test_a_run_of_another_terminal_is_waited_for_and_cancel_ends_the_watch(tmp_path: Path) -> None:
    wait = 'touch "$BESIDE/at-$RALPH_TASK"; while test ! -e "$BESIDE/$RALPH_TASK"; do sleep 0.01; done\n'
    project = make_project(tmp_path, agent=wait + HONEST, tasks=[task("one"), task("two")])
    other = project.start("run", "--task", "one")
    wait_for((project.beside / "at-one").exists, "the other run's agent")
    with watching(project, "run", "--json") as watch:
        assert watch.process.stderr is not None
        line = watch.process.stderr.readline()
        assert f"waiting: process {other.pid} ('ralph run'" in line
        allow(project, "one")
        assert finish(other).code == 0
        wait_for((project.beside / "at-two").exists, "its own run")
        allow(project, "two")
        wait_for(lambda: "watching: process" in project.ralph("status").out, "the end of its run")
        add(project, "three")
        wait_for((project.beside / "at-three").exists, "the next run")
        assert project.ralph("cancel").code == 0
        ran = watch.ended()
    assert ran.code == 130
    assert (ran.json["stopReason"], ran.json["completedCount"]) == ("cancelled", 0), "one object, the last run's"


def test_it_takes_up_what_a_run_of_another_terminal_left_that_died(tmp_path: Path) -> None:
    script = """test -e "$BESIDE/allowed" || exit 0
test -e "$BESIDE/dying" || { touch "$BESIDE/dying"; sleep 60; }
"""
    project = make_project(tmp_path, agent=script + HONEST, attempts=1)
    with watching(project, "run") as watch:
        watch.until("waiting: 1 blocked (one)")
        allow(project, "allowed")
        other = project.start("run")
        wait_for((project.beside / "dying").exists, "the other run's agent")
        watch.until(f"waiting: process {other.pid} ('ralph run'")
        other.kill()
        finish(other)
        watch.until("starting again: a run that died left work")
        watch.until("waiting: 1 task completed")
        assert project.ralph("pause").out == "no run was going on; the watch ends now\n"
        assert watch.ended().code == 0
    assert project.ralph("pause").code == 2
    assert project.ralph("validate").code == 0
    assert len(project.records) == 3


@pytest.mark.thorough
def test_a_start_that_is_refused_is_said_once_and_limits_hold_over_all_runs(tmp_path: Path) -> None:
    project = make_project(tmp_path, agent=AGENT, attempts=1, limits={"maxIterations": 2})
    allow(project, "one", "two", "three")
    with watching(project, "run") as watch:
        watch.until("waiting: 1 task completed")
        (project.root / "app.txt").write_text("mine\nsound\n")
        add(project, "two")
        watch.until("uncommitted changes: app.txt; commit or stash them first; trying again after an edit")
        project.git("checkout", "-q", "app.txt")
        add(project, "three")
        watch.until("at most 1 iteration ")
        ran = watch.ended()
    assert ran.code == 4
    assert project.task_commits().keys() == {"one", "two"}
    assert ran.out.count("uncommitted changes") == 1
