"""Tasks with completion criteria from YAML and JSON files (spec completion-criteria): one under `task:`, several under
`tasks:` or `userStories`, or as a list.

Keys may stand in snake_case or camelCase. What Ralph has no field for is kept in the task's metadata. A file is taken
whole or not at all: a task with half its criteria would be completed too early.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks import json_file
from rulebook_ralph.tasks.criteria import STAGES
from rulebook_ralph.tasks.criteria_reading import completion_faults, override_faults, task_in_one_form
from rulebook_ralph.tasks.edits import WORDS
from rulebook_ralph.tasks.importers.source import (
    DONE_BEFORE,
    IN_JSON,
    RefusedTasksError,
    SourceProblem,
    SourceReading,
    UnreadableError,
    joined,
    read_text,
    shown_path,
)
from rulebook_ralph.tasks.model import PRD_VERSION, Json, Prd, Task
from rulebook_ralph.tasks.plain_yaml import Document, NotReadableError, read_yaml
from rulebook_ralph.tasks.prd_file import problems_of
from rulebook_ralph.tasks.struct_reading import camel, fields_of, item_type, read_struct
from rulebook_ralph.tasks.text import Fault, JsonPath, Problem, escaped, json_path, some

SPEC_ID = "specId"
"""Where a task's `spec_id` stands in its metadata."""
LONGEST_TEXT = 1024 * 1024
MOST_VALUES = 100_000

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
_LISTS = frozenset(each.encode_name for each in fields_of(Task) if item_type(each.type) is not None)
_KEYS = ("id", "status", *WORDS, SPEC_ID, *STAGES)
"""The keys of a task; those of its `completion` may stand beside the others."""
_IN_COMPLETION = ("outcome", "acceptanceCriteria", *STAGES)
_LISTED = ("tasks", "userStories")
_OF_LIST = {"project": "project", "description": "description", "branchName": "branch", "branch": "branch"}
"""What a file says of the list itself."""


@dataclass(slots=True)
class _File:
    path: Path
    shown: str
    text: str = ""
    document: Document = field(default_factory=lambda: Document(None, {}))
    about: dict[str, str] = field(default_factory=dict)
    tasks: list[tuple[Task, Mapping[str, JsonPath]]] = field(default_factory=list)
    """Each with where its keys, by their names in the form, stand as they are written."""
    problems: list[Problem] = field(default_factory=list)
    told: list[SourceProblem] = field(default_factory=list)

    @property
    def is_json(self) -> bool:
        return self.path.suffix in IN_JSON

    def reading(self) -> SourceReading:
        return SourceReading(
            tuple(task for task, _ in self.tasks),
            tuple(self.told),
            (self.shown,),
            project=self.about.get("project", ""),
            description=self.about.get("description", ""),
            branch=self.about.get("branch", ""),
        )

    def line(self, path: JsonPath) -> int | None:
        return json_file.line_of(self.text, path) if self.is_json else self.document.line(path)

    def refuse(self, path: JsonPath, message: str) -> None:
        self.problems.append(Problem(self.shown, self.line(path), json_path(path), message))

    def tell(self, path: JsonPath, message: str) -> None:
        self.told.append(SourceProblem(self.path, self.line(path), message))


def read_all(paths: Sequence[Path], *, root: Path, known_ids: Collection[str] = ()) -> SourceReading:
    """Read the files as one list of tasks, in their order. `known_ids` may be depended on although they are not read.

    Raises RefusedTasksError where anything in a file is wrong, with the problems of every file.
    """
    files = [_read_file(path, root.resolve()) for path in dict.fromkeys(paths)]
    if not any(file.problems for file in files):
        _check_together(files, known_ids)
    if problems := [problem for file in files for problem in sorted(file.problems, key=lambda each: each.line or 0)]:
        raise RefusedTasksError(problems)
    return joined([file.reading() for file in files])


