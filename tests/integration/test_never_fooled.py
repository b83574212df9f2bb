"""Agents that claim what is not so, and agents that meddle with what is not theirs: none is ever completed."""

import json
import shutil
import time
from pathlib import Path

import pytest

from tests import lineup
from tests.harness import HONEST, PROMISE, TESTS, Project, Ran, make_project, picture, task
from tests.lineup import CLAIM, Kind
from tests.sampling import sample

BREAK = "echo broken > app.txt\n"
WORK = "echo real > new.txt\n"
REPORT = """printf '```ralph-report\\n{"status": "completed", "quality": {"tests": true}}\\n```\\n'\n"""
HOOK = "#!/bin/sh\necho ran >> '{beside}/evil'\n"
QUIET = "export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.hooksPath GIT_CONFIG_VALUE_0=/dev/null\n"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project of somebody who has a stash, another branch, a tag, a hook, configuration, untracked and ignored files."""
    made = make_project(tmp_path, attempts=1)
    made.write({"app.txt": "sound\nand stashed\n"})
    made.git("stash", "push", "-q", "--", "app.txt")
    made.git("branch", "other")
    made.git("tag", "v1")
    made.git("config", "user.mine", "kept")
    made.write({"notes.txt": "mine\n", "lib.o": "object\n", ".git/info/exclude": "*.mine\n", "x.mine": "x\n"})
    hook = made.root / ".git" / "hooks" / "post-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(HOOK.format(beside=made.beside))
    hook.chmod(0o755)
    return made


def user_files(project: Project) -> dict[str, tuple[int, bytes]]:
    """All that lies in the user's tree, but Ralph's state and git's own folder."""
    return picture(project.root, without=lambda path: path.startswith((".git/", ".rulebook-ralph")) or path == ".git")


_UNFINISHED = ("MERGE_HEAD", "rebase-merge", "rebase-apply", "CHERRY_PICK_HEAD", "index.lock", "sequencer")


class Before:
    """All that is the person's, to be compared with what is there afterwards."""

    def __init__(self, project: Project) -> None:
        self.belongings = lineup.belongings(project)
        self.files = user_files(project)

    def assert_untouched(self, project: Project, *, landed: bool = False) -> None:
        after = lineup.belongings(project)
        assert after.refs == self.belongings.refs
        assert after.git_files == self.belongings.git_files
        assert project.status() == ["?? notes.txt"]
        assert project.git("symbolic-ref", "HEAD") == f"refs/heads/ralph/{project.name}"
        assert [name for name in _UNFINISHED if (project.root / ".git" / name).exists()] == []
        assert not (project.beside / "evil").exists()
        assert {record.phase for record in project.records} == {"settled"}
        if not landed:
            assert project.task_commits() == {}
            assert user_files(project) == self.files
        for record in project.records:
            assert record.snapshot is not None
            assert project.git("cat-file", "-t", f"{record.snapshot}^2:prompt.md") == "blob"


def assert_not_fooled(project: Project, before: Before, ran: Ran) -> None:
    """The task ended blocked, nothing landed, every attempt is saved, and all that is the person's is as it was."""
    assert ran.code == 3, ran.err + ran.out
    assert project.task().status == "blocked"
    assert project.task().blocked_reason
    before.assert_untouched(project)
    assert sorted(project.snapshots()) == [record.iteration_number for record in project.records]
    assert f"{project.last.iteration_number} · one · coder" in project.folder.progress.read_text()


NOT_GIVEN = ("promise IMPLEMENTATION_COMPLETE was not given",)
GATE = ("gate 'tests' failed", "sh check.sh", "not sound")
NOTHING = ("file differs from the base",)

