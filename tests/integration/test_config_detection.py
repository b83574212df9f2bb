"""What is proposed for a project works by hand: real uv, pip, npm and pnpm projects, in a fresh clone of each.

These load from package registries, so they run with `--thorough` only; what is not installed is skipped.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from rulebook_ralph.config.detection import discover
from rulebook_ralph.config.layers import load_config
from rulebook_ralph.config.template import commented_config

PRODUCT = "import six\n\n\ndef shout(text: str) -> str:\n    return six.ensure_str(text).upper()\n"
TEST = "from loud import shout\n\n\ndef test_shout() -> None:\n    assert shout('a') == 'A'\n"
PYPROJECT = """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "loud"
version = "1"
requires-python = ">=3.11"
dependencies = ["six"]
[project.optional-dependencies]
test = ["pytest"]
[tool.ruff]
[tool.setuptools.packages.find]
where = ["src"]
"""
PYTHON = {
    "pyproject.toml": PYPROJECT,
    "src/loud/__init__.py": PRODUCT,
    "tests/test_loud.py": TEST,
    ".gitignore": ".venv/\n*.egg-info/\n__pycache__/\n.*_cache/\n",
}
REQUIREMENTS = {
    "requirements.txt": "six\n",
    "requirements-dev.txt": "-r requirements.txt\npytest\n",
    "loud.py": PRODUCT,
    "tests/test_loud.py": TEST,
    ".gitignore": ".venv/\n__pycache__/\n.*_cache/\n",
}
GROUPS = {
    **PYTHON,
    "pyproject.toml": PYPROJECT.replace(
        '[project.optional-dependencies]\ntest = ["pytest"]\n',
        '[dependency-groups]\ndev = [{include-group = "checks"}]\nchecks = ["pytest>=7", "ruff"]\n',
    ),
}
NODE_TEST = "const shout = require('./loud'); require('assert').strictEqual(shout('a'), 'A')\n"
NODE = {
    "package.json": json.dumps(
        {"name": "loud", "version": "1.0.0", "scripts": {"test": "node loud.test.js"}, "dependencies": {"ms": "2.1.3"}}
    ),
    "loud.js": "const ms = require('ms'); module.exports = (text) => ms('1s') && text.toUpperCase()\n",
    "loud.test.js": NODE_TEST,
    ".gitignore": "node_modules\n",
}
PROJECTS: Mapping[str, tuple[Mapping[str, str], str, str]] = {
    "uv": (PYTHON, "uv lock -q", "src/loud/__init__.py"),
    "uv-groups": (GROUPS, "uv lock -q", "src/loud/__init__.py"),
    "pip": (PYTHON, "", "src/loud/__init__.py"),
    "pip-groups": (GROUPS, "", "src/loud/__init__.py"),
    "pip-requirements": (REQUIREMENTS, "", "loud.py"),
    "npm": (NODE, "npm install --package-lock-only --silent", "loud.js"),
    "npm-without-lock": (NODE, "", "loud.js"),
    "pnpm": (NODE, "pnpm install --lockfile-only --silent", "loud.js"),
    "yarn": (NODE, "yarn install --silent && rm -rf node_modules", "loud.js"),
}


@pytest.fixture
def shell(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(command: str, folder: Path, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"} | dict(env or {})
        return subprocess.run(
            command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
        )

    return run


@pytest.mark.thorough
@pytest.mark.parametrize("name", PROJECTS)
def test_what_is_proposed_works_in_a_fresh_clone(
    tmp_path: Path, shell: Callable[..., subprocess.CompletedProcess[str]], name: str
) -> None:
    files, lock, product = PROJECTS[name]
    manager = name.partition("-")[0]
    if manager != "pip" and shutil.which(manager) is None:
        pytest.skip(f"{manager} is not installed")
    project, clone = tmp_path / "project", tmp_path / "clone"
    for file, text in files.items():
        (project / file).parent.mkdir(parents=True, exist_ok=True)
        (project / file).write_text(text)
    locked = shell(lock or "true", project)
    assert locked.returncode == 0, locked.stderr
    found = discover(project, os.environ["PATH"])
    (project / ".rulebook-ralph").mkdir()
    (project / ".rulebook-ralph/config.yaml").write_text(commented_config(found.steps, found.workspace, found.notes))
    config = load_config(project, tmp_path, {}).config
    assert config.verification.steps == found.steps
    made = shell(f"git init -q . && git add -A && git commit -q -m x && git clone -q . {clone}", project)
    assert made.returncode == 0, made.stderr

    setup = shell(config.workspace.setup, clone)
    assert setup.returncode == 0, f"{config.workspace.setup}: {setup.stdout}{setup.stderr}"
    for step in config.verification.steps:
        ran = shell(step.command, clone, step.env)
        assert ran.returncode == 0, f"{step.command}: {ran.stdout}{ran.stderr}"
    status = shell("git status --porcelain", clone)
    assert status.stdout == "", "setup and gates leave nothing that git does not ignore"
    test = next(step for step in config.verification.steps if step.kind == "test")
    broken = (clone / product).read_text().replace("upper()", "lower()").replace("toUpperCase", "toLowerCase")
    (clone / product).write_text(broken)
    assert shell(test.command, clone, test.env).returncode != 0, "the gate runs the code of the clone"
