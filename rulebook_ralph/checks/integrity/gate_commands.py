"""What a gate's command runs, as far as its words tell: tools, scripts of the repository, targets of runners."""

from collections.abc import Iterable

from rulebook_ralph.checks.integrity.command_reader import CommandReader
from rulebook_ralph.checks.integrity.gate import MANAGER, Gate
from rulebook_ralph.checks.integrity.shell_reader import within
from rulebook_ralph.checks.integrity.shell_values import ROOT
from rulebook_ralph.checks.integrity.shell_words import cleaned
from rulebook_ralph.core.settings import VerificationStep

__all__ = ["MANAGER", "Gate", "read_gate", "read_gates", "read_script"]


def read_gates(steps: Iterable[VerificationStep]) -> tuple[Gate, ...]:
    """What each step runs."""
    return tuple(read_gate(step) for step in steps)


def read_gate(step: VerificationStep) -> Gate:
    """What a step runs."""
    gate = Gate(step.name, step.kind, within(".", step.working_dir))
    reader = CommandReader(gate)
    reader.set_environment(step.env, gate.folder)
    reader.read(cleaned(step.command), gate.folder)
    return gate


def read_script(texts: Iterable[str], gate: Gate, folder: str, path: str | None = None) -> Gate:
    """What the texts of a shell run that `gate` reaches, each in that folder; `path`: the file that they are of."""
    found = Gate(gate.name, gate.kind, folder)
    reader = CommandReader(found)
    if path is not None:
        for name in ("0", "BASH_SOURCE"):
            reader.values.assign(name, [f"{ROOT}/{path}"])
    for text in texts:
        reader.read(cleaned(text), folder)
    return found
