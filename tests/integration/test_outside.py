"""Files that no commit holds and that decide how work is judged: an agent's changes to them are put back."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from rulebook_ralph.core.settings import VerificationStep
from rulebook_ralph.loop.outside import Outside
from rulebook_ralph.workspace.repository import open_repository
from rulebook_ralph.workspace.snapshot import Workspace
from tests.harness import FILES, PROMISE, Project, make_project, task, wait_for

UNSOUND = "echo broken > app.txt\n"
GUT = "printf '#!/bin/sh\\nexit 0\\n' > {}\n"
CHECK = "#!/bin/sh\ngrep -q '^sound$' app.txt\n"


@pytest.fixture(autouse=True)
def own_git_settings(surroundings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """git reads the HOME of the test."""
    monkeypatch.delenv("GIT_CONFIG_GLOBAL")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Gates that no commit holds: an untracked script, an ignored one, and one that the PATH leads to."""
    gates = [
        {"name": "untracked", "kind": "test", "command": "sh mine.sh"},
        {"name": "ignored", "kind": "test", "command": ".venv/bin/check"},
        {"name": "by-path", "kind": "test", "command": "check-by-path"},
        {"name": "made", "kind": "test", "command": "make -s check"},
        {"name": "loop", "kind": "test", "command": "for f in tests/*.sh; do sh $f || exit 1; done"},
    ]
    project = make_project(
        tmp_path,
        tasks=[task("one")],
        files={**FILES, ".gitignore": ".venv/\nbuild/\n", "Makefile": "check:\n\tsh build/inner.sh\n"},
        gates=gates,
        attempts=1,
    )
    project.environment["PATH"] = f"{project.root}/.venv/bin:{os.environ['PATH']}"
    project.write(
        {
            "mine.sh": CHECK,
            "tests/a.sh": CHECK,
            "build/inner.sh": CHECK,
            ".venv/bin/check": CHECK,
            ".venv/lib/check": CHECK,
        }
    )
    (project.root / ".venv/bin/check").chmod(0o755)
    (project.root / ".venv/lib/check").chmod(0o755)
    (project.root / ".venv/bin/check-by-path").symlink_to("../lib/check")
    return project


def test_programs_of_gates_that_no_commit_holds_are_put_back(project: Project) -> None:
    programs = [
        project.root / name
        for name in ("mine.sh", "tests/a.sh", "build/inner.sh", ".venv/bin/check", ".venv/lib/check")
    ]
    project.agent(UNSOUND + "".join(GUT.format(path) for path in programs) + PROMISE)
    ran = project.ralph("run")
    assert ran.code == 3, ran.err
    assert project.task().status == "blocked"
    assert [path.read_text() for path in programs] == [CHECK] * 5
    assert os.access(programs[3], os.X_OK)
    assert project.last.verdict is not None
    assert project.last.verdict.hook == "gates"
    held = project.root / ".git/ralph/held/iteration-1/outside"
    for path in programs:
        assert str(path) in project.last.feedback
        assert held.joinpath(*path.parts[1:]).read_text() == "#!/bin/sh\nexit 0\n"


def test_an_honest_agent_may_install_beside_them(project: Project) -> None:
    project.agent("touch .venv/bin/other && echo new > work.txt\n" + PROMISE)
    assert project.ralph("run").code == 0
    assert (project.root / ".venv/bin/other").exists()


SETTINGS = {
    "a filter for every repository": (
        "git config --global filter.lie.clean 'sed s/sound/broken/'\n"
        "mkdir -p ~/.config/git && echo 'app.txt filter=lie' > ~/.config/git/attributes\n"
        "echo '# more' >> app.txt\n"
    ),
    "names that are ignored everywhere": "mkdir -p ~/.config/git && echo 'new.txt' > ~/.config/git/ignore\n",
    "a file of ignored names of its own": (
        "git config --global core.excludesFile $BESIDE/ignored && echo 'new.txt' > $BESIDE/ignored\n"
    ),
    "Ralph's own settings": (
        "mkdir -p ~/.config/rulebook-ralph\necho 'integrity: {enabled: false}' > ~/.config/rulebook-ralph/config.yaml\n"
    ),
}


