"""What a clone has beside what git holds, and how processes run in it: setup, links, copies, box and environment.

Agents' clones and gates' clones are prepared alike, each by itself: what one has set up is never used by another.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from threading import Condition
from threading import Event as Flag

from rulebook_ralph.config.settings import Config
from rulebook_ralph.errors import RalphError
from rulebook_ralph.git.cache import put_copy, take_down
from rulebook_ralph.git.clone import Clone, Clones, box_of
from rulebook_ralph.git.repository import Repository, within_state
from rulebook_ralph.process import supervisor
from rulebook_ralph.process.box import Box, NoBox, daemon_places, probe_box
from rulebook_ralph.process.streams import HeadTail
from rulebook_ralph.report.events import Event, Notice
from rulebook_ralph.tasks.results import feedback_excerpt

SHELL = "/bin/sh"
MANIFESTS = frozenset(
    (
        "package.json", "package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock",
        "pyproject.toml", "uv.lock", "poetry.lock", "setup.py", "setup.cfg", "Pipfile.lock", "Cargo.toml", "Cargo.lock",
        "go.mod", "go.sum", "Gemfile.lock", "composer.lock",
    )
)  # fmt: skip
"""Files after whose change a setup is run again; and requirements*.txt."""
_SETUP_SECONDS = 3600.0
_HEAD, _TAIL = 4_000, 16_000


class Cancelled(Exception):  # noqa: N818 - an order, not an error
    """The run was told to end while a command ran: it said nothing."""


class ClonePreparer:
    """For one run. `clean` takes secrets out of a text. Raises RalphError where the configuration names what is not
    the project's.
    """

    def __init__(
        self,
        repository: Repository,
        config: Config,
        environment: Mapping[str, str],
        *,
        hidden: Sequence[Path],
        clean: Callable[[str], str],
        cancelled: Flag,
        report: Callable[[Event], None],
    ) -> None:
        self._repository = repository
        self._settings = config.workspace
        self._environment = dict(environment)
        self._clean = clean
        self._cancelled = cancelled
        self._report = report
        self._copies = find_given(repository, copy=self._settings.copy, link=self._settings.link)
        found = NoBox("switched off (sandbox: off)") if config.sandbox.mode == "off" else probe_box(environment)
        self._bwrap = None if isinstance(found, NoBox) else found
        self.no_box = found.reason if isinstance(found, NoBox) else ""
        daemons = daemon_places(environment, docker=config.sandbox.docker)
        self._hidden = (*hidden, *daemons)

    @property
    def why_unprotected(self) -> str:
        """What is to be said at the start; empty where there is a box, or none is wanted."""
        return "" if self.no_box.startswith("switched off") else self.no_box

    def box(self, clone: Clone) -> Box | None:
        """The box for processes in the clone; None where they run without one."""
        if self._bwrap is None:
            return None
        links = [path for path in self._settings.link if (self._repository.root / path).exists()]
        return box_of(clone, self._repository, bwrap=self._bwrap, hidden=self._hidden, links=links)

    def root_inside(self, clone: Clone) -> Path:
        """Where a process in the clone sees it: in a box at the repository's own path."""
        return clone.root if self._bwrap is None else self._repository.root

    def environment(self, clone: Clone, given: Mapping[str, str]) -> dict[str, str]:
        """The environment of a process in the clone. Without a box, paths into the user's tree lead into the clone."""
        if self._bwrap is not None:
            return dict(given)
        old, new = str(self._repository.root), str(clone.root)
        return {name: _moved(value, old, new) for name, value in given.items()}

    def prepare(self, clone: Clone, commit: str, tree: str, *, keep: bool = False) -> None:
        """Have that tree stand in the clone, set up. With `keep` what git ignores there stays, caches of builds among
        it; without, what was set up must be as it was, else it is set up again. Raises RalphError where that fails.
        """
        clone.hold(commit, tree=tree, keep=keep)
        if not (self._settings.setup or self._copies or self._settings.link):
            return
        wanted = self._digest(tree)
        note = clone.root.with_name(f"{clone.name}.setup")
        is_new = clone.fresh or _read(note) != wanted
        if not is_new and (keep or clone.prepared_is_as_it_was()):
            return
        if not clone.fresh:
            clone.forget_prepared()
            clone.hold(commit, tree=tree)
        note.unlink(missing_ok=True)
        give(
            self._repository,
            clone.root,
            copies=self._copies,
            links=self._settings.link,
            boxed=self._bwrap is not None,
        )
        if self._settings.setup:
            self._set_up(clone)
        clone.mark_prepared()
        note.write_text(wanted, "ascii")

    def _set_up(self, clone: Clone) -> None:
        self._report(Notice("info", f"setting up a workspace: {self._settings.setup}"))
        output = HeadTail(head=_HEAD, tail=_TAIL)
        ended = supervisor.run(
            supervisor.Command(
                (SHELL, "-c", self._settings.setup),
                self.root_inside(clone),
                self.environment(clone, self._environment),
                merge_stderr=True,
                box=self.box(clone),
            ),
            limits=supervisor.ProcessLimits(wall_time=_SETUP_SECONDS),
            on_output=output.feed,
            cancelled=self._cancelled,
        )
        if ended.killed_by == "interrupted":
            raise Cancelled
        if ended.exit_code == 0:
            return
        told = feedback_excerpt(self._clean(output.text()).strip(), head=2, tail=12)
        why = ended.failure.message if ended.failure else f"exit code {ended.exit_code}"
        raise RalphError(f"workspace.setup failed ({why}): {self._settings.setup}\n{told}")

    def _digest(self, tree: str) -> str:
        """Names all that a setup depends on: the command, what is given, and the manifests of the tree."""
        entries = self._repository.entries(tree) if self._settings.setup else {}
        manifests = sorted((path, entry.oid) for path, entry in entries.items() if _is_manifest(path))
        whole = repr((self._settings, self._copies, self._bwrap is not None, manifests))
        return hashlib.sha256(whole.encode("utf-8", "surrogateescape")).hexdigest()


