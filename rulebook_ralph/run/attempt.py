"""One attempt at a task: an agent works in a clone, its work is read, kept and judged. No state is touched here.

An attempt is a function of values (`Assignment`) to values (`Outcome`); the worker is only the place where it happens.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec.structs import replace as replaced

from rulebook_ralph.agents.agent import Agent, AgentLimits, Invocation
from rulebook_ralph.errors import RalphError
from rulebook_ralph.git import attempts
from rulebook_ralph.git.repository import GitError
from rulebook_ralph.git.trees import Change, changes, merge_trees
from rulebook_ralph.process.cancellation import Cancellation
from rulebook_ralph.report.events import AgentActivity, Notice
from rulebook_ralph.run.commit import commit_of
from rulebook_ralph.run.workers import Worker
from rulebook_ralph.tasks import parser
from rulebook_ralph.tasks.results import MERGE, AgentResult, Verdict
from rulebook_ralph.tasks.text import some
from rulebook_ralph.verify.case import Case, Judgement, Verifiers
from rulebook_ralph.verify.judge import MERGED, Rule, judge
from rulebook_ralph.verify.redaction import cleaned
from rulebook_ralph.verify.workspace import Cancelled

_INTERRUPTED = Judgement(verdict=Verdict(action="stop", reason="interrupted", stop_reason="interrupted", counts=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Everything that one attempt needs to know. `case` is what the judge will see, as far as it is known: its tree is
    what the agent finds, the base's or what attempts before left.
    """

    case: Case
    prompt: str
    agent: Agent
    executor: str
    model: str
    environment: Mapping[str, str]
    limits: AgentLimits
    output_file: Path
    seconds: int
    sign: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one attempt gave. `case` is what was judged, interrupted until then; `commit` the candidate, made where the
    task completes; `snapshot` keeps the attempt. `unmerged`: it held, but cannot be brought onto the branch as it is.
    """

    assignment: Assignment
    case: Case
    result: AgentResult
    snapshot: str
    changes: tuple[Change, ...] = ()
    judgement: Judgement = _INTERRUPTED
    commit: str | None = None
    unmerged: bool = False

    @property
    def verdict(self) -> Verdict:
        return self.judgement.verdict

    @property
    def lands(self) -> bool:
        """Whether a commit is to go onto the branch."""
        return self.commit is not None and self.verdict.action == "complete"

    def said(self, verdict: Verdict) -> "Outcome":
        """The outcome with another verdict, by which nothing lands."""
        return replace(self, judgement=replace(self.judgement, verdict=verdict), commit=None)


def attempt(assignment: Assignment, worker: Worker, verifiers: Verifiers) -> Outcome:
    """Have the agent work, read what it made, keep it, judge it, and make the commit of what holds."""
    case = assignment.case
    try:
        case = _prepared(case, worker, verifiers)
    except Cancelled:
        killed = AgentResult(agent=assignment.agent.name, status="killed", killed_by="interrupted")
        return _kept(assignment, case, killed, verifiers)
    result = _execute(assignment, worker, verifiers)
    case = replace(case, result=result, parsed=cleaned(parser.parse(result), verifiers.redactor.clean_cut))
    try:
        outcome = _captured(assignment, case, result, worker, verifiers)
    except (GitError, RalphError) as error:
        if worker.is_there and not _has_killed_git(error):
            raise
        told = f"what the agent left could not be read: {error}"
        feedback = f"{told[0].upper()}{told[1:]}. The next attempt begins where this one did. Leave no such files."
        verdict = Verdict(action="continue", hook="agent", reason=told, feedback=feedback)
        return _kept(assignment, case, result, verifiers).said(verdict)
    return judged(outcome, worker, verifiers)


def judged(outcome: Outcome, worker: Worker, verifiers: Verifiers, *, only: Sequence[Rule] | None = None) -> Outcome:
    """The outcome with its judgement, and with the commit of what completes its task; by some of the rules alone where
    the work holds by itself, and only its base is another one.
    """
    case, assignment = outcome.case, outcome.assignment
    verifiers = replace(verifiers, report=worker.report, gates=verifiers.gates.reporting(worker.report))
    found = changes(verifiers.repository, case.base, case.tree)
    outcome = replace(outcome, changes=found, judgement=_INTERRUPTED)
    try:
        with worker.ledger.paying(case.iteration):
            judgement = judge(case, verifiers, only=only)
    except Cancelled:
        return outcome
    outcome = replace(outcome, judgement=judgement)
    if judgement.verdict.action != "complete" or not case.last_stage or not outcome.changes:
        return outcome
    try:
        commit = commit_of(case, judgement, verifiers, agent=assignment.agent.name, sign=assignment.sign)
    except GitError as error:
        told = f"the commit could not be made: {error.stderr.strip() or error}"
        return outcome.said(Verdict(action="stop", hook="commit", reason=told, stop_reason="error", counts=False))
    return replace(outcome, commit=commit)


def on_top_of(tip: str, checks_base: str, outcome: Outcome, worker: Worker, verifiers: Verifiers) -> Outcome:
    """Work that holds, brought onto a branch that moved meanwhile and judged there."""
    merged = merge_trees(verifiers.repository, outcome.case.base, tip, outcome.case.tree)
    case = replace(outcome.case, base=tip, checks_base=checks_base)
    if merged.tree is None:
        return _sent_back(replace(outcome, case=case), merged.conflicts)
    moved = replace(outcome, case=replace(case, tree=merged.tree), commit=None)
    again, kept = judged(moved, worker, verifiers, only=MERGED), outcome.judgement
    joined = replace(
        again.judgement,
        changed_checks=kept.changed_checks,
        evidence=again.judgement.evidence or kept.evidence,
        review=kept.review,
        log=(*kept.log, *again.judgement.log),
    )
    again = replace(again, judgement=joined)
    if joined.verdict.action != "continue":  # it holds, or nobody can say
        return again
    told = (
        "Your work held where you did it, but it does not together with what landed on the branch meanwhile. Both "
        f"stand in the tree now. Make them work together, and leave what the others did.\n\n{joined.verdict.feedback}"
    )
    reason = f"does not hold on top of what landed meanwhile: {joined.verdict.reason}"
    verdict = Verdict(action="continue", hook=MERGE, reason=reason, feedback=told, counts=False)
    return replace(again.said(verdict), unmerged=True)


def _prepared(case: Case, worker: Worker, verifiers: Verifiers) -> Case:
    """The case, its tree standing in the clone: the base's where what was left cannot be set up, as an agent may have
    broken what its dependencies are read from. Raises RalphError where the base cannot be set up either.
    """
    try:
        worker.prepare(case.base, case.tree)
    except RalphError as error:
        base = verifiers.repository.tree_of(case.base)
        if case.tree == base:
            raise
        told = f"the unfinished work at {case.task.id} is nothing to go on from: {error}"
        worker.report(Notice("warning", told))
        worker.prepare(case.base, base)
        return replace(case, tree=base)
    return case


def _execute(assignment: Assignment, worker: Worker, verifiers: Verifiers) -> AgentResult:
    """Run the agent in its clone; secrets are taken out of everything it gave."""
    cancelled = verifiers.cancelled
    if isinstance(cancelled, Cancellation):
        cancelled = Cancellation(cancelled, worker.stopped)
    place = worker.place
    result = assignment.agent.run(
        Invocation(
            prompt=assignment.prompt,
            workspace=place.inside,
            output_file=assignment.output_file,
            limits=assignment.limits,
            environment=place.environment(assignment.environment),
            cancelled=cancelled,
            report=_with_short_paths(worker, place.inside),
            box=place.box,
        )
    )
    if result.killed_by == "interrupted" and not verifiers.cancelled.is_set():
        result = replaced(result, killed_by="stopped")
    result = worker.roster.completed(result, assignment.executor, assignment.model)
    return cleaned(result, verifiers.redactor.clean_cut)


def _with_short_paths(worker: Worker, root: Path) -> Callable[[AgentActivity], None]:
    """What the agent does is reported with paths that begin at the repository's root."""
    roots = {f"{root}/", f"{root.resolve()}/"}

    def report(activity: AgentActivity) -> None:
        text, detail = activity.text, activity.detail
        for path in roots:
            text, detail = text.replace(path, ""), detail.replace(path, "")
        worker.report(AgentActivity(activity.kind, text, detail))

    return report


