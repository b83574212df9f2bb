"""The project's own gates: the checks its manifests really define, as verification steps.

Rules: nothing is invented. The manifests of languages come first (pyproject and its kin, package.json, Cargo.toml,
go.mod); a Makefile or justfile is asked only for kinds they leave open. One step for each kind and language.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import msgspec

from rulebook_ralph.core.settings import StepKind, VerificationStep, Workspace
from rulebook_ralph.sources import gates_make, gates_native, gates_node, gates_python, gates_workspace
from rulebook_ralph.sources.gates_found import Found
from rulebook_ralph.sources.source import SourceProblem

_MANIFESTS: tuple[tuple[str, Callable[[Path], Found]], ...] = (
    ("python", gates_python.discover),
    ("node", gates_node.discover),
    ("rust", gates_native.discover_rust),
    ("go", gates_native.discover_go),
)
_TARGETS: tuple[tuple[str, Callable[[Path], Found]], ...] = (
    ("make", gates_make.discover_make),
    ("just", gates_make.discover_just),
)


@dataclass(frozen=True, slots=True)
class Discovery:
    """Steps in the order test, lint, typecheck, build; names are unique. Problems are about manifests. `workspace` is
    what they may need that git does not hold, if it does not.
    """

    steps: tuple[VerificationStep, ...] = ()
    workspace: Workspace = Workspace()  # noqa: RUF009 - a frozen value
    problems: tuple[SourceProblem, ...] = ()


def discover(root: Path) -> Discovery:
    """Look for gates in the project's root folder. Runs nothing and never raises for what it finds there."""
    found: list[tuple[str, VerificationStep]] = []
    problems: list[SourceProblem] = []
    for label, look in _MANIFESTS:
        one = look(root)
        problems += one.problems
        found += [(label, step) for step in one.steps]
    for label, look in _TARGETS:
        one = look(root)
        problems += one.problems
        kinds = {step.kind for _, step in found}
        found += [(label, step) for step in one.steps if step.kind not in kinds]
    order = get_args(StepKind)
    found.sort(key=lambda entry: order.index(entry[1].kind))
    return Discovery(tuple(_named(found)), gates_workspace.discover(root), tuple(problems))


def _named(found: list[tuple[str, VerificationStep]]) -> list[VerificationStep]:
    """Each step called by its kind; with its language too where two share the kind."""
    kinds = [step.kind for _, step in found]
    return [
        msgspec.structs.replace(step, name=step.kind if kinds.count(step.kind) == 1 else f"{step.kind}-{label}")
        for label, step in found
    ]
