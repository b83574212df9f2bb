"""Who reviews what in a run, as far as it shows without asking."""

from threading import Event

import pytest

from rulebook_ralph.core.model import Task
from rulebook_ralph.core.settings import AskedModel, Config, Defaults, Executor, Reviewer, Tools
from rulebook_ralph.loop import expectations
from rulebook_ralph.loop.crew import Crew
from rulebook_ralph.loop.reviewing import looked_for

TASK = Task(id="one", title="One")


def reviewed_by(quick: str = "", deep: str = "") -> Config:
    reviewers = (Reviewer(id="own", checks=("syntax", "no  globals")), Reviewer(id="plain"))
    return Config(tools=Tools(reviewers=reviewers), defaults=Defaults(quick_reviewer=quick, deep_reviewer=deep))


def test_an_attempt_is_told_that_it_is_reviewed_and_for_what() -> None:
    (told,) = expectations.reviewed(looked_for(reviewed_by("own", "plain"), TASK, last_stage=True))
    assert "looks for syntax, no globals, security, race conditions" in told
    assert "security" not in str(expectations.reviewed(looked_for(reviewed_by("own", "plain"), TASK, last_stage=False)))


@pytest.mark.parametrize(("config", "last"), [(reviewed_by(), True), (reviewed_by(deep="own"), False)])
def test_an_attempt_that_nobody_reviews_is_told_nothing(config: Config, last: bool) -> None:
    assert expectations.reviewed(looked_for(config, TASK, last_stage=last)) == []


def test_who_cannot_be_asked_is_told_by_the_key_where_to_name_another() -> None:
    executors = (Executor(id="play", type="scripted", command="x"),)
    crew = Crew(Config(tools=Tools(executors=executors), defaults=Defaults(executor="play")), {})
    missing = crew.model(AskedModel(id="opus"), Event(), named_by="tools.planners.opus").missing
    assert missing == "agent play cannot judge; set ANTHROPIC_API_KEY, or tools.planners.opus.executor"
