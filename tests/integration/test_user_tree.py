"""The user's tree, index and branch while runs go on, also such as are killed: nothing of the user's is lost."""

import os
import random
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.harness import FILES, PROMISE, Project, finish, make_project, task
from tests.meanwhile import WAIT, during
from tests.sampling import sample

AGENT = (
    'echo ralph > shared.txt; mkdir -p work; echo ralph > "work/$RALPH_TASK.txt"\n'
    f'if ! test -e "$BESIDE/waited"; then touch "$BESIDE/waited"; {WAIT}fi\n' + PROMISE
)
REF = "refs/ralph/toy/tip"


@dataclass(frozen=True)
class Way:
    """What a person does while the agent works, the file or word that is named, and what makes way.

    `kept` is what must stand in the tree, and `staged` in the index, until way is made.
    """

    does: str
    named: str
    makes_way: str
    kept: tuple[tuple[str, str], ...] = ()
    staged: tuple[tuple[str, str], ...] = ()
    commits: int = 0


IN_THE_WAY = {
    "an edit": Way("echo mine > shared.txt", "shared.txt", "git stash -q", (("shared.txt", "mine"),)),
    "a staged edit": Way(
        "echo mine > shared.txt; git add shared.txt; echo more > shared.txt",
        "shared.txt",
        "git stash -q",
        (("shared.txt", "more"),),
        (("shared.txt", "mine"),),
    ),
    "an untracked file": Way(
        "mkdir work; echo mine > work/one.txt", "work/one.txt", "mv work/one.txt mine.txt", (("work/one.txt", "mine"),)
    ),
    "an ignored file": Way(
        "mkdir -p .git/info; echo work >> .git/info/exclude; mkdir work; echo mine > work/one.txt",
        "work/one.txt",
        "mv work/one.txt mine.txt",
        (("work/one.txt", "mine"),),
    ),
    "a file where a folder must be": Way("echo mine > work", "work", "mv work mine.txt", (("work", "mine"),)),
    "a rebase": Way(
        "git commit -q --allow-empty -m own; GIT_SEQUENCE_EDITOR='sed -i s/^pick/edit/' git rebase -q -i HEAD~1",
        "rebase",
        "git rebase --continue",
        commits=1,
    ),
    "a merge": Way(
        "git switch -q -c side; git commit -q --allow-empty -m own; git switch -q ralph/toy; "
        "git merge -q --no-ff --no-commit side",
        "merge",
        "git commit -q --no-edit",
        commits=1,
    ),
    "another work tree": Way(
        'git switch -q main; git worktree add -q "$0-tree" ralph/toy',
        "another work tree",
        'git worktree remove --force "$0-tree"; git switch -q ralph/toy',
    ),
}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path, agent=AGENT, tasks=[task("one")], files={**FILES, "shared.txt": "first\n"})


def require_whole(project: Project) -> None:
    """The work is on the branch once, and the tree is clean of it."""
    assert list(project.task_commits("ralph/toy")) == ["one"]
    assert project.git("show", "ralph/toy:work/one.txt") == "ralph"
    assert project.task("one").status == "completed"
    assert project.ralph("validate").code == 0
    project.git("fsck", "--no-dangling", "--no-progress")


@pytest.mark.parametrize("name", sample(IN_THE_WAY, 4))
def test_the_branch_waits_and_says_for_what(project: Project, name: str) -> None:
    way = IN_THE_WAY[name]
    ran = during(project, way.does)
    said = " ".join(ran.out.split())
    assert ran.code == 3, said
    assert "ralph/toy waits: " in said
    assert way.named in said.partition("ralph/toy waits: ")[2]
    assert REF in said
    assert project.git("show", f"{REF}:work/one.txt") == "ralph"
    for path, content in way.kept:
        assert (project.root / path).read_text() == f"{content}\n"
    for path, content in way.staged:
        assert project.git("show", f":{path}") == content
    steps = said.partition("next: ")[2]
    assert ("commit or move them, then: ralph land" in steps) == bool(way.kept), said
    assert f"git log --oneline {REF}" in steps
    if name != "another work tree":
        told = project.ralph("land")
        assert told.code == 3
        assert (told.out + told.err).count("ralph/toy waits: ") == 1, told.out + told.err
        assert "ralph land" in told.err
    again = project.ralph("run")
    assert again.code == (2 if name == "another work tree" else 3), "it waits still"
    for path, content in way.kept:
        assert (project.root / path).read_text() == f"{content}\n"
    subprocess.run(["sh", "-e", "-c", way.makes_way, str(project.beside / "script")], cwd=project.root, check=True)
    last = project.ralph("run")
    assert last.code == 0, last.out + last.err
    require_whole(project)
    assert project.refs(REF) == {}
    assert (project.root / "work/one.txt").read_text() == "ralph\n"
    assert project.subjects("ralph/toy").count("own") == way.commits
    if way.makes_way.startswith("mv"):
        assert (project.root / "mine.txt").read_text() == "mine\n"
    if way.makes_way.startswith("git stash"):
        assert project.git("show", "stash@{0}:shared.txt") == way.kept[0][1]


