"""Ralph inside the genuine Claude Code: its plugin drives one session through a task list; others are left alone."""

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rulebook_ralph.cli.plugin import files_for

from .house import ADD, DOUBLE, House
from .model.acting import with_tools
from .model.api import Api, Json
from .model.server import ScriptedModel
from .model.turns import Cut, Hang, Refuse, Say, Shell, Turn, Use, Write, request_in
from .work import DONE, adds, doubles

HALVE = "halve-numbers"
READY = Say("ready")
_PATIENCE = 180.0


class SessionModel(ScriptedModel):
    """Of a session's many prompts the last one counts; before the first it says that it is ready. As the judging model
    it says no to what changed nothing.
    """

    def next_turn(self, api: Api, body: Json) -> Say | Use | Refuse | Cut | Hang:
        if (answer := ruling(api.texts(body))) is not None:
            return answer
        request, tools = request_in(reversed(list(api.texts(body)))), api.tools(body)
        if request is None or not tools:
            return READY
        with self._lock:
            self.requests.append(request)
            turn = self._play(request)
        return with_tools(turn, tools, self._root) if isinstance(turn, Write | Shell) else turn


class TurnsInOrder(ScriptedModel):
    """Plays `turns` to whoever may use tools, whatever is asked; the last one repeats."""

    turns: list[Turn]

    def next_turn(self, api: Api, body: Json) -> Say | Use | Refuse | Cut | Hang:
        tools = api.tools(body)
        if not tools:
            return ruling(api.texts(body)) or READY
        turn = self.turns.pop(0) if len(self.turns) > 1 else self.turns[0]
        return with_tools(turn, tools, self._root) if isinstance(turn, Write | Shell) else turn


def ruling(texts: Iterable[str]) -> Say | None:
    """As the judging model: yes, where something was changed at all; None where nothing was asked."""
    for text in texts:
        with suppress(ValueError):
            data = json.loads(text)
            if not isinstance(data, dict) or "items" not in data:
                continue
            place = {"reason": "so it is", "file": data["files"][0]["file"] if data["files"] else "", "line": 0}
            items = [
                {"item": each["item"], "answer": "no" if "no file was changed" in str(each) else "yes", **place}
                for each in data["items"]
            ]
            return Say(json.dumps({"items": items}))
    return None


OFFICIAL_HOOK = """
import json, pathlib, sys
state = pathlib.Path(".claude/ralph-loop.local.md")
said = json.load(sys.stdin)["last_assistant_message"]
if state.exists() and "<promise>ALL_TASKS_COMPLETE</promise>" not in said:
    print(json.dumps({"decision": "block", "reason": state.read_text()}))
else:
    state.unlink(missing_ok=True)
"""
"""What the official plugin's hook does, in short."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a `claude -p` printed: its events."""

    events: list[dict[str, Any]]
    stderr: str

    @property
    def result(self) -> str:
        return str(next(event for event in reversed(self.events) if event.get("type") == "result").get("result", ""))

    @property
    def told(self) -> str:
        """What the hooks told the person."""
        return "\n".join(str(event.get("content", "")) for event in self.events if event.get("type") == "system")


