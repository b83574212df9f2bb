"""The Claude Code plugin: its files, what installing does to those that are there, and what a hook is told and answers."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph import __version__, resources
from rulebook_ralph.commands.hook_begin import LOOP_PROMPT
from rulebook_ralph.commands.hook_session import Told
from rulebook_ralph.commands.plugin import files_for
from rulebook_ralph.core import hook_answer, official_loop, plugin_files
from rulebook_ralph.core.events import IterationSettled
from rulebook_ralph.core.evidence import Usage
from rulebook_ralph.core.hook_answer import Answer
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop.session_process import Ancestor, agent_among, ancestors, started_in
from rulebook_ralph.session_place import private_folder

DRIVERS = ("ralph", "ralph-loop")
LARGEST_WRAPPER = 100
names = st.sampled_from(["a", "b/c", "d"])
files = st.dictionaries(names, st.binary(max_size=2))


def text(driver: str, name: str) -> str:
    return files_for(driver)[name].decode()  # type: ignore[arg-type]  # one of DRIVERS


@pytest.mark.parametrize("driver", DRIVERS)
def test_the_plugin_bears_ralphs_name_and_version(driver: str) -> None:
    manifest = json.loads(text(driver, ".claude-plugin/plugin.json"))
    assert (manifest["name"], manifest["version"]) == ("ralph", __version__)


@pytest.mark.parametrize("driver", DRIVERS)
def test_implement_is_a_thin_wrapper_that_checks_first_and_pastes_no_words_into_a_shell(driver: str) -> None:
    wrapper = text(driver, "commands/implement.md")
    assert len(wrapper.splitlines()) < LARGEST_WRAPPER
    commands = re.findall(r"^!`(.*)`$", wrapper, re.MULTILINE)
    assert commands
    assert all(command.startswith("ralph hook begin ") for command in commands)
    for content in files_for(driver).values():  # type: ignore[arg-type]  # one of DRIVERS
        assert not [command for command in re.findall(r"!`(.*)`", content.decode()) if "ARGUMENTS" in command]


def test_the_coordinator_hands_work_to_subagents_that_are_there() -> None:
    for prompt in (text("ralph", "commands/implement.md"), resources.template_text(LOOP_PROMPT)):
        assert "`ralph:coder`" in prompt
        assert "`ralph:qa`" in prompt
        assert "one Task call" in prompt
    assert {"agents/coder.md", "agents/qa.md"} <= set(files_for("ralph"))


def test_the_hook_is_told_the_timeout_that_it_has() -> None:
    (stop,) = json.loads(text("ralph", "hooks/hooks.json"))["hooks"]["Stop"][0]["hooks"]
    assert stop["command"] == f"ralph hook stop --timeout {stop['timeout']}"


def test_where_another_plugin_drives_the_hook_only_watches() -> None:
    (stop,) = json.loads(text("ralph-loop", "hooks/hooks.json"))["hooks"]["Stop"][0]["hooks"]
    assert stop["command"] == "ralph hook watch"


@given(wanted=files, first=files)
def test_installing_over_what_ralph_wrote_gives_what_is_wanted(
    wanted: dict[str, bytes], first: dict[str, bytes]
) -> None:
    change = plugin_files.change(wanted, plugin_files.digests(first), first, force=False)
    left = {name: content for name, content in first.items() if name not in change.removes} | dict(change.writes)
    assert (change.edited, left) == ((), wanted)
    again = plugin_files.change(wanted, plugin_files.digests(wanted), left, force=False)
    assert (again.writes, again.removes, again.edited) == ({}, (), ())


@given(wanted=files, first=files, edited=files)
def test_what_a_person_wrote_is_named_and_never_replaced(
    wanted: dict[str, bytes], first: dict[str, bytes], edited: dict[str, bytes]
) -> None:
    there = first | edited
    own = {name for name, content in edited.items() if content not in (first.get(name), wanted.get(name))}
    change = plugin_files.change(wanted, plugin_files.digests(first), there, force=False)
    assert not own & {*change.writes, *change.removes}
    assert own & {*wanted, *first} == set(change.edited)
    forced = plugin_files.change(wanted, plugin_files.digests(first), there, force=True)
    assert {name: content for name, content in wanted.items() if there.get(name) != content} == forced.writes


@given(st.binary(max_size=200))
def test_whatever_a_hook_is_given_is_read_or_refused(data: bytes) -> None:
    try:
        assert isinstance(hook_answer.read(data).session_id, str)
    except RalphError as error:
        assert "Claude Code hook" in str(error)  # noqa: PT017


def test_half_of_a_character_in_the_last_message_ends_no_loop() -> None:
    read = hook_answer.read(b'{"session_id": "s", "last_assistant_message": "a \\ud800 b"}')
    assert (read.session_id, read.last_assistant_message) == ("s", "a ? b")


def test_input_that_is_too_long_or_too_deep_is_refused() -> None:
    for data in (b" " * (hook_answer.MOST_BYTES + 1), b"[" * 100_000, b'{"background_tasks":' + b"[" * 100_000):
        with pytest.raises(RalphError):
            hook_answer.read(data)


def test_an_answer_says_nothing_where_there_is_nothing_to_say() -> None:
    assert Answer().encoded() == ""
    block = Answer(decision="block", reason="go on", system_message="seen")
    assert json.loads(block.encoded()) == {"decision": "block", "reason": "go on", "systemMessage": "seen"}
    assert json.loads(Answer(system_message="end").encoded()) == {"systemMessage": "end"}


@pytest.mark.parametrize(("said", "row"), [(None, 8), ("", 8), ("x", 8), ("-1", 8), ("3", 3), ("0", None)])
def test_the_cap_on_blocks_is_the_configured_one(said: str | None, row: int | None) -> None:
    assert hook_answer.longest_row(said) == row


PLUGIN = "ralph-loop@claude-plugins-official"
OLD = "ralph-wiggum@claude-plugins-official"


def entry(**more: str) -> dict[str, str]:
    return {"scope": "user", "installPath": "/p", **more}


@pytest.mark.parametrize(
    ("plugins", "enabled", "found"),
    [
        ({PLUGIN: [entry()]}, {PLUGIN: True}, "/p"),
        ({OLD: [entry()]}, {OLD: True}, "/p"),
        ({PLUGIN: entry()}, {PLUGIN: True}, "/p"),
        ({PLUGIN: [entry()]}, {PLUGIN: False}, None),
        ({PLUGIN: [entry()]}, {}, None),
        ({}, {PLUGIN: True}, None),
        ({PLUGIN: [entry(scope="project", projectPath="/here")]}, {PLUGIN: True}, "/p"),
        ({PLUGIN: [entry(scope="project", projectPath="/there")]}, {PLUGIN: True}, None),
        ({PLUGIN: [7, None, {"scope": []}]}, {PLUGIN: True}, None),
    ],
)
def test_the_official_plugin_is_there_where_it_is_installed_and_switched_on(
    plugins: object, enabled: object, found: str | None
) -> None:
    installed = msgspec.json.encode({"version": 2, "plugins": plugins})
    settings = msgspec.json.encode({"enabledPlugins": enabled})
    assert official_loop.install_path(installed, (settings,), project="/here") == found
    assert official_loop.install_path(installed, (settings, b'{"enabledPlugins": {}}', b"{"), project="/here") == found
    assert official_loop.install_path(b"[", (b"\xff",), project="/here") is None


def test_where_it_is_missing_the_very_command_is_told() -> None:
    assert "/plugin install ralph-loop@claude-plugins-official" in official_loop.MISSING
    assert "/plugin install ralph-wiggum@claude-plugins-official" in official_loop.MISSING


def test_the_agent_is_the_process_it_says_if_it_is_above_else_the_first_that_is_no_shell() -> None:
    chain = (Ancestor(9, "sh"), Ancestor(8, "-zsh"), Ancestor(7, "claude"), Ancestor(3, "tmux"))
    assert agent_among(chain, "3") == 3
    assert agent_among(chain, "") == agent_among(chain, "12") == 7
    assert agent_among(chain[:2], "") is None


def test_a_process_tells_the_folder_that_it_was_started_in(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"], cwd=tmp_path) as process:
        assert started_in(process.pid) == tmp_path
        process.kill()
    assert started_in(process.pid) is None


def test_a_stop_with_a_closed_standard_input_is_no_error(tmp_path: Path) -> None:
    stop = f'cd {tmp_path} && exec "{sys.executable}" -c "from rulebook_ralph.entry import main; main()" hook stop <&-'
    ran = subprocess.run(["sh", "-c", stop], capture_output=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")


def test_what_came_of_an_iteration_is_always_told() -> None:
    told = Told()
    for reason in ("", "no file differs"):
        told.report(IterationSettled(1, "one", "retry", reason, None, 0, 1, Usage(), None, 0.0, 0, 0, 1))
    assert told.text() == "Ralph: one: retry\nRalph: one: retry (no file differs)"


def test_the_processes_above_this_one_are_told_the_nearest_first() -> None:
    assert ancestors()[0].pid == os.getppid()


def test_the_private_folder_is_found_from_below_and_through_a_link_of_a_work_tree(tmp_path: Path) -> None:
    assert private_folder(str(tmp_path)) is None
    below = tmp_path / "p" / "a" / "b"
    below.mkdir(parents=True)
    (tmp_path / "p" / ".rulebook-ralph").mkdir()
    assert private_folder(str(below)) is None
    (tmp_path / "p" / ".git").write_text("gitdir: ../main/.git/worktrees/p\n")
    assert private_folder(str(below)) == f"{tmp_path}/p/../main/.git/worktrees/p/ralph"
    (tmp_path / "p" / ".git").unlink()
    (tmp_path / "p" / ".git").mkdir()
    assert private_folder(str(below)) == f"{tmp_path}/p/.git/ralph"
