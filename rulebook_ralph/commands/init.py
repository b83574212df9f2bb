"""`ralph init`: a task folder becomes the state folder, with the project's real gates."""

from dataclasses import dataclass
from pathlib import Path

import click

from rulebook_ralph import config
from rulebook_ralph.app import App
from rulebook_ralph.commands import trusting
from rulebook_ralph.commands.config_file import write_schema
from rulebook_ralph.commands.projects import open_project, open_root
from rulebook_ralph.console import Console
from rulebook_ralph.core.enumeration import counted, some
from rulebook_ralph.core.identifiers import problem_with_id, project_name
from rulebook_ralph.core.model import PRD_VERSION, Prd, Task
from rulebook_ralph.core.requirements import tasks_without_criteria
from rulebook_ralph.core.settings import VerificationStep, Workspace
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop.earlier_ticks import without_agents_ticks
from rulebook_ralph.loop.project import refuse_second_state
from rulebook_ralph.sources import gates, rulebook, rulebook_task, task_files
from rulebook_ralph.sources.merge import Difference, Merge, merge
from rulebook_ralph.sources.source import SUFFIXES, RefusedTasksError, SourceReading
from rulebook_ralph.state import codec, disk, lock, progress, store
from rulebook_ralph.state.store import StateFolder
from rulebook_ralph.workspace.git import GitError
from rulebook_ralph.workspace.repository import Repository

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
    steps: tuple[VerificationStep, ...] | None
    workspace: Workspace
    gate_problems: tuple[str, ...]
    made: bool = False
    doubted: tuple[str, ...] = ()
    """Tasks that only an agent said to be done."""


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
        _ask_for_trust(app, console, result)
    return 0


def _ask_for_trust(app: App, console: Console, result: Result) -> None:
    """What was made here is its maker's; the commands of imported tasks are not, until they are looked at."""
    try:
        project = open_project(app, overrides={})
        if told := config.told_of_executor(project.config, project.origins):
            console.line(told)
        brought = trusting.begin(app, project, imported=_imported(result), made=result.made)
    except RalphError as error:
        console.error(f"{error}; until then 'ralph run' needs --trust-commands")
        return
    if brought:
        them = counted(len(brought), "command")
        console.line(f"the imported tasks bring {them} that Ralph runs only once you agreed: ralph trust")


def _imported(result: Result) -> tuple[Task, ...]:
    new = set(result.merged.added)
    return tuple(task for task in result.prd.tasks if task.id in new)


def make(app: App, wanted: Import | None = None) -> tuple[StateFolder, Result]:
    """Make or complete the state folder of the project around `app.cwd`. Raises RalphError; then nothing changed."""
    root, repository = open_root(app)
    folder = StateFolder(root)
    refuse_second_state(repository, folder)
    with lock.held(repository.lock_file, since=app.clock.iso(), command="init"):
        return folder, _init(app, folder, repository, wanted or Import())


def _init(app: App, folder: StateFolder, repository: Repository, wanted: Import) -> Result:
    before = store.read_prd(folder) if folder.prd.exists() else None
    known = {task.id for task in before.tasks} if before else set[str]()
    reading, doubted = without_agents_ticks(_read(app, folder, wanted, before), repository, known)
    now = app.clock.iso()
    prd = before or Prd(
        version=PRD_VERSION, project=_project_name(wanted.project, folder.root), created_at=now, updated_at=now
    )
    merged = merge(prd, reading.tasks, folders=reading.folders, refused=reading.refused)
    merged_prd = merged.prd
    codec.decode_prd(codec.encode_prd(merged_prd), name=str(folder.prd))
    if wanted.strict:
        _refuse_without_criteria(merged_prd)
    found = gates.discover(folder.root) if not folder.config.exists() else None
    workspace = _not_in_git(repository, found.workspace) if found is not None and found.steps else Workspace()
    disk.make_folder(folder.history)
    if before is None or merged.added:
        store.write_prd(folder, merged_prd)
    if not folder.progress.exists():
        text = progress.header(merged_prd.project, created_at=now, task_count=len(merged_prd.tasks))
        disk.append_file(folder.progress, text.encode("utf-8"))
    if found is not None:
        text = config.commented_config(found.steps, clean=bool(found.steps), workspace=workspace)
        disk.replace_file(folder.config, text.encode("utf-8"))
    write_schema(folder.path)
    return Result(
        merged_prd,
        merged,
        reading,
        found.steps if found else None,
        workspace,
        tuple(problem.told(folder.root) for problem in found.problems) if found else (),
        made=before is None and found is not None,
        doubted=doubted,
    )


def _not_in_git(repository: Repository, found: Workspace) -> Workspace:
    """Of what gates may need, that which git ignores: the rest is in every checkout, or nobody's to share."""
    paths = (*found.copy, *found.link)
    try:
        ignored = repository.git.text("check-ignore", "--", *paths).splitlines() if paths else []
    except GitError:  # none of them
        ignored = []
    return Workspace(
        copy=tuple(path for path in found.copy if path in ignored),
        link=tuple(path for path in found.link if path in ignored),
    )


def _read(app: App, folder: StateFolder, wanted: Import, before: Prd | None) -> SourceReading:
    """What the rulebook and the files of tasks say, as one."""
    known = before.tasks if before else ()
    places = tuple(app.cwd / path for path in wanted.paths)
    if not places and not wanted.files and not wanted.empty:
        places = _default_place(folder.root, has_state=before is not None)
    for place in places:
        if place.suffix in SUFFIXES and place.name not in rulebook_task.MARKS and place.is_file():
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
    for text in (*result.merged.problems, *result.gate_problems):
        console.error(text)
    _tell_of_ended_tasks(console, result)
    for difference in result.merged.differs:
        console.line(_told(difference))
    if bare := [task.id for task in tasks_without_criteria(prd)]:
        have = f"{counted(len(bare), 'task')} {'has' if len(bare) == 1 else 'have'}"
        console.line(f"{have} no acceptance criteria: {some(bare)}; the gates and the promise decide")
    if result.steps is None:
        console.line(f"{folder.config}: kept as it is")
    elif result.steps:
        console.line(f"{folder.config}: gates found, run after each attempt:")
        for step in result.steps:
            console.line(f"  {step.name}: {step.command}")
        beside = [*result.workspace.copy, *result.workspace.link]
        console.line(f"  in a clean checkout{f', with your {some(beside)}' if beside else ''} (verification.clean)")
    else:
        console.line(f"{folder.config}: no gates found; add some under verification.steps before 'ralph run'")
    console.line("")
    console.line("Agents run with full permissions by default, in this repository, without asking; tools.executors[]")
    following = (
        "ralph run --dry-run, then: ralph run" if prd.tasks else 'ralph plan "what you want", or: ralph task add'
    )
    console.line(f"in config.yaml restricts them (permissions: edit). Next: {following}")


def _tell_of_ended_tasks(console: Console, result: Result) -> None:
    if result.merged.vanished:
        console.line(f"no longer in the source, kept: {', '.join(result.merged.vanished)}")
    if doubted := result.doubted:
        console.line(f"said to be done in the source by an agent alone, so still to be done: {some(doubted)}")
    if ticked := result.merged.ticked:
        console.line(f"ticked in the source, but not verified, so still to be done: {some(ticked)}")


def _told(difference: Difference) -> str:
    missing = counted(len(difference.missing), "more criterion", "more criteria")
    more = [f"lists {missing}"] if difference.missing else []
    if difference.stages:
        more.append(f"has other criteria for {', '.join(difference.stages)}")
    return f"{difference.task_id}: its source {' and '.join(more)}; prd.json is kept as it is"
