"""Cursor's CLI (`cursor-agent -p`), driven through its stream of JSON events (from its documentation)."""

from typing import Any

from rulebook_ralph.agents.agent import Invocation
from rulebook_ralph.agents.api_errors import api_error
from rulebook_ralph.agents.cli import ArgumentAgent
from rulebook_ralph.agents.events import MessageReader, count, first_line, items, table, text, usage_of

_PERMISSIONS: dict[str, tuple[str, ...]] = {"full": ("--force",), "ask": ("--mode=ask",)}
"""Without `--force` it refuses commands, and edits files (old versions only propose the edits)."""

_LOG_IN = "set a valid CURSOR_API_KEY, or run: cursor-agent login"
_USAGE = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
_KIND = "ToolCall"
_OUTPUTS = ("stdout", "content", "message", "error", "reason")
_REFUSED = ("rejected", "permissionDenied")


class CursorReader(MessageReader):
    """Keeps the last whole message, the last results of tools and the last terminal event.

    A message that carries a time is a piece of one that comes whole later; `result` joins all messages of the run.
    """

    def message(self, event: dict[str, Any], message: dict[str, Any]) -> None:
        self.result = None  # a further turn has begun; only its own end counts
        blocks = map(table, items(message.get("content")))
        said = "".join(text(block.get("text")) for block in blocks if block.get("type") == "text")
        if "timestamp_ms" not in event and said.strip():
            self.final_text = said
            self.said(said)

    def tools_ended(self, event: dict[str, Any]) -> None:
        """Its `user` events only repeat the prompt."""

    def other(self, kind: str, event: dict[str, Any]) -> None:
        if kind == "tool_call":
            self._tool_call(event)

    def ended(self, result: dict[str, Any]) -> None:
        self.usage = usage_of(result.get("usage"), _USAGE)
        if not self.succeeded:
            subtype = first_line(text(result.get("subtype")))
            message = text(result.get("error")) or f"cursor-agent ended with {subtype or 'an error'}"
            self.fault = api_error(message, self.now()).fault(log_in=_LOG_IN)

    def _tool_call(self, event: dict[str, Any]) -> None:
        call, described = text(event.get("call_id")), table(event.get("tool_call"))
        name = next((key for key in described if key.endswith(_KIND)), "")
        tool = table(described.get(name))
        if event.get("subtype") == "started":
            function = table(described.get("function"))
            named = name.removesuffix(_KIND) or text(function.get("name"))
            self.tools.started(call, named, tool.get("args") or function.get("arguments"))
        elif event.get("subtype") == "completed":
            outcome = table(tool.get("result"))
            success = table(outcome.get("success"))
            failed = bool(outcome) and ("success" not in outcome or count(success.get("exitCode")) > 0)
            told_of = success or next((table(value) for value in outcome.values() if isinstance(value, dict)), {})
            self.tools.ended(
                call,
                success=not failed if outcome else None,
                output=next((said for key in _OUTPUTS if (said := text(told_of.get(key)))), ""),
                denied=any(key in outcome for key in _REFUSED),
            )


class Cursor(ArgumentAgent):
    """It takes the prompt as its last argument."""

    program = "cursor-agent"
    install = "curl https://cursor.com/install -fsS | bash"
    log_in = _LOG_IN
    reader = CursorReader
    stderr_tells = True

    def argv(self, _: Invocation) -> tuple[str, ...]:
        permissions = _PERMISSIONS.get(self.settings.permissions, ())
        model = ("--model", self.settings.model) if self.settings.model else ()
        return (*self.words, "-p", "--output-format", "stream-json", *permissions, *model, *self.settings.args)
