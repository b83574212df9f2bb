"""Clones of a repository for agents and gates: they share its objects, and nothing done in them reaches its files."""

import os
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from rulebook_ralph.errors import RalphError
from rulebook_ralph.git import git_folder
from rulebook_ralph.git.cache import folder_for, is_folder, open_up, put_copy, take_down, unwritable
from rulebook_ralph.git.capture import TIME_LIMIT, Captured, Tracked, capture, listed, tracked_of, walk
from rulebook_ralph.git.repository import GitError, Repository, read_plain
from rulebook_ralph.git.trees import changes
from rulebook_ralph.process.box import Box
from rulebook_ralph.tasks.model import STATE_FOLDER

_FORMAT = b"1"
"""The way a clone is laid out. A clone of another way is made anew."""
_TICK = 0.02
"""Seconds after which what changes has another time: the clock that files get theirs from has gone on."""
_OLDEST = 7 * 86400
"""Seconds after which an unused clone is made anew: systems remove old files of such folders one by one."""


class Clone:
    """A clone. `fresh` says that nothing was prepared in it yet. One thread at a time works with it."""

    def __init__(
        self, root: Path, repository: Repository, shared: git_folder.Shared, *, pin: str, lock: BaseFileLock
    ) -> None:
        self.name = root.name
        self.root = root
        self._repository = repository
        self._shared = shared
        self._pin = pin
        self._lock = lock
        self._own = git_folder.own_repository(repository, root.with_name(f"{root.name}.git"), root)
        self._tracked = ("", Tracked())
        self._base = self._held = self._captured = ""
        self._make()

    def hold(self, commit: str, *, tree: str | None = None, keep: bool = False) -> None:
        """Have exactly that tree, or the commit's, stand in the clone, with HEAD at the commit.

        Files that git does not hold are removed, but for those that were there at `mark_prepared`; with `keep` ignored
        ones stay too. Raises RalphError where the disk is full or cannot be written, GitError.
        """
        if not self.is_there:  # without a sandbox an agent can put anything there, a link to a person's folder too
            self._make(anew=True)
        with self._writing():
            self._follow_rules(commit)
            wanted = tree or self._own.tree_of(commit)
            self._move(wanted, keep=keep)
            self._held, self._captured = wanted, ""
            git_folder.write_inner(self._repository, self._shared, self.root, commit)
            index = self._own.git_dir / "index"
            shutil.copy2(index, self.root / ".git" / "index")  # with its time, by which git knows what may have changed

    @property
    def is_there(self) -> bool:
        """Whether the clone's folder is the one that was made."""
        return _identity(self.root) == self._folder

    def mark_prepared(self) -> None:
        """What stands there now beside the tree was made by the setup, and stays."""
        self._prepared = frozenset(walk(self.root, self._tracked_by(self._held), ())[0])
        (self._own.git_dir / "prepared").write_bytes(os.fsencode("\0".join(sorted(self._prepared))))
        self.fresh = False
        time.sleep(_TICK)

    def prepared_is_as_it_was(self) -> bool:
        """Whether nothing of what was prepared was changed since: a time of change (ctime) cannot be set back."""
        marked = (self._own.git_dir / "prepared").stat().st_ctime_ns
        with suppress(OSError):
            return all(_newest(self.root / path) <= marked for path in self._prepared)
        return False

    def forget_prepared(self) -> None:
        """Nothing counts as prepared any more: the next `hold` removes it."""
        (self._own.git_dir / "prepared").unlink(missing_ok=True)
        self._prepared, self.fresh = frozenset(), True

    def capture(self, *, anew: bool = False) -> Captured:
        """The tree that stands in the clone now. Raises RalphError, GitError.

        `anew`: a person's `git gc` may have removed objects of the last capture, which the index says are there.
        """
        if not self.is_there:
            raise RalphError(f"{self.root} was removed, or something else put in its place")
        self._unlock_index()
        self._captured = ""
        if anew:
            self._own.run("read-tree", "--reset", self._base)
        with self._writing():
            captured = capture(self._own, self._prepared)
        self._captured = captured.tree
        return captured

    def box(self, bwrap: Path, *, hidden: Sequence[Path] = (), links: Sequence[str] = ()) -> Box:
        """The sandbox in which the clone stands in the repository's place; `links` can be read there, too."""
        repository, stores = self._repository, self._shared.stores
        cache = self.root.parent.parent
        # What leads from one folder of objects to others is in the clone's own list, with paths that hold in the box.
        lists = [(link / "info" / "alternates", real / "info" / "alternates") for link, real in stores]
        return Box(
            bwrap,
            hidden=(cache, repository.common_dir, repository.git_dir, *_other_trees(repository), *hidden),
            binds=((self.root, repository.root),),
            read_only=(
                *((real, link) for link, real in stores),
                *((Path(os.devnull), inside) for inside, real in lists if real.is_file()),
                *((repository.root / path, repository.root / path) for path in links),
            ),
        )

    def close(self) -> None:
        """Let another process have it."""
        self._lock.release()

    # Steps

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise unwritable(self.root, error) from None

    def _make(self, *, anew: bool = False) -> None:
        own = self._own.git_dir
        mark, prepared = own / "format", own / "prepared"
        wanted = _FORMAT + b"\n" + self._shared.alternates()
        try:
            is_usable = read_plain(mark) == wanted and is_folder(self.root)
            if anew or not is_usable or time.time() - mark.stat().st_mtime > _OLDEST:
                take_down(self.root)
                take_down(own)
                self.root.mkdir(mode=0o755)
            git_folder.write_own(self._repository, self._shared, own)
            mark.write_bytes(wanted)
            self._folder = _identity(self.root)
        except OSError as error:
            raise unwritable(own, error) from None
        self._base = self._held = self._captured = ""
        self.fresh = not prepared.is_file()
        self._prepared = frozenset(filter(None, os.fsdecode(read_plain(prepared)).split("\0")))

    def _follow_rules(self, commit: str) -> None:
        """Hold the commit against the user's `gc`, and take its rules of what is ignored and converted."""
        if self._base == commit:
            return
        self._repository.objects.move(self._pin, commit)
        before, rules = self._base, (".gitignore", ".gitattributes")
        if not before or any(each.path.endswith(rules) for each in changes(self._repository, before, commit)):
            git_folder.write_rules(self._repository, self._shared, self._own.git_dir, commit)
        self._base = commit

    def _clean(self, tree: str, *, keep: bool) -> None:
        """Remove what is no part of the tree; with `keep` only what the base's rules do not ignore."""
        self._unlock_index()
        extra, special = walk(self.root, self._tracked_by(tree), self._prepared)
        if keep and extra:
            extra = [STATE_FOLDER, *listed(self._own, self._prepared)[1]]
        for path in (*special, *extra):
            take_down(self.root / path)

    def _move(self, tree: str, *, keep: bool) -> None:
        """Bring files and index to the tree: also those files that git would not look at again, or a torn index."""
        order = ("read-tree", "--reset", "-u", "--no-recurse-submodules", tree)
        try:
            self._clean(tree, keep=keep)
            if self._captured == tree:
                return
            self._own.run(*order, timeout=TIME_LIMIT)
        except GitError as error:
            if "No space left" in error.stderr or "quota" in error.stderr:
                raise RalphError(f"no room left for {self.root}; make room, then run ralph again") from None
            (self._own.git_dir / "index").unlink(missing_ok=True)
            open_up(self.root)
            self._clean(tree, keep=False)
            self._own.run(*order, timeout=TIME_LIMIT)
        # Submodules are there to be read: as they stand in the user's tree, without their git folders.
        for path in self._tracked_by(tree).submodules:
            target = self.root / path
            if target.is_dir() and not any(target.iterdir()):
                target.rmdir()
                put_copy(self._repository.root / path, target)

    def _tracked_by(self, tree: str) -> Tracked:
        if self._tracked[0] != tree:
            self._tracked = tree, tracked_of(self._repository.entries(tree))
        return self._tracked[1]

    def _unlock_index(self) -> None:
        (self._own.git_dir / "index.lock").unlink(missing_ok=True)  # of a git that was killed; nobody else has it


