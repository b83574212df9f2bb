"""Who reviews what, from the configuration and the task: a reviewer for each tier, and the model it asks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from rulebook_ralph.config import requirements
from rulebook_ralph.config.settings import Config, Reviewer
from rulebook_ralph.tasks.model import Prd, Task
from rulebook_ralph.tasks.review import Review, ReviewIssue, Tier, reviewed

JUDGE = "judge"
"""The id of the reviewer that is the judge, where none is configured."""

_MODEL: dict[Tier, str] = {"quick": "sonnet", "deep": "opus", "final": "opus"}

CHECKS: Mapping[str, str] = {
    "syntax": "Syntax: what does not parse, import or compile",
    "types": "Types: arguments, results and fields of the wrong kind, missing cases of nothing",
    "obvious_bugs": "Obvious bugs: wrong names, conditions the wrong way round, code that is never reached",
    "security": "Security: injection, cross-site scripting, ways around a login or permission, secrets laid open",
    "race_conditions": "Race conditions: state shared without order, checks that are stale when they are acted on",
    "memory_leaks": "Memory leaks: timers, listeners, streams and handles that are never given back",
    "error_handling": "Error handling: failures that are swallowed, errors that lose their cause, promises not awaited",
    "logic_bugs": "Logic bugs: off by one, wrong counts, edge cases, what the task asks for and is not done",
    "accessibility": "Accessibility: roles and labels, keyboard, screen readers",
    "architecture": "Architecture: the patterns of the code around it, abstractions that nothing needs",
}
"""What may be looked for, by the names it has in the configuration."""

_QUICK = ("syntax", "types", "obvious_bugs")
_DEEP = ("security", "race_conditions", "memory_leaks", "error_handling", "logic_bugs")
TIER_CHECKS: Mapping[Tier, tuple[str, ...]] = {
    "quick": _QUICK,
    "deep": _DEEP,
    "final": (*_DEEP, "accessibility", "architecture"),
}
THE_TIERS_OWN = "tier"
"""Among a reviewer's checks: stands for all of its tier."""


def tiers_of(*, last_stage: bool) -> tuple[Tier, ...]:
    """Which reviews an attempt at a stage needs: the deep one only before the task completes."""
    return ("quick", "deep") if last_stage else ("quick",)


def reviewer_in_loop(config: Config, task: Task, tier: Tier) -> Reviewer | None:
    """Who reviews attempts at a task; None where that tier is off."""
    name = requirements.reviewer_of(config, task, tier) or _defaults(config).get(tier, "")
    return reviewer_named(config, name) if name else None


def reviewer_of_branch(config: Config, tier: Tier = "final") -> Reviewer:
    """Who reviews a branch: the tier's own reviewer, else the most thorough there is, else the judge."""
    names = {"final": config.defaults.final_reviewer, **dict(reversed(_defaults(config).items()))}
    for name in (names[tier], *names.values()):
        if name:
            return reviewer_named(config, name)
    judge = config.judge
    return Reviewer(id=JUDGE, executor=judge.executor, model=judge.model, timeout=judge.timeout)


def reviewer_named(config: Config, name: str) -> Reviewer:
    """The configured reviewer of that id, else the agent of that id (or the API) as one."""
    known = (reviewer for reviewer in config.tools.reviewers if reviewer.id == name)
    return next(known, None) or Reviewer(id=name, executor=name)


def with_model(config: Config, reviewer: Reviewer, tier: Tier) -> Reviewer:
    """The reviewer with the model it asks: its own, else what fits the tier; none where its agent has one."""
    own = next((each.model for each in config.tools.executors if each.id == reviewer.executor), "")
    return replace(reviewer, model=reviewer.model or ("" if own else _MODEL[tier]))


def key_of(reviewer: Reviewer) -> str:
    """Which key of the configuration names a reviewer's executor, or could."""
    return "judge.executor" if reviewer.id == JUDGE else f"tools.reviewers.{reviewer.id}.executor"


def in_use(config: Config, prd: Prd | None) -> Iterator[tuple[str, Tier, Reviewer]]:
    """The reviewers that a run may ask, each once for each tier, with the key that names it."""
    names: dict[tuple[str, Tier], str] = {}
    for tier, name in _defaults(config).items():
        names |= {(name, tier): f"defaults.{tier}Reviewer"} if name else {}
    if config.defaults.final_reviewer:
        names[config.defaults.final_reviewer, "final"] = "defaults.finalReviewer"
    for index, task in enumerate(prd.tasks if prd else ()):
        for tier in _defaults(config) if task.status != "completed" else ():
            if own := requirements.reviewer_of(config, task, tier):
                names.setdefault((own, tier), f"$.tasks[{index}].overrides.reviewer")
    for (name, tier), key in names.items():
        yield key, tier, reviewer_named(config, name)


def names_of_checks(tier: Tier, own: Sequence[str]) -> tuple[str, ...]:
    """What a reviewer looks for, most important first, by name: its own checks, else the tier's."""
    return tuple(
        each for name in own or (THE_TIERS_OWN,) for each in (TIER_CHECKS[tier] if name == THE_TIERS_OWN else (name,))
    )


def checks_of(tier: Tier, own: Sequence[str]) -> tuple[str, ...]:
    """The same as they are told to the reviewer."""
    return tuple(dict.fromkeys(CHECKS.get(name.replace("-", "_"), name) for name in names_of_checks(tier, own)))


def looked_for(config: Config, task: Task, *, last_stage: bool) -> tuple[str, ...]:
    """What the reviewers of a task's attempts look for, by name; empty where nobody reviews them."""
    asked = ((tier, reviewer_in_loop(config, task, tier)) for tier in tiers_of(last_stage=last_stage))
    return tuple(name for tier, who in asked if who for name in names_of_checks(tier, who.checks))


def _defaults(config: Config) -> dict[Tier, str]:
    """The reviewers of the loop, by tier; empty for one that is off."""
    return {"quick": config.defaults.quick_reviewer, "deep": config.defaults.deep_reviewer}


# Whom a finding concerns


@dataclass(frozen=True, slots=True)
class TaskCommit:
    """The commit of a completed task: the files that it changed."""

    task_id: str
    files: frozenset[str]


def by_task(review: Review, commits: Sequence[TaskCommit]) -> Mapping[str, Review]:
    """The review of a branch, divided among the tasks that it concerns: an issue goes to the last task that changed the
    file, or to the last task of all where none did. `commits` are oldest first.
    """
    issues: dict[str, list[ReviewIssue]] = {}
    for issue in review.issues if commits else ():
        concerned = (commit.task_id for commit in reversed(commits) if issue.file in commit.files)
        issues.setdefault(next(concerned, commits[-1].task_id), []).append(issue)
    return {task_id: reviewed(own, review.looks) for task_id, own in issues.items()}
