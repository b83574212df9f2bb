"""Surroundings for every test: a HOME of its own, an identity for git, no configuration from outside."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("suite", max_examples=40)
settings.register_profile("thorough", max_examples=1000)
settings.load_profile("suite")
"""The whole suite is to take less than two minutes; `--hypothesis-profile=thorough` looks longer."""

IDENTITY = {
    "GIT_AUTHOR_NAME": "Test",
    "GIT_AUTHOR_EMAIL": "test@ralph.invalid",
    "GIT_COMMITTER_NAME": "Test",
    "GIT_COMMITTER_EMAIL": "test@ralph.invalid",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
}


@pytest.fixture(autouse=True)
def surroundings(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test reads the real HOME or configuration."""
    home = tmp_path_factory.mktemp("home")
    isolate(monkeypatch, home)
    return home


def isolate(patch: pytest.MonkeyPatch, home: Path) -> None:
    """The same for a fixture of a whole module, which comes before `surroundings`."""
    for name in list(os.environ):
        if name.startswith(("GIT_", "RALPH_", "ANTHROPIC_", "OPENAI_", "CLAUDE", "XDG_")):
            patch.delenv(name)
    patch.setenv("HOME", str(home))
    for name, value in IDENTITY.items():
        patch.setenv(name, value)
