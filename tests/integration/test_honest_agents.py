"""Agents that do their work, in whatever way: each task is completed with exactly the tree that was judged."""

import os
import shutil
from pathlib import Path

import pytest

from tests.harness import FILES, HONEST, PROMISE, TESTS, Project, make_project, task

QUIET = "export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.hooksPath GIT_CONFIG_VALUE_0=/dev/null\n"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path, attempts=1)


def completes(project: Project, script: str) -> list[str]:
    """Run the agent, which must complete; returns the paths that the task's commit changes."""
    project.agent(script + PROMISE)
    ran = project.ralph("run")
    assert ran.code == 0, ran.err + ran.out + project.last.feedback
    (commit,) = project.task_commits().values()
    assert project.git("rev-parse", f"{commit}^{{tree}}") == project.last.tree
    assert project.status() == []
    assert project.git("rev-parse", f"{commit}^") == project.last.base_commit
    return project.changed(commit)


WAYS = {
    "plain": "echo x > $NEW\n",
    "staged": "echo x > $NEW\ngit add $NEW\n",
    "committed": "echo x > $NEW\ngit add $NEW\ngit commit -q -m mine\n",
    "empty-commit": "git commit -q --allow-empty -m nothing\necho x > $NEW\n",
    "own-branch": "git checkout -q -b mine\necho x > $NEW\ngit add -A\ngit commit -q -m mine\n",
    "detached": "git checkout -q --detach\necho x > $NEW\ngit add -A\ngit commit -q -m mine\n",
    "stash-and-pop": "echo x > $NEW\ngit stash -q -u\ngit stash pop -q\n",
    "flagged": "echo x > $NEW\ngit add -f $NEW\ngit update-index --assume-unchanged $NEW\n",
}


def test_ways_to_leave_a_file(project: Project) -> None:
    """One after another, in a run."""
    project.tasks(*map(task, WAYS))
    cases = "".join(f"{way})\n{script};;\n" for way, script in WAYS.items())
    project.agent(f"{QUIET}NEW=$RALPH_TASK.txt\ncase $RALPH_TASK in\n{cases}esac\n{PROMISE}")
    ran = project.ralph("run")
    assert ran.code == 0, ran.err + ran.out
    commits = project.task_commits()
    assert {way: project.changed(commits[way]) for way in WAYS} == {way: [f"{way}.txt"] for way in WAYS}
    for record in project.records:
        commit = commits[record.task_id]
        assert project.git("rev-parse", f"{commit}^{{tree}}", f"{commit}^").split() == [record.tree, record.base_commit]
    assert project.subjects() == [*(f"Do {way}" for way in WAYS), "ralph: state"]
    assert project.status() == []
    assert project.git("diff", "HEAD") == ""
    assert project.git("symbolic-ref", "--short", "HEAD") == "ralph/toy"
    assert sorted(project.refs("refs/heads")) == ["refs/heads/main", "refs/heads/ralph/toy"]
    assert project.git("stash", "list") == ""


def test_rename(project: Project) -> None:
    assert completes(project, "git mv docs/guide.md docs/handbook.md\n") == ["docs/guide.md", "docs/handbook.md"]
    assert not (project.root / "docs" / "guide.md").exists()


def test_modes_links_and_bytes(project: Project) -> None:
    script = "chmod +x app.txt\nln -s app.txt link\nln -s /nowhere gone\nprintf '\\000\\377\\r\\n' > bytes\n: > empty\n"
    assert completes(project, script) == ["app.txt", "bytes", "empty", "gone", "link"]
    tree = project.tree()
    assert {name: tree[name][:6] for name in ("app.txt", "link", "gone", "empty")} == {
        "app.txt": "100755",
        "link": "120000",
        "gone": "120000",
        "empty": "100644",
    }
    assert (project.root / "bytes").read_bytes() == b"\0\xff\r\n"


NAMES = (
    " two words ",
    "new\nline",
    "quo\"te'",
    "back\\slash",
    "-dash",
    ":(top)magic",
    "*",
    "[a]",
    "ünï",
    os.fsdecode(b"\xff\xfe"),
    "a\tb",
    "x" * 250,
)


def test_names(project: Project, thorough: bool) -> None:
    """A task for each, in a run."""
    named = {f"task-{number}": name for number, name in enumerate(NAMES if thorough else NAMES[1::2])}
    project.tasks(*map(task, named))
    project.agent('cat "$BESIDE/$RALPH_TASK" | xargs -0 touch --\n' + PROMISE)
    for task_id, name in named.items():
        (project.beside / task_id).write_bytes(os.fsencode(name))
    ran = project.ralph("run")
    assert ran.code == 0, ran.err
    commits = project.task_commits()
    assert {task_id: project.changed(commits[task_id]) for task_id in named} == {key: [named[key]] for key in named}
    assert all(project.ralph("show", str(record.iteration_number)).code == 0 for record in project.records)
    assert project.ralph("validate").code == 0


