"""How long steps take that run at once. Prints figures beside the aim, and never fails on time: run with `-s`."""

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from rulebook_ralph.checks import gates
from rulebook_ralph.core.settings import VerificationStep


@pytest.mark.parametrize("seconds", [(0.5,) * 8, (1.0, 0.7, 0.5, 0.2), (2.0,) * 16])
def test_steps_at_once(tmp_path: Path, seconds: tuple[float, ...]) -> None:
    """Steps that wait, so that the machine's cores do not decide."""
    steps = [VerificationStep(name=f"s{n}", command=f"sleep {each}") for n, each in enumerate(seconds)]
    started = time.perf_counter()
    results = gates.run_steps(
        steps,
        root=tmp_path,
        environment=dict(os.environ),
        clean=str,
        cancelled=threading.Event(),
        started=lambda _: None,
        ended=lambda _: None,
        parallel=True,
    )
    wall, longest = time.perf_counter() - started, max(seconds)
    assert all(result.passed for result in results)
    sys.stdout.write(
        f"\n{len(steps)} steps at once, {sum(seconds):.1f} s in a row, the longest {longest:.1f} s: "
        f"wall {wall:.2f} s, {wall / longest:.2f} times the longest (aim: 1.2)\n"
    )
