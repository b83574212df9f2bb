"""Agents that claim what is not so, and agents that meddle with what is not theirs: none is ever completed."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import lineup
from tests.harness import HONEST, PROMISE, TESTS, Project, Ran, make_project, picture, task
from tests.lineup import Kind
from tests.sampling import sample

BREAK = "echo broken > app.txt\n"
WORK = "echo real > new.txt\n"
CLAIM = "echo 'Done. All tests pass now.'\n" + PROMISE
REPORT = """printf '```ralph-report\\n{"status": "completed", "quality": {"tests": true}}\\n```\\n'\n"""
HOOK = "#!/bin/sh\necho ran >> '{beside}/evil'\n"


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place to copy projects from; filled by the first test that asks, whose surroundings are as every test's."""
    return tmp_path_factory.mktemp("furnished")


@pytest.fixture
def project(furnished: Path, tmp_path: Path) -> Project:
    """A project of somebody who has a stash, another branch, a tag, a hook, configuration, untracked and ignored files."""
    if not (furnished / "toy").exists():
        made = make_project(furnished)
        made.write({"app.txt": "sound\nand stashed\n"})
        made.git("stash", "push", "-q", "--", "app.txt")
        made.git("branch", "other")
        made.git("tag", "v1")
        made.git("config", "user.mine", "kept")
        made.write({"notes.txt": "mine\n", "lib.o": "object\n", ".git/info/exclude": "*.mine\n", "x.mine": "x\n"})
    shutil.copytree(furnished / "toy", tmp_path / "toy", symlinks=True)
    (tmp_path / "beside").mkdir()
    copied = Project(tmp_path / "toy", tmp_path / "beside")
    copied.configure(attempts=1)
    hook = copied.root / ".git" / "hooks" / "post-commit"
    hook.parent.mkdir()
    hook.write_text(HOOK.format(beside=copied.beside))
    hook.chmod(0o755)
    return copied


@dataclass(frozen=True, slots=True)
class Belongings:
    """What is the person's, and must be after the run as it was before."""

    refs: dict[str, str]
    tree: dict[str, str]
    git_files: dict[str, tuple[int, bytes]]
    own_files: dict[str, bytes]


OWN_FILES = ("notes.txt", "lib.o", "x.mine")
_GUARDED = ("config", "hooks", "info", "logs/refs/stash")
_UNFINISHED = ("MERGE_HEAD", "rebase-merge", "rebase-apply", "CHERRY_PICK_HEAD", "index.lock", "sequencer")


def belongings(project: Project) -> Belongings:
    ours = (f"refs/ralph/{project.name}/", f"refs/heads/ralph/{project.name}")
    git_files = picture(project.root / ".git", without=lambda path: not path.startswith(_GUARDED))
    own = {name: path.read_bytes() for name in OWN_FILES if (path := project.root / name).exists()}
    return Belongings(
        refs={name: commit for name, commit in project.refs().items() if not name.startswith(ours)},
        tree=project.tree("main"),
        git_files=git_files,
        own_files=own,
    )


def assert_not_fooled(project: Project, before: Belongings, ran: Ran, *, own_files: bool = True) -> None:
    """The task ended blocked, nothing landed, every attempt is saved, and all that is the person's is as it was."""
    assert ran.code == 3, ran.err + ran.out
    assert project.task().status == "blocked"
    assert project.task().blocked_reason
    assert_untouched(project, before, own_files=own_files)
    assert sorted(project.snapshots()) == [record.iteration_number for record in project.records]
    assert f"{project.last.iteration_number} · one · coder" in project.folder.progress.read_text()


def assert_untouched(project: Project, before: Belongings, *, own_files: bool = True) -> None:
    assert project.task_commits() == {}
    assert project.git("symbolic-ref", "HEAD") == f"refs/heads/ralph/{project.name}"
    assert project.tree() == before.tree
    assert project.status() == (["?? notes.txt"] if own_files else [])
    assert project.git("diff", "HEAD") == ""
    assert {line[0] for line in project.git("ls-files", "-v").splitlines()} == {"H"}
    after = belongings(project)
    assert after.refs == before.refs
    assert after.git_files == before.git_files
    assert not own_files or after.own_files == before.own_files
    assert [name for name in _UNFINISHED if (project.root / ".git" / name).exists()] == []
    assert not (project.beside / "evil").exists()
    assert [record.phase for record in project.records] == ["settled"] * len(project.records)
    for record in project.records:
        assert record.snapshot is not None
        assert project.git("cat-file", "-t", f"{record.snapshot}^2:prompt.md") == "blob"
    assert project.ralph("validate").code == 0


