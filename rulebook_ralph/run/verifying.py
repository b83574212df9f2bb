"""The user's tree as it stands: what gates and criteria say of it (`ralph verify`), and what there is to review.

Nothing runs in that tree: its content, with files that git does not know yet, becomes a tree that gates look at
in clones of Ralph's own. No agent speaks here, so its promise is not in question.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event as Flag

from msgspec.structs import replace

from rulebook_ralph.agents.roster import Roster
from rulebook_ralph.config import requirements
from rulebook_ralph.errors import RalphError
from rulebook_ralph.git.clone import Clone, Clones
from rulebook_ralph.git.diff import FileDiff, read_diff
from rulebook_ralph.git.repository import Repository, within_state
from rulebook_ralph.git.trees import changes, mix
from rulebook_ralph.report.events import Event
from rulebook_ralph.run.parts import VerifyTools
from rulebook_ralph.run.project import Project
from rulebook_ralph.tasks.criteria import External, MultiStage, Semantic, StringMatch, Verification
from rulebook_ralph.tasks.model import STATE_FOLDER, Stage, Task
from rulebook_ralph.tasks.results import CheckResult, Verified
from rulebook_ralph.verify.case import Case, Examination, StageCriteria, Verifiers
from rulebook_ralph.verify.criteria import verify_one
from rulebook_ralph.verify.evidence import Table
from rulebook_ralph.verify.review import ReviewedChange

_DEFAULT_BRANCHES = (
    "refs/remotes/origin/HEAD",
    "refs/remotes/origin/main",
    "refs/remotes/origin/master",
    "refs/heads/main",
    "refs/heads/master",
)
_INSTALLED = (".venv", "venv", "node_modules")
_MOST_COMMITS = 200
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
class VerifyOutcome:
    """Everything that was verified. `passed`: no required gate and no criterion fails, and something passed."""

    gates: tuple[CheckResult, ...]
    stages: tuple[StageVerdict, ...]

    @property
    def passed(self) -> bool:
        gates_hold = not any(result.failed and result.required for result in self.gates)
        something = any(result.passed for result in self.gates) or not all(stage.left_out for stage in self.stages)
        return gates_hold and something and not any(stage.failed for stage in self.stages)

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all was run."""
        return not self.gates and all(stage.left_out for stage in self.stages)


@contextmanager
def tools(project: Project, *, report: Callable[[Event], None], cancelled: Flag) -> Iterator[VerifyTools]:
    """The means to verify a project's trees where no run goes on; models are asked once."""
    roster = Roster(project.config, project.environment)
    with closing(OwnClones(project.repository, project.cache)) as clones:
        yield VerifyTools(project, roster, clones, report=report, cancelled=cancelled)


class OwnClones(Clones):
    """Beside those of a run that may go on."""

    def open(self, name: str) -> Clone:
        return super().open(f"aside-{name}")


def standing_tree(repository: Repository) -> str:
    """The user's work tree as a tree object, new files too, but neither the state folder nor what package managers
    installed there, ignored or not. The index stays as it is.
    """
    installed = [f":(exclude,glob)**/{name}/**" for name in _INSTALLED]
    with tempfile.TemporaryDirectory(prefix="ralph-") as folder:
        index = Path(folder, "index")
        if (own := repository.git_dir / "index").is_file():
            shutil.copyfile(own, index)
        repository.run("add", "-A", "--", ".", f":(exclude){STATE_FOLDER}", *installed, index=index)
        return repository.text("write-tree", index=index)


def verify(project: Project, verifiers: Verifiers, tasks: Sequence[Task], *, with_models: bool) -> VerifyOutcome:
    """Run the gates on the standing tree, then the criteria of each stage of those tasks. Without `with_models`
    criteria that a model would judge are left out. Raises Cancelled, GitError, RalphError.
    """
    tree = standing_tree(project.repository)
    gates = tuple(run.result for run in verifiers.gates.run(tree))
    stages = [
        _stage(project, verifiers, task, stage, tree, with_models=with_models)
        for task in tasks
        for stage in requirements.stages_of(project.config, task)
    ]
    return VerifyOutcome(gates, tuple(stages))


