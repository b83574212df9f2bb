"""What a loop in an interactive session knows of itself between two stops: a file in the private git folder."""

from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from rulebook_ralph.core.model import Value
from rulebook_ralph.errors import RalphError
from rulebook_ralph.session_place import SESSION_NOTE
from rulebook_ralph.state import disk

Driver = Literal["ralph", "ralph-loop"]
Order = Literal["", "pause", "cancel"]

_ORDER = "session-order"
_MOST_BYTES = 1 << 20


class SessionNote(Value, frozen=True, kw_only=True):
    """`since` is an ISO time. `tasks` is how many tasks it works on at most, `iteration` the one at work, `spent` how
    long each task was worked on, in seconds.

    `transcripts_read` is how many bytes of each transcript were taken into account; `row` after how many
    blocks in a row no tool was used. `after_death`: a run before it had died, which its first stop mends.
    """

    session_id: str
    since: str
    max_iterations: int
    driver: Driver = "ralph"
    tasks: int | None = None
    iterations: int = 0
    completed: int = 0
    cost_usd: float = 0.0
    tokens: int = 0
    iteration: int | None = None
    executor: str = ""
    reopen: tuple[str, ...] = ()
    stuck: tuple[str, ...] = ()
    spent: dict[str, float] = {}
    transcripts_read: dict[str, int] = {}
    row: int = 0
    opened_at: str = ""
    after_death: bool = False


def read(private: Path) -> SessionNote | None:
    """None where no session's loop goes on. Raises RalphError for a note that cannot be read."""
    path = private / SESSION_NOTE
    try:
        data = disk.read_file(path, largest=_MOST_BYTES)
        return msgspec.json.decode(data, type=SessionNote)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RalphError(f"{path} cannot be read ({str(error)[:100]}); remove it, then: ralph resume") from None


def write(private: Path, note: SessionNote) -> None:
    """Raises RalphError where it cannot be written."""
    disk.make_folder(private)
    disk.replace_file(private / SESSION_NOTE, msgspec.json.encode(note))


def remove(private: Path) -> None:
    """The loop is over; so are orders that it was given."""
    for name in (SESSION_NOTE, _ORDER):
        with suppress(OSError):
            (private / name).unlink()


def give_order(private: Path, order: Order) -> None:
    """What the session is to obey at its next stop; an empty one takes back what was asked before."""
    if order:
        disk.replace_file(private / _ORDER, order.encode("ascii"))
    else:
        (private / _ORDER).unlink(missing_ok=True)


def order_given(private: Path) -> Order:
    """What it was asked from another terminal; empty where nothing was."""
    with suppress(OSError, UnicodeDecodeError):
        match (private / _ORDER).read_text("ascii").strip():
            case "cancel":
                return "cancel"
            case "pause":
                return "pause"
    return ""
