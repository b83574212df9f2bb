"""Boxes that an attempt ticked for tasks that are not its own are open in what it commits, and in the work tree."""

import os
import subprocess
from pathlib import Path

from rulebook_ralph.core.model import Task
from rulebook_ralph.loop.ticking import tick, untick
from rulebook_ralph.workspace.repository import open_repository
from rulebook_ralph.workspace.snapshot import Workspace

PLAN = b"- [ ] 1.1 One\r\n- [ ] 1.2 Two\r\n- [x] 1.3 Three\r\n- [ ] 1.4 Four\r\n- [ ] 9.9 no task\r\n"
OTHER = b"- [ ] 1.1 First\n"
TRACED = "GIT_TRACE"


def plan_task(own: str, source: str = "plan.md") -> Task:
    return Task(id=f"{source}-{own}", title=own, source=source, metadata={"idInSource": own})


def test_what_an_attempt_ticked_for_others_is_opened_in_its_tree_and_files_and_can_be_taken_back(
    tmp_path: Path,
) -> None:
    root, trace = tmp_path / "root", tmp_path / "trace"
    root.mkdir()
    for name, content in (("plan.md", PLAN), ("b.md", OTHER), ("a.txt", b"a")):
        (root / name).write_bytes(content)
    for arguments in (["init", "-q"], ["config", "core.autocrlf", "false"], ["add", "."], ["commit", "-qm", "base"]):
        subprocess.run(["git", *arguments], cwd=root, check=True)
    workspace = Workspace(open_repository(root, {**os.environ, TRACED: str(trace)}))
    opening = workspace.open()
    own, *others = plan_task("1.1"), plan_task("1.2"), plan_task("1.3"), plan_task("1.1", "b.md"), plan_task("1", "")
    told: list[str] = []

    (root / "a.txt").write_bytes(b"b")
    tree = workspace.capture(opening)
    workspace.changes(opening.tree, tree)
    before = trace.read_bytes()
    assert untick(workspace, opening.tree, tree, others, told.append) == []
    assert trace.read_bytes() == before, "no git process"

    ticked = PLAN.replace(b"[ ]", b"[x]")
    (root / "plan.md").write_bytes(ticked)
    (root / "b.md").write_bytes(OTHER.replace(b"[ ]", b"[x]"))
    tree = workspace.capture(opening)
    unticked = untick(workspace, opening.tree, tree, others, told.append)
    assert told == ["ticked with the work, but not verified, so unticked again: plan.md-1.2, b.md-1.1"]
    wanted = ticked.replace(b"[x] 1.2", b"[ ] 1.2")
    final = unticked[-1].tree
    for name, content in (("plan.md", wanted), ("b.md", OTHER), ("a.txt", b"b")):
        assert workspace.file_in(final, name)[1] == (root / name).read_bytes() == content
    assert workspace.capture(opening) == final
    assert tick(workspace, final, own, told.append) is None, "the attempt ticked it itself"
    last = tick(workspace, final, plan_task("1.2"), told.append)
    assert last is not None
    for each in (last, *reversed(unticked)):
        each.take_back()
    assert workspace.capture(opening) == tree

    (root / "plan.md").unlink()
    assert untick(workspace, opening.tree, tree, others[:1], told.append) == []
    assert told[1:] == [
        "what was ticked in plan.md with the work stays so, though not verified: it is no plain file in the work tree"
    ]
