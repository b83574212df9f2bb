"""One pass over one task: execute, parse, judge. It works in its workspace alone and touches no state.

The manager opens it (an `Assignment` of values) and settles what it gave (an `Outcome`).
"""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event

from msgspec.structs import replace

from rulebook_ralph.agents.agent import Agent, AgentLimits
from rulebook_ralph.agents.agent import Assignment as AgentAssignment
from rulebook_ralph.checks.reviewed_change import ReviewedChange
from rulebook_ralph.checks.shell import Cancelled, ResultCache
from rulebook_ralph.checks.subject import Ask
from rulebook_ralph.core import events, parser
from rulebook_ralph.core.criteria import Criteria
from rulebook_ralph.core.enumeration import some
from rulebook_ralph.core.evidence import AgentResult, CheckResult, ParsedIteration, Verdict
from rulebook_ralph.core.group import as_one
from rulebook_ralph.core.model import CompletionSummary, Stage, Task
from rulebook_ralph.core.redaction import Redactor, cleaned
from rulebook_ralph.core.review import Review, Tier
from rulebook_ralph.core.settings import Integrity, StopCriteria, VerificationStep
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop import departure
from rulebook_ralph.loop.candidate import Candidate
from rulebook_ralph.loop.checkout import Standing
from rulebook_ralph.loop.evidence import Gates, Judgement
from rulebook_ralph.loop.examination import Examination
from rulebook_ralph.loop.pipeline import CompletionHook, judge
from rulebook_ralph.loop.summarizer import Summarizer
from rulebook_ralph.workspace import commits, guard
from rulebook_ralph.workspace.activity import newest_change
from rulebook_ralph.workspace.snapshot import Change, Opening, Workspace
from rulebook_ralph.workspace.snapshot_refs import snapshot_reference

INTERRUPTED = Verdict(action="stop", reason="interrupted", stop_reason="interrupted", counts=False)
Report = Callable[[events.Event], None]
RunGates = Callable[[str], tuple[CheckResult, ...]]


@dataclass(frozen=True, slots=True)
class Further:
    """Criteria that must hold for the same tree as those of the assignment's stage: of an earlier stage, or of another
    of its tasks. Their checks are known by `name`.
    """

    name: str
    task: Task
    stage: Stage
    criteria: Criteria


@dataclass(frozen=True, slots=True)
class Assignment:
    """Everything one pass needs to know, as values. `name` is that of the stage's checks, `others` are the tasks that
    are worked on with `task` (core/group.py).
    """

    project: str
    number: int
    task: Task
    stage: Stage
    attempt: int
    last_stage: bool
    implements: bool
    name: str
    criteria: Criteria
    further: tuple[Further, ...]
    stop_criteria: StopCriteria
    prompt: str
    opening: Opening
    steps: tuple[VerificationStep, ...]
    judging: tuple[VerificationStep, ...]
    excused: frozenset[str]
    tests_on_base: Mapping[str, int]
    failing_on_base: Mapping[str, int]
    protect: tuple[str, ...]
    integrity: Integrity
    trust_agent: bool
    run_limited: bool
    limits: AgentLimits
    environment: Mapping[str, str]
    output_file: Path
    seconds: int
    others: tuple[Task, ...] = ()

    @property
    def tasks(self) -> tuple[Task, ...]:
        return (self.task, *self.others)

    @property
    def whole(self) -> Task:
        """What all of its tasks ask for, as if it were one."""
        return as_one(self.tasks)


@dataclass(frozen=True, slots=True)
class Tools:
    """What one pass works with: the agent, its workspace, and the ways out of it. `to_be_done` are the PRD's tasks that
    are not completed by now.
    """

    agent: Agent
    priced: Callable[[AgentResult], AgentResult]
    workspace: Workspace
    who: commits.Identity
    hooks: Callable[[Callable[[], None]], tuple[CompletionHook, ...]]
    run_gates: RunGates
    tree_after_gates: Callable[[str], str]
    stand: Callable[[str], Standing]
    results: ResultCache
    ask: Ask | None
    no_model: str
    review: Callable[[Task, Tier, ReviewedChange], Review | None]
    summarizer: Summarizer
    run_commit_hooks: Callable[[str], str | None] | None
    guarded: guard.Guard
    to_be_done: Callable[[], Iterable[Task]]
    own_commits: Callable[[], tuple[str, ...]]
    saved_state: Callable[[], Mapping[str, str]]
    restore_state: Callable[[], tuple[str, ...]]
    keep_aside: Callable[[Mapping[str, bytes | None]], Path]
    redactor: Redactor
    sign: bool
    cancelled: Event
    report: Report
    restored: guard.Restored = guard.NOTHING
    """What was put back already after the agent worked."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one pass gave. `tree` is the tree that was judged, with the task's box ticked where the verdict completes;
    `commit` the candidate, where it does; `work` is the tree without that tick.
    """

    result: AgentResult
    parsed: ParsedIteration
    changes: tuple[Change, ...]
    tree: str
    work: str
    snapshot: str
    verdict: Verdict
    checks: tuple[CheckResult, ...]
    commit: str | None
    review: Review | None = None
    log: tuple[str, ...] = ()
    summary: CompletionSummary | None = None