@dataclass(slots=True)
class Inside:
    """The repository, with a claude that has the plugin."""

    house: House
    plugin: Path

    def start(self, prompt: str, *options: str, found: bool = False) -> subprocess.Popen[str]:
        """With the plugin's folder given, unless it is to be `found`."""
        flags = ["--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions"]
        where = [] if found else ["--plugin-dir", str(self.plugin)]
        command = (str(self.house.program), "-p", prompt, *where, *flags, *options)
        return self.house.start_program(*command, IS_SANDBOX="1")

    def claude(self, prompt: str, *options: str, found: bool = False) -> Said:
        return self.end(self.start(prompt, *options, found=found))

    def end(self, process: subprocess.Popen[str]) -> Said:
        try:
            stdout, stderr = process.communicate(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return Said([json.loads(line) for line in stdout.splitlines() if line.startswith("{")], stderr)

    @property
    def private(self) -> Path:
        return self.house.root / ".git" / "ralph"


@pytest.fixture
def inside(house: House) -> Inside:
    """The plugin as `ralph plugin install` writes it."""
    model = SessionModel(house.root)
    house.model.close()
    house.model = model
    (house.folder / "bin" / "ralph").symlink_to(Path(sys.executable).with_name("ralph"))
    plugin = house.folder / "plugin"
    for name, content in files_for("ralph").items():
        (plugin / name).parent.mkdir(parents=True, exist_ok=True)
        (plugin / name).write_bytes(content)
    return Inside(house, plugin)


def test_it_is_found_where_it_is_installed(inside: Inside) -> None:
    """In the folder of a person that Claude Code was told to trust; for all of theirs without being told."""
    house = inside.house
    trusted = {"projects": {str(house.root): {"hasTrustDialogAccepted": True}}}
    (house.home / ".claude.json").write_text(json.dumps(trusted))
    for scope, name in (("project", house.root), ("user", house.home)):
        house.ralph("plugin", "install", "--scope", scope)
        (said,) = (
            event for event in inside.claude("/ralph:status", found=True).events if event.get("subtype") == "init"
        )
        (found,) = (plugin for plugin in said["plugins"] if plugin["name"] == "ralph")
        assert found["path"] == str(name / ".claude" / "skills" / "ralph")
        assert "ralph:implement" in said["slash_commands"]
        assert {"ralph:coder", "ralph:qa"} <= set(said["agents"])
        house.ralph("plugin", "uninstall", "--scope", scope)
    assert not (house.root / ".claude" / "skills").exists() or not any((house.root / ".claude" / "skills").iterdir())


def waiting(inside: Inside) -> Shell:
    """Goes on when the test lets it."""
    here = inside.house.folder
    return Shell(f"touch {here}/begun; while [ ! -e {here}/go ]; do sleep 0.05; done")


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_session_works_through_three_tasks_with_one_refused_claim(inside: Inside) -> None:
    house = inside.house
    house.ralph("task", "add", HALVE, "Halve a number", "--outcome", "`halve(8)` gives 4")
    halves: list[Turn] = [
        Write("halve.py", "def halve(number):\n    return number // 2\n"),
        Write("tests/test_halve.py", "import halve\n\n\ndef test_it():\n    assert halve.halve(8) == 4\n"),
    ]
    below = f"{ADD} of the subagent"  # a script of its own
    prompt = f"# Your task: {below}\nattempt 1 of 15 at this task"
    handed = Use("Task", {"description": "add", "subagent_type": "ralph:coder", "prompt": prompt})
    house.model.script = {
        ADD: [[DONE], [handed, DONE]],
        below: [[*adds(), Say("Both files are there.")]],
        DOUBLE: [[*doubles(), DONE]],
        HALVE: [[*halves, DONE]],
    }
    said = inside.claude("/ralph:implement")
    assert "ALL_TASKS_COMPLETE" in said.told, (said.told, said.stderr)
    assert [house.task(task)["status"] for task in (ADD, DOUBLE, HALVE)] == ["completed"] * 3
    assert house.task(ADD)["attempts"] == {"coder": 2}
    assert (house.iteration(1)["completionStatus"], house.iteration(1).get("filesChanged", [])) == ("failed", [])
    assert "the judging model says no" in said.told
    trailers = [house.trailer("Ralph-Task", house.iteration(number)["commit"]) for number in (2, 3, 4)]
    assert sorted(trailers) == sorted([ADD, DOUBLE, HALVE])
    assert house.iteration(3)["usage"]["inputTokens"] > 0
    assert (inside.private / "lock").read_bytes() == b""
    assert not (inside.private / "session.json").exists()


def test_a_limit_lets_the_session_end(inside: Inside) -> None:
    house = inside.house
    house.configure(limits={"maxIterations": 2})
    house.model.script = {ADD: [[Say("not yet")]]}
    said = inside.claude("/ralph:implement")
    assert "max-iterations" in said.told
    assert (house.iterations(), house.task(ADD)["status"]) == (2, "in_iteration")


def test_it_ends_before_claude_code_would_end_a_row_of_blocks(inside: Inside) -> None:
    house, cap = inside.house, 2
    (house.home / ".claude").mkdir()
    (house.home / ".claude" / "settings.json").write_text(
        json.dumps({"env": {"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": str(cap)}})
    )
    house.model.script = {ADD: [[Say("hm")]]}
    said = inside.claude("/ralph:implement")
    assert "used no tool" in said.told
    assert [house.iteration(number)["phase"] for number in range(1, house.iterations() + 1)] == ["settled"] * cap
    assert (inside.private / "lock").read_bytes() == b""


def test_a_cancel_from_another_terminal_is_obeyed_at_the_stop(inside: Inside) -> None:
    house = inside.house
    house.model.script = {ADD: [[Write("add.py", "half = 1\n"), waiting(inside), DONE]]}
    session = inside.start("/ralph:implement")
    until((house.folder / "begun").exists)
    assert "at its next stop" in house.ralph("cancel").stdout
    (house.folder / "go").touch()
    said = inside.end(session)
    assert "cancelled" in said.told
    assert house.iteration(1)["completionStatus"] == "cancelled"
    assert (house.task(ADD)["status"], house.task(ADD).get("attempts", {})) == ("pending", {})
    assert not (house.root / "add.py").exists()
    assert house.git("show", f"{house.iteration(1)['snapshot']}:add.py") == "half = 1\n"


def test_a_killed_session_is_cancelled_when_it_is_back(inside: Inside) -> None:
    house, session_id = inside.house, str(uuid.uuid4())
    house.model.script = {ADD: [[Write("add.py", "half = 1\n"), waiting(inside), DONE]]}
    session = inside.start("/ralph:implement", "--session-id", session_id)
    until((house.folder / "begun").exists)
    session.kill()
    session.communicate()
    (house.folder / "go").touch()
    inside.claude("/ralph:cancel", "--resume", session_id)
    assert house.iteration(1)["completionStatus"] == "cancelled"
    assert (house.root / ".rulebook-ralph" / "progress.txt").exists()
    assert (inside.private / "lock").read_bytes() == b""


def test_another_session_in_the_folder_is_left_alone_and_may_not_begin(inside: Inside) -> None:
    house = inside.house
    house.model.script = {ADD: [[*adds(), waiting(inside), DONE]]}
    session = inside.start("/ralph:next")
    until((house.folder / "begun").exists)
    other = inside.claude("hello")
    assert (other.result, "Ralph" in other.told) == ("ready", False)
    assert "is working on this project" in inside.claude("/ralph:implement").result
    assert house.iterations() == 1
    (house.folder / "go").touch()
    said = inside.end(session)
    assert "as many tasks are done as were asked for" in said.told
    assert (house.task(ADD)["status"], house.task(DOUBLE)["status"]) == ("completed", "pending")


def test_a_session_that_was_started_above_the_project_may_not_begin(inside: Inside) -> None:
    """Its shell has gone into the project, and with it the slash command; the hooks have not."""
    house = inside.house
    model = TurnsInOrder(house.root)
    house.model.close()
    house.model = model
    model.turns = [Shell(f"cd {house.root}"), READY]
    messages = house.folder / "messages"
    said = [{"type": "user", "message": {"role": "user", "content": text}} for text in ("go there", "/ralph:implement")]
    messages.write_text("".join(json.dumps(each) + "\n" for each in said))
    flags = "--input-format stream-json --output-format stream-json --verbose --dangerously-skip-permissions"
    command = (
        f"cd .. && exec {house.program} -p {flags} --plugin-dir {inside.plugin} --add-dir {house.root} < {messages}"
    )
    told = inside.end(house.start_program("/bin/sh", "-c", command, IS_SANDBOX="1"))
    assert f"Claude Code was started in {house.folder}, outside of this project" in told.result
    assert not (inside.private / "lock").exists() or (inside.private / "lock").read_bytes() == b""


def test_the_official_plugin_drives_and_ralph_judges_when_asked(inside: Inside) -> None:
    house = inside.house
    for name, content in files_for("ralph-loop").items():
        (inside.plugin / name).write_bytes(content)
    assert "/plugin install ralph-loop@claude-plugins-official" in inside.claude("/ralph:implement").result
    assert not (house.root / ".claude").exists()

    official = install_stand_in(house)
    model = TurnsInOrder(house.root)
    house.model.close()
    house.model = model
    done = Shell("ralph hook turn --done <<'END'\nIt is done.\n\n<promise>IMPLEMENTATION_COMPLETE</promise>\nEND")
    complete = Say("<promise>ALL_TASKS_COMPLETE</promise>")
    model.turns = [
        Shell("ralph hook turn"),
        done,
        Say("not yet"),
        *adds(),
        done,
        Say("one"),
        *doubles(),
        done,
        complete,
    ]
    said = inside.claude("/ralph:implement", "--plugin-dir", str(official))
    assert [house.task(task)["status"] for task in (ADD, DOUBLE)] == ["completed", "completed"], said.events[-1]
    assert (house.iteration(1)["completionStatus"], house.iteration(1).get("filesChanged", [])) == ("failed", [])
    stops = (inside.private / "session.log").read_text().splitlines()
    assert [line.partition("said=")[2] for line in stops] == ["'not yet'", "'one'"]  # at the last the loop was over
    assert not (house.root / ".claude" / "ralph-loop.local.md").exists()
    assert (inside.private / "lock").read_bytes() == b""


def install_stand_in(house: House) -> Path:
    """Something installed under the official plugin's name that does what it does."""
    official = house.folder / "official"
    files = {
        ".claude-plugin/plugin.json": json.dumps({"name": "ralph-loop"}),
        "hooks/hooks.json": json.dumps(
            {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": f"python3 {official}/hooks/stop.py"}]}]}}
        ),
        "hooks/stop.py": OFFICIAL_HOOK,
        "scripts/setup-ralph-loop.sh": 'mkdir -p .claude && printf "%s" "$1" > .claude/ralph-loop.local.md\n',
    }
    for name, content in files.items():
        (official / name).parent.mkdir(parents=True, exist_ok=True)
        (official / name).write_text(content)
    settings, name = house.home / ".claude", "ralph-loop@claude-plugins-official"
    (settings / "plugins").mkdir(parents=True, exist_ok=True)
    installed = {"version": 2, "plugins": {name: [{"scope": "user", "installPath": str(official)}]}}
    (settings / "plugins" / "installed_plugins.json").write_text(json.dumps(installed))
    (settings / "settings.json").write_text(json.dumps({"enabledPlugins": {name: True}}))
    return official
