"""From a repository that knows nothing of Ralph to a verified commit: how much a newcomer types and writes."""

import os
import subprocess
from pathlib import Path

import pytest

from scripts import first_run
from tests.harness import Project
from tests.integration.test_readme import ralph_on_path  # noqa: F401 - a fixture


@pytest.mark.parametrize(("name", "files"), [("words", 0), ("a checklist", 1)])
def test_at_most_three_commands_and_next_to_no_file(name: str, files: int, tmp_path: Path, ralph_on_path: str) -> None:  # noqa: F811
    way = first_run.WAYS[name]
    assert (len(way.files), len(way.commands) <= 3) == (files, True)
    project = Project(tmp_path / "calc", tmp_path, name="calc")
    first_run.make_project(project.root)
    environment = {**os.environ, "CLAUDE_CODE_OAUTH_TOKEN": "t", "PATH": ralph_on_path}
    try:
        told = first_run.follow(way, project.root, ("ralph",), environment)
    except subprocess.CalledProcessError as error:
        raise AssertionError(f"{error.output} {error.stderr}") from None
    assert " complete: " in told
    (commit,) = project.task_commits("ralph/calc").values()
    assert "Ralph-Task:" in project.git("log", "-1", "--format=%B", commit)
    assert "gate" in told, "the project's own tests were found, and are said"
