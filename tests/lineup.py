"""Many agents in one run: each has a task of its own, one attempt at it, and is judged alone.

What one leaves behind is put back before the next begins, so the kinds do not meet; each is told by its name.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rulebook_ralph.core.evidence import Iteration
from tests.harness import PROMISE, Project, Ran, make_project, picture, task

CLAIM = "echo 'Done. All tests pass now.'\n" + PROMISE
_OWN_FILES: Mapping[str, str] = {"notes.txt": "mine\n", "lib.o": "object\n"}
_GUARDED = ("config", "hooks", "info", "logs/refs/stash")


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One agent: an sh script, and what must come of it. `told` are words that its feedback must hold, `hook` the rule
    that must speak. `task` are fields of its task.
    """

    name: str
    script: str
    told: tuple[str, ...] = ()
    hook: str = "integrity"
    task: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")


@dataclass(frozen=True, slots=True)
class Belongings:
    """What is the person's, and must be after a run as it was before."""

    refs: dict[str, str]
    git_files: dict[str, tuple[int, bytes]]
    own_files: dict[str, bytes]
    config: str


@dataclass(frozen=True, slots=True)
class Lineup:
    """A run over all kinds, and what it left."""

    project: Project
    kinds: tuple[Kind, ...]
    ran: Ran
    before: Belongings

    def records(self, kind: Kind) -> list[Iteration]:
        return [record for record in self.project.records if record.task_id == kind.id]


def sampled(kinds: Iterable[Kind], count: int, *, thorough: bool) -> list[Kind]:
    """Those that run always: `count` of them, evenly from the first to the last, and the first for each rule that must
    speak; everybody where `thorough`. It is the same choice in each run.
    """
    everyone = list(kinds)
    if thorough or count >= len(everyone):
        return everyone
    chosen = {round(step * (len(everyone) - 1) / max(count - 1, 1)) for step in range(count)}
    chosen |= {
        next(index for index, kind in enumerate(everyone) if kind.hook == hook)
        for hook in {kind.hook for kind in everyone}
    }
    return [everyone[index] for index in sorted(chosen)]


def run(
    folder: Path,
    kinds: Iterable[Kind],
    *,
    files: Mapping[str, str],
    gates: Iterable[dict[str, Any]],
    environment: Mapping[str, str] | None = None,
    **settings: Any,
) -> Lineup:
    """Run each kind once in a repository of those files, with those gates and settings of config.yaml."""
    project = make_project(
        folder,
        files={".gitignore": "*.o\n__pycache__/\n", **files},
        gates=gates,
        **{"attempts": 1, **settings},
    )
    project.environment.update(environment or {})
    project.write(_OWN_FILES)
    project.git("branch", "other")
    return run_in(project, kinds)


def run_in(project: Project, kinds: Iterable[Kind]) -> Lineup:
    """The same in a project that is there, whose configuration gives each task one attempt."""
    everyone = tuple(kinds)
    project.agent('. "$BESIDE/$RALPH_TASK.sh"\n')
    project.tasks(
        *(task(kind.id, **{"title": f"Improve it ({number})", **kind.task}) for number, kind in enumerate(everyone))
    )
    for kind in everyone:
        (project.beside / f"{kind.id}.sh").write_text(kind.script, "utf-8")
    before = belongings(project)
    return Lineup(project, everyone, project.ralph("run", "--no-retry-blocked"), before)


def belongings(project: Project) -> Belongings:
    ours = (f"refs/ralph/{project.name}/", f"refs/heads/ralph/{project.name}")
    return Belongings(
        refs={name: commit for name, commit in project.refs().items() if not name.startswith(ours)},
        git_files=picture(project.root / ".git", without=lambda path: not path.startswith(_GUARDED)),
        own_files={name: (project.root / name).read_bytes() for name in _OWN_FILES if (project.root / name).exists()},
        config=project.folder.config.read_text("utf-8"),
    )


def assert_nobody_was_believed(lineup: Lineup) -> None:
    """Every kind ended blocked and was told why; nothing landed, and all that is the person's is as it was."""
    project = lineup.project
    assert_each_was_refused(lineup)
    assert project.task_commits() == {}
    assert project.tree() == project.tree("main")
    assert project.status() == ["?? notes.txt"]
    assert project.git("symbolic-ref", "HEAD") == f"refs/heads/ralph/{project.name}"
    assert belongings(project) == lineup.before


def assert_each_was_refused(lineup: Lineup) -> None:
    """Every kind ended blocked, by the rule and with the words that were expected."""
    assert lineup.project.records, lineup.ran.err[-2000:]
    _fail_for({kind: _problems(lineup, kind) for kind in lineup.kinds})
    assert lineup.ran.code == 3, lineup.ran.err


def _fail_for(problems: Mapping[Kind, list[str]]) -> None:
    told = [f"{kind.name}: {problem}" for kind, found in problems.items() for problem in found]
    if told:
        raise AssertionError("\n\n".join(told))


def _problems(lineup: Lineup, kind: Kind) -> list[str]:
    project = lineup.project
    task = project.task(kind.id)
    found = [] if task.status == "blocked" else [f"ended {task.status}"]
    if kind.id in project.task_commits():
        found.append("its work is on the branch")
    records = lineup.records(kind)
    if not records:
        return [*found, "was never run"]
    last = records[-1]
    if last.phase != "settled" or last.snapshot is None:
        found.append("its attempt is not kept")
    hook = last.verdict.hook if last.verdict else None
    if hook != kind.hook:
        found.append(f"judged by {hook}, not {kind.hook}: {last.verdict.reason if last.verdict else ''}")
    found += [f"was not told {words!r} but: {last.feedback[:300]}" for words in kind.told if words not in last.feedback]
    return found


def assert_everybody_completed(lineup: Lineup) -> None:
    """Every kind was completed at its first attempt, with a commit of its own, and nothing is left over."""
    project = lineup.project
    assert project.records, lineup.ran.err[-2000:]
    commits = project.task_commits()
    refused = {
        kind: [record.feedback or str(record.verdict) for record in lineup.records(kind)] or ["was never run"]
        for kind in lineup.kinds
        if project.task(kind.id).status != "completed" or len(lineup.records(kind)) != 1 or kind.id not in commits
    }
    _fail_for(refused)
    assert lineup.ran.code == 0, lineup.ran.err
    assert project.status() == ["?? notes.txt"]
    assert belongings(project) == lineup.before
