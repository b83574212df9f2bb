"""`ralph summary` of a real project, and who says what its tasks brought about."""

import json
from pathlib import Path
from typing import Any

from tests.harness import PROMISE, make_project, task

AGENT = """\
mkdir -p work && echo "$RALPH_TASK" > "work/$RALPH_TASK.txt"
if [ "$RALPH_TASK" = two ]; then echo '<ralph>BLOCKED: no key for @team</ralph>'; exit 0; fi
test "$RALPH_ATTEMPT" = 1 && echo broken > app.txt || echo sound > app.txt
"""
WORDS = {"summary": "It keeps work/one.txt. It wrote docs/nowhere.md.", "verificationSteps": ["cat work/one.txt"]}


def test_a_summary_of_what_was_done_and_what_was_not(tmp_path: Path) -> None:
    project = make_project(tmp_path, agent=AGENT + PROMISE, tasks=[task("one"), task("two", title="Ask @team")])
    assert project.ralph("run").code == 3
    text = project.ralph("summary").out
    [commit] = project.task_commits().values()
    assert f"- **Do one** (`one`) · `{commit[:12]}` · 2 attempts" in text
    assert "- **Ask @\u200bteam** (`two`): the agent is blocked: no key for @\u200bteam" in text
    assert "`ralph task unblock two`" in text
    assert "- tests: **passed**, `sh check.sh`" in text
    story = project.ralph("summary", "--task", "one").out
    assert "### Iteration 1: coder, attempt 1, failed" in story
    assert "app.txt: not sound" in story
    for number in (1, 2):
        assert f"`refs/ralph/toy/tasks/one/{number}`" in story
    assert project.ralph("summary", "--json").json["tasks"][0]["commit"] == commit
    unknown = project.ralph("summary", "--task", "on")
    assert (unknown.code, "did you mean one?" in unknown.err) == (2, True)
    project.folder.prd.write_text('{"version": 1,\n')
    broken = project.ralph("summary")
    assert (broken.code, "prd.json:" in broken.err) == (2, True)


def test_a_small_model_says_what_was_brought_about(tmp_path: Path) -> None:
    project = make_project(tmp_path, tasks=[task("one"), task("two")])
    config: dict[str, Any] = json.loads(project.folder.config.read_text())
    words = tmp_path / "words.sh"
    words.write_text(
        f"echo x >> {tmp_path}/asked\n"
        f"grep -q \"Do one\" || {{ echo no JSON; exit 0; }}\ncat <<'E'\nHere it is:\n```json\n{json.dumps(WORDS)}\n```\nE\n"
    )
    config["tools"]["executors"].append({"id": "words", "type": "command", "command": f"sh {words}"})
    config["tools"]["executors"][0]["name"] = "The one who works"
    config["defaults"]["summarizer"] = "words"
    project.folder.config.write_text(json.dumps(config))
    ran = project.ralph("run")
    assert ran.code == 0
    assert "agent The one who works" in ran.out
    first, second = project.records
    assert first.agent == "script"
    assert first.completion_summary is not None
    assert first.completion_summary.summary == "It keeps work/one.txt."
    assert "cat work/one.txt" in first.completion_summary.verification_steps
    assert project.task("one").summary == "It keeps work/one.txt."
    told = project.git("log", "-1", "--format=%b", project.task_commits()["one"])
    assert told.startswith("It keeps work/one.txt.\n\nRalph-Task: one\n"), "less what git denies"
    assert (tmp_path / "asked").read_text() == "x\n" * 2, "each task once"
    assert second.completion_summary is not None
    assert "the summary of two is in the agent's words: " in ran.out + ran.err
