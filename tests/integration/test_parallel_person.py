"""A person at work in the repository while an isolated run merges and lands: commits, resets, locks, other branches.

Where a moment of the run counts, what the person does is called at it: by the agent, by a gate or by a git that tells.
"""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rulebook_ralph import cli
from tests.harness import PROMISE, TESTS, Project, make_project, task, wait_for
from tests.integration.test_parallel import MEET, assert_nothing_is_left, landed, marked
from tests.sampling import sample

WORK = f"mkdir -p work; echo $RALPH_TASK > work/$RALPH_TASK.txt\n{PROMISE}"


def person(folder: Path, does: str) -> str:
    """That of a person in the user's tree, once, as a line for sh; `folder` is that of `make_project`."""
    script = folder / f"person-{len(list(folder.glob('person-*')))}.sh"
    script.write_text(
        f"mkdir '{script}.done' 2>/dev/null || exit 0\nfor v in $(env | grep -o '^GIT_[DIOW][^=]*'); do unset $v; done\n"
        f"set -e; cd '{folder}/toy'; {{ {does}; }} > '{script}.said' 2>&1\n"
    )
    return f"sh '{script}'"


def commits(name: str) -> str:
    return f"echo mine > {name}.txt; git add {name}.txt; git commit -qm {name} -- {name}.txt"


def git_that_tells(project: Project, of: str, does: str) -> None:
    """As soon as Ralph's git has done that command, the person does this."""
    wrapper = project.beside / "bin" / "git"
    wrapper.parent.mkdir()
    wrapper.write_text(
        f'#!/bin/sh\n{shutil.which("git")} "$@"; code=$?\ncase " $* " in *" {of} "*) {does} </dev/null;; esac\nexit $code\n'
    )
    wrapper.chmod(0o755)
    project.environment["PATH"] = f"{wrapper.parent}:{os.environ['PATH']}"


def test_what_a_person_commits_while_work_is_merged_stays(tmp_path: Path) -> None:
    """Before it is merged, right after, and while the merged tree is judged; nobody works again for that."""
    own = {
        "name": "own",
        "kind": "test",
        "command": f"test ! -e work/one.txt || test ! -e after.txt || {person(tmp_path, commits('judged'))}",
    }
    project = make_project(tmp_path, agent=f"{person(tmp_path, commits('before'))}\n{WORK}", gates=[TESTS, own])
    git_that_tells(project, "merge-tree", person(tmp_path, commits("after")))
    ran = project.ralph("run", "--isolated")
    assert ran.code == 0, ran.err + ran.out
    assert project.subjects()[:4] == ["before", "after", "judged", "Do one"]
    assert project.tree().keys() >= {"before.txt", "after.txt", "judged.txt", "work/one.txt"}
    assert project.changed(project.task_commits()["one"]) == ["work/one.txt"]
    assert len(project.records) == 1
    assert_nothing_is_left(project)


def test_commands_of_an_earlier_stage_are_run_on_the_merged_tree(tmp_path: Path) -> None:
    """What the coder's criteria want holds in the checkout, and no more with what came while the last stage went on."""
    few = {"verification_method": "external", "verification_config": {"command": "test $(ls work | wc -l) -le 1"}}
    wanted = {"coder": {"promise": "CODED", **few}, "qa": {"promise": "CHECKED"}}
    adds = "mkdir work; echo mine > work/mine.txt; git add work; git commit -qm mine -- work"
    project = make_project(
        tmp_path,
        agent=f"test $RALPH_STAGE = coder || {person(tmp_path, adds)}\n{WORK}",
        tasks=[task(completion=wanted, overrides={"stages": ["coder", "qa"]})],
    )
    ran = project.ralph("run", "--parallel", "2", "--max-iterations", "2")
    assert ran.code == 4, ran.err + ran.out
    assert [record.stage for record in project.records] == ["coder", "qa"]
    verdict = project.last.verdict
    assert verdict is not None
    assert (verdict.hook, verdict.action, verdict.counts) == ("merge", "continue", False)
    assert "test $(ls work | wc -l) -le 1" in project.last.feedback
    assert landed(project) == []
    assert "go on: ralph resume --parallel 2\n" in ran.out


@pytest.mark.parametrize("lands", [True, False])
def test_a_commit_that_a_person_is_writing_ends_as_it_is(tmp_path: Path, lands: bool) -> None:
    """Their git holds the index while their editor is open, from the gates on, and then work lands, or the run ends at
    its limit. Nobody works again for that.
    """
    is_open = tmp_path / "beside" / "open"
    until = (
        f"test ! -e work/one.txt || until test -e '{is_open}'; do sleep 0.01; done; test {'-n' if lands else '-z'} x"
    )
    project = make_project(tmp_path, agent=f'touch "$BESIDE/begun"\n{WORK}', gates=[{**TESTS, "command": until}])
    editor = project.beside / "editor.sh"
    saved = project.beside / "saved"
    editor.write_text(f"touch '{is_open}'; until test -e '{saved}'; do sleep 0.01; done; echo written > \"$1\"\n")
    app, out, err = project.app()

    def write() -> None:
        wait_for((project.beside / "begun").exists, "the agent")
        project.write({"docs/guide.md": "# Guide\nmine\n"})
        project.git("-c", f"core.editor=sh '{editor}'", "commit", "-q", "docs/guide.md")

    def save() -> None:
        try:
            wait_for(lambda: "a git of yours is at work" in out.getvalue(), "Ralph waits")
        finally:
            saved.touch()

    with ThreadPoolExecutor() as beside:
        both = [beside.submit(write), beside.submit(save)]
        code = cli.run(app, ("run", "--isolated", "--max-iterations", "1"))
        for each in both:
            each.result()
    assert int(code) == (0 if lands else 4), err.getvalue() + out.getvalue()
    assert project.subjects() == ["written", *(["Do one", "ralph: one completed"] if lands else ["ralph: state"])]
    assert project.git("show", "HEAD:docs/guide.md") == "# Guide\nmine"
    assert_nothing_is_left(project)


