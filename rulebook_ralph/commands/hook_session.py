"""One stop of a session's loop as a command: the lock, the configuration, the judging, and what is remembered of it."""

import dataclasses
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from msgspec.structs import replace

from rulebook_ralph.agents.claude_session import EndedTurn, SessionAgent, sizes
from rulebook_ralph.app import App
from rulebook_ralph.cancellation import Cancellation
from rulebook_ralph.commands.interrupting import interruptible
from rulebook_ralph.commands.projects import bring_back_state, end_orphans, open_project, open_root
from rulebook_ralph.commands.trusting import require_agreed
from rulebook_ralph.core import events
from rulebook_ralph.core.criteria import STAGES
from rulebook_ralph.core.redaction import cleaned
from rulebook_ralph.core.settings import Config
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop import departure, distrust, leftovers, session_note
from rulebook_ralph.loop.preflight_secrets import require_no_secret
from rulebook_ralph.loop.project import Project, project_root
from rulebook_ralph.loop.session import SessionLoop, Step
from rulebook_ralph.loop.session_crew import SessionCrew
from rulebook_ralph.loop.session_note import Order, SessionNote
from rulebook_ralph.loop.session_process import agent_among, ancestors
from rulebook_ralph.session_place import private_folder
from rulebook_ralph.state import disk, holder, lock
from rulebook_ralph.state.holder import Holder
from rulebook_ralph.state.store import StateFolder
from rulebook_ralph.workspace import guard
from rulebook_ralph.workspace.repository import unopened

AGENT = "claude"
"""The session does the work of every stage, whatever agents are configured."""
_AT_ONCE = 4
"""So many tasks at once where `parallel.workers` does not say it: subagents cost no checkout."""


@dataclass(slots=True)
class Told:
    """What is said to the person when the hook answers."""

    lines: list[str] = field(default_factory=list)

    def report(self, event: events.Event) -> None:
        match event:
            case events.Notice(level="warning", text=text):
                self.lines.append(text)
            case events.IterationSettled():
                why = event.commit[:7] if event.commit else event.reason
                self.lines.append(f"{event.task_id}: {event.outcome}" + (f" ({why})" if why else ""))
            case events.RunEnded():
                all_done = "ALL_TASKS_COMPLETE: " if event.stop_reason == "complete" else ""
                self.lines.append(f"{all_done}{event.stop_reason}: {event.reason}")

    def text(self) -> str:
        return "\n".join(f"Ralph: {line}" for line in self.lines)


@dataclass(frozen=True, slots=True)
class Stopped:
    """The session stops; `said` is its last message, `seconds` what judging may take."""

    said: str
    transcript: Path | None
    order: Order
    seconds: float
    longest_row: int | None = None


def agent_process(app: App) -> int:
    """The id of the agent's process that started this one. Raises RalphError where there is none."""
    pid = agent_among(ancestors(), app.environment.get("CLAUDE_PID", ""))
    if pid is None:
        raise RalphError("this is for Claude Code to run, from a slash command or a hook of the plugin")
    return pid


def worker_for(app: App, session_id: str, *, since: str) -> Holder:
    """This process as a holder of the lock for the session."""
    return holder.of_session(session_id, agent_process(app), since=since, command=lock.SESSION)


def project_of_session(app: App) -> tuple[Project, int]:
    """The project with the session as the one agent, in the user's tree, and to how many subagents at once it may hand
    out tasks. Raises RalphError, also for strange commands (`ralph trust`).
    """
    roles = {role: {"executor": AGENT} for role in STAGES}
    session = {"defaults": {"executor": AGENT}, "ralph": {"agents": roles}}
    project = open_project(app, overrides=session)
    require_agreed(app, project)
    config, workers = project.config, project.config.parallel.workers
    in_place = replace(
        config, git=replace(config.git, workspace="in-place"), parallel=replace(config.parallel, workers=1)
    )
    return dataclasses.replace(project, config=in_place), workers if workers > 1 else _AT_ONCE


