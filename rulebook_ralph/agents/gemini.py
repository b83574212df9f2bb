"""Gemini CLI (`gemini`), driven through its stream of JSON events, its exit code and what it says on stderr; and Qwen
Code (`qwen`), which comes from it: its options are the same, its events look like claude's, it tells errors in the text
of a successful end, and its input includes what was cached.
"""

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from rulebook_ralph.agents.cli import CliAgent
from rulebook_ralph.agents.events import ANTHROPIC_USAGE, count, fault, first_line, table, text, usage_of
from rulebook_ralph.agents.reader import EventReader, MessageReader, Reader
from rulebook_ralph.process.supervisor import Ended
from rulebook_ralph.tasks.results import Usage

_UNTRUSTED = (
    "gemini does not run in a folder it was not told to trust; set GEMINI_CLI_TRUST_WORKSPACE: 'true' in "
    "tools.executors[].env, or trust the folder in gemini itself"
)
_NO_LOGIN_CODE, _MAX_TURNS_CODE, _UNTRUSTED_CODE = 41, 53, 55
_DENIED = frozenset({"policy_violation", "execution_denied"})
_FRAME = re.compile(r"\[API Error: (.*?)(?:\](?:\n.*)?)?", re.DOTALL)
_RETRY = re.compile(r"^Attempt \d+ failed(?: with status (?P<status>\d{3}))?[^{\n]*(?P<body>\{.*)?", re.MULTILINE)

_QWEN_ERROR = re.compile(
    r"\[API Error: ((?:(?!\[API Error: ).)*)\](?:\n(?:Possible quota|Please wait)[^\n]*)?\s*\Z", re.DOTALL
)
_QWEN_REFUSALS = ("Qwen OAuth quota exceeded:", "Qwen OAuth free tier has been discontinued")
_TAIL = 10_000
_LONGEST = 1024 * 1024


class GeminiReader(EventReader):
    """Keeps the last results of tools, what was said since the last of them, and the terminal event."""

    log_in = "start gemini and type /auth, or set a valid GEMINI_API_KEY"

    _result: dict[str, Any] | None = None

    def event(self, kind: str, event: dict[str, Any]) -> None:
        if kind == "init":
            self.named(event.get("session_id"))
        elif kind == "message" and event.get("role") == "assistant":
            self._result = None
            said = text(event.get("content"))
            self.final_text = (self.final_text + said)[-_LONGEST:]
            self.said(said)
        elif kind == "tool_use":
            self._result, self.final_text = None, ""
            self.tool_started(text(event.get("tool_id")), text(event.get("tool_name")), event.get("parameters"))
        elif kind == "tool_result":
            self._tool_ended(event)
        elif kind == "result":
            self._result = event

    def finish(self) -> None:
        if self._result is not None:
            self.usage = _usage(table(self._result.get("stats")))
            self.succeeded = self._result.get("status") == "success" and not self._result.get("error")
            if not self.succeeded:
                said = text(table(self._result.get("error")).get("message")).strip()
                framed = _FRAME.fullmatch(said)  # what follows the frame is advice
                self.fault = self.error(framed[1] if framed else said or "gemini did not say why it failed")

    def exited(self, ended: Ended) -> None:
        """What its stream did not tell."""
        if self.succeeded is not None or self.fault:
            return
        if ended.exit_code == _NO_LOGIN_CODE:
            self.fault = self.advised(fault("authentication", "gemini has no login"))
        elif ended.exit_code == _MAX_TURNS_CODE:
            self.fault = fault("max-turns", "gemini reached its limit of turns (model.maxSessionTurns in its settings)")
        elif ended.exit_code == _UNTRUSTED_CODE:
            self.fault = fault("permission", _UNTRUSTED)
        elif tries := list(_RETRY.finditer(ended.stderr_tail)):  # it says nothing in its stream meanwhile
            last = tries[-1]
            status = int(last["status"]) if last["status"] else None
            self.fault = self.error(last["body"] or last[0], status=status, prefix="gemini was still retrying: ")

    def _tool_ended(self, event: dict[str, Any]) -> None:
        error = table(event.get("error"))
        self.tool_ended(
            text(event.get("tool_id")),
            success=event.get("status") == "success",
            output=text(event.get("output")) or text(error.get("message")),
            denied=text(error.get("type")) in _DENIED,
        )


class Gemini(CliAgent):
    """Without a terminal it asks nobody: in `edit` its model is not offered the shell, in `ask` nothing that writes."""

    program = "gemini"
    install = "npm install -g @google/gemini-cli"
    reader: ClassVar[type[Reader]] = GeminiReader
    options = ("--output-format", "stream-json")
    modes: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "full": ("--approval-mode", "yolo"),
        "edit": ("--approval-mode", "auto_edit"),
        "ask": ("--approval-mode", "default"),
    }
    instead_of_mode = ("--approval-mode", "--yolo", "-y")

    def surroundings(self) -> Mapping[str, str]:
        """In a folder that it was not told to trust it does not run at all. To trust one is to run what the project's
        own settings name, which `full` allows anyway and the other modes do not.
        """
        return {"GEMINI_CLI_TRUST_WORKSPACE": "true"} if self.settings.permissions == "full" else {}


class QwenReader(MessageReader):
    """Keeps the last results of tools, the running sum of tokens, and the last terminal event."""

    agent = "qwen"
    log_in = "start qwen and type /auth, or set a valid key for its provider (OPENAI_API_KEY)"
    inclusive = True

    def ended(self, result: dict[str, Any]) -> None:
        super().ended(result)
        self.usage = usage_of(result.get("usage"), ANTHROPIC_USAGE, inclusive=True)
        said = _QWEN_ERROR.search(self.final_text[-_TAIL:])
        if said or self.final_text.startswith(_QWEN_REFUSALS):
            self.succeeded, self.fault = False, self.error(said[1] if said else first_line(self.final_text))

    def exited(self, ended: Ended) -> None:
        """At its limit of turns qwen ends without a terminal event; the exit code tells."""
        if ended.exit_code == _MAX_TURNS_CODE and self.succeeded is None:
            why = first_line(ended.stderr_tail) or "qwen reached its limit of turns (maxSessionTurns in its settings)"
            self.fault = fault("max-turns", why)


class Qwen(Gemini):
    """Its options are those of gemini, but for a hyphen."""

    program = "qwen"
    install = "npm install -g @qwen-code/qwen-code"
    reader = QwenReader
    modes = {**Gemini.modes, "edit": ("--approval-mode", "auto-edit")}

    def surroundings(self) -> Mapping[str, str]:
        return {}


def _usage(stats: dict[str, Any]) -> Usage:
    """`input_tokens` includes what was cached, and `total_tokens` what the model thought as well."""
    whole, cached = count(stats.get("input_tokens")), count(stats.get("cached"))
    output = max(count(stats.get("output_tokens")), count(stats.get("total_tokens")) - whole)
    return Usage(input_tokens=max(0, whole - cached), output_tokens=output, cache_read_tokens=cached)
