"""The verification `semantic`: texts that must not be there, then a model that judges criteria on the work itself.

A criterion holds only where the model says so and points to a file and line that the tree has; nothing passes by
default. A model that cannot be asked, or answers badly twice, has judged nothing (`unjudged`), which is not the work's
fault.
"""

import re
import time
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Literal

import msgspec

from rulebook_ralph.agents.question import Ask, ModelError, Question
from rulebook_ralph.git.diff import FileDiff
from rulebook_ralph.tasks.criteria import Semantic, with_acceptance_criteria
from rulebook_ralph.tasks.results import CheckResult, Finding
from rulebook_ralph.tasks.text import clipped, cut, estimated_tokens, one_line, printable
from rulebook_ralph.verify.material import (
    RULE_OF_DATA,
    RULE_OF_LINES,
    ShownFile,
    UnusableAnswerError,
    answered_or_error,
    claims,
    decoded,
    envelope,
    parts,
    place_exists,
    read_texts,
    schema_of,
    shown_files,
)
from rulebook_ralph.verify.workspace import Cancelled

if TYPE_CHECKING:
    from rulebook_ralph.verify.case import Case, NamedCriteria
    from rulebook_ralph.verify.judge import Examination

BUDGET = 60_000
"""Tokens of one question's data."""
MOST_PARTS = 8
"""Questions for one verification; work that needs more is too large to be judged."""

_MOST_SHOWN = 10
_LONGEST_DESCRIPTION = 1000

_RULES = f"""\
You verify whether work on a task fulfils its criteria. The author gains by being believed; you gain nothing.

Rules:
1. {RULE_OF_DATA}
2. {RULE_OF_LINES}
3. Verdicts: `met` where the files show that the criterion holds; `not_met` where they show that it does not{{missing}};
   `unclear` where they do not tell.
4. Every `met` names the `file`, by the name it has in the data, and the number of the `line` that shows it best. For
   something absent, name the line where it would be most likely; for a file that was deleted, its name and line 0.
5. Judge each criterion by itself. Reasons are for the author: what is missing and where, in a sentence or two.
6. Answer with one JSON object by the schema and nothing else. It holds each id below once.
"""
_MISSING = ", or where what it asks for is missing"
_MISSING_IN_PART = " (what could stand in another part of the work is `unclear`, not missing)"


class CriterionAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the model says of one criterion, and the place that shows it."""

    id: str
    verdict: Literal["met", "not_met", "unclear"]
    file: str
    line: int
    reason: str


class CriteriaAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole answer."""

    criteria: tuple[CriterionAnswer, ...]


@dataclass(frozen=True, slots=True)
class _Opinion:
    verdict: Literal["met", "not_met", "unclear"]
    finding: Finding


@dataclass(frozen=True, slots=True)
class _Outcome:
    passed: bool = False
    unjudged: bool = False
    reason: str = ""
    output: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


