"""The verification `semantic`: texts that must not be there, then a model that judges criteria on the work itself.

A model that cannot be asked, or answers badly twice, has judged nothing: its result is `skipped`, which is not the
work's fault.
"""

import re
import time
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import islice

from msgspec.structs import replace

from rulebook_ralph.agents.question import ModelError
from rulebook_ralph.git.diff import FileDiff
from rulebook_ralph.tasks.criteria import Semantic, with_acceptance_criteria
from rulebook_ralph.tasks.results import AskedItem, CheckResult, Finding
from rulebook_ralph.tasks.text import clipped, cut, printable
from rulebook_ralph.verify.case import Case, Examination, StageCriteria
from rulebook_ralph.verify.questions import OpenItem, ask_about

FINAL_MESSAGE = "the final message"
_MOST_SHOWN = 10
_LONGEST_DESCRIPTION = 1000
_SPACE = re.compile(r"\s+")


def check(semantic: Semantic, named: StageCriteria, case: Case, examination: Examination, *, step: str) -> CheckResult:
    """What the texts and the model say of the work; `skipped` where no model judged it. Raises Cancelled, GitError."""
    started = time.monotonic()
    nothing = CheckResult(step=step, method="semantic", command="", passed=False)
    result = _judged(semantic, named, case, examination, nothing)
    clean = examination.verifiers.redactor.clean
    return replace(
        result,
        required=not result.skipped,
        reason=clean(result.reason),
        output=clean(result.output),
        duration_ms=round((time.monotonic() - started) * 1000),
    )


def criteria_of(
    semantic: Semantic, acceptance_criteria: Sequence[str], *, title: str = "", description: str = ""
) -> tuple[str, ...]:
    """What is to be checked for, each once. The title and description of the task stand for acceptance criteria where
    it has none.
    """
    described = ". ".join(said.strip().rstrip(".") for said in (title, description) if said.strip())
    instead = cut(f"The work does what the task describes: {described}", _LONGEST_DESCRIPTION) if described else ""
    wanted = (
        given
        for one in semantic.check_for
        for given in with_acceptance_criteria(one, acceptance_criteria, without=instead)
    )
    return tuple(dict.fromkeys(text.strip() for text in wanted if text.strip()))


def _judged(
    semantic: Semantic, named: StageCriteria, case: Case, examination: Examination, result: CheckResult
) -> CheckResult:
    final_message = case.result.final_text if case.result else ""
    found = list(islice(unwanted(semantic.negative_patterns, examination.diff(), final_message), _MOST_SHOWN + 1))
    if found:
        more = ["… and more"] if len(found) > _MOST_SHOWN else []
        return replace(result, reason=f"found {found[0]}", output="\n".join([*found[:_MOST_SHOWN], *more]))
    if not semantic.check_for:
        return replace(result, passed=True)
    task, verifiers = case.task, examination.verifiers
    description = named.criteria.description or task.description
    wanted = criteria_of(semantic, task.acceptance_criteria, title=task.title, description=description)
    if not wanted:
        return replace(result, reason="nothing to check for: the task has no acceptance criteria and no text")
    if verifiers.ask is None:
        return replace(result, skipped=True, reason=verifiers.why_no_model)
    items = [OpenItem("criterion", criterion) for criterion in wanted]
    try:
        answers = ask_about(case, examination, items, verifiers.ask, model=semantic.model)
    except ModelError as error:
        return replace(result, skipped=True, reason=clipped(str(error)) or "the judging model gave no answer")
    findings = tuple(map(_finding, wanted, answers))
    unmet = [finding.criterion for finding in findings if not finding.met]
    more_unmet = f", and {len(unmet) - 1} more" if len(unmet) > 1 else ""
    return replace(
        result,
        passed=not unmet,
        reason=f"not met: {clipped(unmet[0])}{more_unmet}" if unmet else "",
        output="\n".join(map(_told, findings)),
        findings=findings,
    )


def _finding(criterion: str, answer: AskedItem) -> Finding:
    met, reason = answer.answer == "yes", clipped(answer.reason)
    if not met:
        return Finding(criterion=criterion, met=False, reason=reason or "it is not met")
    return Finding(criterion=criterion, met=True, reason=reason, file=answer.file, line=answer.line)


def _told(finding: Finding) -> str:
    place = f" ({clipped(finding.file)}{f':{finding.line}' if finding.line else ''})" if finding.met else ""
    return f"{'met' if finding.met else 'NOT met'}: {clipped(finding.criterion)}{place}: {finding.reason}"


def unwanted(patterns: Sequence[str], diff: Sequence[FileDiff], final_message: str) -> Iterator[str]:
    """Each line that was added, and each line of the final message, that holds one of the patterns, as one line that
    names the place. Upper and lower case are the same, and invisible characters hide nothing.
    """
    wanted = [(pattern, _folded(pattern)) for pattern in patterns]
    lines = [(f"{printable(file.path)}:{line.number}", line.text) for file in diff for line in file.added]
    for place, text in (*lines, *((FINAL_MESSAGE, text) for text in final_message.splitlines())):
        folded = _folded(text)
        yield from (f"'{clipped(pattern)}' in {place}: {clipped(text)}" for pattern, it in wanted if it in folded)


def _folded(text: str) -> str:
    if not text.isascii():
        visible = "".join(char for char in text if unicodedata.category(char) != "Cf")
        text = unicodedata.normalize("NFKC", visible)
    return _SPACE.sub(" ", text.casefold())
