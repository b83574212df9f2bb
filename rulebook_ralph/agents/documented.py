"""Amp (`amp -x`), GitHub Copilot CLI (`copilot -p`) and Cursor's CLI (`cursor-agent -p`), driven through their streams
of JSON events. All that is known of them here is from their documentation.
"""

from typing import Any

from rulebook_ralph.agents.cli import CliAgent
from rulebook_ralph.agents.events import added, count, first_line, table, text, usage_of
from rulebook_ralph.agents.reader import EventReader, MessageReader
from rulebook_ralph.tasks.results import AgentFault, Usage

# Amp


class AmpReader(MessageReader):
    """Keeps the last results of tools, the sum of the tokens and the last terminal event."""

    agent = "amp"
    log_in = "log in with: amp login, or set a valid AMP_API_KEY"
    stderr_tells = True


class Amp(CliAgent):
    """It runs its tools unasked whatever it is told, so only `permissions: full` is honest. Amp chooses its model by
    `--mode`, which `settings.model` is handed to.
    """

    program = "amp"
    install = "npm install -g @ampcode/cli"
    reader = AmpReader
    options = ("-x", "--stream-json", "--dangerously-allow-all")
    model_option = "--mode"


# Copilot

_COPILOT_CODES = {
    "authentication": "authentication_error",
    "authorization": "authentication_error",
    "quota": "usage_limit_reached",
    "rate_limit": "rate_limit_error",
    "context_limit": "context_length_exceeded",
}
"""Its types of errors as the codes that events.py knows."""

_COPILOT_DENIED = ("denied", "rejected", "permission")


class CopilotReader(EventReader):
    """Keeps the last message that says something, the last results of tools and the last terminal event.

    copilot counts its requests, not its cost; of the tokens only those it wrote are told.
    """

    log_in = "log in with: copilot login, or set a valid COPILOT_GITHUB_TOKEN"
    stderr_tells = True
    _result: dict[str, Any] | None = None

    def event(self, kind: str, event: dict[str, Any]) -> None:
        data = table(event.get("data"))
        self.named(text(event.get("sessionId")) or text(data.get("sessionId")))
        call = text(data.get("toolCallId"))
        if kind == "assistant.message":
            self._message(data)
        elif kind == "tool.execution_start":
            self.tool_started(call, text(data.get("toolName")), data.get("arguments"))
        elif kind == "tool.execution_complete":
            self._tool_ended(call, data)
        elif kind == "session.error":
            self.fault = self._fault(data)
        elif kind == "result":
            self._result = event

    def finish(self) -> None:
        """Of another end than success its own exit code and stderr say more."""
        code = table(self._result).get("exitCode")
        self.succeeded = False if self.fault else (code == 0 and not isinstance(code, bool)) or None

    def _message(self, data: dict[str, Any]) -> None:
        self.usage = added(self.usage, Usage(output_tokens=count(data.get("outputTokens"))))
        said = text(data.get("content"))
        if data.get("parentToolCallId"):  # a helper agent's
            return
        self._result = self.fault = None  # it goes on after all; only its own end counts
        if said.strip():
            self.final_text = said
            self.said(said)

    def _tool_ended(self, call: str, data: dict[str, Any]) -> None:
        error, success = table(data.get("error")), data.get("success")
        output = text(table(data.get("result")).get("content")) or text(error.get("message")) or text(data.get("error"))
        refused = text(error.get("code")).lower() in _COPILOT_DENIED or output.startswith("Permission denied and could")
        self.tool_ended(call, success=success, output=output, denied=success is False and refused)

    def _fault(self, data: dict[str, Any]) -> AgentFault:
        error_type = text(data.get("errorType"))
        message = text(data.get("message")) or f"copilot ended with an error {first_line(error_type)}".rstrip()
        return self.error(message, status=data.get("statusCode"), codes=(_COPILOT_CODES.get(error_type, ""),))


class Copilot(CliAgent):
    """Without a person to ask, it refuses what is not allowed."""

    program = "copilot"
    install = "npm install -g @github/copilot"
    reader = CopilotReader
    options = ("--output-format", "json")
    modes = {"full": ("--allow-all-tools",), "edit": ("--allow-tool=write",)}
    prompt_via = "argument"
    prompt_option = ("-p",)


# Cursor

_CURSOR_USAGE = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
_CALL = "ToolCall"
_OUTPUTS = ("stdout", "content", "message", "error", "reason")


class CursorReader(MessageReader):
    """Keeps the last whole message, the last results of tools and the last terminal event.

    A message that carries a time is a piece of one that comes whole later; `result` joins all messages of the run.
    """

    agent = "cursor-agent"
    log_in = "log in with: cursor-agent login, or set a valid CURSOR_API_KEY"
    stderr_tells = True
    _last = ""

    def message(self, event: dict[str, Any], blocks: list[dict[str, Any]]) -> None:
        said = "".join(text(block.get("text")) for block in blocks if block.get("type") == "text")
        if "timestamp_ms" not in event and said.strip():
            self._last = said
            self.said(said)

    def finish(self) -> None:
        super().finish()
        self.final_text = self._last

    def ended(self, result: dict[str, Any]) -> None:
        super().ended(result)
        self.usage = usage_of(result.get("usage"), _CURSOR_USAGE)

    def other(self, kind: str, event: dict[str, Any]) -> None:
        if kind != "tool_call":
            return
        call, described = text(event.get("call_id")), table(event.get("tool_call"))
        name = next((key for key in described if key.endswith(_CALL)), "")
        tool = table(described.get(name))
        if event.get("subtype") == "started":
            function = table(described.get("function"))
            named = text(name.removesuffix(_CALL)) or text(function.get("name"))
            self.tool_started(call, named, tool.get("args") or function.get("arguments"))
        elif event.get("subtype") == "completed":
            self._tool_ended(call, table(tool.get("result")))

    def _tool_ended(self, call: str, outcome: dict[str, Any]) -> None:
        success = table(outcome.get("success"))
        told_of = success or next((table(value) for value in outcome.values() if isinstance(value, dict)), {})
        self.tool_ended(
            call,
            success="success" in outcome and count(success.get("exitCode")) == 0 if outcome else None,
            output=next((said for key in _OUTPUTS if (said := text(told_of.get(key)))), ""),
            denied="rejected" in outcome or "permissionDenied" in outcome,
        )


class Cursor(CliAgent):
    """Without `--force` it refuses commands, and edits files (old versions only propose the edits)."""

    program = "cursor-agent"
    install = "curl https://cursor.com/install -fsS | bash"
    reader = CursorReader
    options = ("-p", "--output-format", "stream-json")
    modes = {"full": ("--force",), "ask": ("--mode=ask",)}
    prompt_via = "argument"
