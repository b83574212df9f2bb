"""Runs one agent by its adapter, as a worker of Ralph's would, and prints the result as JSON.

    drive.py TYPE PERMISSIONS WORKSPACE CLONE SECONDS OVERRIDES < prompt

The agent works in CLONE, which the sandbox shows in the place of WORKSPACE. OVERRIDES is JSON for the executor.
"""

import json
import os
import sys
from pathlib import Path

import msgspec

from rulebook_ralph.agents.agent import AgentLimits, Invocation
from rulebook_ralph.agents.registry import create
from rulebook_ralph.config.settings import Executor
from rulebook_ralph.process.box import Box, NoBox, probe_box
from rulebook_ralph.process.cancellation import Cancellation


def main() -> None:
    kind, permissions, workspace, clone, seconds, overrides, prompt = sys.argv[1:]
    given = {"id": kind, "type": kind, "permissions": permissions, **json.loads(overrides)}
    settings = msgspec.convert(given, Executor)
    environment = {**os.environ, **settings.env}
    bwrap = probe_box(environment)
    box = None if isinstance(bwrap, NoBox) else Box(bwrap, (), ((Path(clone), Path(workspace)),), ())
    result = create(settings, environment).run(
        Invocation(
            prompt=prompt,
            workspace=Path(workspace if box else clone),
            output_file=Path(clone).with_name("raw"),
            limits=AgentLimits(wall_time=float(seconds)),
            environment=environment,
            cancelled=Cancellation(),
            report=lambda _: None,
            box=box,
        )
    )
    sys.stdout.buffer.write(msgspec.json.encode(result))


main()