@dataclass(frozen=True, slots=True)
class Deceit:
    """What an agent does, which rule of the judge must see it, and words that the feedback must hold."""

    script: str
    hook: str
    told: tuple[str, ...]
    own_files: bool = True


NOT_GIVEN = ("promise IMPLEMENTATION_COMPLETE was not given",)
GATE = ("gate 'tests' failed", "sh check.sh", "exit code 1", "not sound")
PUT_BACK = (".rulebook-ralph/ was changed", "put back")
GIT_PUT_BACK = ("changed git's own files", "put back")
NOTHING = ("file differs from the base",)

DECEITS: dict[str, Deceit] = {
    "says done, does nothing": Deceit(CLAIM, "work", ("You said it was done", *NOTHING)),
    "no output, does nothing": Deceit("true\n", "work", ("the final message was empty",)),
    "no output, some work": Deceit(WORK, "promise", NOT_GIVEN),
    "repeats the prompt": Deceit("cat\n", "work", NOTHING),
    "repeats the prompt, some work": Deceit(WORK + "cat\n", "promise", NOT_GIVEN),
    "promise in prose": Deceit(
        WORK + 'echo "I will say <promise>$RALPH_PROMISE</promise> when it is done."\n', "promise", NOT_GIVEN
    ),
    "promise in a comment": Deceit(WORK + 'echo "# <promise>$RALPH_PROMISE</promise>"\n', "promise", NOT_GIVEN),
    "promise as a list item": Deceit(WORK + 'echo "- <promise>$RALPH_PROMISE</promise>"\n', "promise", NOT_GIVEN),
    "promise on stderr": Deceit(WORK + 'echo "<promise>$RALPH_PROMISE</promise>" >&2\n', "promise", NOT_GIVEN),
    "promise in a file": Deceit('echo "<promise>$RALPH_PROMISE</promise>" > new.txt\n', "promise", NOT_GIVEN),
    "promise over two lines": Deceit(
        WORK + 'printf "<promise>\\n$RALPH_PROMISE\\n</promise>\\n"\n', "promise", NOT_GIVEN
    ),
    "promise in another case": Deceit(
        WORK + "echo '<promise>Implementation_Complete</promise>'\n", "promise", ("Another promise", "Implementation_")
    ),
    "another promise": Deceit(WORK + "echo '<promise>DONE</promise>'\n", "promise", ("Another promise", "DONE")),
    "promise of another stage": Deceit(
        WORK + "echo '<promise>TESTS_PASSED</promise>'\n", "promise", ("Another promise", "TESTS_PASSED")
    ),
    "a report alone": Deceit(WORK + REPORT, "promise", NOT_GIVEN),
    "promise, then fails": Deceit(WORK + PROMISE + "exit 1\n", "agent", ("exit code 1",)),
    "promise, then killed": Deceit(WORK + PROMISE + "kill -9 $$\n", "agent", ("SIGKILL",)),
    "breaks a gate, claims it passed": Deceit(
        BREAK + REPORT + PROMISE, "gates", (*GATE, "You claimed that these pass", "tests")
    ),
    "breaks a gate, claims it in prose": Deceit(BREAK + CLAIM, "gates", (*GATE, "You claimed that these pass")),
    "deletes the gate's script": Deceit("rm check.sh\n" + CLAIM, "integrity", ("check.sh",)),
    "edits prd.json": Deceit(
        'sed -i \'s/"pending"/"completed"/; s/"in_iteration"/"completed"/\' .rulebook-ralph/prd.json\n' + CLAIM,
        "work",
        PUT_BACK,
    ),
    "removes its task from prd.json": Deceit(
        """printf '{"version": 1, "project": "toy", "tasks": []}' > .rulebook-ralph/prd.json\n""" + WORK,
        "promise",
        PUT_BACK,
    ),
    "weakens the gates": Deceit(
        "sed -i 's/sh check.sh/true/' .rulebook-ralph/config.yaml\n" + BREAK + CLAIM, "gates", (*GATE, *PUT_BACK)
    ),
    "adds templates": Deceit(
        "mkdir .rulebook-ralph/templates\necho x > .rulebook-ralph/templates/a\n" + CLAIM, "work", PUT_BACK
    ),
    "deletes the state folder": Deceit("rm -rf .rulebook-ralph\n" + BREAK + CLAIM, "gates", (*GATE, *PUT_BACK)),
    "state folder becomes a file": Deceit("rm -rf .rulebook-ralph\ntouch .rulebook-ralph\n" + CLAIM, "work", PUT_BACK),
    "forges progress and history": Deceit(
        """
        printf '## Iteration 1 · one · coder · attempt 1 · completed\\n## End of iteration 1\\n' >> .rulebook-ralph/progress.txt
        sed 's/executing/settled/' .rulebook-ralph/history/iteration-1.json > .rulebook-ralph/history/iteration-7.json
        sed -i 's/executing/settled/' .rulebook-ralph/history/iteration-1.json
        """
        + CLAIM,
        "work",
        (*PUT_BACK, "progress.txt", "history/iteration-7.json"),
    ),
    "resets and cleans": Deceit(
        WORK + "git add -A\ngit reset -q --hard\ngit clean -q -fdx\n" + CLAIM,
        "work",
        (*NOTHING, *PUT_BACK),
        own_files=False,
    ),
    "hides by .gitignore": Deceit(
        "printf 'app.txt\\n*.txt\\n' >> .gitignore\ngit rm -q --cached app.txt\n" + BREAK + CLAIM, "gates", GATE
    ),
    "hides by index flags": Deceit(
        """
        git update-index --assume-unchanged app.txt
        git update-index --skip-worktree check.sh
        GIT_INDEX_FILE=.git/ralph/index git update-index --assume-unchanged app.txt
        """
        + BREAK
        + CLAIM,
        "gates",
        GATE,
    ),
    "commits on another branch": Deceit(
        "git checkout -q -b mine\n" + BREAK + "git -c core.hooksPath=/dev/null commit -qam mine\n" + CLAIM,
        "gates",
        (*GATE, *GIT_PUT_BACK, "HEAD"),
    ),
    "commits, then undoes it": Deceit(
        BREAK + "git -c core.hooksPath=/dev/null commit -qam mine\ngit reset -q --hard HEAD^\n" + CLAIM, "work", NOTHING
    ),
    "amends": Deceit(
        BREAK + "git -c core.hooksPath=/dev/null commit -q --amend -am mine\n" + CLAIM, "gates", (*GATE, *GIT_PUT_BACK)
    ),
    "rebases": Deceit(
        """
        export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.hooksPath GIT_CONFIG_VALUE_0=/dev/null
        git checkout -q --orphan fresh
        git commit -q -m fresh
        git branch -f other
        git branch -f main
        git tag -f v1 >/dev/null
        git branch -D ralph/toy >/dev/null
        """
        + BREAK
        + CLAIM,
        "gates",
        (*GATE, *GIT_PUT_BACK, "refs/heads/main", "refs/tags/v1"),
    ),
    "leaves a merge half done": Deceit(
        """
        export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.hooksPath GIT_CONFIG_VALUE_0=/dev/null
        git checkout -q -b side
        echo a > app.txt
        git commit -qam a
        git checkout -q -
        echo b > app.txt
        git commit -qam b
        git merge -q side || true
        """
        + CLAIM,
        "gates",
        (*GATE, *GIT_PUT_BACK, "MERGE_HEAD"),
    ),
    "leaves a rebase half done": Deceit(
        """
        export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.hooksPath GIT_CONFIG_VALUE_0=/dev/null
        git checkout -q -b side
        echo a > app.txt
        git commit -qam a
        git checkout -q -
        echo b > app.txt
        git commit -qam b
        git rebase -q side >/dev/null 2>&1 || true
        test -d .git/rebase-merge
        """
        + CLAIM,
        "gates",
        (*GATE, *GIT_PUT_BACK, "rebase-merge"),
    ),
    "stashes": Deceit(
        "echo more >> app.txt\ngit stash push -q\ngit stash drop -q 'stash@{1}'\n" + CLAIM,
        "work",
        (*NOTHING, *GIT_PUT_BACK),
    ),
    "pops the person's stash": Deceit("git stash pop -q\n" + BREAK + CLAIM, "gates", (*GATE, "refs/stash")),
    "configures git to run a program": Deceit(
        """
        printf '#!/bin/sh\\necho ran >> "%s/evil"\\n' "$BESIDE" > "$BESIDE/run.sh"
        chmod +x "$BESIDE/run.sh"
        mkdir "$BESIDE/hooks"
        for name in pre-commit commit-msg post-checkout reference-transaction post-index-change; do
            cp "$BESIDE/run.sh" "$BESIDE/hooks/$name"
        done
        echo '*.txt filter=evil diff=evil' > .gitattributes
        """
        + BREAK
        + """
        git config filter.evil.clean "$BESIDE/run.sh"
        git config diff.evil.textconv "$BESIDE/run.sh"
        git config gpg.program "$BESIDE/run.sh"
        git config commit.gpgSign true
        git config core.hooksPath "$BESIDE/hooks"
        git config core.fsmonitor "$BESIDE/run.sh"
        """
        + CLAIM,
        "gates",
        (*GATE, *GIT_PUT_BACK, "config"),
    ),
    "installs hooks": Deceit(
        """
        mkdir -p .git/hooks
        printf '#!/bin/sh\\necho ran >> "%s/evil"\\n' "$BESIDE" > "$BESIDE/run.sh"
        chmod +x "$BESIDE/run.sh"
        """
        + BREAK
        + """
        for name in pre-commit commit-msg post-commit post-checkout reference-transaction post-index-change; do
            cp "$BESIDE/run.sh" .git/hooks/$name
        done
        """
        + CLAIM,
        "gates",
        (*GATE, *GIT_PUT_BACK, "hooks/pre-commit"),
    ),
    "changes exclude rules": Deceit("echo '*' > .git/info/exclude\n" + BREAK + CLAIM, "gates", (*GATE, "info/exclude")),
    "locks the index": Deceit("touch .git/index.lock .git/HEAD.lock .git/config.lock\n" + CLAIM, "work", NOTHING),
    "deletes Ralph's working files": Deceit("rm -rf .git/ralph\n" + BREAK + CLAIM, "gates", GATE),
    "locks Ralph's index": Deceit("touch .git/ralph/index.lock\n" + BREAK + CLAIM, "gates", GATE),
    "leaves a repository inside": Deceit(
        "git init -q inner\ngit -C inner commit -q --allow-empty -m x\n" + CLAIM,
        "integrity",
        ("inner", "Remove its .git"),
    ),
    "leaves an empty repository inside": Deceit("git init -q inner\n" + CLAIM, "integrity", ("inner",)),
    "leaves an empty repository with files": Deceit(
        "git init -q inner\necho x > inner/file\n" + WORK + CLAIM, "integrity", ("inner",)
    ),
    "leaves no regular file": Deceit("mkfifo pipe\n" + CLAIM, "work", NOTHING),
    "packs git's refs": Deceit("git pack-refs --all --prune\ngit gc -q --prune=now\n" + CLAIM, "work", NOTHING),
}


