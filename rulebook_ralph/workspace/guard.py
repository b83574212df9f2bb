"""What an agent must not change in the git folder and outside the tree: remembered at opening, compared, put back.

Read and written as files, before any git command runs: an agent may have planted configuration by which git runs
something. Covered: configuration, `info/`, hooks, HEAD, the index, refs and the stash, unfinished merges and rebases;
then, asking git, `refs/ralph` (snapshot_guard.py). Not covered: remote-tracking refs (a person may fetch meanwhile) and
branches that are, at opening or now, checked out in a work tree that was there at opening (somebody may commit there);
of work trees made since, new branches. What else is guarded, the caller names.
"""

import itertools
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import msgspec

from rulebook_ralph.workspace.raw_files import Files, contents, not_put_back, put, remove
from rulebook_ralph.workspace.ref_files import FREE_REFS, checked_out_elsewhere, packed_refs, tips_named, unpack_free
from rulebook_ralph.workspace.repository import Repository
from rulebook_ralph.workspace.snapshot_guard import SnapshotGuard
from rulebook_ralph.workspace.syncing import sync_paths

_PER_TREE = (
    "HEAD",
    "index",
    "config.worktree",
    "MERGE_HEAD",
    "MERGE_MSG",
    "MERGE_MODE",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "REBASE_HEAD",
    "BISECT_LOG",
    "BISECT_START",
    "AUTO_MERGE",
    "SQUASH_MSG",
    "MERGE_RR",
    "MERGE_AUTOSTASH",
    "info/sparse-checkout",
)
_PER_TREE_FOLDERS = ("rebase-merge", "rebase-apply", "sequencer")
_SHARED = ("config", "packed-refs", "shallow", "objects/info/alternates", "logs/refs/stash")
_SHARED_FOLDERS = ("info", "hooks", "refs")
_LOCKS = ("index.lock", "HEAD.lock", "config.lock", "packed-refs.lock")
_INERT = ".sample"  # hooks that git never runs


@dataclass(frozen=True, slots=True)
class Restored:
    """What had been changed, as paths in the git folder with what stood there (None: nothing), the same for the files
    outside of it by their whole paths, and the commits that an agent made refs point to. `left` are new refs that may
    be a person's (`heads/x`), `lost` refs of snapshots that name nothing any more.
    """

    others: dict[str, bytes | None]
    outside: dict[str, bytes | None]
    new_tips: tuple[str, ...]
    left: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


NOTHING = Restored({}, {}, ())
_NONE: Mapping[str, str] = MappingProxyType({})


class _Encoded(msgspec.Struct, frozen=True, array_like=True):
    files: dict[bytes, tuple[bytes, int]]
    outside: list[bytes]
    elsewhere: dict[bytes, bytes]
    snapshots: SnapshotGuard | None = None  # an older version kept none


