"""What is looked at and run to judge one attempt: diff, files, the stage's criteria, each once for each tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs

from rulebook_ralph.checks.reviewed_change import ReviewedChange
from rulebook_ralph.checks.subject import Subject
from rulebook_ralph.core.criteria import Criteria
from rulebook_ralph.core.diff import FileDiff, Versions
from rulebook_ralph.core.evidence import AgentResult, CheckResult, ParsedIteration, Verified
from rulebook_ralph.core.model import CompletionSummary, Task
from rulebook_ralph.core.review import Review, Tier, together
from rulebook_ralph.loop.checkout import UnusableError
from rulebook_ralph.loop.completion_summary import proven, summarise
from rulebook_ralph.loop.earlier_runs import EarlierRuns
from rulebook_ralph.loop.evidence import Evidence
from rulebook_ralph.loop.own_folders import own_folders
from rulebook_ralph.loop.rules.integrity import Integrity
from rulebook_ralph.loop.rules.promise import promise_given
from rulebook_ralph.loop.rules.review import Reviewed
from rulebook_ralph.loop.rules.test_counts import TestCounts
from rulebook_ralph.workspace.diff import folders_among, links_out, read_diff, read_versions
from rulebook_ralph.workspace.git import GitError
from rulebook_ralph.workspace.snapshot import Change

if TYPE_CHECKING:
    from rulebook_ralph.loop.candidate import Candidate
    from rulebook_ralph.loop.iteration import Assignment, Further, Tools


class Examination:
    """Reads and verifies the candidate's tree, whatever it is by then. `put_back` is for state and git's own files."""

    def __init__(
        self,
        assignment: Assignment,
        tools: Tools,
        candidate: Candidate,
        result: AgentResult,
        parsed: ParsedIteration,
        *,
        put_back: Callable[[], object],
    ) -> None:
        self._assignment = assignment
        self._tools = tools
        self._candidate = candidate
        self._result = result
        self._parsed = parsed
        self._put_back_files = put_back
        self._left = candidate.tree
        self._evidence: Evidence | None = None
        self._diff: tuple[str, tuple[FileDiff, ...]] = ("", ())
        self._verified: tuple[str, Verified] = ("", Verified(passed=False))
        self._reviews: dict[Tier, tuple[str, Review | None]] = {}
        self._summary: tuple[str, CompletionSummary | None] = ("", None)
        self._reworded: ParsedIteration | None = None

    def evidence(self, changes: tuple[Change, ...], *, told: Callable[[], tuple[str, ...]]) -> Evidence:
        """Everything that the pipeline judges by."""
        assignment, clean = self._assignment, self._tools.redactor.clean
        earlier = EarlierRuns(assignment, self._tools, self.put_back)
        self._evidence = Evidence(
            task=assignment.whole,
            stage=assignment.stage,
            attempt=assignment.attempt,
            iteration=assignment.number,
            last_stage=assignment.last_stage,
            implements=assignment.implements,
            criteria=assignment.criteria,
            stop_criteria=assignment.stop_criteria,
            result=self._result,
            parsed=self._parsed,
            changes=changes,
            steps=assignment.steps,
            judging=assignment.judging,
            excused=assignment.excused,
            tests_on_base=assignment.tests_on_base,
            failing_on_base=assignment.failing_on_base,
            protect=assignment.protect,
            integrity=assignment.integrity,
            trust_agent=assignment.trust_agent,
            run_limited=assignment.run_limited,
            has_secret=lambda text: clean(text) != text,
            has_own_secret=self._tools.redactor.holds_value,
            told=told,
            diff=self.diff,
            versions=self.versions,
            folders=self.folders,
            links_out=lambda paths: links_out(self._tools.workspace.repository, self._candidate.tree, paths),
            files=lambda: self._paths("-r", self._assignment.opening.tree),
            own_folders=self._own_folders,
            run_gates=self._candidate.gates,
            run_criteria=self.verify,
            run_gates_with=lambda tests: earlier.gates(self._candidate.tree, tests),
            run_criteria_with=lambda tests: earlier.criteria(self._candidate.tree, tests),
            review=self.review,
            try_commit=self._candidate.commit,
            moved=lambda: self._candidate.tree != self._left,
        )
        return self._evidence

    def diff(self) -> tuple[FileDiff, ...]:
        """What the tree changes, against the base."""
        tree = self._candidate.tree
        if self._diff[0] != tree:
            self._diff = (tree, read_diff(self._tools.workspace.repository, self._assignment.opening.tree, tree))
        return self._diff[1]

    def versions(self, files: Sequence[FileDiff]) -> Mapping[str, Versions]:
        """Those files at the base and in the tree."""
        repository = self._tools.workspace.repository
        return read_versions(repository, self._assignment.opening.tree, self._candidate.tree, files)

    def folders(self, paths: Sequence[str]) -> frozenset[str]:
        """Those of the paths that were folders at the base."""
        return folders_among(self._tools.workspace.repository, self._assignment.opening.tree, paths)

    def _own_folders(self) -> tuple[str, ...]:
        return own_folders(self._tools.workspace.repository, self._paths(self._candidate.tree))

    def _paths(self, *listed: str) -> list[str]:
        listing = self._tools.workspace.repository.git.text("ls-tree", "--name-only", "-z", "--full-tree", *listed)
        return [path for path in listing.split("\0") if path]

    def verify(self) -> Verified:
        """What the stage's criteria say of the tree, of several tasks those of each. Raises Cancelled."""
        from rulebook_ralph.checks.verification import together, verify  # noqa: PLC0415 - not every attempt comes so far

        tree = self._candidate.tree
        if self._verified[0] != tree:
            assignment, results = self._assignment, self._tools.results
            try:
                subject = self._subject(assignment.task, assignment.criteria)
                own = verify(assignment.criteria, subject, cache=results, name=assignment.name)
                further = assignment.further if own.passed or assignment.others else ()
                others = [
                    verify(each.criteria, self._subject_of(each), cache=results, name=each.name) for each in further
                ]
                verified = together(own, others)
                if assignment.others:  # that one task is proven shows nothing of another
                    verified = structs.replace(verified, proven=all(each.proven for each in (own, *others)))
                self._verified = (tree, verified)
            except UnusableError as error:
                self._verified = (tree, _unverified(error.result))
        return self._verified[1]

    def review(self, tier: Tier) -> Review | None:
        """What the reviewer of that tier says of the tree; None where that tier is off. Raises Cancelled."""
        tree, task = self._candidate.tree, self._assignment.whole
        if tier not in self._reviews or self._reviews[tier][0] != tree:
            change = ReviewedChange(
                title=task.title,
                files=self.diff(),
                versions=self.versions,
                description=task.description,
                acceptance_criteria=task.acceptance_criteria,
            )
            self._reviews[tier] = (tree, reviewed := self._tools.review(task, tier, change))
            if reviewed is not None and any(look.questions for look in reviewed.looks):
                self.put_back()  # an agent that reviews has tools of its own
        return self._reviews[tier][1]

    @property
    def reviewed(self) -> Review | None:
        """All that reviewers said of the tree; None where none looked."""
        tree = self._candidate.tree
        return together([review for of, review in self._reviews.values() if review is not None and of == tree])

    def objection(self, *, review: bool = True) -> str | None:
        """Why the tree as it stands now may not be committed, its gates aside. Raises Cancelled."""
        objection = self._objection_of(Integrity()) or self._objection_of(TestCounts())
        if objection is not None:
            return objection
        verified = self.verify()
        if not verified.passed:
            return verified.reason
        return self._objection_of(Reviewed()) if review else None

    def _objection_of(self, rule: Integrity | TestCounts | Reviewed) -> str | None:
        if self._evidence is None or not rule.should_run(self._evidence):
            return None
        verdict = rule.run(self._evidence)
        return verdict.reason if verdict.action != "skip" else None

    def summary(self, checks: Sequence[CheckResult]) -> CompletionSummary | None:
        """What the work brings about, once it is judged to be complete; None where git cannot tell."""
        found = self._summarised()
        return None if found is None else proven(found, checks)

    def words(self) -> str:
        """What the commit says of the work: what the task keeps, less what git denies."""
        if self.keeps_words:
            return self._assignment.task.summary
        found = self._summarised()
        return "" if found is None else found.summary

    def _summarised(self) -> CompletionSummary | None:
        tree = self._candidate.tree
        if self._summary[0] != tree:
            try:
                self._summary = (tree, summarise(self._worded(), self.diff(), (), self.versions))
            except GitError:
                self._summary = (tree, None)
        return self._summary[1]

    @property
    def keeps_words(self) -> bool:
        """Whether those of an earlier stage are what the task keeps."""
        return self._assignment.stage != "coder" and bool(self._assignment.task.summary)

    def _worded(self) -> ParsedIteration:
        """The claims; with the summary of a model, which is asked once, if one is configured and its words are kept."""
        if self._reworded is None:
            summarizer, task, said = self._tools.summarizer, self._assignment.whole, self._result.final_text
            self._reworded = (
                self._parsed if self.keeps_words else summarizer.reworded(self._parsed, task, said, self.diff())
            )
        return self._reworded

    def put_back(self) -> None:
        """Undo what a check or a hook changed: git's own files, the state folder, and the tree."""
        self._put_back_files()
        workspace, opening = self._tools.workspace, self._assignment.opening
        tree = self._candidate.standing
        now = workspace.recapture(opening, tree)
        if now != tree:
            workspace.restore(replace(opening, commit=tree, tree=tree), now)

    def _subject(self, task: Task, criteria: Criteria) -> Subject:
        assignment, tools = self._assignment, self._tools
        runs_commands = criteria.may_run_commands
        standing = tools.stand(self._candidate.tree) if runs_commands else None

        def put_back() -> None:
            self.put_back()
            if runs_commands:
                tools.stand(self._candidate.tree)

        return Subject(
            root=standing.root if standing else tools.workspace.repository.root,
            stage=assignment.stage,
            promise=assignment.criteria.promise,
            promises=self._promises(),
            final_message=self._result.final_text,
            commit_messages=self._parsed.commit_messages,
            title=task.title,
            description=criteria.description or task.description,
            acceptance_criteria=task.acceptance_criteria,
            diff=self.diff,
            relevant_files=partial(self._relevant_files, task),
            tree=lambda: self._candidate.tree,
            put_back=put_back,
            environment=standing.environment if standing else {},
            clean=tools.redactor.clean,
            cancelled=tools.cancelled,
            ask=tools.ask,
            no_model=tools.no_model,
        )

    def _subject_of(self, further: Further) -> Subject:
        """For another task, whose promise is the same; or for a stage that was verified before: its was given then."""
        subject = self._subject(further.task, further.criteria)
        if further.stage == self._assignment.stage:
            return subject
        promise = further.criteria.promise
        return replace(subject, stage=further.stage, promise=promise, promises=(*self._parsed.promises, promise))

    def _promises(self) -> tuple[str, ...]:
        """The promises that were given; the stage's own too where none is asked for, or another text stands for it."""
        asked = self._assignment.stop_criteria.require_promise
        if asked and not (self._evidence and promise_given(self._evidence)):
            return self._parsed.promises
        return (*self._parsed.promises, self._assignment.criteria.promise)

    def _relevant_files(self, task: Task) -> Mapping[str, str]:
        files = [FileDiff(kind="M", path=path, old_path=path) for path in task.relevant_files]
        found = self.versions(files)
        return {path: versions.after for path, versions in found.items() if versions.after is not None}


def _unverified(result: CheckResult) -> Verified:
    told = f"{result.step} ({result.reason})"
    feedback = f"The criteria could not be verified: {told}"
    return Verified(passed=False, reason=told, feedback=feedback, results=(result,))
