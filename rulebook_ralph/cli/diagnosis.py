"""What `ralph doctor` says of one matter, as a value; and what all of them together come to. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from rulebook_ralph.errors import ExitCode, RalphError


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One matter. `wrong` is what keeps a run from starting or its tasks from being completed, `unknown` what nobody
    can tell from here. `advice` is what to do; `exit_code` what a run would end with, where it is wrong.
    """

    state: Literal["ok", "warning", "wrong", "unknown"]
    text: str
    advice: str = ""
    exit_code: ExitCode = ExitCode.INVALID

    def __str__(self) -> str:
        return f"{self.text}; {self.advice}" if self.advice else self.text


def ok(text: str) -> Diagnosis:
    return Diagnosis("ok", text)


def warning(text: str, advice: str = "") -> Diagnosis:
    return Diagnosis("warning", text, advice)


def wrong(text: str, advice: str = "", exit_code: ExitCode = ExitCode.INVALID) -> Diagnosis:
    return Diagnosis("wrong", text, advice, exit_code)


def unknown(text: str, advice: str = "") -> Diagnosis:
    return Diagnosis("unknown", text, advice)


def refused(error: RalphError) -> Diagnosis:
    """What a run would be refused with. Its line ends with what to do."""
    text, _, advice = str(error).rpartition("; ")
    return wrong(text or advice, advice if text else "", error.exit_code)


def exit_code(diagnoses: Iterable[Diagnosis]) -> ExitCode:
    """0 where nothing is wrong, a run's own exit code where all that is wrong has the same, else 2."""
    codes = {each.exit_code for each in diagnoses if each.state == "wrong"}
    if not codes:
        return ExitCode.OK
    return codes.pop() if len(codes) == 1 else ExitCode.INVALID
