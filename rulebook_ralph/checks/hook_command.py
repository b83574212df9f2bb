"""A completion hook that is a command of the user's: run in a shell, its answer read as a verdict."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event
from typing import Any

from rulebook_ralph import supervisor
from rulebook_ralph.checks.shell import SHELL, Cancelled
from rulebook_ralph.core.evidence import SKIP, StopReason, Verdict, feedback_excerpt
from rulebook_ralph.core.printable import clipped, printable_block
from rulebook_ralph.core.settings import Hook

LONGEST_ANSWER = 256 * 1024
"""Bytes of standard output; a hook that prints more is ended."""

STOP_REASONS: tuple[StopReason, ...] = ("blocked", "cancelled", "paused", "error")
"""Why a user's hook may stop."""

_AGAIN = 2


class HookFailed(Exception):  # noqa: N818 - what happened to a hook, in one line
    """The hook gave no answer that can be read: why, in one line."""


def run_hook(
    hook: Hook,
    evidence: bytes,
    *,
    root: Path,
    environment: Mapping[str, str],
    clean: Callable[[str], str],
    cancelled: Event,
) -> Verdict:
    """What the command says of the evidence (one JSON object) on its standard input: continue, stop or skip.

    Everything it started has ended. `clean` takes secrets out of what it printed. Raises HookFailed, and Cancelled.
    """
    output = bytearray()

    def collect(block: bytes) -> None:
        output.extend(block)
        if len(output) > LONGEST_ANSWER:
            raise HookFailed(f"printed more than {LONGEST_ANSWER} bytes")

    ended = supervisor.run(
        supervisor.Command(
            argv=(SHELL, "-c", hook.command),
            cwd=root,
            environment={**environment, **hook.env},
            stdin=evidence,
        ),
        limits=supervisor.Limits(wall_time=hook.timeout),
        on_output=collect,
        cancelled=cancelled,
    )
    if ended.killed_by == "interrupted":
        raise Cancelled
    if ended.failure is not None:
        raise HookFailed(f"could not start: {ended.failure.message}")
    if ended.killed_by is not None:
        raise HookFailed(f"did not end within {hook.timeout:g} s")
    said = printable_block(clean(ended.stderr_tail)).strip()
    if ended.exit_code == _AGAIN:
        return again(hook.name, said)
    if ended.exit_code != 0:
        words = f": {clipped(said.splitlines()[-1])}" if said else ""
        raise HookFailed(f"ended with exit code {ended.exit_code}{words}")
    return _answer(hook.name, bytes(output), clean)


def again(name: str, feedback: str, reason: str = "") -> Verdict:
    """Another attempt, with what the hook says."""
    said = feedback or reason
    line = clipped(reason or said.partition("\n")[0]) or "it gave no reason"
    return Verdict(
        action="continue",
        reason=f"the hook '{name}' asks for another attempt: {line}",
        feedback=f"The hook '{name}' of this project asks for another attempt:\n{feedback_excerpt(said or line)}",
    )


def stopped(name: str, stop_reason: StopReason, message: str) -> Verdict:
    """The end of the task (blocked) or of the run. Only a blocked attempt counts."""
    line = clipped(message.partition("\n")[0]) or "it gave no reason"
    return Verdict(
        action="stop",
        reason=f"the hook '{name}' says: {line}",
        feedback=f"The hook '{name}' of this project ended it ({stop_reason}):\n{feedback_excerpt(message or line)}",
        stop_reason=stop_reason,
        counts=stop_reason == "blocked",
    )


def _answer(name: str, output: bytes, clean: Callable[[str], str]) -> Verdict:
    if not output.strip():
        return SKIP
    answer = _object(output)
    words = {key: printable_block(clean(_text(answer, key))).strip() for key in ("reason", "message")}
    match answer.get("action"):
        case "skip":
            return Verdict(action="skip", reason=clipped(words["message"] or words["reason"]))
        case "continue":
            return again(name, words["message"], words["reason"])
        case "stop":
            reason = words["reason"] or "blocked"
            if reason not in STOP_REASONS:
                raise HookFailed(f"cannot stop with the reason {clipped(reason)!r}, only {', '.join(STOP_REASONS)}")
            return stopped(name, reason, words["message"])
        case "complete":
            raise HookFailed("answered with the action 'complete': no hook can complete a task")
        case other:
            raise HookFailed(f"answered with the action {clipped(clean(repr(other)))}, not skip, continue or stop")


def _object(output: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(output.decode("utf-8", "replace"))  # unlike msgspec's it takes lone surrogates
    except (RecursionError, ValueError) as error:
        raise HookFailed(f"printed what is no JSON: {clipped(str(error))}") from error
    if not isinstance(answer, dict):
        raise HookFailed("printed JSON that is no object")
    return answer


def _text(answer: Mapping[str, Any], key: str) -> str:
    value = answer.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise HookFailed(f"answered with a `{key}` that is no text")
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