BESIDE = {
    "edits elsewhere": "echo mine > app2.txt; echo mine >> docs/guide.md; git add app2.txt; echo more > app2.txt",
    "the same content": "mkdir work; echo ralph > work/one.txt",
    "own commits": "echo mine > own.txt; git add own.txt; git commit -q -m own; echo more > own.txt",
    "a branch of one's own": "git switch -q main; echo mine > own.txt",
    "there and back": "git switch -q main; echo mine > own.txt; git switch -q ralph/toy",
    "a stash": "echo mine > shared.txt; echo mine > own.txt; git stash -q -u",
    "git gc": "echo mine > own.txt; git add own.txt; git gc -q --prune=now",
    "amended": "git commit -q --amend --allow-empty -m first",
}


@pytest.mark.parametrize("name", sample(BESIDE, 4))
def test_what_is_in_nobodys_way(project: Project, name: str) -> None:
    ran = during(project, BESIDE[name])
    assert ran.code == 0, ran.out + ran.err
    require_whole(project)
    require_mine(project, name)
    if name != "a branch of one's own":
        assert (project.root / "shared.txt").read_text() == "ralph\n"


@pytest.mark.parametrize("command", ["update-index", "write-tree"])
def test_objects_that_gc_takes_before_a_ref_names_them_are_made_again(project: Project, command: str) -> None:
    """By a `git` that collects garbage once, as soon as that command has ended."""
    own = project.beside / "bin"
    own.mkdir()
    real = shutil.which("git")
    gc = f"cd {project.root}; {real} gc -q --prune=now"
    (own / "git").write_text(
        f'#!/bin/sh\nonce() {{ test -e "$RALPH_CACHE_DIR"/*/agent-1.iteration && mkdir {own}/$1 2>/dev/null; }}\n'
        f'case " $* " in *" {command} "*) once gc && first=1;; esac\n'
        f'{real} "$@"; code=$?\ntest -z "$first" || (unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE; {gc}) >&2\nexit $code\n'
    )
    (own / "git").chmod(0o755)
    project.agent(AGENT.replace(WAIT, ":;"))
    project.environment["PATH"] = f"{own}:{os.environ['PATH']}"
    ran = project.ralph("run")
    assert ran.code == 0, ran.out + ran.err
    assert (own / "gc").is_dir()
    require_whole(project)
    project.git("fsck", "--no-dangling", "--no-progress")


def require_mine(project: Project, name: str) -> None:
    """What the person did is there as they left it."""
    root = project.root
    match name:
        case "edits elsewhere":
            assert (project.git("show", ":app2.txt"), (root / "app2.txt").read_text()) == ("mine", "more\n")
            assert (root / "docs/guide.md").read_text() == "# Guide\nmine\n"
        case "own commits":
            assert "own" in project.subjects("ralph/toy")
            assert (project.git("show", "HEAD:own.txt"), (root / "own.txt").read_text()) == ("mine", "more\n")
        case "a stash":
            assert project.git("show", "stash@{0}:shared.txt") == "mine"
            assert project.git("show", "stash@{0}^3:own.txt") == "mine"
        case "a branch of one's own" | "there and back" | "git gc":
            assert (root / "own.txt").read_text() == "mine\n"
            on = "main" if name == "a branch of one's own" else "ralph/toy"
            assert project.git("symbolic-ref", "--short", "HEAD") == on


