"""Test frameworks, builtins and what is tested, replaced in whatever way; and what honest tests replace."""

from collections.abc import Mapping

import pytest

from tests.cases import each_of
from tests.integrity_case import PYTEST, step, told

HOOK = "pytest_collection_modifyitems"
HOOKS: Mapping[str, str] = {
    "assigned": f"{HOOK} = lambda items: items.clear()\n",
    "assigned with a type": f"{HOOK}: object = print\n",
    "imported": f"from tools import {HOOK}\n",
    "imported by another name": f"from tools import clear as {HOOK}\n",
    "imported among others": f"from tools import (\n    clear,\n    {HOOK},\n)\n",
    "imported among others by another name": f"from tools import (\n    clear as {HOOK},\n)\n",
    "put into the globals": f"globals()['{HOOK}'] = print\n",
    "put into the globals together": "globals().update(named)\n",
    "put into the module": f"import sys\nsetattr(sys.modules[__name__], '{HOOK}', print)\n",
    "a list that is appended to": "collect_ignore.append('tests/test_a.py')\n",
    "options": "def pytest_configure(config):\n    config.option.keyword = 'nothing'\n",
    "arguments": "def pytest_configure(config):\n    config.args[:] = []\n",
}


@each_of("way", HOOKS)
def test_hooks_however_they_come_into_a_conftest(way: str) -> None:
    before = {"tests/conftest.py": "import pytest\n"}
    after = {"tests/conftest.py": f"import pytest\n{HOOKS[way]}"}
    assert told(before, after), way
    assert told(before, after, description="Change tests/conftest.py.") == []
    assert told({}, {"conftest.py": HOOKS[way]}), way


def test_hooks_in_a_new_plugin_however_they_come_there() -> None:
    for way in ("assigned", "imported", "imported among others", "put into the globals"):
        assert told({}, {"helpers/plugin.py": HOOKS[way]}), way
    assert told({}, {"docs/hooks.py": f"NAMES = {{'{HOOK}': 1}}  # {HOOK} is called by pytest\n"}) == []


@pytest.mark.parametrize("path", ["pyproject.toml", "setup.cfg", "setup.py"])
def test_a_plugin_that_the_package_announces(path: str) -> None:
    text = {
        "pyproject.toml": '[project]\nname = "a"\n\n[project.entry-points.pytest11]\na = "a.plugin"\n',
        "setup.cfg": "[options.entry_points]\npytest11 =\n    a = a.plugin\n",
        "setup.py": 'setup(entry_points={"pytest11": ["a = a.plugin"]})\n',
    }[path]
    assert "a plugin of pytest is announced" in told({}, {path: text})[0]
    assert told({path: text}, {path: text + "\n"}) == []


PATCHES: Mapping[str, str] = {
    "a class that is imported": "from pytest import Function\nFunction.runtest = lambda self: None\n",
    "by another name": "from unittest import TestCase as Base\nBase.assertEqual = print\n",
    "by an alias": "import unittest\nT = unittest.TestCase\nT.assertEqual = print\n",
    "setattr": "from unittest import TestCase\nsetattr(TestCase, 'assertEqual', print)\n",
    "patch": "from unittest import mock\nmock.patch('unittest.TestCase.assertEqual', print).start()\n",
    "patch.object": "from unittest import TestCase, mock\nmock.patch.object(TestCase, 'assertEqual', print).start()\n",
    "getattr": "import pytest\ngetattr(pytest, 'Function').runtest = print\n",
    "import_module": "import importlib\nimportlib.import_module('pytest').Function.runtest = print\n",
    "sys.modules": "import sys\nsys.modules['pytest'] = sys\n",
    "in a function": "def fix():\n    from _pytest.runner import CallInfo\n    CallInfo.from_call = print\n",
    "vars": "import builtins\nvars(builtins)['AssertionError'] = Warning\n",
    "a builtin": "import builtins\nbuiltins.AssertionError = Warning\n",
    "a builtin for all": (
        "import builtins\nimport pytest\n\n\n@pytest.fixture(autouse=True)\ndef same(monkeypatch):\n"
        "    monkeypatch.setattr(builtins, 'isinstance', print)\n"
    ),
}