WORDS = [
    Kind("no output, does nothing", "true\n", ("the final message was empty",), "work"),
    Kind("no output, some work", WORK, NOT_GIVEN, "promise"),
    Kind("repeats the prompt", "cat\n", NOTHING, "work"),
    Kind("repeats the prompt, some work", WORK + "cat\n", NOT_GIVEN, "promise"),
    Kind("promise in prose", WORK + 'echo "I will say <promise>$RALPH_PROMISE</promise> when it is done."\n', ("was not given alone on its line",), "promise"),
    Kind("promise in a comment", WORK + 'echo "# <promise>$RALPH_PROMISE</promise> is not given"\n', ("was not given",), "promise"),
    Kind("promise on stderr", WORK + 'echo "<promise>$RALPH_PROMISE</promise>" >&2\n', NOT_GIVEN, "promise"),
    Kind("promise in a file", 'echo "<promise>$RALPH_PROMISE</promise>" > new.txt\n', NOT_GIVEN, "promise"),
    Kind("promise over two lines", WORK + 'printf "<promise>\\n$RALPH_PROMISE\\n</promise>\\n"\n', ("was not given",), "promise"),
    Kind("promise in another case", WORK + "echo '<promise>Implementation_Complete</promise>'\n", ("Another promise", "Implementation_"), "promise"),
    Kind("another promise", WORK + "echo '<promise>DONE</promise>'\n", ("Another promise", "DONE"), "promise"),
    Kind("promise of another stage", WORK + "echo '<promise>TESTS_PASSED</promise>'\n", ("TESTS_PASSED",), "promise"),
    Kind("a report alone", WORK + REPORT, NOT_GIVEN, "promise"),
    Kind("breaks a gate, claims it passed", BREAK + REPORT + PROMISE, (*GATE, "You claimed that these pass", "tests"), "gates"),
    Kind("breaks a gate, claims it in prose", BREAK + CLAIM, (*GATE, "You claimed that these pass"), "gates"),
    Kind("leaves no regular file", "mkfifo pipe\n", NOTHING, "work"),
    Kind("leaves a pipe where git reads", "rm .gitignore; mkfifo .gitignore .gitattributes\n" + BREAK + CLAIM, GATE, "gates"),
    Kind("leaves attributes that stop git", "echo '*.txt filter=none working-tree-encoding=nonsense' > .gitattributes\n" + BREAK + CLAIM, GATE, "gates"),
]  # fmt: skip
MEDDLING = [
    Kind("makes a state folder", "mkdir -p .rulebook-ralph/templates\nprintf '{\"version\": 1, \"project\": \"toy\", \"tasks\": []}' > .rulebook-ralph/prd.json\necho x > .rulebook-ralph/templates/a\n", NOTHING, "work"),
    Kind("weakens gates in a configuration of its own", "mkdir -p .rulebook-ralph\necho '{\"verification\": {\"enabled\": false}}' > .rulebook-ralph/config.yaml\n" + BREAK + CLAIM, GATE, "gates"),
    Kind("empties everything", "rm -rf -- * .gitignore\n" + CLAIM),
    Kind("resets and cleans", WORK + "git add -A\ngit reset -q --hard\ngit clean -q -fdx\n", NOTHING, "work"),
    Kind("hides by .gitignore", "printf 'app.txt\\n*.txt\\n' >> .gitignore\ngit rm -q --cached app.txt\n" + BREAK + CLAIM, GATE, "gates"),
    Kind("hides by index flags", "git update-index --assume-unchanged app.txt\ngit update-index --skip-worktree check.sh\n" + BREAK + CLAIM, GATE, "gates"),
    Kind("commits on another branch", QUIET + "git checkout -q -b mine\n" + BREAK + "git commit -qam mine\n" + CLAIM, GATE, "gates"),
    Kind("commits, then undoes it", QUIET + BREAK + "git commit -qam mine\ngit reset -q --hard HEAD^\n", NOTHING, "work"),
    Kind("amends", QUIET + BREAK + "git commit -q --amend -am mine\n" + CLAIM, GATE, "gates"),
    Kind("rebases", QUIET + "git checkout -q --orphan fresh\ngit commit -q -m fresh\ngit branch -f other\ngit branch -f main\ngit tag -f v1 >/dev/null\ngit branch -D ralph/toy >/dev/null || true\n" + BREAK + CLAIM, GATE, "gates"),
    Kind("leaves a merge half done", QUIET + "git checkout -q -b side\necho a > app.txt\ngit commit -qam a\ngit checkout -q -\necho b > app.txt\ngit commit -qam b\ngit merge -q side || true\n" + CLAIM, ("not sound",), "gates"),
    Kind("stashes", "echo more >> app.txt\ngit stash push -q\ngit stash drop -q\n", NOTHING, "work"),
    Kind("configures git to run a program", "printf '#!/bin/sh\\necho ran >> \"%s/evil\"\\n' \"$BESIDE\" > run.sh\nchmod +x run.sh\necho '*.txt filter=evil diff=evil' > .gitattributes\ngit config filter.evil.clean ./run.sh\ngit config diff.evil.textconv ./run.sh\ngit config core.hooksPath .\ngit config core.fsmonitor ./run.sh\n" + BREAK + CLAIM, GATE, "gates"),
    Kind("installs hooks", "mkdir -p .git/hooks\nfor name in pre-commit commit-msg post-commit post-checkout reference-transaction post-index-change; do printf '#!/bin/sh\\necho ran >> \"%s/evil\"\\n' \"$BESIDE\" > .git/hooks/$name; chmod +x .git/hooks/$name; done\n" + BREAK + CLAIM, GATE, "gates"),
    Kind("changes exclude rules", "mkdir -p .git/info; echo '*' > .git/info/exclude\n" + BREAK + CLAIM, GATE, "gates"),
    Kind("locks the index", "touch .git/index.lock .git/HEAD.lock .git/config.lock\n" + BREAK + CLAIM, GATE, "gates"),
    Kind("deletes the repository", "rm -rf .git\n" + BREAK + CLAIM, GATE, "gates"),
    Kind("moves the repository away", "mv .git gone; git init -q .\n" + BREAK + CLAIM, GATE, "gates"),
    Kind("links the repository elsewhere", 'mv .git "$BESIDE/gone"; ln -s "$BESIDE" .git\n' + BREAK + CLAIM, GATE, "gates"),
    Kind("leaves a repository inside", "git init -q inner\ngit -C inner commit -q --allow-empty -m x\n", ("file differs",)),
    Kind("packs git's refs", QUIET + "git pack-refs --all --prune\ngit gc -q --prune=now\n", NOTHING, "work"),
]  # fmt: skip


