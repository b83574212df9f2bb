"""`ralph review` in any repository: what it looks at, how it tells, how it ends."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry

from rulebook_ralph.core.review import Memory, Seen
from rulebook_ralph.process_table import MARK
from rulebook_ralph.resources import schema
from rulebook_ralph.state import review_memory
from tests.harness import Project, Ran, make_project
from tests.integration.test_judging_model import no_proxy, serving
from tests.integration.test_review_loop import Reviewers
from tests.reviewers import Finding, ship

__all__ = ["no_proxy"]

FAULT = "def pay(): return 'FAULT'\n"


@pytest.fixture
def reviewers() -> Reviewers:
    return Reviewers({"opus": Finding("FAULT"), "sonnet": ship})


@pytest.fixture
def project(tmp_path: Path, reviewers: Reviewers) -> Iterator[Project]:
    """A branch with one commit and no state folder; its reviewers are the user's own."""
    found = make_project(tmp_path)
    for path in (found.folder.prd, found.folder.progress, found.folder.config):
        path.unlink()
    found.folder.history.rmdir()
    found.folder.path.rmdir()
    found.git("switch", "-q", "-c", "pay")
    found.commit("Take money", **{"src__pay.py": FAULT})
    config = tmp_path / "xdg" / "rulebook-ralph" / "config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(
        json.dumps(
            {
                "defaults": {"quickReviewer": "quick", "finalReviewer": "thorough"},
                "tools": {
                    "reviewers": [
                        {"id": "quick", "model": "sonnet", "executor": "anthropic"},
                        {"id": "thorough", "executor": "anthropic"},
                    ]
                },
            }
        )
    )
    with serving(reviewers) as server:
        found.environment.update(
            ANTHROPIC_API_KEY="test-key-0123456789",
            ANTHROPIC_BASE_URL=server.url,
            XDG_CONFIG_HOME=str(tmp_path / "xdg"),
            XDG_STATE_HOME=str(tmp_path / "state"),
        )
        yield found


def told(ran: Ran) -> str:
    return ran.out + ran.err


def test_what_must_be_mended_is_told_and_ends_with_3(project: Project, reviewers: Reviewers) -> None:
    ran = project.ralph("review")
    assert ran.code == 3, ran.err
    assert "high   src/pay.py:1 (logic_bug)" in ran.out
    assert ran.out.count("It has FAULT.") == 1, "all is told, once"
    assert ran.out.splitlines()[-1] == "REVISE (1 high)"
    (asked,) = [question for _, question in reviewers.asked]
    assert "    Take money" in asked.data
    assert "The task: What the commit messages say" in asked.instructions
    assert "Architecture" in asked.instructions
    assert not project.folder.path.exists()
    assert project.git("status", "--porcelain") == ""


def test_a_second_review_of_the_same_tree_asks_nothing(project: Project, reviewers: Reviewers) -> None:
    first, second = project.ralph("review", "--json"), project.ralph("review", "--json")
    assert (first.code, second.code, reviewers.models) == (3, 3, ["opus"])
    assert first.json["issues"] == second.json["issues"]
    assert second.json["looks"][0].get("questions", 0) == 0
    project.commit("Mend it", **{"src__pay.py": "def pay(): return 1\n"})
    assert project.ralph("review").code == 0
    assert reviewers.models == ["opus", "opus"]


def test_the_tier_chooses_the_reviewer(project: Project, reviewers: Reviewers) -> None:
    assert project.ralph("review", "--tier", "quick").code == 0
    assert project.ralph("review", "--tier", "deep").code == 3
    assert reviewers.models == ["sonnet", "opus"], "there is no deep one, so the final one looks"


def test_what_is_not_committed_is_part_of_it(project: Project, reviewers: Reviewers) -> None:
    project.write({"src/new.py": "NEW = 1\n", "app.txt": "other\n", "ignored.o": "FAULT\n"})
    ran = project.ralph("review")
    assert "what is not committed yet is reviewed, too" in told(ran)
    names = [line for line in reviewers.asked[0][1].data.splitlines() if line.startswith("file: ")]
    assert names == ["file: app.txt", "file: src/new.py", "file: src/pay.py"]
    assert project.git("diff", "--cached", "--name-only") == ""


