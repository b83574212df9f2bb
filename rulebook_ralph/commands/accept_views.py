"""What accepting each held edit would do to the state as it is now: what is shown of it, and what is sent."""

import shlex
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rulebook_ralph import config
from rulebook_ralph.app import App
from rulebook_ralph.config_layers import problems_in_file, told
from rulebook_ralph.core import taking
from rulebook_ralph.core.difference_lines import lines_of
from rulebook_ralph.core.edits import Sent
from rulebook_ralph.core.merging import differences
from rulebook_ralph.core.model import STATE_FOLDER, Prd
from rulebook_ralph.core.prd_rules import problems_of
from rulebook_ralph.core.problem import escaped, json_path
from rulebook_ralph.core.taking import Put
from rulebook_ralph.core.whole_text import whole
from rulebook_ralph.errors import RalphError
from rulebook_ralph.state import codec, editable, held, store
from rulebook_ralph.state.held import Held, Place
from rulebook_ralph.state.store import StateFolder

MOST_LINES = 2000
MOST_CHARACTERS = 200_000
"""Of one edit; one that is longer is not accepted here, as nobody would have seen what it does."""

_MOST_COMPARED = 4000


@dataclass(frozen=True, slots=True)
class View:
    """A held edit in lines; `sent` brings it about, None where nothing is left to do, or where a `problem` forbids it.

    With `waits` a part of it cannot be done before the attempt now running has ended.
    """

    held: Held
    lines: tuple[str, ...]
    sent: Sent | None = None
    problem: str = ""
    waits: bool = False

    @property
    def name(self) -> str:
        place = self.held.place
        return f"iteration {place.number}, {escaped(place.name, 200)}"


def views(app: App, folder: StateFolder, places: Collection[Place], *, is_running: bool) -> tuple[View, ...]:
    """Of each edit, after those before it. While a run goes on its agent can write everything that is read here: what
    is sent is what is shown, and the run compares it with what it knows.
    """
    prd: Prd | None = None
    files: dict[str, bytes] = {}
    found = []
    for each in map(held.read, places):
        name = each.place.name
        if each.problem:
            view = View(each, (), problem=each.problem)
        elif name == "prd.json":
            prd = prd or store.read_prd(folder)
            view, prd = _of_list(folder, each, prd, is_running=is_running)
        else:
            view = _of_file(app, folder, each, files, is_running=is_running)
            if view.sent is not None:
                files[name] = each.other
        found.append(view)
    return tuple(found)


def _of_list(folder: StateFolder, each: Held, prd: Prd, *, is_running: bool) -> tuple[View, Prd]:
    try:
        theirs = codec.decode_prd(each.other, name=str(each.place.path))
    except RalphError as error:
        return View(each, (), problem=f"{error}; mend that file, then accept again"), prd
    edit = taking.take(_base(each, prd), theirs)
    whole = taking.taken(prd, edit)
    shown = differences(prd, whole)
    lines = tuple(lines_of(shown))
    if not _can_be_shown(lines):
        return View(each, (), problem=_too_long(folder, each)), prd
    if faults := problems_of(whole):
        path, message = faults[0]
        return View(each, lines, problem=f"with the list as it is now, {json_path(path)}: {message}"), prd
    at_work = [task.id for task in prd.tasks if task.status == "in_iteration"] if is_running else []
    later = taking.waiting(prd, edit, at_work=at_work)
    sent = taking.take(prd, whole) if shown else None
    return View(each, lines, sent=sent, waits=bool(later)), taking.taken(prd, edit, at_work=at_work)


def _base(each: Held, prd: Prd) -> Prd:
    """What the edit began with; the list as it is now where that is not known."""
    try:
        return prd if each.base is None else codec.decode_prd(each.base)
    except RalphError:
        return prd


def _of_file(app: App, folder: StateFolder, each: Held, files: Mapping[str, bytes], *, is_running: bool) -> View:
    name = each.place.name
    try:
        current = files[name] if name in files else editable.current(folder, name)
        if current == each.other:
            return View(each, ())
        if name == "config.yaml":
            _require_loads(app, each)
    except RalphError as error:
        lines = _diff(each)
        return View(each, lines if lines and _can_be_shown(lines) else (), problem=str(error))
    lines = _diff(each)
    if lines is None or not _can_be_shown(lines):
        return View(each, (), problem=_too_long(folder, each))
    put = Put(name=name, base=taking.digest(each.base), content=each.other)
    problem = "" if is_running or taking.digest(current) == put.base else by_hand(folder, each)
    return View(each, lines, sent=None if problem else put, problem=problem)


def by_hand(folder: StateFolder, each: Held) -> str:
    """What is said of an edit of a file that is another by now."""
    return f"{taking.CHANGED_SINCE.message}; {_merge(folder, each)}"


def _too_long(folder: StateFolder, each: Held) -> str:
    where = shlex.quote(str(each.place.path))
    compared = where if each.base is None else f"diff {shlex.quote(str(each.place.base))} {where}"
    return f"it is too long to be shown whole, so look at it in your editor ({compared}); {_merge(folder, each)}"


def _merge(folder: StateFolder, each: Held) -> str:
    mine, theirs = shlex.quote(str(folder.path / each.place.name)), shlex.quote(str(each.place.path))
    merge = (
        f"cp {theirs} {mine}"
        if each.base is None
        else (f"git merge-file {mine} {shlex.quote(str(each.place.base))} {theirs}")
    )
    return f"merge it by hand when no agent works: {merge}; then: ralph accept --discard {each.place.number}"


def _require_loads(app: App, each: Held) -> None:
    """Raises RalphError where the configuration could not be read with that file."""
    with tempfile.TemporaryDirectory(prefix="ralph-") as scratch:
        root = Path(scratch)
        file = root / STATE_FOLDER / "config.yaml"
        file.parent.mkdir()
        file.write_bytes(each.other)
        if problems := problems_in_file(file, str(each.place.path)):
            raise RalphError(f"{told(problems)}; mend that file, then accept again")
        config.load(root, environment=app.environment, home=app.home)


def _diff(each: Held) -> tuple[str, ...] | None:
    """None where it would be too long to look for."""
    import difflib  # noqa: PLC0415 - only for an edited file

    old, new = (_lines(content) for content in (each.base or b"", each.other))
    if len(old) + len(new) > _MOST_COMPARED:
        return None
    names = (f"{each.place.name} (what it began with)" if each.base is not None else "/dev/null", each.place.name)
    # the sign first, apart: it is no part of the indentation
    return tuple(line[:1] + whole(line[1:]) for line in difflib.unified_diff(old, new, *names, lineterm=""))


def _lines(content: bytes) -> list[str]:
    """Split at line feeds alone, and what is no UTF-8 kept apart, so that what differs is seen to."""
    lines = content.decode("utf-8", "backslashreplace").split("\n")
    return lines if lines[-1] else lines[:-1]


def _can_be_shown(lines: Sequence[str]) -> bool:
    return len(lines) <= MOST_LINES and sum(map(len, lines)) <= MOST_CHARACTERS
