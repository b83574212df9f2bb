"""`ralph task add` and `edit`: a task's words, by options or in an editor, where they are YAML."""

import shlex
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from rulebook_ralph.cli.app import App
from rulebook_ralph.cli.delivery import TASKS_STAY, deliver
from rulebook_ralph.cli.places import refuse_agents, state_folder
from rulebook_ralph.config.editing import block_lines, one_line
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.tasks.criteria import STAGES
from rulebook_ralph.tasks.edits import Add, Edit, EditRefusedError, TaskChange, find, words_of
from rulebook_ralph.tasks.model import Json
from rulebook_ralph.tasks.plain_yaml import NotReadableError, read_yaml
from rulebook_ralph.tasks.prd_file import read_prd
from rulebook_ralph.tasks.text import Fault, JsonPath, dotted, escaped

_HEADING = "Task {}. Save and close to change it; what is not valid is told, and nothing is written."

_METHODS = ("string_match", "external", "semantic", "multi_stage")
_AMOUNT = click.IntRange(min=1)
Place = tuple[str, ...]
"""Keys from the top of a task to one value of it."""
_OF_STAGE: tuple[tuple[str, Place, dict[str, Any]], ...] = (
    ("promise", ("promise",), {"metavar": "TOKEN", "help": "What the agent says when the stage is done."}),
    ("description", ("description",), {"metavar": "TEXT", "help": "What the stage must bring about."}),
    ("verify", ("verificationMethod",), {"type": click.Choice(_METHODS), "help": "How it is verified."}),
    ("verify-cmd", ("verificationConfig", "command"), {"metavar": "COMMAND", "help": "external: the command."}),
    (
        "verify-check",
        ("verificationConfig", "checkFor"),
        {"metavar": "TEXT", "multiple": True, "help": "semantic: what a model judges; repeatable."},
    ),
    ("max-iterations", ("maxIterations",), {"metavar": "N", "type": _AMOUNT, "help": "Its attempts."}),
)


def _listed(_context: click.Context, _option: click.Parameter, value: str | None) -> list[str] | None:
    return None if value is None else [name.strip() for name in value.split(",")]


_WORDS: tuple[tuple[str, Place, dict[str, Any]], ...] = (
    ("description", ("description",), {"metavar": "TEXT", "help": "What is wanted and why."}),
    ("outcome", ("outcome",), {"metavar": "TEXT", "help": "What is true of the project when it is done."}),
    ("acceptance", ("acceptanceCriteria",), {"metavar": "TEXT", "multiple": True, "help": "A criterion; repeatable."}),
    ("depends", ("dependencies",), {"metavar": "ID", "multiple": True, "help": "A task to come first; repeatable."}),
    ("priority", ("priority",), {"metavar": "N", "type": _AMOUNT, "help": "1 is the highest."}),
    ("file", ("relevantFiles",), {"metavar": "PATH", "multiple": True, "help": "A file to read first; repeatable."}),
    *(
        (f"{stage}-{option}", ("completion", stage, *place), {**settings, "hidden": stage != "coder"})
        for stage in STAGES
        for option, place, settings in _OF_STAGE
    ),
    (
        "stages",
        ("overrides", "stages"),
        {"metavar": "LIST", "callback": _listed, "help": "Stages it goes through: coder,reviewer,tester,qa."},
    ),
    (
        "parallel/--no-parallel",
        ("parallel",),
        {"default": None, "help": "May be worked on beside others; or never beside others."},
    ),
)
"""The options of `add` and `edit`: the place in the task of what each gives, and what click needs."""
_ARGUMENTS: Mapping[Place, str] = {("id",): "ID", ("title",): "TITLE", ("reason",): "--reason"}


def word_options(function: Callable[..., int]) -> Callable[..., int]:
    """The options for a task's words; those of the later stages are not listed, the coder's stand for them."""
    function = click.option("--note", metavar="TEXT", help="Added to the notes, which agents are given.")(function)
    for option, _, settings in reversed(_WORDS):
        function = click.option(f"--{option}", **settings)(function)
    return function


def words_given(given: Mapping[str, Any]) -> Json:
    """The options that were given (click's names), as words of a task."""
    words: Json = {}
    for option, place, _ in _WORDS:
        value = given[option.partition("/")[0].replace("-", "_")]
        if value is None or value == ():
            continue
        inner = words
        for key in place[:-1]:
            inner = inner.setdefault(key, {})
        inner[place[-1]] = list(value) if isinstance(value, tuple) else value
    for criteria in words.get("completion", {}).values():
        if config := criteria.get("verificationConfig"):
            criteria.setdefault("verificationMethod", "external" if "command" in config else "semantic")
    return words


def place_of(fault: Fault) -> str:
    """The keys of the value within its task; empty for the task itself."""
    return dotted("", fault.path).removeprefix(".")


def _option_of(fault: Fault) -> str:
    """Under which name a person gave the value that is at fault, or could give what is missing in it."""
    path = fault.path[2:] if fault.path[:1] == ("tasks",) else fault.path  # of a new task
    if named := _ARGUMENTS.get(tuple(map(str, path))):
        return named
    for option, place, _ in _WORDS:
        lacks = path == place[: len(path)] and f"`{place[-1]}`" in fault.message
        if path and (lacks or path[: len(place)] == place):
            return f"--{option}"
    return place_of(Fault(path, fault.message))


def carry_out(app: App, edit: Edit, *, name: Callable[[Fault], str] = _option_of) -> int:
    """Deliver the edit and say what came of it, every problem on a line of its own; returns the exit code."""
    with app.console() as console:
        try:
            console.line(deliver(app, edit))
        except EditRefusedError as error:
            lines = (f"{where}: {fault.message}" if (where := name(fault)) else fault.message for fault in error.faults)
            for line in dict.fromkeys(lines):
                console.error(line)
            return error.exit_code
    return ExitCode.OK


