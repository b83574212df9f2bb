"""What is said where git cannot be started: the folder it is to work in, or git itself, is missing."""

import os
from pathlib import Path

import pytest

from rulebook_ralph.errors import RalphError
from rulebook_ralph.workspace.git import Git, GitError


def test_a_folder_that_is_gone_is_not_told_as_a_missing_git(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "gone", tmp_path / "file"):
        with pytest.raises(GitError, match="the folder is not there"):
            Git.at(place, os.environ).text("status")


def test_a_missing_git_is_told(tmp_path: Path) -> None:
    with pytest.raises(RalphError, match="git is not installed"):
        Git.at(tmp_path, {"PATH": str(tmp_path)}).text("status")
