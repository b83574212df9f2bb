"""`ralph init`: tasks become the state folder, with the project's real gates."""

from dataclasses import dataclass, replace
from pathlib import Path

import click

from rulebook_ralph.cli.app import App
from rulebook_ralph.cli.places import open_root, tracked_by
from rulebook_ralph.cli.trust import note_import
from rulebook_ralph.config.detection import Discovery, discover, without_tracked
from rulebook_ralph.config.requirements import tasks_without_criteria
from rulebook_ralph.config.template import commented_config, keep_schema
from rulebook_ralph.errors import RalphError
from rulebook_ralph.git.attempts import state_references
from rulebook_ralph.git.repository import Repository
from rulebook_ralph.report.console import Console
from rulebook_ralph.run import lock
from rulebook_ralph.tasks import disk, prd_file, progress
from rulebook_ralph.tasks.disk import StateFolder
from rulebook_ralph.tasks.importers import rulebook, task_files
from rulebook_ralph.tasks.importers.merge import Merge, SourceDifference, merge
from rulebook_ralph.tasks.importers.source import SUFFIXES, RefusedTasksError, SourceReading
from rulebook_ralph.tasks.model import PRD_VERSION, Prd, problem_with_id, project_name
from rulebook_ralph.tasks.text import counted, some

MOST_PROBLEMS = 50
"""Problems of task files that are shown besides the first."""


@dataclass(frozen=True, slots=True)
class Import:
    """What is to be read: paths of rulebook tasks, files of tasks; with `empty` nothing is. `strict` refuses tasks
    without criteria.
    """

    paths: tuple[Path, ...] = ()
    files: tuple[Path, ...] = ()
    project: str | None = None
    strict: bool = False
    empty: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """What an init did."""

    prd: Prd
    merged: Merge
    reading: SourceReading
    found: Discovery | None
    """The project's gates and what clones need; None where there was a config.yaml already."""


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[PATH…]")
@click.option(
    "--from",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Read tasks from a file: a Markdown checklist (.md), tasks with criteria (.yaml), a prd.json with userStories."
    " May be given several times.",
)
@click.option(
    "--empty", is_flag=True, help="Read none: begin with an empty list, for 'ralph plan' and 'ralph task add'."
)
@click.option("--strict", is_flag=True, help="Refuse tasks that do not say themselves what completes them.")
@click.option("--project", metavar="NAME", help="The project's name (default: the folder's).")
@click.option("--json", is_flag=True, help="Print one JSON object; the rest goes to stderr.")
@click.pass_obj
def command(
    app: App,
    paths: tuple[Path, ...],
    *,
    files: tuple[Path, ...],
    empty: bool,
    strict: bool,
    project: str | None,
    json: bool,
) -> int:
    """Turn tasks into .rulebook-ralph/prd.json, progress.txt and a commented config.yaml.

    Each PATH is a project, a tasks folder or a task folder of a rulebook; without one, and without --from, the
    project's own tasks are read. Again on the same project it adds what is new and resets nothing.
    """
    if empty and (paths or files):
        raise RalphError("--empty reads no tasks; leave it out, or what is to be read")
    try:
        folder, result = make(app, Import(paths, files, project, strict, empty))
    except RefusedTasksError as error:
        _tell_further(app, error)
        raise
    with app.console(json=json) as console:
        if json:
            console.json({"success": True, "taskCount": len(result.prd.tasks), "prdPath": str(folder.prd)})
        else:
            _tell(console, result, folder)
        _note_import(app, console, result)
    return 0


def _note_import(app: App, console: Console, result: Result) -> None:
    """The commands of imported tasks are not run before a person agreed, unless their files are one's own."""
    root, repository = open_root(app)
    new = set(result.merged.added)
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
    if before is None:
        _refuse_saved(repository)
    reading = _read(app, folder, wanted, before)
    now = app.clock.iso()
    prd = before or Prd(
        version=PRD_VERSION, project=_project_name(wanted.project, folder.root), created_at=now, updated_at=now
    )
    merged = merge(prd, reading.tasks, folders=reading.folders, refused=reading.refused)
    prd_file.decode_prd(prd_file.encode_prd(merged.prd), name=str(folder.prd))
    if wanted.strict:
        _refuse_without_criteria(merged.prd)
    found = None if folder.config.exists() else discover(folder.root, app.environment.get("PATH"))
    if found is not None:
        found = replace(found, workspace=without_tracked(found.workspace, tracked_by(repository)))
    disk.make_folder(folder.history)
    if before is None or merged.added:
        disk.replace_file(folder.prd, prd_file.encode_prd(merged.prd))
    if not folder.progress.exists():
        text = progress.header(merged.prd.project, created_at=now, task_count=len(merged.prd.tasks))
        disk.append_file(folder.progress, text.encode("utf-8"))
    if found is not None:
        text = commented_config(found.steps, found.workspace, found.notes)
        disk.replace_file(folder.config, text.encode("utf-8"))
    keep_schema(folder.path)
    return Result(merged.prd, merged, reading, found)


def _refuse_saved(repository: Repository) -> None:
    """Raises RalphError where the task list is gone but saved: a new one would forget what was done."""
    if references := state_references(repository):
        raise RalphError(
            f"{repository.root} has no task list, but one is saved; run 'ralph resume' to go on with it (or 'git "
            f"update-ref -d {references[0]}' to forget it)"
        )


