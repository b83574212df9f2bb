"""Each genuine agent by its adapter alone, in the sandbox: where it works, what is read of it, and that it ends."""

import json
import shutil
import sys
from pathlib import Path

import msgspec

from rulebook_ralph.tasks.results import AgentResult

from .clis import AIDER, ALL, CLAUDE, CODEX, GEMINI, OPENCODE, QWEN, of
from .house import ADD, House
from .model.api import TOKENS
from .model.turns import Refuse, Shell
from .work import DONE, PROMISE, adds

_DRIVER = Path(__file__).with_name("drive.py")
PROMPT = f"# Your task: {ADD}\n\nThis is attempt 1 of 3 at this task. Write add.py.\n"


def driven(house: House, permissions: str = "full", seconds: float = 60.0) -> AgentResult:
    clone = house.folder / "clone"
    if not clone.exists():
        shutil.copytree(house.root, clone)
    overrides = json.dumps(dict(house.cli.settings))
    process = house.start_program(
        sys.executable,
        *(str(_DRIVER), house.cli.name, permissions, str(house.root), str(clone), str(seconds), overrides, PROMPT),
        PYTHONPATH=str(Path(__file__).parents[2]),
    )
    stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 0, stderr
    return msgspec.json.decode(stdout, type=AgentResult)


@of(*ALL)
def test_it_works_in_the_clone_that_stands_in_the_projects_place(house: House) -> None:
    house.model.script = {ADD: [[*adds(), DONE]]}
    got = driven(house)
    assert (got.status, got.fault) == ("finished", None), got
    assert PROMISE in got.final_text
    assert (house.folder / "clone" / "add.py").is_file()
    assert not (house.root / "add.py").exists()
    assert [tool.success for tool in got.tool_results] == [True] * 2
    assert got.usage.total == house.model.answers * TOKENS or house.cli is AIDER
    assert (got.cost_usd is not None) == (house.cli is CLAUDE) or house.cli in (OPENCODE, AIDER)


@of(*ALL)
def test_a_wrong_key_is_known_in_seconds(house: House) -> None:
    house.model.script = {ADD: [[Refuse("authentication")]]}
    got = driven(house)
    assert got.fault
    assert (got.status, got.fault.kind) == ("failed", "authentication")
    assert house.cli.key in got.fault.message
    assert got.duration_ms < 45_000


@of(CLAUDE, CODEX, GEMINI, QWEN, OPENCODE)
def test_a_hanging_tool_ends_with_all_it_started(house: House) -> None:
    """One that left the tool's session, and one that cleared its environment too."""
    runaways = f"setsid sleep {house.forever} & (env -i setsid sleep {house.forever} &)"
    house.model.script = {ADD: [[Shell(f"{runaways}; echo yes > started; sleep {house.forever}")]]}
    got = driven(house, seconds=house.cli.iteration)
    assert (got.status, got.killed_by) == ("killed", "wall-time")
    assert (house.folder / "clone" / "started").exists()
    assert house.processes() == []
