"""`ralph logs` and `ralph show --raw`: what an agent said and did; and commands at a terminal, with a pager."""

import re
import shlex
from pathlib import Path

import pytest

from rulebook_ralph.cli.places import open_project
from rulebook_ralph.cli.show import Transcript
from tests.harness import DEADLINE, HONEST, Project, finish, make_project, wait_for
from tests.terminal import at_terminal

WORDS = 'echo "I look at $PWD/app.txt"; printf "no \\033[2J tricks\\n"\n'


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = make_project(tmp_path, agent=WORDS + HONEST)
    made.environment["RALPH_CACHE_DIR"] = str(tmp_path / "cache")
    return made


def test_a_transcript_is_readable_and_raw_output_is_as_it_was(project: Project) -> None:
    assert project.ralph("logs").err.startswith("error: no iterations yet")
    assert project.ralph("run").code == 0
    told = project.ralph("logs", "1").out
    assert told.splitlines()[:3] == ["#1 one · coder · attempt 1 · script", "I look at app.txt", "no  tricks"]
    assert "\033[2J" in project.ralph("show", "1", "--raw").out
    assert project.ralph("logs", "7").code == 2


def test_a_tool_that_failed_tells_why(project: Project) -> None:
    call = '{"type":"tool_use","id":"1","name":"Bash","input":{"command":"make"}}'
    ended = '{"type":"tool_result","tool_use_id":"1","is_error":true,"content":"\\nno rule\\nto make"}'
    claude(
        project,
        *(f'{{"type":"{who}","message":{{"content":[{it}]}}}}' for who, it in (("assistant", call), ("user", ended))),
    )
    assert project.ralph("logs").out.splitlines()[1:] == ["● Bash  make", "  no rule"]


def test_a_final_message_that_nothing_else_said_is_shown(project: Project) -> None:
    claude(project, '{"type":"result","subtype":"success","is_error":false,"result":"I made nothing\\nof it."}')
    assert project.ralph("logs").out.splitlines()[1:] == ["I made nothing", "of it."]


def test_a_character_that_a_read_cuts_is_whole(project: Project) -> None:
    app, out, _ = project.app()
    with app.console() as console:
        shown = Transcript(console, open_project(app).project)
        for byte in "né\n".encode():
            shown.raw(bytes([byte]))
    assert out.getvalue() == "né\n"


def claude(project: Project, *events: str) -> None:
    """A run of which the only attempt gave those events."""
    program = project.beside / "claude"
    program.write_text(f"#!/bin/sh\ntest $1 = --version || printf '%s\\n' {' '.join(map(shlex.quote, events))}\n")
    program.chmod(0o755)
    executor = {"id": "claude", "type": "claude", "command": str(program)}
    project.configure(attempts=1, tools={"executors": [executor]}, defaults={"executor": "claude"})
    project.ralph("run")


def test_it_follows_an_agent_that_works_from_a_second_terminal(project: Project) -> None:
    project.agent('echo begun; until test -e "$BESIDE/go"; do sleep 0.05; done; echo ending\n' + HONEST)
    run = project.start("run")
    wait_for(lambda: "begun" in project.ralph("logs").out if project.records else False, "the agent's first words")
    following = project.start("logs", "-f")
    (project.beside / "go").touch()
    assert finish(run).code == 0
    told = following.communicate(timeout=DEADLINE)[0]
    assert following.returncode == 0
    assert told.count("begun") == told.count("ending") == 1


def test_at_a_terminal_there_is_colour_and_the_pager_of_git(project: Project) -> None:
    assert project.ralph("run").code == 0
    project.environment["GIT_PAGER"] = "sed s/^/paged:/"
    code, shown = at_terminal(project, "history")
    assert code == 0
    assert "paged:#1" in shown
    assert "\x1b[32mcompleted\x1b[0m" in shown
    _, shown = at_terminal(project, "show", "1", "--diff")
    assert "paged:\x1b[32m+one\x1b[0m" in shown
    project.environment["NO_COLOR"] = "1"
    _, shown = at_terminal(project, "status")
    assert re.search("paged:.*completed", shown)
    assert "\x1b[3" not in shown
    assert "paged:" not in project.ralph("status").out