@click.command("add")
@click.argument("task_id", metavar="ID")
@click.argument("title")
@word_options
@click.option("--strict", is_flag=True, help="Refuse a task without an outcome or without criteria.")
@click.pass_obj
def add_command(app: App, /, *, task_id: str, title: str, strict: bool, note: str | None, **given: Any) -> int:
    """Add a task at the end of the list.

    What completes it is said for each stage: --coder-promise, --coder-verify and so on, and likewise --reviewer-…,
    --tester-… and --qa-…. A command alone means --coder-verify external, a check alone semantic.
    """
    words = {"id": task_id, "title": title, **words_given(given), "notes": (note or "").strip()}
    missing = [] if given["outcome"] else ["outcome (--outcome)"]
    missing += [] if given["acceptance"] or "completion" in words else ["criteria (--acceptance, --coder-verify-cmd)"]
    if strict and missing:
        raise RalphError(f"{escaped(task_id)} has no {' and no '.join(missing)}; nothing was added")
    code = carry_out(app, Add(tasks=(words,)))
    if missing and not code:
        with app.console() as console:
            console.line(f"warning: it has no {' and no '.join(missing)}; give them with: ralph task edit {task_id}")
    return code


@click.command("edit")
@click.argument("task_id", metavar="ID")
@click.option("--title", help="The task in one line.")
@word_options
@click.option(
    "--from",
    "source",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Take the words from this YAML file, as an editor left it.",
)
@click.pass_obj
def edit_command(
    app: App, /, *, task_id: str, title: str | None, source: Path | None, note: str | None, **given: Any
) -> int:
    """Change a task's words: what an option gives takes the place of what was there.

    Without options the task opens in $VISUAL or $EDITOR. --reviewer-…, --tester-… and --qa-… are as --coder-….
    """
    words = words_given(given) | ({} if title is None else {"title": title})
    if not words and note is None:
        return _by_hand(app, task_id, source)
    if source is not None:
        raise RalphError("--from: gives all the words, so that no other option fits beside it")
    return carry_out(app, TaskChange(task_id=task_id, merge=words, note=note or ""))


def _by_hand(app: App, task_id: str, source: Path | None) -> int:
    refuse_agents(app, TASKS_STAY)
    before = words_of(find(read_prd(state_folder(app).prd), task_id))
    file = app.cwd / source if source else _edited(app, task_id, yaml_text(before, heading=_HEADING.format(task_id)))
    try:
        code = _take(app, task_id, before, file)
    except RalphError as error:
        app.error(str(error))
        code = error.exit_code
    if source is None and code == ExitCode.OK:
        file.unlink(missing_ok=True)
    elif source is None:
        app.error(f"your edit is kept; mend it, then: ralph task edit {task_id} --from {shlex.quote(str(file))}")
    return code


def _edited(app: App, task_id: str, text: str) -> Path:
    """The file that the person's editor left. Raises RalphError."""
    with tempfile.NamedTemporaryFile(
        "w", prefix=f"ralph-{task_id}-", suffix=".yaml", delete=False, encoding="utf-8"
    ) as file:
        file.write(text)
    path = Path(file.name)
    try:
        app.edit(path, otherwise="give options: ralph task edit --help")
    except RalphError:
        path.unlink(missing_ok=True)
        raise
    return path


def _take(app: App, task_id: str, before: Json, file: Path) -> int:
    """Only what was changed is sent, so that what the run or somebody else changed meanwhile stays."""
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RalphError(f"cannot read {file}: {error}") from None
    words, lines = words_of_yaml(text, name=str(file))
    changed = [key for key in {**before, **words} if before.get(key) != words.get(key)]
    edit = TaskChange(task_id=task_id, instead={key: words.get(key) for key in changed})
    return carry_out(app, edit, name=lambda fault: _in_file(fault, file, lines))


def _in_file(fault: Fault, file: Path, lines: dict[JsonPath, int]) -> str:
    """File, line and keys of a value; the line of what holds it where it has none of its own."""
    path = fault.path
    while path and path not in lines:
        path = path[:-1]
    where = f"{file}:{lines[path]}" if path else str(file)
    return f"{where}: {place_of(fault)}" if fault.path else where


def yaml_text(words: Json, *, heading: str = "") -> str:
    """The words as a YAML document, texts of several lines as blocks; `heading` becomes comment lines."""
    lines = [f"# {line}" for line in heading.splitlines()]
    for key, value in words.items():
        parts = value.split("\n") if isinstance(value, str) else []
        is_plain = all(part.isprintable() and part == part.rstrip() for part in parts)
        if is_plain and len(parts) > 1 and parts[-1] and parts[0] and parts[0][0] != " ":
            lines += [f"{one_line(key)}: |-", *(f"  {part}".rstrip() for part in parts)]
        else:
            lines += block_lines({key: value})
    return "\n".join(lines) + "\n"


def words_of_yaml(text: str, *, name: str) -> tuple[Json, dict[JsonPath, int]]:
    """The words in an edited document, and the line of each place. Raises RalphError with file and line."""
    try:
        document = read_yaml(text)
    except NotReadableError as error:
        where = name if error.line is None else f"{name}:{error.line}"
        place = ".".join(map(str, error.fault.path))
        raise RalphError(f"{where}: {f'{place}: ' if place else ''}{error.fault.message}") from None
    if not isinstance(document.value, dict):
        raise RalphError(f"{name}: expected keys and values" if document.value is not None else f"{name}: is empty")
    return document.value, dict(document.lines)
