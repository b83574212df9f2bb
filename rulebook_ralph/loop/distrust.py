"""After a run that died, and between two stops of a session: what the agent may have written to the state folder is put
back, before anything is believed.

An agent can kill Ralph and then write what it likes: a record that says `settled` or `judged`, a task list that says
`completed`. So the word of the file is not taken, but that of `opening-N` in the git folder, which Ralph wrote before
the agent started, and of `opening-N.record` beside it, written before the record was written as judged. The agent could
forge these as well, it runs as the same user: this raises the bar, no more. What lands is still what somebody can read
in git.
"""

import shutil
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from rulebook_ralph.core.enumeration import some
from rulebook_ralph.core.evidence import Iteration
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop import leftovers, lost_leftovers
from rulebook_ralph.loop.landing import Notice
from rulebook_ralph.loop.leftovers import Leftovers
from rulebook_ralph.loop.project import Project
from rulebook_ralph.state import codec, disk, editable, history
from rulebook_ralph.workspace import commits, guard


def put_back_state(project: Project, notice: Notice) -> None:
    """Believe what the private files of dead runs say, where there are any; of those that are gone or damaged, what
    stands in for them (lost_leftovers.py). Raises RalphError.

    Said to be executing: the record, the task list, the configuration and the templates are as they were at opening,
    and so is what outside of the tree decides how work is judged. Said to be judged: the record is that very one,
    also where Ralph died before it had written it, for the outcome was decided; or it is settled, which follows from
    it, and the rest may be a person's by now.
    """
    kept = {left.number: left for left in leftovers.of_dead_runs(project) if _own_record(left) is not None}
    lost: list[Leftovers] = []
    if all(left.place for left in kept.values()):  # in the tree one works at a time
        lost = lost_leftovers.stand_ins(project, kept.keys(), notice)
    worked = False
    for left in (*kept.values(), *lost):
        own = _own_record(left)
        if own is None or own.phase == "executing":
            worked = True
            _put_back_files(project, left, notice)
            _put_back_past(project, left, notice)
            _put_back_outside(project, left, notice)
        if own is not None:
            _put_back_record(project, left, own, notice)
    if worked:
        _put_away_strangers(project, {*kept, *(left.number for left in lost)}, notice)
    for left in lost:
        leftovers.remove_damaged(project, left.number)


def goes_back_to(project: Project, branch: str) -> bool:
    """Whether HEAD was on that branch when an agent began that a dead run left at work, so that it goes back there."""
    return any(
        _is_at_work(left) and left.guarded.head_was() == f"ref: refs/heads/{branch}"
        for left in leftovers.of_dead_runs(project)
    )


def put_back_git(project: Project) -> guard.Restored:
    """Before git is asked anything, as its configuration could have it run something: git's own files are as they were
    when the agent of an iteration began that is not judged yet.
    """
    at_work = [left for left in leftovers.of_dead_runs(project) if not left.place and _is_at_work(left)]
    return at_work[-1].guarded.restore() if at_work else guard.NOTHING


def _is_at_work(left: Leftovers) -> bool:
    own = _own_record(left)
    return own is not None and own.phase == "executing"


def _own_record(left: Leftovers) -> Iteration | None:
    """The record as Ralph wrote it; None where no such thing was kept."""
    if left.record is None:
        return None
    try:
        own = codec.decode_iteration(left.record, name=history.name_of(left.number))
    except RalphError:
        return None
    return own if own.iteration_number == left.number else None


def _put_back_record(project: Project, left: Leftovers, own: Iteration, notice: Notice) -> None:
    path = project.folder.iteration(left.number)
    there = disk.content_of(path)
    if left.record is None or there == left.record:
        return
    if own.phase == "judged" and there is not None and _is_settled(project, left.number):
        return
    before_it = own.phase == "judged" and there is not None and _phase(there, path) == "executing"
    if there is not None and not before_it:
        folder = leftovers.keep_aside(project, left.number, {history.name_of(left.number): there})
        notice("warning", f"{path} is not as Ralph wrote it, and was put back (the other version is in {folder})")
    _write(path, left.record)


def _is_settled(project: Project, number: int) -> bool:
    try:
        return history.read(project.folder, number).phase == "settled"
    except RalphError:
        return False


def _phase(content: bytes, path: Path) -> str:
    with suppress(RalphError):
        return codec.decode_iteration(content, name=str(path)).phase
    return ""


