"""`ralph run --watch` and `ralph resume --watch`: real processes that stay, wait and start again."""

import json
import os
import re
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rulebook_ralph.run import lock
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


def test_it_waits_and_starts_again_as_edits_give_it_something_to_do(tmp_path: Path) -> None:
    project = make_project(tmp_path, agent=AGENT, tasks=[task("one"), task("two")], attempts=1)
    allow(project, "one")
    with watching(project, "run") as watch:
        watch.until("waiting: 1 blocked (two); edit prd.json, or: ralph task unblock two")
        assert lock.holder(project.root / ".git" / "ralph" / "lock") is None
        assert f"watching: process {watch.process.pid} ('ralph run --watch'" in project.ralph("status").out
        assert project.ralph("run", "--watch").code == 2, "one watch is enough"
        allow(project, "two", "three", "four")
        assert project.ralph("task", "unblock", "two").code == 0
        watch.until("starting again: two was unblocked")
        watch.until("waiting: 2 tasks completed; edit prd.json, or: ralph task add")
        whole = project.folder.prd.read_text()
        project.folder.prd.write_text(whole[:-30])
        os.utime(project.folder.prd, (1, 1))
        watch.until("; waiting\n")
        project.folder.prd.write_text(whole)
        add(project, "three")
        watch.until("starting again: three was added")
        watch.until("waiting: 3 tasks completed")
        ran = watch.end()
    assert ran.code == 0, "which is the last run's"
    assert re.search(r"warning: \S+prd\.json:.*; waiting", ran.out), ran.out
    assert ran.out.count("starting again") == 2, "an edit is one start, and no run starts the next"
    assert project.task_commits().keys() == {"one", "two", "three"}


def test_the_state_may_go_and_come_and_a_pause_ends_the_watch(tmp_path: Path) -> None:
    project = make_project(tmp_path, agent=AGENT, attempts=1)
    allow(project, "one", "two")
    aside = tmp_path / "aside"
    with watching(project, "run") as watch:
        watch.until("waiting: 1 task completed")
        project.folder.path.rename(aside)
        watch.until("; waiting\n")
        aside.rename(project.folder.path)
        add(project, "two")
        watch.until("starting again: two was added")
        watch.until("waiting: 2 tasks completed")
        assert project.ralph("pause").code == 0
        assert watch.ended().code == 0
    assert project.ralph("pause").code == 2
    assert project.task_commits().keys() == {"one", "two"}


def test_limits_hold_over_all_runs_of_a_watch(tmp_path: Path) -> None:
    project = make_project(tmp_path, agent=AGENT, attempts=1, limits={"maxIterations": 2})
    allow(project, "one", "two", "three")
    with watching(project, "run") as watch:
        watch.until("waiting: 1 task completed")
        add(project, "two")
        watch.until("at most 1 iteration ")
        ran = watch.ended()
    assert "the watch ends, as of all its runs the limit of 2 iterations is reached" in ran.out
    assert project.task_commits().keys() == {"one", "two"}
