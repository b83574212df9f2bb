"""Tasks worked on at once, in checkouts of their own: what lands, what is sent back, what a person's tree is afterwards.

Where agents are to meet, each waits for marks that the others leave beside the repository.
"""

import json
import os
import re
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from rulebook_ralph.tasks.history import Iteration
from rulebook_ralph.tasks.model import VERIFY, Task
from tests.harness import FILES, HONEST, PROMISE, TESTS, Project, finish, make_project, task, wait_for
from tests.integration.test_limits import DONE, LIMITED, claude, resets_in
from tests.sampling import sample

MEET = """
begin() { date +%s.%N > "$BESIDE/begun.$RALPH_TASK.$RALPH_ATTEMPT"; echo "begin $RALPH_TASK" >> "$BESIDE/marks"; }
finish() { echo "end $RALPH_TASK" >> "$BESIDE/marks"; }
await() { n=0; until test -e "$BESIDE/$1" || test $n -gt 500; do n=$((n + 1)); sleep 0.02; done; test -e "$BESIDE/$1"; }
"""
"""Shell functions of agents: `await NAME` for a file beside the repository, at most ten seconds."""


def marked(*names: str, **settings: Any) -> list[Task]:
    return [task(name, **settings) for name in names]


def marks(project: Project) -> list[tuple[str, str]]:
    pairs = (line.split() for line in (project.beside / "marks").read_text().splitlines())
    return [(what, name) for what, name in pairs]


def alone(project: Project, name: str) -> bool:
    """Whether nobody else was at work from the beginning of a task to its end."""
    found = marks(project)
    begin, end = found.index(("begin", name)), found.index(("end", name))
    opened = [other for what, other in found[:begin] if what == "begin"]
    closed = [other for what, other in found[:begin] if what == "end"]
    return end == begin + 1 and sorted(opened) == sorted(closed)


def records_of(project: Project, name: str) -> list[Iteration]:
    return [record for record in project.records if record.task_id == name]


def landed(project: Project) -> list[str]:
    """The tasks with a commit on the branch, oldest first."""
    lines = project.git("log", "--reverse", "--format=%(trailers:key=Ralph-Task,valueonly)", project.prd.work_branch)
    return lines.split()


def assert_nothing_is_left(project: Project) -> None:
    """The tree and the index are HEAD's, and every iteration is settled."""
    assert project.git("status", "--porcelain") == ""
    assert project.git("write-tree") == project.git("rev-parse", "HEAD^{tree}")
    assert {record.phase for record in project.records} == {"settled"}


def test_tasks_marked_p_are_done_at_once_and_all_land(tmp_path: Path) -> None:
    """The first three meet, and end in the reverse order; each looks at what landed before."""
    agent = f"""{MEET}
begin
case $RALPH_TASK in
  a) await done.b;;
  b) await done.c;;
  c) await begun.a.1; await begun.b.1;;
  e) await begun.f.1;;
  f) await begun.e.1;;
esac
mkdir -p work; ls work > "$BESIDE/saw.$RALPH_TASK"; echo $RALPH_TASK > work/$RALPH_TASK.txt
touch "$BESIDE/done.$RALPH_TASK"
finish
{PROMISE}"""
    own = {"name": "own", "command": "for f in $(ls work 2>/dev/null); do test $f = $(cat work/$f).txt || exit 1; done"}
    tasks = [*marked("a", "b", "c"), task("d", parallel=False), *marked("e", "f"), task("v", markers=(VERIFY,))]
    project = make_project(tmp_path, agent=agent, tasks=tasks, gates=[TESTS, own])
    ran = project.ralph("run", "--parallel", "3")
    assert ran.code == 0, ran.err + ran.out

    found = marks(project)
    assert sorted(found[:3]) == [("begin", "a"), ("begin", "b"), ("begin", "c")]
    assert [name for what, name in found if what == "end"][:3] == ["c", "b", "a"]
    assert alone(project, "d")
    assert alone(project, "v")
    assert (project.beside / "saw.d").read_text().split() == ["a.txt", "b.txt", "c.txt"]
    assert sorted(landed(project)[:3]) == ["a", "b", "c"]
    assert landed(project)[3] == "d"
    assert sorted(landed(project)[4:6]) == ["e", "f"]
    assert landed(project)[6:] == ["v"]
    for number, (name, commit) in enumerate(project.task_commits().items()):
        assert project.changed(commit) == [f"work/{name}.txt"], number
    assert [check.step for check in project.records[2].checks if check.passed] == ["tests", "own"]
    assert_nothing_is_left(project)
    assert project.git("symbolic-ref", "HEAD") == f"refs/heads/{project.prd.work_branch}"
    assert (project.root / "work" / "f.txt").read_text() == "f\n"


