"""`ralph hook`: what the Claude Code plugin calls. A stop with nothing to do is to cost next to nothing."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from rulebook_ralph.app import App
from rulebook_ralph.core import hook_answer
from rulebook_ralph.core.hook_answer import Answer, StopInput
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.loop import session_note
from rulebook_ralph.loop.session_note import Driver, SessionNote
from rulebook_ralph.session_place import private_folder

if TYPE_CHECKING:
    from rulebook_ralph.commands.hook_session import Told
    from rulebook_ralph.loop.session import Step

_RESERVE = 30.0
"""So many seconds before its timeout the hook begins to end."""

_LONGEST_LOG = 1 << 20
"""Bytes of session.log; of a longer one the newer half stays."""

_SESSION = click.option("--session", "session_id", required=True, metavar="ID", help="The session's id.")


@click.group(short_help="What the Claude Code plugin calls")
def command() -> None:
    """What the Claude Code plugin calls (ralph plugin install); not for people."""


@command.command("begin")
@_SESSION
@click.option("--driver", type=click.Choice(get_args(Driver)), default="ralph", help="What keeps it going.")
@click.option("--tasks", type=click.IntRange(min=1), help="End after so many tasks.")
@click.pass_obj
def begin_command(app: App, /, *, session_id: str, driver: Driver, tasks: int | None) -> int:
    """Begin the loop of a session, if all it needs is there."""
    from rulebook_ralph.commands import hook_begin  # noqa: PLC0415 - most of Ralph, which a stop does without

    told = hook_begin.begin(app, session_id, driver=driver, tasks=tasks)
    app.stdout.write(told)
    return ExitCode.OK


@command.command("stop")
@click.option("--timeout", type=click.FloatRange(min=_RESERVE), required=True, help="What hooks.json allows, seconds.")
@click.pass_obj
def stop_command(app: App, /, *, timeout: float) -> int:
    """Judge the turn that has ended and hand out the next, in a session whose loop goes on; else nothing."""
    try:
        answer = _answer(_where_it_began(app), timeout)
    except RalphError as error:
        answer = Answer(system_message=f"Ralph lets you go: {error}")
    except Exception as error:  # noqa: BLE001 - whatever it is, the session must be able to end
        told = f"Ralph lets you go: unexpected error ({type(error).__name__}: {str(error)[:200]})"
        answer = Answer(system_message=told)
    app.stdout.write(answer.encoded())
    return ExitCode.OK


@command.command("watch")
@click.pass_obj
def watch_command(app: App, /) -> int:
    """Write down that the session stopped; the plugin ralph-loop decides whether it goes on."""
    try:
        if (session := _session(_where_it_began(app))) is not None:
            from rulebook_ralph.state import disk  # noqa: PLC0415 - see above

            given, private, _ = session
            said = given.last_assistant_message.strip().splitlines()[-1:] or [""]
            line = f"{app.clock.iso()} stop session={given.session_id} said={said[0][:200]!r}\n"
            log = private / "session.log"
            if log.is_file() and log.stat().st_size > _LONGEST_LOG:
                newer = disk.read_file(log, largest=_LONGEST_LOG // 2, only_end=True)
                disk.replace_file(log, newer.partition(b"\n")[2])
            disk.append_file(log, line.encode("utf-8", "replace"))
    except Exception as error:  # noqa: BLE001 - a watcher never stands in the way
        app.stdout.write(Answer(system_message=f"Ralph could not write down this stop: {error}").encoded())
    return ExitCode.OK


@command.command("end")
@click.pass_obj
def end_command(app: App, /) -> int:
    """The session has ended: others may take over what it left."""
    try:
        if (session := _session(_where_it_began(app))) is not None:
            from rulebook_ralph.state import lock  # noqa: PLC0415 - see above

            _, private, note = session
            lock.release(private / "lock", note.session_id)
    except RalphError as error:
        app.error(str(error))
    return ExitCode.OK


@command.command("turn")
@click.option("--done", is_flag=True, help="The report and the promise stand in standard input: judge the work.")
@click.pass_obj
def turn_command(app: App, /, *, done: bool) -> int:
    """Print the brief of the task at hand; with --done judge it. For the driver ralph-loop."""
    from rulebook_ralph.commands import hook_begin  # noqa: PLC0415 - see above

    said = _stdin() if done else b""
    app.stdout.write(hook_begin.turn(app, said.decode("utf-8", "replace") if done else None))
    return ExitCode.OK


@command.command("cancel")
@_SESSION
@click.pass_obj
def cancel_command(app: App, /, *, session_id: str) -> int:
    """End the loop of a session: the attempt is kept in a snapshot, not counted, and the tree goes back."""
    from rulebook_ralph.commands import hook_begin  # noqa: PLC0415 - see above

    app.stdout.write(hook_begin.cancel(app, session_id))
    return ExitCode.OK


def _stdin() -> bytes:
    """Nothing where it is closed."""
    return sys.stdin.buffer.read(hook_answer.MOST_BYTES + 1) if sys.stdin is not None else b""


def _where_it_began(app: App) -> App:
    """In the folder that Claude Code was started in: a hook runs where the session's shell has gone meanwhile."""
    folder = app.environment.get("CLAUDE_PROJECT_DIR")
    return replace(app, cwd=Path(folder)) if folder else app


def _session(app: App) -> tuple[StopInput, Path, SessionNote] | None:
    """What the hook is told, the private git folder of the project around, and the loop that goes on there; None where
    that is not this session's.
    """
    given = hook_answer.read(_stdin())
    folder = private_folder(str(app.cwd))
    note = session_note.read(Path(folder)) if folder is not None else None
    if folder is None or note is None or note.session_id != given.session_id:
        return None
    return given, Path(folder), note


def _answer(app: App, timeout: float) -> Answer:
    session = _session(app)
    if session is None or session[2].driver != "ralph":
        return Answer()
    given, private, note = session
    if given.background_tasks:
        return Answer(system_message="Ralph judges the task when what runs in the background has ended")
    from rulebook_ralph.commands import hook_session  # noqa: PLC0415 - see above

    told = hook_session.Told()
    step: Step | None = None
    try:
        transcript = Path(given.transcript_path) if given.transcript_path else None
        most = hook_answer.longest_row(app.environment.get("CLAUDE_CODE_STOP_HOOK_BLOCK_CAP"))
        stopped = hook_session.Stopped(
            said=given.last_assistant_message,
            transcript=transcript,
            order=session_note.order_given(private),
            seconds=timeout - _RESERVE,
            longest_row=most if transcript and transcript.is_file() else None,  # else nobody knows of its tools
        )
        step = hook_session.take_stop(app, note, stopped, told)
    except RalphError as error:
        if note.iteration is None:
            hook_session.end_unopened(private, note.session_id)
        told.lines.append(str(error))
    return _told(step, told)


def _told(step: "Step | None", told: "Told") -> Answer:
    if step is None or step.ended is not None:
        return Answer(system_message=told.text())
    return Answer(decision="block", reason=step.brief, system_message=told.text())
