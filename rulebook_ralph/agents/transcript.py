"""What an agent's own stream says of its run, and what that and the process's end amount to. Pure."""

import errno
import signal
from dataclasses import dataclass
from typing import Protocol

from rulebook_ralph.core.evidence import AgentFault, AgentResult, AgentStatus, ErrorKind, ToolResult, Usage
from rulebook_ralph.supervisor import Ended, StartFailure

MAX_TOOL_RESULTS = 200
MAX_MESSAGE = 1000
_NOT_FOUND = 127
_NOT_EXECUTABLE = 126


_NO_USAGE = Usage()


@dataclass(frozen=True, slots=True)
class Transcript:
    """What was read from an agent's stream.

    `succeeded` is True for a terminal success event, False for a terminal error (told by `fault`), None if the stream
    ended without either; then `fault` is what the agent was struggling with last, if anything.
    """

    succeeded: bool | None = None
    final_text: str = ""
    tool_results: tuple[ToolResult, ...] = ()
    usage: Usage = _NO_USAGE
    cost_usd: float | None = None
    session_id: str = ""
    fault: AgentFault | None = None
    permission_denials: tuple[str, ...] = ()


class Reader(Protocol):
    """Reads one run's stdout. Takes blocks as they come, in constant memory, and never raises for what they say."""

    def feed(self, block: bytes) -> None: ...

    def close(self) -> Transcript:
        """The end of the stream."""
        ...


def fault(kind: ErrorKind, message: str, *, resets_at: str | None = None) -> AgentFault:
    return AgentFault(kind=kind, message=message.strip()[:MAX_MESSAGE], resets_at=resets_at)


def conclude(agent: str, ended: Ended, transcript: Transcript, *, output: str = "") -> AgentResult:
    """The result of a run. Ralph's own kill outranks all, then what the stream's end says, then the exit code."""
    status, why = _status(ended, transcript)
    return AgentResult(
        agent=agent,
        status=status,
        final_text=transcript.final_text,
        tool_results=transcript.tool_results,
        usage=transcript.usage,
        cost_usd=transcript.cost_usd,
        session_id=transcript.session_id,
        fault=why,
        exit_code=ended.exit_code,
        killed_by=ended.killed_by,
        permission_denials=transcript.permission_denials,
        output=output,
        output_bytes=ended.output_bytes,
        duration_ms=ended.duration_ms,
    )


def _status(ended: Ended, transcript: Transcript) -> tuple[AgentStatus, AgentFault | None]:
    if ended.killed_by:
        informative = transcript.fault is not None and transcript.fault.kind != "unknown"
        return "killed", transcript.fault if informative else None
    if ended.failure:
        return "failed", _cannot_start(ended.failure)
    if transcript.succeeded is False:
        return "failed", transcript.fault or fault("unknown", "it reported an error and did not say which")
    if ended.exit_code != 0:
        return "failed", transcript.fault or _crash(ended)
    if transcript.succeeded is None:
        return "truncated", transcript.fault or fault("cut-off", "its output ended before it said that it had finished")
    return "finished", None


def _cannot_start(failure: StartFailure) -> AgentFault:
    if failure.errno == errno.E2BIG:
        return fault("context-too-long", f"{failure.message}: the prompt does not fit; set promptVia: stdin (or file)")
    if failure.errno in (errno.ENOENT, errno.EACCES, errno.ENOEXEC):
        return fault("not-installed", f"{failure.message}; install it, or set tools.executors[].command")
    return fault("crash", f"it could not be started: {failure.message}")


def _crash(ended: Ended) -> AgentFault:
    code = ended.exit_code
    said = ended.stderr_tail.strip()[-MAX_MESSAGE // 2 :]
    ending = f": {said}" if said else ""
    if code in (_NOT_FOUND, _NOT_EXECUTABLE):
        why = "not found" if code == _NOT_FOUND else "not executable"
        return fault("not-installed", f"exit code {code}, so a command is {why}{ending}")
    if code is not None and code < 0:
        return fault("crash", f"ended by {_signal_name(-code)}, which Ralph did not send{ending}")
    return fault("crash", f"exit code {code}{ending}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
