"""What a user can mend, as one exception type, and the exit codes of the command line (README, exit codes)."""

from enum import IntEnum


class ExitCode(IntEnum):
    OK = 0
    UNEXPECTED = 1
    INVALID = 2
    BLOCKED = 3
    LIMITED = 4
    AGENT = 5
    INTERRUPTED = 130


class RalphError(Exception):
    """Something the user can mend, told in one line: what is wrong, where, and what to do.

    `exit_code` is what the process ends with. Nothing has been changed, or what was changed is whole.
    """

    def __init__(self, message: str, *, exit_code: ExitCode = ExitCode.INVALID) -> None:
        super().__init__(message)
        self.exit_code = exit_code