@each_of("way", PATCHES)
@each_of("path", ["tests/conftest.py", "app/start.py"])
def test_a_framework_that_is_changed(way: str, path: str) -> None:
    assert told({path: "x = 1\n"}, {path: f"x = 1\n{PATCHES[way]}"}), way
    assert told({path: PATCHES[way]}, {path: f"x = 1\n{PATCHES[way]}"}) == [], "it was there"


HONEST = [
    "import unittest\nunittest.TestCase.maxDiff = None\n",
    "import builtins\nbuiltins._ = str\n",
    "import builtins\n\ndef test_a(monkeypatch):\n    monkeypatch.setattr(builtins, 'sorted', print)\n    assert f()\n",
    "from unittest import mock\n\n@mock.patch('app.calc.clock')\ndef test_a(clock):\n    assert f()\n",
    "import os\n\ndef test_a(monkeypatch):\n    monkeypatch.setattr(os, 'environ', {})\n    assert f()\n",
    "import sys\nfrom unittest.mock import MagicMock\nsys.modules['RPi'] = MagicMock()\n",
    "import pytest\n\n@pytest.fixture(autouse=True)\ndef quiet(monkeypatch):\n    monkeypatch.setattr('requests.get', print)\n",
    "import pytest\n\n@pytest.fixture\ndef calc(monkeypatch):\n    monkeypatch.setattr('app.calc.add', print)\n",
    "import pytest\n\n@pytest.fixture(autouse=True)\ndef slow(monkeypatch):\n    monkeypatch.setattr('app.calc.LIMIT', 3)\n",
    "from app import calc\n\n\ndef test_new(monkeypatch):\n    monkeypatch.setattr(calc, 'add', print)\n    assert f()\n",
]


@each_of("text", HONEST)
def test_what_honest_tests_replace(text: str) -> None:
    calc = {"app/calc.py": "LIMIT = 2\n\n\ndef add(a, b):\n    return a + b\n"}
    assert told({**calc, "tests/conftest.py": "x = 1\n"}, {**calc, "tests/conftest.py": f"x = 1\n{text}"}) == []
    assert told(calc, {"app/calc.py": calc["app/calc.py"] + "\n", "tests/test_new.py": text}) == []


CALC = {
    "app/calc.py": "def add(a, b):\n    return a - b\n",
    "tests/test_calc.py": "from app.calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
    "tests/conftest.py": "import pytest\n\n\n@pytest.fixture\ndef data():\n    return 1\n",
}
SUBJECTS: Mapping[str, tuple[str, str]] = {
    "where it is loaded": ("tests/conftest.py", "import app.calc\napp.calc.add = lambda a, b: 3\n"),
    "by another import": ("tests/conftest.py", "from app import calc\ncalc.add = lambda a, b: 3\n"),
    "in the tests' package": ("tests/__init__.py", "from app import calc\ncalc.add = lambda a, b: 3\n"),
    "for all tests": (
        "tests/conftest.py",
        "@pytest.fixture(autouse=True)\ndef all(monkeypatch):\n    monkeypatch.setattr('app.calc.add', lambda a, b: 3)\n",
    ),
    "in a fixture that was there": (
        "tests/conftest.py",
        "import app\n\n\n@pytest.fixture\ndef data(mocker):\n    mocker.patch.object(app.calc, 'add', return_value=3)\n",
    ),
    "the whole module": ("tests/conftest.py", "import sys\nsys.modules['app.calc'] = sys\n"),
    "the whole module by a dict": (
        "tests/conftest.py",
        "import sys\n\n\ndef setup_module():\n    import app.calc\n    vars(app.calc)['add'] = max\n",
    ),
}


