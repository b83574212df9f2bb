"""Reviews of changes: which reviewer looks, what it asks, what it costs, what is told of it. For a run or a command."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from threading import Event
from typing import TYPE_CHECKING

from rulebook_ralph.core import events, reviewers
from rulebook_ralph.core.enumeration import some
from rulebook_ralph.core.question import Ask, names_agent
from rulebook_ralph.errors import ExitCode, RalphError

if TYPE_CHECKING:
    from rulebook_ralph.agents.agent import Probe
    from rulebook_ralph.checks.reviewed_change import ReviewedChange
    from rulebook_ralph.core.model import Prd, Task
    from rulebook_ralph.core.review import Memory, Review, Tier
    from rulebook_ralph.core.settings import Config, Reviewer
    from rulebook_ralph.core.spending import Spend
    from rulebook_ralph.loop.crew import Crew


@dataclass(frozen=True, slots=True)
class Reviewing:
    """Asks the configured reviewers. `memory` is what they said before, and comes to have what they say. In a run it
    lives as long as the run: an agent can write wherever Ralph could keep it.
    """

    config: Config
    crew: Crew
    clean: Callable[[str], str]
    cancelled: Event
    spend: Spend
    report: Callable[[events.Event], None]
    memory: Memory

    def in_loop(
        self, task: Task, tier: Tier, change: ReviewedChange, *, patiently: Callable[[Ask, str], Ask]
    ) -> Review | None:
        """What the reviewer of a task's attempts says; None where that tier is off. `patiently` makes a question to a
        reviewer, by its id, one that is asked again. Raises checks.shell.Cancelled.
        """
        reviewer = reviewers.reviewer_in_loop(self.config, task, tier)
        return None if reviewer is None else self.by(reviewer, tier, change, patiently=patiently)

    def by(
        self,
        reviewer: Reviewer,
        tier: Tier,
        change: ReviewedChange,
        *,
        patiently: Callable[[Ask, str], Ask] = lambda ask, _: ask,
    ) -> Review:
        """What that reviewer says of a change. Raises checks.shell.Cancelled."""
        from rulebook_ralph.checks import review  # noqa: PLC0415 - few attempts come so far, and few projects

        name = reviewer.name or reviewer.id
        asked = reviewers.with_model(self.config, reviewer, tier)
        model = self.crew.model(asked, self.cancelled, spend=self.spend, named_by=reviewers.key_of(reviewer))
        looking = review.Reviewer(
            tier=tier,
            name=name,
            key=f"{reviewer.id}\n{model.name}\n{asked.model}",
            checks=reviewer.checks,
            ask=model.ask and patiently(model.ask, reviewer.id),
            missing=model.missing,
        )
        desk = review.Desk(self.clean, self.cancelled, secrets.token_hex, self.config.review.prompt_tokens, self.memory)
        self.report(events.ReviewStarted(tier, name))
        said = review.review(change, looking, desk)
        self.report(events.ReviewEnded(said))
        return said


def looked_for(config: Config, task: Task, *, last_stage: bool) -> tuple[str, ...]:
    """What the reviewers of a task's attempts look for, by name; empty where nobody reviews them."""
    from rulebook_ralph.checks.review_prompt import names_of_checks  # noqa: PLC0415 - few projects have reviewers

    tiers = reviewers.tiers_of(last_stage=last_stage)
    asked = ((tier, reviewers.reviewer_in_loop(config, task, tier)) for tier in tiers)
    return tuple(name for tier, who in asked if who for name in names_of_checks(tier, who.checks))


def require_reviewers(config: Config, crew: Crew, prd: Prd, probe: Callable[[str], Probe]) -> None:
    """Raises RalphError for a reviewer of the loop that is not known, and (exit 5) for one that cannot be asked."""
    for key, tier, reviewer in reviewers.in_use(config, prd):
        if problem := unknown(config, crew, reviewer):
            raise RalphError(f"{key}: {problem}")
        if problem := unable(config, crew, reviewer, tier, probe):
            raise RalphError(f"{key}: the reviewer {reviewer.id} cannot be asked: {problem}", exit_code=ExitCode.AGENT)


def unknown(config: Config, crew: Crew, reviewer: Reviewer) -> str:
    """Why there is no such reviewer, or empty."""
    if not names_agent(reviewer.executor):
        return ""
    try:
        crew.member(reviewer.executor)
    except RalphError as error:
        ids = [each.id for each in config.tools.reviewers]
        if reviewer.id in ids:
            return str(error)
        near = get_close_matches(reviewer.id, ids, n=1)
        hint = f"; did you mean {near[0]}?" if near else f"; tools.reviewers has {some(ids) if ids else 'none'}"
        return f"there is no reviewer and no agent '{reviewer.id}'{hint}"
    return ""


def unable(config: Config, crew: Crew, reviewer: Reviewer, tier: Tier, probe: Callable[[str], Probe]) -> str:
    """Why a known reviewer cannot be asked, as far as it shows without asking; or empty. `probe` looks at an agent."""
    asked = reviewers.with_model(config, reviewer, tier)
    model = crew.model(asked, Event(), named_by=reviewers.key_of(reviewer))
    if model.ask is None or not names_agent(reviewer.executor):
        return model.missing
    found = probe(reviewer.executor)
    return "" if found.installed else found.problem
