"""The gates: run once on the tree as it stands, as a run and `ralph verify` run them."""

import re
import shlex
import shutil
from collections.abc import Callable, Generator, Iterator, Mapping
from threading import Event

from rulebook_ralph.checks.gates import run_step
from rulebook_ralph.checks.shell import Surroundings
from rulebook_ralph.core import events
from rulebook_ralph.core.amounts import duration
from rulebook_ralph.core.enumeration import some
from rulebook_ralph.core.evidence import CheckResult
from rulebook_ralph.core.notify_urls import without_addresses
from rulebook_ralph.core.settings import VerificationStep
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.loop import preflight
from rulebook_ralph.loop.diagnosis.diagnosis import Diagnosis, ok, refused, unknown, warning, wrong
from rulebook_ralph.loop.diagnosis.place import Place
from rulebook_ralph.loop.gate_runner import NEEDS_MORE, GateRunner
from rulebook_ralph.workspace.standing_tree import standing_tree

_NOT_FOUND = re.compile(
    r"(?:^|[:\s])'?(?P<shell>[\w./+-]{1,100})'?: (?:command )?not found\b"
    r"|python[\d.]{0,8}: No module named (?P<module>[\w.]{1,100})"
    r"|(?:make|env): \W?(?P<other>[\w./+-]{1,100})\W?: No such file or directory",
    re.MULTILINE,
)
_NO_PROGRAM = 127
_ASSIGNMENT = re.compile(r"\w+=")
_LOOK = "see its output: ralph verify"


def examine(
    place: Place, *, run: bool, busy: bool, clean: Callable[[str], str], cancelled: Event
) -> Iterator[Diagnosis]:
    """Whether anything would verify the work, then each gate's result, as it comes. Raises checks.shell.Cancelled.

    Gates are not run where `run` says so, or while another run is `busy` in the tree.
    """
    if place.settings.config is None:
        yield unknown("not run: the configuration cannot be read")
        return
    verification = place.config.verification
    if verification.steps and not verification.enabled:
        yield warning("switched off (verification.enabled)", "ralph run needs --trust-agent then, or other criteria")
    if place.project is not None and place.prd is not None:
        try:
            preflight.require_something_to_verify(place.project, place.prd, trust_agent=False)
        except RalphError as error:
            yield refused(error)
    elif not verification.steps:
        yield wrong("none is configured", "'ralph init' looks for them; or add them to verification.steps")
    steps = verification.gates
    if not run or busy or not steps:
        if steps:
            why = "as asked for" if not run else "as a run is at work in the tree"
            yield unknown(f"not run, {why}: {some([step.name for step in steps])}")
        return
    yield from _run(place, steps, clean, cancelled)


def _run(
    place: Place, steps: tuple[VerificationStep, ...], clean: Callable[[str], str], cancelled: Event
) -> Iterator[Diagnosis]:
    repository = place.repository if place.has_commit else None
    before = set(repository.modified()) if repository else set()
    results = []
    if place.project is not None and repository is not None and place.config.verification.clean:
        results = yield from _run_in_checkout(GateRunner.of(place.project, clean, cancelled, _ignore))
    else:
        environment = without_addresses(place.environment, place.config.notify.urls)
        around = Surroundings(place.root, environment, clean, cancelled)
        for step in steps:
            results.append(result := run_step(step, around))
            yield of_result(result, missing_program(step, result, {**environment, **step.env}))
    required = [result for result in results if result.required]
    if required and not any(result.passed for result in required):
        yield wrong(
            "no required gate passes, and no task can be completed until one does",
            "mend the tree or the gates: ralph verify",
            ExitCode.BLOCKED,
        )
    if repository and (changed := sorted(set(repository.modified()) - before)):
        yield warning(f"a gate has changed tracked files: {some(changed)}", "see: git diff")


def _run_in_checkout(runner: GateRunner) -> Generator[Diagnosis, None, list[CheckResult]]:
    try:
        opening, tree = standing_tree(runner.project.repository, with_new_files=True)
        results = runner.run(opening, tree=tree, to_the_end=True)
        yield ok("they run in a clean checkout of what git holds (verification.clean)")
        known = {step.name: step for step in runner.steps}
        for result in results:
            step = known.get(result.step)
            environment = {**runner.project.environment_given, **(step.env if step else {})}
            yield of_result(result, missing_program(step, result, environment) if step else "")
        if green := runner.green_in_the_tree(results):
            yield warning(f"red in the clean checkout, but green in your tree: {some(green)}", NEEDS_MORE)
    except RalphError as error:
        yield refused(error)
        return []
    finally:
        runner.close()
    return list(results)


def _ignore(event: events.Event) -> None:
    """Each result is told when it is known what it means."""


def of_result(result: CheckResult, missing: str = "") -> Diagnosis:
    """What a gate said. Red on the base is held against no task until it was green once, so it stops no run; but a gate
    whose program is `missing` never becomes green, and one that does not end costs its timeout every time.
    """
    took = duration(result.duration_ms / 1000)
    if result.passed:
        return ok(f"{result.step}: {result.ending}, {took}")
    if not result.required:
        return warning(f"{result.step}: failed ({result.reason}), {took}; it is not required", _LOOK)
    if missing:
        return wrong(f"{result.step}: needs {missing}, which was not found", f"install {missing}", ExitCode.BLOCKED)
    if result.exit_code is None:
        return wrong(f"{result.step}: {result.reason}", "change it in verification.steps", ExitCode.BLOCKED)
    return warning(f"{result.step}: failed ({result.reason}), {took}", _LOOK)


def missing_program(step: VerificationStep, result: CheckResult, environment: Mapping[str, str]) -> str:
    """The program or module that a failed gate did not find; empty where it failed otherwise."""
    if result.passed:
        return ""
    told = _NOT_FOUND.search(result.output[-20_000:])
    if told and (result.exit_code == _NO_PROGRAM or not told["shell"]):
        return next(name for name in (told["shell"], told["module"], told["other"]) if name)
    if result.exit_code != _NO_PROGRAM:
        return ""
    first = _first_word(step.command)
    return "" if not first or shutil.which(first, path=environment.get("PATH")) else first


def _first_word(command: str) -> str:
    try:
        return next((word for word in shlex.split(command) if not _ASSIGNMENT.match(word)), "")
    except ValueError:
        return ""
