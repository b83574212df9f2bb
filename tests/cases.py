"""Many small cases in one test, as tests of their own would take longer to be told of than to be run; and a record."""

import functools
import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from rulebook_ralph.tasks.history import Iteration

Test = Callable[..., None]
AT = "2026-01-01T00:00:00.000Z"


def iteration(number: int = 1, **values: Any) -> Iteration:
    """A record of an iteration: of a coder's first attempt at the task `a`, settled, unless something else is said."""
    usual: dict[str, Any] = {"phase": "settled", "task_id": "a", "stage": "coder", "attempt": 1, "agent": "test"}
    usual |= {"iteration_number": number, "timestamp": AT, "started_at": AT, "base_commit": "0" * 40}
    return Iteration(**usual | values)


def each_of(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[[Test], Test]:
    """Like `pytest.mark.parametrize`, within one test. Every case is tried, and each that fails is told.

    Each has a `tmp_path` of its own; what else a test is given is the same for all cases.
    """
    keys = (names,) if isinstance(names, str) else names
    everything = [dict(zip(keys, (case,) if isinstance(names, str) else case, strict=True)) for case in cases]
    assert everything

    def of_all(test: Test) -> Test:
        signature = inspect.signature(test)

        @functools.wraps(test)
        def run(**given: Any) -> None:
            failures: list[BaseException] = []
            for number, values in enumerate(everything):
                try:
                    test(**_apart(given, number), **values)
                except (Exception, pytest.fail.Exception) as failure:  # noqa: BLE001 - whatever a test may raise
                    failure.add_note(f"The case: {values!r}")
                    failures.append(failure)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(everything)} cases", failures)

        left = [parameter for name, parameter in signature.parameters.items() if name not in keys]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]  # pytest looks there
        return run

    return of_all


def _apart(given: dict[str, Any], number: int) -> dict[str, Any]:
    if "tmp_path" not in given:
        return given
    folder: Path = given["tmp_path"] / f"case-{number}"
    folder.mkdir()
    return given | {"tmp_path": folder}
