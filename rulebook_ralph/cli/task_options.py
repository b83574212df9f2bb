"""The options of `ralph task add` and `edit`: a task's words, and how what is wrong with them is told."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import click

from rulebook_ralph.cli.delivery import place_of
from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks.criteria import STAGES
from rulebook_ralph.tasks.edits import Place
from rulebook_ralph.tasks.model import Json, Stage
from rulebook_ralph.tasks.text import Fault

_METHODS = ("string_match", "external", "semantic", "multi_stage")

_PLAIN: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("description", "description", {"metavar": "TEXT", "help": "What is wanted and why."}),
    ("outcome", "outcome", {"metavar": "TEXT", "help": "What is true of the project when it is done."}),
    ("acceptance", "acceptanceCriteria", {"metavar": "TEXT", "multiple": True, "help": "A criterion; repeatable."}),
    ("depends", "dependencies", {"metavar": "ID", "multiple": True, "help": "A task to come first; repeatable."}),
    ("priority", "priority", {"metavar": "N", "type": click.IntRange(min=1), "help": "1 is the highest."}),
    ("file", "relevantFiles", {"metavar": "PATH", "multiple": True, "help": "A file to read first; repeatable."}),
)
"""Option, key of the task, and what click needs."""

_CRITERIA: tuple[tuple[str, Place, dict[str, Any]], ...] = (
    ("promise", ("promise",), {"metavar": "TOKEN", "help": "What the agent says when the stage is done."}),
    ("description", ("description",), {"metavar": "TEXT", "help": "What the stage must bring about."}),
    ("verify", ("verificationMethod",), {"type": click.Choice(_METHODS), "help": "How it is verified."}),
    ("verify-cmd", ("verificationConfig", "command"), {"metavar": "COMMAND", "help": "external: the command."}),
    (
        "verify-check",
        ("verificationConfig", "checkFor"),
        {"metavar": "TEXT", "multiple": True, "help": "semantic: what a model judges; repeatable."},
    ),
    ("verify-config", ("verificationConfig",), {"metavar": "JSON", "help": "The rest of its configuration."}),
    ("max-iterations", ("maxIterations",), {"metavar": "N", "type": click.IntRange(min=1), "help": "Its attempts."}),
)
_IMPLIED = {"verify-cmd": "external", "verify-check": "semantic"}
_MISSING = {"`command` is missing": "verify-cmd", "`checkFor` or `negativePatterns` is needed": "verify-check"}

CLEARABLE: Mapping[str, tuple[Place, ...]] = {
    **{option: ((key,),) for option, key, _ in _PLAIN},
    "notes": (("notes",),),
    "stages": (("overrides", "stages"),),
    **{stage: (("completion", stage),) for stage in STAGES},
    **{
        f"{stage}-{option}": tuple(("completion", stage, key) for key in keys)
        for stage in STAGES
        for option, keys in (
            ("promise", ("promise",)),
            ("description", ("description",)),
            ("verify", ("verificationMethod", "verificationConfig")),
            ("max-iterations", ("maxIterations",)),
        )
    },
}
"""What `--clear NAME` takes away of a task."""

_Command = Callable[..., int]


def word_options(function: _Command) -> _Command:
    """The options for a task's words; those of the later stages are not listed, the coder's stand for them."""
    options = [click.option(f"--{option}", **settings) for option, _, settings in _PLAIN]
    options += [
        click.option(f"--{stage}-{option}", hidden=stage != "coder", **settings)
        for stage in STAGES
        for option, _, settings in _CRITERIA
    ]
    options += [
        click.option("--stages", metavar="LIST", help="Stages it goes through: coder,reviewer,tester,qa."),
        click.option(
            "--parallel/--no-parallel",
            default=None,
            help="May be worked on beside others, marked [P]; or never beside others.",
        ),
        click.option("--note", metavar="TEXT", help="Added to the notes, which agents are given."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def words_given(given: Mapping[str, Any]) -> Json:
    """The options that were given (click's names), as words of a task. Raises RalphError."""
    words: Json = {key: _plain(given[option]) for option, key, _ in _PLAIN if _is_given(given[option])}
    completion = {stage: found for stage in STAGES if (found := _criteria(stage, given))}
    if completion:
        words["completion"] = completion
    if given["parallel"] is not None:
        words["parallel"] = given["parallel"]
    if given["stages"] is not None:
        words["overrides"] = {"stages": [name.strip() for name in given["stages"].split(",")]}
    return words


def places(names: Iterable[str]) -> tuple[Place, ...]:
    """What `--clear` takes away under these names."""
    return tuple(place for name in names for place in CLEARABLE[name])


def option_name(fault: Fault, given: Mapping[str, Any]) -> str:
    """The option under which a person gave the value that is at fault; `given` are all options, as click has them."""
    match fault.path:
        case ("completion", str(stage), *rest) if stage in STAGES:
            own = [option for option, _, _ in _CRITERIA if _is_given(given.get(_parameter(stage, option)))]
            return f"--{stage}-{_criteria_option(tuple(map(str, rest)), fault.message, own)}"
        case ("overrides", "stages", *_):
            return "--stages"
        case (key, *_):
            return next((f"--{option}" for option, name, _ in _PLAIN if name == key), place_of(fault))
        case _:
            return ""


def _criteria_option(rest: Place, message: str, given: Collection[str]) -> str:
    if message in _MISSING:
        return _MISSING[message]
    fitting = [option for option, place, _ in _CRITERIA if rest[: len(place)] == place]
    return next((option for option in fitting if option in given), (fitting or ["verify"])[0])


def _parameter(stage: str, option: str) -> str:
    """What click calls the option of a stage."""
    return f"{stage}_{option.replace('-', '_')}"


def _criteria(stage: Stage, given: Mapping[str, Any]) -> Json:
    criteria: Json = {}
    config: Json = {}
    for option, place, _ in _CRITERIA:
        value = given[_parameter(stage, option)]
        if not _is_given(value):
            continue
        if option == "verify-config":
            config |= _config(f"--{stage}-{option}", value)
        elif len(place) > 1:
            config[place[-1]] = _plain(value)
            criteria.setdefault("verificationMethod", _IMPLIED[option])
        else:
            criteria[place[0]] = _plain(value)
    return criteria | ({"verificationConfig": config} if config else {})


def _config(option: str, text: str) -> Json:
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RalphError(f"{option}: is no valid JSON: {error}") from None
    if not isinstance(config, dict):
        raise RalphError(f"{option}: expected an object, such as {{'timeout': 60}} with double quotes")
    return config


def _is_given(value: Any) -> bool:
    return value is not None and value != ()


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