def take_stop(app: App, note: SessionNote, stopped: Stopped, told: Told) -> Step:
    """Judge and go on; the note is written, or removed where the loop is over. Raises RalphError, and then the session
    goes on where an iteration is open.
    """
    restored = _put_back(app, note)
    opened = _, repository = open_root(app)
    private = repository.private
    goes_on = note.iteration is not None

    def is_open() -> bool:
        return goes_on

    me = worker_for(app, note.session_id, since=note.since)
    with lock.held_for_session(repository.lock_file, me, goes_on=is_open) as died:
        if died is not None:
            end_orphans(died, told.report, within=(repository.root, repository.git_folder))
        elif note.iteration is not None and not leftovers.is_kept(private, note.iteration):
            goes_on = False
            session_note.remove(private)
            told_why = f"iteration {note.iteration} was ended by another run, or what was kept of it is gone"
            raise RalphError(f"{told_why}; begin again: /ralph:implement")
        bring_back_state(app, opened, told.report, command=lock.SESSION)
        step = _taken(app, note, stopped, told, restored=restored, died=died is not None)
        goes_on = step.ended is None
        if goes_on:
            session_note.write(private, replace(step.note, transcripts_read=sizes(stopped.transcript)))
        else:
            session_note.remove(private)
    return step


def end_unopened(private: Path, session_id: str) -> None:
    """End a loop that has no iteration open, though its lock could not be taken. Raises RalphError."""
    session_note.remove(private)
    lock.release(private / "lock", session_id)


def private_here(app: App) -> Path:
    """Ralph's part of the git folder, found without git. Raises RalphError."""
    found = private_folder(str(app.cwd))
    if found is None:
        raise RalphError("there is no project of Ralph's here; make one: ralph init")
    return Path(found)


def _put_back(app: App, note: SessionNote) -> guard.Restored:
    """Put back what the session changed in the git folder, before git is asked anything: it would go by it."""
    private = private_here(app)
    living, written = lock.holder(private / "lock"), disk.content_of(private / "lock")
    if living.session != note.session_id if living is not None else written:
        return guard.NOTHING  # others, or a death that is still to be mended
    root = project_root(app.cwd, app.environment)
    repository = unopened(root, private.parent, app.environment)
    project = Project(root, StateFolder(root), repository, Config(), app.environment)
    if note.iteration is not None and (left := leftovers.load(project, note.iteration)) is not None:
        departure.note(repository, left.number, left.opening.commit)
    return distrust.put_back_git(project)


def _agent(note: SessionNote, stopped: Stopped, now: datetime) -> SessionAgent:
    since = datetime.fromisoformat(note.opened_at or note.since)
    turn = EndedTurn(
        session_id=note.session_id,
        said=stopped.said,
        transcript=stopped.transcript,
        read=note.transcripts_read,
        milliseconds=round((now - since).total_seconds() * 1000),
        cancelled=stopped.order == "cancel",
    )
    return SessionAgent(AGENT, turn)


def _taken(app: App, note: SessionNote, stopped: Stopped, told: Told, *, restored: guard.Restored, died: bool) -> Step:
    """The stop as the loop takes it. Raises RalphError."""
    project, at_once = project_of_session(app)
    crew = SessionCrew(project.config, project.environment, _agent(note, stopped, app.clock.now()))
    require_no_secret(project, crew)
    with _in_time(stopped.seconds, told) as cancelled:
        loop = SessionLoop(
            project,
            crew,
            note,
            at_once=at_once,
            restored=restored,
            report=lambda event: told.report(cleaned(event, loop.redactor.clean_cut)),
            clock=app.clock,
            cancelled=cancelled,
        )
        try:
            if note.iteration is None or died:  # how far the dead one came, recovery finds out
                return loop.begin(stopped.order, after_death=died or note.after_death)
            return loop.judge(stopped.order, row=note.row, longest_row=stopped.longest_row)
        finally:
            loop.close()


@contextmanager
def _in_time(seconds: float, told: Told) -> Iterator[Cancellation]:
    """Ends the judging, as ^C would, before Claude Code ends the hook."""

    def over(cancelled: Cancellation) -> Callable[[], None]:
        def end() -> None:
            told.lines.append(
                "judging takes longer than the hook may (timeout in the plugin's hooks.json); the work is kept, "
                "judge it with: ralph verify, or go on with: ralph resume"
            )
            cancelled.set()

        return end

    with interruptible() as cancelled:
        timer = threading.Timer(seconds, over(cancelled))
        timer.daemon = True
        timer.start()
        try:
            yield cancelled
        finally:
            timer.cancel()
