"""What stands in for the leftovers of a dead run that are gone or damaged, which its agent may have seen to.

That an iteration was open is then told by the saved state, else by what is damaged, or by a record. What the state was
is told by the saved state, which is renewed when an agent begins; where that is gone too, by the last commit, and else
by nobody. Without the saved state a task is completed only where that is proven.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress

from msgspec.structs import replace

from rulebook_ralph.core.model import Prd, Task
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop import leftovers, templates
from rulebook_ralph.loop.landing import Notice
from rulebook_ralph.loop.leftovers import Leftovers
from rulebook_ralph.loop.project import Project
from rulebook_ralph.sources.source import DONE_BEFORE
from rulebook_ralph.state import codec, disk, editable, history
from rulebook_ralph.workspace import commits, guard
from rulebook_ralph.workspace.snapshot import Opening
from rulebook_ralph.workspace.snapshot_guard import is_ralph_elsewhere


def stand_ins(project: Project, kept: Collection[int], notice: Notice) -> list[Leftovers]:
    """For each iteration whose agent worked in the state folder, and of which nothing is `kept` that can be read.

    A record that is not in the saved state is the one that stands there, as of one at work. Raises RalphError.
    """
    numbers = {number for number in leftovers.numbers(project) if number not in kept}
    reference, open_in_it = _saved_state(project)
    if open_in_it and open_in_it not in kept and not is_ralph_elsewhere(project.repository):  # whose it may be
        return [_stand_in(project, open_in_it, reference, notice)]
    if reference:
        lost = sorted(number for number in numbers if not _is_settled(project, [reference], number))
        return [_stand_in(project, number, reference, notice) for number in lost]
    recorded = {number for number in history.unsettled_numbers(project.folder) if number not in kept}
    in_place = {number for number in recorded if not _is_settled(project, ["HEAD"], number)}
    return [_by_commit(project, number, notice) for number in sorted(numbers | in_place)]


def _is_settled(project: Project, revisions: Iterable[str], number: int) -> bool:
    """Whether one of them knows the iteration: else than when it begins, it is saved and committed when it is settled,
    or when others are that worked beside it, elsewhere.
    """
    name = history.name_of(number)
    return any(commits.file_of_state(project.repository, revision, name) is not None for revision in revisions)


def _saved_state(project: Project) -> tuple[str, int]:
    """The ref of the project's saved state, and the iteration that is open in it or 0. The project is the one that is
    committed, else the one that stands there; empty where it has none.
    """
    states = commits.open_iterations(project.repository)
    committed = commits.file_of_state(project.repository, "HEAD", "prd.json")
    for content in (committed, disk.content_of(project.folder.prd)):
        with suppress(RalphError):
            reference = commits.state_reference(codec.decode_prd_quick(content or b"", name="prd.json").project)
            if reference in states:
                return reference, states[reference]
    return "", 0


def _stand_in(project: Project, number: int, reference: str, notice: Notice) -> Leftovers:
    notice("warning", f"{_gone(number)}: as {reference} has it, it counts, and what differs is held")
    return _left(project, number, _saved(project, number, reference), covered=_looked_at(project))


def _by_commit(project: Project, number: int, notice: Notice) -> Leftovers:
    state = _saved(project, number, "HEAD")
    counts = "as it is committed, it counts, and what is proven to be completed"
    if "prd.json" not in state:
        counts = "nobody can tell whose edits are in it, so completed is what is proven to be, and the rest is held"
    notice("warning", f"{_gone(number)}, nor is it saved in refs/ralph: {counts}")
    there = disk.content_of(project.folder.prd)
    proven = _proven(project, there, state.get("prd.json"), before=number)
    held = state | ({"prd.json": proven} if proven is not None else {})
    return _left(project, number, held, covered=_looked_at(project) if "prd.json" in state else ())


def _looked_at(project: Project) -> tuple[str, ...]:
    """What is saved with the state, beside the task list; the rest of what stands in the folders is of no effect."""
    with suppress(OSError):
        names = sorted(path.name for path in project.folder.templates.iterdir() if templates.is_name(path.name))
        return ("config.yaml", *(f"templates/{name}" for name in names))
    return ("config.yaml",)


def _gone(number: int) -> str:
    return f"a run died in iteration {number}, and what it kept of the state is gone or cannot be read"


def _saved(project: Project, number: int, revision: str) -> dict[str, bytes]:
    names = commits.blobs_of_state(project.repository, revision)
    wanted = [name for name in names if editable.is_editable(name) or name == history.name_of(number)]
    files = {name: commits.file_of_state(project.repository, revision, name) for name in wanted}
    return {name: content for name, content in files.items() if content is not None}


def _left(project: Project, number: int, state: dict[str, bytes], *, covered: tuple[str, ...]) -> Leftovers:
    name = history.name_of(number)
    with suppress(RalphError):
        if name not in state:
            record = history.read(project.folder, number)
            begun = replace(record, phase="executing", verdict=None, decision=None, tree=None, commit=None)
            state[name] = codec.encode_iteration(begun)
    nothing = guard.Guard({}, (), {}, project.repository, of_git=False)
    return Leftovers(number, Opening("", "", frozenset(), {}), nothing, state, covered)


def _proven(project: Project, there: bytes | None, base: bytes | None, *, before: int) -> bytes | None:
    """The task list `base`, else the one that is there, less what cannot be shown to be completed; tasks that are
    proven to be are as they are there.
    """
    try:
        now = codec.decode_prd(there or b"", name=str(project.folder.prd))
        known = codec.decode_prd(base, name="HEAD") if base is not None else None
    except RalphError:
        return base
    recorded = set(_recorded(project, before))
    written = {task.id: task for task in now.tasks}

    def of(task: Task) -> Task:
        other = written.get(task.id, task)
        if other.status != "completed" or (known is not None and task.status == "completed"):
            return task
        if _is_proven(project, other, recorded):
            return other
        return task if known is not None else replace(task, status="pending", completed_at=None)

    counts: Prd = known or now
    counts = replace(counts, tasks=tuple(of(task) for task in counts.tasks))
    return there if counts == now else codec.encode_prd(counts)


def _is_proven(project: Project, task: Task, recorded: Collection[str]) -> bool:
    """Whether it was done before it was imported, was completed by a commit, or in an iteration before."""
    if task.id in recorded or DONE_BEFORE.items() <= task.metadata.items():
        return True
    return project.repository.commit_with_trailer("Ralph-Task", task.id) is not None


def _recorded(project: Project, before: int) -> Iterator[str]:
    for number in history.numbers(project.folder):
        with suppress(RalphError):
            record = history.read(project.folder, number)
            if number < before and record.phase == "settled":
                yield from record.tasks_completed
