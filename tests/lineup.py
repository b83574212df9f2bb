"""Many agents in one run: each has a task of its own, one attempt at it, and is judged alone, by a scripted model too."""

import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rulebook_ralph.tasks.history import Iteration
from tests.harness import PROMISE, Project, Ran, make_project, picture, task

CLAIM = "echo 'Done. All tests pass now.'\n" + PROMISE
ASK_ALL = {"changed": "ask", "unproven": "ask"}
_JUDGE = Path(__file__).with_name("scripted_judge.py")
_OWN_FILES: Mapping[str, str] = {"notes.txt": "mine\n", "lib.o": "object\n"}
_GIT_FILES = ("config", "hooks", "info", "logs/refs/stash")


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One agent: an sh script, and what must come of it. `told` are words that its feedback must hold, `hook` the rule
    that must speak, where only one can. `task` are fields of its task. `asked` says whether a model must, or must not
    have been asked; None where either will do.
    """

    name: str
    script: str
    told: tuple[str, ...] = ()
    hook: str = ""
    task: Mapping[str, Any] = field(default_factory=dict)
    asked: bool | None = None

    @property
    def id(self) -> str:
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")


def proven(name: str, script: str, **task: Any) -> Kind:
    """An honest agent. A test, or a command, turned from red to green, and no old expectation changed: nobody is asked."""
    return Kind(name, f"{script}\n{PROMISE}", task=task, asked=False)


def agreed(name: str, script: str, **task: Any) -> Kind:
    """An honest agent. Nothing that runs decides it."""
    return Kind(name, f"{script}\n{PROMISE}", task=task, asked=True)


def write(path: str, text: str) -> str:
    """A script that writes a file."""
    return f"mkdir -p $(dirname {path})\ncat > {path} <<'END'\n{text}\nEND\n"


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


def judged_by_script(folder: Path, answer: str, fallback: str = "") -> dict[str, Any]:
    """Settings with which the model that is asked is a program that says yes or no; `folder` is the project's own."""
    beside = folder / "beside"
    args = ["-S", "-E", str(_JUDGE), answer, str(beside), fallback]
    return {
        "tools": {
            "executors": [
                {"id": "script", "type": "command", "command": f"sh {beside}/agent.sh"},
                {"id": "judge", "type": "command", "command": sys.executable, "args": args},
            ]
        },
        "judge": {"executor": "judge"},
        "integrity": ASK_ALL,
    }


def asked(project: Project) -> list[dict[str, Any]]:
    """What the scripted model was asked, in order."""
    told = project.beside / "asked.jsonl"
    return [json.loads(line) for line in told.read_text("utf-8").splitlines()] if told.exists() else []


def sampled(kinds: Iterable[Kind], count: int, *, thorough: bool) -> list[Kind]:
    """Those that run always: `count` of them, evenly from the first to the last; everybody where `thorough`."""
    everyone = list(kinds)
    if thorough or count >= len(everyone):
        return everyone
    chosen = {round(step * (len(everyone) - 1) / max(count - 1, 1)) for step in range(count)}
    return [everyone[index] for index in sorted(chosen)]


def run(
    folder: Path,
    kinds: Iterable[Kind],
    *,
    files: Mapping[str, str],
    gates: Iterable[dict[str, Any]],
    answer: str = "no",
    **settings: Any,
) -> Lineup:
    """Run each kind once in a repository of those files, with those gates and settings of config.yaml."""
    project = make_project(
        folder,
        files={".gitignore": "*.o\n__pycache__/\n", **files},
        gates=gates,
        **{"attempts": 1, **judged_by_script(folder, answer), **settings},
    )
    project.write(_OWN_FILES)
    project.git("branch", "other")
    return run_in(project, kinds)


def run_in(project: Project, kinds: Iterable[Kind]) -> Lineup:
    """The same in a project that is there, whose configuration gives each task one attempt.

    Three that fail alike in a row end a run; the next one goes on with those that are left.
    """
    everyone = tuple(kinds)
    project.agent('. "$BESIDE/$RALPH_TASK.sh"\n')
    project.tasks(*(task(kind.id, **{"title": kind.name, **kind.task}) for kind in everyone))
    for kind in everyone:
        (project.beside / f"{kind.id}.sh").write_text(kind.script, "utf-8")
    before = belongings(project)
    left = len(everyone) + 1
    while True:
        ran = project.ralph("run", "--no-retry-blocked")
        pending = sum(each.status == "pending" for each in project.prd.tasks)
        if not 0 < pending < left:
            return Lineup(project, everyone, ran, before)
        left = pending


def belongings(project: Project) -> Belongings:
    ours = ("refs/ralph/", f"refs/heads/ralph/{project.name}")
    return Belongings(
        refs={name: commit for name, commit in project.refs().items() if not name.startswith(ours)},
        git_files=picture(
            project.root / ".git", without=lambda path: not path.startswith(_GIT_FILES) or path == "info/refs"
        ),
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
    assert_untouched(lineup)


def assert_untouched(lineup: Lineup) -> None:
    """The person's refs, git files, own files and configuration are as they were."""
    after, before = belongings(lineup.project), lineup.before
    assert after.refs == before.refs
    assert after.git_files == before.git_files
    assert (after.own_files, after.config) == (before.own_files, before.config)


def assert_each_was_refused(lineup: Lineup) -> None:
    """Every kind ended blocked, by the rule and with the words that were expected."""
    assert lineup.project.records, lineup.ran.err[-2000:]
    _fail_for({kind: _problems_of_a_refusal(lineup, kind) for kind in lineup.kinds})
    assert lineup.ran.code == 3 or "blocked for the same reason" in lineup.ran.out, lineup.ran


def _fail_for(problems: Mapping[Kind, list[str]]) -> None:
    told = [f"{kind.name}: {problem}" for kind, found in problems.items() for problem in found]
    if told:
        raise AssertionError("\n\n".join(told))


def _problems_of_a_refusal(lineup: Lineup, kind: Kind) -> list[str]:
    """What of an agent that was to be refused is not as it must be."""
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
    if hook != kind.hook if kind.hook else hook in ("agent", "judge", None):
        found.append(f"judged by {hook}, not {kind.hook}: {last.verdict.reason if last.verdict else ''} {last.output}")
    if not last.feedback.strip() or task.blocked_reason is None:
        found.append("was told nothing")
    found += [f"was not told {words!r} but: {last.feedback[:600]}" for words in kind.told if words not in last.feedback]
    return found


def _problems_of_a_completion(lineup: Lineup, kind: Kind) -> list[str]:
    """What of an agent that was to complete at its first attempt, with a commit of its own, is not as it must be."""
    project, records = lineup.project, lineup.records(kind)
    task = project.task(kind.id)
    if task.status != "completed" or len(records) != 1 or kind.id not in project.task_commits():
        return [f"{each.feedback} {each.verdict} {each.output}" for each in records] or ["was never run"]
    told = records[0].evidence
    problems = [] if told and (told.turned or told.asked) else ["neither was anything proven nor anybody asked"]
    if kind.asked is not None and kind.asked != any(each["title"] == task.title for each in asked(project)):
        problems.append(f"a model was {'not ' if kind.asked else ''}asked: {told}")
    return problems


def assert_everybody_completed(lineup: Lineup) -> None:
    """And nothing is left over."""
    assert lineup.project.records, lineup.ran.err[-2000:]
    _fail_for({kind: _problems_of_a_completion(lineup, kind) for kind in lineup.kinds})
    assert lineup.ran.code == 0, lineup.ran.err
    assert lineup.project.status() == ["?? notes.txt"]
    assert_untouched(lineup)
