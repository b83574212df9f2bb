"""What a person wants, in their own words: read from the command line, and made a task or the beginning of a list."""

import os
import sys
from pathlib import Path

from rulebook_ralph.cli.app import App
from rulebook_ralph.cli.places import open_root
from rulebook_ralph.config.settings import Config
from rulebook_ralph.errors import RalphError
from rulebook_ralph.git.attempts import state_references
from rulebook_ralph.run import lock
from rulebook_ralph.run.project import Project
from rulebook_ralph.run.rehearsal import edited_list
from rulebook_ralph.tasks import disk, prd_file, progress
from rulebook_ralph.tasks.criteria import ACCEPTANCE_CRITERIA, ROLE_PROMISE
from rulebook_ralph.tasks.disk import StateFolder
from rulebook_ralph.tasks.importers.source import UnreadableError, read_text, word_id
from rulebook_ralph.tasks.model import PRD_VERSION, Json, Prd, project_name
from rulebook_ralph.tasks.text import cut, escaped

_STANDARD_INPUT = "-"
_FILE_ENDINGS = (".md", ".markdown", ".txt")
_LONGEST_TITLE = 100
_MOST_BYTES = 100_000


def text_of(app: App, wanted: str, *, most: int = _MOST_BYTES, bare_files: bool = False) -> str:
    """What is wanted: the text itself, that of `@FILE`, or standard input for `-`; with `bare_files` a file may be
    named without the `@`. Raises RalphError.
    """
    name, text = "the text", wanted
    if wanted == _STANDARD_INPUT:
        name, text = "standard input", _standard_input(most)
    elif wanted.startswith("@") or (bare_files and _names_file(app, wanted)):
        name = wanted.removeprefix("@")
        text = _of_file(app.cwd / name, name)
    if not text.strip():
        raise RalphError(f"{name} says nothing; say what you want")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise RalphError(f"{name} is no valid UTF-8 text") from None
    if size > most:
        raise RalphError(f"{name} is longer than {most:,} bytes; say it in parts")
    return text


def as_task(text: str, prd: Prd, config: Config) -> Json:
    """The wish as a new task of the list: its first line is the title. Where no gate could show that it is done, a
    model judges it. The same wish that is still open keeps its task's id.
    """
    whole = text.strip()
    first = " ".join(whole.splitlines()[0].lstrip("# ").split()) or "What is wanted"
    title = cut(first, _LONGEST_TITLE)
    is_all = title == whole
    words: Json = {
        "title": title,
        "description": "" if is_all else whole,
        "acceptanceCriteria": [title if is_all else "All that the description asks for is there and works"],
    }
    if not any(step.required for step in config.verification.gates):
        judged = {"verificationMethod": "semantic", "verificationConfig": {"checkFor": [ACCEPTANCE_CRITERIA]}}
        words["completion"] = {"coder": {"promise": ROLE_PROMISE["coder"], **judged}}
    for task in prd.tasks:
        if (task.title, task.description) == (title, words["description"]) and task.status != "completed":
            return {"id": task.id, **words}
    taken = {task.id.casefold() for task in prd.tasks}
    base = word_id(title)
    names = (base, *(f"{base}-{number}" for number in range(2, len(taken) + 3)))
    return {"id": next(name for name in names if name not in taken), **words}


def list_of(app: App, project: Project) -> Prd:
    """The task list; an empty one where there is none, which is not written yet. Raises RalphError."""
    if project.folder.prd.exists() or state_references(project.repository):
        return edited_list(project, app.clock)
    now = app.clock.iso()
    name = project_name(project.root.name)
    return Prd(version=PRD_VERSION, project=name, created_at=now, updated_at=now)


def begin_list(app: App, prd: Prd) -> None:
    """Write the list where there is none yet. Raises RalphError."""
    root, repository = open_root(app)
    folder = StateFolder(root)
    if not folder.prd.exists():
        with lock.hold(repository.private, "init", since=app.clock.iso()):
            write_list(folder, prd, prd if folder.prd.exists() else None, at=app.clock.iso())


def write_list(folder: StateFolder, prd: Prd, before: Prd | None, *, at: str) -> None:
    """Make the state folder with that list, where it is another one than before. Raises RalphError."""
    disk.make_folder(folder.history)
    if prd is not before:
        disk.replace_file(folder.prd, prd_file.encode_prd(prd))
    if not folder.progress.exists():
        text = progress.header(prd.project, created_at=at, task_count=len(prd.tasks))
        disk.append_file(folder.progress, text.encode("utf-8"))


def _names_file(app: App, wanted: str) -> bool:
    if wanted.strip() and os.path.exists(app.cwd / wanted):  # noqa: PTH110 - pathlib's raises for a long text
        return True
    if wanted.endswith(_FILE_ENDINGS) and not any(map(str.isspace, wanted)):
        raise RalphError(f"there is no file {escaped(wanted)}")
    return False


def _of_file(file: Path, named: str) -> str:
    if not os.path.exists(file):  # noqa: PTH110 - see above
        raise RalphError(f"there is no file {escaped(named)}")
    file = file.resolve()
    try:
        return read_text(file, within=file.parent)
    except UnreadableError as error:
        raise RalphError(str(error.problem(file.parent))) from None


def _standard_input(most: int) -> str:
    if sys.stdin is None:
        raise RalphError("there is no standard input; give the text, or a file")
    data = sys.stdin.buffer.read(most + 1)
    if len(data) > most:
        raise RalphError(f"standard input is longer than {most:,} bytes; say it in parts")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RalphError(f"standard input is not UTF-8 (byte {error.start + 1}): save it as UTF-8") from None
