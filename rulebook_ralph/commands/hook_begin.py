"""What a session's slash commands and the driver ralph-loop call: the loop's beginning, turns when asked, its end."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from rulebook_ralph import lineage, resources
from rulebook_ralph.app import App
from rulebook_ralph.commands.hook_session import (
    Stopped,
    Told,
    agent_process,
    end_unopened,
    private_here,
    project_of_session,
    take_stop,
    worker_for,
)
from rulebook_ralph.commands.projects import end_orphans, open_root
from rulebook_ralph.core import official_loop, selection
from rulebook_ralph.core.enumeration import counted
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.loop import leftovers, session_note
from rulebook_ralph.loop.options import RunOptions
from rulebook_ralph.loop.preparation import iterations_allowed
from rulebook_ralph.loop.project import Project, load_prd, project_root, refuse_second_state
from rulebook_ralph.loop.session_note import Driver, SessionNote
from rulebook_ralph.loop.session_process import started_in
from rulebook_ralph.session_place import private_folder
from rulebook_ralph.state import disk, history, lock
from rulebook_ralph.state.store import StateFolder

_HOURS = 4 * 3600.0
_SETTING_UP = 30.0
LOOP_PROMPT = "claude-plugin/ralph-loop/prompt.md"


def begin(app: App, session_id: str, *, driver: Driver, tasks: int | None) -> str:
    """Have the session's loop begin at its next stop; what is said of it. Raises RalphError."""
    if lineage.carries_mark(app.environment):
        raise RalphError("this runs inside an agent's process tree; a run goes on already")
    private = private_here(app)
    _refuse_other_project(app, private)
    _refuse_second_beginning(private, session_id)
    root, repository = open_root(app)
    refuse_second_state(repository, StateFolder(root))
    project, _ = project_of_session(app)
    prd, _ = load_prd(project.folder)
    open_tasks = selection.open_tasks(prd)
    if not open_tasks:
        raise RalphError("all tasks are completed; add some: ralph plan, or ralph task add")
    options = RunOptions(command=lock.SESSION)
    reopen = frozenset(task.id for task in open_tasks if task.status == "blocked")
    most = iterations_allowed(project, prd, options, reopen)
    set_up = _setup_of_official_loop(app, project, most) if driver == "ralph-loop" else None
    note = SessionNote(session_id=session_id, since=app.clock.iso(), max_iterations=most, driver=driver, tasks=tasks)
    told = Told()
    has_begun = False

    def is_begun() -> bool:
        return has_begun

    me = worker_for(app, session_id, since=note.since)
    with lock.held_for_session(repository.lock_file, me, goes_on=is_begun) as died:
        if died is not None:
            end_orphans(died, told.report, within=(repository.root, repository.git_folder))
        prompt = set_up() if set_up is not None else ""
        session_note.remove(repository.private)
        session_note.write(repository.private, replace(note, after_death=died is not None))
        has_begun = True
    limit = f"at most {counted(most, 'iteration')}, the promise {official_loop.PROMISE}"
    lines = [
        *told.lines,
        f"{prd.project}: {counted(len(open_tasks), 'open task')} of {len(prd.tasks)}, {limit}",
        prompt,
    ]
    return "\n".join(line for line in lines if line) + "\n"


def _refuse_other_project(app: App, private: Path) -> None:
    """Where the session's shell has gone to another project than its hooks, which go by where it was started."""
    told = app.environment.get("CLAUDE_PROJECT_DIR")  # a slash command is not told it
    folder = Path(told) if told else started_in(agent_process(app))
    if folder is None:
        return
    theirs = private_folder(str(folder))
    if theirs is None or Path(theirs).resolve() != private.resolve():
        root = project_root(app.cwd, app.environment)
        raise RalphError(f"Claude Code was started in {folder}, outside of this project; start it in {root} instead")


