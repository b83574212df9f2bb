"""A run with three workers and all that can happen in it, and what of its end does not depend on who was faster."""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import psutil

from rulebook_ralph.core.evidence import MERGE, Iteration
from rulebook_ralph.core.model import PARALLEL, VERIFY
from tests.crash.points import Plan
from tests.crash.scenario import Scenario, Zygote, left_behind
from tests.harness import PROMISE, TESTS, make_project, task

AGENT = (
    'echo "$RALPH_TASK $RALPH_STAGE $RALPH_ATTEMPT $RALPH_ITERATION" >> "$BESIDE/calls"\n'
    "mkdir -p work\n"
    '[ "$RALPH_STAGE" = qa ] || echo "$RALPH_TASK" > "work/$RALPH_TASK.txt"\n'
    'echo "$RALPH_TASK $RALPH_ITERATION" >> "$BESIDE/begun"\n'
    "sleep 0.1\n"
    'case "$RALPH_TASK $RALPH_ATTEMPT" in\n'
    '"left "*|"right "*) grep -qx "$RALPH_TASK" both.txt || echo "$RALPH_TASK" >> both.txt ;;\n'
    '"twice 1") echo broken > app.txt ;;\n'
    '"twice 2") echo sound > app.txt; rm -f docs/guide.md; git add -A; git commit -qm own ;;\n'
    '"never "*) echo three > app.txt; exit 0 ;;\n'
    "esac\n" + PROMISE
)
"""left and right write to the same place; twice needs two attempts; never ends blocked; check looks at what was done, and
nobody works beside it; after waits for it.
"""
FILES = {
    "app.txt": "sound\n",
    "check.sh": "#!/bin/sh\ngrep -q '^sound$' app.txt || { echo 'app.txt: not sound' >&2; exit 1; }\n",
    "docs/guide.md": "# Guide\n",
    "both.txt": "",
    "mine.txt": "as it was\n",
    ".gitignore": "*.o\n",
}
_OF_A_PERSON = {"notes.txt": "mine\n", "built.o": "ignored\n", "mine.txt": "edited\n", "staged.txt": "more\n"}


@dataclass(frozen=True, slots=True)
class Ending:
    """What must be the same. `changes` are those of each task's commit: lines that it takes away and adds. The lines of
    `files` may come in any order.
    """

    code: int
    tasks: dict[str, tuple[str, dict[str, int]]]
    completed: int
    subjects: list[str]
    changes: dict[str, list[str]]
    status: list[str]
    files: dict[str, list[bytes]]


