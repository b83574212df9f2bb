"""Gemini CLI (`gemini`), driven through its stream of JSON events, its exit code and what it says on stderr; and Qwen
Code (`qwen`), which comes from it: its options are the same, its events look like claude's, it tells errors in the text
of a successful end, and its input includes what was cached.
"""

import re
from collections.abc import Mapping
from dataclasses import replace as changed
from datetime import datetime
from typing import Any, ClassVar

from rulebook_ralph.agents.agent import Invocation, Report
from rulebook_ralph.agents.api_errors import api_error
from rulebook_ralph.agents.cli import CliAgent
from rulebook_ralph.agents.command import TEXT_HEAD, TEXT_TAIL
from rulebook_ralph.agents.events import (
    EventReader,
    MessageReader,
    Reader,
    Transcript,
    added,
    count,
    denials_of,
    fault,
    first_line,
    table,
    text,
    usage_of,
)
from rulebook_ralph.agents.limit_times import Now
from rulebook_ralph.process.streams import HeadTail
from rulebook_ralph.process.supervisor import Ended
from rulebook_ralph.tasks.results import AgentFault, ErrorKind, Usage

_LOG_IN = "set a valid GEMINI_API_KEY, or log in: start gemini and type /auth"
_UNTRUSTED = (
    "gemini does not run in a folder it was not told to trust; set GEMINI_CLI_TRUST_WORKSPACE: 'true' in "
    "tools.executors[].env, or trust the folder in gemini itself"
)
_BY_EXIT_CODE: dict[int, tuple[ErrorKind, str]] = {
    41: ("authentication", f"gemini has no login; {_LOG_IN}"),
    53: ("max-turns", "gemini reached its limit of turns (model.maxSessionTurns in its settings)"),
    55: ("permission", _UNTRUSTED),
}
_DENIED = frozenset({"policy_violation", "execution_denied"})
_ERROR = "[API Error: "
_RETRY = re.compile(r"^Attempt \d+ failed(?: with status (?P<status>\d{3}))?.*", re.MULTILINE)

_QWEN_LOG_IN = "set a valid key for qwen's provider (OPENAI_API_KEY), or log in: start qwen and type /auth"
_MAX_TURNS = 53
_ERROR_TEXT = re.compile(
    r"\[API Error: ((?:(?!\[API Error: ).)*)\](?:\n(?:Possible quota|Please wait)[^\n]*)?\s*\Z", re.DOTALL
)
_OWN_LIMIT = "Qwen OAuth quota exceeded:"
_DISCONTINUED = "Qwen OAuth free tier has been discontinued"
_TAIL = 10_000
_QWEN_USAGE = ("input_tokens", "output_tokens", "cache_read_input_tokens", "")


class GeminiReader(EventReader):
    """Keeps the last results of tools, what was said since the last of them, and the terminal event."""

    def __init__(self, report: Report, now: Now) -> None:
        super().__init__(report, now)
        self._words = HeadTail(head=TEXT_HEAD, tail=TEXT_TAIL)
        self._result: dict[str, Any] | None = None

    def event(self, kind: str, event: dict[str, Any]) -> None:
        if kind == "init":
            self.named(event.get("session_id"))
        elif kind == "message" and event.get("role") == "assistant":
            self._result = None
            said = text(event.get("content"))
            self._words.feed(said.encode("utf-8", "replace"))
            self.said(said)
        elif kind == "tool_use":
            self._result = None
            self._words = HeadTail(head=TEXT_HEAD, tail=TEXT_TAIL)
            self.tools.started(text(event.get("tool_id")), text(event.get("tool_name")), event.get("parameters"))
        elif kind == "tool_result":
            self._tool_result(event)
        elif kind == "result":
            self._result = event

    def finish(self) -> None:
        self.final_text = self._words.text()
        if self._result is not None:
            self._ended(self._result)

    def _tool_result(self, event: dict[str, Any]) -> None:
        error = table(event.get("error"))
        self.tools.ended(
            text(event.get("tool_id")),
            success=event.get("status") == "success",
            output=text(event.get("output")) or text(error.get("message")),
            denied=text(error.get("type")) in _DENIED,
        )

    def _ended(self, result: dict[str, Any]) -> None:
        self.usage = _usage(table(result.get("stats")))
        self.succeeded = result.get("status") == "success" and not result.get("error")
        if not self.succeeded:
            self.fault = api_error(_message(table(result.get("error"))), self.now()).fault(log_in=_LOG_IN)