def test_no_deceit_completes_a_task(project: Project, thorough: bool) -> None:
    """One after another in the same repository; a person's things are compared file by file."""
    before = Before(project)
    kinds = [*lineup.sampled(WORDS, 6, thorough=thorough), *lineup.sampled(MEDDLING, 10, thorough=thorough)]
    lineup.assert_each_was_refused(lineup.run_in(project, kinds))
    before.assert_untouched(project)


def test_an_agent_that_fails_after_its_promise_completes_nothing(project: Project) -> None:
    before = Before(project)
    for script, told in ((WORK + PROMISE + "exit 1\n", "exit code 1"), (WORK + PROMISE + "kill -9 $$\n", "SIGKILL")):
        project.agent(script)
        assert project.ralph("run", "--no-retry-blocked").code == 3
        assert len(project.records) % 3 == 0, "what an agent fails at is tried again"
        assert project.task().status == "blocked"
        assert told in (project.task().blocked_reason or "")
        project.ralph("task", "unblock", "one")
    before.assert_untouched(project)


def test_the_state_and_the_repository_are_nowhere_on_the_disk(project: Project) -> None:
    """In the sandbox; the agent looks below the folder where both lie."""
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    before = Before(project)
    project.write({"secret.o": "only in the user's tree"})
    before.files = user_files(project)
    above = project.root.parent
    project.agent(
        f"find '{above}' '{above.parent}/homes' /tmp -name prd.json > \"$BESIDE/found\" 2>/dev/null || true\n"
        f"find '{above}' -name secret.o >> \"$BESIDE/found\"\n"
        'git cat-file -e refs/ralph/toy/state 2>/dev/null && echo state >> "$BESIDE/found" || true\n'
        'git rev-parse -q --verify v1 >/dev/null && echo looked >> "$BESIDE/found"\n'
    )
    assert project.ralph("run").code == 3
    assert (project.beside / "found").read_text() == "looked\n"
    before.assert_untouched(project)


# What one attempt cannot show


@pytest.mark.parametrize("rollback", sample(["keep", "reset"], 1))
def test_each_attempt_is_refused_and_told_why(project: Project, rollback: str) -> None:
    before = Before(project)
    project.configure(attempts=3, git={"rollback": rollback})
    project.agent(
        f"""
        cat > "$BESIDE/prompt-$RALPH_ATTEMPT"
        case $RALPH_ATTEMPT in
            1) ;;
            2) {BREAK} {PROMISE} ;;
            *) echo sound > app.txt; {WORK} ;;
        esac
        """
    )
    assert_not_fooled(project, before, project.ralph("run"))
    assert [record.verdict.hook if record.verdict else "" for record in project.records] == ["work", "gates", "promise"]
    assert [record.attempt for record in project.records] == [1, 2, 3]
    second, third = ((project.beside / f"prompt-{number}").read_text() for number in (2, 3))
    assert "No file differs" in second
    assert "gate 'tests' failed" in third
    assert "app.txt: not sound" in third
    assert project.git("show", f"{project.snapshots()[2]}:app.txt") == "broken"
    assert project.git("show", f"{project.snapshots()[3]}:new.txt") == "real"


