"""Surroundings for every test: a HOME of its own, an identity for git, no configuration from outside."""

import gc
import os
import shutil
import sys
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("suite", max_examples=20, deadline=None)
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
    if "PYTEST_DEBUG_TEMPROOT" not in os.environ and (fast := fast_folder()):
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(fast)
    if config.getoption("--thorough"):
        settings.load_profile("thorough")


def fast_folder() -> Path | None:
    """Where writing through to the disk costs nothing, if there is room: half of a test's time is fsync elsewhere."""
    memory = Path("/dev/shm")
    usable = memory.is_dir() and os.access(memory, os.W_OK | os.X_OK)
    return memory if usable and shutil.disk_usage(memory).free > 2 * 1024**3 else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `-n` and no other `--dist`: a file stays whole, so that what its tests share is made once, and a worker that
    has nothing left takes the next one.
    """
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import (  # type: ignore[import-untyped]  # noqa: PLC0415  (the plugin may be missing)
        LoadFileScheduling,
    )

    config.option.loadscopereorder = False
    return LoadFileScheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.parent.name != "integration")  # the long ones first, for a short tail
    if not config.getoption("--thorough"):  # left out, not skipped: to tell of a skip takes as long as a small test
        left_out = [item for item in items if item.get_closest_marker("thorough")]
        items[:] = [item for item in items if not item.get_closest_marker("thorough")]
        config.hook.pytest_deselected(items=left_out)


def pytest_collection_finish() -> None:
    """What is there now stays to the end: no collection of garbage looks through it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def thorough(request: pytest.FixtureRequest) -> bool:
    """Whether everything was asked for, for a test that chooses among its cases itself."""
    return bool(request.config.getoption("--thorough"))


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("homes")


@pytest.fixture(autouse=True)
def surroundings(homes: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test reads the real HOME or configuration."""
    home = Path(mkdtemp(dir=homes))  # `mktemp` would look through those of all tests before
    isolate(monkeypatch, home)
    return home


def isolate(patch: pytest.MonkeyPatch, home: Path) -> None:
    """The same for a fixture of a whole module, which comes before `surroundings`.

    Ralph's clones lie beside HOME, in a folder below which no name begins with a dot, as it demands itself.
    """
    for name in list(os.environ):
        if name.startswith(("GIT_", "RALPH_", "ANTHROPIC_", "OPENAI_", "CLAUDE", "XDG_")):
            patch.delenv(name)
    patch.delenv("CI", raising=False)  # runners of tests print more there
    patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)  # else each `ralph` of its own compiles what was edited anew
    patch.setenv("HOME", str(home))
    patch.setenv("RALPH_CACHE_DIR", str(home.with_name(f"{home.name}-cache")))
    patch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")  # `python3` is this one
    for name, value in IDENTITY.items():
        patch.setenv(name, value)
