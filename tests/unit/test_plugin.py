"""The Claude Code plugin as it is written: its commands, subagents and hooks, and the official plugin beside it."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from rulebook_ralph import __version__
from rulebook_ralph.cli import plugin
from rulebook_ralph.cli.plugin import files_for
from rulebook_ralph.errors import RalphError
from rulebook_ralph.run.session import Driver
from tests.harness import Project

OFFICIAL = "ralph-loop@claude-plugins-official"
DRIVERS = pytest.mark.parametrize("driver", ["ralph", "ralph-loop"])


@DRIVERS
def test_the_plugin_bears_ralphs_name_and_version(driver: Driver) -> None:
    manifest = json.loads(files_for(driver)[".claude-plugin/plugin.json"])
    assert (manifest["name"], manifest["version"]) == ("ralph", __version__)


@DRIVERS
def test_implement_is_a_thin_wrapper_that_pastes_no_words_into_a_shell(driver: Driver) -> None:
    text = files_for(driver)["commands/implement.md"].decode()
    assert len(text.splitlines()) < 100
    (begins,) = re.findall(r"^!`(.*)`$", text, re.MULTILINE)
    assert begins.startswith("ralph hook begin ")
    assert "$ARGUMENTS" not in begins
    assert "ralph hook begin" in text.partition("allowed-tools:")[2].splitlines()[0]


@DRIVERS
def test_work_is_handed_to_subagents_that_are_there_and_know_no_driver(driver: Driver) -> None:
    files = files_for(driver)
    prompt = {"ralph": "claude-plugin/commands/implement.md", "ralph-loop": "claude-plugin/ralph-loop/prompt.md"}[
        driver
    ]
    told = (Path(__file__).parents[2] / "templates" / prompt).read_text("utf-8")
    assert {f"agents/{name}.md" for name in re.findall(r"`ralph:(\w+)`", told)} == {"agents/coder.md", "agents/qa.md"}
    assert {name for name in files if name.startswith("agents/")} == {"agents/coder.md", "agents/qa.md"}
    assert files["agents/coder.md"] == files_for("ralph")["agents/coder.md"]


def test_where_another_plugin_drives_the_hook_only_watches() -> None:
    hooks = json.loads(files_for("ralph-loop")["hooks/hooks.json"])["hooks"]
    assert [each["command"] for entry in hooks["Stop"] for each in entry["hooks"]] == ["ralph hook watch"]


@pytest.fixture
def script_of(tmp_path: Path, surroundings: Path) -> Callable[[], Path]:
    app, _, _ = Project(tmp_path, tmp_path, environment={"HOME": str(surroundings)}).app()
    return lambda: plugin.script_of(app, tmp_path)


def install(home: Path, *, enabled: bool, **entry: str) -> Path:
    script = home / "official" / "scripts" / "setup-ralph-loop.sh"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.touch()
    (home / ".claude" / "plugins").mkdir(parents=True, exist_ok=True)
    installed = {"plugins": {OFFICIAL: [{"installPath": str(home / "official"), **entry}]}}
    (home / ".claude" / "plugins" / "installed_plugins.json").write_text(json.dumps(installed))
    (home / ".claude" / "settings.json").write_text(json.dumps({"enabledPlugins": {OFFICIAL: enabled}}))
    return script


def test_the_official_plugin_is_there_where_it_is_installed_and_switched_on(
    script_of: Callable[[], Path], surroundings: Path, tmp_path: Path
) -> None:
    script = install(surroundings, enabled=True)
    assert script_of() == script
    install(surroundings, enabled=True, scope="project", projectPath=str(tmp_path))
    assert script_of() == script
    for switched, entry in ((False, {}), (True, {"scope": "project", "projectPath": "/elsewhere"})):
        install(surroundings, enabled=switched, **entry)
        with pytest.raises(RalphError):
            script_of()