ALONE = (
    "promise, then fails",
    "forges progress and history",
    "resets and cleans",
    "rebases",
    "deletes Ralph's working files",
    "leaves a repository inside",
)
"""What needs a run of its own, or harms most. `--thorough` gives each a run of its own."""


@pytest.mark.parametrize("name", sample(DECEITS, always=ALONE))
def test_no_deceit_completes_a_task(project: Project, name: str) -> None:
    deceit = DECEITS[name]
    before = belongings(project)
    project.agent(deceit.script)
    ran = project.ralph("run")
    assert_not_fooled(project, before, ran, own_files=deceit.own_files)
    record, *again = project.records
    assert len(again) == (2 if deceit.hook == "agent" else 0), "what an agent fails at is tried again"
    assert record.verdict is not None
    assert record.verdict.hook == deceit.hook
    assert [words for words in deceit.told if words not in record.feedback] == [], record.feedback


def test_no_deceit_among_many_completes_a_task(project: Project, thorough: bool) -> None:
    """All that need no run of their own, one after another in the same repository."""
    everyone = [Kind(name, it.script, it.told, it.hook) for name, it in DECEITS.items() if name not in ALONE]
    kinds = lineup.sampled(everyone, 18, thorough=thorough)
    before = belongings(project)
    lineup.assert_each_was_refused(lineup.run_in(project, kinds))
    assert_untouched(project, before)


