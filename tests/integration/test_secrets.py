"""Secrets are planted wherever an agent, a gate, a hook, a file's name or a commit can say them; then all is searched."""

import json
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import isolate
from tests.harness import Project, Ran, make_project, task

VARIABLES = {
    "PLAIN_API_KEY": "zq81-plain-value-of-a-key-3377",
    "ODD_PASSWORD": 'od"d\\pass/wörd &1,!x9',
    "SIGNING_SECRET": "-----BEGIN THING-----\nMIIabcdefghijklmnopqrstuvwx0\nMIIzyxwvutsrqponmlkjihgfe1\n-----END THING-----",
    "DATABASE_URL": "postgres://someone:hunter2-in-address@localhost/db",
}
AGENTS_OWN = {"OWN_TOKEN": "own-7f3b-token-of-the-agent"}
SHAPES = ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "sk-ant-api03-" + "Q7w" * 12, "AKIAABCDEFGHIJKLMNOP")
NEEDLES = (
    VARIABLES["PLAIN_API_KEY"],
    VARIABLES["PLAIN_API_KEY"][:16],
    VARIABLES["PLAIN_API_KEY"][-16:],
    VARIABLES["ODD_PASSWORD"],
    json.dumps(VARIABLES["ODD_PASSWORD"])[1:-1],
    json.dumps(VARIABLES["ODD_PASSWORD"], ensure_ascii=False)[1:-1],
    "MIIabcdefghijklmnopqrstuvwx0",
    "hunter2-in-address",
    AGENTS_OWN["OWN_TOKEN"],
    *SHAPES,
)
HIDDEN = (
    "zq81-plain-\x1b[01;31mvalue\x1b[m\x1b[K-of-a-key-3377",  # as `grep --color` shows it
    "own-7f3b\x1b]8;;https://example.org\x1b\\-token-of\u200b-the\x01-agent",
    f"{SHAPES[0][:20]}\x1b[0m{SHAPES[0][20:]}",
)
UNSEEN = re.compile(
    r"(?:\x1b|\\+u001b)\[[0-9;]*[a-zA-Z]|(?:\x1b|\\+u001b)\]8;;https://example.org(?:\x1b|\\+u001b)\\+"
    r"|[\x01\x1b\u200b]|\\+u(?:0001|001b|200b)"
)
ALL = " ".join((*VARIABLES.values(), *AGENTS_OWN.values(), *SHAPES, *HIDDEN))
NAME = f"work/{VARIABLES['PLAIN_API_KEY']}.txt"
REPORT = {
    "status": "partial",
    "summary": ALL,
    "learnings": [ALL, f"learned {ALL}"],
    "errors": [ALL],
    "qualityResults": {"tests": True},
    "commitMessage": ALL,
    "blockedReason": "",
}


def final(status: str) -> str:
    report = json.dumps(REPORT | {"status": status})
    promise = "\n<promise>IMPLEMENTATION_COMPLETE</promise>" if status == "completed" else ""
    return f"All of it: {ALL}\n```ralph-report\n{report}\n```{promise}"


def events(status: str, *, error: bool = False) -> Iterator[str]:
    use = {"type": "tool_use", "id": "t1", "name": f"Bash {SHAPES[0]}", "input": {"command": f"echo {ALL}"}}
    commit = {"type": "tool_use", "id": "t2", "name": "Bash", "input": {"command": f"git commit -m '{SHAPES[0]}'"}}
    long = "x" * 3990 + " " + ALL + " " + "y" * 20_000
    answers = [
        {"type": "tool_result", "tool_use_id": "t1", "content": long, "is_error": True},
        {"type": "tool_result", "tool_use_id": "t2", "content": ALL},
    ]
    yield json.dumps({"type": "system", "subtype": "init", "session_id": f"s-{SHAPES[2]}"})
    padding = "p" * (8_000 - 450)
    yield json.dumps({"type": "assistant", "message": {"content": [{"type": "text", "text": padding}]}})
    for content in ([{"type": "text", "text": f"I say {ALL}"}], [use], [commit]):
        yield json.dumps({"type": "assistant", "message": {"content": content}})
    for answer in answers:
        yield json.dumps({"type": "user", "message": {"content": [answer]}})
    said = {"result": final(status)} if not error else {"result": f"API Error: {ALL}", "errors": [ALL]}
    yield json.dumps(
        {"type": "result", "subtype": "error" if error else "success", "is_error": error, "total_cost_usd": 0.1}
        | {
            "session_id": f"s-{SHAPES[2]}",
            "permission_denials": [{"tool_name": "Bash", "tool_input": {"command": ALL}}],
        }
        | said
    )


