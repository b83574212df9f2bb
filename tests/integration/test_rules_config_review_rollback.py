"""The rules of spec config-review-rollback that need the whole loop, by their numbers in tests/README.md."""

import json
import re
from collections.abc import Iterator

import pytest

from rulebook_ralph.core.question import Question
from tests.conftest import isolate
from tests.harness import PROMISE, Project, Ran, make_project, task
from tests.integration.test_judging_model import serving
from tests.integration.test_review_loop import Reviewers
from tests.reviewers import Finding

AGENT = f"""\
cat > "$BESIDE/prompt-$RALPH_TASK-$RALPH_ATTEMPT"
ls work > "$BESIDE/found-$RALPH_TASK-$RALPH_ATTEMPT" 2>/dev/null || true
mkdir -p work
[ $RALPH_TASK$RALPH_ATTEMPT = mended2 ] && echo mended > work/mended.txt || echo FAULT > "work/$RALPH_TASK.txt"
{PROMISE}"""


class Story:
    """`mended` ships at its second attempt, `never` is refused to the last; then `after` would be next."""

    def __init__(self, project: Project, ran: Ran, reviewers: Reviewers) -> None:
        self.project = project
        self.ran = ran
        self.reviewers = reviewers

    def prompt(self, task_id: str, attempt: int) -> str:
        return (self.project.beside / f"prompt-{task_id}-{attempt}").read_text("utf-8")


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    with pytest.MonkeyPatch.context() as patch:
        isolate(patch, tmp_path_factory.mktemp("home"))
        tasks = [task("mended", title="Mend it", description="It is to be mended."), task("never")]
        project = make_project(
            tmp_path_factory.mktemp("story"), agent=AGENT, tasks=tasks, attempts=2, git={"rollback": "reset"}
        )
        config = json.loads(project.folder.config.read_text())
        config["defaults"] |= {"quickReviewer": "anthropic", "deepReviewer": "anthropic"}
        project.folder.config.write_text(json.dumps(config))
        reviewers = Reviewers({"sonnet": Finding("FAULT")})
        with serving(reviewers) as server:
            project.environment.update(ANTHROPIC_API_KEY="test-key-0123456789", ANTHROPIC_BASE_URL=server.url)
            yield Story(project, project.ralph("run"), reviewers)


def test_cr17_the_review_of_an_attempt_is_kept_with_it(story: Story) -> None:
    first, second, *_ = story.project.records
    assert first.review is not None
    assert second.review is not None
    assert (first.review.decision, second.review.decision) == ("REVISE", "SHIP")
    assert first.review.issues[0].place == "work/mended.txt:1"
    assert "REVISE" in story.project.ralph("show", "1").out


def test_cr18_quick_looks_at_each_attempt_and_deep_before_the_task_completes(story: Story) -> None:
    looks = [look.tier for record in story.project.records if record.review for look in record.review.looks]
    assert looks == ["quick", "quick", "deep", "quick", "quick"]
    assert story.reviewers.models == ["sonnet", "sonnet", "opus", "sonnet"], (
        "what was reviewed is not asked about again"
    )


def test_cr19_a_task_is_tried_again_up_to_its_limit(story: Story) -> None:
    assert [(record.task_id, record.attempt) for record in story.project.records] == [
        ("mended", 1),
        ("mended", 2),
        ("never", 1),
        ("never", 2),
    ]


def test_cr20_refused_work_is_rolled_back(story: Story) -> None:
    assert (story.project.beside / "found-never-2").read_text().split() == ["mended.txt"]
    assert story.project.status() == []
    assert story.project.git("show", f"{story.project.snapshots()[3]}:work/never.txt") == "FAULT"


def test_cr21_the_next_prompt_has_the_reviews_feedback(story: Story) -> None:
    assert "Take FAULT out." not in story.prompt("mended", 1)
    assert re.search(
        r"work/mended\.txt:1 \(high, logic_bug\): It has FAULT\.\s+.*\s+.*Take FAULT out\.", story.prompt("mended", 2)
    )


def test_cr22_ship_leads_to_the_next_task(story: Story) -> None:
    assert list(story.project.task_commits()) == ["mended"]
    assert story.project.records[2].task_id == "never"


def test_cr23_at_the_limit_the_task_fails(story: Story) -> None:
    blocked = story.project.task("never")
    assert (blocked.status, story.ran.code) == ("blocked", 3)
    assert "2 of 2 attempts used" in (blocked.blocked_reason or "")
    assert "refs/ralph/toy/tasks/never/4" in (blocked.blocked_reason or "")


def test_cr24_the_reviewer_is_given_title_description_and_diff(story: Story) -> None:
    asked: Question = story.reviewers.asked[0][1]
    assert "The task: Mend it\n    It is to be mended." in asked.instructions
    assert re.search(r"file: work/mended\.txt\n=.*file added\n\+ +1\| FAULT", asked.data)
