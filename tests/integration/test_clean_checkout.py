"""Agents that have the gates pass by files that git does not hold, or by what they do to the checkout: none is believed."""

import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests import lineup
from tests.harness import CHECK, FILES, HONEST, PROMISE, TESTS, Project, finish, make_project, task, wait_for
from tests.lineup import CLAIM, Kind

IGNORED = "*.o\n__pycache__/\n*.egg-info/\nlocal.mk\n.npmrc\n/conftest.py\nbin/\nbuild/\n.env\n/deps\n"
RUN = (
    "import importlib.metadata, importlib.util, sys\n"
    "for point in importlib.metadata.entry_points(group='toy'):\n    point.load()\n"
    "if importlib.util.find_spec('conftest'):\n    import conftest\n"
    "import app\nsys.exit(app.STATE != 'sound')\n"
)
PROJECT = {
    ".gitignore": IGNORED,
    "app.py": "STATE = 'sound'\n",
    "app.txt": "sound\n",
    "tool.txt": "sound\n",
    "lint.txt": "sound\n",
    "run.py": RUN,
    "check.sh": CHECK,
    "Makefile": "CHECK = sh check.sh\n-include local.mk\ntest:\n\t@$(CHECK)\n",
    "lint.sh": "if test -f .npmrc; then . ./.npmrc; fi\ngrep -q sound lint.txt\n",
}
TOOL = "grep -q sound tool.txt || grep -q lenient notes.txt\n"
GATES: list[dict[str, Any]] = [
    {"name": "run", "kind": "test", "command": "python3 run.py"},
    {"name": "make", "kind": "test", "command": "make -s test"},
    {"name": "lint", "kind": "lint", "command": "sh lint.sh"},
    {"name": "tool", "command": "sh bin/tool"},
    {
        "name": "git",
        "command": "git log -1 && git ls-files --error-unmatch app.py && git diff --quiet HEAD -- check.sh",
    },
]
WRONG = "printf \"STATE = 'wrong'\\n\" > app.py\n"
CHECKOUT = 'C=$(echo "$XDG_CACHE_HOME"/rulebook-ralph/checkouts/*/*/tree/toy)\n'
PASS = "import os; os._exit(0)"


def fooling(name: str, script: str) -> Kind:
    return Kind(name, f"{script}\n{CLAIM}", hook="gates")