def _captured(assignment: Assignment, case: Case, result: AgentResult, worker: Worker, verifiers: Verifiers) -> Outcome:
    """What the agent left, read and saved; read anew where a person's `git gc --prune=now` took some of it before a ref
    named it, as it still stands in the clone then.
    """

    def read(*, anew: bool = False) -> Outcome:
        captured = worker.capture(anew=anew)
        outcome = _kept(assignment, replace(case, tree=captured.tree), result, verifiers)
        for change in outcome.changes:
            if change.after and not change.is_gitlink and objects.find(change.after.oid) is None:
                raise GitError(("cat-file", change.after.oid), 128, f"{change.path} is gone from git's objects")
        for note in captured.notes:
            worker.report(Notice("warning", note))
        return outcome

    objects = verifiers.repository.objects
    try:
        return read()
    except GitError as error:
        if _has_killed_git(error):
            raise
    return read(anew=True)


def _has_killed_git(error: Exception) -> bool:
    """Whether git came to no end with it, within its limit of time."""
    return isinstance(error, GitError) and error.code < 0


def _kept(assignment: Assignment, case: Case, result: AgentResult, verifiers: Verifiers) -> Outcome:
    """The attempt, not judged yet, saved under its ref, whatever the judge will say."""
    repository, name = verifiers.repository, case.task.id
    snapshot = attempts.save_attempt(
        repository,
        attempts.Attempt(
            reference=attempts.attempt_reference(case.project, name, case.iteration),
            tree=case.tree,
            base=case.base,
            prompt=verifiers.redactor.clean(assignment.prompt),
            output_file=assignment.output_file,
            clean=verifiers.redactor.clean_blocks,
            message=f"ralph: attempt {case.attempt} at {name} (iteration {case.iteration})",
        ),
        seconds=assignment.seconds,
    )
    found = changes(repository, case.base, case.tree)
    return Outcome(assignment=assignment, case=case, result=result, snapshot=snapshot, changes=found)


def _sent_back(outcome: Outcome, conflicts: tuple[str, ...]) -> Outcome:
    """The outcome of work that cannot be merged: the next attempt starts from the branch as it is now."""
    names = some(conflicts, 10)
    told = (
        f"Your work held where you did it, but the branch moved meanwhile, and it cannot be merged: {names}. You start "
        f"again from the branch as it is now, where your work is not. It is kept in commit {outcome.snapshot}: read it "
        f"with `git show {outcome.snapshot}`, and do the same again on what is there now."
    )
    verdict = Verdict(
        action="continue",
        hook=MERGE,
        reason=f"cannot be merged with what landed meanwhile: {names}",
        feedback=told,
        counts=False,
        starts_anew=True,
    )
    return replace(outcome.said(verdict), unmerged=True)