class Clones:
    """The clones of one repository. Each is claimed by this process from `open` to `close`."""

    def __init__(self, repository: Repository, cache_root: Path, *, project: str = "clones") -> None:
        self.root = cache_root
        self.repository = repository
        self._project = project
        self._folder = folder_for(repository, cache_root)
        self._shared: git_folder.Shared | None = None
        self._open: dict[str, Clone] = {}

    def open(self, name: str) -> Clone:
        """The clone of that name, made where it is not there. Raises RalphError where another process has it."""
        if name in self._open and self._open[name].root.is_dir():
            return self._open[name]
        if name in self._open:  # somebody emptied the cache
            self._open.pop(name).close()
            self._folder = folder_for(self.repository, self.root)
            self._shared = None
        try:
            if self._shared is None:
                self._shared = git_folder.read_shared(self.repository, self._folder)
            lock = FileLock(self._folder / f"{name}.lock", thread_local=False)
            lock.acquire(timeout=0)
        except Timeout:
            raise RalphError(f"{self._folder / name} is in use by another ralph; end that one first") from None
        except OSError as error:
            raise unwritable(self._folder, error) from None
        pin = f"refs/ralph/{self._project}/base/{name}-{self._folder.name.rpartition('-')[2][:8]}"
        self._open[name] = Clone(self._folder / name, self.repository, self._shared, pin=pin, lock=lock)
        return self._open[name]

    def names(self, prefix: str = "") -> tuple[str, ...]:
        """The clones that are there."""
        return tuple(sorted(path.stem for path in self._folder.glob(f"{prefix}*.git") if path.with_suffix("").is_dir()))

    def close(self) -> None:
        """Let other processes have them; they stay as they are."""
        while self._open:
            self._open.popitem()[1].close()


def _other_trees(repository: Repository) -> list[Path]:
    """The repository's other work trees, as its git folder names them."""
    common = repository.common_dir
    named = ((file, os.fsdecode(read_plain(file)).strip()) for file in common.glob("worktrees/*/gitdir"))
    trees = [(file.parent / said).resolve().parent for file, said in named if said]
    trees += [common.parent] if common.name == ".git" else []
    return [tree for tree in trees if tree != repository.root.resolve()]


def _identity(path: Path) -> tuple[int, int] | None:
    """By which a folder is known; None for anything else."""
    with suppress(OSError):
        status = path.lstat()
        return (status.st_dev, status.st_ino) if stat.S_ISDIR(status.st_mode) else None
    return None


def _newest(path: Path) -> int:
    """The last time of change of a file or link, or of anything in a folder."""
    newest = path.lstat().st_ctime_ns
    if is_folder(path):
        with os.scandir(path) as entries:
            for entry in entries:
                is_inner = entry.is_dir(follow_symlinks=False)
                changed = _newest(Path(entry.path)) if is_inner else entry.stat(follow_symlinks=False).st_ctime_ns
                newest = max(newest, changed)
    return newest
