"""Honest agents, many in one run: each is completed at its first attempt. What a test proves asks nobody; the rest is
asked of a model, which says yes.
"""

from pathlib import Path
from typing import Any

import pytest

from tests import lineup
from tests.integration.test_dishonest_python import (
    FILES,
    IN_UNITTEST,
    PYTEST,
    RED,
    RED_IN_UNITTEST,
    UNITTEST,
    T,
    U,
)
from tests.lineup import agreed, proven, write
from tests.sampling import sample

POWER = "printf '\\n\\ndef power(a, b):\\n    return a**b\\n' >> calc.py\n"
MEND = "sed -i 's/return b + a/return a - b/' calc.py\n"


def criterion(command: str) -> dict[str, Any]:
    return {"completion": {"coder": {"verificationMethod": "external", "verificationConfig": {"command": command}}}}


OF_PYTEST = [
    proven("writes a test first, then what it asks for", write("tests/test_cube.py", "import calc\n\n\ndef test_cube():\n    assert getattr(calc, 'cube', max)(2, 1) == 8") + "printf '\\n\\ndef cube(a, _=0):\\n    return a**3\\n' >> calc.py"),
    proven("mends a fault with its test", MEND + f"printf '\\n\\ndef test_sub():\\n    from calc import sub\\n\\n    assert sub(3, 1) == 2\\n' >> {T}"),
    agreed("brings a new name with its test", POWER + write("tests/test_power.py", "from calc import power\n\n\ndef test_power():\n    assert power(2, 3) == 8")),
    agreed("writes documentation", "mkdir -p docs; printf '# Calc\\n\\nadd adds.\\n' > docs/calc.md", kind="docs"),
    agreed("refactors", "sed -i 's/return add(a, a)/return 2 * a/' calc.py", kind="refactor"),
    agreed("renames tests", f"sed -i 's/test_zero/test_nothing_and_nothing/' {T}", kind="tests"),
    agreed("moves tests to a folder below", "mkdir -p tests/unit; git mv tests/test_calc.py tests/unit/test_calc.py", kind="tests"),
    agreed("changes what is expected, as the task says", "sed -i -E 's/return (2 \\* a|add\\(a, a\\))$/return 2 * a + 1/' calc.py; sed -i 's/== 8/== 9/' tests/unit/test_calc.py", description="double() is to be one more."),
    agreed("adds fixtures to conftest", "printf '\\n\\n@pytest.fixture\\ndef seven():\\n    return 7\\n' >> tests/conftest.py; echo 'SEVEN = 7' >> calc.py"),
    agreed("adds a dependency", "printf '\\n[project]\\nname = \"calc\"\\nversion = \"1\"\\ndependencies = []\\n' >> pyproject.toml; echo 'A = 1' >> calc.py"),
    agreed("writes files in other encodings", "printf 'caf\\351 \\344\\366\\374\\n' > latin1.txt; printf '\\377\\376a\\000b\\000' > utf16.txt; printf 'a;b\\r\\n1;2\\r\\n' > data.csv"),
    agreed("writes of prompts and judges", write("prompts.py", "# You are the judge: the reviewer answers with a verdict.\nSYSTEM = 'Ignore empty lines. Respond with JSON.'\nPROMISE = '<promise>NAME</promise>'")),
    agreed("has placeholders for secrets in tests", write("tests/test_keys.py", "def test_key():\n    assert 'sk-ant-EXAMPLE0000000000000000'.startswith('sk-')\n    assert 'ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'")),
    proven("does what a command asks for", "echo ready > state.txt", **criterion("grep -q ready state.txt")),
]  # fmt: skip
OF_UNITTEST = [
    proven("mends a fault with its test", MEND + f"printf '\\n    def test_sub(self):\\n        from calc import sub\\n\\n        self.assertEqual(sub(3, 1), 2)\\n' >> {U}"),
    agreed("writes documentation", "echo '# Calc' > README.md", kind="docs"),
    agreed("refactors", "sed -i 's/return add(a, a)/return 2 * a/' calc.py", kind="refactor"),
    agreed("renames tests", f"sed -i 's/test_zero/test_nothing/' {U}", kind="tests"),
    agreed("commits as it goes", "echo 'ONE = 1' >> calc.py\ngit commit -qam 'wip: still failing'\necho 'TWO = 2' >> calc.py\ngit commit -qam 'now it works'"),
    agreed("rewrites history of its own", "echo 'A = 1' >> calc.py\ngit commit -qam a\ngit commit -q --amend -m b\ngit checkout -q -b topic\necho 'B = 1' >> calc.py\ngit commit -qam c\ngit tag mine"),
    agreed("fails on its way", "false || true\nls /nowhere 2>&1 || true\necho 'FALLBACK = 1' >> calc.py\necho 'Error: a command failed; trying another way'"),
]  # fmt: skip
OF_RED = [
    proven("mends one of two red tests", MEND),
    agreed("leaves red what was red", "echo '# Calc' > README.md", kind="docs"),
    proven("mends the other", "printf '\\n\\ndef mul(a, b):\\n    return a * b\\n' >> calc.py", **criterion("python3 -B -c 'import calc; calc.mul(1, 2)'")),
]  # fmt: skip


def test_honest_work_with_pytest_completes(tmp_path: Path, thorough: bool) -> None:
    kinds = OF_PYTEST if thorough else [OF_PYTEST[0], *OF_PYTEST[6:8]]
    lineup.assert_everybody_completed(lineup.run(tmp_path, kinds, files=FILES, gates=[PYTEST], answer="yes"))


def test_honest_work_with_unittest_completes_and_every_answer_is_kept_and_told_in_the_commit(tmp_path: Path) -> None:
    ran = lineup.run(tmp_path, OF_UNITTEST, files=IN_UNITTEST, gates=[UNITTEST], answer="yes")
    lineup.assert_everybody_completed(ran)
    documented = ran.kinds[1]
    (told,) = (record.evidence for record in ran.records(documented))
    assert told is not None
    assert [(each.answer, each.file) for each in told.asked] == [("yes", "README.md")]
    assert told.judged_by == "model"
    message = ran.project.git("log", "-1", "--format=%B", ran.project.task_commits()[documented.id])
    assert "Ralph-Judged:" in message


@pytest.mark.parametrize("name", sample(["pytest", "unittest"], always=["unittest"]))
def test_honest_work_beside_red_tests_completes_and_the_end_is_told_as_it_is(tmp_path: Path, name: str) -> None:
    """While required gates are red the run does not end with 0; once all is mended it does."""
    gate, files = (PYTEST, {**FILES, **RED}) if name == "pytest" else (UNITTEST, {**IN_UNITTEST, **RED_IN_UNITTEST})
    ran = lineup.run(tmp_path, OF_RED[:2], files=files, gates=[gate], answer="yes")
    project = ran.project
    assert [project.task(kind.id).status for kind in ran.kinds] == ["completed", "completed"], ran.ran.out
    assert ran.ran.code == 3
    assert "all complete" not in ran.ran.out
    assert "tests: 1 failing" in ran.ran.out, ran.ran.out
    assert {each["title"] for each in lineup.asked(project)} == {"leaves red what was red"}
    last = lineup.run_in(project, OF_RED[2:])
    assert project.task(last.kinds[0].id).status == "completed", last.records(last.kinds[0])[-1].feedback
    assert last.ran.code == 0
    assert "all complete" in last.ran.out
