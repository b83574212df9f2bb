"""`ralph init`: a task folder becomes the state folder, with the project's real gates."""

import re
from dataclasses import dataclass
from pathlib import Path

import click

from rulebook_ralph import config
from rulebook_ralph.app import App
from rulebook_ralph.commands.projects import open_root
from rulebook_ralph.console import Console
from rulebook_ralph.core.identifiers import problem_with_id
from rulebook_ralph.core.model import PRD_VERSION, Prd
from rulebook_ralph.core.settings import VerificationStep
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop.project import refuse_second_state
from rulebook_ralph.sources import gates, rulebook
from rulebook_ralph.sources.merge import Merge, merge
from rulebook_ralph.sources.source import SourceReading
from rulebook_ralph.state import codec, disk, lock, progress, store
from rulebook_ralph.state.store import StateFolder


@dataclass(frozen=True, slots=True)
class Result:
    """What an init did."""

    prd: Prd
    merged: Merge
    reading: SourceReading
    steps: tuple[VerificationStep, ...] | None
    gate_problems: tuple[str, ...]


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[PATH…]")
@click.option("--project", metavar="NAME", help="The project's name (default: the folder's).")
@click.option("--json", is_flag=True, help="Print one JSON object; the rest goes to stderr.")
@click.pass_obj
def command(app: App, paths: tuple[Path, ...], *, project: str | None, json: bool) -> int:
    """Turn rulebook tasks into .rulebook-ralph/prd.json, progress.txt and a commented config.yaml.

    Each PATH is a project, a tasks folder or a task folder; without one, the project's own tasks are read.
    Again on the same project it adds what is new and resets nothing.
    """
    folder, result = make(app, paths, project=project)
    with app.console(json=json) as console:
        if json:
            console.json({"success": True, "taskCount": len(result.prd.tasks), "prdPath": str(folder.prd)})
        else:
            _tell(console, result, folder)
    return 0


def make(app: App, paths: tuple[Path, ...] = (), *, project: str | None = None) -> tuple[StateFolder, Result]:
    """Make or complete the state folder of the project around `app.cwd`. Raises RalphError; then nothing changed."""
    root, repository = open_root(app)
    folder = StateFolder(root)
    refuse_second_state(repository, folder)
    with lock.held(repository.lock_file, since=app.clock.iso(), command="init"):
        return folder, _init(app, folder, tuple(app.cwd / path for path in paths), project)


def _init(app: App, folder: StateFolder, paths: tuple[Path, ...], project: str | None) -> Result:
    before = store.read_prd(folder) if folder.prd.exists() else None
    known = [task.id for task in before.tasks] if before else []
    places = paths or _default_place(folder.root, has_state=before is not None)
    reading = rulebook.read_all(places, root=folder.root, known_ids=known) if places else SourceReading()
    if places and not reading.tasks and before is None:
        problems = "; ".join(problem.told(folder.root) for problem in reading.problems[:3])
        raise RalphError(f"no task could be read from {places[0]}" + (f": {problems}" if problems else ""))
    now = app.clock.iso()
    prd = before or Prd(
        version=PRD_VERSION, project=_project_name(project, folder.root), created_at=now, updated_at=now
    )
    merged = merge(prd, reading.tasks, folders=reading.folders, refused=reading.refused)
    merged_prd = merged.prd
    codec.decode_prd(codec.encode_prd(merged_prd), name=str(folder.prd))
    found = gates.discover(folder.root) if not folder.config.exists() else None
    disk.make_folder(folder.history)
    if before is None or merged.added:
        store.write_prd(folder, merged_prd)
    if not folder.progress.exists():
        text = progress.header(merged_prd.project, created_at=now, task_count=len(merged_prd.tasks))
        disk.append_file(folder.progress, text.encode("utf-8"))
    if found is not None:
        disk.replace_file(folder.config, config.commented_config(found.steps).encode("utf-8"))
    return Result(
        merged_prd,
        merged,
        reading,
        found.steps if found else None,
        tuple(problem.told(folder.root) for problem in found.problems) if found else (),
    )


def _default_place(root: Path, *, has_state: bool) -> tuple[Path, ...]:
    if rulebook.find(root) is not None:
        return (root,)
    if has_state:
        return ()
    raise RalphError(
        f"{root} has neither rulebook/tasks/ nor .rulebook/tasks/; name the folder of the tasks: ralph init PATH"
    )


def _project_name(given: str | None, root: Path) -> str:
    if given is not None:
        problem = problem_with_id(given)
        if problem:
            raise RalphError(f"--project '{given}': {problem}")
        return given
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", root.name).strip("-._")[:60] or "project"
    return "project" if problem_with_id(name) else name


def _tell(console: Console, result: Result, folder: StateFolder) -> None:
    prd = result.prd
    completed = sum(task.status == "completed" for task in prd.tasks)
    new = len(result.merged.added)
    console.line(f"{folder.prd}: {len(prd.tasks)} tasks, {completed} completed already, {new} new")
    for problem in result.reading.problems:
        console.error(problem.told(folder.root))
    for text in (*result.merged.problems, *result.gate_problems):
        console.error(text)
    if result.merged.vanished:
        console.line(f"no longer in the task folder, kept: {', '.join(result.merged.vanished)}")
    for difference in result.merged.differs:
        missing = len(difference.missing)
        console.line(f"{difference.task_id}: its folder lists {missing} more criteria; prd.json is kept as it is")
    if result.steps is None:
        console.line(f"{folder.config}: kept as it is")
    elif result.steps:
        console.line(f"{folder.config}: gates found, run after each attempt:")
        for step in result.steps:
            console.line(f"  {step.name}: {step.command}")
    else:
        console.line(f"{folder.config}: no gates found; add some under verification.steps before 'ralph run'")
    console.line("")
    console.line("Agents run with full permissions by default, in this repository, without asking; tools.executors[]")
    console.line("in config.yaml restricts them (permissions: edit). Next: ralph run --dry-run, then: ralph run")
