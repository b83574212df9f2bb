"""Codex (`codex exec`), driven through its stream of JSON events."""

import re
import shlex
from contextlib import suppress
from dataclasses import replace as changed
from datetime import datetime
from pathlib import PurePath
from typing import Any

from rulebook_ralph.agents.agent import Invocation
from rulebook_ralph.agents.api_errors import api_error
from rulebook_ralph.agents.cli import CliAgent
from rulebook_ralph.agents.events import MAX_DENIALS, EventReader, Transcript, first_line, items, table, text, usage_of
from rulebook_ralph.process.supervisor import Ended
from rulebook_ralph.report.events import AgentActivity

_PERMISSIONS: dict[str, tuple[str, ...]] = {
    "full": ("--dangerously-bypass-approvals-and-sandbox",),
    "edit": ("--sandbox", "workspace-write"),
    "ask": ("--sandbox", "read-only"),
}
"""`codex exec` asks nobody. `edit` also runs commands, in a sandbox that can write to the workspace and has no network;
`ask` runs them in one that can write nothing. What a sandbox refuses ends no run: codex says that it is done."""

_SANDBOXES = ("--sandbox", "-s", "--dangerously-bypass-approvals-and-sandbox", "--yolo", "--approve-for-me")
_LOG_IN = "set a valid key for codex's provider, or run: codex login"
_USAGE = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_input_tokens")
_RETRY = re.compile(r"Reconnecting\.\.\. (?:(?P<attempt>\d+)/(?P<most>\d+) )?(?P<why>.*)", re.DOTALL)
_REJECTED = re.compile(r"ERROR codex_core::\S+: error=((?:patch|exec|command)\b.*reject.*)")
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish"})
_SCRIPT_ARGUMENTS = 3
_LONGEST_SCRIPT = 4000

_TOOLS = {
    "command_execution": "shell",
    "file_change": "apply_patch",
    "mcp_tool_call": "mcp",
    "collab_tool_call": "collab",
    "web_search": "web_search",
}


class CodexReader(EventReader):
    """Keeps the last results of tools, the last message, and how the last turn ended. Usage is of all turns so far."""

    def event(self, kind: str, event: dict[str, Any]) -> None:
        if kind == "thread.started":
            self.named(event.get("thread_id"))
        elif kind == "turn.started":
            self.succeeded, self.fault, self.final_text = None, None, ""
        elif kind == "turn.completed":
            self.succeeded, self.fault = True, None
            self.usage = usage_of(event.get("usage"), _USAGE, inclusive=True)
        elif kind == "turn.failed":
            self._failed(text(table(event.get("error")).get("message")))
        elif kind == "error":
            self._error(text(event.get("message")))
        elif kind.startswith("item."):
            self._item(table(event.get("item")), ended=kind == "item.completed")

    def _failed(self, message: str) -> None:
        self.succeeded = False
        self.fault = api_error(message or "codex did not say why its turn failed", self.now()).fault(log_in=_LOG_IN)

    def _error(self, message: str) -> None:
        retry = _RETRY.match(message)
        if not retry:
            self._failed(message)
            return
        why = retry["why"].strip()
        inner = why[1:-1] if why.startswith("(") and why.endswith(")") else why
        self.fault = api_error(inner, self.now()).fault(log_in=_LOG_IN, prefix="codex was still retrying: ")
        told = f"retry {retry['attempt']} of {retry['most']}" if retry["attempt"] else "retry"
        self.report(AgentActivity("retry", told, first_line(inner)))

    def _item(self, item: dict[str, Any], *, ended: bool) -> None:
        kind = text(item.get("type"))
        if self.succeeded is None and kind != "error":  # that is a warning
            self.fault = None  # what it tried again for has gone well
        if kind == "agent_message" and ended:
            self.final_text = text(item.get("text"))
            self.said(self.final_text)
        elif kind in _TOOLS:
            self._tool(item, _TOOLS[kind], ended=ended)

    def _tool(self, item: dict[str, Any], name: str, *, ended: bool) -> None:
        call = text(item.get("id"))
        if not self.tools.is_open(call):
            server, tool = text(item.get("server")), text(item.get("tool"))
            self.tools.started(call, f"{server}.{tool}" if server and tool else tool or name, _detail(item))
        if ended:
            denied = item.get("status") == "declined"
            self.tools.ended(call, success=_success(item), output=_output(item), denied=denied)


class Codex(CliAgent):
    """It refuses to be given an option twice, so what `settings.args` say of the sandbox or the model is left out
    before.
    """

    program = "codex"
    install = "npm install -g @openai/codex"
    version_prefix = "codex-cli "
    reader = CodexReader

    def argv(self, _: Invocation) -> tuple[str, ...]:
        args = self.settings.args
        configured = any(arg.removeprefix("--config=").startswith("sandbox_mode") for arg in args)
        permissions = () if configured else _PERMISSIONS.get(self.settings.permissions, ())
        return (
            *(*self.words, "exec"),
            *self.unless_given(("--json",), "--json"),
            *self.unless_given(("--skip-git-repo-check",), "--skip-git-repo-check"),
            *self.unless_given(permissions, *_SANDBOXES),
            *self.model(),
            *args,
        )

    def supplemented(self, transcript: Transcript, ended: Ended, _: datetime) -> Transcript:
        """What its sandbox refuses codex tells on stderr alone."""
        refused = [first_line(found[1]) for found in _REJECTED.finditer(ended.stderr_tail)]
        denials = dict.fromkeys((*transcript.permission_denials, *refused[:MAX_DENIALS]))
        return changed(transcript, permission_denials=tuple(denials))


def _detail(item: dict[str, Any]) -> object:
    if item.get("type") == "command_execution":
        return _script(text(item.get("command")))
    paths = [text(table(change).get("path")) for change in items(item.get("changes"))[:20]]
    if any(paths):
        return ", ".join(filter(None, paths))
    return item.get("arguments") or text(item.get("query")) or text(item.get("prompt"))


def _script(command: str) -> str:
    """What the shell that codex starts is told to do."""
    words: list[str] = []
    with suppress(ValueError):
        words = shlex.split(command[:_LONGEST_SCRIPT])
    told = len(words) == _SCRIPT_ARGUMENTS and PurePath(words[0]).name in _SHELLS and words[1] in ("-c", "-lc")
    return words[2] if told else command


def _success(item: dict[str, Any]) -> bool | None:
    code = item.get("exit_code")
    if isinstance(code, int):
        return code == 0
    return bool(item["status"] == "completed") if "status" in item else None


def _output(item: dict[str, Any]) -> str:
    if item.get("type") == "command_execution":
        return text(item.get("aggregated_output"))
    said = [text(table(block).get("text")) for block in items(table(item.get("result")).get("content"))]
    return "\n".join(filter(None, [*said, text(table(item.get("error")).get("message"))]))
