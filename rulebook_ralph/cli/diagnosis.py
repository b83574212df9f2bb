"""What `ralph doctor` says of one matter, as a value; and what all of them together come to. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from rulebook_ralph.errors import ExitCode, RalphError


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One matter. An `error` keeps a run from starting or its tasks from being completed, `unknown` is what nobody can
    tell from here. `advice` is what to do, `output` what a command said; `exit_code` is what a run would end with.
    """

    state: Literal["ok", "warning", "error", "unknown"]
    text: str
    advice: str = ""
    exit_code: ExitCode = ExitCode.INVALID
    output: str = ""

    def __str__(self) -> str:
        return f"{self.text}; {self.advice}" if self.advice else self.text


def ok(text: str) -> Diagnosis:
    return Diagnosis("ok", text)


def warning(text: str, advice: str = "", *, output: str = "") -> Diagnosis:
    return Diagnosis("warning", text, advice, output=output)


def wrong(text: str, advice: str = "", exit_code: ExitCode = ExitCode.INVALID, *, output: str = "") -> Diagnosis:
    return Diagnosis("error", text, advice, exit_code, output)


def unknown(text: str, advice: str = "") -> Diagnosis:
    return Diagnosis("unknown", text, advice)


def refused(error: RalphError) -> Diagnosis:
    """What a run would be refused with. Its line ends with what to do."""
    text, _, advice = str(error).rpartition("; ")
    return wrong(text or advice, advice if text else "", error.exit_code)


def exit_code(diagnoses: Iterable[Diagnosis]) -> ExitCode:
    """0 without an error, a run's own exit code where all errors have the same, else 2."""
    codes = {each.exit_code for each in diagnoses if each.state == "error"}
    if not codes:
        return ExitCode.OK
    return codes.pop() if len(codes) == 1 else ExitCode.INVALID
