"""Which adapter an agent's type names: a built-in one, or an entry point of the group `rulebook_ralph.agents`; and what
each can do, which stands here so that asking costs nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from importlib import import_module
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from rulebook_ralph.agents.agent import Agent
from rulebook_ralph.config.settings import Executor
from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks.text import nearest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from rulebook_ralph.agents.reader import Reader

GROUP = "rulebook_ralph.agents"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What Ralph can do with an agent. A plug-in's class may carry one as `capabilities`.

    `adapter`: module and class of a built-in one. `prompt` is how the prompt goes in. `tokens`, `cost` (in dollars) and
    `session` are told by the agent. `permissions` are the modes it can be held to; empty where that is left to its
    command. `limits`: how a usage or rate limit is recognised (`fields`, by its error's `words`, or not at all where
    empty). `endpoint`: whether it can attach to a server. `needs` is the setting without which it cannot be used.
    """

    adapter: str = ""
    _: KW_ONLY
    prompt: str = "stdin"
    tokens: bool = True
    cost: bool = False
    session: bool = True
    permissions: tuple[str, ...] = ("full", "edit", "ask")
    limits: str = "words"
    endpoint: bool = False
    needs: str = ""


BUILT_IN: Mapping[str, Capabilities] = MappingProxyType(
    {
        "claude": Capabilities("claude:Claude", cost=True, limits="fields"),
        "codex": Capabilities("codex:Codex"),
        "gemini": Capabilities("gemini:Gemini", limits="fields"),
        "opencode": Capabilities("opencode:OpenCode", cost=True, limits="fields", endpoint=True),
        "qwen": Capabilities("gemini:Qwen"),
        "amp": Capabilities("documented:Amp", permissions=("full",)),
        "copilot": Capabilities("documented:Copilot", prompt="argument", tokens=False, limits="fields"),
        "cursor": Capabilities("documented:Cursor", prompt="argument"),
        "aider": Capabilities("aider:Aider", prompt="file", cost=True, session=False),
        "command": Capabilities(
            "command:CommandAgent",
            prompt="stdin, file or argument",
            tokens=False,
            session=False,
            permissions=(),
            limits="",
            needs="tools.executors[].command",
        ),
        "scripted": Capabilities(
            "command:Scripted", cost=True, session=False, permissions=(), limits="", needs="tools.executors[].args"
        ),
    }
)
_OTHER_NAMES = {"claude-code": "claude"}
_SHORT_MODEL = frozenset({"codex", "gemini", "qwen", "opencode"})

Factory = Callable[[Executor, Mapping[str, str]], Agent]


def type_of(settings: Executor) -> str:
    """The type under the one name that it has here."""
    return _OTHER_NAMES.get(settings.type, settings.type)


def model_options(settings: Executor) -> Iterator[str]:
    """The options in an agent's `args` that choose a model, with their values. What looks like an option is no value,
    and for some agents `-m` is a message or a mode.
    """
    names = ("--model", "-m") if type_of(settings) in _SHORT_MODEL else ("--model",)
    for arg, following in pairwise((*settings.args, "")):
        if arg in names and following and not following.startswith("-"):
            yield from (arg, following)
        elif arg.startswith("--model="):
            yield arg


def chosen_model(settings: Executor) -> str:
    """The model that an agent is told to use; empty where that is left to it."""
    return next((option.removeprefix("--model=") for option in reversed([*model_options(settings)])), settings.model)


def create(settings: Executor, environment: Mapping[str, str]) -> Agent:
    """The agent as configured. `environment` is the one it will run in; its PATH decides where programs are found.

    Raises RalphError for a type that is unknown, or settings that the adapter cannot use.
    """
    known = capabilities_of(settings)
    if known and known.permissions and settings.permissions not in known.permissions:
        raise RalphError(
            f"agent {settings.id}: {settings.type} cannot be held to permissions: {settings.permissions} (it knows "
            f"{', '.join(known.permissions)}); set tools.executors[].permissions, or use another agent"
        )
    if known and settings.endpoint and not known.endpoint:
        able = ", ".join(name for name, each in BUILT_IN.items() if each.endpoint)
        raise RalphError(
            f"agent {settings.id}: {settings.type} cannot attach to a server; remove tools.executors[].endpoint "
            f"(only {able} takes one)"
        )
    return _factory(settings)(settings, environment)


def capabilities_of(settings: Executor) -> Capabilities | None:
    """What agents of that type can do; None for a plug-in that does not say. Raises RalphError as `create` does."""
    stated = BUILT_IN.get(type_of(settings)) or getattr(_factory(settings), "capabilities", None)
    return stated if isinstance(stated, Capabilities) else None


def known_types() -> tuple[str, ...]:
    """The types that there are: the built-in ones, then those of plug-ins."""
    return (*BUILT_IN, *sorted(_entry_points().keys() - BUILT_IN.keys()))


def reader_class(settings: Executor) -> "type[Reader]":
    """What reads the streams of that type of agent; of one that is not built in, it is plain text."""
    built_in = settings if type_of(settings) in BUILT_IN else replace(settings, type="command")
    return cast("type[Reader]", _factory(built_in).reader)  # type: ignore[attr-defined]


def _factory(settings: Executor) -> Factory:
    if known := BUILT_IN.get(type_of(settings)):
        module, _, name = known.adapter.partition(":")
        return cast("Factory", getattr(import_module(f"rulebook_ralph.agents.{module}"), name))
    found = _entry_points()
    if settings.type not in found:
        types = (*BUILT_IN, *sorted(found))
        near = nearest(settings.type, types)
        if settings.type == settings.id:  # a name that the configuration does not have stands for its type
            problem, hint = f"there is no agent {settings.id!r}", "name one of these, or add it to tools.executors"
        else:
            problem, hint = f"agent {settings.id}: unknown type {settings.type!r}", "set tools.executors[].type"
        raise RalphError(f"{problem}, known are {', '.join(types)}; {f'did you mean {near}?' if near else hint}")
    point = found[settings.type]
    try:
        return cast("Factory", point.load())
    except Exception as error:  # what a plug-in raises is not ours to foresee
        problem = f"agent {settings.id}: its plug-in {point.value} cannot be loaded: {error}; reinstall or remove it"
        raise RalphError(problem) from error


def _entry_points() -> "dict[str, EntryPoint]":
    from importlib.metadata import entry_points  # noqa: PLC0415 - 38 ms, only for a type that is not built in

    return {point.name: point for point in entry_points(group=GROUP)}
