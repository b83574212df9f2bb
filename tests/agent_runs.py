"""One run of an agent, as the tests of agents want it: in a workspace of its own, with the limits and surroundings named."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from rulebook_ralph.agents.agent import AgentLimits, Invocation
from rulebook_ralph.agents.registry import create
from rulebook_ralph.config.settings import Executor
from rulebook_ralph.process.box import Box
from rulebook_ralph.process.cancellation import Cancellation
from rulebook_ralph.report.events import AgentActivity
from rulebook_ralph.tasks.results import AgentResult


def invocation(
    folder: Path, prompt: str = "do it", environment: Mapping[str, str] = MappingProxyType({})
) -> Invocation:
    return Invocation(
        prompt=prompt,
        workspace=folder / "workspace",
        output_file=folder / "raw",
        limits=AgentLimits(wall_time=20),
        environment={"PATH": os.environ["PATH"], **environment},
        cancelled=Cancellation(),
        report=lambda _: None,
    )


def ran(
    folder: Path,
    settings: Executor,
    prompt: str = "do it",
    *,
    limits: AgentLimits | None = None,
    report: Callable[[AgentActivity], None] = lambda _: None,
    box: Box | None = None,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> AgentResult:
    """What comes of it; in a box the workspace is the project's place."""
    asked = invocation(folder, prompt, environment)
    asked = replace(asked, limits=limits or asked.limits, report=report)
    if box:
        asked = replace(asked, workspace=folder / "project", box=box)
        assert asked.outside == folder / "clone"
    else:
        asked.workspace.mkdir(exist_ok=True)
    return create(settings, asked.environment).run(asked)
