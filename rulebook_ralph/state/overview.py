"""What `status` shows of a PRD, decoded without the rest: of a large task list that is most of its cost."""

import msgspec

from rulebook_ralph.core.model import PRD_VERSION, Prd, Status, Totals, Value
from rulebook_ralph.errors import RalphError
from rulebook_ralph.state import codec


class TaskOverview(Value, frozen=True, kw_only=True):
    """A task as a row of a table."""

    id: str
    title: str
    status: Status = "pending"
    stage: str | None = None
    attempts: dict[str, int] = {}
    iteration_number: int | None = None
    blocked_reason: str | None = None
    cost_usd: float = 0.0


class Overview(Value, frozen=True, kw_only=True):
    """The task list as a table."""

    version: int
    project: str
    branch: str = ""
    tasks: tuple[TaskOverview, ...] = ()
    totals: Totals = Totals()

    @property
    def newest(self) -> int:
        """The number of the newest iteration that it knows of; 0 where it knows of none."""
        return max((task.iteration_number or 0 for task in self.tasks), default=0)


def decode(data: bytes, *, name: str) -> Overview:
    """The overview in the bytes of prd.json. Raises RalphError with file, line and what is wrong with what it reads."""
    try:
        overview = msgspec.json.decode(data, type=Overview)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return of(codec.decode_prd_quick(data, name=name))
    if overview.version > PRD_VERSION:
        raise RalphError(f"{name}: {codec.NEWER}")
    if len({task.id.casefold() for task in overview.tasks}) < len(overview.tasks):
        return of(codec.decode_prd(data, name=name))  # which says where one is there twice
    return overview


def of(prd: Prd) -> Overview:
    """A whole list as a table."""
    return msgspec.convert(msgspec.to_builtins(prd), Overview)
