"""Completion hooks of the user's own (`hooks[]`): commands, and plug-ins from the entry points.

They can ask for another attempt, or stop; never complete. What goes wrong in one is a `HookFailed`, whoever wrote it.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any, NoReturn

import msgspec

from rulebook_ralph.checks.hook_command import STOP_REASONS, HookFailed, again, run_hook, stopped
from rulebook_ralph.checks.shell import Cancelled
from rulebook_ralph.core.evidence import SKIP, Verdict
from rulebook_ralph.core.printable import clipped, printable_block
from rulebook_ralph.core.settings import Hook
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.loop.evidence import Evidence, Gates
from rulebook_ralph.loop.pipeline import CompletionHook
from rulebook_ralph.loop.rules.commit import CommitHooks
from rulebook_ralph.loop.rules.criteria import StageCriteria
from rulebook_ralph.loop.rules.gates import GatesPass
from rulebook_ralph.loop.rules.hook_input import hook_input

GROUP = "rulebook_ralph.hooks"

RESERVED = frozenset(
    {
        "agent",
        "integrity",
        "blocked",
        "work",
        "gates",
        "earlier-tests",
        "test-counts",
        "stop-criteria",
        "contradictions",
        "promise",
        "criteria",
        "review",
        "commit",
        "pipeline",
    }
)
"""Names of Ralph's own rules: a verdict that bears one means that rule."""

_LOOK = 0.05


@dataclass(frozen=True, slots=True)
class HookTools:
    """What the user's hooks run with. `environment` is that of gates; `clean` takes secrets out of a text; `put_back`
    undoes what a hook changed in the tree, the state folder and git.
    """

    root: Path
    environment: Mapping[str, str]
    clean: Callable[[str], str]
    cancelled: Event
    put_back: Callable[[], object]


def load_plugins(hooks: tuple[Hook, ...]) -> Mapping[str, CompletionHook]:
    """The plug-ins that the hooks name, by the hook's name, each made anew; once, at the start of a run.

    Raises RalphError for one that cannot be loaded, and for a hook that is wrongly configured.
    """
    seen: set[str] = set()
    for hook in hooks:
        if bool(hook.command.strip()) == bool(hook.plugin.strip()):
            raise RalphError(f"hooks: '{hook.name}' needs either a `command` or a `plugin`")
        if hook.name in RESERVED or hook.name in seen or not hook.name.strip():
            raise RalphError(f"hooks: the name '{hook.name}' is taken or empty; give the hook another one")
        seen.add(hook.name)
    return {hook.name: _load(hook) for hook in hooks if hook.plugin.strip()}


def user_hooks(
    hooks: tuple[Hook, ...], plugins: Mapping[str, CompletionHook], tools: HookTools
) -> tuple[CompletionHook, ...]:
    """The configured hooks in their order. `plugins` are those of `load_plugins`."""
    return tuple(
        PluginHook(hook, plugins[hook.name], tools) if hook.name in plugins else CommandHook(hook, tools)
        for hook in hooks
    )


class CommandHook:
    """A shell command that reads the evidence (schemas/hook-input.schema.json) on its standard input."""

    def __init__(self, hook: Hook, tools: HookTools) -> None:
        self.name = hook.name
        self.priority = hook.priority
        self.required = hook.required
        self.shown_as = tools.clean(hook.command)
        self._hook = hook
        self._tools = tools

    def should_run(self, evidence: Evidence) -> bool:  # noqa: ARG002 - the command itself says when it has nothing to say
        return True

    def run(self, evidence: Evidence) -> Verdict:
        tools = self._tools
        known = hook_input(evidence, root=tools.root, gates=_gates_so_far(evidence, self.priority))
        own = {"RALPH_TASK": evidence.task.id, "RALPH_STAGE": evidence.stage}
        try:
            return run_hook(
                self._hook,
                json.dumps(known).encode(),  # ASCII: an agent's lone surrogates survive it
                root=tools.root,
                environment={**tools.environment, **own},
                clean=tools.clean,
                cancelled=tools.cancelled,
            )
        finally:
            _put_back(self.name, tools)


class PluginHook:
    """An object of the CompletionHook protocol from elsewhere, in a thread of its own that is left when it hangs.

    What the configuration does not say (a value that is the default) is the plug-in's own to say.
    """

    def __init__(self, hook: Hook, plugin: CompletionHook, tools: HookTools) -> None:
        self.name = hook.name
        self.priority = _priority(hook, plugin)
        self.required = hook.required or getattr(plugin, "required", False) is True
        self.shown_as = f"plug-in {hook.plugin}"
        self._timeout = _timeout(hook, plugin)
        self._plugin = plugin
        self._tools = tools

    def should_run(self, evidence: Evidence) -> bool:  # noqa: ARG002 - asked in the plug-in's thread
        return True

    def run(self, evidence: Evidence) -> Verdict:
        seen = _for_plugin(evidence, self.priority)
        try:
            answer = _within(self._timeout, self._tools, lambda: self._ask(seen))
        finally:
            _put_back(self.name, self._tools)
        return self._checked(answer)

    def _ask(self, evidence: Evidence) -> object:
        return self._plugin.run(evidence) if self._plugin.should_run(evidence) else SKIP

    def _checked(self, answer: object) -> Verdict:
        """The answer with every field of its type and every text made safe."""
        if not isinstance(answer, Verdict):
            raise HookFailed(f"answered with a {type(answer).__name__}, not a Verdict")
        try:
            verdict = msgspec.convert(msgspec.to_builtins(answer), Verdict)
        except (msgspec.MsgspecError, TypeError, ValueError) as error:
            raise HookFailed(f"answered with a Verdict that is none: {clipped(str(error))}") from error
        reason, feedback = (printable_block(self._tools.clean(text)) for text in (verdict.reason, verdict.feedback))
        match verdict.action:
            case "continue":
                return msgspec.structs.replace(again(self.name, feedback, reason), counts=verdict.counts)
            case "stop":
                if (why := verdict.stop_reason or "blocked") not in STOP_REASONS:
                    raise HookFailed(f"cannot stop with the reason '{why}', only {', '.join(STOP_REASONS)}")
                return stopped(self.name, why, reason or feedback)
            case action:  # the pipeline lets no hook complete
                return Verdict(action=action, reason=clipped(reason))


