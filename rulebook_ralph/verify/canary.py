"""Whether a test gate would notice anything: it is run on the base with its product emptied, and must not pass there.

And whether tests live in the source: it is run without its test files, and runs tests all the same.
"""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import msgspec

from rulebook_ralph.config.settings import VerificationStep
from rulebook_ralph.git import trees
from rulebook_ralph.report.events import Notice
from rulebook_ralph.tasks.disk import replace_file
from rulebook_ralph.tasks.model import STATE_FOLDER
from rulebook_ralph.tasks.patterns import Globs
from rulebook_ralph.verify.case import Verifiers
from rulebook_ralph.verify.check_files import CheckFiles
from rulebook_ralph.verify.execution import GateRun
from rulebook_ralph.verify.workspace import MANIFESTS

_FILE = "canaries.json"
_KEPT = Globs(
    [
        *MANIFESTS,
        *("*.lock", ".*", "*.md", "*.rst", "LICENSE*", "Makefile", "*.cmake", "CMakeLists.txt"),
        *("*.gradle*", "pom.xml", "*.csproj", "*.sln", "*.toml", "*.cfg", "*.ini", STATE_FOLDER),
    ]
)
"""What builds and packages a project: without it everything fails, which tells nothing of tests."""
_VARIABLES = ("PATH", "VIRTUAL_ENV", "PYTHONPATH", "NODE_PATH", "GOPATH")
_MOST_KNOWN = 200
_lock = Lock()


@dataclass(frozen=True, slots=True)
class Canary:
    """What was found out about a test gate. `hollow` says why it proves nothing and what to do, or is empty; it holds
    for the tree `of` that it was found on: tests that prove something may come.
    """

    hollow: str = ""
    of: str = ""
    in_source: bool = False
    """Tests live in the source."""


def canaries(
    verifiers: Verifiers, base: str, steps: Sequence[VerificationStep], files: CheckFiles
) -> dict[str, Canary]:
    """What is known of each test gate, found out on the base where it is not known. Raises Cancelled, GitError."""
    place, tree = verifiers.scratch / _FILE, verifiers.repository.tree_of(base)
    keys = {step.name: _key(verifiers, step) for step in steps if step.kind == "test"}
    with _lock:
        known = _read(place)
        for step in (step for step in steps if step.name in keys):
            before = known.get(keys[step.name])
            if before is None or (before.hollow and before.of != tree):
                known[keys[step.name]] = found = _find_out(verifiers, base, step, files)
                with suppress(OSError):  # it is found out again
                    replace_file(place, msgspec.json.encode(dict(list(known.items())[-_MOST_KNOWN:])))
                if found.hollow and (before is None or before.hollow != found.hollow):
                    verifiers.report(Notice("warning", f"gate {step.name}: {found.hollow}"))
        return {name: known[key] for name, key in keys.items()}


def _find_out(verifiers: Verifiers, base: str, step: VerificationStep, files: CheckFiles) -> Canary:
    repository, gates = verifiers.repository, verifiers.gates
    (told,) = gates.run(base, [step], on_base=True)
    empty = trees.emptied(repository, base, lambda path: not (files.is_check(path) or _KEPT.match(path)))
    bare = trees.without(repository, base, files.is_test)
    hollow = ""
    if told.result.passed and told.tests.ran == 0:
        hollow = "it passes and runs no tests, so it proves nothing; have its command find the tests"
    elif empty != repository.tree_of(base):
        (without_product,) = gates.run(empty, [step], on_base=True, about="the base without its code")
        if _notices_nothing(told, without_product):
            hollow = (
                "it passes as well where every source file is empty, so it proves nothing; see that it tests this "
                "checkout (an editable install may lead to another folder: have workspace.setup install this one)"
            )
    (without_tests,) = gates.run(bare, [step], on_base=True, about="the base without its tests")
    in_source = bool(without_tests.tests.passed) and not hollow
    return Canary(hollow, repository.tree_of(base), in_source)


def _notices_nothing(told: GateRun, empty: GateRun) -> bool:
    """Whether all that passes on the base passes with an empty product too."""
    if told.tests.complete:
        passing = told.tests.passing
        return bool(passing) and passing <= empty.tests.passing
    if not told.result.passed or empty.result.failed:
        return False
    before, now = told.tests.passed, empty.tests.passed
    return before is None or (now is not None and now >= before)


def _key(verifiers: Verifiers, step: VerificationStep) -> str:
    environment = verifiers.gates.environment
    around = {name: environment.get(name, "") for name in _VARIABLES} | step.env
    config = verifiers.config
    told = (step.command, step.working_dir, sorted(around.items()), config.workspace, config.sandbox, config.checks)
    return hashlib.sha256(f"{verifiers.repository.git_dir}{told!r}".encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _read(place: Path) -> dict[str, Canary]:
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(place.read_bytes(), type=dict[str, Canary])
    return {}
