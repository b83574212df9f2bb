"""Ending an agent that tries again and again what cannot heal: with a wrong key claude goes on for three minutes."""

from threading import Event

import msgspec

from rulebook_ralph.core.evidence import AgentFault, AgentResult


class GivingUp(Event):
    """Set when the run is ordered to end, by `order`, or when a reader of the agent's stream has given up."""

    def __init__(self, order: Event) -> None:
        super().__init__()
        self._order = order
        self._fault: AgentFault | None = None

    def is_set(self) -> bool:
        return self._fault is not None or self._order.is_set()

    def give_up(self, why: AgentFault) -> None:
        self._fault = self._fault or why
        self.set()

    def outcome(self, result: AgentResult) -> AgentResult:
        """The result, in which an end that the reader brought about is the agent's failure and no interruption."""
        if self._fault is None or self._order.is_set() or result.killed_by != "interrupted":
            return result
        return msgspec.structs.replace(result, status="failed", killed_by=None, fault=self._fault)
