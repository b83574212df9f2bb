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

from rulebook_ralph.core.model import STATE_FOLDER
from tests.crash.points import Order, Plan
from tests.harness import PROMISE, Project, Ran, make_project, task

_REPOSITORY = Path(__file__).parents[2]
AGENT = (
    'echo "$RALPH_TASK $RALPH_STAGE $RALPH_ATTEMPT $RALPH_ITERATION" >> "$BESIDE/calls"\n'
    "mkdir -p work\n"
    'case "$RALPH_TASK $RALPH_STAGE $RALPH_ATTEMPT" in\n'
    '"two coder 1") git checkout -q --detach; echo broken > app.txt; echo first > work/two.txt ;;\n'
    '"two coder 2") echo sound > app.txt; echo second > work/two.txt ;;\n'
    '"two tester 1") test -e work/two.txt; echo tested > work/tested.txt; git config toy.agent was-here; git add -A; git commit -qm own ;;\n'
    '"three coder 1") echo three > app.txt; rm -f docs/guide.md; echo no > work/three.txt; git branch -f theirs; echo a branch is made; exit 0 ;;\n'
    '*) echo "$RALPH_TASK" > "work/$RALPH_TASK.txt"; echo "with $RALPH_TASK" > docs/guide.md ;;\n'
    "esac\n" + PROMISE
)
"""One is made at once; two needs two attempts, then has a second stage; three ends blocked; late comes while two is made."""


@dataclass(frozen=True, slots=True)
class Ending:
    """What must be the same."""

    code: int
    tasks: dict[str, tuple[str, dict[str, int]]]
    totals: tuple[int, int]
    subjects: tuple[str, ...]
    trees: dict[str, dict[str, str]]
    status: tuple[str, ...]
    files: dict[str, bytes]


@dataclass
class Scenario:
    """A project to crash in."""

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
            str(project.beside),
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

    def kill(self, *, household: bool) -> None:
        """Ralph alone, or with all that it has started."""
        with suppress(psutil.NoSuchProcess):
            ralph = psutil.Process(self.zygote.pid)
            others = ralph.children(recursive=True) if household else []
            ralph.kill()
            for process in others:
                with suppress(psutil.NoSuchProcess):
                    process.kill()

    def plan(self, mode: Any, kind: str = "", nth: int = 0, **more: Any) -> Plan:
        beside = self.project.beside
        within = (str(self.project.root), str(beside / "tmp"))
        return Plan(within, mode, kind, nth, scratch=str(beside / "scratch"), **more)

    @property
    def calls(self) -> list[tuple[str, ...]]:
        """Task, stage, attempt and iteration of each agent that worked."""
        return [tuple(line.split()) for line in (self.project.beside / "calls").read_text().splitlines()]

    def ending(self, code: int) -> Ending:
        project = self.project
        prd = project.prd
        work = [path for path in project.root.rglob("*") if path.is_file() and not _is_own(path, project.root)]
        return Ending(
            code=code,
            tasks={task.id: (task.status, task.attempts) for task in prd.tasks},
            totals=(prd.totals.completed, prd.totals.failed),
            subjects=tuple(subject for subject in project.subjects() if not subject.startswith("ralph:")),
            trees={task: project.tree(commit) for task, commit in project.task_commits().items()},
            status=tuple(project.status()),
            files={path.relative_to(project.root).as_posix(): path.read_bytes() for path in work},
        )

    def check(self, *, folders: bool = True) -> None:
        """What holds of every end, without a look at another; `folders`: those of a moment are gone too."""
        project = self.project
        records = project.records
        assert {record.phase for record in records} == {"settled"}
        numbers = [record.iteration_number for record in records]
        assert numbers == list(range(1, len(numbers) + 1)), numbers
        text = project.folder.progress.read_text()
        for number in numbers:
            assert text.count(f"## End of iteration {number}\n") == 1, f"progress of iteration {number}:\n{text}"
        interrupted = {str(record.iteration_number) for record in records if record.completion_status == "interrupted"}
        calls = self.calls
        assert max(Counter(call[3] for call in calls).values()) == 1, f"a number was used twice: {calls}"
        counted = Counter(call[:3] for call in calls if call[3] not in interrupted)
        assert max(counted.values()) == 1, f"done twice: {calls}"
        for record in records:
            if record.tree is not None and record.tree != project.git("rev-parse", f"{record.base_commit}^{{tree}}"):
                assert record.snapshot == project.snapshots()[record.iteration_number]
        assert project.prd.totals.iterations == len(records), (project.prd.totals, len(records))
        assert project.git("diff", "HEAD", "--", ":!.rulebook-ralph") == ""
        assert project.git("diff", "--cached") == ""
        assert "was-here" not in (project.root / ".git/config").read_text()
        if "refs/heads/theirs" in project.refs():  # it may be a person's, unless its agent was heard of afterwards
            assert not any(
                "a branch is made" in project.ralph("show", number, "--output").out for number in interrupted
            )
        assert self.others.items() <= project.refs().items()
        validated = project.ralph("validate")
        assert validated.code == 0, validated.err + validated.out
        assert left_behind(project, folders=folders) == []
        project.git("fsck", "--no-dangling", "--no-progress")


def left_behind(project: Project, *, folders: bool) -> list[str]:
    """Files and, with `folders`, folders that were for a moment."""
    known = {"index", "lock", "state-index", "held", "restored.json"}
    private = {path.name for path in (project.root / ".git/ralph").iterdir()}
    left = [*_named(project.folder.path, ".tmp"), *_named(project.root / ".git", ".lock", ".ralph")]
    return [*left, *(name for name in private - known if folders or not name.startswith("nothing-"))]


def _named(folder: Path, *ends: str) -> list[str]:
    return [str(path) for path in folder.rglob("*") if path.name.endswith(ends)]


def _is_own(path: Path, root: Path) -> bool:
    return path.relative_to(root).parts[0] in (".git", STATE_FOLDER)


def make_scenario(folder: Path, zygote: "Zygote") -> Scenario:
    completion = {"coder": {"maxIterations": 1}}
    project = make_project(
        folder,
        agent=AGENT,
        tasks=[
            task("one", priority=1),
            task("two", priority=2, overrides={"stages": ["coder", "tester"]}),
            task("three", priority=3, completion=completion),
        ],
        attempts=3,
        git={"rollback": "keep"},
    )
    project.git("branch", "other")
    project.write({"app.txt": "stashed\n"})
    project.git("stash", "-q")
    project.write({"notes.txt": "mine\n", "built.o": "ignored\n"})
    for name in ("tmp", "scratch"):
        (project.beside / name).mkdir()
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