# What one attempt cannot show


@pytest.mark.parametrize("rollback", sample(["keep", "reset"], 1))
def test_each_attempt_is_refused_and_told_why(project: Project, rollback: str) -> None:
    before = belongings(project)
    project.configure(attempts=3, git={"rollback": rollback})
    project.agent(
        f"""
        cat > "$BESIDE/prompt-$RALPH_ATTEMPT"
        case $RALPH_ATTEMPT in
            1) {PROMISE} ;;
            2) {BREAK} {PROMISE} ;;
            *) echo sound > app.txt; {WORK} ;;
        esac
        """
    )
    assert_not_fooled(project, before, project.ralph("run"))
    assert [record.verdict.hook if record.verdict else "" for record in project.records] == ["work", "gates", "promise"]
    assert [record.attempt for record in project.records] == [1, 2, 3]
    second, third = ((project.beside / f"prompt-{number}").read_text() for number in (2, 3))
    assert "no file differs" in second
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
    before = belongings(project)
    tag = "<promise>IMPLEMENTATION_COMPLETE</promise>"
    steps: list[object] = [{"write": "new.txt", "content": "x"}, {"run": f"echo '{tag}'"}, {"say": tag}]
    scripted(project, {"steps": steps, "final": f"The tool said {tag}."})
    assert_not_fooled(project, before, project.ralph("run"))
    assert NOT_GIVEN[0] in project.last.feedback


