"""One attempt at a task: an agent works in a clone, its work is read, kept and judged. No state is touched here.

An attempt is a function of values (`Assignment`) to values (`Outcome`); the worker is only the place where it happens.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec.structs import replace as replaced

from rulebook_ralph.agents.agent import Agent, AgentLimits, Invocation
from rulebook_ralph.config.settings import StopCriteria
from rulebook_ralph.errors import RalphError
from rulebook_ralph.git import attempts
from rulebook_ralph.git.capture import Captured
from rulebook_ralph.git.landing import commit_tree
from rulebook_ralph.git.repository import GitError
from rulebook_ralph.git.trees import Change, changes, merge_trees
from rulebook_ralph.process.cancellation import Cancellation, Either
from rulebook_ralph.report.events import AgentActivity, Notice
from rulebook_ralph.run.messages import commit_message
from rulebook_ralph.run.ticking import with_box_ticked
from rulebook_ralph.run.workers import Worker
from rulebook_ralph.tasks import parser
from rulebook_ralph.tasks.model import Stage, Task
from rulebook_ralph.tasks.results import MERGE, AgentResult, ParsedIteration, Verdict
from rulebook_ralph.tasks.text import some
from rulebook_ralph.verify.case import Case, Judgement, StageCriteria, Verifiers
from rulebook_ralph.verify.judge import MERGED, judge
from rulebook_ralph.verify.redaction import cleaned
from rulebook_ralph.verify.workspace import Cancelled

INTERRUPTED = Verdict(action="stop", reason="interrupted", stop_reason="interrupted", counts=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Everything one attempt needs to know.

    `base` is the commit that the work is measured against and lands on, `tree` what the agent finds: the base's, or
    what attempts before left. `checks_base` is the commit whose check files count as the base's.
    """

    project: str
    number: int
    task: Task
    stage: Stage
    attempt: int
    last_stage: bool
    implements: bool
    criteria: tuple[StageCriteria, ...]
    stop_criteria: StopCriteria
    base: str
    checks_base: str
    tree: str
    prompt: str
    agent: Agent
    executor: str
    model: str
    environment: Mapping[str, str]
    limits: AgentLimits
    run_limited: bool
    output_file: Path
    seconds: int
    sign: bool = False
    approved: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one attempt gave. `tree` is what was judged; `commit` the candidate, made where the task completes;
    `snapshot` keeps the attempt. `unmerged`: it held, but cannot be brought onto the branch as it is by now.
    """

    assignment: Assignment
    result: AgentResult
    parsed: ParsedIteration
    changes: tuple[Change, ...]
    tree: str
    snapshot: str
    judgement: Judgement
    commit: str | None = None
    unmerged: bool = False

    @property
    def verdict(self) -> Verdict:
        return self.judgement.verdict

    @property
    def lands(self) -> bool:
        """Whether a commit is to go onto the branch."""
        return self.commit is not None and self.verdict.action == "complete"


def attempt(assignment: Assignment, worker: Worker, verifiers: Verifiers) -> Outcome:
    """Have the agent work, read what it made, keep it, judge it, and make the commit of what holds."""
    try:
        assignment = _prepared(assignment, worker, verifiers)
    except Cancelled:
        return _not_begun(assignment, verifiers)
    result = _execute(assignment, worker, verifiers)
    parsed = cleaned(parser.parse(result), verifiers.redactor.clean_cut)
    try:
        try:
            captured, snapshot = _captured(assignment, worker, verifiers)
        except GitError as error:
            if error.code < 0:
                raise
            captured, snapshot = _captured(assignment, worker, verifiers, anew=True)
    except (GitError, RalphError) as error:
        if worker.is_there and (not isinstance(error, GitError) or error.code >= 0):
            raise
        return _unreadable(assignment, verifiers, result, parsed, str(error))
    for note in captured.notes:
        worker.report(Notice("warning", note))
    return judged(assignment, captured.tree, worker, verifiers, result=result, parsed=parsed, snapshot=snapshot)


def _captured(
    assignment: Assignment, worker: Worker, verifiers: Verifiers, *, anew: bool = False
) -> tuple[Captured, str]:
    """What the agent left, read and saved. Raises GitError where a person's `git gc --prune=now` took some of it before
    a ref named it: it still stands in the clone then.
    """
    captured = worker.capture(anew=anew)
    snapshot = _keep(assignment, captured.tree, verifiers)
    repository = verifiers.repository
    for change in changes(repository, assignment.base, captured.tree):
        if change.after and not change.is_gitlink and repository.objects.find(change.after.oid) is None:
            raise GitError(("cat-file", change.after.oid), 128, f"{change.path} is gone from git's objects")
    return captured, snapshot


def _unreadable(
    assignment: Assignment, verifiers: Verifiers, result: AgentResult, parsed: ParsedIteration, why: str
) -> Outcome:
    """The outcome of an attempt that left what cannot be read: a file larger than a disk, or no folder at all."""
    told = f"what the agent left could not be read: {why}"
    feedback = f"{told[0].upper()}{told[1:]}. The next attempt begins where this one did. Leave no such files."
    verdict = Verdict(action="continue", hook="agent", reason=told, feedback=feedback)
    tree = verifiers.repository.tree_of(assignment.tree)
    return Outcome(
        assignment=assignment,
        result=result,
        parsed=parsed,
        changes=(),
        tree=tree,
        snapshot=_keep(assignment, tree, verifiers),
        judgement=Judgement(verdict=verdict),
    )


def judged(
    assignment: Assignment,
    tree: str,
    worker: Worker,
    verifiers: Verifiers,
    *,
    result: AgentResult,
    parsed: ParsedIteration,
    snapshot: str,
    merged: bool = False,
) -> Outcome:
    """The outcome of an attempt that left that tree. `merged`: it holds by itself, and only what another base changes
    is judged again.
    """
    repository = verifiers.repository
    verifiers = replace(verifiers, report=worker.report, gates=verifiers.gates.reporting(worker.report))
    outcome = Outcome(
        assignment=assignment,
        result=result,
        parsed=parsed,
        changes=changes(repository, assignment.base, tree),
        tree=tree,
        snapshot=snapshot,
        judgement=Judgement(verdict=INTERRUPTED),
    )
    try:
        with worker.paying(assignment.number):
            case = _case(assignment, tree, result, parsed)
            judgement = judge(case, verifiers, only=MERGED if merged else None)
    except Cancelled:
        return outcome
    outcome = replace(outcome, judgement=judgement)
    if judgement.verdict.action != "complete" or not assignment.last_stage or not outcome.changes:
        return outcome
    return _with_commit(outcome, verifiers)


def on_top_of(tip: str, checks_base: str, outcome: Outcome, worker: Worker, verifiers: Verifiers) -> Outcome:
    """Work that holds, brought onto a branch that moved meanwhile and judged there."""
    assignment = outcome.assignment
    merged = merge_trees(verifiers.repository, assignment.base, tip, outcome.tree)
    moved = replace(assignment, base=tip, checks_base=checks_base)
    if merged.tree is None:
        return _sent_back(replace(outcome, assignment=moved), merged.conflicts)
    again = judged(
        moved,
        merged.tree,
        worker,
        verifiers,
        result=outcome.result,
        parsed=outcome.parsed,
        snapshot=outcome.snapshot,
        merged=True,
    )
    kept = outcome.judgement
    joined = replace(
        again.judgement,
        changed_checks=kept.changed_checks,
        evidence=again.judgement.evidence or kept.evidence,
        review=kept.review,
        log=(*kept.log, *again.judgement.log),
    )
    if joined.verdict.action != "continue":  # it holds, or nobody can say
        return replace(again, judgement=joined)
    told = (
        "Your work held where you did it, but it does not together with what landed on the branch meanwhile. Both "
        f"stand in the tree now. Make them work together, and leave what the others did.\n\n{joined.verdict.feedback}"
    )
    reason = f"does not hold on top of what landed meanwhile: {joined.verdict.reason}"
    verdict = Verdict(action="continue", hook=MERGE, reason=reason, feedback=told, counts=False)
    return replace(again, judgement=replace(joined, verdict=verdict), commit=None, unmerged=True)


def _prepared(assignment: Assignment, worker: Worker, verifiers: Verifiers) -> Assignment:
    """The assignment, its tree standing in the clone: the base's where what was left cannot be set up, as an agent may
    have broken what its dependencies are read from. Raises RalphError where the base cannot be set up either.
    """
    try:
        worker.prepare(assignment.base, assignment.tree)
    except RalphError as error:
        tree_of = verifiers.repository.tree_of
        if tree_of(assignment.tree) == tree_of(assignment.base):
            raise
        told = f"the unfinished work at {assignment.task.id} is nothing to go on from: {error}"
        worker.report(Notice("warning", told))
        worker.prepare(assignment.base, assignment.base)
        return replace(assignment, tree=assignment.base)
    return assignment


def _not_begun(assignment: Assignment, verifiers: Verifiers) -> Outcome:
    """The outcome of an attempt whose run was ended while the clone was set up."""
    tree = verifiers.repository.tree_of(assignment.tree)
    return Outcome(
        assignment=assignment,
        result=AgentResult(agent=assignment.agent.name, status="killed", killed_by="interrupted"),
        parsed=ParsedIteration(),
        changes=changes(verifiers.repository, assignment.base, tree),
        tree=tree,
        snapshot=_keep(assignment, tree, verifiers),
        judgement=Judgement(verdict=INTERRUPTED),
    )


def _execute(assignment: Assignment, worker: Worker, verifiers: Verifiers) -> AgentResult:
    """Run the agent in its clone; secrets are taken out of everything it gave."""
    cancelled = verifiers.cancelled
    if isinstance(cancelled, Cancellation):
        cancelled = Either(cancelled, worker.stopped)
    result = assignment.agent.run(
        Invocation(
            prompt=assignment.prompt,
            workspace=worker.root,
            output_file=assignment.output_file,
            limits=assignment.limits,
            environment=worker.environment(assignment.environment),
            cancelled=cancelled,
            report=_with_short_paths(worker),
            box=worker.box,
        )
    )
    if result.killed_by == "interrupted" and not verifiers.cancelled.is_set():
        result = replaced(result, killed_by="stopped")
    return cleaned(worker.priced(result, assignment.executor, assignment.model), verifiers.redactor.clean_cut)


def _with_short_paths(worker: Worker) -> Callable[[AgentActivity], None]:
    """What the agent does is reported with paths that begin at the repository's root."""
    roots = {f"{worker.root}/", f"{worker.root.resolve()}/"}

    def report(activity: AgentActivity) -> None:
        text, detail = activity.text, activity.detail
        for root in roots:
            text, detail = text.replace(root, ""), detail.replace(root, "")
        worker.report(AgentActivity(activity.kind, text, detail))

    return report