@dataclass(frozen=True, slots=True)
class Guard:
    """The guarded files as they were at opening; `outside` are those that are not in the git folder; `elsewhere` are
    the other work trees' HEAD files, and the ref files of the branches that they had checked out, `snapshots` what
    is below refs/ralph. Without `of_git` the git folder is left alone.
    """

    files: Files
    outside: tuple[str, ...]
    elsewhere: dict[str, str]
    repository: Repository
    of_git: bool = True
    snapshots: SnapshotGuard | None = None

    def encoded(self) -> bytes:
        """The guard as bytes, so that it outlives a crash."""
        files = {os.fsencode(path): content for path, content in self.files.items()}
        elsewhere = {os.fsencode(head): os.fsencode(ref) for head, ref in self.elsewhere.items()}
        outside = [os.fsencode(path) for path in self.outside]
        return msgspec.msgpack.encode(_Encoded(files, outside, elsewhere, self.snapshots))

    def restore_outside(self) -> dict[str, bytes | None]:
        """Put back the files outside the git folder alone; returns their paths with what stood there."""
        now = contents(self.outside)
        changed = [path for path in self.outside if now.get(path) != self.files.get(path)]
        self._put_back(changed)
        return _others(changed, now)

    def restore(self, *, own: Mapping[str, str] = _NONE) -> Restored:
        """Put everything back as it was; `own` are refs of its own that Ralph wrote since, with commits."""
        outside = self.restore_outside()
        if not self.of_git:
            return Restored({}, outside, ())
        now, free = _read(self.repository), self._in_use()
        changed = self._changed(now, free)
        restored = self._restored(changed, now, outside)
        shared = self.repository.common_folder
        packed = f"{shared}/packed-refs"
        if now.get(packed) != self.files.get(packed):
            before = packed_refs(self.files.get(packed))
            newly = {ref: name for ref, name in packed_refs(now.get(packed)).items() if before.get(ref) != name}
            unpack_free(shared, newly, {Path(path).relative_to(shared).as_posix() for path in free})
        return self._with_snapshots(restored, own=own)

    def restore_after_death(self, branch: str, *, until: float, number: int) -> Restored:
        """The same after a run that died, when a person may have used git since: of the refs only the run's own branch,
        those of snapshots but for what iteration `number` left, and branches and tags that were written last before
        `until` (seconds since the epoch), while the agent lived.
        """
        outside = self.restore_outside()
        now, shared = _read(self.repository), self.repository.common_folder
        packed = f"{shared}/packed-refs"
        own, names = f"{shared}/refs/heads/{branch}", packed_refs(now.get(packed))
        changed, left = [], []
        for path in self._changed(now, self._in_use()):
            if path == packed or path.endswith("/refs/stash") or self._is_only_packed(path, names):
                continue
            if path == own or "/refs/" not in path or _written_at(path) <= until:
                changed.append(path)
            elif path not in self.files:
                left.append(path.removeprefix(f"{shared}/refs/"))
        restored = replace(self._restored(changed, now, outside), left=tuple(sorted(left)))
        return self._with_snapshots(restored, own=_NONE, died_in=number)

    def head_was(self) -> str:
        """What HEAD said: `ref: refs/heads/x`, or a commit."""
        return self.files.get(str(self.repository.git_folder / "HEAD"), (b"", 0))[0].decode("utf-8", "replace").strip()

    def _changed(self, now: Files, free: set[str]) -> list[str]:
        guarded = self.files.keys() - set(self.outside)
        return [path for path in (now.keys() | guarded) - free if now.get(path) != self.files.get(path)]

    def _is_only_packed(self, path: str, packed: Mapping[str, str]) -> bool:
        """Whether a ref's file is gone because git packed it, as it was."""
        ref = path.removeprefix(f"{self.repository.common_folder}/")
        return ref in packed and self.files.get(path, (b"", 0))[0].strip() == packed[ref].encode("ascii")

    def _restored(self, changed: Collection[str], now: Files, outside: dict[str, bytes | None]) -> Restored:
        if tips := tips_named(now, changed):
            tips -= tips_named(self.files, self.files)
        self._put_back(changed)
        for name in _PER_TREE_FOLDERS:  # git takes an empty one for an unfinished rebase
            with suppress(OSError):
                (self.repository.git_folder / name).rmdir()
        folders = (self.repository.git_folder, self.repository.common_folder)
        for name, folder in itertools.product(_LOCKS, folders):
            (folder / name).unlink(missing_ok=True)
        others = {
            _relative(Path(path), folders): other
            for path, other in _others(changed, now).items()
            if not path.endswith("/index")
        }
        return Restored(others, outside, tuple(sorted(tips)))

    def _with_snapshots(self, restored: Restored, *, own: Mapping[str, str], died_in: int | None = None) -> Restored:
        """The same with the refs of snapshots, now that git can be asked."""
        if self.snapshots is None:
            return restored
        back = self.snapshots.put_back(self.repository, own=own, died_in=died_in)
        tips = back.tips and back.tips - tips_named(self.files, self.files)
        return replace(
            restored,
            others={**restored.others, **back.others},
            new_tips=tuple(sorted({*restored.new_tips, *tips})),
            lost=back.lost,
        )

    def _in_use(self) -> set[str]:
        """The ref files of branches on which somebody may work in another work tree."""
        now = checked_out_elsewhere(self.repository)
        if not now:
            return set(self.elsewhere.values())
        shared = self.repository.common_folder
        before = self.files.keys() | {f"{shared}/{ref}" for ref in packed_refs(self.files.get(f"{shared}/packed-refs"))}
        free = {ref for head, ref in now.items() if head in self.elsewhere or ref not in before}
        return free | set(self.elsewhere.values())

    def _put_back(self, paths: Iterable[str]) -> None:
        head = f"{self.repository.git_folder}/HEAD"  # before the branch that it names goes: else there is no commit
        paths = sorted(paths, key=lambda path: (path != head, path in self.files))
        for path in paths:  # what stands in the way goes first
            try:
                if path in self.files:
                    put(Path(path), self.files[path])
                else:
                    remove(Path(path))
            except OSError as error:
                raise not_put_back(path, error) from error
        sync_paths(Path("/"), paths)