def check(
    semantic: Semantic,
    named: "NamedCriteria",
    case: "Case",
    examination: "Examination",
    *,
    step: str,
    budget: int = BUDGET,
) -> CheckResult:
    """What the texts and the model say of the work; `skipped` where no model judged it. Raises Cancelled, GitError."""
    started = time.monotonic()
    clean = examination.verifiers.redactor.clean
    outcome = _outcome(semantic, named, case, examination, budget)
    return CheckResult(
        step=step,
        method="semantic",
        command="",
        passed=outcome.passed,
        required=not outcome.unjudged,
        skipped=outcome.unjudged,
        reason=clean(outcome.reason),
        output=clean("\n".join(outcome.output)),
        findings=outcome.findings,
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


def _outcome(
    semantic: Semantic, named: "NamedCriteria", case: "Case", examination: "Examination", budget: int
) -> _Outcome:
    final_message = case.result.final_text if case.result else ""
    diff = examination.diff()
    found = list(islice(unwanted(semantic.negative_patterns, diff, final_message), _MOST_SHOWN + 1))
    if found:
        more = ["… and more"] if len(found) > _MOST_SHOWN else []
        return _Outcome(reason=f"found {found[0]}", output=(*found[:_MOST_SHOWN], *more))
    if not semantic.check_for:
        return _Outcome(passed=True)
    task, verifiers = named.task, examination.verifiers
    description = named.criteria.description or task.description
    wanted = criteria_of(semantic, task.acceptance_criteria, title=task.title, description=description)
    if not wanted:
        return _Outcome(reason="there is nothing to check for: the task has no acceptance criteria and no text")
    if verifiers.ask is None:
        return _Outcome(unjudged=True, reason=f"no model could be asked: {verifiers.no_model or 'none is configured'}")
    texts = read_texts(verifiers.repository, case.base, case.tree, diff, task.relevant_files)
    there = [path for path in task.relevant_files if path in texts and texts[path].after is not None]
    clean = verifiers.redactor.clean
    files = shown_files(diff, texts, clean=clean, budget=budget, whole=there)
    if not files:
        return _Outcome(reason="there is nothing to judge: no file was changed and the task names none")
    said = claims(clean, final_message=final_message, commit_messages=case.parsed.commit_messages)
    question = _Questions(verifiers.ask, semantic.model, named, case, examination, wanted, said)
    return _judged(question, files, budget - estimated_tokens("".join(said.values())))


@dataclass(frozen=True, slots=True)
class _Questions:
    """Asks about parts of the work."""

    ask: Ask
    model: str
    named: "NamedCriteria"
    case: "Case"
    examination: "Examination"
    criteria: tuple[str, ...]
    claims: Mapping[str, str]

    def part(self, files: Sequence[ShownFile], number: int, many: int) -> list[_Opinion]:
        """What the model says of each criterion. Raises ModelError and Cancelled."""
        ids = {f"c{index}": text for index, text in enumerate(self.criteria, start=1)}
        clean = self.examination.verifiers.redactor.clean
        shown = envelope(**self.claims, files=[file.data for file in files])

        def question(problem: str) -> Question:
            if self.examination.verifiers.cancelled.is_set():
                raise Cancelled
            told = self._instructions(ids, number, many, problem)
            return Question(clean(told), shown, schema_of(CriteriaAnswer), self.model)

        return answered_or_error(self.ask, question, lambda text: self._read(text, ids, files))

    def _instructions(self, ids: Mapping[str, str], number: int, many: int, problem: str) -> str:
        task = self.named.task
        text = [_RULES.format(missing=_MISSING_IN_PART if many > 1 else _MISSING)]
        if many > 1:
            text.append(f"This is part {number} of {many} of the work; each part holds other files.\n")
        description = self.named.criteria.description or task.description
        text.append(f"The task: {printable(task.title)}\nThe stage: {self.named.stage}\n{description}\n")
        text.append("The criteria:")
        text.extend(f"- {name}: {one_line(said, 4000)}" for name, said in ids.items())
        return "\n".join([*text, *([f"\n{problem}"] if problem else [])])

    def _read(self, text: str, ids: Mapping[str, str], files: Sequence[ShownFile]) -> list[_Opinion]:
        """Raises UnusableAnswerError."""
        answer = decoded(text, CriteriaAnswer)
        counted = Counter(each.id for each in answer.criteria)
        if wrong := [name for name in {**ids, **counted} if name not in ids or counted[name] != 1]:
            raise UnusableAnswerError(f"each id is to be judged once, and no other: {', '.join(wrong)[:200]}")
        return [self._opinion(ids[each.id], each, files) for each in answer.criteria]

    def _opinion(self, criterion: str, said: CriterionAnswer, files: Sequence[ShownFile]) -> _Opinion:
        reason = clipped(said.reason)
        if said.verdict != "met":
            reason = reason or ("it is not met" if said.verdict == "not_met" else "the work does not show it")
            return _Opinion(said.verdict, Finding(criterion=criterion, met=False, reason=reason))
        path = next((file.path for file in files if file.is_called(said.file)), said.file)
        gone = said.line == 0 and any(path in (file.path, file.old_path) for file in self._gone())
        if not gone and not (self._is_bare(path, said.line) or self._has_line(path, said.line)):
            place = f"{clipped(said.file) or 'no file'}:{said.line}"
            raise UnusableAnswerError(f"{said.id} is said to be met, and the work has no {place}")
        return _Opinion("met", Finding(criterion=criterion, met=True, reason=reason, file=path, line=said.line))

    def _gone(self) -> Iterator[FileDiff]:
        return (file for file in self.examination.diff() if file.kind in "DR")

    def _is_bare(self, path: str, line: int) -> bool:
        """Whether it is a changed file without lines to point to, and is pointed to itself."""
        return line == 0 and any(
            file.path == path and not file.added for file in self.examination.diff() if file.kind == "A"
        )

    def _has_line(self, path: str, line: int) -> bool:
        return line > 0 and place_exists(self.examination.verifiers.repository, self.case.tree, path, line)


def _judged(questions: _Questions, files: Sequence[ShownFile], budget: int) -> _Outcome:
    notes = tuple(f"not shown to the judge: {file.name}: {file.why_not}" for file in files if file.why_not)[
        :_MOST_SHOWN
    ]
    divided = parts(files, budget)
    if len(divided) > MOST_PARTS:
        reason = (
            f"the work is too large to be judged: {len(divided)} questions, of at most {MOST_PARTS}; split the task"
        )
        return _Outcome(reason=reason, output=notes)
    opinions: list[_Opinion] = []
    failed = ""
    for number, part in enumerate(divided, start=1):
        try:
            opinions += questions.part(part, number, len(divided))
        except ModelError as error:
            if questions.examination.verifiers.cancelled.is_set():
                raise Cancelled from error
            failed = clipped(str(error)) or "it gave no answer"
            break
    if failed and all(opinion.verdict != "not_met" for opinion in opinions):
        return _Outcome(unjudged=True, reason=f"no model could be asked: {failed}", output=notes)
    return _together(questions.criteria, opinions, notes)


def _together(criteria: Sequence[str], opinions: Sequence[_Opinion], notes: tuple[str, ...]) -> _Outcome:
    """A criterion that one part breaks is broken, whatever became of the questions on others."""
    findings = tuple(_finding(criterion, opinions) for criterion in criteria)
    output = (*map(_told, findings), *notes)
    unmet = [finding.criterion for finding in findings if not finding.met]
    if unmet:
        more = f" (and {len(unmet) - 1} more)" if len(unmet) > 1 else ""
        return _Outcome(reason=f"not met: {clipped(unmet[0])}{more}", output=output, findings=findings)
    return _Outcome(passed=True, output=output, findings=findings)


def _finding(criterion: str, opinions: Sequence[_Opinion]) -> Finding:
    """Met where some part shows it and none breaks it."""
    own = {opinion.verdict: opinion.finding for opinion in reversed(opinions) if opinion.finding.criterion == criterion}
    return own.get("not_met") or own.get("met") or own["unclear"]


def _told(finding: Finding) -> str:
    place = f" ({clipped(finding.file)}:{finding.line})" if finding.met else ""
    return f"{'met' if finding.met else 'NOT met'}: {clipped(finding.criterion)}{place}: {finding.reason}"


# Texts that must not be there

FINAL_MESSAGE = "the final message"
_SPACE = re.compile(r"\s+")


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