def test_a_base_may_be_named_and_nothing_is_nothing(project: Project, reviewers: Reviewers) -> None:
    ran = project.ralph("review", "--base", "HEAD", "--json")
    assert (ran.code, ran.json["decision"], reviewers.asked) == (0, "SHIP", [])
    assert "there is nothing to review" in ran.err
    for base in ("no-such", "--option"):
        assert project.ralph("review", f"--base={base}").code == 2
    project.git("branch", "-m", "main", "trunk")
    ran = project.ralph("review")
    assert ran.code == 2
    assert "ralph review --base REV" in ran.err


def test_json_is_as_the_schema_says(project: Project) -> None:
    found = project.ralph("review", "--json").json
    document = schema("review")
    assert not list(Draft202012Validator(document, registry=Registry()).iter_errors(found))
    assert (found["decision"], found["summary"]) == ("REVISE", {"total": 1, "high": 1, "medium": 0, "low": 0})


def test_sarif_has_what_readers_of_it_need(project: Project) -> None:
    ran = project.ralph("review", "--sarif")
    assert (ran.code, ran.json["version"]) == (3, "2.1.0")
    (run,) = ran.json["runs"]
    (result,) = run["results"]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "logic_bug"
    assert (result["level"], result["message"]["text"].splitlines()[0]) == ("error", "It has FAULT.")
    place: dict[str, Any] = result["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "src/pay.py"}, "region": {"startLine": 1, "endLine": 1}}
    assert run["invocations"] == [{"executionSuccessful": True, "toolExecutionNotifications": []}]


def test_markdown_is_all_that_goes_to_standard_output(project: Project) -> None:
    ran = project.ralph("review", "--markdown")
    assert ran.out.startswith("## Review: REVISE\n")
    assert "### high: src/pay.py:1" in ran.out


def test_nothing_decided_and_nobody_asked_end_differently(project: Project, reviewers: Reviewers) -> None:
    reviewers.answers["opus"] = lambda _: "SHIP"
    ran = project.ralph("review")
    assert (ran.code, ran.out.splitlines()[-1].partition(" ")[0]) == (3, "UNDECIDED")
    reviewers.answers["opus"] = lambda _: "no key"
    assert project.ralph("review").code == 5
    project.environment.pop("ANTHROPIC_API_KEY")
    ran = project.ralph("review")
    assert ran.code == 5
    assert "ANTHROPIC_API_KEY" in ran.err
    project.environment["RALPH_DEFAULTS__FINAL_REVIEWER"] = "nobody"
    assert project.ralph("review").code == 2


def test_a_secret_is_neither_shown_nor_shipped(project: Project, reviewers: Reviewers) -> None:
    key = "MIIEvwIBADANBgkqhkiG9w0BAQEFAASCBKkwggSlAgEAAoIBAQCnK707YsEOqHlA"
    project.commit("A key", src__id="-----BEGIN PRIVATE KEY-----\n" + f"{key}\n" * 3 + "-----END PRIVATE KEY-----\n")
    reviewers.answers["opus"] = ship
    ran = project.ralph("review")
    assert (ran.code, key in reviewers.asked[0][1].data) == (3, False)
    assert "high   src/id:1 (security)" in ran.out
    project.environment["RALPH_INTEGRITY__ALLOW"] = '["src/id"]'
    assert project.ralph("review").code == 0


def test_a_branch_of_many_files_is_remembered_whole(tmp_path: Path) -> None:
    memory: Memory = {f"{number:064}": Seen(decision="SHIP") for number in range(3_000)}
    file = tmp_path / "reviews"
    review_memory.write(file, memory, root=tmp_path / "project")
    assert review_memory.read(file, root=tmp_path / "project") == memory


def test_an_agent_reviews_nothing_by_itself(project: Project, reviewers: Reviewers) -> None:
    project.environment[MARK] = "1"
    ran = project.ralph("review")
    assert (ran.code, reviewers.asked) == (2, [])
    assert "inside an agent's process tree" in ran.err


def test_what_is_remembered_within_the_repository_is_not_believed(project: Project, reviewers: Reviewers) -> None:
    project.environment["XDG_STATE_HOME"] = str(project.root / "state")
    for _ in range(2):
        assert project.ralph("review").code == 3
    assert reviewers.models == ["opus", "opus"]
    assert not (project.root / "state" / "rulebook-ralph" / "reviews").exists()
