"""Ralph's own refs, those of snapshots and of the saved state: remembered at opening, compared, put back.

They may be thousands, so git is asked for them in one question, and puts them back in one transaction. By then its own
files must be in order (guard.py). Of other projects, at which Ralph may work in another work tree, only what is gone.
"""

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rulebook_ralph.workspace.raw_files import Files, contents, not_put_back, remove
from rulebook_ralph.workspace.ref_files import entries, tips_named
from rulebook_ralph.workspace.repository import Repository

_FORMAT = "--format=%(objectname) %(refname) %(symref)"
_GONE = " missing"


@dataclass(frozen=True, slots=True)
class PutBack:
    """What had been changed: refs with what stood there (None: nothing), the commits that others than Ralph's refs
    pointed to, and the refs whose commits are not in the repository any more.
    """

    others: dict[str, bytes | None]
    tips: frozenset[str]
    lost: tuple[str, ...]


NOTHING = PutBack({}, frozenset(), ())


@dataclass(frozen=True, slots=True)
class SnapshotGuard:
    """The refs as they were at opening; `listing` is git's own, a line for each. `project` is the one worked at."""

    project: str
    listing: bytes

    def put_back(self, repository: Repository, *, own: Mapping[str, str], died_in: int | None = None) -> PutBack:
        """Put everything back as it was. `own` are refs that Ralph itself wrote since, as it left them. Where it died
        in iteration `died_in`, what that one left stays, and what others have removed may be a person's doing.

        Raises GitError; RalphError where a file cannot be removed.
        """
        blocking = _clear_way(repository.common_folder, self.project)
        wanted, there = self._differing(repository, own)
        if not (wanted or there or blocking):
            return NOTHING
        for name in [name for name in wanted.keys() | there.keys() if self._is_free(name, there, own, died_in)]:
            wanted.pop(name, None)
            there.pop(name, None)
        if is_ralph_elsewhere(repository):  # it may be at the same project, or somebody prunes another one
            tasks = f"{_folder(self.project)}/tasks/"
            gone = wanted.keys() - there.keys() | own.keys()
            wanted = {name: commit for name, commit in wanted.items() if name in gone and name.startswith(tasks)}
            there = {name: commit for name, commit in there.items() if name in wanted}
        lost = _not_there(repository, wanted)
        _put(repository, {name: commit for name, commit in wanted.items() if name not in lost}, going=there)
        others = {name: f"{there[name]}\n".encode() if name in there else None for name in wanted | there}
        others |= {_relative(path, repository): content for path, (content, _) in blocking.items()}
        tips = {tip for tip in (*there.values(), *tips_named(blocking, blocking)) if tip.encode() not in self.listing}
        return PutBack(dict(sorted(others.items())), frozenset(tips), tuple(sorted(lost)))

    def _differing(self, repository: Repository, own: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        """What should be there and is not, and what is there instead of it or besides: ref -> commit."""
        written = tuple(f" {name} ".encode() for name in own)
        before = {line for line in self.listing.splitlines() if not line.endswith(written)}
        before.update(f"{commit} {name} ".encode() for name, commit in own.items())
        now = set(_listing(repository).splitlines())
        return _commits_by_name(before - now), _commits_by_name(now - before)

    def _is_free(self, name: str, there: Container[str], own: Container[str], died_in: int | None) -> bool:
        """Whether it may be no agent that changed or made the ref."""
        folder = _folder(self.project)
        if not name.startswith(f"{folder}/"):
            return name in there or died_in is not None
        if name == f"{folder}/state":  # moved by Ralph after opening
            return name in there and name not in own
        return died_in is not None and name.endswith(f"/{died_in}")


def remember(repository: Repository, project: str) -> SnapshotGuard:
    """The refs as they are now. Raises GitError."""
    return SnapshotGuard(project, _listing(repository))


def _folder(project: str) -> str:
    return f"refs/ralph/{project}"


def _relative(path: str, repository: Repository) -> str:
    return Path(path).relative_to(repository.common_folder).as_posix()


def _listing(repository: Repository) -> bytes:
    return repository.git.raw("for-each-ref", _FORMAT, "refs/ralph")


def _commits_by_name(lines: Iterable[bytes]) -> dict[str, str]:
    fields = (line.decode("utf-8", "surrogateescape").split(" ") for line in lines)
    return {name: commit for commit, name, _ in fields}


def _clear_way(shared: Path, project: str) -> Files:
    """Remove what stands where the folders of refs belong, in which git would find none and could make none."""
    tasks = f"{shared}/{_folder(project)}/tasks"
    above = [f"{shared}/refs/ralph", f"{shared}/{_folder(project)}", tasks]
    blocking = contents(above)
    for path in blocking:
        _remove(Path(path))
    within = contents(item.path for item in entries(Path(tasks)) if not item.is_dir(follow_symlinks=False))
    for path in within:
        _remove(Path(path))
    return blocking | within


def is_ralph_elsewhere(repository: Repository) -> bool:
    """Whether Ralph has worked in another work tree of the repository, too."""
    shared = repository.common_folder
    folders = [shared, *(Path(item.path) for item in entries(shared / "worktrees"))]
    return any((folder / "ralph").is_dir() for folder in folders if folder != repository.git_folder)


def _not_there(repository: Repository, wanted: Mapping[str, str]) -> set[str]:
    """The refs whose commits are gone."""
    if not wanted:
        return set()
    asked = "".join(f"{commit}\n" for commit in wanted.values()).encode()
    answers = repository.git.text("cat-file", "--batch-check=%(objectname)", stdin=asked).splitlines()
    return {name for name, answer in zip(wanted, answers, strict=True) if answer.endswith(_GONE)}


def _put(repository: Repository, wanted: Mapping[str, str], *, going: Collection[str]) -> None:
    """Have git know those refs, and the others no more."""
    for name in (*going, *wanted):
        _remove(repository.common_folder / name)  # what is no ref at all would stop git
    _update(repository, (f"delete {name}\0\0" for name in going if name not in wanted))
    _update(repository, (f"update {name}\0{commit}\0\0" for name, commit in wanted.items()))


def _update(repository: Repository, orders: Iterable[str]) -> None:
    if given := "".join(orders):
        repository.git.raw("update-ref", "--no-deref", "-z", "--stdin", stdin=given.encode("utf-8", "surrogateescape"))


def _remove(path: Path) -> None:
    try:
        remove(path)
    except NotADirectoryError:
        return  # something else stands above it
    except OSError as error:
        raise not_put_back(path, error) from error