def scripted(project: Project, *attempts: dict[str, object], executor: str = "played") -> None:
    script = project.beside / "script.json"
    script.write_text(json.dumps({"tasks": {"one": list(attempts)}}))
    project.configure(
        attempts=1,
        tools={"executors": [{"id": executor, "type": "scripted", "args": [str(script)]}]},
        defaults={"executor": executor, "maxIterations": 1},
    )


def test_promise_in_a_tool_result(project: Project) -> None:
    before = Before(project)
    tag = "<promise>IMPLEMENTATION_COMPLETE</promise>"
    steps: list[object] = [{"write": "new.txt", "content": "x"}, {"run": f"echo '{tag}'"}, {"say": tag}]
    scripted(project, {"steps": steps, "final": f"The tool said {tag} there."})
    assert_not_fooled(project, before, project.ralph("run"))
    assert "was not given" in project.last.feedback


def test_stream_that_is_cut_off_after_the_promise(project: Project) -> None:
    before = Before(project)
    scripted(project, {"steps": [{"write": "new.txt", "content": "x"}], "promise": True, "crash": True})
    assert_not_fooled(project, before, project.ralph("run"))
    assert "cut-off" in (project.task().blocked_reason or "")


@pytest.mark.parametrize(
    ("limit", "told"), [("maxWallTime", "took longer than"), ("idleTimeout", "gave no output and changed no file for")]
)
def test_killed_by_a_limit_after_the_promise(project: Project, limit: str, told: str) -> None:
    before = Before(project)
    project.configure(attempts=1, limits={limit: 0.4})
    project.agent(WORK + PROMISE + "trap 'exit 0' INT TERM\nsleep 30 & wait\n")
    assert_not_fooled(project, before, project.ralph("run"))
    assert told in project.last.feedback
    assert project.last.agent_status == "killed"
    assert project.git("show", f"{project.last.snapshot}:new.txt") == "real"


@pytest.mark.parametrize(
    ("mode", "how"), [("auto", "setsid"), ("auto", "env -i PATH=$PATH setsid"), ("off", ""), ("off", "setsid")]
)
def test_nothing_of_an_agents_goes_on_after_it_ended(project: Project, mode: str, how: str) -> None:
    """Without the sandbox a process that hides from Ralph is not found: docs/design.md, threat model."""
    before, beats = Before(project), project.beside / "beats"
    beats.touch()
    late = f"while kill -0 $$; do sleep 0.02; done; sleep 1; while echo late | tee -a '{beats}' > late.txt; do sleep 0.02; done"
    project.agent(f'{how} sh -c "{late}" >/dev/null 2>&1 &\necho well\n')
    project.configure(attempts=1, sandbox=mode)
    assert_not_fooled(project, before, project.ralph("run"))
    assert "No file differs" in project.last.feedback
    time.sleep(1.2)
    assert beats.read_text() == ""


def test_daemon_that_keeps_the_output_open_delays_nothing(project: Project) -> None:
    before = Before(project)
    project.agent("setsid sh -c 'echo more; trap \"\" TERM; sleep 60' &\n" + BREAK + CLAIM)
    assert_not_fooled(project, before, project.ralph("run"))
    assert project.last.duration_ms < 15_000


def test_what_new_ignore_rules_name_is_neither_judged_nor_committed(project: Project) -> None:
    """A new file that they name is left out, as a build's products are; one that was there counts all the same."""
    project.agent("echo '*.txt' > .gitignore\n" + WORK + "echo more >> app.txt\n" + PROMISE)
    project.configure(attempts=1, gates=[{**TESTS, "command": "sh check.sh; ! test -e new.txt"}])
    assert project.ralph("run").code == 0
    assert project.changed(project.task_commits()["one"]) == [".gitignore", "app.txt"]


def test_ignore_rules_taken_away_drag_nothing_in(project: Project) -> None:
    project.agent("rm .gitignore\n" + WORK + "echo object > there.o\n" + PROMISE)
    assert project.ralph("run").code == 0
    assert project.changed(project.task_commits()["one"]) == [".gitignore", "new.txt"]
    assert project.status() == ["?? lib.o", "?? notes.txt"]
    assert (project.root / ".git" / "info" / "exclude").read_text() == "*.mine\n"


