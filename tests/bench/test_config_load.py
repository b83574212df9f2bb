"""How long it takes to load a configuration. Prints figures beside the aim, and never fails on time: run with `-s`."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rulebook_ralph import config
from rulebook_ralph.core.settings import VerificationStep
from rulebook_ralph.plain_yaml import read_yaml

ROUNDS = 15


def of_init(steps: int) -> str:
    """What `ralph init` writes: comments, and the gates it found."""
    return config.commented_config([VerificationStep(name=f"s{n}", command=f"make s{n}") for n in range(steps)])


def of_a_person(steps: int) -> str:
    """Every part of it filled, on lines of their own."""
    filled = {
        "tools": {
            "executors": [{"id": f"e{n}", "type": "claude", "args": ["--x"], "env": {"A": "b"}} for n in range(10)],
            "planners": [{"id": f"p{n}", "model": "opus"} for n in range(5)],
        },
        "rules": [f"Rule {n}" for n in range(50)],
        "verification": {
            "steps": [{"name": f"s{n}", "command": "make", "when": ["src/**"], "timeout": "5m"} for n in range(steps)]
        },
        "limits": {"maxCostUsd": 5, "maxWallTime": "1h"},
        "prices": {f"model-{n}": {"input": 1, "output": 2} for n in range(20)},
    }
    return json.dumps(filled, indent=1)


@pytest.mark.parametrize(("kind", "steps"), [(of_init, 4), (of_a_person, 20)])
def test_loading_a_configuration(tmp_path: Path, kind: Callable[[int], str], steps: int) -> None:
    """The project's file and one of the user's own, with variables of the environment; beside reading both as YAML."""
    text, own = kind(steps), "limits: {maxIterations: 9}\nrules: [Be kind]\n"
    for place, content in ((tmp_path / ".rulebook-ralph", text), (tmp_path / "home/.config/rulebook-ralph", own)):
        place.mkdir(parents=True)
        (place / "config.yaml").write_text(content)
    environment = {"RALPH_LIMITS__MAX_COST_USD": "3", "PATH": "/usr/bin"}

    def load() -> None:
        config.load_with_origins(tmp_path, environment=environment, home=tmp_path / "home")

    def parse() -> None:
        read_yaml(text)
        read_yaml(own)

    whole, parsing = milliseconds(load, parse)
    sys.stdout.write(
        f"\nload a configuration ({kind.__name__}, {len(text.splitlines())} lines): {whole:.1f} ms, of these "
        f"{parsing:.1f} ms read as YAML: {whole - parsing:.1f} ms beside it (aim: 5 ms)\n"
    )


def milliseconds(*functions: Callable[[], None]) -> list[float]:
    """CPU time of one call of each at its quickest, in turns, once everything is imported; the machine may be busy."""
    taken: list[list[float]] = [[] for _ in functions]
    for _ in range(ROUNDS):
        for times, function in zip(taken, functions, strict=True):
            started = time.process_time()
            function()
            times.append(1000 * (time.process_time() - started))
    return [min(times) for times in taken]
