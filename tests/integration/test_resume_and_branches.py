"""Work that stays between runs, beside a person's own files and branches."""

import itertools
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.harness import HONEST, PROMISE, finish, make_project, task, wait_for
from tests.sampling import sample

FIRST_ONLY = "echo w >> work.txt\ntest $RALPH_TASK = one || exit 0\n" + PROMISE


def test_resume_after_a_limit_with_one_task_done_and_one_begun(tmp_path: Path) -> None:
    project = make_project(tmp_path, agent=FIRST_ONLY, tasks=[task("one"), task("two")], attempts=3)
    assert project.ralph("run", "--max-iterations", "2").code == 4
    project.agent("echo more >> work.txt\n" + PROMISE)
    resumed = project.ralph("resume")
    assert resumed.code == 0, resumed.out + resumed.err
    assert project.git("show", "HEAD:work.txt") == "w\nw\nmore"
    assert project.changed(project.task_commits()["two"]) == ["work.txt"]
    assert project.status() == []


@pytest.mark.parametrize(
    ("spoil", "last"),
    sample(
        itertools.product(
            ("rm -f .gitignore", "echo > .gitignore", "echo x > work.txt; echo > .gitignore"), ("exit 0\n", PROMISE)
        ),
        3,
    ),
)
def test_ignored_files_stay_whatever_earlier_attempts_did_to_the_rules(spoil: str, last: str, tmp_path: Path) -> None:
    agent = f"if [ $RALPH_ATTEMPT = 1 ]; then {spoil}; exit; fi\necho $RALPH_ATTEMPT > more.txt\n{last}"
    project = make_project(
        tmp_path,
        agent=agent,
        files={"app.txt": "sound\n", "check.sh": "exit 0\n", ".gitignore": ".env\nvenv/\n"},
        attempts=2,
    )
    project.write({".env": "SECRET=1", "venv/bin/python": "mine"})
    project.ralph("run", "--no-retry-blocked")
    assert (project.root / ".env").read_text() == "SECRET=1"
    assert (project.root / "venv/bin/python").read_text() == "mine"
    assert not {".env", "venv/bin/python"} & project.tree().keys()
    for snapshot in project.snapshots().values():
        assert ".env" not in project.git("ls-tree", "-r", "--name-only", snapshot).split()


def test_a_rule_taken_away_by_a_completed_task_puts_no_file_at_risk(tmp_path: Path) -> None:
    agent = "if [ $RALPH_TASK = one ]; then echo '*.o' > .gitignore\n" + PROMISE + "else echo x > two.txt; fi\n"
    project = make_project(
        tmp_path,
        agent=agent,
        tasks=[task("one"), task("two")],
        files={"check.sh": "exit 0\n", ".gitignore": "*.log\n"},
        attempts=1,
    )
    project.write({"secret.log": "mine"})
    assert project.ralph("run", "--no-retry-blocked").code == 3
    assert (project.root / "secret.log").read_text() == "mine"


def test_what_a_dead_run_left_running_is_ended_before_the_next_begins(tmp_path: Path) -> None:
    project = make_project(tmp_path, attempts=2)
    project.agent('echo $$ > "$BESIDE/pid"\n(sleep 60; echo late > late.txt) &\nsleep 60\n')
    process = project.start("run")
    wait_for(
        lambda: (project.beside / "pid").exists() and (project.beside / "pid").read_text().strip() != "", "the agent"
    )
    process.send_signal(signal.SIGKILL)
    finish(process)
    orphan = int((project.beside / "pid").read_text())
    assert psutil.Process(orphan).is_running()
    project.agent(HONEST)
    resumed = project.ralph("resume")
    assert resumed.code == 0, resumed.err
    assert "left running" in resumed.out
    assert not psutil.pid_exists(orphan) or psutil.Process(orphan).status() == psutil.STATUS_ZOMBIE


def test_resume_on_another_branch_says_where_the_state_is(tmp_path: Path) -> None:
    project = make_project(tmp_path, agent=FIRST_ONLY, tasks=[task("one"), task("two")])
    assert project.ralph("run", "--max-iterations", "1").code == 4
    project.git("switch", "-q", "main")
    refused = project.ralph("resume")
    assert refused.code == 2
    assert "git switch ralph/toy" in refused.err
    assert project.status() == []


def test_the_way_back_and_the_next_week(tmp_path: Path) -> None:
    """`git switch -` leads back, and after a merge the branch goes on from there."""
    project = make_project(tmp_path, agent=HONEST)
    assert "git switch - && git merge ralph/toy" in project.ralph("run").out
    project.git("switch", "-q", "-")
    assert project.git("branch", "--show-current") == "main"
    project.git("merge", "-q", "ralph/toy")
    project.commit("a person's own", notes="mine")
    project.tasks(task("next"))
    project.git("commit", "-qam", "the next task")
    assert project.ralph("run").code == 0
    assert project.git("merge-base", "--is-ancestor", "main", "ralph/toy") == ""
    assert project.task_commits().keys() == {"one", "next"}


def test_a_folder_of_untracked_files_that_became_a_link(tmp_path: Path) -> None:
    project = make_project(tmp_path, agent="mv mine ../elsewhere; ln -s ../elsewhere mine\n" + HONEST, attempts=1)
    project.write({"mine/notes.txt": "mine"})
    ran = project.ralph("run", "--no-retry-blocked")
    assert ran.code in (0, 3), ran.err
    assert (project.root.parent / "elsewhere/notes.txt").read_text() == "mine"


def test_a_state_folder_that_git_ignores_is_worked_with_and_not_committed(tmp_path: Path) -> None:
    project = make_project(
        tmp_path, agent=HONEST, files={"app.txt": "sound\n", "check.sh": "exit 0\n", ".gitignore": ".rulebook-ralph/\n"}
    )
    ran = project.ralph("run")
    assert ran.code == 0, ran.err
    assert not [name for name in project.tree() if name.startswith(".rulebook-ralph")]
    assert project.task().status == "completed"


def test_new_files_of_unfinished_work_that_a_person_changed_are_not_forgotten(tmp_path: Path) -> None:
    project = make_project(tmp_path, agent="echo half > new.txt; echo half >> app.txt\n", attempts=3)
    assert project.ralph("run", "--max-iterations", "1").code == 4
    project.write({"new.txt": "a person's half"})
    project.git("checkout", "-q", "--", "app.txt")
    refused = project.ralph("resume")
    assert refused.code == 2
    assert "new.txt" in refused.err


def test_a_typo_in_a_limit_is_no_limit_lost(tmp_path: Path) -> None:
    project = make_project(tmp_path, agent=HONEST)
    project.environment["RALPH_LIMIT__MAX_COST_USD"] = "5"
    refused = project.ralph("run")
    assert refused.code == 2
    assert "limits" in refused.err


def test_before_init_each_command_says_so(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    subprocess.run(["rm", "-r", str(project.folder.path)], check=True)
    for command in ("run", "resume", "status", "history"):
        refused = project.ralph(command)
        assert (refused.code, "ralph init" in refused.err) == (2, True), command
