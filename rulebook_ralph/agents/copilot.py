"""GitHub Copilot CLI (`copilot -p`), driven through its stream of JSON events (from its documentation)."""

from typing import Any

from rulebook_ralph.agents.agent import Invocation, Report
from rulebook_ralph.agents.api_errors import api_error
from rulebook_ralph.agents.cli import ArgumentAgent
from rulebook_ralph.agents.events import EventReader, added, count, first_line, table, text
from rulebook_ralph.agents.limit_times import Now
from rulebook_ralph.tasks.results import AgentFault, Usage

_PERMISSIONS: dict[str, tuple[str, ...]] = {"full": ("--allow-all-tools",), "edit": ("--allow-tool=write",)}
"""Without a person to ask, it refuses what is not allowed."""

_LOG_IN = "set a valid COPILOT_GITHUB_TOKEN, or log in: start copilot and type /login"
_CODES = {
    "authentication": "authentication_error",
    "authorization": "authentication_error",
    "quota": "usage_limit_reached",
    "rate_limit": "rate_limit_error",
    "context_limit": "context_length_exceeded",
}
"""Its types of errors as the codes that api_errors.py knows."""

_DENIED = ("denied", "rejected", "permission")


class CopilotReader(EventReader):
    """Keeps the last message that says something, the last results of tools and the last terminal event.

    copilot counts its requests, not its cost; of the tokens only those it wrote are told.
    """

    def __init__(self, report: Report, now: Now) -> None:
        super().__init__(report, now)
        self._result: dict[str, Any] | None = None

    def event(self, kind: str, event: dict[str, Any]) -> None:
        data = table(event.get("data"))
        self.named(text(event.get("sessionId")) or text(data.get("sessionId")))
        call = text(data.get("toolCallId"))
        if kind == "assistant.message":
            self._message(data)
        elif kind == "tool.execution_start":
            self.tools.started(call, text(data.get("toolName")), data.get("arguments"))
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
        error = table(data.get("error"))
        output = text(table(data.get("result")).get("content")) or text(error.get("message")) or text(data.get("error"))
        success = data.get("success")
        denied = success is False and (
            text(error.get("code")).lower() in _DENIED or output.startswith("Permission denied and could not")
        )
        self.tools.ended(call, success=success if isinstance(success, bool) else None, output=output, denied=denied)

    def _fault(self, data: dict[str, Any]) -> AgentFault:
        error_type = text(data.get("errorType"))
        message = text(data.get("message")) or f"copilot ended with an error {first_line(error_type)}".rstrip()
        codes = (_CODES.get(error_type, ""),)
        return api_error(message, self.now(), status=data.get("statusCode"), codes=codes).fault(log_in=_LOG_IN)


class Copilot(ArgumentAgent):
    """It takes the prompt by `-p`."""

    program = "copilot"
    install = "npm install -g @github/copilot"
    log_in = _LOG_IN
    reader = CopilotReader
    stderr_tells = True
    prompt_option = ("-p",)

    def argv(self, _: Invocation) -> tuple[str, ...]:
        permissions = _PERMISSIONS.get(self.settings.permissions, ())
        model = ("--model", self.settings.model) if self.settings.model else ()
        return (*self.words, "--output-format", "json", *permissions, *model, *self.settings.args)
