"""One run with all that can happen in it, and what must be the same at its end, however often it died on the way."""

import os
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import msgspec
import psutil

from rulebook_ralph.tasks.model import STATE_FOLDER
from tests.crash.points import Order, Plan
from tests.harness import FILES, PROMISE, Project, Ran, make_project, task

_REPOSITORY = Path(__file__).parents[2]
AGENT = (
    'echo "$RALPH_TASK $RALPH_ATTEMPT $RALPH_ITERATION" >> "$BESIDE/calls"\n'
    "mkdir -p work\n"
    'echo "$RALPH_TASK" > "work/$RALPH_TASK.txt"\n'
    'grep -qx "$RALPH_TASK" both.txt || echo "$RALPH_TASK" >> both.txt\n'
    'case "$RALPH_ATTEMPT" in 1) echo broken > app.txt ;; *) echo sound > app.txt; rm -f docs/guide.md ;; esac\n'
    'echo "$RALPH_TASK $RALPH_ITERATION" >> "$BESIDE/begun"\n' + PROMISE
)
"""Each task needs two attempts, and both write to the same place, so that two workers come into conflict."""
_OF_A_PERSON = {"notes.txt": "mine\n", "built.o": "ignored\n", "mine.txt": "edited\n", "staged.txt": "more\n"}


@dataclass(frozen=True, slots=True)
class Ending:
    """What must be the same. `landed` says of each task's commit whether its file is in it. The lines of `files` may
    come in any order.
    """

    code: int
    tasks: dict[str, tuple[str, dict[str, int]]]
    completed: int
    subjects: list[str]
    landed: dict[str, bool]
    status: list[str]
    files: dict[str, list[bytes]]


@dataclass
class Scenario:
    """A project to crash in, with a person's edits in its tree."""

    project: Project
    zygote: "Zygote"
    others: dict[str, str]

    def start(self, *arguments: str, plan: Plan | None = None) -> None:
        project = self.project
        order = Order(
            arguments,
            str(project.root),
            {**os.environ, **project.environment, "TMPDIR": str(project.beside / "tmp")},
            str(project.beside / "out"),
            str(project.beside / "err"),
            plan,
        )
        for name in (order.output, order.errors):  # it may be killed before it opens them
            Path(name).write_bytes(b"")
        self.zygote.start(order)

    def finish(self) -> Ran:
        code = self.zygote.finish()
        beside = self.project.beside
        return Ran(code, (beside / "out").read_text(), (beside / "err").read_text())

    def ralph(self, *arguments: str, plan: Plan | None = None) -> Ran:
        self.start(*arguments, plan=plan)
        return self.finish()

    def kill(self, *, whole_tree: bool) -> None:
        """Ralph alone, or with all that it has started."""
        with suppress(psutil.NoSuchProcess):
            ralph = psutil.Process(self.zygote.pid)
            others = ralph.children(recursive=True) if whole_tree else []
            ralph.kill()
            for process in others:
                with suppress(psutil.NoSuchProcess):
                    process.kill()

    def plan(self, mode: Any, kind: str = "", nth: int = 0, **more: Any) -> Plan:
        beside = self.project.beside
        within = (str(self.project.root), str(self.cache), str(beside / "tmp"))
        return Plan(within, mode, kind, nth, scratch=str(beside / "scratch"), **more)

    @property
    def cache(self) -> Path:
        return self.project.beside / "cache"

    def ending(self, code: int) -> Ending:
        project, prd = self.project, self.project.prd
        own = (".git", STATE_FOLDER)
        work = [path for path in project.root.rglob("*") if path.relative_to(project.root).parts[0] not in own]
        return Ending(
            code=code,
            tasks={each.id: (each.status, each.attempts) for each in prd.tasks},
            completed=prd.totals.completed,
            subjects=sorted(subject for subject in project.subjects() if not subject.startswith("ralph:")),
            landed={name: f"work/{name}.txt" in project.changed(at) for name, at in project.task_commits().items()},
            status=project.status(),
            files={
                path.relative_to(project.root).as_posix(): sorted(path.read_bytes().splitlines())
                for path in work
                if path.is_file()
            },
        )

    def check(self, *, folders: bool = True, cut: bool = False) -> None:
        """What holds of every end, without a look at another; `folders`: those of a moment are gone too. What an agent
        had just written may be gone where the power was `cut`.
        """
        project = self.project
        assert {name: (project.root / name).read_text() for name in _OF_A_PERSON} == _OF_A_PERSON
        assert project.git("diff", "HEAD", "--name-only").split() == ["mine.txt", "staged.txt"]
        assert project.git("diff", "--cached", "--name-only") == "staged.txt"
        assert project.git("show", ":staged.txt") == "staged"
        assert self.others.items() <= project.refs().items()
        self._check_records(cut=cut)
        validated = project.ralph("validate")
        assert validated.code == 0, validated.err + validated.out
        assert (left := left_behind(project, folders=folders)) == [], left
        project.git("fsck", "--no-dangling", "--no-progress")

    def _check_records(self, *, cut: bool) -> None:
        project, records = self.project, self.project.records
        calls, begun = self._lines("calls"), {int(number): name for name, number in self._lines("begun")}
        assert {record.phase for record in records} == {"settled"}
        numbers = [record.iteration_number for record in records]
        assert numbers == list(range(1, len(numbers) + 1)), numbers
        text = project.folder.progress.read_text(errors="replace")
        assert [text.count(f"## End of iteration {number}\n") for number in numbers] == [1] * len(numbers), text
        assert max(Counter(call[2] for call in calls).values()) == 1, f"a number was used twice: {calls}"
        uncounted = {
            str(record.iteration_number)
            for record in records
            if record.completion_status == "interrupted" or (record.verdict and not record.verdict.counts)
        }
        counted = Counter(call[:2] for call in calls if call[2] not in uncounted)
        assert max(counted.values()) == 1, f"done twice: {calls}"
        assert project.prd.totals.iterations == len(records), (project.prd.totals, len(records))
        snapshots = project.snapshots()
        for record in records:
            number = record.iteration_number
            if record.tree is not None and record.tree != project.git("rev-parse", f"{record.base_commit}^{{tree}}"):
                assert record.snapshot == snapshots[number]
            if number in begun and record.snapshot and not (cut and record.completion_status == "interrupted"):
                assert f"work/{begun[number]}.txt" in project.tree(snapshots[number]), f"lost: iteration {number}"
        saved = project.git("rev-parse", f"refs/ralph/{project.name}/state")
        for path in ["prd.json", *(f"history/iteration-{number}.json" for number in numbers)]:
            stands = (project.folder.path / path).read_text().rstrip("\n")
            assert project.git("show", f"{saved}:{STATE_FOLDER}/{path}") == stands, f"stale: {path}"

    def _lines(self, name: str) -> list[tuple[str, ...]]:
        """What the agents noted."""
        return [tuple(line.split()) for line in (self.project.beside / name).read_text().splitlines()]


