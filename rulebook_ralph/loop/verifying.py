"""`ralph verify`: the gates and the criteria of tasks on the tree as it stands, with no agent.

Nothing is put back and nothing is written: what a command changes in the tree is the person's, as if they had run it.
Files that git does not know yet belong to the tree. No agent speaks here, so its promise is not in question.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Event

from msgspec.structs import replace

from rulebook_ralph.checks import verification
from rulebook_ralph.checks.shell import ResultCache
from rulebook_ralph.checks.subject import Ask, Subject
from rulebook_ralph.core import events, requirements
from rulebook_ralph.core.criteria import Criteria, MultiStage, Semantic, StringMatch, Verification
from rulebook_ralph.core.criteria_reading import part_verification
from rulebook_ralph.core.diff import FileDiff
from rulebook_ralph.core.evidence import CheckResult, Verified
from rulebook_ralph.core.model import Stage, Task
from rulebook_ralph.loop.checkout import UnusableError
from rulebook_ralph.loop.gate_runner import GateRunner
from rulebook_ralph.loop.project import Project
from rulebook_ralph.workspace.diff import read_diff, read_versions
from rulebook_ralph.workspace.git import GitError
from rulebook_ralph.workspace.snapshot import Opening
from rulebook_ralph.workspace.standing_tree import standing_tree

_NO_CHANGE = "no change of this task is found, neither uncommitted nor in the history that is here"


@dataclass(frozen=True, slots=True)
class StageVerdict:
    """What the criteria of one stage of a task say. `left_out` says why they were not verified, if they were not."""

    task_id: str
    stage: Stage
    verified: Verified
    left_out: str = ""

    @property
    def failed(self) -> bool:
        return not self.left_out and not self.verified.passed


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that was verified. `passed`: no required gate and no criterion fails, and something passed."""

    gates: tuple[CheckResult, ...]
    stages: tuple[StageVerdict, ...]

    @property
    def passed(self) -> bool:
        gates_hold = all(result.passed or not result.required for result in self.gates)
        something = any(result.passed for result in self.gates) or not all(stage.left_out for stage in self.stages)
        return gates_hold and not any(stage.failed for stage in self.stages) and something

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all was run."""
        return not self.gates and all(stage.left_out for stage in self.stages)


@dataclass(frozen=True, slots=True)
class _AtHand:
    """The tree that is verified, in what gates run, and what commands said of it."""

    opening: Opening
    tree: str
    runner: GateRunner
    cache: ResultCache


@dataclass(frozen=True, slots=True)
class Verifier:
    """What verifying needs. `ask` is the model that judges, None where there is none (`no_model` says why)."""

    project: Project
    clean: Callable[[str], str]
    cancelled: Event
    ask: Ask | None
    no_model: str
    gate_ended: Callable[[CheckResult], None]
    notice: Callable[[events.Notice], None]

    def verify(self, tasks: Sequence[Task], *, with_models: bool) -> Report:
        """Run the gates, then the criteria of each stage of those tasks. Raises checks.shell.Cancelled, RalphError.

        Without `with_models` criteria that a model would judge are left out.
        """
        runner = GateRunner.of(self.project, self.clean, self.cancelled, self._tell)
        in_checkout = runner.checkout is not None
        opening, tree = standing_tree(
            self.project.repository, with_new_files=in_checkout or any(map(self._looks_at_the_change, tasks))
        )
        cache = ResultCache()
        try:
            gates = runner.run(opening, to_the_end=True, tree=tree, cache=cache)
            stages = [
                self._stage(task, stage, _AtHand(opening, tree, runner, cache), with_models=with_models)
                for task in tasks
                for stage in requirements.stages_of(self.project.config, task)
            ]
        finally:
            runner.close()
        return Report(gates, tuple(stages))

    def _tell(self, event: events.Event) -> None:
        if isinstance(event, events.GateEnded):
            self.gate_ended(event.result)
        elif isinstance(event, events.Notice):
            self.notice(event)

    def _looks_at_the_change(self, task: Task) -> bool:
        """Whether a criterion of the task looks at what was changed; commands see the tree itself."""
        config = self.project.config
        stages = requirements.stages_of(config, task)
        verifications = (requirements.criteria_for(config, task, stage).verification for stage in stages)
        return any(isinstance(part, Semantic) for each in verifications for part in _parts(each))

    def _stage(self, task: Task, stage: Stage, at: _AtHand, *, with_models: bool) -> StageVerdict:
        criteria = requirements.criteria_for(self.project.config, task, stage)
        parts = list(_parts(criteria.verification))
        if all(isinstance(part, StringMatch) for part in parts):
            return StageVerdict(task.id, stage, _NOTHING, "only an agent's promise is asked for")
        looks = [part for part in parts if isinstance(part, Semantic)]
        if any(part.check_for for part in looks) and not with_models:
            return StageVerdict(task.id, stage, _NOTHING, f"a model judges it; run: ralph verify {task.id}")
        work = functools.cache(lambda: self._work(task, at.opening.tree, at.tree))
        try:
            subject = self._subject(task, stage, criteria, work, at)
            verified = verification.verify(criteria, subject, cache=at.cache, semantic_check=_judged_or_failed)
        except UnusableError as error:
            return StageVerdict(task.id, stage, Verified(passed=False, reason=str(error), results=(error.result,)))
        if not looks or not verified.passed or subject.diff():
            return StageVerdict(task.id, stage, verified)
        if not verified.proven:
            return StageVerdict(task.id, stage, _NOTHING, _NO_CHANGE)
        return StageVerdict(task.id, stage, replace(verified, warnings=(*verified.warnings, _NO_CHANGE)))

    def _work(self, task: Task, head: str, tree: str) -> tuple[FileDiff, ...]:
        """The task's change as it stands: of the files of its commit, where it is done; else what is not committed."""
        repository = self.project.repository
        done = task.status == "completed" or head == tree
        made = repository.commit_with_trailer("Ralph-Task", task.id) if done else None
        if made is None:
            return () if done else read_diff(repository, head, tree)
        try:
            before, after = repository.tree_of(f"{made}^"), repository.tree_of(made)
        except GitError:  # a shallow clone ends there
            return ()
        paths = {file.path for file in read_diff(repository, before, after)}
        return tuple(file for file in read_diff(repository, before, tree) if file.path in paths)

    def _subject(
        self, task: Task, stage: Stage, criteria: Criteria, diff: Callable[[], tuple[FileDiff, ...]], at: _AtHand
    ) -> Subject:
        repository, tree = self.project.repository, at.tree
        place = at.runner.stand(at.opening, tree) if criteria.may_run_commands else None

        def relevant_files() -> Mapping[str, str]:
            files = [FileDiff(kind="M", path=path, old_path=path) for path in task.relevant_files]
            found = read_versions(repository, tree, tree, files)
            return {path: versions.after for path, versions in found.items() if versions.after is not None}

        return Subject(
            root=place.root if place else repository.root,
            stage=stage,
            promise=criteria.promise,
            promises=(criteria.promise,),  # no agent speaks here: its promise is not in question
            final_message="",
            commit_messages=(),
            title=task.title,
            description=criteria.description or task.description,
            acceptance_criteria=task.acceptance_criteria,
            diff=diff,
            relevant_files=relevant_files,
            tree=lambda: tree,
            put_back=lambda: at.runner.stand(at.opening, tree) if place else None,
            environment=place.environment if place else {},
            clean=self.clean,
            cancelled=self.cancelled,
            ask=self.ask,
            no_model=self.no_model,
        )


_NOTHING = Verified(passed=True)


def _parts(verification: Verification) -> Iterator[Verification]:
    """The verifications that really run, those of parts included."""
    if isinstance(verification, MultiStage):
        for part in verification.stages:
            yield from _parts(part_verification(part))
    else:
        yield verification


def _judged_or_failed(semantic: Semantic, subject: Subject, *, step: str) -> verification.SemanticAnswer:
    """The built-in check; where no model judged it fails, as there is no promise of an agent to fall back on."""
    from rulebook_ralph.checks.semantic import SemanticResult, check  # noqa: PLC0415 - only where it is asked for

    return SemanticResult(check(semantic, subject, step=step).result)
