"""What is wrong with prd.json and the history, for a person to mend.

msgspec looks at each file first, in milliseconds; jsonschema, which takes a thousand times longer, tells all that is
wrong with those whose form it refused, by the schemas that are made from the structs.
"""

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks import disk, json_file
from rulebook_ralph.tasks.history import ITERATION_KEYS, Iteration
from rulebook_ralph.tasks.model import PRD_VERSION, Json, Prd, Task
from rulebook_ralph.tasks.prd_file import PRD_KEYS, PRD_NAME, TASK_KEYS, problems_of, refuse_newer, with_unknown_keys
from rulebook_ralph.tasks.struct_reading import camel, first_fault
from rulebook_ralph.tasks.text import LONGEST_MESSAGE, Fault, Problem, escaped, json_path, nearest

if TYPE_CHECKING:
    from jsonschema import ValidationError

HISTORY_NAME = ".rulebook-ralph/history"
MOST_PROBLEMS = 100
"""Problems told of one file; a file with more is not a file someone mends by hand."""

_ITERATION_FILE = re.compile(r"iteration-(\d{1,18})\.json", re.ASCII)

_V = TypeVar("_V", bound=msgspec.Struct)
Schemas = Callable[[str], Json]
"""Gives the JSON Schema of `prd` or `iteration`."""


def validate(root: Path, schemas: Schemas) -> tuple[Problem, ...]:
    """The problems of prd.json and history/ below `root`. Never raises for what stands in the files."""
    if (root / PRD_NAME).exists():
        found = _problems(root / PRD_NAME, PRD_NAME, partial(_prd_faults, schemas=schemas))
    else:
        found = [Problem(PRD_NAME, None, "", "is missing; `ralph init` makes it")]
    return (*found, *_history_problems(root / HISTORY_NAME, schemas))


def near_misses(prd: Prd) -> Iterator[Fault]:
    """Keys that Ralph does not know and keeps, but that were probably meant as another: `priorty`, `depends_on`."""
    of_tasks = ((("tasks", index), task.extra, TASK_KEYS) for index, task in enumerate(prd.tasks))
    for path, extra, known in (((), prd.extra, PRD_KEYS), *of_tasks):
        for key in extra:
            if near := nearest(camel(key), known):
                yield Fault((*path, key), f"has no meaning here; did you mean `{near}`?")


def _history_problems(folder: Path, schemas: Schemas) -> Iterator[Problem]:
    """What is wrong with the iteration files, in the order of their numbers. Gaps are no problem."""
    if folder.is_symlink():
        yield Problem(HISTORY_NAME, None, "", disk.IS_LINK)
        return
    try:
        names = [file.name for file in folder.iterdir()] if folder.exists() else []
    except OSError as error:
        yield Problem(HISTORY_NAME, None, "", f"cannot be read: {error.strerror}")
        return
    for number, name in sorted((int(match[1]), match[0]) for match in map(_ITERATION_FILE.fullmatch, names) if match):
        faults = partial(_iteration_faults, schemas=schemas, number=number, name=name)
        yield from _problems(folder / name, f"{HISTORY_NAME}/{name}", faults)


def _problems(file: Path, name: str, faults: Callable[[Any], Iterator[Fault]]) -> list[Problem]:
    try:
        data = disk.read_file(file)
        raw = json_file.decode(data, name)
        refuse_newer(raw, name)
    except OSError as error:
        return [Problem(name, None, "", f"cannot be read: {error.strerror or error}")]
    except RalphError as error:
        where, _, message = str(error).partition(": ")
        return [Problem(where, None, "", message)]
    text = json_file.text_of(data, name)
    found = islice(dict.fromkeys([*_repeated_keys(text), *islice(faults(raw), MOST_PROBLEMS)]), MOST_PROBLEMS)
    problems = [
        Problem(name, json_file.line_of(text, path), json_path(path), message[:LONGEST_MESSAGE])
        for path, message in found
    ]
    return sorted(problems, key=lambda problem: problem.line or 0)


