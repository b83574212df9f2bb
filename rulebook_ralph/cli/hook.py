"""`ralph hook`: what the Claude Code plugin calls. A stop with nothing to do has ended before (entry.py)."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import get_args

import click
import msgspec
import psutil

from rulebook_ralph import entry, resources
from rulebook_ralph.cli.app import App
from rulebook_ralph.cli.places import open_project, project_root
from rulebook_ralph.cli.plugin import PROMISE, STATE_FILE, script_of, start_official
from rulebook_ralph.cli.run import end_orphans
from rulebook_ralph.cli.session_stop import Messages, agent_process, end_loop, session_lock, take_stop
from rulebook_ralph.cli.trust import require_agreed
from rulebook_ralph.config import requirements
from rulebook_ralph.config.settings import InsistentConfig
from rulebook_ralph.errors import RalphError
from rulebook_ralph.git.user_tree import UserTree
from rulebook_ralph.process.tree import carries_mark
from rulebook_ralph.report import events
from rulebook_ralph.run import lock, preflight
from rulebook_ralph.run.parts import load_prd
from rulebook_ralph.run.project import Project
from rulebook_ralph.run.session import AGENT, Driver, SessionNote, Stopped, read_note, write_note
from rulebook_ralph.tasks import disk, history, selection
from rulebook_ralph.tasks.criteria import STAGES
from rulebook_ralph.tasks.disk import StateFolder
from rulebook_ralph.tasks.text import counted, some
from rulebook_ralph.verify.redaction import Redactor

_RESERVE = 30.0
"""So many seconds before its timeout the hook begins to end."""
_HOURS = 4 * 3600.0
_LONGEST_ROW = 8
"""So many blocks in a row, with no tool used in between, Claude Code allows; the next one ends the turn."""
_LOOP_PROMPT = "claude-plugin/ralph-loop/prompt.md"
_SESSION = click.option("--session", "session_id", required=True, metavar="ID", help="The session's id.")


class StopInput(msgspec.Struct, frozen=True):
    """What Claude Code tells a hook, as far as it counts; it may leave any out and give others. All is untrusted."""

    session_id: str = ""
    transcript_path: str = ""
    last_assistant_message: str = ""
    background_tasks: tuple[msgspec.Raw, ...] = ()


def answer(app: App, message: str = "", *, prompt: str = "") -> None:
    """What the hook says: `prompt` goes to the agent, whose turn goes on with it, `message` to the person."""
    told = {"decision": "block", "reason": prompt} if prompt else {}
    told |= {"systemMessage": message} if message else {}
    app.stdout.write(json.dumps(told) if told else "")


@click.group(short_help="What the Claude Code plugin calls")
def hook_command() -> None:
    """What the Claude Code plugin calls (ralph plugin install); not for people."""


@hook_command.command("begin")
@_SESSION
@click.option("--driver", type=click.Choice(get_args(Driver)), default="ralph", help="What keeps it going.")
@click.option("--tasks", type=click.IntRange(min=1), help="End after so many tasks.")
@click.pass_obj
def begin_command(app: App, /, *, session_id: str, driver: Driver, tasks: int | None) -> None:
    """Begin the loop of a session, if all it needs is there."""
    if carries_mark(app.environment):
        raise RalphError("this runs inside an agent's process tree; a run goes on already")
    private = _private(app)
    _refuse_other_project(app, private)
    living, before = lock.holder(private / lock.LOCK), read_note(private)
    if living is not None and living.session == session_id and before is not None and before.iteration is not None:
        raise RalphError("the loop of this session goes on already; to end it: /ralph:cancel")
    project = _project_of_session(app)
    messages = Messages()
    prd = load_prd(project, lambda level, text: messages.report(events.Notice(level, text)))
    open_tasks = selection.open_tasks(prd)
    if not open_tasks:
        raise RalphError("all tasks are completed; add some: ralph plan, or ralph task add")
    reopen = [task.id for task in open_tasks if task.status == "blocked"]
    allowed = sum(requirements.attempts_left(project.config, task) for task in selection.plan(prd, reopen=reopen))
    most = project.config.limits.max_iterations or max(1, allowed)
    script = script_of(app, project.root) if driver == "ralph-loop" else None
    prompt = resources.template_text(_LOOP_PROMPT) if script else ""
    if (edited := project.repository.modified()) and not UserTree(project.repository).is_begun:
        told = f"uncommitted changes in {some(edited)}; commit or stash them first"
        raise RalphError(f"{told}: the session works in the same tree")
    note = SessionNote(
        session_id=session_id,
        since=app.clock.iso(),
        config=msgspec.convert(msgspec.to_builtins(project.config), InsistentConfig),
        project=prd.project,
        driver=driver,
        tasks=tasks,
    )
    with session_lock(app, project, note) as held:
        end_orphans(held, messages.lines.append)
        if script is not None:
            start_official(app, project.root, script, prompt, most=most)
        write_note(private, note)
        held.stay()
    limit = f"at most {counted(most, 'iteration')}, the promise {PROMISE}"
    first = f"{prd.project}: {counted(len(open_tasks), 'open task')} of {len(prd.tasks)}, {limit}"
    app.stdout.write("\n".join(line for line in (*messages.lines, first, prompt) if line) + "\n")


@hook_command.command("stop")
@click.option("--timeout", type=click.FloatRange(min=_RESERVE), required=True, help="What hooks.json allows, seconds.")
@click.pass_obj
def stop_command(app: App, /, *, timeout: float) -> None:
    """Judge the turn that has ended and hand out the next, in a session whose loop goes on; else nothing."""
    try:
        _stop(_where_it_began(app), timeout - _RESERVE)
    except RalphError as error:
        answer(app, f"Ralph lets you go: {error}")
    except Exception as error:  # noqa: BLE001 - whatever it is, the session must be able to end
        answer(app, f"Ralph lets you go: unexpected error ({type(error).__name__}: {str(error)[:200]})")


@hook_command.command("watch")
@click.pass_obj
def watch_command(app: App, /) -> None:
    """Write down that the session stopped; the plugin ralph-loop decides whether it goes on."""
    try:
        if (session := _session(_where_it_began(app))) is not None:
            given, private, _ = session
            said = given.last_assistant_message.strip().splitlines()[-1:] or [""]
            line = f"{app.clock.iso()} stop session={given.session_id} said={said[0][:200]!r}\n"
            disk.append_file(private / "session.log", line.encode("utf-8", "replace"))
    except Exception as error:  # noqa: BLE001 - a watcher never stands in the way
        answer(app, f"Ralph could not write down this stop: {error}")


@hook_command.command("end")
@click.pass_obj
def end_command(app: App, /) -> None:
    """The session has ended: others may take over what it left."""
    if (session := _session(_where_it_began(app))) is not None:
        _, private, note = session
        lock.release_session(private, note.session_id)


@hook_command.command("turn")
@click.option("--done", is_flag=True, help="The report and the promise stand in standard input: judge the work.")
@click.pass_obj
def turn_command(app: App, /, *, done: bool) -> None:
    """Print the prompt of the task at hand; with --done judge it. For the driver ralph-loop."""
    private, root = _private(app), project_root(app)
    note = read_note(private)
    if note is None or note.driver != "ralph-loop":
        raise RalphError("no loop of ralph-loop goes on here; begin it: /ralph:implement")
    if not done and note.iteration is not None:
        app.stdout.write(f"{history.read(StateFolder(root), note.iteration).prompt}\n")
        return
    if done and note.iteration is None:
        raise RalphError("no task was handed out yet; run: ralph hook turn")
    said = _stdin().decode("utf-8", "replace") if done else ""
    messages = Messages()
    step = take_stop(app, note, Stopped(said), messages, seconds=_HOURS)
    if step.ended is None:
        app.stdout.write(f"{messages.text()}\n\n{step.prompt}\n".lstrip())
        return
    (root / STATE_FILE).unlink(missing_ok=True)
    promise = f"\nEnd your turn with this line: <promise>{PROMISE}</promise>"
    app.stdout.write(f"{messages.text()}\nThe loop is over.{promise if step.ended.stop_reason == 'complete' else ''}\n")


@hook_command.command("cancel")
@_SESSION
@click.pass_obj
def cancel_command(app: App, /, *, session_id: str) -> None:
    """End the loop of a session: the attempt is kept, not counted, and the tree goes back."""
    private = _private(app)
    note = read_note(private)
    if note is None:
        raise RalphError("no loop goes on in this project")
    if note.session_id != session_id:
        raise RalphError(f"the loop here is another session's ({note.session_id}); cancel it there, or: ralph cancel")
    messages = Messages()
    if note.iteration is not None:
        take_stop(app, note, Stopped(), messages, seconds=_HOURS, cancel=True)
    else:
        end_loop(private, session_id)
    (project_root(app) / STATE_FILE).unlink(missing_ok=True)
    said = messages.text() or "Ralph: cancelled before the first task"
    app.stdout.write(f"{said}\nprogress.txt is kept; go on with: /ralph:implement\n")


# One stop


def _stop(app: App, seconds: float) -> None:
    session = _session(app)
    if session is None or session[2].driver != "ralph":
        return
    given, private, note = session
    if given.background_tasks:
        answer(app, "Ralph judges the task when what runs in the background has ended")
        return
    transcript = Path(given.transcript_path) if given.transcript_path else None
    most = _longest_row(app.environment.get("CLAUDE_CODE_STOP_HOOK_BLOCK_CAP"))
    row = most if transcript and transcript.is_file() else None  # else nobody knows of its tools
    messages, prompt = Messages(), ""
    try:
        stopped = Stopped(given.last_assistant_message, transcript, row)
        step = take_stop(app, note, stopped, messages, seconds=seconds)
        prompt = "" if step.ended else step.prompt
    except RalphError as error:
        if note.iteration is None:
            end_loop(private, note.session_id)
        messages.lines.append(str(error))
    answer(app, messages.text(), prompt=prompt)


# Where the session is


def _project_of_session(app: App) -> Project:
    """The project with the session as its one agent. Raises RalphError, also for strange commands (`ralph trust`)."""
    roles = {role: {"executor": AGENT} for role in STAGES}
    opened = open_project(app, {"defaults": {"executor": AGENT}, "ralph": {"agents": roles}})
    require_agreed(app, opened)
    preflight.require_no_secret(opened.project, Redactor(app.environment).clean)
    return opened.project


def _private(app: App) -> Path:
    """Ralph's part of the git folder, found without git. Raises RalphError."""
    found = entry.private_folder(str(app.cwd))
    if found is None:
        raise RalphError("there is no project of Ralph's here; make one: ralph init")
    return Path(found)


