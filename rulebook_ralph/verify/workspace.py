"""What a clone has beside what git holds, and how processes run in it: setup, links, copies, box and environment.

Agents' clones and gates' clones are prepared alike, each by itself: what one has set up is never used by another.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from threading import Condition
from threading import Event as Flag

from rulebook_ralph.config.settings import Config
from rulebook_ralph.errors import RalphError
from rulebook_ralph.git.cache import put_copy, take_down
from rulebook_ralph.git.clone import Clone, Clones
from rulebook_ralph.git.repository import Repository, within_state
from rulebook_ralph.process import supervisor
from rulebook_ralph.process.box import Box, NoBox, daemon_places, probe_box
from rulebook_ralph.process.streams import HeadTail
from rulebook_ralph.report.events import Event, Notice
from rulebook_ralph.tasks.patterns import Globs
from rulebook_ralph.tasks.results import feedback_excerpt

MANIFESTS = (
    *("package.json", "package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock"),
    *("pyproject.toml", "uv.lock", "poetry.lock", "setup.py", "setup.cfg", "Pipfile.lock", "requirements*.txt"),
    *("Cargo.toml", "Cargo.lock", "go.mod", "go.sum", "Gemfile.lock", "composer.lock"),
)
"""Files after whose change a setup is run again."""
_SETUP_LIMITS = supervisor.ProcessLimits(wall_time=3600)


class Cancelled(Exception):  # noqa: N818 - an order, not an error
    """The run was told to end while a command ran: it said nothing."""


@dataclass(frozen=True, slots=True)
class Place:
    """A clone as commands are run in it: its folder as it really is, and as a process in it sees it; its sandbox; and
    the environment there. `renew` has the tree of a gate's clone stand again, with what git ignores.
    """

    folder: Path
    inside: Path
    box: Box | None
    environment: Callable[[Mapping[str, str]], Mapping[str, str]]
    renew: Callable[[], None] = lambda: None

    def run(
        self,
        script: Sequence[str],
        environment: Mapping[str, str],
        *,
        limits: supervisor.ProcessLimits,
        on_output: Callable[[bytes], None],
        cancelled: Flag,
        stdin: bytes | None = None,
        cwd: Path | None = None,
        merge_stderr: bool = True,
    ) -> supervisor.Ended:
        """Run a shell's script, with its arguments, to its end. Raises Cancelled."""
        argv = ("/bin/sh", "-c", *script)
        command = supervisor.Command(argv, cwd or self.inside, environment, stdin, merge_stderr, self.box)
        ended = supervisor.run(command, limits=limits, on_output=on_output, cancelled=cancelled)
        if ended.killed_by == "interrupted":
            raise Cancelled
        return ended


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
        found = probe_box(environment) if config.sandbox.mode != "off" else None
        self._bwrap = None if isinstance(found, NoBox) else found
        self.why_unprotected = found.reason if isinstance(found, NoBox) else ""
        """What is to be said at the start; empty where there is a box, or none is wanted."""
        self._hidden = (*hidden, *daemon_places(environment, docker=config.sandbox.docker))

    def place(self, clone: Clone) -> Place:
        """How processes run in the clone: in a box at the repository's own path. Without one, paths of the environment
        into the user's tree lead into the clone.
        """
        if self._bwrap is None:
            old, new = str(self._repository.root), str(clone.root)
            moved = lambda given: {name: _moved(value, old, new) for name, value in given.items()}  # noqa: E731
            return Place(clone.root, clone.root, None, moved)
        links = [path for path in self._settings.link if (self._repository.root / path).exists()]
        box = clone.box(self._bwrap, hidden=self._hidden, links=links)
        return Place(clone.root, self._repository.root, box, dict)

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
        boxed = self._bwrap is not None
        give(self._repository, clone.root, copies=self._copies, links=self._settings.link, boxed=boxed)
        if self._settings.setup:
            self._set_up(self.place(clone), self._settings.setup)
        clone.mark_prepared()
        note.write_text(wanted, "ascii")

    def _set_up(self, place: Place, setup: str) -> None:
        self._report(Notice("info", f"setting up a workspace: {setup}"))
        output = HeadTail(head=4_000, tail=16_000)
        environment = place.environment(self._environment)
        ended = place.run([setup], environment, limits=_SETUP_LIMITS, on_output=output.feed, cancelled=self._cancelled)
        if ended.exit_code != 0:
            told = feedback_excerpt(self._clean(output.text()).strip(), head=2, tail=12)
            why = ended.failure.message if ended.failure else f"exit code {ended.exit_code}"
            raise RalphError(f"workspace.setup failed ({why}): {setup}\n{told}")

    def _digest(self, tree: str) -> str:
        """Names all that a setup depends on: the command, what is given, and the manifests of the tree."""
        entries, manifests = self._repository.entries(tree) if self._settings.setup else {}, Globs(MANIFESTS)
        found = sorted((path, entry.oid) for path, entry in entries.items() if manifests.match(path))
        whole = repr((self._settings, self._copies, self._bwrap is not None, found))
        return hashlib.sha256(whole.encode("utf-8", "surrogateescape")).hexdigest()


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii")
    except (OSError, UnicodeDecodeError):
        return ""


def _moved(value: str, old: str, new: str) -> str:
    """A path, or a list of paths, with those below `old` below `new`."""
    entries = value.split(os.pathsep) if old in value else ()
    moved = (new + entry[len(old) :] if f"{entry}/".startswith(f"{old}/") else entry for entry in entries)
    return os.pathsep.join(moved) if entries else value


# Where gates run

_MOST = 3


class GateClones:
    """For any number of threads. Who finds no free clone waits for one. There is one of these in a run: what is judged
    by an earlier configuration stands in clones of the same numbers.
    """

    def __init__(self, clones: Clones, workspace: ClonePreparer) -> None:
        self.repository = clones.repository
        self._clones = clones
        self._workspace = workspace
        self._free: list[int] = []
        self._busy = 0
        self._is_alone = False
        self._changed = Condition()

    def idle(self, *, several: bool) -> int:
        """How many clones may be used at once now."""
        processors = os.cpu_count() or 1
        return max(1, min(_MOST, processors, 1 + int(processors - os.getloadavg()[0]))) if several else 1

    @contextmanager
    def at(self, tree: str, commit: str, *, several: bool, alone: bool = False) -> Iterator[Place]:
        """A clone in which the tree stands, set up, HEAD at the commit; `alone`: with no other one in use. What one
        gate builds in it the next one finds. Raises RalphError where the setup fails.
        """
        with self._changed:
            while self._is_alone or self._busy >= (1 if alone else self.idle(several=several)):
                self._changed.wait(1.0)  # the load of the machine changes without a word
            self._is_alone = alone
            self._busy += 1
            number = self._free.pop() if self._free else self._busy
        try:
            clone = self._clones.open(f"gate-{number}")
            self._workspace.prepare(clone, commit, tree)
            renew = partial(self._workspace.prepare, clone, commit, tree, keep=True)
            yield replace(self._workspace.place(clone), renew=renew)
        finally:
            with self._changed:
                self._busy -= 1
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
