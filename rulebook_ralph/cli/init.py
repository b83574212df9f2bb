"""`ralph init`: tasks become the state folder, with the project's real gates."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from msgspec import structs

from rulebook_ralph.cli.app import App, json_object
from rulebook_ralph.cli.places import open_root, tracked_by
from rulebook_ralph.cli.trust import note_import
from rulebook_ralph.cli.wish import write_list
from rulebook_ralph.config.detection import Discovery, discover
from rulebook_ralph.config.requirements import tasks_without_criteria
from rulebook_ralph.config.template import commented_config, keep_schema
from rulebook_ralph.errors import RalphError
from rulebook_ralph.git.attempts import state_references
from rulebook_ralph.git.repository import Repository
from rulebook_ralph.report.console import Console
from rulebook_ralph.run import lock
from rulebook_ralph.tasks import disk, prd_file
from rulebook_ralph.tasks.disk import StateFolder
from rulebook_ralph.tasks.importers import rulebook, task_files
from rulebook_ralph.tasks.importers.merge import Merge, merge
from rulebook_ralph.tasks.importers.source import SUFFIXES, RefusedTasksError, SourceReading
from rulebook_ralph.tasks.model import PRD_VERSION, Prd, Task, problem_with_id, project_name
from rulebook_ralph.tasks.text import clipped, counted, escaped, some

MOST_PROBLEMS = 50
"""Problems of task files that are shown besides the first."""


@dataclass(frozen=True, slots=True)
class Import:
    """What is to be read: paths of rulebook tasks, files of tasks; with `empty` nothing is. `strict` refuses tasks
    without criteria, `update` takes over what changed in the source, `dry_run` writes nothing.
    """

    paths: tuple[Path, ...] = ()
    files: tuple[Path, ...] = ()
    project: str | None = None
    strict: bool = False
    empty: bool = False
    update: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """What an init did. `found` are the project's gates and what clones need; None where there was a config.yaml."""

    merged: Merge
    reading: SourceReading
    found: Discovery | None

    @property
    def prd(self) -> Prd:
        return self.merged.prd


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[PATH…]")
@click.option(
    "--from",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Read tasks from a file: a checklist, plan or PRD (.md), tasks with criteria (.yaml), a prd.json with"
    " userStories. May be given several times.",
)
@click.option(
    "--empty", is_flag=True, help="Read none: begin with an empty list, for 'ralph plan' and 'ralph task add'."
)
@click.option("--strict", is_flag=True, help="Refuse tasks that do not say themselves what completes them.")
@click.option("--update", is_flag=True, help="Take over criteria that changed in the source, for pending tasks.")
@click.option("--dry-run", is_flag=True, help="Show the tasks that would be there; write nothing.")
@click.option("--project", metavar="NAME", help="The project's name (default: the folder's).")
@json_object
@click.pass_obj
def init_command(app: App, /, *, json: bool, **given: Any) -> None:
    """Turn tasks into .rulebook-ralph/prd.json, progress.txt and a commented config.yaml.

    Each PATH is a project, a tasks folder or a task folder of a rulebook; without one, and without --from, the
    project's own tasks are read, and what was read before. Again on the same project it adds what is new and resets
    nothing.
    """
    wanted = Import(**given)
    if wanted.empty and (wanted.paths or wanted.files):
        raise RalphError("--empty reads no tasks; leave it out, or what is to be read")
    if wanted.project is not None and (fault := problem_with_id(wanted.project)):
        raise RalphError(f"--project '{wanted.project}': {fault}")
    try:
        folder, result = make(app, wanted)
    except RefusedTasksError as error:
        with app.console() as console:
            for problem in error.problems[1 : MOST_PROBLEMS + 1]:  # the first is the reason of the end
                console.error(str(problem))
        raise
    with app.console(json=json) as console:
        if json:
            console.json({"success": True, "taskCount": len(result.prd.tasks), "prdPath": str(folder.prd)})
        else:
            (_preview if wanted.dry_run else _tell)(console, result, folder)
        if not wanted.dry_run:
            _note_import(app, console, result)


