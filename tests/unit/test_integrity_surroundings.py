"""What an attempt may not lean on: links and folders that only this machine has."""

from dataclasses import replace
from typing import Any

import pytest

from rulebook_ralph.core.diff import FileDiff
from rulebook_ralph.core.evidence import SKIP
from rulebook_ralph.core.model import Task
from rulebook_ralph.core.settings import Integrity as Settings
from rulebook_ralph.loop.rules.integrity import Integrity
from tests.cases import each_of
from tests.integrity_case import changed

BASE = {"calc.py": "A = 1\n", "paths.py": "ROOT = '/home/me/p'\n", "README.md": "Calc.\n"}
TITLED: dict[str, Any] = {"task": Task(id="one", title="Make calc.py better")}
ALLOWED: dict[str, Any] = {"integrity": Settings(allow=("calc.py",))}


@each_of(
    ("path", "text", "values", "told"),
    [
        ("calc.py", "import sys\nsys.path.insert(0, '/home/me/p/build')\n", {}, "calc.py:2: names a folder"),
        ("tests/test_new.py", "ROOT = '/home/me/p'\n", {}, "tests/test_new.py:1: names a folder"),
        ("run", "#!/bin/sh\nexec /cache/p/tree/x\n", {}, "run:2: names a folder"),
        ("calc.py", "A = '/home/me/p/build'\n", TITLED, ""),
        ("calc.py", "A = '/home/me/p/build'\n", ALLOWED, ""),
        ("calc.py", "A = '/home/me/p/build'\n", {"integrity": Settings(enabled=False)}, ""),
        ("calc.py", "A = '/home/me/pictures'\n", {}, ""),
        ("paths.py", BASE["paths.py"] + "B = '/home/me/p/build'\n", {}, ""),
        ("README.md", "Lies in /home/me/p.\n", {}, ""),
        ("settings.json", '{"root": "/home/me/p"}\n', {}, ""),
    ],
)
def test_folders_of_this_machine(path: str, text: str, values: dict[str, Any], told: str) -> None:
    given = changed(BASE, BASE | {path: text}, own_folders=lambda: ("/cache/p", "/home/me/p"), **values)
    verdict = Integrity().run(given)
    assert (told in verdict.reason and "relative" in verdict.feedback) if told else verdict == SKIP


@pytest.mark.parametrize(
    ("target", "values", "told"),
    [
        ("/elsewhere/calc.py", {}, "calc.py: is a link out of the repository: /elsewhere/calc.py"),
        ("", {}, "calc.py: is a link to something that git does not hold"),
        (None, {}, ""),
        ("/elsewhere/calc.py", TITLED, ""),
        ("/elsewhere/calc.py", ALLOWED, ""),
    ],
)
def test_links_to_what_is_not_committed(target: str | None, values: dict[str, Any], told: str) -> None:
    diff = (FileDiff("M", "calc.py", "calc.py", is_link=True), FileDiff("M", "README.md", "README.md"))
    given = replace(
        changed(BASE, BASE | {"calc.py": "/elsewhere/calc.py"}, **values),
        diff=lambda: diff,
        links_out=lambda paths: {path: target for path in paths if target is not None},
    )
    verdict = Integrity().run(given)
    assert (told in verdict.reason and "Links must lead" in verdict.feedback) if told else verdict == SKIP
