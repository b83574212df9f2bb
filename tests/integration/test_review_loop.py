"""Reviews within the loop, end to end: a scripted model on loopback reviews what a scripted agent made."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rulebook_ralph.core import faults
from rulebook_ralph.core.question import Question
from tests.harness import PROMISE, Project, make_project, task
from tests.integration.test_judging_model import Reply, failed, no_proxy, said, serving
from tests.reviewers import Finding, answer, is_review, issue, ship

__all__ = ["no_proxy"]

FAULTY = "echo FAULT > work/one.txt\n"
MENDED = "echo mended > work/one.txt\n"


@dataclass
class Reviewers:
    """What each model answers, by its name, and what it was asked."""

    answers: dict[str, Callable[[Question], str]] = field(default_factory=dict)
    asked: list[tuple[str, Question]] = field(default_factory=list)

    def __call__(self, request: dict[str, Any]) -> Reply:
        system = request["system"] if isinstance(request["system"], str) else request["system"][0]["text"]
        content = request["messages"][0]["content"]
        data = content if isinstance(content, str) else content[0]["text"]
        assert is_review(system)
        model = "opus" if "opus" in request["model"] else "sonnet"
        question = Question(system, data, {})
        self.asked.append((model, question))
        told = self.answers.get(model, ship)(question)
        status = {"no key": 401, "no model": 404, "overloaded": 529}.get(told)
        return failed(status, told) if status else said(told)

    @property
    def models(self) -> list[str]:
        return [model for model, _ in self.asked]


@contextmanager
def reviewed_project(
    folder: Path, reviewers: Reviewers, *scripts: str, defaults: dict[str, Any] | None = None, **settings: Any
) -> Iterator[Project]:
    """A project whose quick reviewer is sonnet and whose deep one is opus; the scripts are its attempts."""
    project = make_project(folder, agent="", **settings)
    for number, script in enumerate(scripts, start=1):
        (project.beside / f"attempt-{number}.sh").write_text(f"mkdir -p work\n{script}")
    last = len(scripts)
    project.agent(
        f'cat > "$BESIDE/prompt-$RALPH_ATTEMPT"\nn=$RALPH_ATTEMPT; [ "$n" -gt {last} ] && n={last}\n'
        f'sh "$BESIDE/attempt-$n.sh"\n{PROMISE}'
    )
    config = json.loads(project.folder.config.read_text())
    config["defaults"] |= (
        defaults if defaults is not None else {"quickReviewer": "sonnet-quick", "deepReviewer": "opus-thorough"}
    )
    config["tools"]["reviewers"] = [
        {"id": "sonnet-quick", "name": "Sonnet"},
        {"id": "opus-thorough", "model": "opus", "checks": ["security"]},
    ]
    project.folder.config.write_text(json.dumps(config))
    with serving(reviewers) as server:
        project.environment.update(ANTHROPIC_API_KEY="test-key-0123456789", ANTHROPIC_BASE_URL=server.url)
        yield project


def test_revise_leads_to_a_better_brief_and_ship_to_one_commit(tmp_path: Path) -> None:
    reviewers = Reviewers({"sonnet": Finding("FAULT"), "opus": ship})
    with reviewed_project(tmp_path, reviewers, FAULTY, MENDED) as project:
        ran = project.ralph("run")
        assert ran.code == 0, ran.err
        first, second = project.records
        assert reviewers.models == ["sonnet", "sonnet", "opus"]
        assert (first.verdict and first.verdict.hook, first.review and first.review.decision) == ("review", "REVISE")
        assert "Take FAULT out." in first.feedback
        assert "work/one.txt:1" in (project.beside / "prompt-2").read_text()
        assert "a reviewer sees the task and the diff, looks for" in (project.beside / "prompt-1").read_text()
        assert second.review is not None
        assert [(look.tier, look.reviewer, look.decision) for look in second.review.looks] == [
            ("quick", "Sonnet", "SHIP"),
            ("deep", "opus-thorough", "SHIP"),
        ]
        assert list(project.task_commits()) == ["one"]
        assert project.git("show", f"{project.task_commits()['one']}:work/one.txt") == "mended"
        shown = project.ralph("show", "1").out
        assert "quick by Sonnet: REVISE" in shown
        assert "high work/one.txt:1 (logic_bug): It has FAULT." in shown
        progress = project.folder.progress.read_text()
        assert "review: REVISE (1 high)" in progress
        assert "review: SHIP (no issues)" in progress
        assert "quick review (Sonnet): REVISE (1 high)" in ran.out
        assert "high  work/one.txt:1: It has FAULT." in ran.out
        assert first.judge_usage.total == 2
        assert second.judge_usage.total == 4


@pytest.mark.parametrize("rollback", ["keep", "reset"])
def test_what_was_refused_stays_or_goes_as_configured(tmp_path: Path, rollback: str) -> None:
    reviewers = Reviewers({"sonnet": Finding("FAULT")})
    look = 'ls work > "$BESIDE/found"\n[ -e work/other.txt ] && cat work/one.txt >> "$BESIDE/found"\n'
    first = FAULTY + "echo more > work/other.txt\n"
    with reviewed_project(
        tmp_path, reviewers, first, f"BESIDE='{tmp_path}/beside'\n{look}{MENDED}", git={"rollback": rollback}
    ) as project:
        assert project.ralph("run").code == 0
        kept = rollback == "keep"
        found = (project.beside / "found").read_text().split()
        assert found == (["one.txt", "other.txt", "FAULT"] if kept else [])
        assert project.changed(project.task_commits()["one"]) == (
            ["work/one.txt", "work/other.txt"] if kept else ["work/one.txt"]
        )
        assert project.git("show", f"{project.snapshots()[1]}:work/one.txt") == "FAULT"
        assert project.status() == []


@pytest.mark.parametrize("rollback", ["keep", pytest.param("reset", marks=pytest.mark.thorough)])
def test_at_the_limit_the_tree_is_clean_and_the_best_attempt_is_named(tmp_path: Path, rollback: str) -> None:
    reviewers = Reviewers({"sonnet": Finding("FAULT", "medium")})
    many, few = "printf 'FAULT\\nFAULT\\n' > work/one.txt\n", "echo 'one FAULT' > work/one.txt\n"
    scripts = (many, few, many + "echo x > work/x.txt\n")
    with reviewed_project(tmp_path, reviewers, *scripts, attempts=3, git={"rollback": rollback}) as project:
        assert project.ralph("run").code == 3
        blocked = project.task()
        assert blocked.status == "blocked"
        best = "refs/ralph/toy/tasks/one/2"
        assert (blocked.blocked_reason or "").endswith(f"; the best attempt: {best}")
        assert project.git("show", f"{best}:work/one.txt") == "one FAULT"
        assert (project.status(), project.task_commits()) == ([], {})
        assert best in project.folder.progress.read_text()
        assert project.last.best_attempt == 2


def test_an_undecided_review_never_completes(tmp_path: Path) -> None:
    reviewers = Reviewers({"sonnet": lambda _: "Looks good to me: SHIP"})
    with reviewed_project(tmp_path, reviewers, MENDED, attempts=2) as project:
        assert project.ralph("run").code == 3
        assert reviewers.models == ["sonnet"] * 4, "each attempt asks again once; nothing undecided is remembered"
        verdict = project.records[0].verdict
        assert verdict is not None
        assert "came to no decision" in verdict.reason
        assert project.task().status == "blocked"


@pytest.mark.parametrize("rollback", ["keep", "reset"])
def test_a_reviewer_that_cannot_be_asked_ends_the_run_and_the_work_waits_for_it(tmp_path: Path, rollback: str) -> None:
    reviewers = Reviewers({"sonnet": lambda _: "no key"})
    done = "[ -e work/one.txt ] || echo mended > work/one.txt\n"
    with reviewed_project(tmp_path, reviewers, done, attempts=2, git={"rollback": rollback}) as project:
        ran = project.ralph("run")
        assert ran.code == 5
        assert "the quick reviewer could not be asked: the API answered HTTP 401" in ran.out
        assert "check ANTHROPIC_API_KEY; the work stays in the tree" in ran.out
        assert len(project.records) == 1, "no agent is paid for what a reviewer cannot do"
        assert (project.task().completed_at, project.task().attempts, project.task_commits()) == (None, {}, {})
        assert (project.root / "work/one.txt").read_text() == "mended\n"
        reviewers.answers["sonnet"] = ship
        assert project.ralph("resume").code == 0, "the agent changed nothing more"
        assert list(project.task_commits()) == ["one"]
        assert "not your doing" in (project.beside / "prompt-1").read_text()


def test_a_reviewer_is_asked_again_while_the_work_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "_FIRST_WAIT", 0.05)
    reviewers = Reviewers({"sonnet": Once(lambda _: "overloaded")})
    with reviewed_project(tmp_path, reviewers, MENDED, attempts=1) as project:
        ran = project.ralph("run")
        assert ran.code == 0, ran.out
        assert (reviewers.models, len(project.records)) == (["sonnet", "sonnet", "opus"], 1)
        assert "reviewer sonnet-quick: overloaded: the API answered HTTP 529" in ran.out


def test_a_model_that_is_not_there_is_told_by_the_key_that_names_it(tmp_path: Path) -> None:
    with reviewed_project(tmp_path, Reviewers({"sonnet": lambda _: "no model"}), MENDED) as project:
        ran = project.ralph("run")
        assert ran.code == 5
        assert "check tools.reviewers.sonnet-quick.model" in ran.out


def test_a_reviewer_that_writes_changes_nothing(tmp_path: Path) -> None:
    with reviewed_project(tmp_path, Reviewers(), MENDED, defaults={"quickReviewer": "writer"}) as project:
        program = project.beside / "writer.py"
        program.write_text(
            "import json, pathlib, re, sys\n"
            f"pathlib.Path({str(project.root)!r}, 'mine').write_text('x')\n"
            "nonce = re.search('Its `nonce` is `([0-9a-f]+)`', sys.stdin.read())[1]\n"
            "summary = {'total': 0, 'high': 0, 'medium': 0, 'low': 0}\n"
            "print(json.dumps({'nonce': nonce, 'decision': 'SHIP', 'issues': [], 'summary': summary}))\n"
        )
        config = json.loads(project.folder.config.read_text())
        writer = {"id": "writer", "type": "command", "command": sys.executable, "args": [str(program)]}
        config["tools"]["executors"].append(writer)
        config["defaults"]["executor"] = "script"
        project.folder.config.write_text(json.dumps(config))
        ran = project.ralph("run")
        assert ran.code == 0, ran.out + ran.err
        assert project.changed(project.task_commits()["one"]) == ["work/one.txt"]
        assert (project.status(), (project.root / "mine").exists()) == ([], False)


def test_work_that_did_not_change_is_not_reviewed_twice(tmp_path: Path) -> None:
    deep = [issue("work/one.txt", 1)]
    answers = {"opus": Once(lambda question: json.dumps(answer(question, deep)))}
    reviewers = Reviewers({"opus": answers["opus"]})
    more = MENDED + "echo more > work/more.txt\n"
    with reviewed_project(tmp_path, reviewers, MENDED, more) as project:
        assert project.ralph("run").code == 0
        assert reviewers.models == ["sonnet", "opus", "sonnet", "opus"]
        files = [
            [line for line in question.data.splitlines() if line.startswith("file: ")]
            for _, question in reviewers.asked
        ]
        assert files[2] == ["file: work/more.txt"], "the quick reviewer has seen the other file"
        assert files[3] == ["file: work/more.txt", "file: work/one.txt"], "the deep one wanted it mended"


@dataclass
class Once:
    """Answers so the first time, and ships from then on."""

    first: Callable[[Question], str]
    used: bool = False

    def __call__(self, question: Question) -> str:
        used, self.used = self.used, True
        return ship(question) if used else self.first(question)


def test_a_task_has_a_reviewer_of_its_own(tmp_path: Path) -> None:
    reviewers = Reviewers()
    own = task(overrides={"reviewer": "opus-thorough"})
    with reviewed_project(tmp_path, reviewers, MENDED, tasks=[own]) as project:
        assert project.ralph("run").code == 0
        assert reviewers.models == ["opus"], "its checks are the same for both tiers, and so is the question"


def test_without_reviewers_nobody_is_asked(tmp_path: Path) -> None:
    reviewers = Reviewers()
    with reviewed_project(tmp_path, reviewers, MENDED, defaults={}) as project:
        assert project.ralph("run").code == 0
        assert (reviewers.asked, project.last.review) == ([], None)


def test_a_reviewer_that_nobody_knows_is_refused_everywhere(tmp_path: Path) -> None:
    with reviewed_project(tmp_path, Reviewers(), MENDED, defaults={"quickReviewer": "sonet-quick"}) as project:
        ran, validated, doctor = project.ralph("run"), project.ralph("validate"), project.ralph("doctor")
        assert (ran.code, validated.code) == (2, 2)
        for told in (ran.err, validated.out, doctor.out):
            assert "there is no reviewer and no agent 'sonet-quick'; did you mean sonnet-quick?" in told
        assert project.records == []


def test_a_reviewer_without_a_key_ends_the_run_before_it_begins(tmp_path: Path) -> None:
    with reviewed_project(tmp_path, Reviewers(), MENDED, defaults={"quickReviewer": "anthropic"}) as project:
        project.environment.pop("ANTHROPIC_API_KEY")
        ran = project.ralph("run")
        assert ran.code == 5
        assert "ANTHROPIC_API_KEY" in ran.err


def test_an_agent_that_writes_down_a_review_of_its_own_is_not_believed(tmp_path: Path) -> None:
    memory = Path(os.environ["HOME"], ".local/state/rulebook-ralph/reviews")
    forge = f"for f in {memory.parent}/trust/*; do mkdir -p {memory}; echo '{{}}' > {memory}/$(basename $f); done\n"
    with reviewed_project(tmp_path, Reviewers(), forge + MENDED, attempts=1) as project:
        ran = project.ralph("run")
        assert [path.name for path in memory.iterdir()] == []
        assert "put back" in ran.out


def put_a_fault_in_by_a_commit_hook(project: Project) -> None:
    hook = project.root / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ngrep -q FAULT work/one.txt || echo FAULT >> work/one.txt\n")
    hook.chmod(0o755)


@pytest.mark.thorough
def test_what_a_commit_hook_makes_of_the_work_is_reviewed_too(tmp_path: Path) -> None:
    reviewers = Reviewers({"sonnet": Finding("FAULT")})
    with reviewed_project(tmp_path, reviewers, MENDED, attempts=1) as project:
        put_a_fault_in_by_a_commit_hook(project)
        assert project.ralph("run").code == 3
        assert project.task_commits() == {}
        verdict = project.last.verdict
        assert verdict is not None
        assert verdict.reason.endswith("after the commit hooks changed files: the quick review says REVISE: 1 high")


@pytest.mark.thorough
def test_what_a_commit_hook_makes_of_the_work_does_not_land_unreviewed(tmp_path: Path) -> None:
    reviewers = Reviewers({"sonnet": lambda question: "no key" if "FAULT" in question.data else ship(question)})
    with reviewed_project(tmp_path, reviewers, MENDED, attempts=1) as project:
        put_a_fault_in_by_a_commit_hook(project)
        assert project.ralph("run").code == 3
        assert project.task_commits() == {}
