"""`verification.clean`: gates and the commands of criteria run in a checkout of what git holds, not in the user's tree.

What git does not hold, an agent can write without that it shows in its change; there it decides nothing.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from threading import Event

from rulebook_ralph.checks.gates import run_step
from rulebook_ralph.checks.integrity.earlier_tests import code_of_tests
from rulebook_ralph.checks.shell import Surroundings
from rulebook_ralph.core import events
from rulebook_ralph.core.configured_commands import SETUP
from rulebook_ralph.core.enumeration import some
from rulebook_ralph.core.evidence import CheckResult
from rulebook_ralph.core.settings import VerificationStep
from rulebook_ralph.loop.checkout_environment import environment_in
from rulebook_ralph.loop.project import Project
from rulebook_ralph.workspace import isolated, isolated_given, isolated_workspace
from rulebook_ralph.workspace.git import GitError
from rulebook_ralph.workspace.isolated import Isolated
from rulebook_ralph.workspace.isolated_given import SpoiltError
from rulebook_ralph.workspace.snapshot import Opening, Workspace

PLACE = "workspace"
"""What the checkout is called as a gate, where it cannot be made."""
_OF_DEPENDENCIES = (
    *(
        "package.json",
        "package-lock.json",
        "npm-shrinkwrap.json",
        "pnpm-lock.yaml",
        "yarn.lock",
        "bun.lock",
        "bun.lockb",
    ),
    *("pyproject.toml", "setup.py", "setup.cfg", "*requirements*.txt", "*requirements*.in", "uv.lock", "poetry.lock"),
    *("pdm.lock", "Pipfile", "Pipfile.lock", "environment.yml", "go.mod", "go.sum", "Cargo.toml", "Cargo.lock"),
    *("Gemfile", "Gemfile.lock", "composer.json", "composer.lock", "mix.exs", "mix.lock", "pom.xml", "*.gradle"),
    *("*.gradle.kts", ".tool-versions", ".nvmrc", ".python-version", ".npmrc", "deno.json", "deno.lock"),
)
_LARGEST_GUARDED = 1024 * 1024
_FAULTS = (OSError, GitError, SpoiltError)


class UnusableError(Exception):
    """The checkout cannot be had, or its setup failed: `result` is that of a gate which says so."""

    def __init__(self, result: CheckResult) -> None:
        super().__init__(result.reason)
        self.result = result


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a tree stands for commands to judge it, and the environment they get."""

    root: Path
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Lent:
    """A checkout for an agent: where it stands, what git makes of it, and by which name it is found after a crash."""

    standing: Standing
    workspace: Workspace
    name: str


