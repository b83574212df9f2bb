"""How long it takes to judge attempts whose criteria are several commands. Prints figures, and never fails on time.

Run with `-s`. RALPH_BENCH_ROUNDS sets how many attempts are judged.
"""

import os
import resource
import sys
import time
from pathlib import Path
from threading import Event

import pytest

from rulebook_ralph.checks.subject import Subject
from rulebook_ralph.checks.verification import ResultCache, verify
from rulebook_ralph.core.criteria import Criteria, MultiStage, Part

SECONDS = 0.2
AT_ONCE = 5


ROUNDS = int(os.environ.get("RALPH_BENCH_ROUNDS", "100"))
"""Read here, as the tests' surroundings take RALPH_* out of the environment."""


def judge(root: Path, criteria: Criteria, number: int) -> None:
    """One attempt, with a cache and a tree of its own, as a run would judge it."""
    subject = Subject(
        root=root,
        stage="qa",
        promise=criteria.promise,
        promises=(criteria.promise,),
        final_message="",
        commit_messages=(),
        title="",
        description="",
        acceptance_criteria=(),
        diff=tuple,
        relevant_files=dict,
        tree=lambda: f"tree {number}",
        put_back=lambda: None,
        environment=dict(os.environ),
        clean=str,
        cancelled=Event(),
    )
    verified = verify(criteria, subject, cache=ResultCache())
    assert verified.passed, verified.reason


def criteria(*, parallel: bool, chain: bool = False) -> Criteria:
    """Independent parts; with `chain` a sixth that needs the first, so that the longest chain is twice as long."""
    parts = [
        Part(name=f"part{number}", method="external", config={"command": f"sleep {SECONDS}; echo {number}"})
        for number in range(AT_ONCE)
    ]
    if chain:
        config = {"command": f"sleep {SECONDS}; echo chained"}
        parts.append(Part(name="chained", method="external", config=config, needs=("part0",)))
    return Criteria(promise="QA_PASSED", verification=MultiStage(stages=tuple(parts), parallel=parallel))


@pytest.mark.parametrize(
    ("what", "parallel", "chain", "longest", "share"),
    [
        (f"{AT_ONCE} independent parts at once", True, False, SECONDS, 1),
        (f"{AT_ONCE} at once and one that needs the first", True, True, 2 * SECONDS, 0.1),
        (f"{AT_ONCE} parts in order", False, False, AT_ONCE * SECONDS, 0.05),
    ],
)
def test_judging_takes_as_long_as_the_longest_chain(
    tmp_path: Path, what: str, parallel: bool, chain: bool, longest: float, share: float
) -> None:
    rounds = max(1, round(ROUNDS * share))
    started, used = time.perf_counter(), _cpu()
    for number in range(rounds):
        judge(tmp_path, criteria(parallel=parallel, chain=chain), number)
    total, cpu = time.perf_counter() - started, _cpu() - used
    sys.stdout.write(
        f"\n{rounds} attempts, {what} of {SECONDS * 1000:.0f} ms: {total:.1f} s; the longest chain {rounds * longest:.1f} s;"
        f" over it {(total / rounds - longest) * 1000:.0f} ms each; own CPU {cpu / rounds * 1000:.0f} ms each"
        " (aim: at most 20 ms over the longest chain on idle processors)\n"
    )


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