@pytest.mark.parametrize("script", SETTINGS.values(), ids=SETTINGS.keys())
def test_settings_of_the_person_are_put_back_before_anything_is_committed(
    tmp_path: Path, surroundings: Path, script: str
) -> None:
    project = make_project(tmp_path, tasks=[task("one")], agent=script + "echo new > new.txt\n" + PROMISE)
    (surroundings / ".gitconfig").write_text("[user]\n\tname = Somebody\n")
    ran = project.ralph("run")
    assert ran.code == 0, ran.err
    assert "changed while the agent worked, and put back: " in " ".join(ran.out.split())
    assert project.git("show", "HEAD:new.txt") == "new"
    assert "broken" not in project.git("show", "HEAD:app.txt")
    assert (surroundings / ".gitconfig").read_text() == "[user]\n\tname = Somebody\n"
    assert [path for path in (surroundings / ".config").rglob("*") if path.is_file()] == []


def test_what_a_killed_run_left_of_them_is_not_believed(tmp_path: Path, surroundings: Path) -> None:
    settings = surroundings / ".config" / "rulebook-ralph" / "config.yaml"
    script = (
        "[ -e $BESIDE/begun ] || { mkdir -p ~/.config/rulebook-ralph\n"
        "echo 'ralph: {stopCriteria: {requirePromise: false}}' > ~/.config/rulebook-ralph/config.yaml\n"
        "touch $BESIDE/begun; sleep 60; }\n"
        "echo new > new.txt\n"
    )
    project = make_project(tmp_path, tasks=[task("one")], agent=script, attempts=1)
    run = project.start("run")
    wait_for((project.beside / "begun").exists, "the agent")
    run.send_signal(signal.SIGKILL)
    run.communicate()
    ran = project.ralph("resume")
    assert ran.code == 3, ran.err
    assert not settings.exists()
    assert str(settings) in ran.out.replace("\n", "").replace("  ", "")


def test_git_tells_which_files_it_reads(tmp_path: Path, surroundings: Path) -> None:
    project = make_project(tmp_path, tasks=[task("one")])
    included = tmp_path / "included"
    included.write_text("[core]\n\texcludesFile = ~/mine\n")
    subprocess.run(["git", "config", "--global", "include.path", str(included)], check=True)
    repository = open_repository(project.root, os.environ)
    workspace = Workspace(repository)
    outside = Outside(workspace, os.environ, ())
    steps = [VerificationStep(name="x", command="sh nowhere.sh && /bin/true && ../up.sh && sh app.txt")]
    found = set(outside.files(steps, workspace.open()))
    assert {included, surroundings / "mine", surroundings / ".gitconfig"} <= found
    assert surroundings / ".config" / "git" / "attributes" in found
    assert not any(path.is_relative_to(project.root) for path in found)


def test_ignored_files_that_decide_what_is_tested_are_put_back(tmp_path: Path) -> None:
    """An ignored conftest.py, and an ignored script that a gate is given as an argument."""
    project = make_project(
        tmp_path,
        tasks=[task("one")],
        files={**FILES, ".gitignore": "conftest.py\nlocal_*\n"},
        gates=[{"name": "tests", "kind": "test", "command": "sh -e check.sh && python3 -B local_check.py"}],
        attempts=1,
    )
    project.write({"conftest.py": "mine = 1\n", "local_check.py": "assert open('app.txt').read() == 'sound\\n'\n"})
    project.agent(UNSOUND + "echo > conftest.py; echo > local_check.py\n" + PROMISE)
    assert project.ralph("run").code == 3
    assert (project.root / "conftest.py").read_text() == "mine = 1\n"
    assert (project.root / "local_check.py").read_text() != "\n"