FEW = {
    "name": "few",
    "kind": "test",
    "command": 'n=$(ls parts 2>/dev/null | wc -l); test $n -le 1 || test -e many.txt || { echo "$n parts are too many"; exit 1; }',
}


def test_what_does_not_merge_or_hold_together_is_sent_back_and_charged_to_nobody(tmp_path: Path) -> None:
    """Four at once: `a` and `b` change the same line, `c` and `d` are each green alone; `e` never is."""
    agent = f"""{MEET}
begin
test -e "$BESIDE/told.a" || for t in a b c d e; do await begun.$t.1; done
case $RALPH_TASK in
  a|b) grep -qx "$RALPH_TASK" app.txt || echo $RALPH_TASK >> app.txt;;
  c|d) mkdir -p parts; touch parts/$RALPH_TASK
    test ! -e "$BESIDE/told.$RALPH_TASK" || touch many.txt;;
  e) echo unsound > app.txt;;
esac
touch "$BESIDE/told.$RALPH_TASK"
{PROMISE}"""
    gates = [TESTS, FEW]
    project = make_project(tmp_path, agent=agent, tasks=marked(*"abcde"), gates=gates, attempts=2)
    ran = project.ralph("run", "--parallel", "5")
    assert ran.code == 3, ran.err + ran.out

    counted = {name: len(records_of(project, name)) for name in "abcde"}
    b, d = ("b" if counted["b"] == 2 else "a"), ("d" if counted["d"] == 2 else "c")  # those that came later
    assert sorted((counted["a"], counted["b"])) == sorted((counted["c"], counted["d"])) == [1, 2]
    assert counted["e"] == 2, "only what failed is tried again"
    assert sorted(project.git("show", "HEAD:app.txt").split()) == ["a", "b", "sound"]
    assert {"parts/c", "parts/d", "many.txt"} <= project.tree().keys()
    conflicting, again = records_of(project, b)
    assert conflicting.verdict is not None
    assert (conflicting.verdict.hook, conflicting.verdict.counts) == ("merge", False)
    assert (conflicting.attempt, again.attempt) == (1, 1)
    assert "app.txt" in conflicting.verdict.reason
    kept = project.snapshots()[conflicting.iteration_number]
    assert project.git("show", f"{kept}:app.txt").split() == ["sound", b]
    assert f"`git show {kept}`" in again.prompt
    assert "cannot be merged: app.txt" in again.prompt
    red, mended = records_of(project, d)
    assert red.verdict is not None
    assert (red.verdict.hook, red.verdict.counts, red.attempt, mended.attempt) == ("merge", False, 1, 1)
    assert "2 parts are too many" in mended.prompt
    assert "does not together with what landed" in mended.prompt
    assert dict(project.task(d).attempts) == {"coder": 1}
    assert (project.task("e").status, dict(project.task("e").attempts)) == ("blocked", {"coder": 2})
    assert_nothing_is_left(project)