def _is_manifest(path: str) -> bool:
    name = PurePosixPath(path).name
    return name in MANIFESTS or (name.startswith("requirements") and name.endswith(".txt"))


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii")
    except (OSError, UnicodeDecodeError):
        return ""


def _moved(value: str, old: str, new: str) -> str:
    """A path, or a list of paths, with those below `old` below `new`."""
    if old not in value:
        return value
    entries = value.split(os.pathsep)
    return os.pathsep.join(
        new + entry[len(old) :] if entry == old or entry.startswith(f"{old}/") else entry for entry in entries
    )


# Where gates run

_MOST = 3


@dataclass(frozen=True, slots=True)
class Place:
    """Where commands run: a clone's folder as it really is and as a process in it sees it, and its sandbox."""

    folder: Path
    inside: Path
    box: Box | None
    environment: Callable[[Mapping[str, str]], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Stand:
    """A tree in a clone, until it is given back."""

    place: Place
    clone: Clone
    workspace: ClonePreparer
    commit: str
    tree: str

    def renew(self) -> None:
        """Have exactly the tree stand again, with what git ignores: what one gate built, the next one finds."""
        self.workspace.prepare(self.clone, self.commit, self.tree, keep=True)


class GateClones:
    """For any number of threads. Who finds no free clone waits for one."""

    def __init__(self, clones: Clones, workspace: ClonePreparer, *, several: bool) -> None:
        self._clones = clones
        self._workspace = workspace
        self._several = several
        self._free: list[int] = []
        self._busy: set[int] = set()
        self._is_alone = False
        self._changed = Condition()

    def idle(self) -> int:
        """How many clones may be used at once now."""
        if not self._several:
            return 1
        processors = os.cpu_count() or 1
        try:
            spare = int(processors - os.getloadavg()[0])
        except OSError:
            spare = 0
        return max(1, min(_MOST, processors, 1 + spare))

    @contextmanager
    def at(self, tree: str, commit: str, *, alone: bool = False) -> Iterator[Stand]:
        """A clone in which the tree stands, set up, HEAD at the commit; `alone`: with no other one in use.

        Raises RalphError where the setup fails.
        """
        number = self._take(alone=alone)
        try:
            clone = self._clones.open(f"gate-{number}")
            self._workspace.prepare(clone, commit, tree)
            place = Place(
                clone.root,
                self._workspace.root_inside(clone),
                self._workspace.box(clone),
                partial(self._workspace.environment, clone),
            )
            yield Stand(place, clone, self._workspace, commit, tree)
        finally:
            self._give_back(number)

    def _take(self, *, alone: bool) -> int:
        with self._changed:
            while self._is_alone or len(self._busy) >= (1 if alone else self.idle()):
                self._changed.wait(1.0)  # the load of the machine changes without a word
            self._is_alone = alone
            number = self._free.pop() if self._free else len(self._busy) + 1
            self._busy.add(number)
            return number

    def _give_back(self, number: int) -> None:
        with self._changed:
            self._busy.discard(number)
            self._free.append(number)
            self._is_alone = False
            self._changed.notify_all()


# What a clone is given of the user's tree


def find_given(repository: Repository, *, copy: Sequence[str], link: Sequence[str]) -> tuple[str, ...]:
    """The paths that the globs of `copy` and the paths of `link` name. Raises RalphError where git holds one of them,
    or one leads out of the tree; GitError.
    """
    copies = [path for pattern in copy for path in _matching(repository.root, pattern)]
    _refuse_tracked(repository, "copy", copies)
    _refuse_tracked(repository, "link", link)
    return tuple(dict.fromkeys(copies))


def give(repository: Repository, root: Path, *, copies: Sequence[str], links: Sequence[str], boxed: bool) -> None:
    """Put copies and links into the clone at `root`. In a sandbox a link is an empty place, over which the original
    is mounted to be read. What is not there in the user's tree is left out. Raises OSError.
    """
    for path in links:
        source, target = repository.root / path, root / path
        if not source.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        take_down(target)
        if not boxed:
            target.symlink_to(source)
        elif source.is_dir():
            target.mkdir()
        else:
            target.touch()
    for path in copies:
        take_down(root / path)
        put_copy(repository.root / path, root / path)


def _matching(root: Path, pattern: str) -> list[str]:
    path = PurePosixPath(pattern)
    if path.is_absolute() or ".." in path.parts:
        raise RalphError(f"workspace.copy: {pattern} leads out of the project; name files in it")
    with suppress(ValueError, NotImplementedError, OSError):
        return sorted(found.relative_to(root).as_posix() for found in root.glob(pattern))
    return []


def _refuse_tracked(repository: Repository, key: str, paths: Iterable[str]) -> None:
    asked = list(paths)
    for path in asked:
        pure = PurePosixPath(path)
        if within_state(path) or pure.is_absolute() or not pure.parts or ".." in pure.parts or pure.parts[0] == ".git":
            raise RalphError(f"workspace.{key}: {path} is no file of the project's; name files that git does not hold")
    if not asked:
        return
    listing = repository.run("--literal-pathspecs", "ls-files", "-z", "--", *asked).split(b"\0")
    if tracked := [os.fsdecode(name) for name in listing if name]:
        raise RalphError(
            f"workspace.{key}: git holds {tracked[0]}, so every clone has it already; name what git does not hold"
        )