def _stage(
    project: Project, verifiers: Verifiers, task: Task, stage: Stage, tree: str, *, with_models: bool
) -> StageVerdict:
    config, repository = project.config, project.repository
    criteria = requirements.criteria_for(config, task, stage)
    how = criteria.verification
    if isinstance(how, StringMatch):
        return _left_out(task, stage, "only an agent's promise is asked for")
    asks_a_model = _any(how, lambda each: isinstance(each, Semantic) and bool(each.check_for))
    if asks_a_model and not with_models:
        return _left_out(task, stage, f"a model judges it; run: ralph verify {task.id}")
    change = _change_of(repository, task, tree)
    if change is None and not _any(how, lambda each: isinstance(each, External)):
        return _left_out(task, stage, _NO_CHANGE)
    named = StageCriteria(stage, criteria)
    base, changed = change or (repository.head(), tree)
    case = Case(
        project="",
        task=task,
        stage=stage,
        attempt=1,
        iteration=0,
        last_stage=True,
        implements=True,
        criteria=(named,),
        stop_criteria=requirements.stop_criteria_for(config, task),
        base=base,
        checks_base=base,
        tree=tree,
    )
    verified = verify_one(named, case, _OfTask(case, verifiers.on(base), changed))
    if change is None and verified.passed and _any(how, lambda each: isinstance(each, Semantic)):
        verified = replace(verified, warnings=(*verified.warnings, _NO_CHANGE))
    return StageVerdict(task.id, stage, verified)


def _left_out(task: Task, stage: Stage, why: str) -> StageVerdict:
    return StageVerdict(task.id, stage, Verified(passed=True), why)


class _OfTask(Examination):
    """What a task changed, which may be less than what differs from its base by now."""

    def __init__(self, case: Case, verifiers: Verifiers, changed: str) -> None:
        super().__init__(case, verifiers, Table(case, verifiers))
        self._changed = changed

    def diff(self) -> tuple[FileDiff, ...]:
        return read_diff(self.verifiers.repository, self.case.base, self._changed)


def _change_of(repository: Repository, task: Task, tree: str) -> tuple[str, str] | None:
    """What the task is measured against, and a tree with its own change on that: the files of its commit as they stand
    now, or what is not committed yet; None where there is neither.
    """
    asked = ("log", "-1", "--format=%H", "-F", f"--grep=Ralph-Task: {task.id}", "HEAD", "--")
    commit = repository.text(*asked) if task.status == "completed" else ""
    base = repository.commit_of(f"{commit}^") if commit else None
    if base is not None:
        own = {change.path for change in changes(repository, base, commit)}
        return base, mix(repository, tree, base, lambda path: path not in own)
    head = repository.head()
    return (head, tree) if differ(repository, head, tree) else None


def _any(verification: Verification, holds: Callable[[Verification], bool]) -> bool:
    """Whether it holds for the verification, or for a part of it."""
    if isinstance(verification, MultiStage):
        return any(_any(part.verification, holds) for part in verification.stages)
    return holds(verification)


def standing_change(repository: Repository, base: str = "") -> ReviewedChange:
    """What the tree changes since `base`, or since the default branch was left. Raises RalphError."""
    candidates = (base,) if base else _DEFAULT_BRANCHES
    tip = next((commit for name in candidates if (commit := repository.commit_of(name))), None)
    if tip is None:
        told = f"there is no commit {base!r}" if base else "no default branch is found (origin/HEAD, main, master)"
        raise RalphError(f"{told}; name what to review against: ralph review --base REV")
    since = repository.merge_base(tip, "HEAD")
    if since is None:
        raise RalphError(f"{base or tip[:12]} has no history in common with what is checked out; name another --base")
    told = repository.text("log", f"-{_MOST_COMMITS}", "--format=%B%x00", f"{since}..HEAD", "--")
    return ReviewedChange(
        title="What the commit messages say",
        base=since,
        tree=standing_tree(repository),
        commit_messages=tuple(message.strip() for message in told.split("\0") if message.strip()),
        with_secrets=True,
    )


def differ(repository: Repository, one: str, other: str) -> bool:
    """Whether two commits or trees differ in more than the state."""
    return any(not within_state(each.path) for each in changes(repository, one, other))
