"""The program of an agent: its words, and whether it can be started."""

import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from rulebook_ralph.errors import RalphError


def words(command: str, *, agent: str) -> tuple[str, ...]:
    """A command line split as a shell would; raises RalphError if it cannot be."""
    try:
        return tuple(shlex.split(command))
    except ValueError as error:
        problem = (
            f"agent {agent}: command {command!r} cannot be split into words: {error}; see tools.executors[].command"
        )
        raise RalphError(problem) from error


def missing(program: str, environment: Mapping[str, str]) -> str:
    """What is wrong with a program that cannot be found or executed, or "".

    A relative path with a folder in it is looked up where the agent will run, so nothing can be said of it here.
    """
    if os.sep in program and not os.path.isabs(program):  # noqa: PTH117 - text, not yet a path
        return ""
    if shutil.which(program, path=environment.get("PATH", os.defpath)):
        return ""
    if os.sep in program and Path(program).is_file():
        return f"{program} is not executable: chmod +x it"
    return f"{program} was not found" + ("" if os.sep in program else " on PATH")