def _prd_faults(raw: Any, schemas: Schemas) -> Iterator[Fault]:
    """What is wrong with the form of the list and of each task, and with the meaning of those whose form is right."""
    whole = with_unknown_keys(raw)
    faults = _form_faults(raw, whole, Prd, schemas("prd"))
    yield from faults
    misshapen = {fault.path[1] for fault in faults if fault.path[:1] == ("tasks",) and len(fault.path) > 1}
    if isinstance(whole, dict) and isinstance(whole.get("tasks"), list):
        prd = _fitting({**whole, "tasks": []}, Prd) or Prd(version=PRD_VERSION, project="unknown")
        tasks = tuple(_fitting(task, Task) or Task(id=_id_of(task), title="") for task in whole["tasks"])
        for fault in problems_of(msgspec.structs.replace(prd, tasks=tasks)):
            if fault.path[:1] != ("tasks",) or fault.path[1] not in misshapen:
                yield fault
    elif not faults:
        yield from problems_of(msgspec.convert(whole, Prd))


def _id_of(task: Any) -> str:
    named = task.get("id") if isinstance(task, dict) else None
    return named if isinstance(named, str) else ""


def _iteration_faults(raw: Any, schemas: Schemas, *, number: int, name: str) -> Iterator[Fault]:
    if faults := _form_faults(raw, json_file.with_extra(raw, ITERATION_KEYS), Iteration, schemas("iteration")):
        yield from faults
        return
    yield from json_file.nesting_faults(json_file.unknown_members(raw, ITERATION_KEYS), ())
    if raw["iterationNumber"] != number:
        yield Fault(("iterationNumber",), f"is {raw['iterationNumber']}, but the file is {escaped(name)}")
    elif name != f"iteration-{number}.json":
        yield Fault((), f"should be named iteration-{number}.json")


def _form_faults(raw: Any, whole: Any, kind: type[msgspec.Struct], schema: Json) -> list[Fault]:
    """All that is wrong with the form of a document, by its schema; where that is content, msgspec's own word. `whole`
    is the same document with its unknown keys set apart.
    """
    try:
        msgspec.convert(whole, kind)
    except msgspec.ValidationError as refusal:
        from jsonschema import Draft202012Validator  # noqa: PLC0415 - takes 70 ms
        from referencing import Registry  # noqa: PLC0415

        validator = Draft202012Validator(schema, registry=Registry())  # an empty registry fetches nothing
        try:
            errors = islice(validator.iter_errors(raw), MOST_PROBLEMS)
            return [fault for error in errors for fault in _of_schema(error)] or [first_fault(whole, kind, refusal)]
        except RecursionError:
            return [Fault((), "is nested too deeply")]
    return []


def _of_schema(error: "ValidationError") -> Iterator[Fault]:
    if error.validator == "anyOf" and error.context:  # "value or null": the branch for the value says what is wrong
        for inner in error.context:
            if inner.schema != {"type": "null"}:
                yield from _of_schema(inner)
        return
    wanted: Any = error.validator_value
    match error.validator:
        case "enum":
            message = f"expected one of {', '.join(map(str, wanted))}, got {escaped(repr(error.instance), 60)}"
        case "type":
            message = f"expected {_KINDS[wanted]}, got {_kind_of(error.instance)}"
        case "required":
            message = f"{error.message.split(' is a required')[0].replace(chr(39), '`')} is missing"
        case _:
            message = escaped(error.message, LONGEST_MESSAGE)
    yield Fault(tuple(error.absolute_path), message)


_KINDS = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


def _kind_of(value: Any) -> str:
    kinds = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}
    return _KINDS[kinds.get(type(value), "null")]


def _fitting(raw: Any, kind: type[_V]) -> _V | None:
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError:
        return None


def _repeated_keys(text: str) -> Iterator[Fault]:
    """Keys that stand twice in an object: every parser takes the last, so that the first is lost unseen."""
    found: list[Fault] = []

    def members(pairs: list[tuple[str, Any]]) -> Json:
        whole: Json = {}
        for key, value in pairs:
            if key in whole:
                of = f" of '{escaped(str(whole['id']))}'" if "id" in whole else ""
                found.append(Fault((), f"the key `{escaped(key)}`{of} is there twice; only the last one counts"))
            whole[key] = value
        return whole

    try:
        json.loads(text, object_pairs_hook=members, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):  # msgspec has read it, so there is nothing more to tell
        return
    yield from found
