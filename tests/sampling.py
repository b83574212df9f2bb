"""Which cases of a parametrized test run always, and which only with `--thorough`."""

from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet


def sample(
    cases: Iterable[Any],
    count: int = 0,
    *,
    always: Collection[Any] = (),
    kind: Callable[[Any], Hashable] | None = None,
) -> list[Any]:
    """The cases for `parametrize`; those not in the sample are marked `thorough`. It is the same sample in each run.

    In it are `count` cases evenly from the first to the last, those named in `always`, and the first of each `kind`.
    A tuple is the values of several arguments.
    """
    everything = list(cases)
    chosen = {round(step * (len(everything) - 1) / max(count - 1, 1)) for step in range(count)}
    chosen |= {everything.index(case) for case in always}
    if kind:
        firsts: dict[Hashable, int] = {}
        for index, case in enumerate(everything):
            firsts.setdefault(kind(case), index)
        chosen |= set(firsts.values())
    return [case if index in chosen else _rare(case) for index, case in enumerate(everything)]


def _rare(case: Any) -> ParameterSet:
    if isinstance(case, ParameterSet):
        return pytest.param(*case.values, id=case.id, marks=(*case.marks, pytest.mark.thorough))
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.thorough)