AGENT = """#!/bin/sh
if [ "$1" = --version ]; then echo "2.0.0 (Claude Code)"; exit; fi
cat >/dev/null
printf '%s\\n' "$ALL_OF_IT" >&2
case "$RALPH_TASK-$RALPH_ATTEMPT" in
one-1) mkdir -p work; echo x > "$THE_NAME"; git add -A; git commit -qm "$ALL_OF_IT"; git branch "b-$PLAIN_API_KEY"
  git config user.note "$PLAIN_API_KEY"; echo partial; cat "$BESIDE/partial.jsonl" ;;
one-*) rm -f "$THE_NAME"; mkdir -p work; echo fine > work/fine.txt; cat "$BESIDE/completed.jsonl" ;;
*) echo more > more.txt; cat "$BESIDE/error.jsonl"; exit 1 ;;
esac
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Project, list[Ran]]]:
    folder = tmp_path_factory.mktemp("secrets")
    with pytest.MonkeyPatch.context() as patch:
        isolate(patch, folder)
        yield _run(folder)


def _run(folder: Path) -> tuple[Project, list[Ran]]:
    gate = {"name": "tests", "kind": "test", "command": 'printenv; printf "%s\\n" "$ALL_OF_IT"; test ! -e "$THE_NAME"'}
    hook = 'printf "%s\\n" "$ALL_OF_IT" >&2; test -e work/fine.txt && exit 0; exit 2'
    project = make_project(folder, gates=[gate], tasks=[task(), task("two")])
    program = project.beside / "claude"
    program.write_text(AGENT)
    program.chmod(0o755)
    for name in ("partial", "completed"):
        (project.beside / f"{name}.jsonl").write_text("\n".join(events(name)) + "\n")
    (project.beside / "error.jsonl").write_text("\n".join(events("", error=True)) + "\n")
    executor = {"id": "script", "type": "claude", "command": str(program), "env": AGENTS_OWN}
    project.configure(gates=[gate], attempts=2, hooks=[{"name": "h", "command": hook}], tools={"executors": [executor]})
    said = [project.ralph("run")]
    project.configure(gates=[gate], attempts=2, hooks=[{"name": "h", "command": hook}], tools={})
    own = {"tools": {"executors": [executor]}}
    project.write({f"{os.environ['HOME']}/.config/rulebook-ralph/config.yaml": json.dumps(own)})
    project.commit(f"a person wrote {SHAPES[0]}", **{"app.txt": "sound\n\n"})
    project.environment.update(VARIABLES, BESIDE=str(project.beside), ALL_OF_IT=ALL, THE_NAME=NAME)
    project.write({f"untracked-{VARIABLES['PLAIN_API_KEY']}": "x"})
    said.append(project.ralph("run", "--max-iterations", "4"))
    commands = (
        *(("status",), ("status", "--json"), ("history",), ("history", "--json"), ("verify",), ("verify", "--json")),
        *(
            ("show", str(number), *how)
            for number in (1, 2, 3)
            for how in ((), ("--json",), ("--prompt",), ("--output",))
        ),
        *(("show", "1", "--diff"), ("task", "show", "one"), ("task", "show", "two"), ("trust",), ("doctor",)),
        *(("validate",), ("agents",), ("run", "--dry-run"), ("run", "--task", VARIABLES["PLAIN_API_KEY"])),
        ("run", "--agent", SHAPES[0], "--json"),
    )
    said += [project.ralph(*command) for command in commands]
    return project, said


def found(data: bytes) -> list[str]:
    seen = UNSEEN.sub("", data.decode("utf-8", "replace")).encode()
    return [needle for needle in NEEDLES if needle.encode() in data or needle.encode() in seen]


def test_the_secrets_were_really_said(ran: tuple[Project, list[Ran]]) -> None:
    project, said = ran
    assert "config.yaml:" in said[0].err
    assert "holds a secret" in said[0].err
    assert project.task("one").status == "completed", said[1].err + said[1].out
    assert [record.completion_status for record in project.records][:2] == ["failed", "completed"]
    assert "[redacted]" in said[1].out
    assert all(run.code in (0, 2, 3, 4, 5) for run in said)


def test_nothing_in_the_state_folder(ran: tuple[Project, list[Ran]]) -> None:
    project, _ = ran
    files = [file for file in project.folder.path.rglob("*") if file.is_file()]
    leaks = {f"{file.name}": found(file.read_bytes()) for file in files if found(file.read_bytes())}
    assert leaks == {}
    assert len(files) > 4


def test_nothing_that_a_terminal_obeys_in_the_log(ran: tuple[Project, list[Ran]]) -> None:
    project, _ = ran
    told = project.folder.progress.read_text()
    assert "[redacted]" in told
    assert "\x1b" not in told


def test_nothing_on_the_screen(ran: tuple[Project, list[Ran]]) -> None:
    _, said = ran
    leaks = [(index, found(f"{run.out}\n{run.err}".encode())) for index, run in enumerate(said)]
    assert [leak for leak in leaks if leak[1]] == []


def test_nothing_in_git(ran: tuple[Project, list[Ran]]) -> None:
    """The names of files in a snapshot are the agent's work itself, and are left out; so is what the agent committed."""
    project, _ = ran
    listed = project.git("rev-list", "--objects", "--glob=refs/ralph", "--branches=ralph", "--not", "main").splitlines()
    leaks = {}
    kinds = set()
    for entry in listed:
        name, _, path = entry.partition(" ")
        kind = project.git("cat-file", "-t", name)
        kinds.add(kind)
        if kind != "tree" and (leak := found(os.fsencode(project.git("cat-file", "-p", name)))):
            leaks[f"{kind} {path} {name}"] = leak
    assert leaks == {}
    assert kinds >= {"commit", "blob", "tree"}
    assert found(project.git("for-each-ref", "--format=%(refname) %(contents)", "refs/ralph").encode()) == []
    assert found("\n".join(project.tree("HEAD")).encode()) == []


def test_an_unexpected_error_tells_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_project(tmp_path)
    project.environment.update(VARIABLES)

    def fails(*_: object, **__: object) -> None:
        raise ValueError(ALL)

    monkeypatch.setattr("rulebook_ralph.state.store.read_prd_bytes", fails)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    failed = project.ralph("status")
    assert failed.code == 1
    (log,) = tmp_path.glob("ralph-*.log")
    wanted = [needle for needle in NEEDLES if needle != AGENTS_OWN["OWN_TOKEN"]]
    for text in (failed.err, log.read_text()):
        assert [needle for needle in wanted if needle in text] == []
    assert shlex.quote(log.name) in failed.err
