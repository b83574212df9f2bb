"""`ralph hook`: what the Claude Code plugin calls. A stop with nothing to do is to cost next to nothing."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rulebook_ralph.app import App
from rulebook_ralph.core import hook_answer
from rulebook_ralph.core.hook_answer import Answer, StopInput
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.loop import session_note
from rulebook_ralph.loop.session_note import SessionNote
from rulebook_ralph.session_place import private_folder

if TYPE_CHECKING:
    from rulebook_ralph.commands.hook_session import Told
    from rulebook_ralph.loop.session import Step

_RESERVE = 30.0
"""So many seconds before its timeout the hook begins to end."""

_SESSION = click.option("--session", "session_id", required=True, metavar="ID", help="The session's id.")


@click.group(short_help="What the Claude Code plugin calls")
def command() -> None:
    """What the Claude Code plugin calls (ralph plugin install); not for people."""


@command.command("begin")
@_SESSION
@click.option("--driver", type=click.Choice(["ralph", "ralph-loop"]), default="ralph", help="What keeps it going.")
@click.option("--tasks", type=click.IntRange(min=1), help="End after so many tasks.")
@click.pass_obj
def begin_command(app: App, /, *, session_id: str, driver: session_note.Driver, tasks: int | None) -> int:
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
        answer = _answer(app, timeout)
    except RalphError as error:
        answer = Answer(system_message=f"Ralph lets you go: {error}")
    except Exception as error:  # noqa: BLE001 - whatever it is, the session must be able to end
        told = f"Ralph lets you go: unexpected error ({type(error).__name__}: {str(error)[:200]})"
        answer = Answer(system_message=told)
    app.stdout.write(answer.encoded().decode("utf-8"))
    return ExitCode.OK


@command.command("watch")
@click.pass_obj
def watch_command(app: App, /) -> int:
    """Write down that the session stopped; the plugin ralph-loop decides whether it goes on."""
    try:
        given, private, note = _session(app)
        if private is not None and note is not None and note.session_id == given.session_id:
            from rulebook_ralph.state import disk  # noqa: PLC0415

            said = given.last_assistant_message.strip().splitlines()[-1:] or [""]
            line = f"{app.clock.iso()} stop session={given.session_id} said={said[0][:200]!r}\n"
            disk.append_file(private / "session.log", line.encode("utf-8", "replace"))
    except Exception as error:  # noqa: BLE001 - a watcher never stands in the way
        app.stdout.write(Answer(system_message=f"Ralph could not write down this stop: {error}").encoded().decode())
    return ExitCode.OK


@command.command("end")
@click.pass_obj
def end_command(app: App, /) -> int:
    """The session has ended: others may take over what it left."""
    try:
        given, private, note = _session(app)
        if private is not None and note is not None and note.session_id == given.session_id:
            from rulebook_ralph.state import lock  # noqa: PLC0415

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
    return sys.stdin.buffer.read(hook_answer.MOST_BYTES + 1)


def _session(app: App) -> tuple[StopInput, Path | None, SessionNote | None]:
    """What the hook is told, the private git folder of the project around, and the loop that goes on there."""
    given = hook_answer.read(_stdin())
    found = private_folder(app.environment.get("CLAUDE_PROJECT_DIR") or str(app.cwd))
    private = Path(found) if found is not None else None
    return given, private, session_note.read(private) if private is not None else None


def _answer(app: App, timeout: float) -> Answer:
    given, private, note = _session(app)
    if private is None or note is None or note.session_id != given.session_id or note.driver != "ralph":
        return Answer()
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
            session_note.remove(private)
        told.lines.append(f"{error}")
    return _told(step, told)


def _told(step: "Step | None", told: "Told") -> Answer:
    if step is None or step.ended is not None:
        return Answer(system_message=told.text())
    return Answer(decision="block", reason=step.brief, system_message=told.text())
