"""What the scripted model does well at the two tasks of the house (house.py)."""

from .house import ADD, DOUBLE, GATE
from .model.turns import Say, Shell, Turn, Write

PROMISE = "<promise>IMPLEMENTATION_COMPLETE</promise>"
DONE = Say(f"It is done.\n\n{PROMISE}")

_ADD = "def add(a, b):\n    return a + b\n"
_DOUBLE = "from add import add\n\n\ndef double(number):\n    return add(number, number)\n"
ADD_FILES, DOUBLE_FILES = ["add.py", "tests/test_add.py"], ["double.py", "tests/test_double.py"]
ADD_COMMIT = sorted([*ADD_FILES, f"rulebook/tasks/{ADD}/tasks.md"])  # the boxes are ticked in the commit of the work
DOUBLE_COMMIT = sorted([*DOUBLE_FILES, f"rulebook/tasks/{DOUBLE}/tasks.md"])


def adds() -> list[Turn]:
    """The work of the first task."""
    return [Write("add.py", _ADD), Write("tests/test_add.py", _test("add", "add(2, 3), 5"))]


def doubles() -> list[Turn]:
    """The work of the second task, and a look at whether it is well."""
    return [Write("double.py", _DOUBLE), Write("tests/test_double.py", _test("double", "double(4), 8")), Shell(GATE)]


def _test(name: str, equal: str) -> str:
    return (
        f"import unittest\n\nfrom {name} import {name}\n\n\nclass {name.title()}(unittest.TestCase):\n"
        f"    def test_{name}(self):\n        self.assertEqual({equal})\n"
    )
