"""Silence in real runs: an agent that works without a word goes on, one that hangs is ended and told why."""

import os
import time
from pathlib import Path

from rulebook_ralph.workspace.activity import newest_change
from rulebook_ralph.workspace.repository import open_repository
from tests.harness import HONEST, make_project


def test_an_agent_that_works_in_silence_goes_on_and_one_that_hangs_is_told(tmp_path: Path) -> None:
    """At its first attempt it changes nothing; at its second it is silent for longer than the limit, but works."""
    agent = (
        'if [ "$RALPH_ATTEMPT" = 1 ]; then exec sleep 60; fi\n'
        "for i in 1 2 3 4 5 6 7 8; do sleep 0.2; echo $i >> steps.txt; done\n" + HONEST
    )
    project = make_project(tmp_path, agent=agent, limits={"idleTimeout": 1}, attempts=3)
    ran = project.ralph("run")
    assert ran.code == 0, ran.out + ran.err
    first, second = project.records
    assert first.verdict
    assert first.verdict.reason == ("the agent gave no output and no change in the tree for 1 s and was ended by Ralph")
    assert (second.agent_status, second.duration_ms > 1500) == ("finished", True)


def test_what_counts_as_a_change_of_the_tree(tmp_path: Path) -> None:
    project = make_project(tmp_path, files={".gitignore": "*.log\nbuilt/\n", "src/a.txt": "a"})
    repository = open_repository(project.root, os.environ)

    def changed(*commands: str) -> bool:
        before = newest_change(repository)
        time.sleep(0.02)  # the kernel's clock for files ticks every few milliseconds
        assert os.system(f"cd {project.root} && {' && '.join(commands)}") == 0
        after = newest_change(repository)
        assert before
        assert after
        return after > before

    os.system(f"cd {project.root} && mkdir -p built/deep node_modules sub && touch x.log built/deep/a node_modules/a")
    assert changed("echo b > src/a.txt")
    assert changed("mkdir -p src/deep && touch src/deep/new.txt")
    assert changed("rm src/deep/new.txt")
    assert changed("touch -d 2001-01-01 src/a.txt")
    assert not changed("echo b >> x.log", "touch built/deep/b", "touch node_modules/b")
    assert not changed("echo b > .rulebook-ralph/notes", "git update-index --refresh -q; true")
    assert not changed("cat src/a.txt > /dev/null")