def _note_import(app: App, console: Console, result: Result) -> None:
    """The commands of imported tasks are not run before a person agreed, unless their files are one's own."""
    root, repository = open_root(app)
    new = {*result.merged.added, *result.merged.updated}
    tasks = [task for task in result.prd.tasks if task.id in new]
    sources = [root / source for source in dict.fromkeys(task.source for task in tasks) if source]
    if brought := note_import(app, root, repository, tasks, sources):
        them = counted(len(brought), "command")
        console.line(f"the imported tasks bring {them} that Ralph runs only once you agreed: ralph trust")


def make(app: App, wanted: Import | None = None) -> tuple[StateFolder, Result]:
    """Make or complete the state folder of the project around `app.cwd`. Raises RalphError; then nothing changed."""
    root, repository = open_root(app)
    folder = StateFolder(root)
    with lock.hold(repository.private, "init", since=app.clock.iso()):
        return folder, _init(app, folder, repository, wanted or Import())


def _init(app: App, folder: StateFolder, repository: Repository, wanted: Import) -> Result:
    before = prd_file.read_prd(folder.prd) if folder.prd.exists() else None
    if before is None and (saved := state_references(repository)):
        raise RalphError(
            f"{repository.root} has no task list, but one is saved; run 'ralph resume' to go on with it (or 'git "
            f"update-ref -d {saved[0]}' to forget it)"
        )
    reading = _read(app, folder, wanted, before)
    if reading.branch and not repository.can_name_branch(reading.branch):
        raise RalphError(f"'{escaped(reading.branch)}', which the file names, is no name for a branch; change it there")
    now = app.clock.iso()
    prd = before or Prd(
        version=PRD_VERSION,
        project=wanted.project or project_name(reading.project or folder.root.name),
        description=reading.description,
        branch=reading.branch,
        created_at=now,
        updated_at=now,
    )
    if before is not None and not before.tasks:  # an empty list takes over what is said of it
        about = {"description": prd.description or reading.description, "branch": prd.branch or reading.branch}
        prd = structs.replace(prd, **about)
    merged = merge(prd, reading.tasks, folders=reading.folders, refused=reading.refused, update=wanted.update)
    _refuse_faulty(merged.prd, strict=wanted.strict)
    found = None
    if not folder.config.exists():
        found = discover(folder.root, app.environment.get("PATH"), tracked_by(repository))
    result = Result(merged, reading, found)
    if wanted.dry_run:
        return result
    write_list(folder, merged.prd, before, at=now)
    if found is not None:
        text = commented_config(found.steps, found.workspace, found.notes)
        disk.replace_file(folder.config, text.encode("utf-8"))
    keep_schema(folder.path)
    return result


def _read(app: App, folder: StateFolder, wanted: Import, before: Prd | None) -> SourceReading:
    """What the rulebook and the files of tasks say, as one."""
    known = before.tasks if before else ()
    places = tuple(app.cwd / path for path in wanted.paths)
    files = tuple(app.cwd / path for path in wanted.files)
    if not places and not files and not wanted.empty:
        places, files = _read_before(folder.root, known)
    for place in places:
        if place.suffix in SUFFIXES and place.name not in rulebook.MARKS and place.is_file():
            raise RalphError(f"{place} is no task folder; a file of tasks is read with: ralph init --from {place}")
    reading = rulebook.read_all(places, root=folder.root)
    if places and not reading.tasks and before is None and not files:
        problems = "; ".join(str(problem) for problem in reading.problems[:3])
        raise RalphError(f"no task could be read from {places[0]}" + (f": {problems}" if problems else ""))
    return reading + task_files.read_all(files, root=folder.root, known=known, read=reading.tasks)


def _read_before(root: Path, known: Sequence[Task]) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """The rulebook and the files that tasks came from, as far as they are there."""
    sources = [root / source for source in dict.fromkeys(task.source for task in known) if source]
    files = tuple(source for source in sources if source.suffix in SUFFIXES and source.is_file())
    own = rulebook.places(root)
    further = (source for source in sources if source.is_dir() and source.parent not in own)
    return (*own, *further), files