class Gemini(CliAgent):
    """It refuses to be given an option twice, so what `settings.args` say of the approval mode, the model or the output
    format is left out before. Without a terminal it asks nobody: in `edit` its model is not offered the shell, in `ask`
    nothing that writes.
    """

    program = "gemini"
    install = "npm install -g @google/gemini-cli"
    reader: ClassVar[type[Reader]] = GeminiReader
    modes: ClassVar[Mapping[str, str]] = {"full": "yolo", "edit": "auto_edit", "ask": "default"}

    def argv(self, _: Invocation) -> tuple[str, ...]:
        mode = ("--approval-mode", self.modes.get(self.settings.permissions, "default"))
        return (
            *self.words,
            *self.unless_given(("--output-format", "stream-json"), "--output-format", "-o"),
            *self.unless_given(mode, "--approval-mode", "--yolo", "-y"),
            *self.model(),
            *self.settings.args,
        )

    def surroundings(self) -> Mapping[str, str]:
        """In a folder that it was not told to trust it does not run at all. To trust one is to run what the project's
        own settings name, which `full` allows anyway and the other modes do not.
        """
        return {"GEMINI_CLI_TRUST_WORKSPACE": "true"} if self.settings.permissions == "full" else {}

    def supplemented(self, transcript: Transcript, ended: Ended, now: datetime) -> Transcript:
        """With the fault that its stream did not tell; one that it told, and success, stay as they are."""
        if transcript.succeeded is not None or transcript.fault:
            return transcript
        known = _BY_EXIT_CODE.get(ended.exit_code or 0)
        by_exit_code = fault(*known) if known else None
        return changed(transcript, fault=by_exit_code or _retrying(ended.stderr_tail, now))


class QwenReader(MessageReader):
    """Keeps the last results of tools, the running sum of tokens, and the last terminal event."""

    def message(self, event: dict[str, Any], message: dict[str, Any]) -> None:
        self.usage = added(self.usage, usage_of(message.get("usage"), _QWEN_USAGE, inclusive=True))
        super().message(event, message)

    def ended(self, result: dict[str, Any]) -> None:
        self.final_text = text(result.get("result"))
        self.usage = usage_of(result.get("usage"), _QWEN_USAGE, inclusive=True)
        self.denied = denials_of(result)
        self.fault = self._fault(result)
        self.succeeded = self.fault is None

    def _fault(self, result: dict[str, Any]) -> AgentFault | None:
        said = self.final_text
        found = _ERROR_TEXT.search(said[-_TAIL:])
        if found:
            return api_error(found[1], self.now()).fault(log_in=_QWEN_LOG_IN)
        if said.startswith(_OWN_LIMIT):
            return fault("usage-limit", first_line(said))
        if said.startswith(_DISCONTINUED):
            return fault("authentication", f"{first_line(said)}; {_QWEN_LOG_IN}")
        if self.succeeded:
            return None
        if text(result.get("subtype")) == "error_max_turns":
            return fault("max-turns", "qwen reached its limit of turns")
        why = text(table(result.get("error")).get("message")) or said
        return api_error(why or "qwen reported an error and did not say which", self.now()).fault(log_in=_QWEN_LOG_IN)


class Qwen(Gemini):
    """Its options are those of gemini, which it comes from."""

    program = "qwen"
    install = "npm install -g @qwen-code/qwen-code"
    reader = QwenReader
    modes = {"full": "yolo", "edit": "auto-edit", "ask": "default"}

    def surroundings(self) -> Mapping[str, str]:
        return {}

    def supplemented(self, transcript: Transcript, ended: Ended, _: datetime) -> Transcript:
        """At its limit of turns qwen ends without a terminal event; the exit code tells."""
        if ended.exit_code != _MAX_TURNS or transcript.succeeded is not None:
            return transcript
        why = first_line(ended.stderr_tail) or "qwen reached its limit of turns (maxSessionTurns in its settings)"
        return changed(transcript, fault=fault("max-turns", why))


def _retrying(stderr: str, now: datetime) -> AgentFault | None:
    """It says nothing in its stream while it tries again, which can last for minutes."""
    tries = list(_RETRY.finditer(stderr))
    if not tries:
        return None
    status = tries[-1]["status"]
    said = tries[-1][0].partition("{")
    error = api_error(f"{said[1]}{said[2]}" or said[0], now, status=int(status) if status else None)
    return error.fault(log_in=_LOG_IN, prefix="gemini was still retrying: ")


def _message(error: dict[str, Any]) -> str:
    """The first line of an error without the frame around it; what follows it is advice."""
    said = text(error.get("message")).strip() or "gemini reported an error and did not say which"
    return said[len(_ERROR) :].split("]\n")[0].removesuffix("]") if said.startswith(_ERROR) else said


def _usage(stats: dict[str, Any]) -> Usage:
    """`input_tokens` includes what was cached, and `total_tokens` what the model thought as well."""
    whole, cached = count(stats.get("input_tokens")), count(stats.get("cached"))
    output = max(count(stats.get("output_tokens")), count(stats.get("total_tokens")) - whole)
    return Usage(input_tokens=max(0, whole - cached), output_tokens=output, cache_read_tokens=cached)
