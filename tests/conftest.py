"""Surroundings for every test: a HOME of its own, an identity for git, no configuration from outside."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("suite", max_examples=40, deadline=None)
settings.register_profile("thorough", max_examples=1000, deadline=None)
settings.load_profile("suite")
"""The whole suite is to take less than two minutes; `--thorough` looks longer."""

IDENTITY = {
    "GIT_AUTHOR_NAME": "Test",
    "GIT_AUTHOR_EMAIL": "test@ralph.invalid",
    "GIT_COMMITTER_NAME": "Test",
    "GIT_COMMITTER_EMAIL": "test@ralph.invalid",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--thorough", action="store_true", help="run every case, and look for more examples")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--thorough"):
        settings.load_profile("thorough")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--thorough"):
        for item in items:
            if item.get_closest_marker("thorough"):
                item.add_marker(pytest.mark.skip(reason="runs with --thorough"))


@pytest.fixture
def thorough(request: pytest.FixtureRequest) -> bool:
    """Whether everything was asked for, for a test that chooses among its cases itself."""
    return bool(request.config.getoption("--thorough"))


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
    patch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")  # `python3` is this one
    for name, value in IDENTITY.items():
        patch.setenv(name, value)
