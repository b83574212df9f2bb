"""What an agent did whose Ralph died: read from the raw output that was streamed to a file, by its adapter's reader."""

from collections.abc import Callable
from datetime import datetime, tzinfo
from importlib import import_module
from pathlib import Path
from typing import cast

from rulebook_ralph.agents.agent import AgentSettings
from rulebook_ralph.agents.local_time import Now
from rulebook_ralph.agents.supervised import OUTPUT_HEAD, OUTPUT_TAIL
from rulebook_ralph.agents.transcript import Reader, Transcript, fault
from rulebook_ralph.core.evidence import AgentFault, AgentResult, AgentStatus
from rulebook_ralph.core.streams import HeadTail

_READERS = {
    "claude": "claude_stream:ClaudeReader",
    "codex": "codex_stream:CodexReader",
    "gemini": "gemini_stream:GeminiReader",
    "opencode": "opencode_stream:OpenCodeReader",
    "qwen": "qwen_stream:QwenReader",
    "amp": "amp_stream:AmpReader",
    "copilot": "copilot_stream:CopilotReader",
    "cursor": "cursor_stream:CursorReader",
    "aider": "aider_stream:AiderReader",
}
_UNTIMED_READERS = {"command": "command:PlainTextReader", "scripted": "scripted:ScriptedReader"}
"""Readers of streams that name no times."""

_BLOCK = 256 * 1024
_NOT_SEEN = "Ralph itself ended before it could see the agent's end"


def taken_over(settings: AgentSettings, output_file: Path, *, started: datetime, now: Now) -> AgentResult:
    """Usage, cost, tools and final text, as far as the stream got. Never `finished`: nobody saw how the agent ended.

    `now` is the agent's local clock, of which the zone counts: times in the stream are meant at the last output. An
    agent from a plug-in gives its output alone. Never raises.
    """
    kept = HeadTail(head=OUTPUT_HEAD, tail=OUTPUT_TAIL)
    try:
        last = moment(output_file.stat().st_mtime, now().tzinfo) or started
        transcript = _transcript(reader_of(settings.type, lambda: last), kept, output_file)
    except OSError:  # it died before there was any
        last, transcript = started, Transcript()
    status, why = _status(transcript)
    return AgentResult(
        agent=settings.id,
        status=status,
        final_text=transcript.final_text,
        tool_results=transcript.tool_results,
        usage=transcript.usage,
        cost_usd=transcript.cost_usd,
        session_id=transcript.session_id,
        fault=why,
        permission_denials=transcript.permission_denials,
        output=kept.text(),
        output_bytes=kept.size,
        duration_ms=max(0, round((last - started).total_seconds() * 1000)),
    )


def moment(seconds: float, zone: tzinfo | None) -> datetime | None:
    """That many seconds since 1970; None for what no calendar has, as a file's time may be."""
    try:
        return datetime.fromtimestamp(seconds, zone)
    except (ValueError, OverflowError, OSError):
        return None


def reader_of(kind: str, now: Now) -> Reader | None:
    """A reader of the streams of that type of agent, reporting to nobody; None for a type that is not built in."""
    if kind in _READERS:
        return _loaded(_READERS[kind])(_to_nobody, now)
    return _loaded(_UNTIMED_READERS[kind])(_to_nobody) if kind in _UNTIMED_READERS else None


def _transcript(reader: Reader | None, kept: HeadTail, output_file: Path) -> Transcript:
    with output_file.open("rb") as file:
        while block := file.read(_BLOCK):
            kept.feed(block)
            if reader:
                reader.feed(block)
    return reader.close() if reader else Transcript()


def _status(transcript: Transcript) -> tuple[AgentStatus, AgentFault]:
    if transcript.succeeded is False:
        return "failed", transcript.fault or fault("unknown", "it reported an error and did not say which")
    return "truncated", transcript.fault or fault("cut-off", _NOT_SEEN)


def _loaded(dotted: str) -> Callable[..., Reader]:
    module, _, name = dotted.partition(":")
    return cast("Callable[..., Reader]", getattr(import_module(f"rulebook_ralph.agents.{module}"), name))


def _to_nobody(_: object) -> None:
    return None
