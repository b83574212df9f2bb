"""The demo's script, applied by hand: the project is green and red exactly where the story says so."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from ruamel.yaml import YAML

from rulebook_ralph.core.settings import Config

DEMO = Path(__file__).parents[2] / "templates" / "demo"
SCRIPT: dict[str, Any] = json.loads((DEMO / "script.json").read_text(encoding="utf-8"))
CONFIG = msgspec.convert(YAML(typ="safe", pure=True).load(DEMO / "config.yaml"), Config)
READ, WRITE, TELL = "phase1_read-numerals", "phase2_write-numerals", "phase3_tell-the-time"


def installed(folder: Path) -> Path:
    """The demo's project as `ralph demo` lays it out."""
    project = folder / "project"
    shutil.copytree(DEMO / "project", project)
    for file in project.rglob("*.py.txt"):
        file.rename(file.with_suffix(""))
    return project


def play(project: Path, task: str, attempt: int) -> None:
    for step in SCRIPT["tasks"][task][attempt - 1]["steps"]:
        match step:
            case {"write": path, "content": content}:
                (project / path).write_text(content, encoding="utf-8")
            case {"replace": path, "old": old, "new": new}:
                text = (project / path).read_text(encoding="utf-8")
                assert text.count(old) == 1
                (project / path).write_text(text.replace(old, new), encoding="utf-8")
            case {"run": command}:
                assert shell(project, command).returncode == 0, command
            case {"say": str()} | {"wait": float()}:
                pass
            case _:
                pytest.fail(f"no such step: {step}")


def shell(project: Path, command: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command, shell=True, cwd=project, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )


def gates(project: Path) -> dict[str, subprocess.CompletedProcess[str]]:
    return {step.name: shell(project, step.command) for step in CONFIG.verification.steps}


def red(project: Path) -> list[str]:
    return [name for name, ended in gates(project).items() if ended.returncode != 0]


def content(project: Path) -> dict[str, bytes]:
    files = (file for file in project.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    return {str(file.relative_to(project)): file.read_bytes() for file in files}


def test_the_story(tmp_path: Path) -> None:
    project = installed(tmp_path)
    assert red(project) == []

    play(project, READ, 1)
    assert red(project) == []
    after_reading = content(project)

    play(project, WRITE, 1)
    assert content(project) == after_reading

    play(project, WRITE, 2)
    ended = gates(project)
    assert [name for name, gate in ended.items() if gate.returncode != 0] == ["tests"]
    assert re.findall(r"^(?:FAIL|ERROR): (\w+)", ended["tests"].stderr, re.MULTILINE) == ["test_seven_letters"]

    play(project, WRITE, 3)
    assert red(project) == []

    play(project, TELL, 1)
    assert red(project) == []
    assert shell(project, "python3 -m sundial 19:45").stdout == "XIX · XLV\n"


def test_the_mended_attempt_stands_on_its_own_after_a_rollback(tmp_path: Path) -> None:
    project = installed(tmp_path)
    play(project, READ, 1)
    play(project, WRITE, 3)
    assert red(project) == []


def test_the_script_is_told_of_the_tasks_that_are_there() -> None:
    folders = {folder.name: folder for folder in (DEMO / "project/rulebook/tasks").iterdir()}
    assert set(folders) == set(SCRIPT["tasks"]) == {READ, WRITE, TELL}
    blocked_by = {
        name: json.loads((folder / ".metadata.json").read_bytes())["blockedBy"] for name, folder in folders.items()
    }
    assert blocked_by == {READ: [], WRITE: [READ], TELL: [WRITE]}


def test_every_attempt_claims_to_be_done_and_the_liar_does_nothing() -> None:
    attempts = [attempt for attempts in SCRIPT["tasks"].values() for attempt in attempts]
    assert all(attempt["promise"] is True and attempt["report"]["status"] == "completed" for attempt in attempts)
    lie = SCRIPT["tasks"][WRITE][0]["steps"]
    assert {key for step in lie for key in step} == {"say", "wait"}


def test_a_person_can_follow_and_need_not_wait() -> None:
    attempts = [attempt for attempts in SCRIPT["tasks"].values() for attempt in attempts]
    waits = [step["wait"] for attempt in attempts for step in attempt["steps"] if "wait" in step]
    assert 2 < sum(waits) < 6


def test_the_agent_gets_the_script_by_a_placeholder() -> None:
    (executor,) = CONFIG.tools.executors
    assert (executor.id, executor.type, executor.args) == ("demo", "scripted", ("{script}",))
    assert CONFIG.defaults.executor == executor.id


def test_no_python_file_is_named_as_one() -> None:
    """A `.py` file below templates/ breaks the editable install."""
    assert not list(DEMO.rglob("*.py"))
