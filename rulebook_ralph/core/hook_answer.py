"""What Claude Code tells a Stop hook, and what the hook answers. Values and pure functions."""

import json
from typing import Literal

import msgspec

from rulebook_ralph.errors import RalphError

MOST_BYTES = 16 * 1024 * 1024
"""The longest input that is read, in bytes: the last message of a turn is whole in it."""

LONGEST_ROW = 8
"""So many blocks in a row, with no tool used in between, Claude Code allows; the next one ends the turn."""


class StopInput(msgspec.Struct, frozen=True):
    """The fields that count; Claude Code may leave any out and give others. All of it is untrusted."""

    session_id: str = ""
    transcript_path: str = ""
    last_assistant_message: str = ""
    background_tasks: tuple[msgspec.Raw, ...] = ()


class Answer(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Without a decision the turn ends; `reason` goes to the agent, `system_message` to the person."""

    decision: Literal["", "block"] = ""
    reason: str = ""
    system_message: str = ""

    def encoded(self) -> str:
        """As a hook prints it: nothing at all where there is nothing to say."""
        return "" if self == Answer() else msgspec.json.encode(self).decode()


def read(data: bytes) -> StopInput:
    """Raises RalphError for what is no input of a hook."""
    if len(data) > MOST_BYTES:
        raise RalphError(f"the hook's input is longer than {MOST_BYTES // 1024 // 1024} MB")
    try:
        try:
            return msgspec.json.decode(data, type=StopInput)
        except msgspec.DecodeError:  # maybe half of a character, which Node writes and few others read
            text = json.dumps(json.loads(data), ensure_ascii=False)
            return msgspec.json.decode(text.encode("utf-8", "replace"), type=StopInput)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise RalphError(f"this is no input of a Claude Code hook: {str(error)[:200]}") from None


def longest_row(configured: str | None) -> int | None:
    """How many blocks in a row the turn survives, by CLAUDE_CODE_STOP_HOOK_BLOCK_CAP; None without a limit."""
    if configured is None or not configured.isascii() or not configured.isdecimal():
        return LONGEST_ROW
    return int(configured) or None
