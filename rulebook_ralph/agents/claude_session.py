"""A turn of an interactive Claude Code session that has ended, as the result of an agent.

What it said last the Stop hook is told; what it did and took stands in the session's transcript, a file of JSON lines
with the same messages as claude's stream, and in those of its subagents, in a folder beside it. The last message is not
in it yet when the hook runs: its tokens are counted with the next turn.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rulebook_ralph.agents.agent import Invocation, Probe
from rulebook_ralph.agents.claude import ClaudeReader
from rulebook_ralph.agents.cli import OUTPUT_HEAD, OUTPUT_TAIL
from rulebook_ralph.agents.limit_times import local_clock
from rulebook_ralph.process.streams import HeadTail
from rulebook_ralph.tasks.results import AgentResult

_BLOCK = 256 * 1024
_LONGEST = 1024**3


@dataclass(frozen=True, slots=True)
class EndedTurn:
    """`said` is the last message whole; `read` says how much of each transcript was there at opening (`sizes`).
    `milliseconds` have gone by since.
    """

    session_id: str
    said: str
    transcript: Path | None
    read: Mapping[str, int]
    milliseconds: int


@dataclass(slots=True)
class SessionAgent:
    """Has worked already: `run` only tells what came of it."""

    name: str
    turn: EndedTurn

    def probe(self) -> Probe:
        return Probe(installed=True)

    def run(self, invocation: Invocation) -> AgentResult:
        kept = HeadTail(head=OUTPUT_HEAD, tail=OUTPUT_TAIL)
        reader = ClaudeReader(lambda _: None, local_clock(invocation.environment))
        with invocation.output_file.open("wb") as output:

            def keep(block: bytes) -> None:
                output.write(block)
                kept.feed(block)

            def take(block: bytes) -> None:
                keep(block)
                reader.feed(block)

            for path in transcripts(self.turn.transcript):
                read_from(path, self.turn.read.get(path.name, 0), take)
                take(b"\n")  # a line that is torn ends with its file
            keep(self.turn.said.encode("utf-8", "replace"))  # what it says is none of its events
        read = reader.close()
        return AgentResult(
            agent=self.name,
            status="finished",
            final_text=self.turn.said,
            tool_results=read.tool_results,
            usage=read.usage,
            session_id=self.turn.session_id,
            output=kept.text(),
            output_bytes=kept.size,
            duration_ms=self.turn.milliseconds,
        )


def transcripts(transcript: Path | None) -> tuple[Path, ...]:
    """The session's own, then those of its subagents."""
    if transcript is None:
        return ()
    return (transcript, *sorted(transcript.with_suffix("").glob("subagents/*.jsonl")))


def sizes(transcript: Path | None) -> dict[str, int]:
    """How long each of them is now, by the names of the files."""
    found = {}
    for path in transcripts(transcript):
        with suppress(OSError):
            found[path.name] = path.stat().st_size
    return found


def read_from(transcript: Path, start: int, take: Callable[[bytes], None]) -> None:
    """Give what stands in a transcript from that byte on; nothing of what cannot be read, or is no plain file."""
    if not transcript.is_file():
        return
    try:
        with transcript.open("rb") as file:
            file.seek(start if start <= os.fstat(file.fileno()).st_size else 0)
            left = _LONGEST
            while left > 0 and (block := file.read(min(_BLOCK, left))):
                left -= len(block)
                take(block)
    except OSError:
        return