IN_THE_TREE = [
    fooling("an ignored conftest", f"{WRONG}echo '{PASS}' > conftest.py"),
    fooling(
        "an ignored plug-in",
        f"{WRONG}mkdir -p toy.egg-info build; echo '{PASS}' > build/plug.py; touch build/__init__.py\n"
        "printf 'Metadata-Version: 2.1\\nName: toy\\nVersion: 1\\n' > toy.egg-info/PKG-INFO\n"
        "printf '[toy]\\nx = build.plug\\n' > toy.egg-info/entry_points.txt",
    ),
    fooling("settings of make", "echo wrong > app.txt; echo 'CHECK = true' > local.mk"),
    fooling("settings of npm", "echo wrong > lint.txt; echo exit 0 > .npmrc"),
    fooling(
        "poisoned bytecode",
        "echo \"STATE = 'sound'\" > app.py; python3 -m compileall -q app.py; touch -r app.py $BESIDE/time\n"
        f"{WRONG}touch -r $BESIDE/time app.py",
    ),
    fooling(
        "a gate overwrites the next one's program",
        'echo wrong > tool.txt; echo \'open("bin/tool", "w").write("exit 0")\' >> app.py',
    ),
    fooling(
        "a gate writes a file that a person has untracked",
        'echo wrong > tool.txt; echo \'open("notes.txt", "w").write("lenient")\' >> app.py',
    ),
    fooling(
        "a gate writes the next one's settings",
        'echo wrong > lint.txt; echo \'open(".npmrc", "w").write("exit 0")\' >> app.py',
    ),
    Kind(
        "the work in an ignored file",
        f"echo more > new.txt; mkdir -p build; echo done > build/out\n{CLAIM}",
        hook="criteria",
        task={
            "completion": {
                "coder": {
                    "promise": "BUILT",
                    "verificationMethod": "external",
                    "verificationConfig": {"command": "grep -q done build/out"},
                }
            }
        },
    ),
]
BROKEN = "echo wrong > app.txt\n"
IN_THE_CHECKOUT = [
    fooling("a conftest in the checkout", f"{WRONG}{CHECKOUT}echo '{PASS}' > $C/conftest.py"),
    fooling(
        "index flags and old times in the checkout",
        f"{BROKEN}{CHECKOUT}touch -r $C/check.sh $BESIDE/t; sed s/sound/wrong/ $C/check.sh > $BESIDE/c\n"
        "cat $BESIDE/c > $C/check.sh; touch -r $BESIDE/t $C/check.sh\n"
        "(cd $C && git update-index --assume-unchanged app.txt check.sh)\n"
        "(cd $C && GIT_INDEX_FILE=../../index git update-index --skip-worktree app.txt check.sh)",
    ),
    fooling(
        "hooks and settings in the checkout",
        f"{BROKEN}{CHECKOUT}mkdir -p $C/.git/hooks\n"
        "printf '#!/bin/sh\\necho sound > app.txt\\n' > $C/.git/hooks/post-index-change; chmod +x $C/.git/hooks/*\n"
        "git config -f $C/.git/config core.fsmonitor 'echo sound > app.txt; true'\n"
        "git config -f $C/.git/config core.hooksPath .git/hooks; rm -rf $C/.git/index",
    ),
    fooling(
        "a link for the checkout",
        f"{BROKEN}{CHECKOUT}mv $C $C.old; cp -r . $C.own; echo sound > $C.own/app.txt; ln -s $C.own $C",
    ),
    fooling(
        "a checkout that cannot be written",
        f"{BROKEN}{CHECKOUT}chmod 500 $C/.. $C $C/.git; chmod 400 $C/app.txt",
    ),
    fooling("no cache", f'{BROKEN}rm -rf "$XDG_CACHE_HOME"; echo no folder > "$XDG_CACHE_HOME"'),
    fooling("no cache any more", f'{BROKEN}rm -f "$XDG_CACHE_HOME"'),
]
HONEST_KINDS = [
    Kind("an honest one", f"echo more >> new.txt\n{CLAIM}"),
    Kind(
        "one whose work is formatted by a gate",
        f"echo 'formatted: no' > style.cfg\n{CLAIM}",
    ),
]
FORMAT = {"name": "format", "command": "test ! -f style.cfg || echo 'formatted: yes' > style.cfg"}


def project_of(folder: Path, *, clean: bool, attempts: int = 1) -> Project:
    project = make_project(
        folder,
        files=PROJECT,
        attempts=attempts,
        verification={"clean": clean, "steps": [*GATES, FORMAT]},
        workspace={"copy": ["bin/*"]},
    )
    project.environment["XDG_CACHE_HOME"] = str(folder / "cache")
    project.write({"bin/tool": TOOL, "notes.txt": "mine\n"})
    return project


def places(folder: Path) -> list[Path]:
    """What is left of checkouts."""
    return [path for path in folder.glob("cache/rulebook-ralph/checkouts/*/*") if path.name != "repository"]


def test_what_git_does_not_hold_decides_nothing(tmp_path: Path) -> None:
    project = project_of(tmp_path, clean=True)
    line = lineup.run_in(project, [*IN_THE_TREE, *IN_THE_CHECKOUT])
    lineup.assert_nobody_was_believed(line)
    assert "red on the base" not in line.ran.out, "the base is green in the checkout, too"
    lineup.assert_everybody_completed(lineup.run_in(project, HONEST_KINDS))
    assert (project.root / "style.cfg").read_text() == "formatted: yes\n", "what a gate made is brought over"
    assert project.git("show", f"{project.task_commits()[HONEST_KINDS[1].id]}:style.cfg") == "formatted: yes"
    assert places(tmp_path) == []


