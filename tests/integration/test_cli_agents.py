"""`ralph agents`: what is there to work with, told in a moment, whatever the programs do."""

import sys
import time
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from rulebook_ralph.agents import registry
from rulebook_ralph.agents.registry import BUILT_IN
from rulebook_ralph.cli import agents
from tests.harness import Project, Ran, make_project

CONFIG = """\
tools:
  executors:
    - {id: careful, type: claude, permissions: edit, model: opus}
    - {id: claude, type: claude, command: no-such-claude}
    - {id: held, type: amp, permissions: ask}
    - {id: mine, type: command, command: "my-agent --fast"}
    - {id: odd, type: nothing-known}
defaults: {executor: careful}
"""
PLUGIN = """
import time
from rulebook_ralph.agents.agent import Probe
from rulebook_ralph.agents.registry import Capabilities

class Slow:
    capabilities = Capabilities(prompt="telepathy", tokens=True, permissions=("full",))
    def __init__(self, settings, environment):
        pass
    def probe(self):
        time.sleep(60)

class Broken:
    def __init__(self, settings, environment):
        pass
    def probe(self):
        raise KeyError("x")
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository of one's own: what is uncommitted in it needs no agreement."""
    project = make_project(tmp_path)
    project.folder.config.unlink()
    return project.root


def listed(root: Path, *options: str, config: str = "") -> Ran:
    programs = root.parent / "bin"
    programs.mkdir(exist_ok=True)
    for name, script in (
        ("claude", "echo '2.1.330 (Claude Code)'"),
        ("codex", "echo 'codex-cli 0.169.0'"),
        ("cursor-agent", "echo broken >&2; exit 3"),
        ("my-agent", "touch started"),
    ):
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    (root / ".rulebook-ralph" / "config.yaml").write_text(config)
    environment = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(root.parent), "TERM": "dumb"}
    return Project(root, root.parent, environment=environment).ralph("agents", *options)


def by_id(ran: Ran) -> dict[str, dict[str, Any]]:
    assert (ran.code, ran.err) == (0, "")
    return {agent["id"]: agent for agent in ran.json["agents"]}


def test_every_agent_is_listed_with_what_is_known_of_it(root: Path) -> None:
    found = by_id(listed(root, "--json", config=CONFIG))
    assert list(found)[:5] == ["careful", "claude", "held", "mine", "odd"]
    assert set(found) >= set(BUILT_IN)
    assert [name for name, agent in found.items() if agent["default"]] == ["careful"]
    careful = found["careful"]
    assert (careful["installed"], careful["version"], careful["problem"]) == (True, "2.1.330", "")
    assert careful["supports"]["cost"] is True
    assert (found["claude"]["installed"], found["claude"]["configured"]) == (False, True)
    assert "no-such-claude was not found" in found["claude"]["problem"]
    assert found["codex"]["version"] == "0.169.0"
    assert (found["cursor"]["installed"], found["gemini"]["installed"]) == (False, False)
    assert "exit code 3: broken" in found["cursor"]["problem"]
    assert found["held"]["installed"] is None
    assert "cannot be held to permissions: ask" in found["held"]["problem"]
    assert found["mine"]["installed"] is True
    assert found["command"]["installed"] is None
    assert "unknown type 'nothing-known'" in found["odd"]["problem"]
    assert found["odd"]["supports"] is None
    assert not (root / "started").exists(), "an agent of the user's own is never started"


def test_the_table_marks_the_default_and_says_what_to_do(root: Path) -> None:
    shown = listed(root, config=CONFIG)
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert " ".join(lines[0].split()) == "agent type version permissions tokens cost session limits prompt"
    starred = [line.split() for line in lines if line.startswith("*")]
    assert starred == [["*", "careful", "claude", "2.1.330", "full|edit|ask", "yes", "yes", "yes", "fields", "stdin"]]
    held = next(line.split() for line in lines if line.strip().startswith("held"))
    assert held[:4] == ["held", "amp", "unusable", "full"]
    told = [line for line in lines if line.startswith("agent ")]
    assert [line.split(":")[0] for line in told] == ["agent claude", "agent held", "agent odd"]


def test_outside_a_project_the_built_in_ones_are_listed(tmp_path: Path) -> None:
    ran = Project(tmp_path, tmp_path).ralph("agents", "--json")
    found = by_id(ran)
    assert list(found) == list(registry.known_types())
    assert found["claude"]["default"]


def test_plug_ins_are_first_class_and_one_that_hangs_is_left(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plugged.py").write_text(PLUGIN)
    points = [EntryPoint(name, f"plugged:{name.title()}", registry.GROUP) for name in ("slow", "broken", "gone")]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points)
    monkeypatch.setattr(agents, "_TIMEOUT", 0.4)
    monkeypatch.syspath_prepend(tmp_path)
    started = time.monotonic()
    found = by_id(listed(root, "--json"))
    assert time.monotonic() - started < 5
    sys.modules.pop("plugged", None)
    assert list(found)[-3:] == ["broken", "gone", "slow"]
    assert found["slow"]["supports"]["prompt"] == "telepathy"
    assert "gave no answer" in found["slow"]["problem"]
    assert "KeyError" in found["broken"]["problem"]
    assert "cannot be loaded" in found["gone"]["problem"]
