"""Tasks with completion criteria from YAML and JSON files (spec completion-criteria): one under `task:`, several under
`tasks:` or `userStories`, or as a list.

Keys may stand in snake_case or camelCase. What Ralph has no field for is kept in the task's metadata. A file is taken
whole or not at all: a task with half its criteria would be completed too early.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks import json_file
from rulebook_ralph.tasks.criteria import STAGES
from rulebook_ralph.tasks.criteria_reading import task_in_one_form
from rulebook_ralph.tasks.edits import WORDS
from rulebook_ralph.tasks.importers.source import (
    DONE_BEFORE,
    IN_JSON,
    RefusedTasksError,
    SourceReading,
    UnreadableError,
    read_text,
    shown_path,
)
from rulebook_ralph.tasks.model import PRD_VERSION, Json, Prd, Task
from rulebook_ralph.tasks.plain_yaml import Document, NotReadableError, read_yaml
from rulebook_ralph.tasks.prd_file import problems_of
from rulebook_ralph.tasks.struct_reading import camel, fields_of, item_type, read_struct
from rulebook_ralph.tasks.text import Fault, JsonPath, Problem, escaped, json_path, nearest, some

_ALIASES = {
    "completionSpec": "completion",
    "acceptance": "acceptanceCriteria",
    "dependsOn": "dependencies",
    "depends": "dependencies",
    "complexity": "estimatedComplexity",
    "passes": "status",
}
_NEAR = 0.72
"""How alike an unknown key must be to a known one to be taken for a misspelling."""
_SPEC_ID = "specId"
_LISTS = frozenset(each.encode_name for each in fields_of(Task) if item_type(each.type) is not None)
_KEYS = ("id", "status", *WORDS, _SPEC_ID, *STAGES)
"""The keys of a task; those of its `completion` may stand beside the others."""
_IN_COMPLETION = ("outcome", "acceptanceCriteria", *STAGES)
_LISTED = ("tasks", "userStories")
_OF_LIST = {"project": "project", "description": "description", "branchName": "branch", "branch": "branch"}
"""What a file says of the list itself."""

_Places = dict[str, JsonPath]
"""Where a task's keys, by their names in the form, stand as they are written."""


