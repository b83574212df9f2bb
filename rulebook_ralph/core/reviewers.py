"""Who reviews what, from the configuration and the task: a reviewer for each tier, and the model it asks."""

from collections.abc import Iterator

from msgspec.structs import replace

from rulebook_ralph.core import requirements
from rulebook_ralph.core.model import Prd, Task
from rulebook_ralph.core.review import Tier
from rulebook_ralph.core.settings import Config, Reviewer

JUDGE = "judge"
"""The id of the reviewer that is the judge, where none is configured."""

_MODEL: dict[Tier, str] = {"quick": "sonnet", "deep": "opus", "final": "opus"}


def tiers_of(*, last_stage: bool) -> tuple[Tier, ...]:
    """Which reviews an attempt at a stage needs: the deep one only before the task completes."""
    return ("quick", "deep") if last_stage else ("quick",)


def reviewer_in_loop(config: Config, task: Task, tier: Tier) -> Reviewer | None:
    """Who reviews attempts at a task; None where that tier is off."""
    name = requirements.reviewer_of(config, task, tier) or _defaults(config).get(tier, "")
    return reviewer_named(config, name) if name else None


def reviewer_of_branch(config: Config, tier: Tier) -> Reviewer:
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
    """Under which key of the configuration a reviewer's executor and model stand, or could."""
    return "judge" if reviewer.id == JUDGE else f"tools.reviewers.{reviewer.id}"


def in_use(config: Config, prd: Prd | None) -> Iterator[tuple[str, Tier, Reviewer]]:
    """The reviewers that a run may ask, each once for each tier, with the key that names it."""
    names: dict[tuple[str, Tier], str] = {}
    for tier, name in _defaults(config).items():
        names |= {(name, tier): f"defaults.{tier}Reviewer"} if name else {}
    for index, task in enumerate(prd.tasks if prd else ()):
        for tier in _defaults(config) if task.status != "completed" else ():
            if own := requirements.reviewer_of(config, task, tier):
                names.setdefault((own, tier), f"$.tasks[{index}].overrides.reviewer")
    for (name, tier), key in names.items():
        yield key, tier, reviewer_named(config, name)


def _defaults(config: Config) -> dict[Tier, str]:
    """The reviewers of the loop, by tier; empty for one that is off."""
    return {"quick": config.defaults.quick_reviewer, "deep": config.defaults.deep_reviewer}
