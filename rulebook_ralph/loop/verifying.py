"""`ralph verify`: the gates and the criteria of tasks on the tree as it stands, with no agent.

Nothing is put back and nothing is written: what a command changes in the tree is the person's, as if they had run it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Event

from rulebook_ralph.checks import verification
from rulebook_ralph.checks.gates import run_steps
from rulebook_ralph.checks.shell import ResultCache
from rulebook_ralph.checks.subject import Ask, Subject
from rulebook_ralph.core import requirements
from rulebook_ralph.core.criteria import (
    Criteria,
    External,
    MultiStage,
    Semantic,
    StringMatch,
    Verification,
    part_verification,
)
from rulebook_ralph.core.diff import FileDiff
from rulebook_ralph.core.evidence import CheckResult, Verified
from rulebook_ralph.core.model import Stage, Task
from rulebook_ralph.loop.project import Project
from rulebook_ralph.workspace.diff import read_diff, read_versions
from rulebook_ralph.workspace.snapshot import Workspace

INDEX = "verify-index"


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
    """Everything that was verified. `passed`: no required gate and no criterion fails, and something was run."""

    gates: tuple[CheckResult, ...]
    stages: tuple[StageVerdict, ...]

    @property
    def passed(self) -> bool:
        gates_hold = all(result.passed or not result.required for result in self.gates)
        return gates_hold and not any(stage.failed for stage in self.stages) and not self.is_empty

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all was run."""
        return not self.gates and all(stage.left_out for stage in self.stages)


@dataclass(frozen=True, slots=True)
class Verifier:
    """What verifying needs. `ask` is the model that judges, None where there is none (`no_model` says why)."""

    project: Project
    clean: Callable[[str], str]
    cancelled: Event
    ask: Ask | None
    no_model: str
    gate_ended: Callable[[CheckResult], None]

    def verify(self, tasks: Sequence[Task], *, with_models: bool) -> Report:
        """Run the gates, then the criteria of each stage of those tasks. Raises checks.shell.Cancelled, RalphError.

        Without `with_models` criteria that a model would judge are left out.
        """
        workspace = Workspace(self.project.repository, index=INDEX)
        opening = workspace.open()
        tree = workspace.capture(opening)
        cache = ResultCache()
        settings = self.project.config.verification
        gates = run_steps(
            settings.steps if settings.enabled else (),
            root=self.project.root,
            environment=self.project.environment,
            clean=self.clean,
            cancelled=self.cancelled,
            started=lambda _: None,
            ended=self.gate_ended,
            to_the_end=True,
            tree=tree,
            cache=cache,
        )
        stages = [
            self._stage(task, stage, opening.tree, tree, cache, with_models=with_models)
            for task in tasks
            for stage in requirements.stages_of(self.project.config, task)
        ]
        return Report(gates, tuple(stages))

    def _stage(
        self, task: Task, stage: Stage, head: str, tree: str, cache: ResultCache, *, with_models: bool
    ) -> StageVerdict:
        criteria = requirements.criteria_for(self.project.config, task, stage)
        methods = set(_methods(criteria.verification))
        if methods <= {StringMatch}:
            return StageVerdict(task.id, stage, _NOTHING, "only an agent's promise is asked for")
        if Semantic in methods and not with_models:
            return StageVerdict(task.id, stage, _NOTHING, f"a model judges it; run: ralph verify {task.id}")
        subject = self._subject(task, stage, criteria, self._work(task, head, tree), tree)
        return StageVerdict(task.id, stage, verification.verify(criteria, subject, cache=cache))

    def _work(self, task: Task, head: str, tree: str) -> tuple[str, str]:
        """The trees that the task's change lies between: its commit's, where it has one and nothing is uncommitted."""
        repository = self.project.repository
        made = repository.commit_with_trailer("Ralph-Task", task.id) if head == tree else None
        return (repository.tree_of(f"{made}^"), repository.tree_of(made)) if made else (head, tree)

    def _subject(self, task: Task, stage: Stage, criteria: Criteria, work: tuple[str, str], tree: str) -> Subject:
        repository = self.project.repository
        known: list[tuple[FileDiff, ...]] = []

        def diff() -> tuple[FileDiff, ...]:
            if not known:
                known.append(read_diff(repository, *work))
            return known[0]

        def relevant_files() -> Mapping[str, str]:
            files = [FileDiff(kind="M", path=path, old_path=path) for path in task.relevant_files]
            found = read_versions(repository, tree, tree, files)
            return {path: versions.after for path, versions in found.items() if versions.after is not None}

        return Subject(
            root=self.project.root,
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
            put_back=lambda: None,
            environment=self.project.environment,
            clean=self.clean,
            cancelled=self.cancelled,
            ask=self.ask,
            no_model=self.no_model,
        )


_NOTHING = Verified(passed=True)


def _methods(verification: Verification) -> Iterator[type[Verification]]:
    """The kinds of verification that really run, those of parts included."""
    if isinstance(verification, MultiStage):
        for part in verification.stages:
            yield from _methods(part_verification(part))
    elif not (isinstance(verification, Semantic) and not verification.check_for):
        yield type(verification)
    else:
        yield External  # only texts are looked for, and no model is asked