def _refuse_second_beginning(private: Path, session_id: str) -> None:
    note = session_note.read(private)
    if note is None or note.session_id != session_id or note.iteration is None:
        return
    if leftovers.is_kept(private, note.iteration):
        raise RalphError("the loop of this session goes on already; to end it: /ralph:cancel")


def turn(app: App, said: str | None) -> str:
    """For the driver ralph-loop: the brief of the task at hand, opened if none is; or what came of the turn that `said`
    that, and the next brief. Raises RalphError.
    """
    private = private_here(app)
    note = session_note.read(private)
    if note is None or note.driver != "ralph-loop":
        raise RalphError("no loop of ralph-loop goes on here; begin it: /ralph:implement")
    if said is None and note.iteration is not None:
        folder = StateFolder(project_root(app.cwd, app.environment))
        return f"{history.read(folder, note.iteration).prompt}\n"
    if said is not None and note.iteration is None:
        raise RalphError("no task was handed out yet; run: ralph hook turn")
    told = Told()
    stopped = Stopped(said or "", None, session_note.order_given(private), _HOURS)
    step = take_stop(app, note, stopped, told)
    if step.ended is None:
        return f"{told.text()}\n\n{step.brief}\n".lstrip()
    (project_root(app.cwd, app.environment) / official_loop.STATE_FILE).unlink(missing_ok=True)
    promise = f"\nEnd your turn with this line: <promise>{official_loop.PROMISE}</promise>"
    return f"{told.text()}\nThe loop is over.{promise if step.ended.stop_reason == 'complete' else ''}\n"


def cancel(app: App, session_id: str) -> str:
    """End the loop of the session; what is said of it. Raises RalphError where it has none."""
    private = private_here(app)
    note = session_note.read(private)
    if note is None:
        raise RalphError("no loop goes on in this project")
    if note.session_id != session_id:
        raise RalphError(f"the loop here is another session's ({note.session_id}); cancel it there, or: ralph cancel")
    told = Told()
    if note.iteration is not None:
        take_stop(app, note, Stopped("", None, "cancel", _HOURS), told)
    else:
        end_unopened(private, session_id)
    (project_root(app.cwd, app.environment) / official_loop.STATE_FILE).unlink(missing_ok=True)
    said = told.text() or "Ralph: cancelled before the first task"
    return f"{said}\nprogress.txt is kept; go on with: /ralph:implement\n"


def script_of_official_loop(app: App, root: Path) -> Path:
    """What starts the official plugin's loop in a folder. Raises RalphError where it is not installed there."""
    home = Path(app.environment.get("CLAUDE_CONFIG_DIR") or app.home / ".claude")
    installed = disk.content_of(home / "plugins" / "installed_plugins.json") or b""
    names = [home / "settings.json", *(root / ".claude" / name for name in ("settings.json", "settings.local.json"))]
    settings = tuple(disk.content_of(name) or b"" for name in names)
    path = official_loop.install_path(installed, settings, project=str(root))
    script = Path(path or "") / official_loop.SETUP
    if path is None or not script.is_file():
        raise RalphError(official_loop.MISSING)
    return script


def _setup_of_official_loop(app: App, project: Project, most: int) -> Callable[[], str]:
    """Starts the official plugin's loop when called, by its own script. Raises RalphError where it is not installed."""
    script = script_of_official_loop(app, project.root)
    prompt = resources.template_text(LOOP_PROMPT)

    def set_up() -> str:
        arguments = [prompt, "--max-iterations", str(most), "--completion-promise", official_loop.PROMISE]
        done = subprocess.run(
            ["/bin/bash", os.fspath(script), *arguments],
            cwd=project.root,
            env=dict(app.environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SETTING_UP,
            check=False,
        )
        if done.returncode != 0:
            why = done.stderr.strip()[:300]
            raise RalphError(f"{script} failed ({done.returncode}): {why}", exit_code=ExitCode.AGENT)
        return prompt

    return set_up