def left_behind(project: Project, *, folders: bool) -> list[str]:
    """Files and, with `folders`, folders that were for a moment."""
    named = [
        path for folder in (project.folder.path, project.root / ".git") for path in folder.rglob("*") if path.is_file()
    ]
    ends = (".tmp", ".lock", ".replaced")
    private = [path for path in (project.root / ".git/ralph").iterdir() if folders or path.is_file()]
    known = {"lock", "orders", "git", "landing-index", "events.jsonl"}
    return [str(path) for path in named if path.name.endswith(ends)] + [
        path.name for path in private if path.name not in known
    ]


def make_scenario(folder: Path, zygote: "Zygote", *, workers: int) -> Scenario:
    project = make_project(
        folder,
        agent=AGENT,
        files={**FILES, "both.txt": "", "mine.txt": "as it was\n"},
        tasks=[task("one", priority=1), task("two", priority=2)],
        attempts=3,
        parallel={"workers": workers},
    )
    project.git("branch", "other")
    project.write({"app.txt": "stashed\n"})
    project.git("stash", "-q")
    project.write({"staged.txt": "staged\n"})
    project.git("add", "staged.txt")
    project.write(_OF_A_PERSON)
    for name in ("tmp", "scratch", "cache"):
        (project.beside / name).mkdir()
    project.environment["RALPH_CACHE_DIR"] = str(project.beside / "cache")
    return Scenario(project, zygote, project.refs())


class Zygote:
    """The process that forks Ralphs."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": str(_REPOSITORY)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.zygote"],
            cwd=_REPOSITORY,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.pid = 0

    def start(self, order: Order) -> None:
        orders = cast("IO[bytes]", self._process.stdin)
        orders.write(msgspec.json.encode(order) + b"\n")
        orders.flush()
        self.pid = self._answer()

    def finish(self) -> int:
        return os.waitstatus_to_exitcode(self._answer())

    def end(self) -> None:
        self._process.communicate()

    def _answer(self) -> int:
        return int(cast("IO[bytes]", self._process.stdout).readline())
