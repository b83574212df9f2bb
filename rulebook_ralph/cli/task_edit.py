"""`ralph task edit`: other words for a task, by options or in an editor, where they are YAML."""

import io
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import click

from rulebook_ralph.cli.app import App
from rulebook_ralph.cli.delivery import TASKS_STAY, carry_out, place_of
from rulebook_ralph.cli.places import refuse_agents, state_folder
from rulebook_ralph.cli.task_options import CLEARABLE, option_name, places, word_options, words_given
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.tasks import edits
from rulebook_ralph.tasks.edits import TaskChange, words_of
from rulebook_ralph.tasks.model import PARALLEL, Json
from rulebook_ralph.tasks.plain_yaml import NotReadableError, read_yaml
from rulebook_ralph.tasks.prd_file import read_prd
from rulebook_ralph.tasks.text import Fault, JsonPath

_HEADING = "Task {}. Save and close to change it; what is not valid is told, and nothing is written."


@click.command("edit")
@click.argument("task_id", metavar="ID")
@click.option("--title", metavar="TEXT", help="The task in one line.")
@word_options
@click.option(
    "--clear",
    multiple=True,
    metavar="NAME",
    type=click.Choice(tuple(CLEARABLE)),
    help="Take away what that option sets (depends, coder-verify …), or a stage's criteria (coder); repeatable.",
)
@click.option(
    "--from",
    "source",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Take the words from this YAML file, as an editor left it.",
)
@click.pass_obj
def edit_command(app: App, /, *, task_id: str, clear: tuple[str, ...], source: Path | None, **given: Any) -> int:
    """Change a task's words: what an option gives takes the place of what was there.

    Without options the task opens in $VISUAL or $EDITOR. --reviewer-…, --tester-… and --qa-… are as --coder-….
    """
    words = words_given(given)
    if given["parallel"] is not None:
        words["markers"] = _markers(app, task_id, parallel=given["parallel"])
    if given["title"] is not None:
        words["title"] = given["title"]
    if words or clear or given["note"] is not None:
        if source is not None:
            raise RalphError("--from: gives all the words, so that no other option fits beside it")
        edit = TaskChange(task_id=task_id, clear=places(clear), merge=words, note=given["note"] or "")
        return carry_out(app, edit, name=lambda fault: option_name(fault, given))
    return _by_hand(app, task_id, source)


def _markers(app: App, task_id: str, *, parallel: bool) -> list[str]:
    others = [each for each in edits.find(read_prd(state_folder(app).prd), task_id).markers if each != PARALLEL]
    return [*others, PARALLEL] if parallel else others


def _by_hand(app: App, task_id: str, source: Path | None) -> int:
    refuse_agents(app, TASKS_STAY)
    before = words_of(edits.find(read_prd(state_folder(app).prd), task_id))
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
    editor = app.environment.get("VISUAL") or app.environment.get("EDITOR") or ("vi" if app.stdout.isatty() else "")
    words = shlex.split(editor)
    if not words or shutil.which(words[0], path=app.environment.get("PATH")) is None:
        told = f"there is no editor '{words[0]}'" if words else "no editor is set"
        raise RalphError(f"{told}; set EDITOR, or give options: ralph task edit --help")
    with tempfile.NamedTemporaryFile(
        "w", prefix=f"ralph-{task_id}-", suffix=".yaml", delete=False, encoding="utf-8"
    ) as file:
        file.write(text)
    ended = subprocess.run([*words, file.name], cwd=app.cwd, env=app.environment, check=False)
    if ended.returncode != 0:
        raise RalphError(f"the editor ended with {ended.returncode}; nothing was changed (the text: {file.name})")
    return Path(file.name)


def _take(app: App, task_id: str, before: Json, file: Path) -> int:
    """Only what was changed is sent, so that what the run or somebody else changed meanwhile stays."""
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RalphError(f"cannot read {file}: {error}") from None
    words, lines = words_of_yaml(text, name=str(file))
    changed = [key for key in {**before, **words} if before.get(key) != words.get(key)]
    edit = TaskChange(
        task_id=task_id,
        clear=tuple((key,) for key in changed),
        merge={key: words[key] for key in changed if words.get(key) is not None},
    )
    return carry_out(app, edit, name=lambda fault: _in_file(fault, file, lines))


def _in_file(fault: Fault, file: Path, lines: dict[JsonPath, int]) -> str:
    """File, line and keys of a value; the line of what holds it where it has none of its own."""
    path = fault.path
    while path and path not in lines:
        path = path[:-1]
    where = f"{file}:{lines[path]}" if path else str(file)
    return f"{where}: {place_of(fault)}" if fault.path else where


# YAML


def yaml_text(words: Json, *, heading: str = "") -> str:
    """The words as a YAML document, texts of several lines as blocks; `heading` becomes comment lines."""
    from ruamel.yaml import YAML  # noqa: PLC0415 - 22 ms

    yaml = YAML()
    yaml.width = 100
    yaml.indent(mapping=2, sequence=4, offset=2)
    text = io.StringIO()
    yaml.dump(_readable(words), text)
    comment = "".join(f"# {line}\n" for line in heading.splitlines())
    return comment + text.getvalue()


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


def _readable(value: Any) -> Any:
    if isinstance(value, dict):
        return {_styled(key): _readable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_readable(item) for item in value]
    return _styled(value) if isinstance(value, str) else value


def _styled(text: str) -> str:
    """The text in the style that a person reads best and that gives it back as it was."""
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString  # noqa: PLC0415 - see above

    lines = text.split("\n")
    plain = bool(lines[0].strip()) and not lines[0].startswith(" ") and all(line == line.rstrip() for line in lines)
    styled: str = text
    if not all(line.isprintable() for line in lines):
        styled = DoubleQuotedScalarString(text)
    elif plain and len(lines) > 1:
        styled = LiteralScalarString(text)
    return styled
