"""Whether an attempt failed as the last one did: the same hook, the same tree, the same output but for its numbers."""

import hashlib
import re

from msgspec.structs import replace

from rulebook_ralph.core.evidence import Iteration

_VARIES = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-f]{7,}\b|\d+(?:[.,:]\d+)*")
"""Addresses, hashes, times, durations, counts, line numbers."""


def failure_of(judged: Iteration) -> str:
    """A digest of how a judged iteration failed; empty where it did not, or where the attempt does not count.

    Lines are compared without numbers, without repeats and in no order, so that timings, addresses and a random order
    of tests make no new failure; a change of the tree does.
    """
    verdict = judged.verdict
    if verdict is None or verdict.action != "continue" or not verdict.counts:
        return ""
    lines = sorted({_VARIES.sub("#", line.strip()) for line in f"{verdict.reason}\n{judged.feedback}".splitlines()})
    parts = (judged.stage, verdict.hook, judged.tree or "", *lines)
    return hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()[:16]


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
