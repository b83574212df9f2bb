"""Projects made to do harm: every command ends with an exit code of DESIGN.md, prints nothing that a terminal would
obey, writes nothing outside the project, and runs nothing that was not configured.
"""

import json
import os
import re
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Project, make_project, picture
from tests.sampling import sample

CODES = {0, 2, 3, 4, 5}
COMMANDS = (
    *(("status",), ("status", "--json"), ("validate",), ("history",), ("history", "--json"), ("show", "1")),
    *(("task", "list"), ("graph", "--tasks"), ("trust",), ("doctor", "--no-gates"), ("verify",), ("run", "--dry-run")),
    *(("agents",), ("prune", "--dry-run"), ("task", "note", "one", "x"), ("init",), ("run",), ("resume",)),
)
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
EVIL = "\x1b[2J\x1b]0;pwned\x07\u202egnp.exe\u2066\x9b31m\r\n\x08\x00 \ud800"
OPTION = "--upload-pack=touch ran;touch ran #"

Hostile = Callable[[Project], None]


def tasks(there: Project, /, *listed: dict[str, Any], **top: Any) -> None:
    whole = {"version": 1, "project": "toy", "tasks": [{"title": "x", **each} for each in listed]}
    there.folder.prd.write_text(json.dumps(whole | top), "utf-8")


def state(name: str, content: bytes | str) -> Hostile:
    def put(project: Project) -> None:
        path = project.folder.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)

    return put


def linked(name: str, target: str) -> Hostile:
    """The place in the state folder leads outside."""

    def put(project: Project) -> None:
        path, outside = project.folder.path / name, project.root.parent / "outside" / target
        moved = outside.parent / "moved"
        if path.is_dir():
            path.rename(moved)
        else:
            path.unlink(missing_ok=True)
        if not outside.exists() and moved.exists():
            moved.rename(outside)
        path.symlink_to(outside)

    return put


def device(name: str, target: str) -> Hostile:
    def put(project: Project) -> None:
        path = project.folder.path / name
        path.unlink(missing_ok=True)
        path.symlink_to(target)

    return put


def pipe(name: str) -> Hostile:
    def put(project: Project) -> None:
        path = project.folder.path / name
        path.unlink(missing_ok=True)
        os.mkfifo(path)

    return put


def sparse(name: str, size: int) -> Hostile:
    def put(project: Project) -> None:
        path = project.folder.path / name
        with path.open("ab") as file:
            file.truncate(size)

    return put


def whole_folder_linked(project: Project) -> None:
    outside = project.root.parent / "outside" / "state"
    project.folder.path.rename(outside)
    project.folder.path.symlink_to(outside)


def prd(*listed: dict[str, Any], **top: Any) -> Hostile:
    return lambda project: tasks(project, *listed, **top)