def test_own_commits_at_the_same_lines_send_the_work_back(project: Project) -> None:
    project.agent(
        'grep -q mine shared.txt || echo ralph > shared.txt; mkdir -p work; echo ralph > "work/$RALPH_TASK.txt"\n'
        f'if ! test -e "$BESIDE/waited"; then touch "$BESIDE/waited"; {WAIT}fi\n' + PROMISE
    )
    ran = during(project, "echo mine > shared.txt; git commit -q -a -m own")
    assert ran.code == 0, ran.out + ran.err
    require_whole(project)
    assert (project.root / "shared.txt").read_text() == "mine\n"
    assert "own" in project.subjects()


def test_commits_while_the_branch_waits_stay_below_the_work(project: Project) -> None:
    assert during(project, "echo mine > shared.txt").code == 3
    project.write({"own.txt": "mine\n"})
    project.git("add", "own.txt")
    project.git("commit", "-q", "-m", "own")
    project.git("checkout", "-q", "shared.txt")
    project.git("gc", "-q", "--prune=now")
    last = project.ralph("run")
    assert last.code == 0, last.out + last.err
    require_whole(project)
    assert project.subjects()[:2] == ["own", "Do one"]
    assert (project.root / "shared.txt").read_text() == "ralph\n"
    assert project.status() == []


def test_a_person_who_merges_what_waits_by_hand(project: Project) -> None:
    assert during(project, "echo mine > shared.txt").code == 3
    project.git("commit", "-q", "-a", "-m", "own")
    waits = project.ralph("run")
    assert waits.code == 3
    assert "cannot be merged" in " ".join(waits.out.split())
    project.git("merge", "-q", "-X", "ours", "-m", "by hand", REF)
    last = project.ralph("run")
    assert last.code == 0, last.out + last.err
    require_whole(project)
    assert project.refs(REF) == {}
    assert (project.root / "shared.txt").read_text() == "mine\n"


# Killed again and again


@pytest.mark.parametrize("seed", sample(range(2), 1))
def test_killed_at_any_moment_with_a_person_at_work(tmp_path: Path, seed: int, thorough: bool) -> None:
    """Edits of all kinds stand at and beside the landing's paths; the run dies at random, and is started again."""
    for number in range(25 if thorough else 1):
        _killed(
            make_project(
                tmp_path / str(number),
                agent=AGENT.replace(WAIT, ":;"),
                tasks=[task("one"), task("two")],
                files={**FILES, "shared.txt": "first\n", "other.txt": "first\n"},
            ),
            random.Random(1000 * seed + number),
        )


def _killed(project: Project, chance: random.Random) -> None:
    mine = {"own.txt": "mine\n", "built.o": "ignored\n", "docs/guide.md": "edited\n", "other.txt": "unstaged\n"}
    project.write({"other.txt": "staged\n"})
    project.git("add", "other.txt")
    project.write(mine)
    in_the_way = chance.random() < 0.5
    if in_the_way:
        project.write({"work/two.txt": "mine\n"})
    for _ in range(3):
        process = project.start("run")
        time.sleep(chance.uniform(0.2, 1.5))
        process.kill()
        finish(process)
        if chance.random() < 0.3:
            project.git("commit", "-q", "--allow-empty", "-m", "own", "--only", check=False)
    last = project.ralph("run")
    assert last.code == (3 if in_the_way else 0), last.out + last.err
    if in_the_way:
        assert (project.root / "work/two.txt").read_text() == "mine\n"
        (project.root / "work/two.txt").rename(project.root / "own2.txt")
        assert project.ralph("run").code == 0
    assert {name: (project.root / name).read_text() for name in mine} == mine
    assert project.git("show", ":other.txt") == "staged"
    assert sorted(project.task_commits("ralph/toy")) == ["one", "two"]
    assert (project.root / "shared.txt").read_text() == "ralph\n"
    assert project.git("diff", "HEAD", "--name-only").split() == ["docs/guide.md", "other.txt"]
    assert [record.iteration_number for record in project.records] == list(range(1, len(project.records) + 1))
    assert project.ralph("validate").code == 0
