"""What must hold in a PRD beyond the types of its fields: ids, dependencies, priorities, criteria. In linear time."""

from collections.abc import Iterator

from rulebook_ralph.core.criteria_reading import completion_faults, override_faults
from rulebook_ralph.core.identifiers import problem_with_id
from rulebook_ralph.core.model import Prd, Task
from rulebook_ralph.core.nesting import nesting_faults
from rulebook_ralph.core.problem import Fault, JsonPath, escaped

MOST_CYCLES = 10
LONGEST_CYCLE_SHOWN = 12


def problems_of(prd: Prd) -> tuple[Fault, ...]:
    """Everything wrong with the meaning of a PRD, each kind in file order, dependency cycles last."""
    tasks = prd.tasks
    of_prd, of_tasks = _project_faults(prd), (*_id_faults(tasks), *_task_faults(tasks))
    return (*of_prd, *of_tasks, *_nesting_faults(prd), *_cycle_faults(tasks))


def _project_faults(prd: Prd) -> Iterator[Fault]:
    if prd.version < 1:
        yield Fault(("version",), f"expected 1, got {prd.version}")
    if not prd.project.strip():
        yield Fault(("project",), "must not be empty")
    for name, value in (("project", prd.project), ("branch", prd.branch or "")):
        if "\0" in value:
            yield Fault((name,), "must not hold a NUL character")


def _id_faults(tasks: tuple[Task, ...]) -> Iterator[Fault]:
    first_use: dict[str, int] = {}
    for index, task in enumerate(tasks):
        if problem := problem_with_id(task.id):
            yield Fault(("tasks", index, "id"), problem)
        before = first_use.setdefault(task.id.casefold(), index)
        if before != index:
            message = f"{_quoted(task.id)} is used already by tasks[{before}]; ids differ by more than case"
            yield Fault(("tasks", index, "id"), message)


def _task_faults(tasks: tuple[Task, ...]) -> Iterator[Fault]:
    known = {task.id for task in tasks}
    unknown: list[tuple[JsonPath, str]] = []
    for index, task in enumerate(tasks):
        if task.priority < 1:
            yield Fault(("tasks", index, "priority"), f"expected 1 (the highest) or more, got {task.priority}")
        for place, dependency in enumerate(task.dependencies):
            if dependency == task.id:
                yield Fault(("tasks", index, "dependencies", place), f"task {_quoted(task.id)} depends on itself")
            elif dependency not in known:
                unknown.append((("tasks", index, "dependencies", place), dependency))
        if task.completion:
            yield from completion_faults(task.completion, ("tasks", index, "completion"))
        if task.overrides:
            yield from override_faults(task.overrides, ("tasks", index, "overrides"))
    if unknown:
        other_case = {task.id.casefold(): task.id for task in tasks}
        for path, dependency in unknown:
            meant = other_case.get(dependency.casefold())
            hint = f"; did you mean {_quoted(meant)}?" if meant is not None else ""
            yield Fault(path, f"there is no task {_quoted(dependency)}{hint}")


def _nesting_faults(prd: Prd) -> Iterator[Fault]:
    yield from nesting_faults(prd.extra, ())
    yield from nesting_faults(prd.totals.extra, ("totals",))
    for index, task in enumerate(prd.tasks):
        if task.metadata or task.extra:
            yield from nesting_faults(task.metadata, ("tasks", index, "metadata"))
            yield from nesting_faults(task.extra, ("tasks", index))


def _cycle_faults(tasks: tuple[Task, ...]) -> Iterator[Fault]:
    for number, cycle in enumerate(_cycles(tasks)):
        if number == MOST_CYCLES:
            yield Fault(("tasks",), f"more than {MOST_CYCLES} dependency cycles; the others are not listed")
            return
        index, *_ = cycle
        names = [tasks[each].id for each in cycle]
        if len(names) > LONGEST_CYCLE_SHOWN:
            names = [*names[: LONGEST_CYCLE_SHOWN - 1], f"… {len(cycle) - LONGEST_CYCLE_SHOWN} more …", names[-1]]
        shown = " -> ".join(escaped(name) for name in [*names, tasks[index].id])
        yield Fault(("tasks", index, "dependencies"), f"dependency cycle: {shown}")


def _cycles(tasks: tuple[Task, ...]) -> Iterator[list[int]]:
    """Cycles as lists of task indexes, every dependency walked once; a task that depends on itself is none."""
    position = {task.id: index for index, task in enumerate(tasks)}
    if all(position.get(each, -1) < index for index, task in enumerate(tasks) for each in task.dependencies):
        return  # every dependency stands above its task, as in most files: there can be none
    finished = [False] * len(tasks)
    for start in range(len(tasks)):
        if finished[start]:
            continue
        trail = [start]
        place_on_trail = {start: 0}
        open_edges = [iter(tasks[start].dependencies)]
        while trail:
            following = next(open_edges[-1], None)
            if following is None:
                done = trail.pop()
                open_edges.pop()
                del place_on_trail[done]
                finished[done] = True
                continue
            index = position.get(following, trail[-1])
            if finished[index] or index == trail[-1]:
                continue
            if index in place_on_trail:
                yield trail[place_on_trail[index] :]
            else:
                place_on_trail[index] = len(trail)
                trail.append(index)
                open_edges.append(iter(tasks[index].dependencies))


def _quoted(task_id: str) -> str:
    return f"'{escaped(task_id)}'"