DEEP = '{"version": 1, "project": "toy", "tasks": [{"id": "one", "title": "x", "metadata": %s}]}'
HOSTILE: dict[str, Hostile] = {
    "folder is a link": whole_folder_linked,
    "history is a link": linked("history", "history"),
    "templates is a link": linked("templates", "secret"),
    "prd.json is a link": linked("prd.json", "prd.json"),
    "progress.txt is a link": linked("progress.txt", "progress.txt"),
    "progress.txt dangles": linked("progress.txt", "new.txt"),
    "config.yaml is a link": linked("config.yaml", "secret/file"),
    "config.yaml is endless": device("config.yaml", "/dev/zero"),
    "prd.json is endless": device("prd.json", "/dev/zero"),
    "progress.txt is endless": device("progress.txt", "/dev/zero"),
    "iteration is endless": device("history/iteration-1.json", "/dev/zero"),
    "config.yaml is a pipe": pipe("config.yaml"),
    "prd.json is a pipe": pipe("prd.json"),
    "progress.txt is a pipe": pipe("progress.txt"),
    "iteration is a pipe": pipe("history/iteration-1.json"),
    "progress.txt of 1 GB": sparse("progress.txt", 2**30),
    "config.yaml of 1 GB": sparse("config.yaml", 2**30),
    "iteration of 1 GB": sparse("history/iteration-1.json", 2**30),
    "prd.json 100 deep": state("prd.json", DEEP % ("[" * 100 + "]" * 100)),
    "prd.json 100,000 deep": state("prd.json", DEEP % ("[" * 100_000 + "]" * 100_000)),
    "iteration 100,000 deep": state("history/iteration-1.json", '{"iterationNumber": 1, "x": ' + '{"a":' * 100_000),
    "config.yaml 100,000 deep": state("config.yaml", "{" * 100_000),
    "keys twice": state("prd.json", '{"version": 1, "project": "toy", "tasks": [{"id": "one", "id": "../x", "title": ""}]}'),
    "huge numbers": state("prd.json", '{"version": 1, "project": "toy", "tasks": [{"id": "one", "title": "", "priority": 1e999}]}'),
    "many digits": state("prd.json", '{"version": %s, "project": "toy", "tasks": []}' % ("9" * 10_000)),
    "NaN": state("prd.json", '{"version": 1, "project": "toy", "tasks": [{"id": "one", "title": "", "costUsd": NaN}]}'),
    "surrogate": state("prd.json", '{"version": 1, "project": "toy", "tasks": [{"id": "one", "title": "\\ud800"}]}'),
    "raw surrogate": state("prd.json", '{"version": 1, "project": "toy", "tasks": [{"id": "one", "title": "\ud800"}]}'),
    "what a terminal obeys": prd({"id": "one", "title": EVIL.replace("\ud800", ""), "description": EVIL[:-1], "blockedReason": EVIL[:-1], "status": "blocked", "notes": EVIL[:-1]}),
    "an id it obeys": prd({"id": f"a{EVIL[:-1]}"}),
    "a key it obeys": prd({"id": "one", f"k{EVIL[:-1]}": 1, "completion": {EVIL[:-1]: 1}}),
    "a dependency it obeys": prd({"id": "one", "dependencies": [EVIL[:-1]]}),
    "a project it obeys": prd({"id": "one"}, project=f"toy{EVIL[:-1]}"),
    "a branch it obeys": prd({"id": "one"}, branch=f"b{EVIL[:-1]}"),
    "a branch that is an option": prd({"id": "one"}, branch=OPTION),
    "a branch that is -": prd({"id": "one"}, branch="-"),
    "a branch that leads out": prd({"id": "one"}, branch="../../../outside/secret/file"),
    "a branch that is HEAD": prd({"id": "one"}, branch="HEAD"),
    "a branch that is a ref": prd({"id": "one"}, branch="refs/heads/main"),
    "a branch of Ralph's": prd({"id": "one"}, branch="@{-1}"),
    "a project that is an option": prd({"id": "one"}, project=OPTION),
    "a project that leads out": prd({"id": "one"}, project="../../../../outside"),
    "relevant files that lead out": prd({"id": "one", "relevantFiles": ["/etc/passwd", "../outside/secret/file", OPTION, ":(exclude)*", "a\x00b"]}),
    "templates": prd({"id": "one", "title": "{{ ''.__class__.__mro__ }}{% include '/etc/passwd' %}", "outcome": "{{ config }}", "acceptanceCriteria": ["{% for x in y %}", "{{acceptance_criteria}}"]}),
    "config it obeys": state("config.yaml", f'"{EVIL[:2]}": 1\nrules: ["\\e[2J"]\n'),
    "config with escapes": state("config.yaml", '"\\e[2J\\u202e": 1\n'),
    "config that is a tag": state("config.yaml", "!!python/object/apply:os.system ['touch ran']\n"),
    "config that expands": state("config.yaml", "a: &a [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1 if n else ''}, *a]\n".replace("*a-1", "*a") for n in range(5))),
    "a regex that runs away": state("config.yaml", "stopCriteria: {successRegex: '(a+)+$', blockedRegex: '(((a{1,99}){1,99}){1,99})'}\n"),
    "history of odd names": state(f"history/iteration-{'9' * 40}.json", "{}"),
    "iteration it obeys": state("history/iteration-1.json", json.dumps({"iterationNumber": 1, "phase": "settled", "taskId": EVIL, "stage": "coder", "attempt": 1, "agent": EVIL, "timestamp": EVIL, "startedAt": EVIL, "baseCommit": OPTION, "output": EVIL, "prompt": EVIL})),
    "iteration with options": state("history/iteration-1.json", json.dumps({"iterationNumber": 1, "phase": "executing", "taskId": "one", "stage": "coder", "attempt": 1, "agent": "script", "timestamp": "t", "startedAt": "t", "baseCommit": OPTION})),
    "iteration judged with options": state("history/iteration-1.json", json.dumps({"iterationNumber": 1, "phase": "judged", "taskId": "one", "stage": "coder", "attempt": 1, "agent": "script", "timestamp": "t", "startedAt": "t", "baseCommit": OPTION, "commit": OPTION, "tree": OPTION, "snapshot": OPTION, "verdict": {"action": "complete", "hook": "x", "reason": ""}})),
    "iteration of a task that leads out": state("history/iteration-1.json", json.dumps({"iterationNumber": 1, "phase": "executing", "taskId": "../../../outside", "stage": "coder", "attempt": 1, "agent": "script", "timestamp": "t", "startedAt": "t", "baseCommit": "HEAD"})),
    "progress forged": state("progress.txt", "## Iteration 1 · x\n" * 10_000 + EVIL[:-1]),
}  # fmt: skip


