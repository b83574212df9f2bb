"""Ralph inside the genuine Claude Code: its plugin drives one session through a task list; others are left alone."""

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rulebook_ralph.commands.plugin import files_for

from .house import ADD, DOUBLE, House
from .model.acting import with_tools
from .model.api import Api, Json
from .model.server import ScriptedModel
from .model.turns import Cut, Hang, Refuse, Say, Shell, Turn, Use, Write, request_in
from .work import DONE, adds, doubles

HALVE = "halve-numbers"
READY = Say("ready")
_PATIENCE = 60.0


class SessionModel(ScriptedModel):
    """Of a session's many briefs the last one counts; before the first it says that it is ready."""

    def next_turn(self, api: Api, body: Json) -> Say | Use | Refuse | Cut | Hang:
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
            return READY
        turn = self.turns.pop(0) if len(self.turns) > 1 else self.turns[0]
        return with_tools(turn, tools, self._root) if isinstance(turn, Write | Shell) else turn


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
class Desk:
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
def desk(house: House) -> Desk:
    """The plugin as `ralph plugin install` writes it."""
    model = SessionModel(house.root)
    house.model.close()
    house.model = model
    (house.folder / "bin" / "ralph").symlink_to(Path(sys.executable).with_name("ralph"))
    plugin = house.folder / "plugin"
    for name, content in files_for("ralph").items():
        (plugin / name).parent.mkdir(parents=True, exist_ok=True)
        (plugin / name).write_bytes(content)
    return Desk(house, plugin)


def test_it_is_found_where_it_is_installed(desk: Desk) -> None:
    """In the folder of a person that Claude Code was told to trust; for all of theirs without being told."""
    house = desk.house
    trusted = {"projects": {str(house.root): {"hasTrustDialogAccepted": True}}}
    (house.home / ".claude.json").write_text(json.dumps(trusted))
    for scope, name in (("project", house.root), ("user", house.home)):
        house.ralph("plugin", "install", "--scope", scope)
        (said,) = (event for event in desk.claude("/ralph:status", found=True).events if event.get("subtype") == "init")
        (found,) = (plugin for plugin in said["plugins"] if plugin["name"] == "ralph")
        assert found["path"] == str(name / ".claude" / "skills" / "ralph")
        assert "ralph:implement" in said["slash_commands"]
        assert {"ralph:coder", "ralph:qa"} <= set(said["agents"])
        house.ralph("plugin", "uninstall", "--scope", scope)
    assert not (house.root / ".claude" / "skills").exists() or not any((house.root / ".claude" / "skills").iterdir())


def waiting(desk: Desk) -> Shell:
    """Goes on when the test lets it."""
    here = desk.house.folder
    return Shell(f"touch {here}/begun; while [ ! -e {here}/go ]; do sleep 0.05; done")


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_session_works_through_three_tasks_with_one_refused_claim(desk: Desk) -> None:
    house = desk.house
    house.ralph("task", "add", HALVE, "Halve a number", "--outcome", "`halve(8)` gives 4")
    halves: list[Turn] = [
        Write("halve.py", "def halve(number):\n    return number // 2\n"),
        Write("tests/test_halve.py", "import halve\n\n\ndef test_it():\n    assert halve.halve(8) == 4\n"),
    ]
    below = f"{ADD} of the subagent"  # a script of its own: it works beside the coordinator
    brief = f"# Your task: {below}\nattempt 1 of 15 at this task"
    handed = Use("Task", {"description": "add", "subagent_type": "ralph:coder", "prompt": brief})
    house.model.script = {
        ADD: [[DONE], [handed, DONE]],
        below: [[*adds(), Say("Both files are there.")]],
        DOUBLE: [[*doubles(), DONE]],
        HALVE: [[*halves, DONE]],
    }
    said = desk.claude("/ralph:implement")
    assert "ALL_TASKS_COMPLETE" in said.told, (said.told, said.stderr)
    assert [house.task(task)["status"] for task in (ADD, DOUBLE, HALVE)] == ["completed"] * 3
    assert house.task(ADD)["attempts"] == {"coder": 2}
    assert house.iteration(1)["verdict"]["hook"] == "work"
    assert "You said it was done, but no file differs" in house.model.prompts(ADD)[-1] + house.model.prompts(ADD)[1]
    trailers = [house.trailer("Ralph-Task", house.iteration(number)["commit"]) for number in (2, 3, 4)]
    assert sorted(trailers) == sorted([ADD, DOUBLE, HALVE])
    assert house.iteration(3)["usage"]["inputTokens"] > 0
    assert (desk.private / "lock").read_bytes() == b""
    assert not (desk.private / "session.json").exists()