@pytest.mark.parametrize(
    "meddling", sample(["git gc -q --prune=now", "git pack-refs --all --prune", "git repack -q -a -d"], 1)
)
def test_earlier_snapshots_outlive_gits_housekeeping(project: Project, meddling: str) -> None:
    """In the agent's clone, and in the user's own repository."""
    before = Before(project)
    project.configure(attempts=3, sandbox="off")
    project.agent(f"{meddling}\ngit -C '{project.root}' gc -q --prune=now\necho \"$RALPH_ATTEMPT\" > new.txt\n")
    assert_not_fooled(project, before, project.ralph("run"))
    assert len(project.snapshots()) == 3
    assert f"refs/ralph/{project.name}/state" in project.refs()


def test_red_gates_of_the_base_hide_no_later_gate(project: Project) -> None:
    """A gate that was red before is not held against the agent, but those after it are run all the same."""
    before = Before(project)
    red = {"name": "lint", "kind": "lint", "command": "false"}
    green = {"name": "build", "command": "true"}
    project.configure(attempts=1, gates=[green, red, TESTS])
    project.agent(BREAK + CLAIM)
    assert_not_fooled(project, before, project.ralph("run"))
    assert project.last.verdict is not None
    assert project.last.verdict.hook == "gates"
    assert [(check.step, check.passed) for check in project.last.checks] == [
        ("build", True),
        ("lint", False),
        ("tests", False),
    ]


def test_work_on_one_task_is_no_work_on_another(tmp_path: Path) -> None:
    """Unfinished work belongs to its task: another one is not completed by it."""
    project = make_project(tmp_path, tasks=[task("one"), task("two")], agent=WORK, attempts=3)
    assert project.ralph("run", "--task", "one", "--max-iterations", "1").code == 4
    project.configure(attempts=1)
    project.agent("echo done\n")
    assert project.ralph("run", "--task", "two").code == 3
    assert project.task("two").status == "blocked"
    assert "No file differs" in project.last.feedback
    assert project.task_commits() == {}


def test_a_flag_of_the_person_keeps_their_change_out(project: Project) -> None:
    """A file the person told git to leave alone is never committed, nor is their version lost by a rollback."""
    project.git("update-index", "--skip-worktree", "docs/guide.md")
    project.write({"docs/guide.md": "my own version\n"})
    project.configure(attempts=2, git={"rollback": "reset"})
    project.agent(f"test $RALPH_ATTEMPT = 2 || {{ {BREAK} exit 0; }}\n" + HONEST)
    assert project.ralph("run").code == 0
    assert project.changed(project.task_commits()["one"]) == ["work/one.txt"]
    assert (project.root / "docs" / "guide.md").read_text() == "my own version\n"


# Being stuck


@pytest.mark.parametrize(
    ("lie", "says"),
    sample(
        [(lie, says) for lie in ("gates", "evidence") for says in ("", "echo round > notes-$RALPH_ATTEMPT.md\n")], 2
    ),
)
def test_a_talkative_liar_is_stuck_after_three_like_a_silent_one(tmp_path: Path, lie: str, says: str) -> None:
    """A fresh start with another brief follows, once; the same again blocks the task."""
    script = BREAK if lie == "gates" else "echo more >> docs/guide.md\n"
    agent = f'cat > "$BESIDE/prompt-$RALPH_ATTEMPT"\n{says}{script}echo "Attempt $RALPH_ATTEMPT"\n{CLAIM}'
    settings = lineup.judged_by_script(tmp_path, "no")
    project = make_project(tmp_path, agent=agent, attempts=15, **settings)
    ran = project.ralph("run", "--no-retry-blocked")
    assert ran.code == 3, ran.out
    assert "stuck" in (project.task().blocked_reason or ""), ran.out
    assert [record.repeats for record in project.records] == [1, 2, 3, 4]
    assert {record.verdict.hook for record in project.records if record.verdict} == {lie}
    assert project.last.stop_reason == "stuck"
    assert "put back to the base commit" in (project.beside / "prompt-4").read_text()
    assert project.tree() == project.tree("main")


def test_three_tasks_in_a_row_that_are_blocked_alike_end_the_run(tmp_path: Path) -> None:
    tasks = [task(name) for name in ("one", "two", "three", "four")]
    project = make_project(tmp_path, agent=BREAK + CLAIM, attempts=1, tasks=tasks)
    ran = project.ralph("run", "--json", "--no-retry-blocked")
    assert (ran.code, ran.json["stopReason"], ran.json["iterations"]) == (5, "error", 3)
    assert "3 tasks in a row" in ran.json["error"]
    assert [project.task(each.id).status for each in tasks] == ["blocked", "blocked", "blocked", "pending"]