def test_names_of_untracked_files_of_the_person(project: Project) -> None:
    names = ("two words", "new\nline", ":(top)magic", "*", os.fsdecode(b"\xff\xfe"), "deep/er/file")
    project.write(dict.fromkeys(names, "mine"))
    project.agent(HONEST)
    assert project.ralph("run").code == 0
    assert project.changed(project.task_commits()["one"]) == ["work/one.txt"]
    assert {name: (project.root / name).read_text() for name in names} == dict.fromkeys(names, "mine")


def test_folder_becomes_a_file_and_back(project: Project) -> None:
    script = "rm -r docs app.txt\necho now a file > docs\nmkdir app.txt\necho sound > app.txt/part\n"
    project.configure(gates=[{**TESTS, "command": "true"}], attempts=1)
    assert completes(project, script) == ["app.txt", "app.txt/part", "docs", "docs/guide.md"]


def test_submodules_that_were_there_are_left_alone(project: Project, tmp_path: Path) -> None:
    library = make_project(tmp_path / "library").root
    project.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "lib")
    project.git("commit", "-q", "-m", "a library")
    assert completes(project, "echo x > new.txt\n") == ["new.txt"]


def test_work_spread_over_attempts(project: Project) -> None:
    project.configure(attempts=3)
    project.agent(
        f"""
        cat > "$BESIDE/prompt-$RALPH_ATTEMPT"
        case $RALPH_ATTEMPT in
            1) echo part1 > part1.txt; echo broken > app.txt; {PROMISE} ;;
            2) test -f part1.txt; echo part2 > part2.txt ;;
            3) test -f part1.txt; test -f part2.txt; echo sound > app.txt; git rm -q -f docs/guide.md; {PROMISE} ;;
        esac
        """
    )
    ran = project.ralph("run")
    assert ran.code == 0, ran.out
    assert project.changed(project.task_commits()["one"]) == ["docs/guide.md", "part1.txt", "part2.txt"]
    assert [record.completion_status for record in project.records] == ["failed", "failed", "completed"]
    assert "gate 'tests' failed" in (project.beside / "prompt-2").read_text()
    assert "gate 'tests' failed" in (project.beside / "prompt-3").read_text()
    assert project.task().attempts == {"coder": 3}
    assert sorted(project.snapshots()) == [1, 2, 3]
    assert project.status() == []


def test_rollback_gives_each_attempt_the_base(project: Project) -> None:
    project.configure(attempts=3, git={"rollback": "reset"})
    (project.root / "mine.txt").write_text("mine")
    project.agent(
        f"""
        test ! -e part1.txt
        test -f docs/guide.md
        grep -q sound app.txt
        case $RALPH_ATTEMPT in
            1) echo part1 > part1.txt; rm -r docs; mkdir docs.new; echo x > docs.new/x ;;
            2) rm app.txt; mkdir app.txt; echo x > app.txt/part; ln -s /tmp part1.txt ;;
            3) test ! -e docs.new; echo done > done.txt; {PROMISE} ;;
        esac
        """
    )
    ran = project.ralph("run")
    assert ran.code == 0, ran.out + ran.err
    first = project.records[0].verdict
    assert first is not None
    assert first.hook == "promise"
    assert project.changed(project.task_commits()["one"]) == ["done.txt"]
    assert project.status() == ["?? mine.txt"]


def test_an_honest_report_is_kept(project: Project) -> None:
    project.agent(
        """
        echo x > new.txt
        cat <<'END'
```ralph-report
{"status": "completed", "summary": "Made the\\nfile. Ralph-Task: other\\u0000", "learnings": ["It is   easy"], "quality": {"tests": true}}
```
END
        """
        + PROMISE
    )
    ran = project.ralph("run")
    assert ran.code == 0, project.last.feedback
    message = project.git("log", "-1", "--format=%B", project.task_commits()["one"])
    assert message.startswith("Do one\n\nMade the file. Ralph-Task: other")
    trailers = message.strip().split("\n\n")[-1].splitlines()
    assert trailers == ["Ralph-Task: one", "Ralph-Iteration: 1", "Ralph-Attempt: 1", "Ralph-Agent: script"]
    assert "    learned: It is easy\n" in project.folder.progress.read_text()
    assert project.task().summary.startswith("Made the file.")