@pytest.mark.parametrize("way", SUBJECTS)
def test_what_is_tested_is_not_to_be_replaced(way: str) -> None:
    path, text = SUBJECTS[way]
    before = CALC if path in CALC else {**CALC, path: ""}
    (found,) = told(before, {**before, path: f"{before[path]}\n\n{text}"})
    assert "calc" in found
    assert "replaced by something else" in found
    assert told(before, {**before, path: before[path] + text}, relevant_files=[path]) == []


def test_what_any_test_below_calls_is_not_to_be_replaced() -> None:
    before = {
        "calc.py": "VERBOSE = False\n\n\ndef add(a, b):\n    return a - b\n\n\ndef send():\n    return 1\n",
        "acceptance/test_it.py": "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
        "other/test_send.py": "from calc import send\n\n\ndef test_send():\n    assert send() == 1\n",
    }
    new = {"acceptance/conftest.py": "import calc\n\ncalc.add = lambda a, b: a + b\n"}
    (found,) = told(before, before | new)
    assert found.endswith("`add` of calc.py, which is tested, is replaced by something else for all tests")
    for line in ("calc.VERBOSE = True", "calc.send = lambda: None"):
        assert told(before, before | {"acceptance/conftest.py": f"import calc\n\n{line}\n"}) == []


def test_a_test_that_was_there_and_now_replaces_what_it_tested() -> None:
    patched = CALC["tests/test_calc.py"].replace("def test", "@mock.patch('app.calc.add', max)\ndef test")
    (found,) = told(CALC, {**CALC, "tests/test_calc.py": patched})
    assert "`test_add` tested `add`, and now replaces it" in found
    other = patched.replace("calc.add", "calc.clock")
    assert told(CALC, {**CALC, "tests/test_calc.py": other}) == []


def test_a_module_that_was_added_with_the_work_is_tested_too() -> None:
    files = {"src/shop/price.py": "def total():\n    return 0\n"}
    conftest = {"tests/conftest.py": "import shop.price as p\np.total = lambda: 3\n"}
    assert (
        "`total` of src/shop/price.py" in told({}, {**files, **conftest}, steps=[PYTEST, step("ruff check", "lint")])[0]
    )


NODE = step("node --test")
NODE_PATCHES = [
    "assert.equal = () => {};",
    "require('node:assert').equal = () => {};",
    "require('assert')['strictEqual'] = () => {};",
    "const a = require('node:assert/strict');\na.deepEqual = () => true;",
    "import { expect as e } from 'chai';\ne.prototype.x = 1;",
    "Object.assign(assert, { equal() {} });",
    "Object.defineProperty(chai.Assertion, 'x', {});\nchai.Assertion.prototype.assert = () => {};",
    "global.expect = () => new Proxy({}, {});",
    "expect.extend({ toBe: () => ({ pass: true }) });",
    "require.cache[require.resolve('./app')] = { exports: {} };",
    "const Module = require('module');\nModule._load = (name) => ({});",
    "process.exit = () => {};",
    "process.on('exit', () => { process.exitCode = 0; });",
    "process.exitCode = 0;",
]
NODE_HONEST = [
    "const assert = require('node:assert');\nassert.equal(1, app.one);",
    "global.expect = require('chai').expect;",
    "expect.extend({ toBeOne: (value) => ({ pass: value === 1 }) });",
    "delete require.cache[require.resolve('./app')];",
    "process.exitCode = 1;",
    "app.equal = (a) => a;",
    "const expected = assert.calls === 3;",
    "// assert.equal = () => {};",
    "process.on('exit', () => server.close());",
    "jest.mock('../src/mail');",
]


@each_of("text", NODE_PATCHES)
def test_javascript_that_changes_assertions(text: str) -> None:
    for path in ("test/setup.js", "src/app.ts", "test/app.test.mjs"):
        assert told({}, {path: f"{text}\n"}, steps=[NODE]), path
    assert told({}, {"src/app.js": f"{text}\n"}, steps=[NODE], description="Write src/app.js") == []


@each_of("text", NODE_HONEST)
def test_javascript_that_changes_none(text: str) -> None:
    assert told({}, {"test/setup.js": f"{text}\n", "src/app.ts": f"{text}\n"}, steps=[NODE]) == []
