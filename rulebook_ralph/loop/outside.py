"""Files that are in no commit and yet decide how work is judged: settings of git and of Ralph, programs of gates.

An agent that changed one would be judged by it, in this run or the next. They are remembered at opening and put back.
"""

import itertools
import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from rulebook_ralph.checks.integrity.gate_commands import Gate, read_gates
from rulebook_ralph.checks.integrity.gate_files import definition_of
from rulebook_ralph.checks.integrity.globs import Globs
from rulebook_ralph.checks.integrity.indirect_scripts import follow
from rulebook_ralph.checks.integrity.suites import is_test_file
from rulebook_ralph.core.settings import VerificationStep
from rulebook_ralph.loop.project import Project
from rulebook_ralph.workspace.git_settings import settings_files
from rulebook_ralph.workspace.snapshot import Opening, Workspace

_LARGEST = 1024 * 1024
"""Bytes; a larger program is hardly a script."""
_OF_NODE = "node_modules/.bin"
_OF_PYTHON = frozenset(("conftest.py", "sitecustomize.py", "usercustomize.py"))


class Outside:
    """Finds those files, for one run."""

    def __init__(self, workspace: Workspace, environment: Mapping[str, str], settings: Iterable[Path]) -> None:
        """`settings` are Ralph's own files outside the repository. The workspace's index tells what a tree holds."""
        self._repository = repository = workspace.repository
        self._index = workspace.index
        folders = [Path(name) for name in environment.get("PATH", "").split(os.pathsep) if name]
        inside = [folder for folder in folders if folder.is_relative_to(repository.root)]
        self._folders = (*inside, repository.root / _OF_NODE)
        self._settings = (*settings_files(repository), *settings)
        self._tracked: dict[str, bool] = {}

    @classmethod
    def of(cls, project: Project, workspace: Workspace) -> "Outside":
        """With all that Ralph keeps outside the project's state folder."""
        own = [file for file in project.settings_files if not file.is_relative_to(project.folder.path)]
        return cls(workspace, project.environment, [*own, project.trust_file, project.review_memory])

    @property
    def settings(self) -> tuple[Path, ...]:
        """Those among them that are outside the repository, whatever is run."""
        return tuple(dict.fromkeys(_with_targets(self._settings)))

    def files(self, steps: Iterable[VerificationStep], opening: Opening) -> tuple[Path, ...]:
        """All of them, as absolute paths, for what those steps run in a tree as it is at opening."""
        root = self._repository.root
        gates = [reached for gate in read_gates(steps) for reached in self._reached(gate)]
        started = {path for gate in gates for path in self._started(gate)}
        patterns = Globs(f"/{pattern}" for gate in gates for pattern in (*gate.patterns, *gate.given))
        named = {path for path in opening.untracked | self._ignored() if _decides(path) or patterns.match(path)}
        of_gates = (root / path for path in sorted(self._not_tracked(started) | named))
        return tuple(dict.fromkeys((*_with_targets(self._settings), *filter(_is_kept, _with_targets(of_gates)))))

    def _reached(self, gate: Gate) -> Iterator[Gate]:
        """The gate, and what it starts through make, npm and scripts, as these stand in the tree now."""
        followed = follow(gate, self._read)
        yield from (gate, *followed.recipes, *followed.scripts)

    def _read(self, paths: Iterable[str]) -> dict[str, str]:
        texts = {}
        for path in paths:
            with suppress(OSError, ValueError):
                file = self._repository.root / path
                if file.is_file() and file.stat().st_size <= _LARGEST:
                    texts[path] = file.read_text("utf-8", "replace")
        return texts

    def _started(self, gate: Gate) -> Iterator[str]:
        """Files that a gate names, and programs that the PATH leads to within the repository."""
        yield from gate.paths
        yield from gate.places
        for folder, program in itertools.product(self._folders, gate.programs):
            if "/" not in program and os.path.lexists(found := folder / program):
                yield found.relative_to(self._repository.root).as_posix()

    def _ignored(self) -> frozenset[str]:
        """Ignored files, beside those in folders that are ignored whole."""
        listing = ("ls-files", "-o", "-i", "--exclude-standard", "--directory", "-z")
        return frozenset(os.fsdecode(name) for name in self._repository.git.raw(*listing).split(b"\0") if name)

    def _not_tracked(self, paths: Iterable[str]) -> set[str]:
        """Those that are in no tree, that of unfinished work included; what was in one is not asked of git again."""
        root = self._repository.root
        normal = {path for path in map(posixpath.normpath, paths) if not path.startswith(("/", "../"))}
        inside = {
            path for path in normal if self._tracked.get(path) or _is_kept(root / path)
        }  # most words are no files
        if unknown := sorted(path for path in inside if not self._tracked.get(path)):
            asked = ("--literal-pathspecs", "ls-files", "-z", "--", *unknown)
            listing = self._repository.git.raw(*asked, index=self._index).split(b"\0")
            known = {os.fsdecode(name) for name in listing}
            self._tracked |= {path: path in known for path in unknown}
        return {path for path in inside if not self._tracked[path]}


def _decides(path: str) -> bool:
    """Whether an untracked file says what is tested, and how."""
    return posixpath.basename(path) in _OF_PYTHON or is_test_file(path) or definition_of(path) is not None


def _with_targets(paths: Iterable[Path]) -> Iterator[Path]:
    """Each file, and where a link leads."""
    for path in paths:
        yield path
        if path.is_symlink():
            yield path.resolve()


def _is_kept(path: Path) -> bool:
    try:
        status = path.lstat()
    except (OSError, ValueError):
        return False
    return path.is_symlink() or (path.is_file() and status.st_size <= _LARGEST)