@dataclass(slots=True)
class Checkout:
    """The checkout of one run, made when it is first needed and again where it was damaged beyond repair.

    `clean` takes secrets out of output.
    """

    project: Project
    clean: Callable[[str], str]
    cancelled: Event
    report: Callable[[events.Event], None]
    keeps_work: bool = False
    """Whether what stands there outlives a crash, until the next run has saved it."""
    written_on_base: frozenset[str] = frozenset()
    """Tests that gates write to anyway, as generators do and `chmod -R`. They may write to those and to later ones."""
    _tree: str = ""
    _first_base: str = ""
    _moved: bool = False
    _isolated: Isolated | None = None
    _given: isolated_given.Given | None = None
    _dependencies: frozenset[tuple[str, str]] | None = None
    _standing: Standing | None = None

    @property
    def is_made(self) -> bool:
        return self._isolated is not None

    @property
    def copied_files(self) -> tuple[Path, ...]:
        """The files that `workspace.copy` names, in the user's tree: the next run copies them again. Those of folders
        that it names may be very many.
        """
        named = self._given.named if self._given else ()
        paths = (self.project.root / path for path in named)
        return tuple(path for path in paths if path.is_file() and path.stat().st_size <= _LARGEST_GUARDED)

    def stand(self, tree: str, base: str) -> Standing:
        """Have exactly the tree stand there, HEAD at the commit `base`. Raises UnusableError, Cancelled, RalphError.

        Where the same tree stood for a command before, this one must not have changed the tests that it ran.
        """
        self._first_base = self._first_base or base
        if tree == self._tree:
            self._require_own_tests()
        self._tree, self._moved = tree, False
        return self._made_to_stand(tree, base)

    def lend(self, tree: str, base: str) -> Lent:
        """The same for an agent to work on it, who may change anything there. Raises UnusableError, Cancelled."""
        standing = self._made_to_stand(tree, base)
        held = self._isolated
        if held is None:
            raise LookupError("nothing stands there")
        return Lent(standing, held.ready(), held.name)

    def renew_git_folder(self) -> None:
        """Make git say of what stands there what it said before others worked."""
        if self._isolated is not None:
            with suppress(*_FAULTS):
                self._isolated.renew_git_folder()

    def _made_to_stand(self, tree: str, base: str) -> Standing:
        try:
            return self._hold(tree, base)
        except _FAULTS:
            self.close()
        try:
            return self._hold(tree, base)
        except _FAULTS as error:
            self.close()
            raise UnusableError(_unusable(f"no clean checkout can be made: {_words(error)}")) from error

    def between(self, opening: Opening) -> None:
        """Before a further command on the same tree: of what an earlier one left stays what git would hold.

        Raises UnusableError, Cancelled.
        """
        if (held := self._isolated) is None:
            return
        try:
            if not held.tidy(opening):
                self._moved = self._moved or held.capture(opening) != self._tree
            if held.lost_prepared:
                self._hold(held.capture(opening), opening.commit)
        except _FAULTS as error:
            self.close()
            raise UnusableError(_unusable(f"a gate has destroyed the clean checkout: {_words(error)}")) from error

    def bring_over(self, workspace: Workspace, opening: Opening, tree: str) -> str:
        """The tree that commands made of `tree`; it stands in the user's tree then, too. Raises UnusableError."""
        made = tree
        if self._isolated is not None and self._tree == tree:
            try:
                made = self._isolated.capture(opening)
            except _FAULTS as error:
                self.close()
                raise UnusableError(_unusable(f"a gate has destroyed the clean checkout: {_words(error)}")) from error
            if self._moved and made == tree:
                raise UnusableError(_unusable("one gate changed files, and another one changed them back"))
            if made == tree:
                self._require_own_tests()
        now = workspace.recapture(opening, tree)
        if now != made:
            workspace.restore(replace(opening, commit=made, tree=made), now)
        return made

    def forget_command(self) -> None:
        """What commands did to the base, which stands there, is nothing against those to come: it is their way."""
        with suppress(*_FAULTS):
            self.written_on_base |= frozenset(self._written())
        self._tree = ""

    def close(self) -> None:
        """Remove it."""
        if self._isolated is not None:
            self._isolated.remove()
        self._isolated = self._dependencies = None

    def leave(self) -> None:
        """Let it stand for the next run to save what is in it."""
        if self._isolated is not None:
            self._isolated.leave()
        self._isolated = self._dependencies = None

    def _require_own_tests(self) -> None:
        """Raises UnusableError where the code that was run wrote to tests, even if it put them back in the end."""
        try:
            touched = self._unusually_written()
        except _FAULTS as error:
            self.close()
            self._tree = ""
            raise UnusableError(_unusable(f"a command has destroyed the clean checkout: {_words(error)}")) from error
        if touched:
            self._tree = ""
            raise UnusableError(_unusable(f"tests were changed while they were run: {some(touched)}"))

    def _unusually_written(self) -> list[str]:
        """Tests of the first base that were written to, which gates do not write to there."""
        written = [path for path in self._written() if path not in self.written_on_base]
        if not written or not self.written_on_base:
            return written
        listing = self.project.repository.git.raw("ls-tree", "-r", "--name-only", "-z", "--full-tree", self._first_base)
        there = set(map(os.fsdecode, listing.split(b"\0")))
        return [path for path in written if path in there]

    def _written(self) -> list[str]:
        return code_of_tests(sorted(self._isolated.touched())) if self._isolated else []

    def _hold(self, tree: str, base: str) -> Standing:
        if self._isolated is None:
            self._isolated = self._made()
        held = self._isolated
        held.hold(tree, base)
        standing = self._standing
        if standing is None or standing.root != held.root:
            given, root = (self._given.links if self._given else ()), self.project.root
            environment = environment_in(held.root, self.project.environment_given, instead_of=root, given=given)
            standing = self._standing = Standing(held.root, environment)
        if self.project.config.workspace.setup.strip():
            self._set_up(held, standing, base)
        return standing

    def _made(self) -> Isolated:
        repository, wanted = self.project.repository, self.project.config.workspace
        if self._given is None:
            self._given = isolated_given.find(repository, copy=wanted.copy, link=wanted.link)
            if self._given.missing:
                told = f"not there, so the clean checkout is without it: {some(list(self._given.missing))}"
                self.report(events.Notice("warning", f"workspace.copy and workspace.link: {told}"))
        place = isolated_workspace.claim(repository, keeps_work=self.keeps_work)
        return isolated.make(repository, place, given=self._given)

    def _set_up(self, held: Isolated, standing: Standing, base: str) -> None:
        """Run the setup, unless what it made is there and the files that it depends on are the same."""
        named = held.objects(lambda name: any(fnmatchcase(name, pattern) for pattern in _OF_DEPENDENCIES))
        if named == self._dependencies and not held.lost_prepared:
            return
        held.drop_prepared()
        self._dependencies = None
        step = VerificationStep(name=SETUP, command=self.project.config.workspace.setup)
        self.report(events.GateStarted(step.name, step.command, on_base=False))
        around = Surroundings(standing.root, standing.environment, self.clean, self.cancelled)
        result = run_step(step, around)
        if result.failed:
            raise UnusableError(result)
        self.report(events.GateEnded(result, on_base=False))
        held.keep_as_prepared()
        held.hold(held.tree, base)
        self._dependencies = named


def _unusable(reason: str) -> CheckResult:
    return CheckResult(step=PLACE, method="gate", kind="other", command="", passed=False, reason=reason)


def _words(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    where = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
    return f"{where}{text}"