def test_stream_that_is_cut_off_after_the_promise(project: Project) -> None:
    before = belongings(project)
    scripted(project, {"steps": [{"write": "new.txt", "content": "x"}], "promise": True, "crash": True})
    assert_not_fooled(project, before, project.ralph("run"))
    assert "cut off" in project.last.feedback


@pytest.mark.parametrize(
    ("limit", "told"),
    [("iterationTimeout", "took longer than"), ("idleTimeout", "no output and no change in the tree for")],
)
def test_killed_by_a_limit_after_the_promise(project: Project, limit: str, told: str) -> None:
    before = belongings(project)
    project.configure(attempts=1, limits={limit: 0.2})
    project.agent(WORK + PROMISE + "trap 'exit 0' INT TERM\nsleep 30 & wait\n")
    assert_not_fooled(project, before, project.ralph("run"))
    assert told in project.last.feedback
    assert project.last.agent_status == "killed"
    assert project.git("show", f"{project.last.snapshot}:new.txt") == "real"


@pytest.mark.parametrize("how", sample(["", "setsid", "env -i PATH=$PATH setsid"], 2))
def test_nothing_changes_the_tree_after_the_agent_ended(project: Project, how: str) -> None:
    before = belongings(project)
    late = "while kill -0 $$; do sleep 0.02; done; sleep 0.25; echo late > late.txt"
    project.agent(f'{how} sh -c "{late}" >/dev/null 2>&1 &\n' + CLAIM)
    project.configure(attempts=1, gates=[{**TESTS, "command": "sleep 0.4; sh check.sh"}])
    assert_not_fooled(project, before, project.ralph("run"))
    assert "no file differs" in project.last.feedback


def test_daemon_that_keeps_the_output_open_delays_nothing(project: Project) -> None:
    before = belongings(project)
    project.agent("setsid sh -c 'echo more; trap \"\" TERM; sleep 60' &\n" + BREAK + CLAIM)
    assert_not_fooled(project, before, project.ralph("run"))
    assert project.last.duration_ms < 15_000


def test_flags_hide_nothing_from_the_snapshot(project: Project) -> None:
    project.agent(DECEITS["hides by index flags"].script)
    project.ralph("run")
    assert project.git("show", f"{project.last.snapshot}:app.txt") == "broken"


def test_new_ignore_rules_hide_nothing_from_the_commit(project: Project) -> None:
    project.agent("echo '*.txt' > .gitignore\n" + WORK + "echo '*' > .git/info/exclude\n" + PROMISE)
    assert project.ralph("run").code == 0
    assert project.changed(project.task_commits()["one"]) == [".gitignore", "new.txt"]


def test_ignore_rules_taken_away_drag_nothing_in(project: Project) -> None:
    project.agent("rm .gitignore .git/info/exclude\n" + WORK + PROMISE)
    assert project.ralph("run").code == 0
    assert project.changed(project.task_commits()["one"]) == [".gitignore", "new.txt"]
    assert project.status() == ["?? lib.o", "?? notes.txt"]
    assert (project.root / ".git" / "info" / "exclude").read_text() == "*.mine\n"


