"""Finding an adapter by its type, and what is said of one that cannot run."""

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from rulebook_ralph.agents import registry
from rulebook_ralph.agents.agent import Agent
from rulebook_ralph.config.settings import Executor
from rulebook_ralph.errors import ExitCode, RalphError

EMPTY_PATH = {"PATH": "/nowhere"}


def create(kind: str, *, command: str = "", args: tuple[str, ...] = (), path: str = "/nowhere") -> Agent:
    return registry.create(Executor(id="mine", type=kind, command=command, args=args), {"PATH": path})


@pytest.mark.parametrize(
    ("kind", "hint"),
    [("cluade", "did you mean claude?"), ("comand", "did you mean command?"), ("zzz", "tools.executors")],
)
def test_an_unknown_type_names_the_known_and_the_nearest(kind: str, hint: str) -> None:
    with pytest.raises(RalphError) as raised:
        create(kind)
    assert raised.value.exit_code is ExitCode.INVALID
    assert "mine" in str(raised.value)
    assert f"known are {', '.join(registry.BUILT_IN)}" in str(raised.value)
    assert hint in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("kind", ["command", "scripted"])
def test_settings_that_lack_the_needed_are_refused(kind: str) -> None:
    with pytest.raises(RalphError, match=r"tools\.executors"):
        create(kind)


@pytest.mark.parametrize("kind", ["command", "claude"])
def test_a_command_line_that_does_not_end_is_refused(kind: str) -> None:
    with pytest.raises(RalphError, match="cannot be split"):
        create(kind, command="run 'it")


def test_an_entry_point_is_first_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plugged.py").write_text("def make(settings, environment):\n    return (settings.id, environment)\n")
    point = EntryPoint("theirs", "plugged:make", registry.GROUP)
    broken = EntryPoint("broken", "plugged_missing:make", registry.GROUP)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point, broken])
    monkeypatch.syspath_prepend(tmp_path)
    assert registry.create(Executor(id="x", type="theirs"), EMPTY_PATH) == ("x", EMPTY_PATH)  # type: ignore[comparison-overlap]
    with pytest.raises(RalphError, match="cannot be loaded"):
        create("broken")
    with pytest.raises(RalphError, match="broken, theirs"):
        create("other")
    sys.modules.pop("plugged", None)


def test_probe_looks_on_the_path_given(tmp_path: Path) -> None:
    program = tmp_path / "claude"
    program.write_text("#!/bin/sh\necho '2.1.330 (Claude Code)'\n")
    assert "not executable" in create("claude", command=str(program)).probe().problem
    program.chmod(0o755)
    for probe in (create("claude", path=str(tmp_path)).probe(), create("claude", command=str(program)).probe()):
        assert (probe.installed, probe.version, probe.problem) == (True, "2.1.330", "")
