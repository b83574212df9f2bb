"""Refs of snapshots that an agent or a gate deletes, moves or makes: all of it is undone, and nothing is lost."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from rulebook_ralph.workspace import guard, snapshot_guard
from rulebook_ralph.workspace.repository import Repository, open_repository
from tests.harness import HONEST, PROMISE, TESTS, Project, finish, make_project, task

TASKS = "refs/ralph/toy/tasks"
OTHERS = "refs/ralph/other/tasks"
STATE = "refs/ralph/toy/state"
DELETE = "git for-each-ref --format='%(refname)' refs/ralph | while read r; do git update-ref -d $r; done\n"
TAMPERED = {
    "deleted": DELETE,
    "removed": "rm -rf .git/refs/ralph",
    "packed and deleted": f"git pack-refs --all\n{DELETE}",
    "moved": f"git update-ref {TASKS}/one/1 HEAD",
    "written to": f"git rev-parse HEAD > .git/{TASKS}/one/1",
    "symbolic": f"git symbolic-ref {TASKS}/one/1 refs/heads/main",
    "symbolic and the same": f"git symbolic-ref {TASKS}/one/1 {TASKS}/two/2",
    "no ref": f"echo what > .git/{TASKS}/one/1",
    "a folder": f"rm .git/{TASKS}/one/1; git update-ref {TASKS}/one/1/more HEAD; echo > .git/{TASKS}/one/1/less",
    "a file above": "rm -r .git/refs/ralph; git rev-parse HEAD > .git/refs/ralph",
    "a file for a task": f"rm -r .git/{TASKS}/one; echo what > .git/{TASKS}/one",
    "elsewhere": "mv .git/refs/ralph ../away; ln -s ../../../away .git/refs/ralph",
    "new": f"git update-ref {TASKS}/one/99999 HEAD; git update-ref {TASKS}/odd HEAD",
    "new and packed": f"git update-ref {TASKS}/one/99999 HEAD; git pack-refs --all",
}


@dataclass(frozen=True, slots=True)
class Place:
    """A repository with two snapshots, one of them packed, a saved state, and another project's snapshots."""

    project: Project
    repository: Repository
    guarded: guard.Guard

    def sh(self, script: str) -> str:
        return subprocess.run(
            ["sh", "-ec", script], cwd=self.project.root, check=True, capture_output=True, text=True
        ).stdout


@pytest.fixture
def place(tmp_path: Path) -> Place:
    project = make_project(tmp_path)
    made = [project.git("commit-tree", "HEAD^{tree}", "-m", word, "-p", "HEAD") for word in ("a", "b")]
    for name in (f"{TASKS}/two/2", f"{OTHERS}/one/1"):
        project.git("update-ref", name, made[1])
    project.git("pack-refs", "--all")
    for name in (f"{TASKS}/one/1", STATE, f"{OTHERS}/one/2"):
        project.git("update-ref", name, made[0])
    repository = open_repository(project.root, {"PATH": "/usr/bin:/bin"})
    guarded = guard.remember(repository, snapshots=snapshot_guard.remember(repository, "toy"))
    return Place(project, repository, guarded)


@pytest.mark.parametrize("tampered", TAMPERED)
def test_refs_are_put_back(place: Place, tampered: str) -> None:
    before = place.project.refs()
    tip = place.project.git("rev-parse", "HEAD")
    place.sh(TAMPERED[tampered])
    told = place.guarded.restore()
    assert told.others
    assert told.lost == ()
    assert tip not in told.new_tips, "it is on a branch"
    assert place.project.refs() == before
    assert "warning" not in place.sh("git for-each-ref 2>&1; git symbolic-ref -q HEAD")
    assert place.guarded.restore() == guard.NOTHING
    place.project.git("update-ref", f"{TASKS}/one/3", tip)


def test_what_ralph_wrote_meanwhile_stays(place: Place) -> None:
    own = {f"{TASKS}/one/3": place.project.git("rev-parse", "HEAD"), STATE: place.project.git("rev-parse", "HEAD")}
    for name, commit in own.items():
        place.project.git("update-ref", name, commit)
    before = place.project.refs()
    assert place.guarded.restore(own=own) == guard.NOTHING
    place.sh(DELETE)
    assert set(place.guarded.restore(own=own).others) >= own.keys()
    assert place.project.refs() == before
    place.sh(f"git update-ref {STATE} HEAD~0; git update-ref {TASKS}/one/3 {before[f'{TASKS}/one/1']}")
    place.guarded.restore(own=own)
    assert place.project.refs() == before


def test_commits_that_only_such_refs_name_are_told(place: Place) -> None:
    commit = place.project.git("commit-tree", "HEAD^{tree}", "-m", "mine")
    place.project.git("update-ref", f"{TASKS}/one/1", commit)
    place.project.git("update-ref", f"{TASKS}/one/7", place.project.refs()[f"{TASKS}/two/2"])
    assert place.guarded.restore().new_tips == (commit,)