def test_a_person_goes_on_working_in_the_tree_meanwhile(tmp_path: Path) -> None:
    """They edit, stage, commit and add a task; none of it is in the way of what lands, nor is lost."""
    agent = f"""{MEET}
begin
case $RALPH_TASK in one) await go;; esac
mkdir -p work; echo $RALPH_TASK > work/$RALPH_TASK.txt
{PROMISE}"""
    project = make_project(tmp_path, agent=agent, files={**FILES, "other.txt": "other\n"})
    run = project.start("run")
    wait_for((project.beside / "begun.one.1").exists, "the agent")
    project.write({"docs/guide.md": "# Guide\nperson\n", "new.txt": "mine\n"})
    project.write({"other.txt": "staged\n", "committed.txt": "by a person\n"})
    project.git("add", "other.txt", "committed.txt")
    project.git("commit", "-q", "-m", "by a person", "--", "committed.txt")
    prd = json.loads(project.folder.prd.read_text())
    prd["tasks"].append({"id": "two", "title": "Added meanwhile"})
    project.folder.prd.write_text(json.dumps(prd))
    (project.beside / "go").touch()
    ran = finish(run)
    assert ran.code == 0, ran.err + ran.out
    assert landed(project) == ["one", "two"]
    assert "Added meanwhile" in project.records[1].prompt
    assert project.subjects()[0] == "by a person"
    assert project.changed(project.task_commits()["one"]) == ["work/one.txt"]
    assert project.status() == [" M docs/guide.md", "M  other.txt", "?? new.txt"]
    assert project.git("show", ":other.txt") == "staged"


ENDLESS = f"""{MEET}
test ! -e "$BESIDE/go" || {{ mkdir -p work; echo $RALPH_TASK > work/$RALPH_TASK.txt; {PROMISE.strip()}; exit 0; }}
sh -c 'trap "" INT; while :; do sleep 0.2; done' "$BESIDE" &
echo half > half.$RALPH_TASK
begin
await go
{PROMISE}"""
"""It works until told to go on, with a child that does not care for an interrupt."""


@pytest.mark.parametrize("how", sample(["interrupt", "cancel", "pause", "kill"], 1, always=["interrupt"]))
def test_a_run_with_three_workers_ends_with_all_of_them_and_is_resumed(tmp_path: Path, how: str) -> None:
    project = make_project(tmp_path, agent=ENDLESS, tasks=marked(*"abcd"))
    run = project.start("run", "--parallel", "3")
    wait_for(lambda: all((project.beside / f"begun.{name}.1").exists() for name in "abc"), "three agents")
    if how == "interrupt":
        run.send_signal(signal.SIGINT)
    elif how == "cancel":
        assert project.ralph("cancel").out.startswith("cancelled: iterations 1, 2, 3 (a, b, c)")
    elif how == "kill":
        run.kill()
    elif how == "pause":
        assert project.ralph("pause").out.startswith("the run ends after iterations 1, 2, 3 (a, b, c)")
        (project.beside / "go").touch()
    ran = finish(run)
    assert ran.code == {"interrupt": 130, "cancel": 130, "kill": -9, "pause": 0}[how], ran.err
    (project.beside / "go").touch()
    if how == "pause":
        assert landed(project) == ["a", "b", "c"]
    elif how != "kill":
        assert {record.completion_status for record in project.records} == {
            "interrupted" if how == "interrupt" else "cancelled"
        }
        assert [f"half.{name}" in project.tree(project.snapshots()[number + 1]) for number, name in enumerate("abc")]
        assert_nothing_is_left(project)
    resumed = project.ralph("resume", "--parallel", "3")
    assert resumed.code == 0, resumed.err
    names = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not [name for name in names if os.fsencode(project.beside) in name], "nobody is left behind"
    assert sorted(landed(project)) == ["a", "b", "c", "d"]
    assert {name: dict(project.task(name).attempts) for name in "abcd"} == {name: {"coder": 1} for name in "abcd"}
    assert_nothing_is_left(project)