def _read(app: App, folder: StateFolder, wanted: Import, before: Prd | None) -> SourceReading:
    """What the rulebook and the files of tasks say, as one."""
    known = before.tasks if before else ()
    places = tuple(app.cwd / path for path in wanted.paths)
    if not places and not wanted.files and not wanted.empty:
        places = _default_place(folder.root, has_state=before is not None)
    for place in places:
        if place.suffix in SUFFIXES and place.name not in rulebook.MARKS and place.is_file():
            raise RalphError(f"{place} is no task folder; a file of tasks is read with: ralph init --from {place}")
    ids = [task.id for task in known]
    reading = rulebook.read_all(places, root=folder.root, known_ids=ids) if places else SourceReading()
    if places and not reading.tasks and before is None and not wanted.files:
        problems = "; ".join(problem.told(folder.root) for problem in reading.problems[:3])
        raise RalphError(f"no task could be read from {places[0]}" + (f": {problems}" if problems else ""))
    if not wanted.files:
        return reading
    files = [app.cwd / path for path in wanted.files]
    further = task_files.read_all(files, root=folder.root, known=known, read=reading.tasks)
    return SourceReading(
        tasks=(*reading.tasks, *further.tasks),
        problems=(*reading.problems, *further.problems),
        folders=(*reading.folders, *further.folders),
        refused=reading.refused,
    )


def _refuse_without_criteria(prd: Prd) -> None:
    if without := [task.id for task in tasks_without_criteria(prd)]:
        raise RalphError(
            f"{counted(len(without), 'task')} without criteria: {some(without, 20)}; each needs an outcome and"
            " acceptanceCriteria, or completion for a stage (or leave out --strict)"
        )


def _tell_further(app: App, error: RefusedTasksError) -> None:
    """The problems after the first, which is told as the reason of the end."""
    with app.console() as console:
        for problem in error.problems[1 : MOST_PROBLEMS + 1]:
            console.error(str(problem))


def _default_place(root: Path, *, has_state: bool) -> tuple[Path, ...]:
    if rulebook.find(root) is not None:
        return (root,)
    if has_state:
        return ()
    raise RalphError(
        f"{root} has neither rulebook/tasks/ nor .rulebook/tasks/; name the folder of the tasks (ralph init PATH), a"
        " file of tasks (ralph init --from FILE), or begin with none (ralph init --empty)"
    )


def _project_name(given: str | None, root: Path) -> str:
    if given is not None:
        problem = problem_with_id(given)
        if problem:
            raise RalphError(f"--project '{given}': {problem}")
        return given
    return project_name(root.name)


def _tell(console: Console, result: Result, folder: StateFolder) -> None:
    prd = result.prd
    completed = sum(task.status == "completed" for task in prd.tasks)
    new = len(result.merged.added)
    console.line(f"{folder.prd}: {counted(len(prd.tasks), 'task')}, {completed} completed already, {new} new")
    for problem in result.reading.problems:
        console.error(problem.told(folder.root))
    for text in result.merged.problems:
        console.error(text)
    _tell_of_ended_tasks(console, result)
    for difference in result.merged.differs:
        console.line(_difference(difference))
    if bare := [task.id for task in tasks_without_criteria(prd)]:
        have = f"{counted(len(bare), 'task')} {'has' if len(bare) == 1 else 'have'}"
        console.line(f"{have} no acceptance criteria: {some(bare)}; the gates and the promise decide")
    _tell_of_gates(console, result.found, folder)
    console.line("")
    console.line("Agents work with full permissions by default, in a clone of Ralph's own; tools.executors[] in")
    following = (
        "ralph run --dry-run, then: ralph run" if prd.tasks else 'ralph plan "what you want", or: ralph task add'
    )
    console.line(f"config.yaml restricts them (permissions: edit). Next: {following}")


def _tell_of_gates(console: Console, found: Discovery | None, folder: StateFolder) -> None:
    if found is None:
        console.line(f"{folder.config}: kept as it is")
        return
    for problem in found.problems:
        console.error(problem.told(folder.root))
    if not found.steps:
        console.line(f"{folder.config}: no gates found; add some under verification.steps before 'ralph run'")
        return
    console.line(f"{folder.config}: gates found, run after each attempt:")
    for step in found.steps:
        console.line(f"  {step.name}: {step.command}")
    needs = [f"setup: {found.workspace.setup}" if found.workspace.setup else ""]
    needs += [f"copy: {some(found.workspace.copy)}" if found.workspace.copy else ""]
    needs += [f"link: {some(found.workspace.link)}" if found.workspace.link else ""]
    if any(needs):
        console.line(f"  what clones need (workspace): {'; '.join(filter(None, needs))}")


def _tell_of_ended_tasks(console: Console, result: Result) -> None:
    if result.merged.vanished:
        console.line(f"no longer in the source, kept: {', '.join(result.merged.vanished)}")
    if ticked := result.merged.ticked:
        console.line(f"ticked in the source, but not verified, so still to be done: {some(ticked)}")


def _difference(difference: SourceDifference) -> str:
    missing = counted(len(difference.missing), "more criterion", "more criteria")
    more = [f"lists {missing}"] if difference.missing else []
    if difference.stages:
        more.append(f"has other criteria for {', '.join(difference.stages)}")
    return f"{difference.task_id}: its source {' and '.join(more)}; prd.json is kept as it is"