class Workers(Scenario):
    """A project to crash in, whose agents work in checkouts of their own."""

    def plan(self, mode: Any, kind: str = "", nth: int = 0, **more: Any) -> Plan:
        beside = self.project.beside
        within = (str(self.project.root), str(beside / "tmp"), str(self.cache))
        return Plan(within, mode, kind, nth, scratch=str(beside / "scratch"), **more)

    @property
    def cache(self) -> Path:
        return self.project.beside / "cache"

    @property
    def begun(self) -> dict[int, str]:
        """Iteration -> task, of each agent that has made a part of its work."""
        file = self.project.beside / "begun"
        lines = file.read_text().splitlines() if file.exists() else []
        return {int(number): task_id for task_id, number in map(str.split, lines)}

    def start_machine_anew(self) -> None:
        """As far as Ralph can tell."""
        for path in (self.project.root / ".git/ralph").glob("opening-*"):
            with suppress(msgspec.MsgspecError):  # torn
                saved = msgspec.msgpack.decode(path.read_bytes())
                path.write_bytes(msgspec.msgpack.encode({**saved, "boot": "another"}))

    def end(self, code: int) -> Ending:
        project, prd = self.project, self.project.prd
        files = {
            path.relative_to(project.root).as_posix(): sorted(path.read_bytes().splitlines())
            for path in project.root.rglob("*")
            if path.is_file() and path.relative_to(project.root).parts[0] not in (".git", project.folder.path.name)
        }
        return Ending(
            code=code,
            tasks={task.id: (task.status, task.attempts) for task in prd.tasks},
            completed=prd.totals.completed,
            subjects=sorted(subject for subject in project.subjects() if not subject.startswith("ralph:")),
            changes={task: self._change(commit) for task, commit in project.task_commits().items()},
            status=project.status(),
            files=files,
        )

    def _change(self, commit: str) -> list[str]:
        shown = self.project.git("show", "--format=", "--unified=0", commit, "--", ":!.rulebook-ralph")
        return [line for line in shown.splitlines() if line.startswith(("+", "-"))]

    def check_end(self, *, folders: bool = True) -> None:
        """What holds of every end, without a look at another; `folders`: those of a moment are gone too."""
        project = self.project
        assert project.git("diff", "HEAD", "--name-only").split() == ["mine.txt", "staged.txt"]
        assert project.git("diff", "--cached", "--name-only") == "staged.txt"
        assert project.git("show", ":staged.txt") == "staged"
        assert {name: (project.root / name).read_text() for name in _OF_A_PERSON} == _OF_A_PERSON
        self.check_whole(folders=folders)

    def check_whole(self, *, folders: bool = True) -> None:
        """The same, but for what a person has in the tree."""
        project = self.project
        self._check_records(project.records)
        assert self.others.items() <= project.refs().items()
        validated = project.ralph("validate")
        assert validated.code == 0, validated.err + validated.out
        assert left_behind(project, folders=folders) == []
        assert [path for path in self.cache.glob("*/*/*/*") if path.name != "repository"] == []
        assert self._living() == []
        project.git("fsck", "--no-dangling", "--no-progress")

    def _check_records(self, records: list[Iteration]) -> None:
        project, calls, begun = self.project, self.calls, self.begun
        assert {record.phase for record in records} == {"settled"}
        numbers = [record.iteration_number for record in records]
        assert numbers == list(range(1, len(numbers) + 1)), numbers
        text = project.folder.progress.read_text()
        assert [text.count(f"## End of iteration {number}\n") for number in numbers] == [1] * len(numbers), text
        assert max(Counter(call[3] for call in calls).values()) == 1, f"a number was used twice: {calls}"
        uncounted = {
            str(record.iteration_number)
            for record in records
            if record.completion_status == "interrupted" or (record.verdict and record.verdict.hook == MERGE)
        }
        counted = Counter(call[:3] for call in calls if call[3] not in uncounted)
        assert max(counted.values()) == 1, f"done twice: {calls}"
        assert project.prd.totals.iterations == len(records), (project.prd.totals, len(records))
        snapshots = project.snapshots()
        for record in records:
            number = record.iteration_number
            if record.tree is not None and record.tree != project.git("rev-parse", f"{record.base_commit}^{{tree}}"):
                assert record.snapshot == snapshots[number]
            if number in begun and begun[number] != "check":
                assert f"work/{begun[number]}.txt" in project.tree(snapshots[number]), f"lost: iteration {number}"

    def _living(self) -> list[int]:
        """Processes of this project that go on."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get("XDG_CACHE_HOME") == str(self.cache) and process.status() != "zombie":
                    found.append(process.pid)
        return found


def make_workers(folder: Path, zygote: Zygote) -> Workers:
    beside_others = {"markers": (PARALLEL,)}
    project = make_project(
        folder,
        agent=AGENT,
        files=FILES,
        tasks=[
            task("left", priority=1, **beside_others),
            task("right", priority=1, **beside_others),
            task("twice", priority=2, **beside_others),
            task("never", priority=2, completion={"coder": {"maxIterations": 1}}, **beside_others),
            task(
                "check",
                priority=3,
                markers=(VERIFY,),
                dependencies=("left", "right", "twice"),
                overrides={"stages": ["qa"]},
            ),
            task("after", priority=4, dependencies=("check",), **beside_others),
        ],
        attempts=3,
        parallel={"workers": 3},
        verification={"clean": True, "steps": [TESTS]},
    )
    project.write({"staged.txt": "staged\n"})
    project.git("add", "staged.txt")
    project.write(_OF_A_PERSON)
    for name in ("tmp", "scratch", "cache"):
        (project.beside / name).mkdir()
    project.environment["XDG_CACHE_HOME"] = str(project.beside / "cache")
    (project.beside / "added").touch()  # nobody adds a task here
    return Workers(project, zygote, project.refs())
