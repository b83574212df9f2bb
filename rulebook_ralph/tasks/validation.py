"""What is wrong with prd.json and the history, for a person to mend.

msgspec looks at each file first, in milliseconds; jsonschema, which takes a thousand times longer, explains those whose
form it refused, with the schemas that are made from the structs.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks import disk, json_file
from rulebook_ralph.tasks.history import ITERATION_KEYS
from rulebook_ralph.tasks.iteration import Iteration
from rulebook_ralph.tasks.model import PRD_VERSION, Json, Prd, Task
from rulebook_ralph.tasks.prd_file import (
    PRD_KEYS,
    PRD_NAME,
    TASK_KEYS,
    problems_of,
    refuse_newer,
    with_unknown_keys,
)
from rulebook_ralph.tasks.struct_reading import camel, explained
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
FileCheck = Callable[[Path], Iterable[Problem]]
"""Looks at one more file of the project at a root, such as config.yaml, and tells what is wrong with it."""


def validate(root: Path, *, schemas: Schemas, others: Iterable[FileCheck] = ()) -> tuple[Problem, ...]:
    """The problems of prd.json and history/ below `root`, then what `others` find. Never raises for what stands in the
    files.
    """
    found: list[Problem] = []
    if (root / PRD_NAME).exists():
        found += _problems(root / PRD_NAME, PRD_NAME, partial(_prd_faults, schemas=schemas))
    else:
        found.append(Problem(PRD_NAME, None, "", "is missing; `ralph init` makes it"))
    found += _history_problems(root / HISTORY_NAME, schemas)
    for check in others:
        found += check(root)
    return tuple(found)


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
        faults = partial(_iteration_faults, number=number, name=name, schemas=schemas)
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


def _prd_faults(raw: Any, *, schemas: Schemas) -> Iterator[Fault]:
    """What is wrong with the form of the list and of each task, and with the meaning of those whose form is right."""
    whole = with_unknown_keys(raw)
    if (prd := _fitting(whole, Prd)) is not None:
        yield from problems_of(prd)
        return
    schema = schemas("prd")
    if not (isinstance(raw, dict) and isinstance(raw.get("tasks"), list)):
        yield from _explained(raw, Prd, schema)
        return
    prd = _fitting({**whole, "tasks": []}, Prd)
    if prd is None:
        yield from _explained({**raw, "tasks": []}, Prd, schema)
        prd = Prd(version=PRD_VERSION, project="unknown")
    tasks: list[Task] = []
    misshapen: set[int] = set()
    of_task = {"$ref": "#/$defs/Task", "$defs": schema["$defs"]}
    for index, (task, written) in enumerate(zip(whole["tasks"], raw["tasks"], strict=True)):
        if (read := _fitting(task, Task)) is None:
            misshapen.add(index)
            yield from (Fault(("tasks", index, *path), told) for path, told in _explained(written, Task, of_task))
            named = written.get("id") if isinstance(written, dict) else None
            read = Task(id=named if isinstance(named, str) else "", title="")
        tasks.append(read)
    for fault in problems_of(msgspec.structs.replace(prd, tasks=tuple(tasks))):
        if fault.path[:1] != ("tasks",) or fault.path[1] not in misshapen:
            yield fault


def _iteration_faults(raw: Any, *, number: int, name: str, schemas: Schemas) -> Iterator[Fault]:
    if _fitting(json_file.with_extra(raw, ITERATION_KEYS), Iteration) is None:
        yield from _explained(raw, Iteration, schemas("iteration"))
        return
    yield from json_file.nesting_faults(json_file.unknown_members(raw, ITERATION_KEYS), ())
    if raw["iterationNumber"] != number:
        yield Fault(("iterationNumber",), f"is {raw['iterationNumber']}, but the file is {escaped(name)}")
    elif name != f"iteration-{number}.json":
        yield Fault((), f"should be named iteration-{number}.json")


def _fitting(raw: Any, kind: type[_V]) -> _V | None:
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError:
        return None


def _explained(raw: Any, kind: type[msgspec.Struct], schema: Json) -> Iterator[Fault]:
    """What is wrong with the form of a value, by its schema; where that is content, msgspec's own word."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - takes 70 ms
    from referencing import Registry  # noqa: PLC0415

    validator = Draft202012Validator(schema, registry=Registry())  # an empty registry fetches nothing from anywhere
    try:
        first = True
        for error in validator.iter_errors(raw):
            first = False
            yield from _of_schema(error)
        if first:
            msgspec.convert(raw, kind)
    except RecursionError:
        yield Fault((), "is nested too deeply")
    except msgspec.ValidationError as error:
        yield explained(error, kind)


def _of_schema(error: "ValidationError") -> Iterator[Fault]:
    if error.validator == "anyOf" and error.context:  # "value or null": the branch for the value says what is wrong
        for inner in error.context:
            if inner.schema != {"type": "null"}:
                yield from _of_schema(inner)
        return
    wanted: Any = error.validator_value
    match error.validator:
        case "enum":
            message = f"expected one of {', '.join(map(str, wanted))}, got {_shown(error.instance)}"
        case "type":
            kinds = wanted if isinstance(wanted, str) else " or ".join(wanted)
            message = f"expected {kinds}, got {_shown(error.instance)}"
        case "required":
            message = f"{error.message.split(' is a required')[0].replace(chr(39), '`')} is missing"
        case _:
            message = escaped(error.message, LONGEST_MESSAGE)
    yield Fault(tuple(error.absolute_path), message)


def _shown(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "an array"
    return escaped(repr(value), 60) if isinstance(value, str) else str(value)[:60]


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