@dataclass(slots=True)
class _File:
    shown: str
    is_json: bool
    text: str = ""
    document: Document = field(default_factory=lambda: Document(None, {}))
    about: Json = field(default_factory=dict)
    tasks: list[tuple[Task, _Places]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    told: list[Problem] = field(default_factory=list)

    def _line(self, path: JsonPath) -> int | None:
        return json_file.line_of(self.text, path) if self.is_json else self.document.line(path)

    def refuse(self, path: JsonPath, message: str) -> None:
        self.problems.append(Problem(self.shown, self._line(path), json_path(path), message))

    def tell(self, path: JsonPath, message: str) -> None:
        self.told.append(Problem(self.shown, self._line(path), "", message))


def read_all(paths: Sequence[Path], *, root: Path, known_ids: Collection[str] = ()) -> SourceReading:
    """Read the files as one list of tasks, in their order. `known_ids` may be depended on although they are not read.

    Raises RefusedTasksError where anything in a file is wrong, with the problems of every file.
    """
    files = [_read_file(path, root) for path in dict.fromkeys(path.resolve() for path in paths)]
    _check_together(files, known_ids)
    if problems := [problem for file in files for problem in sorted(file.problems, key=lambda each: each.line or 0)]:
        raise RefusedTasksError(problems)
    whole = SourceReading()
    for file in files:
        tasks = tuple(task_in_one_form(task) for task, _ in file.tasks)
        whole += SourceReading(tasks, tuple(file.told), (file.shown,), **file.about)
    return whole


def _read_file(path: Path, root: Path) -> _File:
    file = _File(shown_path(path, root), path.suffix in IN_JSON)
    try:
        file.text = read_text(path, within=path.parent)
        if file.is_json:
            file.document = Document(json_file.decode(file.text.encode(), file.shown), {})
        else:
            file.document = read_yaml(file.text)
    except RalphError as error:
        where, _, message = str(error).partition(": ")
        file.problems.append(Problem(where, None, "", message))
    except UnreadableError as error:
        file.problems.append(error.problem(root))
    except NotReadableError as error:
        where = file.shown if error.column is None else f"{file.shown}:{error.line}:{error.column}"
        inside = json_path(error.fault.path) if error.fault.path else ""
        file.problems.append(Problem(where, None, inside, error.fault.message))
    else:
        for place, value in _task_values(file):
            _read_task(value, place, file)
    return file


def _task_values(file: _File) -> Iterator[tuple[JsonPath, Any]]:
    """Where the tasks of a document stand, and their values. An item of a list may be `task:` with all under it."""
    value = file.document.value
    listed: list[tuple[JsonPath, Any]] = []
    if isinstance(value, list):
        listed = [((index,), item) for index, item in enumerate(value)]
    elif isinstance(value, dict) and "id" in value:
        listed = [((), value)]
    elif isinstance(value, dict):
        listed = [(("task",), value["task"])] if "task" in value else []
        for key in _LISTED:
            if not isinstance(tasks := value.get(key, []), list):
                file.refuse((key,), "expected a list of tasks")
                return
            listed += [((key, index), item) for index, item in enumerate(tasks)]
        file.about = {_OF_LIST[key]: text for key, text in value.items() if key in _OF_LIST and isinstance(text, str)}
        if listed and (others := [key for key in value if key not in ("task", *_LISTED, *_OF_LIST)]):
            file.tell((others[0],), f"not about a task, left out: {some(others)}")
    if not listed:
        file.refuse((), "has no task: expected `task:`, `tasks:`, `userStories` or a list of tasks")
    for path, item in listed:
        wrapped = isinstance(item, dict) and item.keys() == {"task"}
        yield ((*path, "task"), item["task"]) if wrapped else (path, item)


def _read_task(value: Any, path: JsonPath, file: _File) -> None:
    if not isinstance(value, dict):
        file.refuse(path, "expected a task: keys and values")
        return
    before = len(file.problems)
    values: Json = {}
    places: _Places = {}
    kept = _sort_out(value, path, file, (values, places), _KEYS)
    block = values.pop("completion", {})
    if isinstance(block, dict):
        for key in _sort_out(block, places.get("completion", path), file, (values, places), _IN_COMPLETION):
            file.refuse((*places["completion"], key), f"unknown key; known: {', '.join(STAGES)}")
    else:
        file.refuse(places["completion"], "expected keys and values, such as `coder:`")
    values["completion"] = {stage: written for stage in STAGES if (written := values.pop(stage, {})) != {}}
    metadata: Json = {_SPEC_ID: values.pop(_SPEC_ID)} if _SPEC_ID in values else {}
    faults: list[Fault] = []
    if values.get("status", "pending") not in ("pending", "completed"):
        wanted = "true or false" if places["status"][-1] == "passes" else "one of pending, completed"
        faults.append(Fault(("status",), f"expected {wanted}, got '{escaped(str(values.pop('status')))}'"))
    tree = read_struct(values, Task, (), faults)
    if not str(tree.get("title", "x")).strip():
        faults.append(Fault(("title",), "must not be empty"))
    if file.is_json and tree.get("priority") == 0:
        tree["priority"] = 1
    for place, message in faults:
        hint = "; a text with a colon needs quotes" if message == "expected a string, got an object" else ""
        file.refuse(_as_written(place, places, path), message + hint)
    if len(file.problems) == before:
        if kept:
            message = f"{tree['id']}: kept in metadata, Ralph has no such keys: {some(kept)}"
            file.tell((*path, next(iter(kept))), message)
        file.tasks.append((_task(tree, {**kept, **tree.pop("metadata", {}), **metadata}, file), places))


def _sort_out(written: Json, path: JsonPath, file: _File, found: tuple[Json, _Places], known: Collection[str]) -> Json:
    """Known keys and where they stand go into `found`; those that nobody knows are given back."""
    values, places = found
    unknown: Json = {}
    for key, item in written.items():
        name = _ALIASES.get(camel(key), camel(key))
        if name in known and name in places:
            file.refuse((*path, key), f"is the same key as `{places[name][-1]}`, which is there already")
        elif name in known and item is not None:
            places[name] = (*path, key)
            if camel(key) == "passes" and isinstance(item, bool):
                item = "completed" if item else "pending"  # noqa: PLW2901
            values[name] = [item] if name in _LISTS and isinstance(item, str) else item
            if name in STAGES and isinstance(item, dict):
                values[name] = {inner: each for inner, each in item.items() if each is not None}
        elif name not in known and (near := nearest(name, (*known, *_ALIASES), cutoff=_NEAR)):
            hint = re.sub("[A-Z]", lambda upper: f"_{upper[0].lower()}", near)
            file.refuse((*path, key), f"unknown key; did you mean `{hint}`?")
        elif name not in known:
            unknown[key] = item
    return unknown


def _as_written(place: JsonPath, places: _Places, path: JsonPath) -> JsonPath:
    """Where a value of the task stands in the file."""
    if place[:1] == ("completion",) and place[1:] and place[1] in places:
        place = place[1:]
    return (*places.get(str(place[0]), (*path, place[0])), *place[1:]) if place else path


def _task(tree: Json, metadata: Json, file: _File) -> Task:
    if tree.get("status") == "completed":
        metadata |= DONE_BEFORE
    tree["title"] = " ".join(tree["title"].split())
    tree["dependencies"] = list(dict.fromkeys(tree.get("dependencies", ())))
    tree |= {name: tree[name].strip() for name in ("description", "outcome", "notes") if name in tree}
    tree["acceptanceCriteria"] = [" ".join(text.split()) for text in tree.get("acceptanceCriteria", ())]
    return msgspec.convert(msgspec.to_builtins({**tree, "metadata": metadata, "source": file.shown}), Task)


def _check_together(files: Sequence[_File], known_ids: Collection[str]) -> None:
    """What is wrong with the meaning of the tasks. Where some of them could not be read, what depends on them is not
    told.
    """
    read = [(file, task, places) for file in files for task, places in file.tasks]
    all_read = not any(file.problems for file in files)
    elsewhere = sorted({*known_ids} - {task.id for _, task, _ in read})
    tasks = (*(task for _, task, _ in read), *(Task(id=task_id, title="") for task_id in elsewhere))
    for path, message in problems_of(Prd(version=PRD_VERSION, project="tasks", tasks=tasks)):
        match path:
            case ("tasks", int(index), *inside) if index < len(read) and (all_read or inside[0] != "dependencies"):
                file, _, places = read[index]
                file.refuse(_as_written(tuple(inside), places, ()), message)
            case _:
                pass
