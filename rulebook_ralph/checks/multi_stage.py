"""The verification `multi_stage`: several verifications, in order or as soon as what they need has passed."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from msgspec.structs import replace

from rulebook_ralph.core.criteria import MultiStage, Part
from rulebook_ralph.core.evidence import CheckResult

MOST_AT_ONCE = 8
"""Checks mostly wait: for a server, a disk, a test that sleeps. So there may be more of them than processors."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What a verification said. `reason` names each required check that failed and why; empty where it passed.

    `results` are those of every check that was run for it, in the order of the configuration.
    """

    passed: bool
    results: tuple[CheckResult, ...]
    reason: str = ""
    feedback: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


Run = Callable[[Part, str], Checked]
"""Runs a part that is to be known as that step."""


def check(multi: MultiStage, *, step: str, run: Run, put_back: Callable[[], object]) -> Checked:
    """Run the parts; each is known as `step/name`. Only external ones run at the same time, and only with `parallel`.

    A part that names another in `needs` runs if that one passed, else it has failed. After a required failure with
    `require_all` no further part is started; those that run at the time come to their end, as what they say is worth an
    attempt to the agent. `put_back` is called after each part that can change the tree, or all that ran at once. Raises
    what `run` raises, when nothing runs any more.
    """
    done: dict[str, Checked] = {}
    for batch in _batches(multi):
        if _is_over(multi, done):
            break
        try:
            _run_batch(batch, multi, step, run, done)
        finally:
            if any(part.method in ("external", "semantic") for part in batch):
                put_back()
    return _combined(multi, step, done)


def _batches(multi: MultiStage) -> Iterator[tuple[Part, ...]]:
    """The parts in order; those that may run at the same time together."""
    together: list[Part] = []
    for part in multi.stages:
        if multi.parallel and part.method == "external":
            together.append(part)
            continue
        if together:
            yield tuple(together)
            together = []
        yield (part,)
    if together:
        yield tuple(together)


def _run_batch(batch: tuple[Part, ...], multi: MultiStage, step: str, run: Run, done: dict[str, Checked]) -> None:
    """Run the parts, as many at once as may be, and add to `done` what they say."""
    if len(batch) == 1:
        part = batch[0]
        done[part.name] = _not_run(part, step, done) or run(part, f"{step}/{part.name}")
        return
    waiting = list(batch)
    running: dict[Future[Checked], Part] = {}
    with ThreadPoolExecutor(min(MOST_AT_ONCE, len(batch)), "check") as pool:
        while True:
            for part in _take_ready(waiting, MOST_AT_ONCE - len(running), step, multi, done):
                running[pool.submit(run, part, f"{step}/{part.name}")] = part
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                done[running.pop(future).name] = future.result()


def _take_ready(waiting: list[Part], room: int, step: str, multi: MultiStage, done: dict[str, Checked]) -> list[Part]:
    """Take from `waiting` what can be started now, at most `room` of them; what never can be is done."""
    ready: list[Part] = []
    for part in tuple(waiting):
        if _is_over(multi, done):
            waiting.clear()
            break
        if (failed := _not_run(part, step, done)) is not None:
            done[part.name] = failed
            waiting.remove(part)
        elif len(ready) < room and all(name in done for name in part.needs):
            ready.append(part)
            waiting.remove(part)
    return [] if _is_over(multi, done) else ready


def _is_over(multi: MultiStage, done: Mapping[str, Checked]) -> bool:
    return multi.require_all and any(part.required and _failed(part.name, done) for part in multi.stages)


def _not_run(part: Part, step: str, done: Mapping[str, Checked]) -> Checked | None:
    """What is said of a part that cannot run, as one that it needs failed; None of any other."""
    path = f"{step}/{part.name}"
    missing = next((name for name in part.needs if _failed(name, done)), None)
    if missing is None:
        return None
    reason = f"not run: it needs '{missing}', which did not pass"
    command = str(part.config.get("command", "")) if part.method == "external" else ""
    result = CheckResult(step=path, method=part.method, command=command, passed=False, reason=reason)
    return Checked(False, (result,), f"{path} ({reason})", (f"The check '{path}' was {reason}.",))


def _failed(name: str, done: Mapping[str, Checked]) -> bool:
    return name in done and not done[name].passed


def _combined(multi: MultiStage, step: str, done: Mapping[str, Checked]) -> Checked:
    results: list[CheckResult] = []
    failed: list[Checked] = []
    warnings: list[str] = []
    for part in multi.stages:
        checked = done.get(part.name)
        if checked is None:
            continue
        warnings += checked.warnings
        results += checked.results if part.required else map(_as_optional, checked.results)
        if checked.passed:
            continue
        if part.required:
            failed.append(checked)
        else:
            warnings.append(f"failed, but is optional: {checked.reason}")
    reason = ", ".join(checked.reason for checked in failed)
    if not failed and not any(checked.passed for checked in done.values()):
        failed = list(done.values())
        reason = f"{step} (not one of its parts passed: {', '.join(checked.reason for checked in failed)})"
    whole = CheckResult(step=step, method="multi_stage", command="", passed=not failed, reason=reason)
    feedback = tuple(text for checked in failed for text in checked.feedback)
    return Checked(not failed, (*results, whole), reason, feedback, tuple(warnings))


def _as_optional(result: CheckResult) -> CheckResult:
    return replace(result, required=False)
