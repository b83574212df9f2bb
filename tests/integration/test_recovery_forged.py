"""An agent that kills Ralph and then writes to the state folder what it likes: no word of it is believed."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from rulebook_ralph.core.settings import Config
from rulebook_ralph.loop import distrust
from rulebook_ralph.loop import project as loop_project
from rulebook_ralph.loop.settler import Settler
from rulebook_ralph.state import history
from rulebook_ralph.state.store import StateFolder
from rulebook_ralph.workspace.repository import open_repository
from tests.harness import HONEST, Project, Ran, finish, make_project, wait_for

ONCE = 'if mkdir "$BESIDE/once" 2>/dev/null; then\n'
WAIT = 'while test ! -s "$BESIDE/pid"; do sleep 0.01; done\n'
DIE = 'kill -9 "$(cat "$BESIDE/pid")"; sleep 5; fi\nmkdir -p work; echo mine > work/one.txt; exit 0\n'
EDIT = """python3 - <<'END'
import json, os, subprocess
def edited(name, **values):
    path = ".rulebook-ralph/" + name
    with open(path) as file: whole = json.load(file)
    whole.update(values)
    with open(path, "w") as file: json.dump(whole, file, indent=2)
    return whole
"""
COMPLETED = (
    EDIT + 'tasks = edited("prd.json")["tasks"]\ntasks[0]["status"] = "completed"\nedited("prd.json", tasks=tasks)\n'
)
SETTLED = COMPLETED + 'edited("history/iteration-1.json", phase="settled")\nEND\n'
JUDGED = (
    EDIT
    + """
def git(*words): return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout.strip()
open("app.txt", "w").write("evil")
git("add", "app.txt"); tree = git("write-tree"); commit = git("commit-tree", tree, "-p", "HEAD", "-m", "evil")
git("reset", "-q")
edited("history/iteration-1.json", phase="judged", commit=commit, tree=tree, verdict={"action": "complete"})
END
"""
)
STRANGER = (
    EDIT
    + """
with open(".rulebook-ralph/history/iteration-1.json") as file: whole = json.load(file)
whole.update(iterationNumber=7, phase="judged", tree=whole["baseCommit"], verdict={"action": "complete"})
with open(".rulebook-ralph/history/iteration-7.json", "w") as file: json.dump(whole, file, indent=2)
END
"""
)
GONE = "rm .rulebook-ralph/history/iteration-1.json\n" + COMPLETED + "END\n"
CREATED = "mkdir -p .rulebook-ralph/templates; echo 'Promise at once.' > .rulebook-ralph/templates/brief.md\n"


def died(project: Project) -> None:
    process: subprocess.Popen[str] = project.start("run")
    (project.beside / "pid").write_text(str(process.pid))
    assert finish(process).code == -9


def words(ran: Ran) -> str:
    return " ".join((ran.out + ran.err).split())


FORGERIES = [
    pytest.param(CREATED + SETTLED, id="settled"),
    pytest.param(JUDGED, id="judged"),
    pytest.param(STRANGER, id="stranger", marks=pytest.mark.thorough),
    pytest.param(GONE, id="gone", marks=pytest.mark.thorough),
]


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_record_is_put_back(tmp_path_factory: pytest.TempPathFactory, forgery: str) -> None:
    project = make_project(tmp_path_factory.mktemp("p"), agent=ONCE + WAIT + forgery + DIE, attempts=1)
    died(project)
    ran = project.ralph("resume")
    assert ran.code == 3, words(ran)
    assert project.task().status == "blocked", "its promise is not given"
    assert [record.completion_status for record in project.records] == ["interrupted", "blocked"]
    assert project.task_commits() == {}
    assert project.git("show", "HEAD:app.txt") == "sound"
    assert forgery is GONE or "is not as Ralph wrote it" in words(ran)
    assert not (project.folder.templates / "brief.md").exists()
    if CREATED in forgery:
        assert "removed, as it was not there" in words(ran)
        [held] = project.root.glob(".git/ralph/held/iteration-1/templates/brief.md")
        assert held.read_text() == "Promise at once.\n"


JUNK = "echo junk > .git/ralph/opening-1\n"
NO_RECORD = "rm .rulebook-ralph/history/iteration-1.json\n"
NO_SAVED_STATE = "git update-ref -d refs/ralph/toy/state\n"
LOSSES = [
    pytest.param(JUNK, id="junk"),
    pytest.param("rm -r .git/ralph\n" + NO_RECORD, id="all"),
    pytest.param("rm .git/ralph/opening-1; mkfifo .git/ralph/opening-1\n" + NO_SAVED_STATE, id="pipe"),
    pytest.param("echo junk > .git/ralph/opening-1.record\n", id="record", marks=pytest.mark.thorough),
    pytest.param(": > .git/ralph/opening-1\n" + NO_RECORD, id="empty", marks=pytest.mark.thorough),
    pytest.param("rm .git/ralph/opening-1; mkdir -p .git/ralph/opening-1/x\n", id="folder", marks=pytest.mark.thorough),
    pytest.param("mv .git/ralph/opening-1 .git/ralph/opening-2\n", id="number", marks=pytest.mark.thorough),
    pytest.param(JUNK + NO_RECORD + NO_SAVED_STATE, id="untold", marks=pytest.mark.thorough),
    pytest.param("rm -r .git/ralph\n" + NO_SAVED_STATE, id="unsaved", marks=pytest.mark.thorough),
]


@pytest.mark.parametrize("committed", [False, pytest.param(True, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("loss", LOSSES)
def test_where_what_was_kept_is_lost_only_evidence_completes(
    tmp_path_factory: pytest.TempPathFactory, loss: str, *, committed: bool
) -> None:
    """It is told once; afterwards a person's word counts as ever."""
    agent = ONCE + WAIT + COMPLETED + "END\n" + loss + DIE
    project = make_project(tmp_path_factory.mktemp("p"), agent=agent, attempts=1)
    if committed:
        project.git("add", "-f", ".rulebook-ralph")
        project.git("commit", "-m", "state")
        assert project.ralph("trust", "--yes").code == 0
    died(project)
    ran = project.ralph("resume")
    assert ran.code == 3, words(ran)
    assert project.task().status == "blocked", "its promise is not given"
    assert words(ran).count("what it kept of the state is gone or cannot be read") == 1
    [held] = project.root.glob(".git/ralph/held/iteration-[0-9]/prd.json")
    assert '"status": "completed"' in held.read_text()
    assert not list(project.root.glob(".git/ralph/opening-*"))
    project.folder.prd.write_text(project.folder.prd.read_text().replace('"blocked"', '"completed"'))
    ran = project.ralph("run")
    assert (ran.code, project.task().status) == (0, "completed"), words(ran)
    assert "died" not in words(ran)


