"""A person edits the task list and the configuration while a run goes on, with whatever editor."""

import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from rulebook_ralph.core.model import Prd
from rulebook_ralph.state import codec
from tests import editors
from tests.harness import HONEST, Project, Ran, make_project, task

THREE = [task("one"), task("two"), task("three")]
ONE = "ralph: one completed"
OLD = "touch -d '5 seconds ago' .rulebook-ralph/prd.json .rulebook-ralph/config.yaml"
"""So that it is not taken for half of what an editor is writing."""


def between(project: Project, edits: Mapping[str, str]) -> Ran:
    """Run, and run each sh script at the moment when git's command says those words: no agent lives then."""
    shim = project.beside / "bin" / "git"
    shim.parent.mkdir(parents=True)
    cases = "".join(f'*"{when}"*) {script};;\n' for when, script in edits.items())
    shim.write_text(f'#!/bin/sh\ncase "$*" in\n{cases}esac\nexec {shutil.which("git")} "$@"\n')
    shim.chmod(0o755)
    path = os.environ["PATH"]
    project.environment["PATH"] = f"{shim.parent}:{path}"
    ran = project.ralph("run")
    project.environment["PATH"] = path
    return ran


def words(text: str) -> str:
    return " ".join(text.split())


def statuses(prd: Prd) -> dict[str, str]:
    return {each.id: each.status for each in prd.tasks}


def saved(project: Project) -> Prd:
    return codec.decode_prd(project.git("show", f"refs/ralph/{project.name}/state:.rulebook-ralph/prd.json").encode())


def test_a_task_list_that_cannot_be_read_neither_ends_a_run_nor_is_overwritten(tmp_path: Path) -> None:
    project = make_project(tmp_path, agent=HONEST, tasks=THREE)
    broken = f"""sed -i 's/"Do three"/"Do it my way",/' .rulebook-ralph/prd.json; {OLD}"""
    ran = between(project, {ONE: broken})
    assert ran.code == 0, ran.out
    assert project.task_commits().keys() == {"one", "two", "three"}
    assert "prd.json:" in words(ran.out)
    assert "leaving the file as it is" in words(ran.out)
    text = project.folder.prd.read_text()
    assert '"Do it my way",,' in text, "the person's text stands as it was"
    assert statuses(saved(project)) == dict.fromkeys(("one", "two", "three"), "completed")
    assert project.ralph("run").code == 2, "mended first"
    shown = project.ralph("status", "--json").json
    assert (shown["completed"], "prd.json:" in shown["problem"]) == (3, True)

    named = text.replace('"project": "toy"', '"project": "renamed"')
    assert named != text, "a new name, at which the run's results wait as well"
    project.folder.prd.write_text(named.replace(",,", ","))
    shown = project.ralph("status", "--json").json
    assert (shown["project"], shown["completed"], "the next run writes it" in shown["problem"]) == ("renamed", 3, True)
    rehearsed = project.ralph("run", "--dry-run").out
    assert ("is merged into it" in rehearsed, "Nothing to do" in rehearsed) == (True, True)
    assert "still to be merged" in project.ralph("prune", "--keep", "1", "--yes").err
    assert project.ralph("resume").code == 0
    assert project.git("symbolic-ref", "--short", "HEAD") == "ralph/renamed"
    assert project.ralph("status", "--json").json["problem"] is None
    assert statuses(project.prd) == dict.fromkeys(("one", "two", "three"), "completed")
    assert project.task("three").title == "Do it my way"
    assert len(project.records) == 3, "nothing was done twice"
    assert project.prd.totals.iterations == 3
    assert project.ralph("validate").code == 0


def test_a_task_list_that_is_mended_is_merged_in_the_same_run(tmp_path: Path) -> None:
    project = make_project(tmp_path, agent=HONEST, tasks=THREE)
    break_it = f"cp .rulebook-ralph/prd.json '{project.beside}/kept'; echo '{{' > .rulebook-ralph/prd.json; {OLD}"
    mend_it = f"""sed 's/"Do three"/"Do it my way"/' '{project.beside}/kept' > .rulebook-ralph/prd.json"""
    # no state is committed while the list cannot be read, so the second moment is that of the task's own commit
    ran = between(project, {ONE: break_it, "complete two": mend_it})
    assert ran.code == 0, ran.out
    assert "can be read again" in words(ran.out)
    assert project.task("three").title == "Do it my way"
    assert statuses(project.prd) == dict.fromkeys(("one", "two", "three"), "completed")
    assert statuses(saved(project)) == statuses(project.prd)
    assert project.status() == []
    assert project.ralph("validate").code == 0


