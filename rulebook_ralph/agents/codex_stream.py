"""codex's `--json` events (agents.md), read line by line into a transcript."""

import re
import shlex
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import PurePath
from typing import Any

from rulebook_ralph.agents.api_errors import api_error
from rulebook_ralph.agents.local_time import Now
from rulebook_ralph.agents.stream import count, decode_event, first_line, items, table, text
from rulebook_ralph.agents.supervised import Report
from rulebook_ralph.agents.tool_log import ToolLog
from rulebook_ralph.agents.transcript import Transcript
from rulebook_ralph.core.events import AgentActivity
from rulebook_ralph.core.evidence import AgentFault, Usage
from rulebook_ralph.core.streams import LineSplitter
from rulebook_ralph.supervisor import Ended

_LOG_IN = "set a valid key for codex's provider, or run: codex login"
_MAX_ID = 100
_RETRY = re.compile(r"Reconnecting\.\.\. (?:(?P<attempt>\d+)/(?P<most>\d+) )?(?P<why>.*)", re.DOTALL)
_REJECTED = re.compile(r"ERROR codex_core::\S+: error=((?:patch|exec|command)\b.*reject.*)")
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish"})
_SCRIPT_ARGUMENTS = 3
_QUOTED = re.compile(rf"(?:[\w./-]*/)?(?:{'|'.join(sorted(_SHELLS))}) -l?c '([^']*)'", re.DOTALL)
"""As codex writes most of its commands; to take a shell's words apart in general is slow."""


class CodexReader:
    """Keeps the last results of tools, the last message, and how the last turn ended."""

    def __init__(self, report: Report, now: Now) -> None:
        self._report = report
        self._now = now
        self._lines = LineSplitter(self._line)
        self._tools = ToolLog(report)
        self._open: set[str] = set()
        self._succeeded: bool | None = None
        self._final_text = ""
        self._usage = Usage()
        self._session_id = ""
        self._fault: Callable[[], AgentFault] | None = None  # made of its words only when it is known to be the last

    def feed(self, block: bytes) -> None:
        self._lines.feed(block)

    def close(self) -> Transcript:
        self._lines.close()
        return Transcript(
            succeeded=self._succeeded,
            final_text=self._final_text,
            tool_results=self._tools.results(),
            usage=self._usage,
            session_id=self._session_id,
            fault=self._fault() if self._fault else None,
            permission_denials=self._tools.denials(),
        )

    def _line(self, line: bytes) -> None:
        event = decode_event(line)
        if event is None:
            return
        kind = text(event.get("type"))
        if kind == "thread.started":
            self._session_id = text(event.get("thread_id"))[:_MAX_ID]
        elif kind == "turn.started":
            self._succeeded, self._fault, self._final_text = None, None, ""
        elif kind == "turn.completed":
            self._succeeded, self._fault = True, None
            self._usage = _usage(table(event.get("usage")))
        elif kind == "turn.failed":
            self._failed(text(table(event.get("error")).get("message")))
        elif kind == "error":
            self._error(text(event.get("message")))
        elif kind.startswith("item."):
            self._item(table(event.get("item")), ended=kind == "item.completed")

    def _failed(self, message: str) -> None:
        self._succeeded = False
        self._fault = partial(_fault, message or "codex did not say why its turn failed", self._now())

    def _error(self, message: str) -> None:
        retry = _RETRY.match(message)
        if not retry:
            self._failed(message)
            return
        why = retry["why"].strip()
        inner = why[1:-1] if why.startswith("(") and why.endswith(")") else why
        self._fault = partial(_fault, inner, self._now(), prefix="codex was still retrying: ")
        told = f"retry {retry['attempt']} of {retry['most']}" if retry["attempt"] else "retry"
        self._report(AgentActivity("retry", told, first_line(inner)))

    def _item(self, item: dict[str, Any], *, ended: bool) -> None:
        kind = text(item.get("type"))
        if self._succeeded is None and kind != "error":  # that is a warning
            self._fault = None  # what it tried again for has gone well
        if kind == "agent_message" and ended:
            self._final_text = text(item.get("text"))
            if said := first_line(self._final_text):
                self._report(AgentActivity("text", said))
        elif kind in _TOOLS:
            self._tool(item, _TOOLS[kind], ended=ended)

    def _tool(self, item: dict[str, Any], name: str, *, ended: bool) -> None:
        call = text(item.get("id"))[:_MAX_ID]
        if call not in self._open:
            if len(self._open) > 1000:  # noqa: PLR2004 - only a broken stream starts that many and ends none
                self._open.clear()
            self._open.add(call)
            self._tools.started(call, _name(item) or name, _detail(item))
        if ended:
            self._open.discard(call)
            self._tools.ended(
                call, success=_success(item), output=_output(item), denied=item.get("status") == "declined"
            )


def _fault(said: str, now: datetime, *, prefix: str = "") -> AgentFault:
    return api_error(said, now).fault(log_in=_LOG_IN, prefix=prefix)


_TOOLS = {
    "command_execution": "shell",
    "file_change": "apply_patch",
    "mcp_tool_call": "mcp",
    "collab_tool_call": "collab",
    "web_search": "web_search",
}


def with_stderr(transcript: Transcript, ended: Ended) -> Transcript:
    """What its sandbox refuses codex tells on stderr alone."""
    refused = [first_line(found[1]) for found in _REJECTED.finditer(ended.stderr_tail)]
    denials = dict.fromkeys((*transcript.permission_denials, *refused[:50]))
    return replace(transcript, permission_denials=tuple(denials))


def _usage(usage: dict[str, Any]) -> Usage:
    """Of all turns so far. codex counts what was read from and written to the cache as input too."""
    read, written = count(usage.get("cached_input_tokens")), count(usage.get("cache_write_input_tokens"))
    return Usage(
        input_tokens=max(0, count(usage.get("input_tokens")) - read - written),
        output_tokens=count(usage.get("output_tokens")),
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


def _name(item: dict[str, Any]) -> str:
    """What a tool of an MCP server is called."""
    server, tool = text(item.get("server")), text(item.get("tool"))
    return f"{server}.{tool}" if server and tool else tool


def _detail(item: dict[str, Any]) -> object:
    if item.get("type") == "command_execution":
        return _script(text(item.get("command")))
    paths = [text(table(change).get("path")) for change in items(item.get("changes"))[:20]]
    if any(paths):
        return ", ".join(filter(None, paths))
    return item.get("arguments") or text(item.get("query")) or text(item.get("prompt"))


def _script(command: str) -> str:
    """What the shell that codex starts is told to do."""
    plain = _QUOTED.fullmatch(command)
    if plain:
        return plain[1]
    words: list[str] = []
    with suppress(ValueError):
        words = shlex.split(command[:10_000])
    told = len(words) == _SCRIPT_ARGUMENTS and PurePath(words[0]).name in _SHELLS and words[1] in ("-c", "-lc")
    return words[2] if told else command


def _success(item: dict[str, Any]) -> bool | None:
    code = item.get("exit_code")
    if isinstance(code, int):
        return code == 0
    if "status" not in item:
        return None
    return bool(item["status"] == "completed")


def _output(item: dict[str, Any]) -> str:
    if item.get("type") == "command_execution":
        return text(item.get("aggregated_output"))
    blocks = items(table(item.get("result")).get("content"))
    said = [text(table(block).get("text")) for block in blocks]
    return "\n".join(filter(None, [*said, text(table(item.get("error")).get("message"))]))