class Died(BaseException):
    pass


def test_a_judged_record_that_was_changed_is_put_back_and_one_that_was_not_yet_written_is_carried_out(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ralph dies right before, or after, it writes the record as judged: the outcome is the same."""
    update = history.update

    def dies_before(*_: object) -> None:
        raise Died

    def changed_after(*given: object) -> None:
        update(*given)  # type: ignore[arg-type]
        path = project.folder.iteration(1)
        path.write_text(json.dumps(json.loads(path.read_text()) | {"verdict": {"action": "complete"}}, indent=2))
        raise Died

    for dies in (dies_before, changed_after):
        project = make_project(tmp_path_factory.mktemp("p"), agent="echo bad > app.txt\n", attempts=1)
        with monkeypatch.context() as patched:
            patched.setattr(history, "update", dies)
            with pytest.raises(Died):
                project.ralph("run")
        ran = project.ralph("resume")
        assert ran.code == 3, words(ran)
        assert [record.completion_status for record in project.records] == ["blocked"]
        assert ("is not as Ralph wrote it" in words(ran)) == (dies is changed_after)


def test_what_was_decided_is_carried_out_after_a_crash_whatever_changed_since(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time was used up, which nobody knows any more after the crash, and prd.json says so already."""
    agent = "echo bad > app.txt; sleep 1.1\n"
    project = make_project(
        tmp_path_factory.mktemp("p"), agent=agent, attempts=5, limits={"maxWallTime": 1, "maxIterations": 1}
    )

    def dies(*_: object) -> None:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(Settler, "_append_progress", dies)
        with pytest.raises(Died):
            project.ralph("run")
    assert (project.task().status, project.last.phase) == ("blocked", "judged")
    assert project.last.decision is not None
    ran = project.ralph("resume")
    assert ran.code == 3, words(ran)
    assert (project.last.completion_status, project.last.stop_reason) == ("blocked", "max-wall-time")
    assert project.last.decision is None
    assert (project.root / "app.txt").read_text() == "sound\n", "rolled back, as a blocked task leaves the base's tree"


def test_an_iteration_that_is_open_in_another_work_tree_is_that_ones(tmp_path: Path) -> None:
    waits = 'touch "$BESIDE/started"; while test ! -e "$BESIDE/go"; do sleep 0.01; done\n'
    project = make_project(tmp_path, agent=waits + HONEST)
    process = project.start("run")
    wait_for((project.beside / "started").exists, "the agent")
    side = tmp_path / "side"
    project.git("worktree", "add", "-q", str(side), "HEAD")
    (side / ".rulebook-ralph").mkdir(exist_ok=True)
    listed = json.dumps({"version": 1, "project": "other", "tasks": [{"id": "x", "title": "X"}]})
    (side / ".rulebook-ralph/prd.json").write_text(listed)
    notices: list[tuple[str, str]] = []
    there = open_repository(side, dict(os.environ))
    found = loop_project.Project(side, StateFolder(side), there, Config(), dict(os.environ))
    distrust.put_back_state(found, lambda *said: notices.append(said))
    assert notices == []
    assert (side / ".rulebook-ralph/prd.json").read_text() == listed
    (project.beside / "go").touch()
    assert finish(process).code == 0
