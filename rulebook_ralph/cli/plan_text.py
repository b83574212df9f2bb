"""What a person wants, as text; and a plan as they see it before agreeing: all of it, uncut, nothing in it unseen."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rulebook_ralph.cli.app import App
from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks.importers.source import UnreadableError, read_text
from rulebook_ralph.tasks.model import Json, Prd
from rulebook_ralph.tasks.plan import Plan
from rulebook_ralph.tasks.results import Usage
from rulebook_ralph.tasks.text import counted, escaped, money
from rulebook_ralph.tasks.text import tokens as told_tokens

_BLANKS = re.compile(" {3,}")
_INDENTED = 40
_EMPTY_GLYPHS = re.compile("[\u034f\u115f\u1160\u2800\u3164\uffa0]")
"""They count as printable, and show nothing."""
_FILE_ENDINGS = (".md", ".markdown", ".txt")
_STANDARD_INPUT = "-"


def text_of(app: App, wanted: str, *, most: int) -> str:
    """What is wanted: the text itself, or that of the file. Raises RalphError."""
    if wanted == _STANDARD_INPUT:
        name, text = "standard input", _standard_input(most)
    elif (file := _file(app, wanted)) is not None:
        name, text = str(file), _of_file(file)
    else:
        name, text = "the text", wanted
    if not text.strip():
        raise RalphError(f"{name} says nothing; say what you want")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise RalphError(f"{name} is no valid UTF-8 text") from None
    if size > most:
        raise RalphError(f"{name} is longer than {most:,} bytes; plan a part of it, or raise limits.promptTokens")
    return text


def _file(app: App, wanted: str) -> Path | None:
    """The file that is meant, if one is."""
    try:
        file = (app.cwd / wanted).resolve()
        if file.exists():
            return file
    except (OSError, ValueError):  # too long for a name, or no name at all: it is text
        return None
    if wanted.endswith(_FILE_ENDINGS) and not any(map(str.isspace, wanted)):
        raise RalphError(f"there is no file {wanted}")
    return None


def _of_file(file: Path) -> str:
    try:
        return read_text(file, within=file.parent)
    except UnreadableError as error:
        raise RalphError(error.problem.told(file.parent)) from None


def _standard_input(most: int) -> str:
    if sys.stdin is None:
        raise RalphError("there is no standard input; give the text, or a file")
    try:
        return sys.stdin.buffer.read(most + 1).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.start >= most - 3 and error.reason == "unexpected end of data":
            raise RalphError(f"standard input is longer than {most:,} bytes") from None
        raise RalphError(f"standard input is not UTF-8 (byte {error.start + 1}): save it as UTF-8") from None


def lines_of(plan: Plan, prd: Prd) -> Iterator[str]:
    """What the plan adds to the task list: a line with `+` for each that it brings."""
    yield f"prd.json: {counted(len(plan.tasks), 'new task')} beside the {len(prd.tasks)} there"
    for task in plan.tasks:
        yield ""
        yield from (f"+ {line}".rstrip() for line in _task(task))


def _task(task: Json) -> Iterator[str]:
    yield whole(f"{task['id']}: {task['title']}")
    facts = [f"priority {task['priority']}", task.get("estimatedComplexity", "")]
    if task["dependencies"]:
        facts.append(f"after {', '.join(task['dependencies'])}")
    yield f"  {whole(', '.join(filter(None, facts)))}"
    yield from (f"  {whole(line)}" for line in task["description"].strip().splitlines())
    yield f"  outcome: {whole(task['outcome'])}"
    yield from (f"  - {whole(criterion)}" for criterion in task["acceptanceCriteria"])
    if task["relevantFiles"]:
        yield f"  reads first: {whole(', '.join(task['relevantFiles']))}"
    for stage, criteria in task.get("completion", {}).items():
        yield from (f"  {stage}: {line}" for line in _criteria(criteria))


def _criteria(criteria: Json) -> Iterator[str]:
    """What verifies a stage, a command in plain words; whatever else stands there follows."""
    rest = dict(criteria)
    config = dict(rest.pop("verificationConfig", {}))
    method = rest.pop("verificationMethod", "")
    if "command" in config:
        yield f"runs: {whole(str(config.pop('command')))}"
    elif method:
        yield f"verified: {whole(str(method))}"
    yield from (f"{whole(key)}: {whole(_text(value))}" for key, value in (config | rest).items())


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def spent(usage: Usage, cost_usd: float | None) -> str:
    """What the planner took, as far as it was told."""
    parts = [told_tokens(usage.total)] if usage.total else []
    parts.append("cost unknown" if cost_usd is None else money(cost_usd))
    return ", ".join(parts)


def whole(text: str) -> str:
    """The text uncut, in one line. Three or more blanks are told by their number, unless they only indent it."""
    margin = len(text) - len(text.lstrip(" "))
    indent, rest = (text[:margin], text[margin:]) if margin <= _INDENTED else ("", text)
    seen = _EMPTY_GLYPHS.sub(lambda match: f"\\u{ord(match[0]):04x}", escaped(rest, len(rest)))
    return indent + _BLANKS.sub(lambda match: f"␣\u00d7{len(match[0])}", seen)
