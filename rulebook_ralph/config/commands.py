"""Every command that a project's configuration and task list can have run, each known by what it does.

Names, timeouts and the like are no part of the digest: a command that was agreed to stays so under another name.
"""

import hashlib
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from rulebook_ralph.config.settings import Config, Executor
from rulebook_ralph.tasks.criteria import STAGES, External, MultiStage, Verification
from rulebook_ralph.tasks.criteria_reading import read_criteria
from rulebook_ralph.tasks.model import Task
from rulebook_ralph.tasks.text import escaped

SETUP = "workspace.setup"
"""What the setup of a clone is called, as a command and as a gate."""
_WHOLE = msgspec.json.Encoder(order="sorted")
_BLANKS = re.compile(" {3,}")
_Env = Mapping[str, str] | None
_EMPTY_GLYPHS = re.compile("[\u034f\u115f\u1160\u2800\u3164\uffa0]")
"""They count as printable, and show nothing."""


def whole(text: str) -> str:
    """A text that a person is asked to agree to: uncut, on one line, nothing in it unseen or pushed out of sight."""
    seen = _EMPTY_GLYPHS.sub(lambda match: f"\\u{ord(match[0]):04x}", escaped(text, len(text)))
    return _BLANKS.sub(lambda match: f"␣\u00d7{len(match[0])}", seen)


@dataclass(frozen=True, slots=True)
class ConfiguredCommand:
    """`key` is where it is configured as origins name it, `place` the same for people (`gate tests`). `text` is what is
    run, `with_settings` the folder and the variables it gets. `digest` is of all that but the places.
    """

    key: str
    place: str
    text: str
    with_settings: tuple[str, ...]
    digest: str

    def __str__(self) -> str:
        beside = f" ({', '.join(self.with_settings)})" if self.with_settings else ""
        return whole(f"{self.place}: {self.text}{beside}")


def commands_of_config(config: Config) -> Iterator[ConfiguredCommand]:
    """Gates, the setup of their clones, hooks, agents that are more than a name of one that is installed; and leave to
    run outside of the box.
    """
    for index, step in enumerate(config.verification.steps):
        key = f"verification.steps[{index}]"
        yield _shell(key, f"gate {step.name}", step.command, step.working_dir, step.env)
    if config.workspace.setup.strip():
        yield _shell("workspace.setup", SETUP, config.workspace.setup)
    for index, hook in enumerate(config.hooks):
        yield _shell(f"hooks[{index}]", f"hook {hook.name}", hook.command, env=hook.env)
    for index, executor in enumerate(config.tools.executors):
        if executor.command or executor.args or executor.env or executor.endpoint:
            yield _of_executor(f"tools.executors[{index}]", executor)
    if config.sandbox.mode == "off":
        yield _made("sandbox.mode", "sandbox", "off", {"sandbox": "off"})
    if config.sandbox.docker:
        yield _made("sandbox.docker", "sandbox", "docker for gates", {"sandbox": "docker"})


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
        yield _shell("", place, verification.command, verification.working_dir)
    elif isinstance(verification, MultiStage):
        for part in verification.stages:
            yield from _of_verification(f"{place} {part.name}", part.verification)


def _of_executor(key: str, executor: Executor) -> ConfiguredCommand:
    line = f"{executor.command or executor.type} {shlex.join(executor.args)}".rstrip()
    parts = {"type": executor.type, "command": executor.command, "args": executor.args, "endpoint": executor.endpoint}
    return _made(key, f"agent {executor.id}", line, parts, executor.env)


def _shell(key: str, place: str, command: str, folder: str = ".", env: _Env = None) -> ConfiguredCommand:
    return _made(key, place, command, {"command": command, "folder": folder}, env)


def _made(key: str, place: str, text: str, parts: Mapping[str, Any], env: _Env = None) -> ConfiguredCommand:
    """A command that is known by its parts and its variables."""
    told = {name: value for name, value in {**parts, "env": env}.items() if value}
    folder, endpoint = parts.get("folder", "."), parts.get("endpoint")
    shown = [f"in {folder}"] if folder != "." else []
    shown += [f"endpoint {endpoint}"] if endpoint else []
    shown += [f"{name}={value}" for name, value in (env or {}).items()]
    try:
        encoded = _WHOLE.encode(told)
    except UnicodeEncodeError:  # a lone surrogate
        encoded = repr(sorted(told.items())).encode("utf-8", "surrogatepass")
    return ConfiguredCommand(key, place, text, tuple(shown), hashlib.sha256(encoded).hexdigest())
