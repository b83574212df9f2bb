"""Whether an attempt failed as the last one did: the same hook, the same tree, the same output but for its numbers."""

import hashlib
import re
from collections.abc import Iterator

from msgspec.structs import replace

from rulebook_ralph.core.evidence import Iteration, Verdict

_VARIES = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-f]{7,}\b|\d+(?:[.,:]\d+)*")
"""Addresses, hashes, times, durations, counts, line numbers."""
_IN_THE_AGENTS_WORDS = ("contradictions", "work", "promise")
"""Rules whose reasons quote the agent."""


def failure_of(judged: Iteration) -> str:
    """A digest of how a judged iteration failed; empty where it did not, or where the attempt does not count.

    What Ralph ran is compared, not what agents or models say about it: lines without numbers, without repeats and in
    no order, so that timings, addresses and a random order of tests make no new failure; a change of the tree does.
    """
    verdict = judged.verdict
    if verdict is None or verdict.action != "continue" or not verdict.counts:
        return ""
    lines = sorted({_VARIES.sub("#", line.strip()) for text in _seen(judged, verdict) for line in text.splitlines()})
    parts = (judged.stage, verdict.hook, judged.tree or "", *lines)
    return hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()[:16]


def _seen(judged: Iteration, verdict: Verdict) -> Iterator[str]:
    if verdict.hook not in _IN_THE_AGENTS_WORDS:
        yield verdict.reason
    for check in judged.checks:
        if not check.failed:
            continue
        yield f"{check.step} {check.reason}"
        if check.method == "semantic":
            yield from (finding.criterion for finding in check.findings if not finding.met)
        else:
            yield check.output


def counted(judged: Iteration, last: Iteration | None) -> Iteration:
    """The judged record with its failure, and how often in a row the task failed that way.

    `last` is the task's iteration before, None for the first or after a fresh start. A stage that was verified in
    between, or an attempt that does not count, breaks no row.
    """
    failure = failure_of(judged)
    if last is None:
        return replace(judged, failure=failure, repeats=int(bool(failure)))
    if not failure:
        return replace(judged, failure=last.failure, repeats=last.repeats, restarted=last.restarted)
    repeats = last.repeats + 1 if failure == last.failure else 1
    return replace(judged, failure=failure, repeats=repeats, restarted=last.restarted)


def handed_on(judged: Iteration, last: Iteration | None) -> Iteration:
    """The judged record; of an attempt that was cut short, with the feedback that it was to answer."""
    verdict = judged.verdict
    if last is None or not last.feedback or verdict is None or verdict.action != "stop" or verdict.counts:
        return judged
    said = judged.feedback
    return replace(judged, feedback=last.feedback if last.feedback.startswith(said) else f"{said}\n\n{last.feedback}")