def attempt(assignment: Assignment, tools: Tools) -> Outcome:
    """Let the agent work, put back what it must not touch, save what it made, and judge it."""
    workspace, opening = tools.workspace, assignment.opening

    result = _execute(assignment, tools)

    told = Told(tools)
    gone_to = departure.gone_to(workspace.repository, assignment.number, opening.commit)
    tips = (*tools.own_commits(), *told.tell("You", tools.restored), *told.put_back("You"))
    tree = workspace.capture(opening)
    with ThreadPoolExecutor(1) as saver:  # the snapshot is written while the gates run
        saved = saver.submit(_save, assignment, tools, tree, tips)
        told.snapshot = lambda: {_reference(assignment): saved.result()}
        if departure.shows_other_commit(workspace, gone_to, opening, tree):
            told.tell_departed(saved.result())
            workspace.restore(opening, tree)
            tree = opening.tree
        return _judged(assignment, tools, told, result=result, tree=tree, saved=saved)


def _judged(
    assignment: Assignment, tools: Tools, told: "Told", *, result: AgentResult, tree: str, saved: Future[str]
) -> Outcome:
    """The outcome of an attempt that left that tree; `saved` gives its snapshot."""
    workspace = tools.workspace
    base = departure.Anchor(workspace, assignment.opening, assignment.number)

    def put_back() -> None:
        gone_to = base.note()
        tips = told.put_back("A gate or commit hook")
        if kept := base.bring_back(gone_to, candidate.tree, tips):
            told.tell_left_by_gate(kept)

    changes = workspace.changes(assignment.opening.tree, tree)
    parsed = cleaned(parser.parse(result), tools.redactor.clean_cut)  # its report's JSON is read only now
    candidate = Candidate(assignment, tools, tree, put_back=put_back)
    examination = Examination(
        assignment, tools, candidate, result, parsed, put_back=lambda: told.put_back("A check or completion hook")
    )
    candidate.objection, candidate.words = examination.objection, examination.words
    evidence = examination.evidence(changes, told=lambda: tuple(told.facts))
    try:
        judgement = judge(evidence, tools.hooks(examination.put_back), report=tools.report)
    except Cancelled:
        put_back()  # of what was ended nobody else does
        judgement = Judgement(INTERRUPTED, Gates())
    completes = judgement.verdict.action == "complete"
    if not completes:
        candidate.untick()
    checks = (*judgement.gates.results, *judgement.checks)
    return Outcome(
        result=result,
        parsed=parsed,
        changes=workspace.changes(assignment.opening.tree, candidate.standing),
        tree=candidate.standing,
        work=candidate.tree,
        snapshot=saved.result(),
        verdict=judgement.verdict,
        checks=checks,
        commit=candidate.made if completes else None,
        review=examination.reviewed,
        log=judgement.log,
        summary=examination.summary(checks) if completes else None,
    )


def _execute(assignment: Assignment, tools: Tools) -> AgentResult:
    """Run the agent; secrets are taken out of everything it gave."""
    raw = tools.agent.run(
        AgentAssignment(
            prompt=assignment.prompt,
            workspace=tools.workspace.repository.root,
            output_file=assignment.output_file,
            limits=assignment.limits,
            environment=dict(assignment.environment),
            cancelled=tools.cancelled,
            report=tools.report,
            last_change=partial(newest_change, tools.workspace.repository),
        )
    )
    return redacted(tools.priced(raw), tools.redactor)