def _load(hook: Hook) -> CompletionHook:
    from importlib.metadata import entry_points  # noqa: PLC0415 - 38 ms, only where a plug-in is configured

    found = {point.name: point for point in entry_points(group=GROUP)}
    point = found.get(hook.plugin)
    if point is None:
        known = ", ".join(sorted(found)) or "none"
        raise RalphError(f"hook {hook.name}: there is no plug-in '{hook.plugin}'; installed are: {known}")
    try:
        plugin: object = point.load()()
    except Exception as error:  # what a plug-in raises is not ours to foresee
        problem = f"{type(error).__name__}: {clipped(str(error))}"
        raise RalphError(
            f"hook {hook.name}: its plug-in {point.value} cannot be loaded ({problem}); reinstall or remove it",
            exit_code=ExitCode.INVALID,
        ) from error
    if not all(callable(getattr(plugin, method, None)) for method in ("should_run", "run")):
        raise RalphError(f"hook {hook.name}: its plug-in {point.value} gives no object with should_run and run")
    return plugin  # type: ignore[return-value]  # it has the methods; name and priority are the configuration's


def _own(plugin: CompletionHook, hook: Hook, key: str) -> Any:
    """The plug-in's own value, where the configuration does not say another one than the default."""
    default = next(field.default for field in msgspec.structs.fields(Hook) if field.name == key)
    return getattr(plugin, key, None) if getattr(hook, key) == default else None


def _priority(hook: Hook, plugin: CompletionHook) -> int:
    own = _own(plugin, hook, "priority")
    return own if type(own) is int else hook.priority


def _timeout(hook: Hook, plugin: CompletionHook) -> float:
    own = _own(plugin, hook, "timeout")
    return float(own) if type(own) in (int, float) and own > 0 else hook.timeout


def _gates_so_far(evidence: Evidence, priority: int) -> Gates | None:
    """What the gates said, for a hook that comes after them. It never makes them run."""
    return evidence.run_gates() if evidence.steps and priority > GatesPass.priority else None


def _for_plugin(evidence: Evidence, priority: int) -> Evidence:
    """Evidence with which a thread that may be left behind can run nothing that Ralph would run beside it."""
    gates = _gates_so_far(evidence, priority)
    criteria = evidence.run_criteria() if priority > StageCriteria.priority else None

    def not_yet(what: str) -> NoReturn:
        raise HookFailed(f"{what} not been run when a hook of priority {priority} is asked; give it a higher one")

    return replace(
        evidence,
        run_gates=lambda: gates if gates is not None else not_yet("the gates have"),
        run_criteria=lambda: criteria if criteria is not None else not_yet("the criteria have"),
        try_commit=lambda: None if priority > CommitHooks.priority else not_yet("the commit hooks have"),
    )


def _within(seconds: float, tools: HookTools, work: Callable[[], object]) -> object:
    """What `work` returns, run in a thread that nothing waits for after its time. Raises HookFailed, and Cancelled."""
    answers: SimpleQueue[tuple[object, BaseException | None]] = SimpleQueue()

    def answer() -> None:
        try:
            answers.put((work(), None))
        except BaseException as error:  # noqa: BLE001 - also sys.exit in a plug-in
            answers.put((None, error))

    Thread(target=answer, daemon=True, name="ralph-hook").start()
    left = seconds
    while True:
        try:
            value, error = answers.get(timeout=min(_LOOK, left))
            break
        except Empty:
            left -= _LOOK
        if tools.cancelled.is_set():
            raise Cancelled
        if left <= 0:
            raise HookFailed(f"did not end within {seconds:g} s")
    if isinstance(error, HookFailed | Cancelled):
        raise error
    if error is not None:
        raise HookFailed(f"{type(error).__name__}: {clipped(tools.clean(str(error)))}") from error
    return value


def _put_back(name: str, tools: HookTools) -> None:
    try:
        tools.put_back()
    except Exception as error:
        problem = f"what the hook '{name}' changed could not be put back: {clipped(str(error))}; look at git status"
        raise RalphError(problem, exit_code=ExitCode.UNEXPECTED) from error