def _keep(assignment: Assignment, tree: str, verifiers: Verifiers) -> str:
    """Save the attempt under its ref, whatever the judge will say; returns the commit."""
    return attempts.save_attempt(
        verifiers.repository,
        attempts.Attempt(
            reference=attempts.attempt_reference(assignment.project, assignment.task.id, assignment.number),
            tree=tree,
            base=assignment.base,
            prompt=verifiers.redactor.clean(assignment.prompt),
            output_file=assignment.output_file,
            clean=verifiers.redactor.clean_blocks,
            message=f"ralph: attempt {assignment.attempt} at {assignment.task.id} (iteration {assignment.number})",
        ),
        seconds=assignment.seconds,
    )


def _case(assignment: Assignment, tree: str, result: AgentResult, parsed: ParsedIteration) -> Case:
    return Case(
        project=assignment.project,
        task=assignment.task,
        stage=assignment.stage,
        attempt=assignment.attempt,
        iteration=assignment.number,
        last_stage=assignment.last_stage,
        implements=assignment.implements,
        criteria=assignment.criteria,
        stop_criteria=assignment.stop_criteria,
        base=assignment.base,
        checks_base=assignment.checks_base,
        started_from=assignment.tree,
        tree=tree,
        result=result,
        parsed=parsed,
        run_limited=assignment.run_limited,
        approved=assignment.approved,
    )


