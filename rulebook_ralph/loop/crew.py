"""The agents of a run: which agent an executor's id names, made once, with the environment it gets."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from threading import Event

from rulebook_ralph.agents import registry
from rulebook_ralph.agents.agent import Agent, AgentSettings
from rulebook_ralph.agents.models import JudgingModel, judge_from
from rulebook_ralph.agents.prices import with_cost
from rulebook_ralph.core.evidence import AgentResult
from rulebook_ralph.core.redaction import Redactor
from rulebook_ralph.core.settings import Config


@dataclass(frozen=True, slots=True)
class Member:
    """An agent and the environment it runs in."""

    agent: Agent
    environment: Mapping[str, str]


class Crew:
    """Every agent that the configuration names. `environment` is the one that all of them get."""

    def __init__(self, config: Config, environment: Mapping[str, str]) -> None:
        self._config = config
        self._environment = environment
        self._members: dict[str, Member] = {}
        self._substitutes: dict[str, tuple[str, datetime | None]] = {}

    def member(self, executor: str) -> Member:
        """The agent of that id. Raises RalphError (INVALID) for one that cannot be made."""
        if executor not in self._members:
            settings = settings_of(self._config, executor)
            environment = {**self._environment, **settings.env}
            self._members[executor] = Member(registry.create(settings, environment), environment)
        return self._members[executor]

    def acting(self, executor: str, now: datetime) -> str:
        """The executor that works in place of this one now; itself, unless a fallback has taken over."""
        return self._line(executor, now)[-1]

    def fallback_of(self, executor: str, now: datetime | None = None) -> str:
        """The executor that can take over from this one: its fallback, or who works in place of that one; empty where
        there is none. Without `now`, whoever is replaced stays so.
        """
        configured = self._fallback(executor)
        line = self._line(configured, now) if configured else [executor]
        return "" if executor in line else line[-1]

    def substitute(self, executor: str, *, until: datetime | None, now: datetime | None = None) -> str:
        """Let the fallback take over until that time, None for the rest of the run; returns the id of who works then.

        There must be one (`fallback_of`).
        """
        other = self.fallback_of(executor, now)
        self._substitutes[executor] = (self._fallback(executor), until)
        return other

    def _fallback(self, executor: str) -> str:
        return next((each.fallback for each in self._config.tools.executors if each.id == executor), "")

    def _line(self, executor: str, now: datetime | None) -> list[str]:
        """The executor, who stands in for it, who stands in for that one, and so on."""
        line = [executor]
        while line[-1] in self._substitutes:
            other, until = self._substitutes[line[-1]]
            if until is not None and now is not None and until <= now:
                break
            line.append(other)
        return line

    def priced(self, result: AgentResult, executor: str) -> AgentResult:
        """The result with its cost by the configured prices, where the agent told tokens and no cost."""
        model = settings_of(self._config, executor).model
        return with_cost(result, self._config.prices, executor=executor, model=model)

    def judging_model(self, cancelled: Event) -> JudgingModel:
        """The model that judges semantic criteria, or why there is none."""
        return judge_from(
            self._config.judge,
            settings_of=lambda executor: settings_of(self._config, executor),
            default_executor=self._config.defaults.executor,
            make_agent=registry.create,
            environment=self._environment,
            scratch=None,
            cancelled=cancelled,
        )

    def redactor(self) -> Redactor:
        """Takes out the secrets of the environment and of every agent's own settings."""
        own = {
            f"{name}\0{executor.id}": value
            for executor in self._config.tools.executors
            for name, value in executor.env.items()
        }
        return Redactor({**self._environment, **own})


def settings_of(config: Config, executor: str) -> AgentSettings:
    """The configured executor of that id, else the built-in agent of that name."""
    for configured in config.tools.executors:
        if configured.id == executor:
            return AgentSettings(
                id=configured.id,
                type=configured.type,
                command=configured.command,
                args=configured.args,
                env=configured.env,
                model=configured.model,
                permissions=configured.permissions,
                prompt_via=configured.prompt_via,
                endpoint=configured.endpoint,
            )
    return AgentSettings(id=executor, type=executor)
