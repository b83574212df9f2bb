"""The agents of a run: which agent an executor's id names, with the environment it gets."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from threading import Event

from msgspec.structs import replace

from rulebook_ralph.agents import registry
from rulebook_ralph.agents.access import allowing
from rulebook_ralph.agents.agent import Agent
from rulebook_ralph.agents.cli import conclude, output_sample
from rulebook_ralph.agents.events import fault as fault_of
from rulebook_ralph.agents.limit_times import local_clock
from rulebook_ralph.agents.models import (
    OWN_PROGRAM,
    READERS,
    AgentModel,
    AnthropicModel,
    FoundModel,
    ReadingPlace,
    full_name,
    problem_with_the_api,
)
from rulebook_ralph.agents.prices import Spend, known_cost, with_cost
from rulebook_ralph.agents.question import ANTHROPIC, ModelChoice
from rulebook_ralph.config.settings import Config, Executor
from rulebook_ralph.errors import RalphError
from rulebook_ralph.process.supervisor import Ended
from rulebook_ralph.tasks.results import AgentResult, Usage

_BLOCK = 256 * 1024


class Roster:
    """Every agent that the configuration names. All of them get `environment`, but for where notifications go.

    Whoever works in place of a limited agent in the roster `before` goes on doing so. `session` does the work of all
    of them, whatever is configured.
    """

    def __init__(
        self,
        config: Config,
        environment: Mapping[str, str],
        *,
        before: "Roster | None" = None,
        session: Agent | None = None,
    ) -> None:
        self._session = session
        self.given = config.notify.hidden_in(environment)
        self._config = config
        self._environment = environment
        known = {each.id for each in config.tools.executors}
        earlier = before._substitutes if before else {}  # noqa: SLF001 - its own class
        self._substitutes: dict[str, tuple[str, datetime | None]] = {
            executor: stand_in for executor, stand_in in earlier.items() if stand_in[0] in known
        }

    def agent(self, executor: str, model: str = "") -> tuple[Agent, Mapping[str, str]]:
        """The agent of that id, with another model if one is named, and the environment it runs in. Raises RalphError
        for one that cannot be made.
        """
        if self._session is not None:
            return self._session, self.given
        settings = self.settings_of(executor, model)
        environment = {**self.given, **settings.env}
        return registry.create(settings, environment), environment

    def settings_of(self, executor: str, model: str = "") -> Executor:
        """The configured executor of that id, else the built-in agent of that name."""
        found = next((each for each in self._config.tools.executors if each.id == executor), None)
        settings = found or Executor(id=executor, type=executor)
        return replace(settings, model=model) if model else settings

    def name_of(self, executor: str) -> str:
        """How the agent of that id is called in output."""
        return self.settings_of(executor).name or executor

    def acting(self, executor: str, now: datetime) -> str:
        """The executor that works in place of this one now; itself, unless a fallback has taken over."""
        return self._line(executor, now)[-1]

    def fallback_of(self, executor: str, now: datetime | None = None) -> str:
        """The executor that can take over from this one: its fallback, or who works in place of that one; empty where
        there is none. Without `now`, whoever is replaced stays so.
        """
        configured = self.settings_of(executor).fallback
        line = self._line(configured, now) if configured else [executor]
        return "" if executor in line else line[-1]

    def substitute(self, executor: str, *, until: datetime | None, now: datetime | None = None) -> str:
        """Let the fallback take over until that time, None for the rest of the run; returns the id of who works then.

        There must be one (`fallback_of`).
        """
        other = self.fallback_of(executor, now)
        self._substitutes[executor] = (self.settings_of(executor).fallback, until)
        return other

    def chain(self, executor: str) -> tuple[str, ...]:
        """The executor, its fallback, the fallback of that one, and so on, as configured; each once."""
        found = [executor]
        while (following := self.settings_of(found[-1]).fallback) and following not in found:
            found.append(following)
        return tuple(found)

    def completed(self, result: AgentResult, executor: str, model: str = "") -> AgentResult:
        """The result with its cost by the prices that are known, where the agent told tokens and no cost, and with the
        setting that would allow what the agent was refused.
        """
        settings, fault = self.settings_of(executor, model), result.fault
        result = with_cost(result, self._config.prices, settings)
        refused = fault is not None and fault.kind == "permission"
        if not refused and not result.permission_denials:
            return result
        allowed_by = allowing(settings)
        if fault and refused and allowed_by and "tools.executors" not in fault.message:
            fault = replace(fault, message=f"{fault.message}; to allow it: {allowed_by}")
        return replace(result, allowed_by=allowed_by, fault=fault)

    def taken_over(self, executor: str, output_file: Path, *, started: datetime) -> AgentResult:
        """What an agent did whose Ralph died, from its raw output; never `finished`, as nobody saw how it ended. Times
        that it told are meant at its last output. The executor may be gone from the configuration.
        """
        settings = self.settings_of(executor)
        kept, last = output_sample(), started
        reader = registry.reader_class(settings)(lambda _: None, lambda: last)
        with suppress(OSError):  # it died before there was any
            zone = local_clock({**self._environment, **settings.env})().tzinfo
            last = datetime.fromtimestamp(output_file.stat().st_mtime, zone)
            with output_file.open("rb") as file:
                while block := file.read(_BLOCK):
                    kept.feed(block)
                    reader.feed(block)
        if reader.close().succeeded is not False:
            seen = reader.fault or fault_of("cut-off", "Ralph itself ended before it could see the agent's end")
            reader.succeeded, reader.fault = None, seen
        lasted = max(0, round((last - started).total_seconds() * 1000))
        ended = Ended(0, duration_ms=lasted, output_bytes=kept.size)
        result = replace(conclude(settings.id, ended, reader, output=kept.text()), exit_code=None)
        return with_cost(result, self._config.prices, settings)

    def judging_model(self, cancelled: Event, *, spend: Spend | None = None) -> FoundModel:
        """The model that judges semantic criteria, or why there is none."""
        return self.model(self._config.judge, cancelled, spend=spend, named_by="judge.executor")

    def model(
        self,
        choice: ModelChoice,
        cancelled: Event,
        *,
        spend: Spend | None = None,
        named_by: str,
        reads: Callable[[], ReadingPlace] | None = None,
    ) -> FoundModel:
        """The model that `choice` names, or why there is none; without an executor the API where a key and the package
        are there, else the default agent. `spend` is told what each question took; `named_by` is the key of the
        configuration that names the executor; an agent of READERS works in the place that `reads` gives. Nothing is
        started, asked or imported before the first question.
        """

        def spent(names: tuple[str, ...], usage: Usage, cost_usd: float | None) -> None:
            if spend:
                spend(usage, known_cost(usage, cost_usd, self._config.prices, *names))

        problem = problem_with_the_api(self.given, named_by)
        executor = choice.executor or (self._asker(choice.model) if problem else ANTHROPIC)
        if executor == ANTHROPIC:
            if problem:
                return FoundModel(None, problem)
            key = named_by.replace(".executor", ".model")
            api = AnthropicModel(self.given, choice.model, choice.timeout, cancelled, spent, named_by=key)
            return FoundModel(api, name=full_name(choice.model))
        settings = self.settings_of(executor)
        kind = registry.type_of(settings)
        if kind in OWN_PROGRAM and not choice.executor:  # what it does with a question nobody knows
            return FoundModel(None, f"agent {executor} cannot be asked unless {named_by} names it")
        environment, reads = {**self.given, **settings.env}, reads if kind in READERS else None
        model = AgentModel(settings, environment, choice.model, choice.timeout, cancelled, spent, reads)
        try:
            model.agent()
        except RalphError as error:
            return FoundModel(None, str(error))
        return FoundModel(model, name=executor, executor=executor)

    def _asker(self, model: str) -> str:
        """Whom to ask where nobody is named: for a model of Claude's an agent of the type claude, else the default."""
        default = self._config.defaults.executor
        if not model.lower().startswith("claude-") or registry.type_of(self.settings_of(default)) == "claude":
            return default
        return next((each.id for each in self._config.tools.executors if registry.type_of(each) == "claude"), default)

    def secrets(self) -> Mapping[str, str]:
        """Everything whose values are to be kept out of what is written, if its name or form is that of a secret: the
        environment, what agents, gates and hooks are given besides, and where notifications go. Names are made unique
        by a NUL and a number.
        """
        config = self._config
        given = [
            *(executor.env for executor in config.tools.executors),
            *(step.env for step in config.verification.steps),
            *(hook.env for hook in config.hooks),
        ]
        own = {f"{name}\0{index}": value for index, env in enumerate(given) for name, value in env.items()}
        addresses = config.notify.secrets(self._environment)
        told = {f"NOTIFY_TOKEN\0{index}": value for index, value in enumerate(addresses)}
        return {**self._environment, **own, **told}

    def _line(self, executor: str, now: datetime | None) -> list[str]:
        """The executor, who stands in for it, who stands in for that one, and so on."""
        line = [executor]
        while line[-1] in self._substitutes:
            other, until = self._substitutes[line[-1]]
            if until is not None and now is not None and until <= now:
                break
            line.append(other)
        return line