def remember(repository: Repository, outside: Iterable[Path] = (), *, snapshots: SnapshotGuard | None = None) -> Guard:
    """The guarded files at opening; `outside` are absolute paths of more of them, whether they are there or not."""
    paths = tuple(map(str, outside))
    elsewhere = checked_out_elsewhere(repository)
    in_use = set(elsewhere.values())
    files = {path: content for path, content in _read(repository).items() if path not in in_use}
    return Guard(files | contents(paths), paths, elsewhere, repository, snapshots=snapshots)


def remember_outside(repository: Repository, outside: Iterable[Path]) -> Guard:
    """The same of files outside the git folder alone."""
    paths = tuple(map(str, outside))
    return Guard(contents(paths), paths, {}, repository, of_git=False)


def decoded(data: bytes, repository: Repository) -> Guard:
    """A guard from its bytes; raises msgspec.MsgspecError."""
    found = msgspec.msgpack.decode(data, type=_Encoded)
    return Guard(
        {os.fsdecode(path): content for path, content in found.files.items()},
        tuple(map(os.fsdecode, found.outside)),
        {os.fsdecode(head): os.fsdecode(ref) for head, ref in found.elsewhere.items()},
        repository,
        snapshots=found.snapshots,
    )


def _others(paths: Iterable[str], now: Files) -> dict[str, bytes | None]:
    return {path: now[path][0] if path in now else None for path in sorted(paths)}


def _written_at(path: str) -> float:
    """When a file was written last; of one that is gone, when the nearest folder above was."""
    while not os.path.lexists(path):
        path = str(Path(path).parent)
    return os.lstat(path).st_mtime


def _read(repository: Repository) -> Files:
    """The guarded files as they are now. Plain strings and system calls: it is done twice in every iteration."""
    return contents(_guarded_paths(repository))


def _guarded_paths(repository: Repository) -> Iterator[str]:
    own, shared = str(repository.git_folder), str(repository.common_folder)
    yield from (f"{own}/{name}" for name in _PER_TREE)
    yield from (f"{shared}/{name}" for name in _SHARED)
    free = {f"{shared}/{name}" for name in FREE_REFS}
    for folder in [*(f"{own}/{name}" for name in _PER_TREE_FOLDERS), *(f"{shared}/{name}" for name in _SHARED_FOLDERS)]:
        if os.path.isdir(folder) and not os.path.islink(folder):  # noqa: PTH112, PTH114 - as above
            yield from _below(folder, free)
        else:
            yield folder


def _below(folder: str, free: set[str]) -> Iterator[str]:
    with suppress(OSError), os.scandir(folder) as listing:
        for item in listing:
            if item.path in free or item.name.endswith(_INERT):
                continue
            if item.is_dir(follow_symlinks=False):
                yield from _below(item.path, free)
            else:
                yield item.path


def _relative(path: Path, folders: tuple[Path, ...]) -> str:
    for folder in folders:
        if path.is_relative_to(folder):
            return path.relative_to(folder).as_posix()
    return str(path)
