"""How every adapter runs its process: under the supervisor, its stream read as it comes."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from rulebook_ralph.agents.agent import Assignment
from rulebook_ralph.agents.transcript import Reader, Transcript, conclude
from rulebook_ralph.core.amounts import span
from rulebook_ralph.core.events import AgentActivity
from rulebook_ralph.core.evidence import AgentResult
from rulebook_ralph.core.faults import free_again
from rulebook_ralph.core.streams import HeadTail
from rulebook_ralph.supervisor import Command, Ended, Limits, run

Report = Callable[[AgentActivity], None]
Supplement = Callable[[Transcript, Ended], Transcript]

OUTPUT_HEAD = 8_000
OUTPUT_TAIL = 24_000
"""So many bytes of the raw output stand in a result."""

_VERSION_TIMEOUT = 10.0


def run_agent(
    name: str,
    command: Command,
    assignment: Assignment,
    make_reader: Callable[[Report], Reader],
    *,
    supplement: Supplement | None = None,
) -> AgentResult:
    """Run the command to its end and say what came of it. `make_reader` is given where to report activity.

    `supplement` adds to the transcript what the agent tells by its exit code or on stderr alone.
    """
    reader = make_reader(_quiet(assignment.report))
    kept = HeadTail(head=OUTPUT_HEAD, tail=OUTPUT_TAIL)

    def take(block: bytes) -> None:
        kept.feed(block)
        reader.feed(block)

    ended = run(
        command,
        limits=Limits(wall_time=assignment.limits.wall_time, idle_time=assignment.limits.idle_time),
        on_output=take,
        output_file=assignment.output_file,
        cancelled=assignment.cancelled,
        last_change=assignment.last_change,
    )
    output = kept.text()
    if ended.stderr_tail:
        output = f"{output.rstrip()}\n--- stderr ---\n{ended.stderr_tail}".lstrip()
    transcript = reader.close()
    if supplement:
        transcript = supplement(transcript, ended)
    result = conclude(name, ended, transcript, output=output)
    return replace(without_past(result, datetime.now(UTC)), killed_for=_killed_for(ended, assignment))


def without_past(result: AgentResult, now: datetime) -> AgentResult:
    """The result without the time of a reset that has passed already: nothing can be waited for then."""
    said = result.fault
    again = free_again(said.resets_at) if said else None
    if said is None or again is None or again > now:
        return result
    return replace(result, fault=replace(said, resets_at=None))


def _killed_for(ended: Ended, assignment: Assignment) -> str:
    """The limit that ended the agent, in words that follow "the agent"."""
    limits = assignment.limits
    if ended.killed_by == "wall-time" and limits.wall_time is not None:
        return f"took longer than {span(limits.wall_time)}"
    if ended.killed_by == "idle-time" and limits.idle_time is not None:
        change = " and no change in the tree" if assignment.last_change else ""
        return f"gave no output{change} for {span(limits.idle_time)}"
    return ""


def version_of(argv: tuple[str, ...], environment: dict[str, str]) -> tuple[str, str]:
    """The first line that `argv --version` prints, and what is wrong with it: one of the two is empty."""
    kept = HeadTail(head=200, tail=0)
    command = Command((*argv, "--version"), Path("/"), environment)
    ended = run(command, limits=Limits(wall_time=_VERSION_TIMEOUT), on_output=kept.feed)
    if ended.failure:
        return "", ended.failure.message
    if ended.killed_by:
        return "", f"`{argv[0]} --version` gave no answer in {_VERSION_TIMEOUT:.0f} s"
    if ended.exit_code != 0:
        said = next(iter(ended.stderr_tail.strip().splitlines()), "")
        return "", f"`{argv[0]} --version` ended with exit code {ended.exit_code}" + (f": {said}" if said else "")
    return next(iter(kept.text().splitlines()), "").strip(), ""


def _quiet(report: Report) -> Report:
    """What is shown of an agent must never end it."""

    def reporting(activity: AgentActivity) -> None:
        with suppress(Exception):
            report(activity)

    return reporting