def _with_commit(outcome: Outcome, verifiers: Verifiers) -> Outcome:
    """The outcome with its commit: the judged tree, its task's box ticked."""
    assignment, judgement = outcome.assignment, outcome.judgement
    tree = with_box_ticked(
        verifiers.repository,
        outcome.tree,
        assignment.task,
        tell=lambda text: verifiers.report(Notice("info", text)),
    )
    message = commit_message(assignment, outcome.parsed.summary, judgement)
    try:
        commit = commit_tree(verifiers.repository, tree, (assignment.base,), message, sign=assignment.sign)
    except GitError as error:
        told = f"the commit could not be made: {error.stderr.strip() or error}"
        verdict = Verdict(action="stop", hook="commit", reason=told, stop_reason="error", counts=False)
        return replace(outcome, judgement=replace(judgement, verdict=verdict))
    for ticked in (tree, commit):  # no gate looks at the box, so nothing is run again on it
        verifiers.gates.known_as(outcome.tree, ticked)
    return replace(outcome, tree=tree, commit=commit)


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
    judgement = replace(outcome.judgement, verdict=verdict)
    return replace(outcome, judgement=judgement, commit=None, unmerged=True)


def given_up(judgement: Judgement, reason: str) -> Judgement:
    """The judgement of an attempt whose agent failed too often at the task: a person has to look at it."""
    verdict = Verdict(action="stop", hook="agent", reason=reason, stop_reason="blocked", counts=False)
    return replace(judgement, verdict=verdict)