def _refuse_faulty(prd: Prd, *, strict: bool) -> None:
    if faults := prd_file.problems_of(prd):
        raise RalphError(f"the tasks cannot be taken as they are: {faults[0].message}; mend the files that say so")
    if strict and (without := [task.id for task in tasks_without_criteria(prd)]):
        raise RalphError(
            f"{counted(len(without), 'task')} without criteria: {some(without, 20)}; each needs an outcome and"
            " acceptanceCriteria, or completion for a stage (or leave out --strict)"
        )


def _preview(console: Console, result: Result, folder: StateFolder) -> None:
    """The list as it would be."""
    prd, merged = result.prd, result.merged
    about = f" ({clipped(prd.description)})" if prd.description else ""
    console.line(f"project {prd.project}{about}, on branch {prd.work_branch}: {counted(len(prd.tasks), 'task')}")
    rows = (
        (
            "new" if task.id in merged.added else "changed" if task.id in merged.updated else "there already",
            task.status,
            task.id,
            task.title,
            counted(len(task.acceptance_criteria), "criterion", "criteria"),
        )
        for task in prd.tasks
    )
    if prd.tasks:
        console.table(("", "status", "task", "title", ""), rows)
    _tell_of_reading(console, result)
    _tell_of_gates(console, result.found, folder)
    console.line("nothing was written; leave out --dry-run to do so")


def _tell(console: Console, result: Result, folder: StateFolder) -> None:
    prd = result.prd
    completed = sum(task.status == "completed" for task in prd.tasks)
    new = len(result.merged.added)
    console.line(f"{folder.prd}: {counted(len(prd.tasks), 'task')}, {completed} completed already, {new} new")
    if result.merged.updated:
        console.line(f"taken over from the source: {some(result.merged.updated, 20)}")
    _tell_of_reading(console, result)
    if bare := [task.id for task in tasks_without_criteria(prd)]:
        have = f"{counted(len(bare), 'task')} {'has' if len(bare) == 1 else 'have'}"
        console.line(f"{have} no acceptance criteria: {some(bare)}; the gates and the promise decide")
    if not prd.tasks and (usual := task_files.usual(folder.root)):
        console.line(f"no tasks were read; {some(usual, 3)} may hold some: ralph init --from {usual[0]} --dry-run")
    _tell_of_gates(console, result.found, folder)
    console.line("")
    console.line("Agents work with full permissions by default, in a clone of Ralph's own; tools.executors[] in")
    following = "ralph run --dry-run, then: ralph run" if prd.tasks else 'ralph run -p "what you want", or: ralph plan'
    console.line(f"config.yaml restricts them (permissions: edit). Next: {following}")


def _tell_of_gates(console: Console, found: Discovery | None, folder: StateFolder) -> None:
    if found is None:
        console.line(f"{folder.config}: kept as it is")
        return
    for problem in found.problems:
        console.error(str(problem))
    if not found.steps:
        console.line(f"{folder.config}: no gates found; add some under verification.steps before 'ralph run'")
        return
    console.line(f"{folder.config}: gates found, run after each attempt:")
    for step in found.steps:
        console.line(f"  {step.name}: {step.command}")
    needs = {"setup": found.workspace.setup, "copy": some(found.workspace.copy), "link": some(found.workspace.link)}
    if any(needs.values()):
        told = "; ".join(f"{name}: {what}" for name, what in needs.items() if what)
        console.line(f"  what clones need (workspace): {told}")


def _tell_of_reading(console: Console, result: Result) -> None:
    """What in the sources was not taken over."""
    merged = result.merged
    for text in (*map(str, result.reading.problems), *merged.problems):
        console.error(text)
    if merged.vanished:
        console.line(f"no longer in the source, kept: {', '.join(merged.vanished)}")
    if merged.ticked:
        console.line(f"ticked in the source, but not verified, so still to be done: {some(merged.ticked)}")
    if merged.differs:
        console.line("\n".join(merged.differs))
        console.line("prd.json is kept as it is; --update takes over what the source says of these tasks")
