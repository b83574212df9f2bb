"""Claude Code: `claude -p`, driven through its stream of JSON events, and a turn of an interactive session that has
ended, read from the session's transcript.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from rulebook_ralph.agents.agent import Invocation, Probe
from rulebook_ralph.agents.cli import CliAgent, conclude, output_sample
from rulebook_ralph.agents.events import (
    added,
    api_error,
    count,
    dollars,
    fault,
    items,
    kind_of_status,
    table,
    text,
    usage_of,
)
from rulebook_ralph.agents.limit_times import iso_time, local_clock
from rulebook_ralph.agents.reader import MessageReader
from rulebook_ralph.process.supervisor import Ended
from rulebook_ralph.report.events import AgentActivity
from rulebook_ralph.tasks.results import AgentResult

_MODEL_USAGE = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
_CANNOT_HEAL = frozenset({"authentication", "billing"})
_HOPELESS_RETRY = 3
"""The first retry mends a token that has just expired; by the third claude has been refused three times in 2 s, and it
goes on for three minutes."""

_BLOCK = 256 * 1024


class ClaudeReader(MessageReader):
    """Keeps the last results of tools, the running sums and the last terminal event."""

    agent = "claude"
    log_in = "log in with: claude /login, or set a valid ANTHROPIC_API_KEY"

    _limit: dict[str, Any] | None = None
    _error_code = ""

    def message(self, event: dict[str, Any], blocks: list[dict[str, Any]]) -> None:
        if not event.get("parent_tool_use_id"):
            self._error_code = text(event.get("error"))
        if not event.get("error"):
            self.fault = None  # what it tried again for has gone well
        super().message(event, blocks)

    def other(self, kind: str, event: dict[str, Any]) -> None:
        if kind == "rate_limit_event":
            info = table(event.get("rate_limit_info"))
            rejected = info.get("status") == "rejected" and info.get("isUsingOverage") is not True
            self._limit = info if rejected else None
        elif kind == "system" and event.get("subtype") == "api_retry":
            self._retries(event)

    def ended(self, result: dict[str, Any]) -> None:
        # `modelUsage` counts every model and also runs that a budget stopped, where `usage` can be zero.
        models = table(result.get("modelUsage")).values()
        self.usage = (
            added(*(usage_of(one, _MODEL_USAGE) for one in models)) if models else usage_of(result.get("usage"))
        )
        self.cost_usd = dollars(result.get("total_cost_usd"))
        retried, self.fault = self.fault, None
        if not self.succeeded:
            message = self.final_text or "; ".join(filter(None, map(text, items(result.get("errors")))))
            codes = (text(result.get("api_error")), self._error_code, text(result.get("api_error_type")))
            why = self.failure(result, message, status=result.get("api_error_status"), codes=codes)
            if self._limit and why.kind in ("rate-limit", "usage-limit"):
                resets_at = iso_time(self._limit.get("resetsAt")) or why.resets_at
                why = replace(why, kind="usage-limit", resets_at=resets_at)
            # An interrupted claude ends with an error that says nothing; what it was retrying for says more.
            self.fault = retried if retried and why.kind == "unknown" else why

    def _retries(self, event: dict[str, Any]) -> None:
        code, status = text(event.get("error")), event.get("error_status")
        kind = kind_of_status(status) or api_error("", self.now(), codes=(code,)).kind
        answer = f"HTTP {status}" if isinstance(status, int) else "no answer"
        told = f"claude was still retrying: {answer}" + (f" ({code})" if code and code != "unknown" else "")
        self.fault = self.advised(fault("network" if kind == "unknown" else kind, told))
        attempt, most = count(event.get("attempt")), count(event.get("max_retries"))
        self.report(AgentActivity("retry", f"retry {attempt} of {most}", told))
        self.hopeless = kind in _CANNOT_HEAL and attempt >= _HOPELESS_RETRY


class Claude(CliAgent):
    """Its budget is what the invocation may cost."""

    program = "claude"
    install = "npm install -g @anthropic-ai/claude-code"
    reader = ClaudeReader
    options = ("-p", "--output-format", "stream-json", "--verbose")
    modes = {"full": ("--dangerously-skip-permissions",), "edit": ("--permission-mode", "acceptEdits")}

    def further(self, invocation: Invocation) -> tuple[str, ...]:
        budget = invocation.limits.cost_usd
        return () if budget is None else ("--max-budget-usd", f"{max(budget, 0.01):.2f}")

    def surroundings(self) -> Mapping[str, str]:
        """It puts the branch, status and last commits before the prompt unless told not to, and then no prefix cache
        hits. As root it refuses to skip permissions unless it is told that it is in a sandbox.
        """
        sandbox = {"IS_SANDBOX": "1"} if self.settings.permissions == "full" and os.geteuid() == 0 else {}
        return {"CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS": "1", **sandbox}


# An interactive session


@dataclass(frozen=True, slots=True)
class EndedTurn:
    """A turn of a session. `said` is its last message whole, which the Stop hook is told: it does not stand in the
    transcript yet, so its tokens are counted with the next turn. `read` says how much of each transcript was there at
    opening (`sizes`). `milliseconds` have gone by since.
    """

    session_id: str
    said: str
    transcript: Path | None
    read: Mapping[str, int]
    milliseconds: int


@dataclass(slots=True)
class SessionAgent:
    """Has worked already: `run` only tells what came of it, by the session's transcript, a file of JSON lines with the
    same messages as claude's stream, and by those of its subagents.
    """

    name: str
    turn: EndedTurn

    def probe(self) -> Probe:
        return Probe(installed=True)

    def run(self, invocation: Invocation) -> AgentResult:
        turn, kept = self.turn, output_sample()
        reader = ClaudeReader(lambda _: None, local_clock(invocation.environment))
        with invocation.output_file.open("wb") as output:
            for path in _transcripts(turn.transcript):
                # A line that is torn ends with its file.
                for block in chain(_blocks(path, turn.read.get(path.name, 0)), (b"\n",)):
                    output.write(block)
                    kept.feed(block)
                    reader.feed(block)
            said = turn.said.encode("utf-8", "replace")  # what it says is none of its events
            output.write(said)
            kept.feed(said)
        reader.close()
        reader.succeeded, reader.final_text, reader.session_id = True, turn.said, turn.session_id
        ended = Ended(0, duration_ms=turn.milliseconds, output_bytes=kept.size)
        return replace(conclude(self.name, ended, reader, output=kept.text()), exit_code=None)


def sizes(transcript: Path | None) -> dict[str, int]:
    """How long a session's transcripts are now, by the names of the files."""
    found = {}
    for path in _transcripts(transcript):
        with suppress(OSError):
            found[path.name] = path.stat().st_size
    return found


def _transcripts(transcript: Path | None) -> tuple[Path, ...]:
    """The session's own, then those of its subagents, in a folder beside it."""
    if transcript is None:
        return ()
    return (transcript, *sorted(transcript.with_suffix("").glob("subagents/*.jsonl")))


def _blocks(transcript: Path, start: int) -> Iterator[bytes]:
    """What stands in a transcript from that byte on; nothing of what cannot be read, or is no plain file."""
    with suppress(OSError):
        if transcript.is_file():
            with transcript.open("rb") as file:
                file.seek(start if start <= os.fstat(file.fileno()).st_size else 0)
                while block := file.read(_BLOCK):
                    yield block
