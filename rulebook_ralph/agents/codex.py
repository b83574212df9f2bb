"""Codex (`codex exec`), driven through its stream of JSON events."""

import re
from typing import Any

from rulebook_ralph.agents.cli import CliAgent
from rulebook_ralph.agents.events import MAX_DENIALS, first_line, items, plain_text, table, text, usage_of
from rulebook_ralph.agents.reader import EventReader
from rulebook_ralph.process.supervisor import Ended
from rulebook_ralph.report.events import AgentActivity

_USAGE = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_input_tokens")
_RETRY = re.compile(r"Reconnecting\.\.\. (?:(?P<attempt>\d+)/(?P<most>\d+) )?(?P<why>.*)", re.DOTALL)
_REJECTED = re.compile(r"ERROR codex_core::\S+: error=((?:patch|exec|command)\b.*reject.*)")
_SHELL = re.compile(r"\S*\b(?:ba|z|da|k|fi)?sh -l?c (['\"]?)(?P<script>.*)\1", re.DOTALL)
"""How codex starts a command: what stands in quotes with quotes inside is shown as it is."""

_TOOLS = {
    "command_execution": "shell",
    "file_change": "apply_patch",
    "mcp_tool_call": "mcp",
    "collab_tool_call": "collab",
    "web_search": "web_search",
}


class CodexReader(EventReader):
    """Keeps the last results of tools, the last message, and how the last turn ended. Usage is of all turns so far."""

    log_in = "log in with: codex login, or set a valid key for codex's provider (CODEX_API_KEY)"

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

    def exited(self, ended: Ended) -> None:
        """What its sandbox refuses codex tells on stderr alone."""
        refused = [first_line(found[1]) for found in _REJECTED.finditer(ended.stderr_tail)]
        self.permission_denials = tuple(dict.fromkeys((*self.permission_denials, *refused[:MAX_DENIALS])))

    def _failed(self, message: str) -> None:
        self.succeeded, self.fault = False, self.error(message or "codex did not say why its turn failed")

    def _error(self, message: str) -> None:
        retry = _RETRY.match(message)
        if not retry:
            self._failed(message)
            return
        why = retry["why"].strip()
        why = why[1:-1] if why.startswith("(") and why.endswith(")") else why
        self.fault = self.error(why, prefix="codex was still retrying: ")
        told = f"retry {retry['attempt']} of {retry['most']}" if retry["attempt"] else "retry"
        self.report(AgentActivity("retry", told, first_line(why)))

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
        if call not in self.open_calls:
            server, tool = text(item.get("server")), text(item.get("tool"))
            self.tool_started(call, f"{server}.{tool}" if server and tool else tool or name, _detail(item))
        if ended:
            code, status = item.get("exit_code"), item.get("status")
            success = code == 0 if isinstance(code, int) else status == "completed" if status else None
            self.tool_ended(call, success=success, output=_output(item), denied=status == "declined")


class Codex(CliAgent):
    """`codex exec` asks nobody. `edit` also runs commands, in a sandbox that can write to the workspace and has no
    network; `ask` runs them in one that can write nothing. What a sandbox refuses ends no run: codex says that it is
    done.
    """

    program = "codex"
    install = "npm install -g @openai/codex"
    reader = CodexReader
    options = ("exec", "--json", "--skip-git-repo-check")
    modes = {
        "full": ("--dangerously-bypass-approvals-and-sandbox",),
        "edit": ("--sandbox", "workspace-write"),
        "ask": ("--sandbox", "read-only"),
    }
    instead_of_mode = (
        *("--sandbox", "-s", "--dangerously-bypass-approvals-and-sandbox", "--yolo", "--approve-for-me"),
        *("sandbox_mode", "--config=sandbox_mode"),
    )


def _detail(item: dict[str, Any]) -> object:
    if item.get("type") == "command_execution":
        command = text(item.get("command"))
        shell = _SHELL.fullmatch(command)
        return shell["script"] if shell else command
    paths = [text(table(change).get("path")) for change in items(item.get("changes"))[:20]]
    return ", ".join(filter(None, paths)) or item.get("arguments") or item.get("query") or item.get("prompt")


def _output(item: dict[str, Any]) -> str:
    said = (plain_text(table(item.get("result")).get("content")), text(table(item.get("error")).get("message")))
    return text(item.get("aggregated_output")) or "\n".join(filter(None, said))
