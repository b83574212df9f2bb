"""What the pipeline judges by: everything known of an attempt, and the checks it may run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rulebook_ralph.checks.integrity.earlier_tests import EarlierTests
from rulebook_ralph.checks.integrity.links_out import LinksOut
from rulebook_ralph.core.criteria import Criteria
from rulebook_ralph.core.diff import FileDiff, Versions
from rulebook_ralph.core.evidence import AgentResult, CheckResult, ParsedIteration, Verdict, Verified
from rulebook_ralph.core.model import Stage, Task
from rulebook_ralph.core.review import Review, Tier
from rulebook_ralph.core.settings import Integrity, StopCriteria, VerificationStep
from rulebook_ralph.workspace.snapshot import Change


@dataclass(frozen=True, slots=True)
class Gates:
    """What the gates said of the tree. `changed` are the paths that the gates themselves went on changing."""

    results: tuple[CheckResult, ...] = ()
    changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """An attempt before the judge. `changes` are against the base of the task, not the attempt's start.

    The stage is judged by `criteria` and `stop_criteria`, which are those it started with. `excused` are steps that
    were red on the base and have not been green since; `tests_on_base` and `failing_on_base` how many tests a step ran
    there and how many of them failed, where its output tells; `last_stage`: this attempt may complete the task. `told`
    are facts that the agent must hear whatever the verdict is (what was put back). `run_limited`: the agent's time
    limit was the run's.
    `diff` (against the base), `run_gates`, `run_criteria` and `try_commit` do their work at most once. `versions` reads
    files at the base and in the tree that is judged, `folders` tells which paths were folders at the base.
    """

    task: Task
    stage: Stage
    attempt: int
    last_stage: bool
    criteria: Criteria
    stop_criteria: StopCriteria
    result: AgentResult
    parsed: ParsedIteration
    changes: tuple[Change, ...]
    steps: tuple[VerificationStep, ...]
    excused: frozenset[str]
    tests_on_base: Mapping[str, int]
    failing_on_base: Mapping[str, int]
    protect: tuple[str, ...]
    integrity: Integrity
    trust_agent: bool
    run_limited: bool
    has_secret: Callable[[str], bool]
    told: Callable[[], tuple[str, ...]]
    diff: Callable[[], tuple[FileDiff, ...]]
    versions: Callable[[Sequence[FileDiff]], Mapping[str, Versions]]
    folders: Callable[[Sequence[str]], frozenset[str]]
    run_gates: Callable[[], Gates]
    run_criteria: Callable[[], Verified]
    try_commit: Callable[[], str | None]
    has_own_secret: Callable[[str], bool] = lambda _: True
    """Whether a text holds a secret of this environment, which no task can ask for."""
    moved: Callable[[], bool] = lambda: False
    """Whether gates changed the tree since the agent left it."""
    links_out: LinksOut = lambda _: {}
    """Those of the links of the judged tree that lead to nothing it holds, and where to."""
    files: Callable[[], Sequence[str]] = tuple
    """The paths of all files at the base."""
    own_folders: Callable[[], Sequence[str]] = tuple
    """Absolute paths of folders of this machine in which the work is done and judged."""
    run_gates_with: Callable[[EarlierTests], tuple[CheckResult, ...] | None] = lambda _: None
    """What the gates say of the tree with those tests as the base has them; None where no clean checkout is made."""
    run_criteria_with: Callable[[EarlierTests], tuple[CheckResult, ...] | None] = lambda _: None
    """What the commands of criteria say of it that were red on the base by those tests; None likewise."""
    review: Callable[[Tier], Review | None] = lambda _: None
    """What the reviewer of that tier says of the tree that is judged; None where that tier is off."""
    judging: tuple[VerificationStep, ...] = ()
    """What else judges the attempt by a command: external criteria, hooks. They are never run from here."""
    implements: bool = True
    """Whether the task is to change files at all."""
    iteration: int = 0
    """The number of the iteration, over the whole project."""

    @property
    def promise(self) -> str:
        return self.criteria.promise


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict, the gates and the other checks that were run for it, and what went wrong with hooks."""

    verdict: Verdict
    gates: Gates
    checks: tuple[CheckResult, ...] = ()
    log: tuple[str, ...] = ()


def is_held(result: CheckResult, excused: frozenset[str]) -> bool:
    """Whether a gate's failure counts against the attempt."""
    return result.required and result.failed and result.step not in excused