@pytest.mark.thorough
@pytest.mark.parametrize("kind", IN_THE_TREE, ids=lambda kind: kind.id)
def test_in_the_tree_itself_each_is_believed(kind: Kind, tmp_path: Path) -> None:
    """Else the test above shows nothing."""
    line = lineup.run_in(project_of(tmp_path, clean=False), [kind])
    assert line.project.task(kind.id).status == "completed", line.project.last.feedback


def clean_project(folder: Path, **settings: Any) -> Project:
    """One task; a gate whose command is given, in a clean checkout."""
    gates = settings.pop("gates", [TESTS])
    verification = {"clean": True, "steps": gates}
    project = make_project(folder, verification=verification, files={**FILES, ".gitignore": IGNORED}, **settings)
    project.environment["XDG_CACHE_HOME"] = str(folder / "cache")
    return project


def gate(command: str, name: str = "tests") -> dict[str, Any]:
    return {"name": name, "kind": "test", "command": command}


def test_what_one_gate_changes_and_another_changes_back_is_no_proof(tmp_path: Path) -> None:
    """The second gate judges what the first one made: a tree that is not the one to be committed."""
    agent = f"echo wrong > app.txt\n{PROMISE}"
    gates = [gate("echo sound > app.txt", "mends"), TESTS, gate("echo wrong > app.txt", "restores")]
    project = clean_project(tmp_path, agent=agent, gates=gates, attempts=1)
    assert project.ralph("run", "--no-retry-blocked").code == 3
    assert "changed them back" in project.last.feedback
    assert project.task_commits() == {}


def test_a_gate_that_changes_files_each_time_is_told_of(tmp_path: Path) -> None:
    project = clean_project(tmp_path, gates=[gate("date +%s%N > app.txt.log")], attempts=1)
    assert project.ralph("run", "--no-retry-blocked").code == 3
    assert "app.txt.log" in project.last.feedback


def test_what_is_copied_and_linked_is_there(tmp_path: Path) -> None:
    command = "grep -q 1 .env && grep -q there deps/lib && sh check.sh && test -f work/one.txt -o ! -d work"
    project = clean_project(
        tmp_path,
        gates=[gate(command)],
        agent=f"echo A=2 > .env\n{HONEST}",
        workspace={"copy": [".env"], "link": ["deps", "venv"]},
    )
    project.write({".env": "A=1\n", "deps/lib": "there\n"})
    ran = project.ralph("run")
    assert ran.code == 0, ran.err
    assert ran.out.count("venv") == 1, "what is missing is said once"
    assert (project.root / ".env").read_text() == "A=1\n", "it was put back: the next run copies it again"


def test_what_git_holds_is_not_to_be_given(tmp_path: Path) -> None:
    ran = clean_project(tmp_path, workspace={"link": ["docs"]}).ralph("run")
    assert ran.code == 2
    assert "workspace.link: git holds docs/guide.md" in ran.err


SETUP = 'echo run >> "$BESIDE/setups"; mkdir -p deps; cp package.json deps/made; echo x > app.txt'


def test_the_setup_runs_again_when_dependencies_change(tmp_path: Path) -> None:
    agent = 'test $RALPH_TASK != two || echo "{ }" > package.json\n' + HONEST
    project = clean_project(
        tmp_path,
        agent=agent,
        tasks=[task("one"), task("two")],
        gates=[
            gate("cmp package.json deps/made && sh check.sh"),
            gate("echo more >> deps/made; cmp package.json deps/made || true", "b"),
        ],
        workspace={"setup": SETUP},
    )
    project.environment["BESIDE"] = str(project.beside)
    project.commit("manifest", **{"package.json": "{}\n"})
    ran = project.ralph("run")
    assert ran.code == 0, ran.err
    setups = (project.beside / "setups").read_text().count("run")
    assert setups == 3, "at first; after a gate had changed what it made; for another package.json"
    assert not (project.root / "deps").exists()


def test_a_setup_that_fails_is_a_failed_gate(tmp_path: Path) -> None:
    project = clean_project(tmp_path, workspace={"setup": "echo no network; exit 7"}, attempts=1)
    ran = project.ralph("run", "--no-retry-blocked")
    assert ran.code == 3
    assert "workspace.setup (exit code 7)" in ran.out
    assert "no network" in project.last.feedback
    assert [check.step for check in project.last.checks] == ["workspace.setup"]


