"""The agents of a run: which agent an executor's id names, made once, with the environment it gets."""

from collections.abc import Mapping
from dataclasses import dataclass
from threading import Event

from rulebook_ralph.agents import registry
from rulebook_ralph.agents.agent import Agent, AgentSettings
from rulebook_ralph.agents.models import JudgingModel, judge_from
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

    def member(self, executor: str) -> Member:
        """The agent of that id. Raises RalphError (INVALID) for one that cannot be made."""
        if executor not in self._members:
            settings = settings_of(self._config, executor)
            environment = {**self._environment, **settings.env}
            self._members[executor] = Member(registry.create(settings, environment), environment)
        return self._members[executor]

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
            )
    return AgentSettings(id=executor, type=executor)