ALWAYS = (
    "folder is a link",
    "progress.txt is a link",
    "config.yaml is endless",
    "prd.json is a pipe",
    "prd.json 100,000 deep",
    "raw surrogate",
    "what a terminal obeys",
    "a branch that is an option",
    "a project that leads out",
    "relevant files that lead out",
    "config that is a tag",
    "iteration it obeys",
    "iteration judged with options",
)


@pytest.mark.parametrize("name", sample(HOSTILE, always=ALWAYS))
def test_no_harm_is_done(tmp_path: Path, name: str) -> None:
    project = make_project(tmp_path)
    outside = tmp_path / "outside"
    (outside / "secret").mkdir(parents=True)
    (outside / "secret" / "file").write_text("keep: [this\n")
    (outside / "history").mkdir()
    for kept in ("prd.json", "progress.txt"):
        (outside / kept).write_bytes((project.folder.path / kept).read_bytes())
    HOSTILE[name](project)
    untouched = picture(outside)
    for command in COMMANDS:
        began, used = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        ran = project.ralph(*command)
        told = f"{name}: ralph {' '.join(command)}: {ran.code}: {ran.err[-600:]}"
        assert ran.code in CODES, told
        assert "unexpected error" not in ran.err, told
        assert "Traceback" not in ran.err + ran.out, told
        shown = ran.err if "--dry-run" in command else ran.out + ran.err  # a prompt is verbatim, but on a terminal
        assert (found := CONTROL.search(shown)) is None, f"{told}: {found}"
        assert time.monotonic() - began < 8, told
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used < 400_000, told
    assert picture(outside) == untouched
    assert not list(tmp_path.rglob("ran"))


def test_a_ref_that_no_attempt_can_have_gives_no_number(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    for name in ("9" * 40, "1000000000", "\u0663", "00"):
        project.git("update-ref", f"refs/ralph/toy/tasks/one/{name}", "HEAD")
    project.ralph("run", "--max-iterations", "1")
    assert [record.iteration_number for record in project.records] == [1]


def test_where_no_number_is_left_it_says_which_ref_took_it(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    project.git("update-ref", "refs/ralph/toy/tasks/one/999999999", "HEAD")
    ran = project.ralph("run")
    assert ran.code == 2
    assert ran.err.count("\n") == 1
    assert "no iteration number is left after 999999999; remove" in ran.err
    assert "refs/ralph/toy/tasks" in ran.err
    assert project.records == []
