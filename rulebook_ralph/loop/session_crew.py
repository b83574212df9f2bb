"""The agents of a session's loop: the session itself does the work, others only judge it."""

from collections.abc import Mapping

from rulebook_ralph.agents.agent import Agent
from rulebook_ralph.core.settings import Config
from rulebook_ralph.loop.crew import Crew, Member


class SessionCrew(Crew):
    """`agent` is the session, by whatever name; it works in surroundings of its own."""

    def __init__(self, config: Config, environment: Mapping[str, str], agent: Agent) -> None:
        super().__init__(config, environment)
        self._agent = agent

    def member(self, executor: str) -> Member:
        if executor == self._agent.name:
            return Member(self._agent, self._given)
        return super().member(executor)