def _where_it_began(app: App) -> App:
    """In the folder that Claude Code was started in: a hook runs where the session's shell has gone meanwhile."""
    folder = app.environment.get("CLAUDE_PROJECT_DIR")
    return replace(app, cwd=Path(folder)) if folder else app


def _refuse_other_project(app: App, private: Path) -> None:
    """Where the session's shell has gone to another project than its hooks, which go by where it was started."""
    told = app.environment.get("CLAUDE_PROJECT_DIR")  # a slash command is not told it
    try:
        folder = told or psutil.Process(agent_process(app)).cwd()
    except psutil.Error:
        return
    theirs = entry.private_folder(folder)
    if theirs is None or Path(theirs).resolve() != private.resolve():
        told = f"Claude Code was started in {folder}, outside of this project"
        raise RalphError(f"{told}; start it in {project_root(app)} instead")


def _session(app: App) -> tuple[StopInput, Path, SessionNote] | None:
    """What the hook is told, the private git folder of the project around, and the loop that goes on there; None where
    that is not this session's.
    """
    given = _read_input(_stdin())
    folder = entry.private_folder(str(app.cwd))
    note = read_note(Path(folder)) if folder is not None else None
    if folder is None or note is None or note.session_id != given.session_id:
        return None
    return given, Path(folder), note


def _stdin() -> bytes:
    """Nothing where it is closed."""
    return sys.stdin.buffer.read() if sys.stdin is not None else b""


def _read_input(data: bytes) -> StopInput:
    """Raises RalphError for what is no input of a hook."""
    try:  # by way of json, as Node may write half of a character
        text = json.dumps(json.loads(data), ensure_ascii=False)
        return msgspec.json.decode(text.encode("utf-8", "replace"), type=StopInput)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise RalphError(f"this is no input of a Claude Code hook: {str(error)[:200]}") from None


def _longest_row(configured: str | None) -> int | None:
    """How many blocks in a row the turn survives, by CLAUDE_CODE_STOP_HOOK_BLOCK_CAP; None without a limit."""
    if configured is None or not configured.isascii() or not configured.isdecimal():
        return _LONGEST_ROW
    return int(configured) or None
