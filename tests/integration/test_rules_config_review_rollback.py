"""The rules of spec config-review-rollback that need the whole loop, by their numbers in tests/README.md."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import isolate
from tests.harness import PROMISE, Project, Ran, make_project, task

REVIEWER = """\
import json, sys
prompt = sys.stdin.read()
beside = sys.argv[1]
open(beside + "/reviewed.jsonl", "a").write(json.dumps(prompt) + "\\n")
data = json.loads(prompt[prompt.index("Use no tools:"):].split("\\n\\n", 1)[1].rsplit("\\n\\nThat was the data.", 1)[0])
bad = [file["file"] for file in data["files"] if any("FAULT" in line for line in file.get("lines", []))]
issues = [{"file": file, "lines": [1, 1], "type": "logic_bug", "severity": "high", "description": "It has FAULT.",
           "suggestion": "", "agentPrompt": "Take FAULT out."} for file in bad]
print(json.dumps({"decision": "REVISE" if issues else "SHIP", "issues": issues}))
"""
AGENT = f"""\
cat > "$BESIDE/prompt-$RALPH_TASK-$RALPH_ATTEMPT"
ls work > "$BESIDE/found-$RALPH_TASK-$RALPH_ATTEMPT" 2>/dev/null || true
mkdir -p work
[ $RALPH_TASK$RALPH_ATTEMPT = mended2 ] && echo mended > work/mended.txt || echo FAULT > "work/$RALPH_TASK.txt"
{PROMISE}"""


class Story:
    """`mended` ships at its second attempt, `never` is refused to the last; then `after` would be next."""

    def __init__(self, project: Project, ran: Ran) -> None:
        self.project = project
        self.ran = ran

    @property
    def reviewed(self) -> list[str]:
        """What the reviewers were asked, in order."""
        lines = (self.project.beside / "reviewed.jsonl").read_text("utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def prompt(self, task_id: str, attempt: int) -> str:
        return (self.project.beside / f"prompt-{task_id}-{attempt}").read_text("utf-8")


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    with pytest.MonkeyPatch.context() as patch:
        isolate(patch, tmp_path_factory.mktemp("home"))
        return _told(tmp_path_factory.mktemp("story"))


def _told(folder: Path) -> Story:
    tasks = [task("mended", title="Mend it", description="It is to be mended."), task("never")]
    project = make_project(folder, agent=AGENT, tasks=tasks, attempts=2, git={"rollback": "reset"})
    (project.beside / "reviewer.py").write_text(REVIEWER, "utf-8")
    config: dict[str, Any] = json.loads(project.folder.config.read_text())
    args = [str(project.beside / "reviewer.py"), str(project.beside)]
    for name in ("quick", "deep"):
        config["tools"]["executors"].append({"id": name, "type": "command", "command": sys.executable, "args": args})
    config["defaults"] |= {"quickReviewer": "quick", "deepReviewer": "deep"}
    project.folder.config.write_text(json.dumps(config))
    return Story(project, project.ralph("run"))


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
    assert len(story.reviewed) <= 5


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
    assert "refs/ralph/toy/tasks/never/4" in story.project.refs(), "its work is kept"


def test_cr24_the_reviewer_is_given_title_description_and_diff(story: Story) -> None:
    asked = story.reviewed[0]
    assert "The task: Mend it" in asked
    assert "It is to be mended." in asked
    assert "+1| FAULT" in asked