def test_the_configuration_is_read_again_at_each_boundary(tmp_path: Path) -> None:
    project = make_project(tmp_path, agent=HONEST, tasks=THREE)
    config = json.loads(project.folder.config.read_text())
    config["verification"]["steps"].append({"name": "late", "kind": "lint", "command": "test ! -e work/two.txt"})
    config["defaults"]["maxIterations"] = 1
    (project.beside / "config").write_text(json.dumps(config))
    ran = between(project, {ONE: f"cp '{project.beside}/config' .rulebook-ralph/config.yaml"})
    assert ran.code == 3, ran.out
    assert "the configuration was edited" in words(ran.out)
    assert statuses(project.prd) == {"one": "completed", "two": "blocked", "three": "completed"}
    assert [check.step for check in project.records[1].checks if check.method == "gate"] == ["tests", "late"]


def test_a_configuration_that_cannot_be_read_ends_no_run(tmp_path: Path) -> None:
    project = make_project(tmp_path, agent=HONEST, tasks=THREE)
    ran = between(project, {ONE: f"echo 'verification: [' > .rulebook-ralph/config.yaml; {OLD}"})
    assert ran.code == 0, ran.out
    assert ".rulebook-ralph/config.yaml:" in words(ran.out)
    assert words(ran.out).count("going on with the configuration as it was") == 1
    assert project.folder.config.read_text() == "verification: [\n"


def test_another_branch_waits_for_the_end_of_the_run(tmp_path: Path) -> None:
    project = make_project(tmp_path, agent=HONEST, tasks=THREE)
    edit = """sed -i 's/"version": 1,/"version": 1, "branch": "other",/' .rulebook-ralph/prd.json"""
    ran = between(project, {ONE: f"{edit}; {OLD}"})
    assert ran.code == 0, ran.out
    assert "$.branch cannot change while a run goes on" in words(ran.out)
    assert project.git("symbolic-ref", "--short", "HEAD") == f"ralph/{project.name}"
    assert '"branch": "other"' in project.folder.prd.read_text()
    assert project.ralph("resume").code == 0
    assert statuses(project.prd) == dict.fromkeys(("one", "two", "three"), "completed")


# While an agent works


def test_priorities_are_taken_over_at_once_and_the_rest_is_held(tmp_path: Path) -> None:
    edit = """
if mkdir "$BESIDE/edited" 2>/dev/null; then
  python3 - <<'END'
import json, pathlib
path = pathlib.Path(".rulebook-ralph/prd.json")
prd = json.loads(path.read_text())
one, two, three = prd["tasks"]
three["priority"] = 0 + 1
two["priority"] = 5
two["acceptanceCriteria"] = []
one["status"] = "completed"
prd["tasks"].append({"id": "four", "title": "Write the introduction", "priority": 2})
prd["tasks"].append({"id": "five", "title": "Drop tests/test_app.py"})
path.write_text(json.dumps(prd))
END
fi
"""
    tasks = [task("one"), task("two", acceptance_criteria=("it works",)), task("three", priority=9)]
    project = make_project(tmp_path, agent=edit + HONEST, tasks=tasks)
    ran = project.ralph("run")
    assert ran.code == 0, ran.out + ran.err
    assert [record.task_id for record in project.records] == ["one", "three", "two"]
    assert "taken over: two, three" in words(ran.out)
    assert "what prd.json says of one, two, four, five" in words(ran.out)
    assert project.task("two").acceptance_criteria == ("it works",)


EDITORS = (editors.vim, editors.nano, editors.code, editors.emacs, editors.sed)


