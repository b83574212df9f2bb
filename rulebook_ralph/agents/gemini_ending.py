"""What gemini tells beside its stream of events: by its exit code, and on stderr. Pure."""

import re
from dataclasses import replace
from datetime import datetime

from rulebook_ralph.agents.api_errors import api_error
from rulebook_ralph.agents.stream import decode_event, table, text
from rulebook_ralph.agents.transcript import Transcript, fault
from rulebook_ralph.core.evidence import AgentFault, ErrorKind
from rulebook_ralph.supervisor import Ended

LOG_IN = "set a valid GEMINI_API_KEY, or log in: start gemini and type /auth"

_UNTRUSTED = (
    "gemini does not run in a folder it was not told to trust; set GEMINI_CLI_TRUST_WORKSPACE: 'true' in "
    "tools.executors[].env, or trust the folder in gemini itself"
)
_BY_EXIT_CODE: dict[int, tuple[ErrorKind, str]] = {
    41: ("authentication", f"gemini has no login; {LOG_IN}"),
    53: ("max-turns", "gemini reached its limit of turns (model.maxSessionTurns in its settings)"),
    55: ("permission", _UNTRUSTED),
}
_RETRY = re.compile(r"^Attempt \d+ failed(?: with status (?P<status>\d{3}))?.*", re.MULTILINE)
_JSON = re.compile(r"^\{$", re.MULTILINE)


def with_ending(transcript: Transcript, ended: Ended, now: datetime) -> Transcript:
    """The transcript with the fault that its stream did not tell; one that it told, and success, stay as they are."""
    if transcript.succeeded is not None:
        return transcript
    told = _json_error(ended.stderr_tail, now) or _by_exit_code(ended.exit_code) or _retrying(ended.stderr_tail, now)
    return replace(transcript, fault=transcript.fault or told)


def _by_exit_code(code: int | None) -> AgentFault | None:
    known = _BY_EXIT_CODE.get(code or 0)
    return fault(*known) if known else None


def _json_error(stderr: str, now: datetime) -> AgentFault | None:
    """With `--output-format json` the error is a JSON document at the end of stderr."""
    starts = [found.start() for found in _JSON.finditer(stderr)]
    document = decode_event(stderr[starts[-1] :].encode("utf-8", "replace")) if starts else None
    error = table(table(document).get("error"))
    message = text(error.get("message"))
    return api_error(message, now, status=error.get("code")).fault(log_in=LOG_IN) if message else None


def _retrying(stderr: str, now: datetime) -> AgentFault | None:
    """It says nothing in its stream while it tries again, which can last for minutes."""
    tries = list(_RETRY.finditer(stderr))
    if not tries:
        return None
    status = tries[-1]["status"]
    said = tries[-1][0].partition("{")
    error = api_error(f"{said[1]}{said[2]}" or said[0], now, status=int(status) if status else None)
    return error.fault(log_in=LOG_IN, prefix="gemini was still retrying: ")