def _read_file(path: Path, root: Path) -> _File:
    whole = path.resolve()
    file = _File(whole, shown_path(path, root))
    try:
        file.text = read_text(whole, within=whole.parent)
        if file.is_json:
            file.document = Document(json_file.decode(file.text.encode(), file.shown), {})
        else:
            file.document = read_yaml(file.text, longest=LONGEST_TEXT, most_values=MOST_VALUES)
    except RalphError as error:
        where, _, message = str(error).partition(": ")
        file.problems.append(Problem(where, None, "", message))
    except UnreadableError as error:
        file.problems.append(Problem(file.shown, error.problem.line, "", error.problem.message))
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
        if "task" in value:
            listed.append((("task",), value["task"]))
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
    places: dict[str, JsonPath] = {}
    kept: Json = {}
    _sort_out(value, path, file, (values, places), kept)
    block = values.pop("completion", {})
    if isinstance(block, dict):
        _sort_out(block, places.get("completion", path), file, (values, places), None)
    else:
        file.refuse(places["completion"], "expected keys and values, such as `coder:`")
    values["completion"] = {stage: written for stage in STAGES if (written := values.pop(stage, {})) != {}}
    metadata: Json = {SPEC_ID: values.pop(SPEC_ID)} if SPEC_ID in values else {}
    faults: list[Fault] = []
    if values.get("status", "pending") not in ("pending", "completed"):
        wanted = "true or false" if places["status"][-1] == "passes" else "one of pending, completed"
        faults.append(Fault(("status",), f"expected {wanted}, got '{escaped(str(values.pop('status')))}'"))
    tree = read_struct(values, Task, (), faults)
    faults += [Fault((name,), "must not be empty") for name in ("id", "title") if not str(tree.get(name, "x")).strip()]
    if file.is_json and tree.get("priority") == 0:
        tree["priority"] = 1
    if isinstance(priority := tree.get("priority"), int) and priority < 1:
        faults.append(Fault(("priority",), f"expected 1 (the highest) or more, got {priority}"))
    faults += completion_faults(values["completion"], ())
    if isinstance(overrides := tree.get("overrides", {}), dict):
        faults += override_faults(overrides, ("overrides",))
    for place, message in faults:
        hint = "; a text with a colon needs quotes" if message == "expected a string, got an object" else ""
        file.refuse(_as_written(place, places, path), message + hint)
    if len(file.problems) == before:
        file.tasks.append((_task(tree, {**kept, **tree.pop("metadata", {}), **metadata}, file), places))
        if kept:
            message = f"{tree['id']}: kept in metadata, Ralph has no such keys: {some(kept)}"
            file.tell((*path, next(iter(kept))), message)


def _sort_out(
    written: Json, path: JsonPath, file: _File, found: tuple[Json, dict[str, JsonPath]], kept: Json | None
) -> None:
    """Known keys and where they stand go into `found`, others into `kept`; with none, this is what stands below
    `completion`.
    """
    values, places = found
    known = _KEYS if kept is not None else _IN_COMPLETION
    for key, item in written.items():
        name = _ALIASES.get(camel(key), camel(key))
        if name not in known:
            near = get_close_matches(name[:60], (*known, *_ALIASES), n=1, cutoff=_NEAR)
            if near or kept is None:
                hint = f"did you mean `{snake(near[0])}`?" if near else f"known: {', '.join(STAGES)}"
                file.refuse((*path, key), f"unknown key; {hint}")
            else:
                kept[key] = item
        elif name in places:
            file.refuse((*path, key), f"is the same key as `{places[name][-1]}`, which is there already")
        elif item is not None:
            places[name] = (*path, key)
            if camel(key) == "passes" and isinstance(item, bool):
                item = "completed" if item else "pending"  # noqa: PLW2901
            values[name] = [item] if name in _LISTS and isinstance(item, str) else item
            if name in STAGES and isinstance(item, dict):
                values[name] = {name: inner for name, inner in item.items() if inner is not None}


def _as_written(place: JsonPath, places: Mapping[str, JsonPath], path: JsonPath) -> JsonPath:
    """Where a value of the task stands in the file."""
    return (*places.get(str(place[0]), (*path, place[0])), *place[1:]) if place else path


def _task(tree: Json, metadata: Json, file: _File) -> Task:
    if tree.get("status") == "completed":
        metadata |= DONE_BEFORE
    tree["title"] = " ".join(tree["title"].split())
    tree["dependencies"] = list(dict.fromkeys(tree.get("dependencies", ())))
    tree |= {name: tree[name].strip() for name in ("description", "outcome", "notes") if name in tree}
    tree["acceptanceCriteria"] = [" ".join(text.split()) for text in tree.get("acceptanceCriteria", ())]
    plain = msgspec.to_builtins({**tree, "metadata": metadata, "source": file.shown})
    return task_in_one_form(msgspec.convert(plain, Task))


def _check_together(files: Sequence[_File], known_ids: Collection[str]) -> None:
    """What only all tasks together can tell: ids, dependencies, cycles."""
    read = [(file, task, places) for file in files for task, places in file.tasks]
    elsewhere = sorted({*known_ids} - {task.id for _, task, _ in read})
    tasks = (*(task for _, task, _ in read), *(Task(id=task_id, title="") for task_id in elsewhere))
    for path, message in problems_of(Prd(version=PRD_VERSION, project="tasks", tasks=tasks)):
        match path:
            case ("tasks", int(index), *inside) if index < len(read):
                file, _, places = read[index]
                file.refuse(_as_written(tuple(inside), places, ()), message)
            case _:
                pass


def snake(name: str) -> str:
    """`maxIterations` as the specification writes it, `max_iterations`."""
    return re.sub("[A-Z]", lambda upper: f"_{upper[0].lower()}", name)