def test_the_save_of_any_editor_is_taken_over(tmp_path: Path) -> None:
    """Each edits another task, right after the one before was completed."""
    names = ("one", "two", "three", "four", "five", "six")
    project = make_project(tmp_path, agent=HONEST, tasks=[task(name) for name in ("zero", *names[:5])])
    script = project.beside / "save.py"
    script.write_text(
        "import sys, pathlib\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "from tests import editors\n"
        "editor, name = sys.argv[1:]\n"
        f"path = pathlib.Path({str(project.folder.prd)!r})\n"
        'edited = path.read_text().replace(f"Do {name}", f"Do {name} as {editor}")\n'
        "getattr(editors, editor)(path, edited)\n"
    )
    before = ("zero", *names)
    ran = between(
        project,
        {
            f"ralph: {before[at]} completed": f"{sys.executable} {script} {editor.__name__} {names[at]}"
            for at, editor in enumerate(EDITORS)
        },
    )
    assert ran.code == 0, ran.out
    assert words(ran.out).count("prd.json was edited") == len(EDITORS)
    for name, editor in zip(names, EDITORS, strict=False):
        wanted = f"Do {name} as {editor.__name__}"
        assert project.task(name).title == wanted
        assert project.git("log", "-1", "--format=%s", project.task_commits()[name]) == wanted
    assert project.status() == []


def test_a_configuration_that_is_refused_changes_nothing_at_all(tmp_path: Path) -> None:
    """Neither its other gates nor its agents; and a secret in it gets into no commit."""
    project = make_project(tmp_path, agent=HONEST, tasks=THREE)
    config = json.loads(project.folder.config.read_text())
    config["verification"]["steps"] = [{"name": "other", "kind": "test", "command": "true"}]
    no_plugin = {**config, "hooks": [{"name": "x", "plugin": "nowhere"}]}
    (project.beside / "no-plugin").write_text(json.dumps(no_plugin))
    config["tools"]["executors"][0]["env"] = {"MY_API_KEY": "sk-ant-abcdefgh1234567890abcdefgh"}
    (project.beside / "secret").write_text(json.dumps(config))
    copy = "cp '{}/{}' .rulebook-ralph/config.yaml; " + OLD
    ran = between(
        project,
        {ONE: copy.format(project.beside, "no-plugin"), "ralph: two completed": copy.format(project.beside, "secret")},
    )
    assert ran.code == 0, ran.out
    assert words(ran.out).count("going on with the configuration as it was") == 2
    assert {check.step for record in project.records for check in record.checks if check.method == "gate"} == {"tests"}
    assert project.git("log", "--all", "--oneline", "-S", "sk-ant-abcdefgh1234567890abcdefgh") == ""
    assert "sk-ant-abcdefgh" not in ran.out


def test_a_broken_list_that_is_mended_while_an_agent_works_is_in_force_again(tmp_path: Path) -> None:
    """It is read as an edit of what it was before it broke; the broken text is kept, and never offered."""
    mend = """
if test "$RALPH_TASK" = two && mkdir "$BESIDE/mended" 2>/dev/null; then
  python3 - <<'END'
import json, pathlib
path = pathlib.Path(".rulebook-ralph/prd.json")
prd = json.loads(path.read_text().replace(",,", ","))
prd["tasks"][2]["priority"] = 5
prd["tasks"][3]["priority"] = 1
path.write_text(json.dumps(prd))
END
fi
"""
    tasks = [*THREE, task("four", priority=9)]
    project = make_project(tmp_path, agent=mend + HONEST, tasks=tasks)
    broken = f"""sed -i 's/"Do three"/"Do it my way",/' .rulebook-ralph/prd.json; {OLD}"""
    ran = between(project, {ONE: broken})
    assert ran.code == 0, ran.out
    assert "prd.json can be read again" in words(ran.out)
    assert [record.task_id for record in project.records] == ["one", "two", "four", "three"]
    assert statuses(project.prd) == dict.fromkeys(("one", "two", "three", "four"), "completed"), "the file has it all"
    assert statuses(saved(project)) == statuses(project.prd)
    assert project.task("three").title == "Do three", "held, for it could be the agent's"
    held = project.root / ".git/ralph/held/iteration-2"
    assert '"Do it my way",,' in (held / "prd.json.unreadable").read_text()
    [offered] = project.ralph("accept", "--json").json["held"]
    assert (offered["problem"], offered["path"]) == (None, str(held / "prd.json"))
    assert project.ralph("accept", "--yes").code == 0
    assert project.task("three").title == "Do it my way"