def _put_back_files(project: Project, left: Leftovers, notice: Notice) -> None:
    """The files that people edit. One that was not there goes."""
    of_people = {name: content for name, content in left.state.items() if editable.is_editable(name)}
    strangers = {name: None for name in _covered(project, left) if name not in of_people}
    for name, content in {**of_people, **strangers}.items():
        path = project.folder.path / name
        there = disk.content_of(path)
        if there == content and (content is not None or not _is_anything(path)):
            continue
        done = "put back" if content is not None else "removed, as it was not there"
        told = f"{path} was changed since the agent started, and {done}"
        if there is not None:
            aside = leftovers.hold(project, left.number, name, there, base=content)
            notice("warning", f"{told} (the other version: {aside}); if it was yours: ralph accept")
        elif _is_anything(path):
            notice("warning", told)
        if content is not None:
            _write(path, content)
        else:
            _remove(path)


def _put_back_past(project: Project, left: Leftovers, notice: Notice) -> None:
    """What iterations before have written, as it was saved: files that are gone, and where HEAD was moved, as git does
    it with those that another commit has otherwise or not at all, all of them.
    """
    reference = _state_of(left)
    saved = commits.blobs_of_state(project.repository, reference) if reference else {}
    past = [name for name in saved if name == "progress.txt" or name.startswith("history/")]
    lost = [name for name in past if not _is_anything(project.folder.path / name)]
    head = project.repository.git_folder / "HEAD"
    if left.guarded.head_was() != head.read_text("utf-8", "replace").strip():
        standing = [name for name in past if disk.content_of(project.folder.path / name) is not None]
        blobs = commits.blobs_of_files(project.repository, standing)
        lost += [name for name in standing if blobs[name] != saved[name] and name != history.name_of(left.number)]
    others = {name: disk.content_of(project.folder.path / name) for name in lost}
    folder = leftovers.keep_aside(project, left.number, others)
    for name in lost:
        if (content := commits.file_of_state(project.repository, reference, name)) is not None:
            _write(project.folder.path / name, content)
    if lost:
        kept = f" (what stood there: {folder})" if any(others.values()) else ""
        notice(
            "warning",
            f"gone from {project.folder.path} since the agent started, and put back: {some(lost)}{kept}",
        )


def _state_of(left: Leftovers) -> str:
    """The ref of the saved state that the run wrote to; empty where that is unknown."""
    with suppress(RalphError):
        return commits.state_reference(codec.decode_prd_quick(left.state.get("prd.json", b"")).project)
    return ""


def _covered(project: Project, left: Leftovers) -> Iterator[str]:
    """The names that stand there now, of those that were looked at when the agent started."""
    for name in left.covered:
        path = project.folder.path / name.rstrip("/")
        below = name.endswith("/") and path.is_dir() and not path.is_symlink()
        for found in sorted(path.rglob("*")) if below else [path]:
            if found.is_symlink() or (found.exists() and not found.is_dir()):
                yield found.relative_to(project.folder.path).as_posix()


def _put_back_outside(project: Project, left: Leftovers, notice: Notice) -> None:
    for outside, other in left.guarded.restore_outside().items():
        aside = leftovers.keep_aside(project, left.number, {f"outside/{outside.lstrip('/')}": other})
        told = f"{outside} was changed since the agent started, and put back"
        notice("warning", f"{told} (what stood there: {aside / 'outside'})")


def _put_away_strangers(project: Project, kept: Collection[int], notice: Notice) -> None:
    """Records of other iterations that say they are not settled: when an agent starts, all before are."""
    for number in history.unsettled_numbers(project.folder):
        if number in kept:
            continue
        path, name = project.folder.iteration(number), history.name_of(number)
        folder = leftovers.keep_aside(project, number, {name: disk.content_of(path)})
        notice("warning", f"{path} is not as Ralph wrote it, and was put back (the other version is in {folder})")
        saved = _saved(project, name)
        if saved is not None:
            _write(path, saved)
        else:
            _remove(path)


def _saved(project: Project, name: str) -> bytes | None:
    """The file as it is in the saved state."""
    repository = project.repository
    found = (commits.file_of_state(repository, ref, name) for ref in commits.state_references(repository))
    return next((content for content in found if content is not None), None)


def _is_anything(path: Path) -> bool:
    return path.is_symlink() or path.exists()


def _write(path: Path, content: bytes) -> None:
    if path.parent.is_symlink() or (path.parent.exists() and not path.parent.is_dir()):
        path.parent.unlink()
    if path.is_symlink() or path.is_dir():
        _remove(path)
    disk.make_folder(path.parent)
    disk.replace_file(path, content)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