def with_state_on_main(tmp_path: Path, agent: str) -> Project:
    """Tasks `a`, `b` and `c`; the list of them is committed, so that each branch and commit has one."""
    project = make_project(tmp_path, agent=agent, tasks=marked(*"abc"))
    project.commit("state")
    return project


@pytest.mark.parametrize("flags", sample(["--isolated", "--parallel 2"], 1))
def test_another_branch_that_is_checked_out_ends_the_run_and_loses_nothing(tmp_path: Path, flags: str) -> None:
    """While `b` is worked on, and with two workers `c`."""
    left = person(tmp_path, "until git stash -q; do sleep 0.05; done; git switch -q main")
    settled = f"git -C '{tmp_path}/toy' log -1 --format=%s ralph/toy | grep -q 'a completed'"
    agent = f"""{MEET}
begin
case $RALPH_TASK in
  b) until {settled}; do sleep 0.05; done
    test "{flags}" = --isolated || await begun.c.1; {left}; touch "$BESIDE/left";;
  c) await left;;
esac
{WORK}"""
    project = with_state_on_main(tmp_path, agent)
    arguments = (*flags.split(), "--trust-commands")
    ran = project.ralph("run", *arguments)
    assert ran.code == 2, ran.out + ran.err
    assert "ralph/toy, which the state is on, is not checked out any more" in ran.err
    assert "git switch ralph/toy" in ran.err
    assert ran.err.count("\n") == 1
    assert landed(project) == ["a"]
    assert project.subjects("main") == ["state"]
    assert project.git("diff", "--stat", "main") == "", "the other branch's files are left as they are"

    project.git("switch", "-q", "ralph/toy")
    resumed = project.ralph("resume", *arguments)
    assert resumed.code == 0, resumed.out + resumed.err
    assert landed(project) == [*"abc"]
    assert {name: dict(project.task(name).attempts) for name in "abc"} == {name: {"coder": 1} for name in "abc"}
    assert project.changed(project.task_commits()["b"]) == ["work/b.txt"]
    assert_nothing_is_left(project)


@pytest.mark.thorough
def test_a_commit_that_a_person_drops_does_not_come_again_with_the_next(tmp_path: Path) -> None:
    """That of `a`, and the list that says it is done: it is done once more, and `b` has nothing of it."""
    drops = f"test $RALPH_TASK != b || {person(tmp_path, 'git reset -q --hard HEAD~2')}"
    project = with_state_on_main(tmp_path, f"{drops}\n{WORK}")
    ran = project.ralph("run", "--isolated", "--trust-commands")
    assert ran.code == 0, ran.out + ran.err
    assert landed(project) == [*"bac"]
    for name, commit in project.task_commits().items():
        assert project.changed(commit) == [f"work/{name}.txt"]
    assert_nothing_is_left(project)


def test_an_index_in_conflict_is_left_as_it_is_and_ends_no_run(tmp_path: Path) -> None:
    merges = "echo sound mine > app.txt; git commit -qam mine; ! git merge -q other"
    gate = {"name": "own", "kind": "test", "command": "true"}
    project = make_project(tmp_path, agent=f"{person(tmp_path, merges)}\n{WORK}", gates=[gate])
    project.git("switch", "-q", "-c", "other")
    project.commit("other", **{"app.txt": "sound other\n"})
    project.git("switch", "-q", "main")
    ran = project.ralph("run", "--isolated")
    assert ran.code == 0, ran.err + ran.out
    assert project.subjects() == ["mine", "Do one", "ralph: one completed"]
    assert len(project.git("ls-files", "--unmerged").splitlines()) == 3
    assert "<<<<<<< HEAD" in (project.root / "app.txt").read_text()
    project.git("merge", "--abort")
    assert (project.root / "app.txt").read_text() == "sound mine\n"
    assert_nothing_is_left(project)


def test_submodules_are_refused_with_one_line(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    project.commit("a submodule", **{".gitmodules": '[submodule "sub"]\n\tpath = sub\n\turl = ../sub\n'})
    refused = project.ralph("run", "--isolated")
    assert refused.code == 2
    assert refused.err.count("\n") == 1
    assert "has submodules, which no isolated checkout keeps; run without --parallel, --isolated" in refused.err
    assert project.records == []
    assert project.ralph("run").code == 0