WILD: Mapping[str, str] = {
    "emptied": 'rm -rf "$d"/* "$d"/.[a-z]*; exit 0',
    "dies": 'if mkdir "$BESIDE/died" 2>/dev/null; then rm -rf "$d"/* "$d"/.[a-z]*; kill -9 $$; fi',
    "linked": 'rm -rf "$d"/* "$d"/.[a-z]*; ln -s "$BESIDE" docs; ln -s "$BESIDE" .git; exit 0',
}


def test_agents_that_harm_their_clone_harm_nobody_else(tmp_path: Path) -> None:
    """Each fails at its first attempt; one commits there, moves branches and pushes, which is its own affair."""
    names = list(WILD)
    cases = "".join(f"  {name}1) {WILD[name]};;\n" for name in names)
    own = "git add -A; git commit -qm own; git switch -qc elsewhere; git branch -f main HEAD; git branch -qD ralph/toy"
    agent = f"""d=$PWD
mkdir -p work; echo $RALPH_TASK > work/$RALPH_TASK.txt
case $RALPH_TASK$RALPH_ATTEMPT in
  commits1) {own}; git push -q origin HEAD:main 2>/dev/null || true;;
{cases}esac
{PROMISE}"""
    project = make_project(tmp_path, agent=agent, tasks=marked("commits", *names), git={"rollback": "reset"})
    before = project.git("rev-parse", "main")
    ran = project.ralph("run", "--parallel", "3")
    assert ran.code == 0, ran.err + ran.out
    assert {name: len(records_of(project, name)) for name in names} == dict.fromkeys(names, 2)
    assert len(records_of(project, "commits")) == 1
    assert project.refs("refs/heads").keys() == {"refs/heads/main", "refs/heads/ralph/toy"}
    assert project.git("rev-parse", "main") == before
    for name, commit in project.task_commits().items():
        assert project.changed(commit) == [f"work/{name}.txt"]
    assert sorted(path.name for path in project.beside.iterdir()) == ["agent.sh", "died"], "nothing came through a link"
    assert_nothing_is_left(project)


def test_agents_at_work_are_given_no_more_money_together_than_is_left(tmp_path: Path) -> None:
    """`a` takes its time, while the others come and go; the sixth is one too many for the limit of iterations."""
    project = make_project(tmp_path, tasks=marked(*"abcdef"))
    script = f"{MEET}case $RALPH_TASK in a) await did.d;; esac\nCOST=0.01\n{DONE}"
    claude(project, f'{script}touch "$BESIDE/did.$RALPH_TASK"\n', limits={"maxCostUsd": 1.0})
    ran = project.ralph("run", "--parallel", "2", "--max-iterations", "5")
    assert ran.code == 4, ran.err + ran.out
    given = [float(each) for each in re.findall(r"--max-budget-usd (\S+)", (project.beside / "words").read_text())]
    assert len(given) == 5
    assert given[:2] == [0.5, 0.5]
    assert all(0.4 < each < 0.5 for each in given[2:]), given
    assert sorted(landed(project)) == [*"abcde"]


def test_a_workspace_that_cannot_be_set_up_is_no_end_of_the_run(tmp_path: Path) -> None:
    """`a` and `b` cannot be installed together, `c` at first not at all; what a person says while it is set up counts."""
    setup = """
if test -e "$BESIDE/first"; then touch "$BESIDE/setting-up"; until test -e "$BESIDE/edited"; do sleep 0.02; done; fi
touch "$BESIDE/first"
if grep -q broken requirements.c.txt 2>/dev/null; then echo cannot install c; exit 1; fi
if test -e requirements.a.txt -a -e requirements.b.txt -a ! -e requirements.txt; then echo not both; exit 1; fi
"""
    agent = f"""{MEET}
begin
await begun.a.1; await begun.b.1; await begun.c.1
case $RALPH_TASK$RALPH_ATTEMPT in c1) echo broken > requirements.c.txt; exit 0;; esac
test ! -e "$BESIDE/told.$RALPH_TASK" || echo both > requirements.txt
touch "$BESIDE/told.$RALPH_TASK"
echo fine > requirements.$RALPH_TASK.txt
{PROMISE}"""
    project = make_project(tmp_path, agent=agent, tasks=marked(*"abc"))
    project.configure(workspace={"setup": setup.replace("$BESIDE", str(project.beside))})
    run = project.start("run", "--parallel", "3")
    wait_for((project.beside / "setting-up").exists, "the setup of the second")
    edit = project.start("task", "edit", "b", "--title", "Another title")
    added = project.start("task", "add", "d", "Added while it was set up")
    (project.beside / "edited").touch()
    assert (finish(edit).code, finish(added).code) == (0, 0)
    ran = finish(run)
    assert ran.code == 0, ran.err + ran.out
    assert project.task("b").title == "Another title"
    assert {each.id for each in project.prd.tasks} == {*"abcd"} == set(landed(project))
    refused = [record for name in "ab" for record in records_of(project, name) if not record.tasks_completed]
    assert [(record.verdict.hook, record.verdict.counts) for record in refused if record.verdict] == [("merge", False)]
    assert "the unfinished work at c is nothing to go on from" in ran.out
    assert_nothing_is_left(project)