def test_parallel_tasks_go_to_subagents_in_one_message_and_land_in_one_commit(desk: Desk) -> None:
    house, names = desk.house, ("one", "two", "three")
    for name in names:
        house.ralph("task", "add", name, f"Write {name}.py", "--coder-verify-cmd", f"test -e {name}.py")
    path = house.root / ".rulebook-ralph" / "prd.json"
    prd = json.loads(path.read_text())
    prd["tasks"] = [{**task, "markers": ["P"]} for task in prd["tasks"] if task["id"] in names]
    path.write_text(json.dumps(prd))

    def meeting(name: str) -> Shell:
        """Ends when all three have come to it."""
        here = house.folder / "meeting"
        came = " && ".join(f"-e {here}/{other}" for other in names).replace("&& -e", "-a -e")
        return Shell(f"mkdir -p {here}; touch {here}/{name}; while ! [ {came} ]; do sleep 0.05; done")

    def handed(name: str) -> Use:
        brief = f"# Your task: {name}\nattempt 1 of 15 at this task"
        return Use("Task", {"description": name, "subagent_type": "ralph:coder", "prompt": brief})

    first, *others = map(handed, names)
    at_once = Use(first.tool, first.input, tuple(others))
    house.model.script = {
        ", ".join(names): [[at_once, DONE]],
        **{name: [[meeting(name), Write(f"{name}.py", f"NAME = '{name}'\n"), Say("It is there.")]] for name in names},
    }
    said = desk.claude("/ralph:implement")
    assert "ALL_TASKS_COMPLETE" in said.told, (said.told, said.stderr)
    assert "all of them in ONE message with 3 Task calls" in house.model.prompts(", ".join(names))[0]
    assert house.iterations() == 1
    record = house.iteration(1)
    assert record["tasksAttempted"] == record["tasksCompleted"] == list(names)
    assert house.trailer("Ralph-Task", record["commit"]).split() == list(names)
    assert sorted(record["filesChanged"]) == sorted(f"{name}.py" for name in names)
    assert [house.task(name)["status"] for name in names] == ["completed"] * 3


def test_a_limit_lets_the_session_end(desk: Desk) -> None:
    house = desk.house
    house.configure(limits={"maxIterations": 2})
    house.model.script = {ADD: [[Say("not yet")]]}
    said = desk.claude("/ralph:implement")
    assert "max-iterations" in said.told
    assert (house.iterations(), house.task(ADD)["status"]) == (2, "in_iteration")


def test_it_ends_before_claude_code_would_end_a_row_of_blocks(desk: Desk) -> None:
    house, cap = desk.house, 3
    (house.home / ".claude").mkdir()
    (house.home / ".claude" / "settings.json").write_text(
        json.dumps({"env": {"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": str(cap)}})
    )
    house.model.script = {ADD: [[Say("hm")]]}
    said = desk.claude("/ralph:implement")
    assert "used no tool" in said.told
    assert [house.iteration(number)["phase"] for number in range(1, house.iterations() + 1)] == ["settled"] * cap
    assert (desk.private / "lock").read_bytes() == b""


