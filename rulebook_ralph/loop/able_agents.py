"""Whether somebody can work for an executor: it itself, or one of those that stand in for it, each looked at."""

from collections.abc import Callable

from rulebook_ralph.agents.agent import Probe
from rulebook_ralph.core.settings import Config
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.loop.crew import Crew, settings_of


class AbleAgents:
    """Looks at each executor once, and tells what is wrong with it once."""

    def __init__(self, config: Config, crew: Crew, notice: Callable[[str, str], None]) -> None:
        self._config = config
        self._crew = crew
        self._notice = notice
        self._probes: dict[str, Probe] = {}

    def require(self, executor: str) -> None:
        """Whoever cannot be started is replaced for the run. Raises RalphError (exit 5) where nobody is left, and for
        one that cannot be made at all: that is better known before it is needed.
        """
        line = self._crew.chain(executor)
        new = [each for each in line if each not in self._probes]
        for each in new:
            self.probe(each)
            self._warn_of_server(each)
        absent = [each for each in line if not self._probes[each].installed]
        if absent == list(line):
            others = f"; nor can its fallback: {', '.join(line[1:])}" if line[1:] else ""
            raise RalphError(f"{self._probes[executor].problem}{others}", exit_code=ExitCode.AGENT)
        for each in reversed(absent):
            self._replace(each, first=each == executor, told=each not in new)

    def probe(self, executor: str) -> Probe:
        """How the executor's own probe ended, looked at once. Raises RalphError for one that cannot be made."""
        if executor not in self._probes:
            self._probes[executor] = self._crew.member(executor).agent.probe()
        return self._probes[executor]

    def _replace(self, executor: str, *, first: bool, told: bool) -> None:
        others = self._crew.chain(executor)[1:]
        able = any(self._probes[other].installed for other in others if other in self._probes)
        other = self._crew.substitute(executor, until=None) if able and self._crew.fallback_of(executor) else ""
        if told:
            return
        follows = f"; going on with {other}" if other and first else "; it cannot take over"
        self._notice("warning", f"{self._probes[executor].problem}{follows}")

    def _warn_of_server(self, executor: str) -> None:
        settings = settings_of(self._config, executor)
        if settings.endpoint and settings.permissions != "full":
            self._notice(
                "warning",
                f"agent {executor} works on the server at {settings.endpoint}, whose own rules hold: permissions: "
                f"{settings.permissions} is not heeded; restrict the server itself, or remove the endpoint",
            )