def test_unfinished_work_goes_along(tmp_path: Path) -> None:
    agent = f"""case $RALPH_TASK$RALPH_ATTEMPT in a1) echo half > half.txt; exit 0;; esac
test $RALPH_TASK = b || grep -q half half.txt
{HONEST}"""
    project = make_project(tmp_path, agent=agent, tasks=marked(*"ab"))
    assert project.ralph("run", "--task", "a", "--max-iterations", "1").code == 4
    ran = project.ralph("run", "--parallel", "2")
    assert ran.code == 0, ran.err
    assert project.changed(project.task_commits()["a"]) == ["half.txt", "work/a.txt"]
    assert_nothing_is_left(project)


def shared_work(tmp_path: Path, *, tasks: int, workers: int, seed: int) -> Project:
    """Every task adds a line to each of two files, at its end and wherever its turn among eight is."""
    random = Random(seed)
    names = [f"t{number}" for number in range(tasks)]
    pauses = "".join(f"  {name}) sleep {random.random() / 10:.3f};;\n" for name in names)
    agent = f"""case $RALPH_TASK in
{pauses}esac
grep -qx $RALPH_TASK all.txt || echo $RALPH_TASK >> all.txt
n=$(( (${{RALPH_TASK#t}} % 8) * 10 + 5 ))
grep -qx $RALPH_TASK some.txt || sed -i "${{n}}a $RALPH_TASK" some.txt
{PROMISE}"""
    files = {"all.txt": "", "some.txt": "".join(f"line {number}\n" for number in range(90))}
    whole = {"name": "whole", "command": "test $(grep -c line some.txt) = 90", "kind": "test"}
    project = make_project(tmp_path, agent=agent, tasks=marked(*names), files=files, gates=[whole])
    project.configure(gates=[], verification={"steps": [whole]})
    ran = project.ralph("run", "--parallel", str(workers), "--quiet")
    assert ran.code == 0, ran.err + ran.out
    for file in files:
        lines = project.git("show", f"HEAD:{file}").splitlines()
        assert sorted(line for line in lines if not line.startswith("line")) == sorted(names)
    assert {name: dict(project.task(name).attempts) for name in names} == {name: {"coder": 1} for name in names}
    assert_nothing_is_left(project)
    return project


def test_tasks_that_touch_the_same_files_all_land(tmp_path: Path) -> None:
    project = shared_work(tmp_path, tasks=4, workers=4, seed=1)
    assert any(record.verdict and record.verdict.hook == "merge" for record in project.records)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(20))
def test_thirty_tasks_that_touch_the_same_files_all_land(tmp_path: Path, seed: int) -> None:
    shared_work(tmp_path, tasks=30, workers=3 + seed % 6, seed=seed)


