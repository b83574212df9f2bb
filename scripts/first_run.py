"""Print what a newcomer types and sees, from a repository that knows nothing of Ralph to a verified commit.

Run `python -m scripts.first_run` where claude is installed and logged in; a test plays it with a claude of its own.
"""

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PROJECT = {
    "calc.py": "def add(a, b):\n    return a + b\n",
    "tests/__init__.py": "",
    "tests/test_calc.py": "import unittest\n\nfrom calc import add\n\n\nclass CalcTest(unittest.TestCase):\n"
    "    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n",
}


@dataclass(frozen=True, slots=True)
class Way:
    """What a person writes by hand, and types."""

    files: Mapping[str, str]
    commands: Sequence[Sequence[str]]


WAYS = {
    "words": Way({}, [("run", "-p", "Add sub(a, b), which subtracts, with its test", "--max-cost", "1")]),
    "a checklist": Way(
        {"todo.md": "- [ ] Add sub(a, b), which subtracts\n    - [ ] sub(3, 1) is 2, as a test says\n"},
        [("init", "--from", "todo.md"), ("run", "--max-cost", "1")],
    ),
}


def make_project(folder: Path) -> None:
    for name, content in PROJECT.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    for arguments in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", "first")):
        subprocess.run(["git", *arguments], cwd=folder, check=True)


def follow(way: Way, folder: Path, ralph: Sequence[str], environment: Mapping[str, str]) -> str:
    """The transcript. Raises CalledProcessError where a command fails."""
    told = []
    for name, content in way.files.items():
        (folder / name).write_text(content)
        told.append(f"$ cat {name}\n{content}")
    for words in way.commands:
        done = subprocess.run(
            [*ralph, *words], cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        told.append(f"$ ralph {shlex.join(words)}\n{done.stdout.decode()}")
        if done.returncode != 0:
            raise subprocess.CalledProcessError(done.returncode, words, "".join(told), done.stderr.decode())
    return "\n".join(told)


def main() -> None:
    for name, way in WAYS.items():
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:  # not below /tmp, which the sandbox has for itself
            make_project(Path(folder, "calc"))
            ralph = (sys.executable, "-m", "rulebook_ralph")
            sys.stdout.write(f"# With {name}\n\n{follow(way, Path(folder, 'calc'), ralph, os.environ)}\n")


if __name__ == "__main__":
    main()
