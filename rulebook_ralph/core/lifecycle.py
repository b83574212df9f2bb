"""What a task's status may become, as a `transitions` machine.

The machine says only what is legal; nothing happens in its callbacks. Rules: spec core-architecture (Task Status Schema
Extension) and DESIGN.md (The requirements, reconciled); `done` is for work that was there already (the same table,
"attempt that changed nothing").
"""

import functools
import itertools
import threading
from typing import Literal

from transitions import Machine, MachineError

from rulebook_ralph.core.model import Status

Trigger = Literal[
    "open", "retry", "advance", "send_back", "complete", "block", "interrupt", "unblock", "reopen", "done"
]

STATUSES: tuple[Status, ...] = ("pending", "in_iteration", "completed", "blocked")
TRANSITIONS: tuple[tuple[Trigger, Status, Status], ...] = (
    ("open", "pending", "in_iteration"),
    ("open", "in_iteration", "in_iteration"),
    ("retry", "in_iteration", "in_iteration"),
    ("advance", "in_iteration", "in_iteration"),
    ("send_back", "in_iteration", "in_iteration"),
    ("complete", "in_iteration", "completed"),
    ("block", "in_iteration", "blocked"),
    ("interrupt", "in_iteration", "pending"),
    ("unblock", "blocked", "pending"),
    ("reopen", "completed", "pending"),
    ("done", "pending", "completed"),
    ("done", "blocked", "completed"),
)
"""`advance` goes on to the next stage, `send_back` back to the first; neither changes the status."""


class IllegalTransition(Exception):  # noqa: N818 - the field's word for it
    """A trigger that the present status does not allow: a fault in Ralph, not in a file."""


class _Holder:
    """The one shared model; it holds a task's status only for the length of one trigger."""

    state: Status = "pending"


@functools.cache
def _machine() -> tuple[Machine, _Holder, threading.Lock]:
    holder = _Holder()
    machine = Machine(
        model=holder,
        states=list(STATUSES),
        transitions=[list(row) for row in TRANSITIONS],
        initial="pending",
        auto_transitions=False,
    )
    return machine, holder, threading.Lock()


def advance(status: Status, trigger: Trigger) -> Status:
    """The status after `trigger`; raises IllegalTransition where the diagram has no such arrow."""
    _, holder, lock = _machine()
    with lock:
        holder.state = status
        try:
            holder.trigger(trigger)  # type: ignore[attr-defined]  # transitions adds it to its model
        except (MachineError, AttributeError) as error:
            raise IllegalTransition(f"a task cannot {trigger} while {status}") from error
        return holder.state


def mermaid() -> str:
    """The machine as a Mermaid state diagram, read from the machine itself."""
    machine, _, _ = _machine()
    arrows: dict[tuple[str, str | None], list[str]] = {}
    for trigger, event in machine.events.items():
        for transition in itertools.chain.from_iterable(event.transitions.values()):
            arrows.setdefault((transition.source, transition.dest), []).append(trigger)
    lines = ["stateDiagram-v2", f"    [*] --> {machine.initial}"]
    lines += [f"    {source} --> {target}: {', '.join(names)}" for (source, target), names in arrows.items()]
    return "\n".join(lines) + "\n"