def test_commits_of_the_agent_are_kept_reachable(project: Project) -> None:
    project.agent(
        """
        export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.hooksPath GIT_CONFIG_VALUE_0=/dev/null
        git checkout -q -b mine
        echo lost > lost.txt
        git add lost.txt
        git commit -q -m lost
        git rev-parse HEAD > "$BESIDE/lost"
        git pack-refs --all --prune
        git rm -q -f lost.txt
        """
        + CLAIM
    )
    project.ralph("run")
    lost = (project.beside / "lost").read_text().strip()
    assert project.git("merge-base", "--is-ancestor", lost, f"{project.last.snapshot}^2") == ""


@pytest.mark.parametrize(
    "meddling", sample(["git gc -q --prune=now", "git pack-refs --all --prune", "git repack -q -a -d"], 1)
)
def test_earlier_snapshots_outlive_gits_housekeeping(project: Project, meddling: str) -> None:
    before = belongings(project)
    project.configure(attempts=3)
    project.agent(f'{meddling}\necho "$RALPH_ATTEMPT" > new.txt\n')
    assert_not_fooled(project, before, project.ralph("run"))
    assert len(project.snapshots()) == 3
    assert f"refs/ralph/{project.name}/state" in project.refs()


def test_links_in_place_of_folders_lead_nowhere(project: Project) -> None:
    """What an agent links from the git folder or the state folder to is not read, changed or deleted."""
    before = belongings(project)
    outside = project.beside / "outside"
    outside.mkdir()
    (outside / "precious").write_text("mine")
    (outside / "iteration-9.json").write_text("mine")
    project.configure(attempts=2)
    project.agent(
        """
        rm -rf .git/hooks .git/info .rulebook-ralph/history
        ln -s "$BESIDE/outside" .git/hooks
        ln -s "$BESIDE/outside" .git/info
        ln -s "$BESIDE/outside" .git/refs/heads/out
        ln -s "$BESIDE/outside" .rulebook-ralph/history
        """
        + CLAIM
    )
    assert_not_fooled(project, before, project.ralph("run"))
    assert picture(outside).keys() == {"precious", "iteration-9.json"}


@pytest.mark.parametrize("place", sample([".git/hooks/pre-commit", ".git/config", ".rulebook-ralph/prd.json"], 2))
def test_a_pipe_in_place_of_a_file_blocks_nothing(project: Project, place: str) -> None:
    before = belongings(project)
    project.agent(f"rm -f {place}\nmkdir -p .git/hooks\nmkfifo {place}\n" + BREAK + CLAIM)
    assert_not_fooled(project, before, project.ralph("run"))
    assert "gate 'tests' failed" in project.last.feedback


def test_history_is_restored_even_without_its_ref(project: Project) -> None:
    before = belongings(project)
    project.configure(attempts=2)
    project.agent("rm -rf .rulebook-ralph\ngit update-ref -d refs/ralph/toy/state\necho $RALPH_ATTEMPT > new.txt\n")
    assert_not_fooled(project, before, project.ralph("run"))
    assert len(project.records) == 2


def test_snapshots_cannot_be_deleted_by_an_agent(project: Project) -> None:
    project.configure(attempts=2)
    project.agent("rm -rf .git/refs/ralph\necho $RALPH_ATTEMPT > new.txt\n")
    ran = project.ralph("run")
    assert "put back: refs/ralph/toy/state, refs/ralph/toy/tasks/one/1 " in ran.out.replace("\n", " "), ran.out
    assert sorted(project.snapshots()) == [1, 2]
    assert project.snapshots() == {record.iteration_number: record.snapshot for record in project.records}


def test_red_gates_of_the_base_hide_no_later_gate(project: Project) -> None:
    """A gate that was red before is not held against the agent, but those after it are run all the same."""
    before = belongings(project)
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
    """Unfinished work that stands in the tree belongs to its task: another one is not completed by it."""
    project = make_project(tmp_path, tasks=[task("one"), task("two")], agent=WORK + "exit 1\n", attempts=1)
    project.configure(attempts=3)
    assert project.ralph("run", "--task", "one", "--max-iterations", "1").code == 4
    project.configure(attempts=1)
    project.agent(CLAIM)
    assert project.ralph("run", "--task", "two").code == 3
    assert project.task("two").status == "blocked"
    assert "no file differs" in project.last.feedback
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


def test_a_broken_repository_is_said_in_one_line(project: Project) -> None:
    project.agent("rm -rf .git\n" + CLAIM)
    ran = project.ralph("run")
    assert ran.code in (1, 2, 5)
    assert "Traceback" not in ran.err
    assert "git" in ran.err
    assert "unexpected error" not in ran.err