@pytest.mark.thorough
def test_a_limited_agent_gives_way_to_its_fallback_and_the_time_of_a_run_ends_all(tmp_path: Path) -> None:
    project = make_project(tmp_path / "limited", tasks=marked(*"abcd"))
    limited = (
        f'case $RALPH_TASK in b) if mkdir "$BESIDE/once" 2>/dev/null; then\n{LIMITED}\nfi;; *) sleep 0.2;; esac\n{DONE}'
    )
    claude(project, limited, fallback="script")
    resets_in(project, 300)
    ran = project.ralph("run", "--parallel", "2", "--on-limit", "fallback")
    assert ran.code == 0, ran.err
    assert [record.agent for record in records_of(project, "b")] == ["played", "script"]
    assert dict(project.task("b").attempts) == {"coder": 1}
    assert_nothing_is_left(project)

    late = make_project(tmp_path / "late", agent=f"test $RALPH_TASK = a || sleep 30\n{HONEST}", tasks=marked(*"abcd"))
    started = time.monotonic()
    assert late.ralph("run", "--parallel", "3", "--max-wall-time", "2s").code == 4
    assert time.monotonic() - started < 8
    assert landed(late) == ["a"]
    assert {record.completion_status for record in late.records[1:]} == {"limited"}
    assert_nothing_is_left(late)


@pytest.mark.thorough
def test_an_edit_of_the_configuration_holds_for_those_that_begin_after_it(tmp_path: Path) -> None:
    """Two more workers, another gate and a hook, which runs where the work is."""
    agent = (
        f"{MEET}\nbegin\ncase $RALPH_TASK in a) await go;; c|d|e|f) await begun.c.1; await begun.f.1;; esac\n{HONEST}"
    )
    project = make_project(tmp_path, agent=agent, tasks=marked(*"abcdef"), parallel={"workers": 2})
    run = project.start("run")
    wait_for((project.beside / "begun.b.1").exists, "the second")
    second = {"name": "second", "command": "true"}
    hook = {"name": "where", "command": f'echo "$PWD $(ls work)" >> {project.beside}/hooked', "priority": 35}
    project.configure(gates=[TESTS, second], parallel={"workers": 4}, hooks=[hook])
    (project.beside / "go").touch()
    ran = finish(run)
    assert ran.code == 0, ran.err
    gates = [[check.step for check in record.checks if check.method == "gate"] for record in project.records]
    assert gates[2:] == [["tests", "second"]] * 4
    hooked = (project.beside / "hooked").read_text().splitlines()
    assert {line.split()[-1] for line in hooked} >= {"c.txt", "d.txt", "e.txt", "f.txt"}
    assert not [line for line in hooked if line.startswith(str(project.root))]
    assert_nothing_is_left(project)


def test_what_is_judged_by_an_earlier_configuration_has_its_gates_clone_for_itself(tmp_path: Path) -> None:
    project = make_project(tmp_path, tasks=marked("bad", "slow"))
    gate = f"test ! -e bad.txt || touch '{project.beside}/judging'; sleep 2; test ! -e bad.txt && grep -q sound app.txt"
    project.configure(gates=[TESTS | {"command": gate}], attempts=2)
    project.agent(
        'if test "$RALPH_TASK" = bad; then echo x > bad.txt; else\n'
        'n=0; until test -e "$BESIDE/edited" || test $n -gt 500; do n=$((n + 1)); sleep 0.02; done\n'
        'test "$RALPH_ATTEMPT" = 1 || echo y > good.txt; fi\n' + PROMISE
    )
    run = project.start("run", "--parallel", "2")
    wait_for((project.beside / "judging").exists, "the gate on bad work")
    config = json.loads(project.folder.config.read_text())
    project.folder.config.write_text(json.dumps(config | {"rules": ["Be brief."]}))
    time.sleep(0.5)
    (project.beside / "edited").touch()
    ran = finish(run)
    assert "going on with it" in ran.out, ran
    assert {task.id: task.status for task in project.prd.tasks} == {"bad": "blocked", "slow": "completed"}, ran
    assert "bad.txt" not in project.tree(project.prd.work_branch)
