"""Errors that an agent tells of on stderr alone, ending with a bad exit code."""

from dataclasses import replace

from rulebook_ralph.agents.api_errors import api_error
from rulebook_ralph.agents.local_time import Now
from rulebook_ralph.agents.supervised import Supplement
from rulebook_ralph.agents.transcript import MAX_MESSAGE, Transcript
from rulebook_ralph.supervisor import Ended


def told_by_stderr(now: Now, *, log_in: str) -> Supplement:
    """Adds the fault that stderr tells of, where the stream tells of none and the words mean something.

    `log_in` says what to do for one whom the provider does not know.
    """

    def supplement(transcript: Transcript, ended: Ended) -> Transcript:
        if transcript.fault or transcript.succeeded is False or not ended.exit_code or ended.exit_code < 0:
            return transcript
        error = api_error(ended.stderr_tail.strip()[-MAX_MESSAGE:], now())
        if error.kind == "unknown":
            return transcript
        return replace(transcript, fault=error.fault(log_in=log_in, prefix=f"exit code {ended.exit_code}: "))

    return supplement
