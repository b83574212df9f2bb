"""One stop of a session as a command: the lock, the time that there is, and what is remembered and said of it."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from msgspec import structs

from rulebook_ralph.agents.claude import sizes
from rulebook_ralph.cli.app import App, interruptible
from rulebook_ralph.cli.places import open_root, project_with
from rulebook_ralph.cli.plugin import PROMISE
from rulebook_ralph.cli.run import end_orphans
from rulebook_ralph.entry import SESSION_NOTE
from rulebook_ralph.errors import RalphError
from rulebook_ralph.process.cancellation import Cancellation
from rulebook_ralph.report import events
from rulebook_ralph.run import lock
from rulebook_ralph.run.control import Cancel, Orders
from rulebook_ralph.run.project import Project, RunContext
from rulebook_ralph.run.session import SessionNote, SessionRun, Step, Stopped, write_note
from rulebook_ralph.tasks.text import some
from rulebook_ralph.verify.redaction import Redactor, cleaned
from rulebook_ralph.verify.workspace import Cancelled

_SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "fish", "busybox", "env", "timeout")


@dataclass(slots=True)
class Messages:
    """What is said to the person when the hook answers."""

    lines: list[str] = field(default_factory=list)

    def report(self, event: events.Event) -> None:
        match event:
            case events.Notice(level="warning", text=text):
                self.lines.append(text)
            case events.BranchWaiting():
                self.lines.append(f"{event.branch} waits: {event.reason} ({some(event.files)})")
            case events.IterationSettled():
                why = event.commit[:7] if event.commit else event.reason
                self.lines.append(f"{event.task_id}: {event.outcome}" + (f" ({why})" if why else ""))
            case events.RunEnded():
                all_done = f"{PROMISE}: " if event.stop_reason == "complete" else ""
                self.lines.append(f"{all_done}{event.stop_reason}: {event.reason}")

    def text(self) -> str:
        return "\n".join(f"Ralph: {line}" for line in self.lines)


def take_stop(
    app: App, note: SessionNote, stopped: Stopped, messages: Messages, *, seconds: float, cancel: bool = False
) -> Step:
    """Judge and go on; the note is written, or removed where the loop is over. Raises RalphError, and then the session
    goes on where an iteration is open.
    """
    project = project_with(app, open_root(app)[1], note.config)
    clean = Redactor(app.environment).clean_cut
    with session_lock(app, project, note) as held, _in_time(seconds, messages) as cancelled:
        end_orphans(held, messages.lines.append)
        orders = Orders(cancelled, report=lambda event: messages.report(cleaned(event, clean)), clock=app.clock)
        if cancel:
            orders.obey(Cancel())
        context = RunContext(report=orders.report, clock=app.clock, cancelled=cancelled)
        run = SessionRun(project, note, stopped, context, orders)
        try:
            is_first = note.iteration is None or held.dead  # how far a dead hook came, recovery finds out
            step = run.begin() if is_first else run.judge()
        except Cancelled:
            raise RalphError("it took longer than the hook may, or was told to end; /ralph:implement goes on") from None
        finally:
            if note.iteration is not None:
                held.stay()
        if step.ended is None:
            read = sizes(stopped.transcript)
            write_note(project.private, structs.replace(step.note, transcripts_read=read))
            held.stay()
    if step.ended is not None:
        end_loop(project.private, note.session_id)
    return step


def end_loop(private: Path, session_id: str) -> None:
    """The loop of a session is over, and its lock is free. Raises RalphError."""
    (private / SESSION_NOTE).unlink(missing_ok=True)
    lock.release_session(private, session_id)


def session_lock(app: App, project: Project, note: SessionNote) -> AbstractContextManager[lock.Held]:
    """The project's lock, held by this process for the session."""
    return lock.hold(project.private, lock.SESSION, since=note.since, session=note.session_id, agent=agent_process(app))


@contextmanager
def _in_time(seconds: float, messages: Messages) -> Iterator[Cancellation]:
    """Ends the judging, as ^C would, before Claude Code ends the hook."""
    with interruptible() as cancelled:

        def end() -> None:
            messages.lines.append(
                "judging takes longer than the hook may (timeout in the plugin's hooks.json); the work is kept as an "
                "attempt, go on with: ralph resume"
            )
            cancelled.set()

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        timer.start()
        try:
            yield cancelled
        finally:
            timer.cancel()


def agent_process(app: App) -> int:
    """The id of the agent's process that started this one: the one that it names, else the nearest ancestor that is no
    shell. Raises RalphError where there is none.
    """
    said = app.environment.get("CLAUDE_PID", "")
    above = psutil.Process().parents()
    named = next((each.pid for each in above if str(each.pid) == said), None)
    pid = named or next((each.pid for each in above if each.name().lstrip("-") not in _SHELLS), None)
    if pid is None:
        raise RalphError("this is for Claude Code to run, from a slash command or a hook of the plugin")
    return pid
