"""A run over a checklist: what Ralph verified it ticks in the plan, in the commit of the work, and believes no other box."""

from pathlib import Path

from tests.harness import PROMISE, make_project

PLAN = (
    "# Plan\r\n\r\n## Phase 1: Make it work\r\n\r\n"
    "- [ ] 1.1 Write one\r\n  - **Done when**: `one.txt` is there\r\n  - **Verify**: `test -f one.txt`\r\n"
    "  - **Commit**: `feat(one): write one`\r\n"
    "- [ ] 1.2 [VERIFY] Look at it\r\n  - **Verify**: `test -f one.txt`\r\n"
    "- [ ] 1.3 Write three\r\n"
)
AGENT = """\
case $RALPH_TASK-$RALPH_ATTEMPT in
1.1-1) sed -i 's/\\[ \\] 1.3/[x] 1.3/' plan.md; touch one.txt ;;
1.2-1) echo 'It is not as it should be.'; echo VERIFICATION_FAIL; exit 0 ;;
1.2-2) echo VERIFICATION_FAIL ;;
1.3-1) sed -i 's/\\[ \\] 1.3 Write/[ ] 1.3.3 Write/' plan.md ;;
esac
echo "<promise>$RALPH_PROMISE</promise>"
"""


def test_boxes_are_ticked_with_the_work_and_nobody_elses_are_believed(tmp_path: Path) -> None:
    late = f"grep -q 'x] 1.1' plan.md && test ! -f {tmp_path}/seen || exit 0; touch {tmp_path}/seen; exit 2"
    project = make_project(
        tmp_path,
        files={"a.txt": "a\n"},
        gates=[{"name": "tests", "command": "test -f a.txt"}],
        hooks=[{"name": "late", "command": late, "priority": 90}],
    )
    project.folder.prd.unlink()
    project.git("config", "core.autocrlf", "false")
    project.commit("the plan", **{"plan.md": PLAN})
    project.agent(AGENT)
    assert project.ralph("init", "--from", "plan.md").code == 0
    ran = project.ralph("run", "--trust-commands", "--max-iterations", "1")
    assert (ran.code, project.last.feedback.count("late")) == (4, 1), ran.out
    box_of_another = PLAN.replace("[ ] 1.3", "[x] 1.3")
    assert (project.root / "plan.md").read_bytes() == box_of_another.encode()
    ran = project.ralph("run", "--trust-commands")
    assert ran.code == 0, ran.err
    assert "ticked in plan.md, but not verified, so still to be done: 1.3" in ran.out
    assert "the box of 1.3 is not ticked in plan.md: it has no line of the task" in ran.out
    assert ran.out.count("ticked with the work, but not verified, so unticked again: 1.3") == 1
    commits = project.task_commits()
    assert "- [ ] 1.3 Write three" in project.git("show", f"{commits['1.1']}:plan.md")
    assert project.git("log", "-1", "--format=%s", commits["1.1"]) == "feat(one): write one"
    assert project.changed(commits["1.1"]) == ["one.txt", "plan.md"]
    assert project.changed(commits["1.2"]) == ["plan.md"]
    assert [(record.task_id, record.stage, record.completion_status) for record in project.records[2:5]] == [
        ("1.2", "qa", "failed"),
        ("1.2", "qa", "failed"),
        ("1.2", "qa", "completed"),
    ]
    wanted = PLAN.replace("[ ] 1.1", "[x] 1.1").replace("[ ] 1.2", "[x] 1.2").replace("1.3 Write", "1.3.3 Write")
    assert (project.root / "plan.md").read_bytes() == wanted.encode()
    assert project.status() == []


def test_a_tick_that_an_agent_made_in_advance_says_nothing_at_the_first_import(tmp_path: Path) -> None:
    project = make_project(tmp_path, files={"a.txt": "a\n"}, gates=[{"name": "tests", "command": "test -f a.txt"}])
    project.folder.prd.unlink()
    project.commit("the plan", **{"plan.md": "- [ ] 1.1 Write one\n"})
    project.agent("echo '- [x] 1.2 Write two' >> plan.md; echo '- [ ] 1.3 Write three' >> plan.md\n" + PROMISE)
    assert project.ralph("init", "--from", "plan.md").code == 0
    assert project.ralph("run").code == 0
    plan = project.root / "plan.md"
    plan.write_text(plan.read_text().replace("[ ] 1.3", "[x] 1.3") + "- [x] 1.4 Write four\n")
    ran = project.ralph("init", "--from", "plan.md")
    assert "said to be done in the source by an agent alone, so still to be done: 1.2" in ran.out
    done = {"1.1": "completed", "1.2": "pending", "1.3": "completed", "1.4": "completed"}
    assert {name: project.task(name).status for name in done} == done
    project.tasks()
    ran = project.ralph("init", "--from", "plan.md")
    assert ran.code == 0, ran.err
    assert {name: project.task(name).status for name in done} == done, "what Ralph verified it ticked itself"
