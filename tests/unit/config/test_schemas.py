"""The schemas are what the structs say, the files in the repository are current, and both agree with the reader."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from referencing import Registry

from rulebook_ralph.config.rules import checked
from rulebook_ralph.config.settings import Config
from rulebook_ralph.config.template import commented_config, descriptions
from rulebook_ralph.tasks.plain_yaml import read_yaml
from rulebook_ralph.tasks.struct_reading import fields_of, item_type, struct_by_name, struct_in
from scripts import schemas, settings

FOLDER = Path(__file__).parents[3] / "schemas"


@pytest.mark.parametrize("name", schemas.DOCUMENTS)
def test_the_files_are_current(name: str) -> None:
    hint = "write them anew: python -m scripts.schemas"
    assert (FOLDER / f"{name}.schema.json").read_bytes() == schemas.encoded(name), hint


@pytest.mark.parametrize("name", schemas.DOCUMENTS)
def test_they_are_schemas(name: str) -> None:
    Draft202012Validator.check_schema(schemas.schema(name))


def test_the_reference_of_the_documentation_is_current() -> None:
    text = settings.PAGE.read_text("utf-8")
    assert "| `maxCostUsd` | none | Cost of one run" in text
    assert text == settings.page(text), "write it anew: python -m scripts.settings"


def test_every_key_of_the_configuration_is_described() -> None:
    seen: set[type[msgspec.Struct]] = set()
    left: list[Any] = [Config]
    while left:
        struct: Any = left.pop()
        seen.add(struct)
        for field in fields_of(struct):
            inner = struct_in(field.type) or struct_in(item_type(field.type)) or struct_by_name(field.type)
            described = descriptions(struct).get(field.encode_name, "")
            assert described or (inner and descriptions(inner)[""]), f"{struct.__name__}.{field.encode_name}"
            left += [inner] if inner and inner not in seen else []
        known = {field.encode_name for field in fields_of(struct)}
        assert descriptions(struct).keys() - {""} <= known


VALIDATOR = Draft202012Validator(schemas.schema("config"), registry=Registry())


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        (commented_config(), True),
        ("limits: {idleTimeout: 15m, maxRunWallTime: null, maxWallTime: 60}\n", True),
        ("limits: {idleTimeout: soon}\n", False),
        ("limits: {maxCost: 1}\n", False),
        ("limits:\nrules:\n", True),
        ("+rules: [a]\nverification: {+steps: [{name: a, command: b}]}\n", True),
        ("+limits: {}\n", False),
        ("sandbox: off\nparallel: 3\n", True),
        ("sandbox: maybe\n", False),
        ("+checks:\nprices:\n", True),
        ("parallel: 0\n", False),
        ("parallel: {workers: 65}\n", False),
        ("prices: {m: {input: 1, output: 2}}\n", True),
        ("prices: {m: {input: 1}}\n", False),
        ("stages: [coder, codr]\n", False),
        ("tools: {executors: [{id: a}]}\n", False),
    ],
)
def test_the_schema_and_the_reader_agree(text: str, valid: bool) -> None:
    value = read_yaml(text).value
    assert VALIDATOR.is_valid(value) == valid
    assert (not checked(value)[1]) == valid


@given(st.recursive(st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["off", "5m", ""]),
                    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["name", "steps", "workers", "mode"]), inner, max_size=2)),
       st.sampled_from(["limits", "rules", "verification", "parallel", "sandbox", "prices", "stages", "git", "+checks"]))  # fmt: skip
def test_what_the_reader_takes_the_schema_allows(value: Any, section: str) -> None:
    if not checked({section: value})[1]:
        assert VALIDATOR.is_valid({section: value})