# Gates and hooks that change the tree


def test_what_gates_make_of_the_tree_is_not_part_of_the_work(project: Project) -> None:
    """Gates run on the captured tree in a clone of their own: what lands is what the agent left."""
    form = {"name": "format", "kind": "lint", "command": "sed -i 's/ *$//' new.txt 2>/dev/null; touch report.txt"}
    project.configure(gates=[form, TESTS], attempts=1)
    assert completes(project, "printf 'text   \\n' > new.txt\n") == ["new.txt"]
    assert project.git("show", f"{project.task_commits()['one']}:new.txt") == "text   "


def hook(project: Project, name: str, script: str) -> None:
    path = project.root / ".git" / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}")
    path.chmod(0o755)


def test_hook_that_refuses_is_feedback(project: Project) -> None:
    hook(
        project,
        "pre-commit",
        "git diff --cached --name-only | grep -q forbidden && { echo 'no forbidden files'; exit 1; }\nexit 0\n",
    )
    project.configure(attempts=2)
    project.agent(
        "if test $RALPH_ATTEMPT = 1; then touch forbidden; else rm forbidden; echo x > new.txt; fi\n" + PROMISE
    )
    ran = project.ralph("run")
    assert ran.code == 0, ran.out
    assert "no forbidden files" in project.records[0].feedback
    assert "pre-commit" in project.records[0].feedback
    assert project.changed(project.task_commits()["one"]) == ["new.txt"]


def test_commit_msg_hook_sees_the_message_and_only_refuses(project: Project) -> None:
    hook(project, "commit-msg", f'cat "$1" > \'{project.beside}/message\'\necho changed > "$1"\n')
    assert completes(project, "echo x > new.txt\n") == ["new.txt"]
    assert "Ralph-Task: one" in (project.beside / "message").read_text()
    assert project.git("log", "-1", "--format=%s", project.task_commits()["one"]) == "Do one"


def test_hooks_folder_in_the_tree(tmp_path: Path) -> None:
    project = make_project(
        tmp_path, files={**FILES, ".hooks/pre-commit": "#!/bin/sh\necho refused; exit 1\n"}, attempts=1
    )
    (project.root / ".hooks" / "pre-commit").chmod(0o755)
    project.git("commit", "-qam", "executable")
    project.git("config", "core.hooksPath", ".hooks")
    assert project.ralph("run").code == 3
    assert "refused" in project.last.feedback


def test_signing_is_asked_for(project: Project) -> None:
    """A commit that is to be signed is signed, and a signer that fails stops the run before it begins."""
    signer = project.beside / "signer"
    signer.write_text('#!/bin/sh\ncat >/dev/null\nprintf "\\n[GNUPG:] SIG_CREATED \\n" >&2\nprintf "SIGNATURE\\n"\n')
    signer.chmod(0o755)
    project.git("config", "gpg.program", str(signer))
    project.git("config", "commit.gpgSign", "true")
    assert project.ralph("run").code == 0
    assert "SIGNATURE" in project.git("cat-file", "commit", project.task_commits()["one"])
    signer.write_text("#!/bin/sh\necho no key >&2\nexit 1\n")
    before = project.refs()
    ran = project.ralph("run")
    assert ran.code == 2
    assert "sign" in ran.err
    assert project.refs() == before


def test_linked_work_tree(project: Project, tmp_path: Path) -> None:
    """Ralph works in a linked work tree, while somebody commits in the main one."""
    linked = tmp_path / "linked"
    project.configure(sandbox="off")  # what stands for the person is the agent's script
    project.git("worktree", "add", "-q", "-b", "side", str(linked))
    shutil.move(project.root / ".rulebook-ralph", linked / ".rulebook-ralph")
    there = Project(linked, project.beside)
    project.agent(f"git -C '{project.root}' commit -q --allow-empty -m person\n" + HONEST)
    ran = there.ralph("run")
    assert ran.code == 0, ran.err
    assert there.changed(there.task_commits()["one"]) == ["work/one.txt"]
    assert project.git("log", "-1", "--format=%s", "main") == "person"
    assert project.git("symbolic-ref", "--short", "HEAD") == "main"


def test_many_tasks_one_after_another(tmp_path: Path) -> None:
    project = make_project(tmp_path, tasks=[task(f"t{number}") for number in range(5)])
    ran = project.ralph("run")
    assert ran.code == 0
    assert list(reversed(project.task_commits())) == [f"t{number}" for number in range(5)]
    assert project.prd.totals.completed == 5
    assert project.prd.totals.iterations == 5
