"""The agents of a run: which agent an executor's id names, made once, with the environment it gets."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import Event

from msgspec.structs import replace

from rulebook_ralph.agents import registry
from rulebook_ralph.agents.agent import Agent, AgentSettings
from rulebook_ralph.agents.local_time import local_clock
from rulebook_ralph.agents.models import FoundModel, model_from
from rulebook_ralph.agents.permission_advice import allowing
from rulebook_ralph.agents.prices import priced_spend, with_cost
from rulebook_ralph.agents.takeover import taken_over
from rulebook_ralph.core.evidence import AgentResult
from rulebook_ralph.core.notify_urls import resolved, secrets, without_addresses
from rulebook_ralph.core.question import Ask, Asked
from rulebook_ralph.core.redaction import Redactor
from rulebook_ralph.core.settings import Config
from rulebook_ralph.core.spending import Spend, nobody_pays
from rulebook_ralph.errors import RalphError


@dataclass(frozen=True, slots=True)
class Member:
    """An agent and the environment it runs in."""

    agent: Agent
    environment: Mapping[str, str]


class Crew:
    """Every agent that the configuration names. All of them get `environment`, but for where notifications go."""

    def __init__(self, config: Config, environment: Mapping[str, str]) -> None:
        self._config = config
        self._environment = environment
        self._given = without_addresses(environment, config.notify.urls)
        self._members: dict[str, Member] = {}
        self._substitutes: dict[str, tuple[str, datetime | None]] = {}

    def succeeded_by(self, config: Config) -> "Crew":
        """The agents of another configuration; who works in place of a limited one goes on doing so."""
        other = Crew(config, self._environment)
        known = {each.id for each in config.tools.executors}
        other._substitutes = {
            executor: stand_in for executor, stand_in in self._substitutes.items() if stand_in[0] in known
        }
        return other

    def member(self, executor: str) -> Member:
        """The agent of that id. Raises RalphError (INVALID) for one that cannot be made."""
        if executor not in self._members:
            settings = settings_of(self._config, executor)
            environment = {**self._given, **settings.env}
            self._members[executor] = Member(registry.create(settings, environment), environment)
        return self._members[executor]

    def name_of(self, executor: str) -> str:
        """How the agent of that id is called in output."""
        return next((each.name for each in self._config.tools.executors if each.id == executor), "") or executor

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

    def chain(self, executor: str) -> tuple[str, ...]:
        """The executor, its fallback, the fallback of that one, and so on, as configured; each once."""
        found = [executor]
        while (following := self._fallback(found[-1])) and following not in found:
            found.append(following)
        return tuple(found)

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

    def completed(self, result: AgentResult, executor: str) -> AgentResult:
        """The result with its cost, and with the setting that would allow what the agent was refused."""
        result = self.priced(result, executor)
        refused = result.fault is not None and result.fault.kind == "permission"
        if not refused and not result.permission_denials:
            return result
        allowed_by = allowing(settings_of(self._config, executor), result.permission_denials)
        fault = result.fault
        if fault is not None and refused and allowed_by and "tools.executors" not in fault.message:
            fault = replace(fault, message=f"{fault.message}; to allow it: {allowed_by}")
        return replace(result, allowed_by=allowed_by, fault=fault)

    def taken_over(self, executor: str, output_file: Path, *, started: datetime) -> AgentResult:
        """What an agent did whose Ralph died, from its raw output; the executor may be gone from the configuration."""
        settings = settings_of(self._config, executor)
        now = local_clock({**self._environment, **settings.env})
        return self.priced(taken_over(settings, output_file, started=started, now=now), executor)

    def judging_model(self, cancelled: Event, *, spend: Spend = nobody_pays) -> FoundModel:
        """The model that judges semantic criteria, or why there is none."""
        return self.model(self._config.judge, cancelled, spend=spend, named_by="judge")

    def model(self, asked: Asked, cancelled: Event, *, spend: Spend = nobody_pays, named_by: str) -> FoundModel:
        """The model that `asked` names, or why there is none. `spend` is told what each question took; `named_by` is
        the key of the configuration where `asked` stands.
        """
        return model_from(
            asked,
            settings_of=lambda executor: settings_of(self._config, executor),
            default_executor=self._config.defaults.executor,
            make_agent=registry.create,
            environment=self._given,
            scratch=None,
            cancelled=cancelled,
            spend=priced_spend(spend, self._config.prices),
            named_by=named_by,
        )

    def summarizing_model(self, cancelled: Event, *, spend: Spend) -> Ask | None:
        """The model that says what completed tasks brought about; None where none is configured. Raises RalphError."""
        chosen = self._config.defaults.summarizer
        if not chosen:
            return None
        asked = replace(self._config.judge, executor=chosen)
        model = self.model(asked, cancelled, spend=spend, named_by="judge")
        if model.ask is None:
            raise RalphError(f"defaults.summarizer: {model.missing}; or leave it out, to have the agents' own words")
        return model.ask

    def redactor(self) -> Redactor:
        """Takes out the secrets of the environment and of what agents, gates and hooks are given besides, and
        where notifications go.
        """
        config = self._config
        given = [
            *(executor.env for executor in config.tools.executors),
            *(step.env for step in config.verification.steps),
            *(hook.env for hook in config.hooks),
        ]
        notified = secrets(resolved(config.notify.urls, self._environment))
        given.append({f"NOTIFY_TOKEN_{index}": part for index, part in enumerate(notified)})
        own = {f"{name}\0{index}": value for index, env in enumerate(given) for name, value in env.items()}
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