def test_what_is_gone_for_good_is_told_and_stops_nothing(place: Place) -> None:
    kept = place.project.refs()[f"{TASKS}/two/2"]
    place.sh(f"for r in {STATE} {TASKS}/one/1 {OTHERS}/one/2; do git update-ref $r {kept}; done")
    place.sh(f"git gc -q --prune=now\n{DELETE}")
    told = place.guarded.restore(own={STATE: kept})
    assert told.lost == (f"{OTHERS}/one/2", f"{TASKS}/one/1")
    assert place.project.refs(TASKS) == {f"{TASKS}/two/2": kept}


def test_after_a_death_what_the_open_iteration_left_stays(place: Place) -> None:
    guarded = guard.decoded(place.guarded.encoded(), place.repository)
    assert guarded == place.guarded
    before = place.project.refs()
    place.sh(f"{DELETE}git update-ref {STATE} HEAD; for n in 3 4; do git update-ref {TASKS}/one/$n HEAD; done")
    place.sh(f"git update-ref {OTHERS}/one/3 HEAD")
    there = place.project.refs()
    guarded.restore_after_death("main", until=0.0, number=3)
    others = {f"{OTHERS}/one/3": there[f"{OTHERS}/one/3"]}
    toy = {name: commit for name, commit in before.items() if not name.startswith(OTHERS)}
    left = {name: there[name] for name in (f"{TASKS}/one/3", STATE)}
    assert place.project.refs() == {**toy, **left, **others}


def test_of_other_projects_only_what_is_gone_is_put_back(place: Place) -> None:
    place.sh(f"git update-ref -d {OTHERS}/one/2; git update-ref {OTHERS}/one/3 HEAD")
    assert set(place.guarded.restore().others) == {f"{OTHERS}/one/2"}
    assert {f"{OTHERS}/one/{number}" for number in (1, 2, 3)} <= place.project.refs().keys()


def test_beside_another_run_of_ralph_new_ones_stay(place: Place) -> None:
    place.sh("git worktree add -q ../side; mkdir .git/worktrees/side/ralph")
    place.sh(f"git update-ref {TASKS}/one/3 HEAD; git update-ref -d {TASKS}/one/1")
    assert set(place.guarded.restore().others) == {f"{TASKS}/one/1"}
    assert f"{TASKS}/one/3" in place.project.refs()


# In a run


def test_a_gate_deletes_no_snapshot(tmp_path: Path) -> None:
    """Neither the attempt's own, nor those before it."""
    gate = {"name": "lint", "command": f"test ! -f new.txt || {{ {DELETE} false; }}"}
    project = make_project(tmp_path, agent="echo $RALPH_ATTEMPT > new.txt\n" + PROMISE, gates=[TESTS, gate], attempts=2)
    ran = project.ralph("run")
    assert ran.code == 3, ran.out
    assert project.snapshots() == {record.iteration_number: record.snapshot for record in project.records}
    assert ran.out.count("changed in the git folder meanwhile, and put back: refs/ralph/toy/state") == 2, ran.out
    assert "A gate or commit hook changed git's own files" in project.last.prompt


def test_a_number_that_an_agent_made_is_not_counted_from(tmp_path: Path) -> None:
    forge = f"git update-ref {TASKS}/one/99999 $(git commit-tree -m mine HEAD^{{tree}})\n"
    project = make_project(tmp_path, agent=f"{forge}echo $RALPH_ATTEMPT > new.txt\n", attempts=1)
    assert project.ralph("run").code == 3
    project.configure(attempts=2)
    project.agent(HONEST)
    assert project.ralph("run", "--retry-blocked").code == 0
    assert list(project.snapshots()) == [1, 2]
    assert project.git("log", "-1", "--format=%s", f"{TASKS}/one/1^2^@") == "mine", "nothing that it made is lost"


def test_snapshots_are_put_back_after_a_death(tmp_path: Path) -> None:
    wait = 'while test ! -s "$BESIDE/pid"; do sleep 0.01; done\n'
    die = f'{DELETE}git update-ref {TASKS}/two/50 HEAD\nkill -9 "$(cat "$BESIDE/pid")"; sleep 5\n'
    tasks = [task("one"), task("two")]
    second = f'if test $RALPH_TASK = two && mkdir "$BESIDE/once"; then\n{wait}{die}fi\n'
    project = make_project(tmp_path, agent=second + HONEST, tasks=tasks)
    process = project.start("run")
    (project.beside / "pid").write_text(str(process.pid))
    assert finish(process).code == -9
    assert 1 not in project.snapshots()
    ran = project.ralph("resume")
    assert ran.code == 0, ran.out + ran.err
    assert f"{TASKS}/one/1" in ran.out
    assert project.snapshots() == {record.iteration_number: record.snapshot for record in project.records}
    assert sorted(project.snapshots()) == [1, 2, 3]