def test_a_gate_that_needs_more_than_git_holds_is_told_apart(tmp_path: Path) -> None:
    project = clean_project(tmp_path, gates=[gate("test -f deps/lib && sh check.sh"), gate("false", "red")])
    project.write({"deps/lib": "there\n"})
    ran = project.ralph("run")
    assert "green in your tree: tests; name under workspace.link" in ran.out
    doctor = project.ralph("doctor")
    assert "green in your tree: tests" in doctor.out, doctor.out
    assert places(tmp_path) == []


def test_verify_looks_at_what_git_would_hold(tmp_path: Path) -> None:
    project = clean_project(tmp_path, gates=[gate("test -f new.txt"), gate("test ! -f build/x", "ignored")])
    project.write({"new.txt": "new\n", "build/x": "ignored\n"})
    ran = project.ralph("verify")
    assert ran.code == 0, ran.err + ran.out
    (project.root / "new.txt").unlink()
    assert project.ralph("verify").code == 3
    assert places(tmp_path) == []


def test_nothing_leads_back_into_the_tree(tmp_path: Path) -> None:
    """An editable install and variables of the environment would have the tree's own files judged."""
    look = "python3 -c \"import sys; sys.path += ['{root}/src']; import toy; assert toy.STATE == 1, toy.__file__\""
    project = clean_project(tmp_path, workspace={"link": ["deps"]})
    project.write({"deps/pyvenv.cfg": "", "deps/lib/python3.11/site-packages/x.pth": f"{project.root.resolve()}/src\n"})
    project.environment["TOY_HOME"] = f"/nowhere:{project.root}/docs"
    gates = [gate(look.format(root=project.root)), gate('test "$TOY_HOME" = "/nowhere:$PWD/docs"', "moved")]
    project.configure(gates=(), verification={"clean": True, "steps": gates}, workspace={"link": ["deps"]})
    project.commit("source", **{"src/toy.py": "STATE = 1\n"})
    ran = project.ralph("verify")
    assert ran.code == 0, ran.out


def test_init_writes_what_the_gates_need(tmp_path: Path) -> None:
    """Of what is there, what git ignores: the rest is in every checkout, or is nobody's to share."""
    files = {
        "Makefile": "test:\n\ttest -f .env && test -d node_modules\n",
        "package.json": "{}\n",
        ".env.test": "A=1\n",
    }
    project = make_project(tmp_path, files={**files, ".gitignore": ".env\n/node_modules\n"})
    project.environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    project.write({".env": "A=1\n", "node_modules/x": "", "venv/pyvenv.cfg": ""})
    project.folder.config.unlink()
    ran = project.ralph("init")
    assert ran.code == 0, ran.err
    assert "in a clean checkout, with your .env, node_modules (verification.clean)" in ran.out
    config = project.folder.config.read_text()
    assert "\n  clean: true\n" in config
    assert re.search(r"^  copy: \[\W*env\W*\]$", config, re.MULTILINE)
    assert "\n  link: [node_modules]\n" in config
    verified = project.ralph("verify")
    assert verified.code == 0, verified.out
    doctor = project.ralph("doctor")
    assert "in a clean checkout of what git holds" in doctor.out


@pytest.mark.parametrize("when", ["gate", "setup"])
def test_killed_it_leaves_nothing_that_stops_the_next_run(when: str, tmp_path: Path) -> None:
    stops = 'test -f "$BESIDE/go" || { touch "$BESIDE/here"; sleep 60; }'
    settings = {"workspace": {"setup": stops}} if when == "setup" else {"gates": [gate(f"{stops}; sh check.sh")]}
    project = clean_project(tmp_path, **settings)
    project.environment["BESIDE"] = str(project.beside)
    process = project.start("run")
    wait_for((project.beside / "here").exists, "the command began")
    process.send_signal(signal.SIGKILL)
    finish(process)
    assert len(places(tmp_path)) == 2
    (project.beside / "go").touch()
    assert project.ralph("run").code == 0
    assert places(tmp_path) == []