def test_a_cancel_from_another_terminal_is_obeyed_at_the_stop(desk: Desk) -> None:
    house = desk.house
    house.model.script = {ADD: [[Write("add.py", "half = 1\n"), waiting(desk), DONE]]}
    session = desk.start("/ralph:implement")
    until((house.folder / "begun").exists)
    assert "at its next stop" in house.ralph("cancel").stdout
    (house.folder / "go").touch()
    said = desk.end(session)
    assert "cancelled" in said.told
    assert house.iteration(1)["completionStatus"] == "cancelled"
    assert (house.task(ADD)["status"], house.task(ADD).get("attempts", {})) == ("pending", {})
    assert not (house.root / "add.py").exists()
    assert house.git("show", f"{house.iteration(1)['snapshot']}:add.py") == "half = 1\n"


def test_a_killed_session_is_cancelled_when_it_is_back(desk: Desk) -> None:
    house, session_id = desk.house, str(uuid.uuid4())
    house.model.script = {ADD: [[Write("add.py", "half = 1\n"), waiting(desk), DONE]]}
    session = desk.start("/ralph:implement", "--session-id", session_id)
    until((house.folder / "begun").exists)
    session.kill()
    session.communicate()
    (house.folder / "go").touch()
    desk.claude("/ralph:cancel", "--resume", session_id)
    assert house.iteration(1)["completionStatus"] == "cancelled"
    assert (house.root / ".rulebook-ralph" / "progress.txt").exists()
    assert (desk.private / "lock").read_bytes() == b""


def test_another_session_in_the_folder_is_left_alone_and_may_not_begin(desk: Desk) -> None:
    house = desk.house
    house.model.script = {ADD: [[*adds(), waiting(desk), DONE]]}
    session = desk.start("/ralph:next")
    until((house.folder / "begun").exists)
    other = desk.claude("hello")
    assert (other.result, "Ralph" in other.told) == ("ready", False)
    assert "is working on this project" in desk.claude("/ralph:implement").result
    assert house.iterations() == 1
    (house.folder / "go").touch()
    said = desk.end(session)
    assert "as many tasks are done as were asked for" in said.told
    assert (house.task(ADD)["status"], house.task(DOUBLE)["status"]) == ("completed", "pending")


def test_a_session_that_was_started_above_the_project_may_not_begin(desk: Desk) -> None:
    """Its shell has gone into the project, and with it the slash command; the hooks have not."""
    house = desk.house
    model = TurnsInOrder(house.root)
    house.model.close()
    house.model = model
    model.turns = [Shell(f"cd {house.root}"), READY]
    messages = house.folder / "messages"
    said = [{"type": "user", "message": {"role": "user", "content": text}} for text in ("go there", "/ralph:implement")]
    messages.write_text("".join(json.dumps(each) + "\n" for each in said))
    flags = "--input-format stream-json --output-format stream-json --verbose --dangerously-skip-permissions"
    command = f"cd .. && exec {house.program} -p {flags} --plugin-dir {desk.plugin} --add-dir {house.root} < {messages}"
    told = desk.end(house.start_program("/bin/sh", "-c", command, IS_SANDBOX="1"))
    assert f"Claude Code was started in {house.folder}, outside of this project" in told.result
    assert not (desk.private / "lock").exists() or (desk.private / "lock").read_bytes() == b""


def test_the_official_plugin_drives_and_ralph_judges_when_asked(desk: Desk) -> None:
    house = desk.house
    for name, content in files_for("ralph-loop").items():
        (desk.plugin / name).write_bytes(content)
    assert "/plugin install ralph-loop@claude-plugins-official" in desk.claude("/ralph:implement").result
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
    said = desk.claude("/ralph:implement", "--plugin-dir", str(official))
    assert [house.task(task)["status"] for task in (ADD, DOUBLE)] == ["completed", "completed"], said.events[-1]
    assert house.iteration(1)["verdict"]["hook"] == "work"
    stops = (desk.private / "session.log").read_text().splitlines()
    assert [line.partition("said=")[2] for line in stops] == ["'not yet'", "'one'"]  # at the last the loop was over
    assert not (house.root / ".claude" / "ralph-loop.local.md").exists()
    assert (desk.private / "lock").read_bytes() == b""


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