def redacted(result: AgentResult, redactor: Redactor) -> AgentResult:
    """The result with every secret replaced in everything the agent wrote."""
    clean = redactor.clean_cut
    return replace(
        result,
        final_text=clean(result.final_text),
        output=clean(result.output),
        session_id=clean(result.session_id),
        permission_denials=tuple(map(clean, result.permission_denials)),
        fault=replace(result.fault, message=clean(result.fault.message)) if result.fault else None,
        tool_results=tuple(
            replace(tool, name=clean(tool.name), command=clean(tool.command), output=clean(tool.output))
            for tool in result.tool_results
        ),
    )


class Told:
    """Puts back what nobody but Ralph and a person may change, and keeps what the agent must be told of it."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self.facts: list[str] = []
        self.snapshot: Callable[[], Mapping[str, str]] = dict
        """The attempt's own: its ref and commit."""

    def put_back(self, who: str) -> tuple[str, ...]:
        """After the agent, and after whatever code of its runs in gates; returns the commits it made refs point to.

        Raises RalphError where the project's whole folder is gone: what is put back would stand in the way of it.
        """
        root = self._tools.guarded.repository.root
        if not root.is_dir():
            raise RalphError(f"{root} went away while an agent, gate or check ran; put it back, then: ralph resume")
        own = {**self._tools.saved_state(), **self.snapshot()}
        tips = self.tell(who, self._tools.guarded.restore(own=own))
        self.facts.extend(self._tools.restore_state())
        return tips

    def tell_departed(self, snapshot: str) -> None:
        """Another commit was checked out, and what stands there cannot be told from the agent's work."""
        told = "another commit than the base was left checked out, so the tree goes back to the base"
        self._tools.report(events.Notice("warning", f"{told} (what stood there is kept in commit {snapshot[:10]})"))
        self.facts.append(
            "You left another commit checked out than the one that your work is measured against, so the tree was put "
            f"back to the base. What stood there is kept in commit {snapshot}: read it with `git show`, take what is "
            "yours, and stay on the branch."
        )

    def tell_left_by_gate(self, kept: str) -> None:
        """The same of gates and hooks, or of a person while they ran; `kept` is the ref of what stood there."""
        told = "another commit was checked out while a gate or commit hook ran, so the tree goes back to what is judged"
        self._tools.report(events.Notice("warning", f"{told} (what stood there is kept: git show {kept})"))

    def tell(self, who: str, restored: guard.Restored) -> tuple[str, ...]:
        """The same for what is put back already, of git's own files and those outside; what stood there is kept."""
        if restored.others:
            names, where = some(list(restored.others), 10), self._keep_aside("git", restored.others)
            told = f"changed in the git folder meanwhile, and put back: {names} (what stood there: {where})"
            self._tools.report(events.Notice("warning", told))
            self.facts.append(f"{who} changed git's own files ({names}); they were put back. Only the tree counts.")
        if restored.lost:
            told = f"gone from git for good, with what was saved there: {some(list(restored.lost), 10)}"
            self._tools.report(events.Notice("warning", told))
        if restored.outside:
            names, where = some(list(restored.outside), 10), self._keep_aside("outside", restored.outside)
            worked = "the agent worked" if who == "You" else f"{who[0].lower()}{who[1:]} ran"
            told = f"changed while {worked}, and put back: {names} (what stood there: {where})"
            self._tools.report(events.Notice("warning", told))
            self.facts.append(f"{who} changed {names}, by which the work is judged; it was put back. Leave it alone.")
        return restored.new_tips

    def _keep_aside(self, folder: str, others: Mapping[str, bytes | None]) -> Path:
        return self._tools.keep_aside({f"{folder}/{name.lstrip('/')}": content for name, content in others.items()})


def _reference(assignment: Assignment) -> str:
    return snapshot_reference(assignment.project, assignment.task.id, assignment.number)


def _save(assignment: Assignment, tools: Tools, tree: str, tips: tuple[str, ...]) -> str:
    task_id, number = assignment.task.id, assignment.number
    snapshot = commits.Snapshot(
        reference=_reference(assignment),
        tree=tree,
        base=assignment.opening.commit,
        prompt=tools.redactor.clean(assignment.prompt),
        output_file=assignment.output_file,
        clean=tools.redactor.clean_blocks,
        message=f"ralph: attempt {assignment.attempt} at {task_id} (iteration {number})",
        kept_tips=tips,
    )
    return commits.save_snapshot(tools.workspace.repository, tools.who, snapshot, seconds=assignment.seconds)
