"""Every command that a project's configuration and task list can have run, each known by what it does.

Names, timeouts and the like are no part of the digest: a command that was agreed to stays so under another name.
"""

import hashlib
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from rulebook_ralph.core.criteria import STAGES, External, MultiStage, Verification
from rulebook_ralph.core.criteria_reading import part_verification, read_criteria
from rulebook_ralph.core.model import Task
from rulebook_ralph.core.settings import Config

SETUP = "workspace.setup"
"""What the setup of a checkout is called, as a command and as a gate."""
_WHOLE = msgspec.json.Encoder(order="sorted")


@dataclass(frozen=True, slots=True)
class ConfiguredCommand:
    """`place` says where it is configured (`gate tests`), `text` is what is run, `with_settings` the folder and the
    variables it gets, a text each. `digest` is of all that but the place.
    """

    place: str
    text: str
    with_settings: tuple[str, ...]
    digest: str

    def __str__(self) -> str:
        beside = f" ({', '.join(self.with_settings)})" if self.with_settings else ""
        return f"{self.place}: {self.text}{beside}"


def commands_of_config(
    config: Config, *, executors: bool = True, gates: bool = True, hooks: bool = True, setup: bool = True
) -> Iterator[ConfiguredCommand]:
    """Gates, the setup of their checkout, hooks, and agents that are more than a name of one that is installed."""
    if gates:
        for step in config.verification.steps:
            yield _shell(f"gate {step.name}", step.command, step.working_dir, step.env)
    if setup and config.workspace.setup.strip():
        yield _shell(SETUP, config.workspace.setup, ".", {})
    if hooks:
        for hook in config.hooks:
            if hook.command:
                yield _shell(f"hook {hook.name}", hook.command, ".", hook.env)
            else:
                yield _made(f"hook {hook.name}", f"plug-in {hook.plugin}", {"plugin": hook.plugin, "env": hook.env})
    for each in config.tools.executors if executors else ():
        if each.command or each.args or each.env or each.endpoint:
            line = f"{each.command or each.type} {shlex.join(each.args)}".rstrip()
            parts = {"type": each.type, "command": each.command, "args": each.args, "endpoint": each.endpoint}
            yield _made(f"agent {each.id}", line, parts | {"env": each.env})


def commands_of_tasks(tasks: Iterable[Task]) -> Iterator[ConfiguredCommand]:
    """The commands of the tasks' criteria; criteria that are not valid are left out, they are never run."""
    for task in tasks:
        for stage in STAGES:
            if stage in task.completion:
                criteria = read_criteria(task.completion[stage], stage, (), [])
                if criteria is not None:
                    yield from _of_verification(f"criterion {task.id} ({stage})", criteria.verification)


def _of_verification(place: str, verification: Verification) -> Iterator[ConfiguredCommand]:
    if isinstance(verification, External):
        yield _shell(place, verification.command, verification.working_dir, {})
    elif isinstance(verification, MultiStage):
        for part in verification.stages:
            yield from _of_verification(f"{place} {part.name}", part_verification(part))


def _shell(place: str, command: str, folder: str, env: Mapping[str, str]) -> ConfiguredCommand:
    return _made(place, command, {"command": command, "folder": folder, "env": env})


def _made(place: str, text: str, parts: dict[str, Any]) -> ConfiguredCommand:
    whole = {key: value for key, value in parts.items() if value}
    folder, endpoint = parts.get("folder", "."), parts.get("endpoint", "")
    shown = [f"in {folder}"] if folder != "." else []
    shown += [f"endpoint {endpoint}"] if endpoint else []
    shown += [f"{name}={value}" for name, value in parts["env"].items()]
    try:
        encoded = _WHOLE.encode(whole)
    except UnicodeEncodeError:  # a lone surrogate
        encoded = repr(sorted(whole.items())).encode("utf-8", "surrogatepass")
    return ConfiguredCommand(place, text, tuple(shown), hashlib.sha256(encoded).hexdigest())
