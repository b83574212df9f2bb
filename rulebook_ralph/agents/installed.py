"""Whether the program of an agent CLI is there and answers."""

from collections.abc import Mapping

from rulebook_ralph.agents.agent import Probe
from rulebook_ralph.agents.program import missing
from rulebook_ralph.agents.supervised import version_of


def probed(agent: str, program: tuple[str, ...], environment: Mapping[str, str], *, install: str) -> Probe:
    """Looks for the program and asks for its version. `install` is the command that installs it."""
    problem, version = missing(program[0], environment), ""
    if not problem:
        version, problem = version_of(program, dict(environment))
    if problem:
        advice = f"install it with: {install}, or set tools.executors[].command"
        return Probe(installed=False, problem=f"agent {agent}: {problem}; {advice}")
    return Probe(installed=True, version=version)
