"""The schemas say what the structs say: the same names, values and defaults, every one with a sentence."""

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator
from referencing import Registry

from rulebook_ralph import resources
from rulebook_ralph.core import criteria, criteria_reading, evidence, model, review, settings
from rulebook_ralph.core.problem import Fault
from rulebook_ralph.core.refusal import choices, fields_of, item_type, struct_in
from rulebook_ralph.core.struct_reading import read_struct, seconds
from tests.cases import each_of

KEYWORDS = frozenset(
    [
        "$schema",
        "$id",
        "$ref",
        "$defs",
        "title",
        "description",
        "type",
        "enum",
        "const",
        "default",
        "properties",
        "patternProperties",
        "items",
        "required",
        "additionalProperties",
        "anyOf",
        "allOf",
        "if",
        "then",
        "pattern",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "maximum",
        "minItems",
        "maxItems",
        "minLength",
    ]
)
NARROWER = ("pattern", "const", "minimum")
"""What a schema of state adds to the types of the structs; state/validation.py and core/prd_rules.py tell of it."""

SAMPLES: tuple[Any, ...] = (None, 3, -1, 2.5, "3x", "3m", True, [], {}, ["x"], [3], [{}], {"x": True}, {"x": "y"})
DESCRIBED: dict[str, tuple[str, type[msgspec.Struct]]] = {
    "prd": ("prd", model.Prd),
    "iteration": ("iteration", evidence.Iteration),
    "config": ("config", settings.Config),
    "prd/task": ("prd", model.Task),
    "prd/totals": ("prd", model.Totals),
    "prd/completion": ("prd", criteria_reading.WrittenStages),
    "prd/criteria": ("prd", criteria_reading.WrittenCriteria),
    "prd/stringMatch": ("prd", criteria.StringMatch),
    "prd/external": ("prd", criteria.External),
    "prd/semantic": ("prd", criteria.Semantic),
    "prd/multiStage": ("prd", criteria.MultiStage),
    "prd/part": ("prd", criteria.Part),
    "prd/overrides": ("prd", settings.Overrides),
    "prd/stopCriteria": ("prd", settings.StopCriteria),
    "iteration/verdict": ("iteration", evidence.Verdict),
    "iteration/decision": ("iteration", evidence.Decision),
    "iteration/review": ("iteration", review.Review),
    "iteration/issue": ("iteration", review.ReviewIssue),
    "iteration/issueCounts": ("iteration", review.IssueCounts),
    "iteration/look": ("iteration", review.Look),
    "iteration/check": ("iteration", evidence.CheckResult),
    "iteration/finding": ("iteration", evidence.Finding),
    "iteration/parsed": ("iteration", evidence.ParsedIteration),
    "iteration/tool": ("iteration", evidence.ToolResult),
    "iteration/usage": ("iteration", evidence.Usage),
    "iteration/fault": ("iteration", evidence.AgentFault),
    "config/executor": ("config", settings.Executor),
    "config/planner": ("config", settings.AskedModel),
    "config/reviewer": ("config", settings.Reviewer),
    "config/review": ("config", settings.Reviewing),
    "config/step": ("config", settings.VerificationStep),
    "config/tools": ("config", settings.Tools),
    "config/defaults": ("config", settings.Defaults),
    "config/verification": ("config", settings.Verification),
    "config/workspace": ("config", settings.Workspace),
    "config/stopCriteria": ("config", settings.StopCriteria),
    "config/hook": ("config", settings.Hook),
    "config/integrity": ("config", settings.Integrity),
    "config/judge": ("config", settings.Judge),
    "config/ralph": ("config", settings.Ralph),
    "config/roles": ("config", settings.Roles),
    "config/role": ("config", settings.Role),
    "config/limits": ("config", settings.Limits),
    "config/git": ("config", settings.Git),
    "config/price": ("config", settings.Price),
}


def _schemas(schema: dict[str, Any], *, conditions: bool = False) -> Iterator[dict[str, Any]]:
    """The schema and all schemas in it, those that only say which further one applies where asked for."""
    yield schema
    for inner in schema.get("allOf", ()) if conditions else ():
        for keyword in ("if", "then"):
            yield from _schemas(inner[keyword], conditions=True)
    for keyword in ("properties", "patternProperties", "$defs"):
        for inner in schema.get(keyword, {}).values():
            yield from _schemas(inner, conditions=conditions)
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            yield from _schemas(schema[keyword], conditions=conditions)
    for inner in schema.get("anyOf", ()):
        yield from _schemas(inner, conditions=conditions)


def _part(name: str) -> dict[str, Any]:
    whole = resources.schema(name.partition("/")[0])
    inner = name.partition("/")[2]
    part: dict[str, Any] = whole if not inner else whole["$defs"].get(inner) or whole["properties"][inner]
    return part


@pytest.mark.parametrize("name", resources.SCHEMAS)
def test_each_schema_is_valid_and_has_no_misspelt_keyword(name: str) -> None:
    schema = resources.schema(name)
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    for part in _schemas(schema, conditions=True):
        assert part.keys() <= KEYWORDS
        assert set(part.get("required", ())) <= part.get("properties", {}).keys()
        if "$ref" in part:
            assert part["$ref"].removeprefix("#/$defs/") in schema["$defs"]
        re.compile(part.get("pattern", ""))


@pytest.mark.parametrize("name", resources.SCHEMAS)
def test_each_property_is_described_in_a_sentence(name: str) -> None:
    for part in _schemas(resources.schema(name)):
        for key, described in part.get("properties", {}).items():
            assert re.fullmatch(r"[A-Z`].{8,}\.", described["description"]), key


@pytest.mark.parametrize("name", resources.SCHEMAS)
def test_the_file_is_laid_out_for_people(name: str) -> None:
    text = (resources.template_folder().parent / "schemas" / f"{name}.schema.json").read_text("utf-8")
    assert text == json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n"


@each_of("name", DESCRIBED)
def test_schema_and_struct_have_the_same_properties(name: str) -> None:
    struct, described = DESCRIBED[name][1], _part(name)
    fields = {field.encode_name: field for field in fields_of(struct) if field.encode_name != "$extra"}
    assert list(described["properties"]) == list(fields)
    assert set(described.get("required", ())) == {name for name, field in fields.items() if field.required}
    assert described["additionalProperties"] is (not issubclass(struct, settings.Settings))


@each_of("name", DESCRIBED)
def test_schema_and_struct_have_the_same_types_and_choices(name: str) -> None:
    schema, described = resources.schema(DESCRIBED[name][0]), _part(name)
    left_out = () if issubclass(DESCRIBED[name][1], settings.Settings) else NARROWER
    for field in fields_of(DESCRIBED[name][1]):
        if field.encode_name == "$extra":
            continue
        prop = {key: value for key, value in described["properties"][field.encode_name].items() if key not in left_out}
        allowed = tuple(value for value in prop.get("enum", ()) if value is not None)
        assert allowed == choices(field.type), field.name
        validator = Draft202012Validator({**prop, "$defs": schema.get("$defs", {})}, registry=Registry())
        for sample in SAMPLES:
            assert validator.is_valid(sample) == _accepts(DESCRIBED[name][1], field, sample), (field.name, sample)


def _accepts(struct: type[msgspec.Struct], field: msgspec.structs.FieldInfo, sample: Any) -> bool:
    """Whether a reader of Ralph takes the sample as the value of the field."""
    if struct is criteria_reading.WrittenStages:
        return not [*criteria_reading.completion_faults({field.encode_name: sample}, ())]
    if issubclass(struct, settings.Settings):
        faults: list[Fault] = []
        written = {field.encode_name: sample}
        read_struct(
            criteria_reading.with_lists(written) if struct is criteria.Semantic else written, struct, (), faults
        )
        return not any(fault.path[:1] == (field.encode_name,) for fault in faults)
    try:
        value = msgspec.convert(sample, field.type)
    except msgspec.ValidationError:
        return False
    reader = {"completion": criteria_reading.completion_faults, "overrides": criteria_reading.override_faults}.get(
        field.name
    )
    return reader is None or not [*reader(value, ())]


@each_of("name", [name for name in DESCRIBED if name.startswith("config")])
def test_the_defaults_in_the_schema_are_the_built_in_ones(name: str) -> None:
    for field in fields_of(DESCRIBED[name][1]):
        described = _part(name)["properties"][field.encode_name]
        if field.required or struct_in(field.type):
            assert "default" not in described
        else:
            default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
            assert json.dumps(described["default"]) == json.dumps(default), field.name


@pytest.mark.parametrize("name", ["config", "config/tools", "config/verification", "config/integrity"])
def test_each_list_of_the_configuration_can_be_added_to(name: str) -> None:
    lists = [field.encode_name for field in fields_of(DESCRIBED[name][1]) if item_type(field.type) is not None]
    assert {f"^\\+{key}$" for key in lists} == _part(name)["patternProperties"].keys()


@each_of("name", [name for name in DESCRIBED if name.startswith("prd/")])
def test_criteria_and_overrides_may_be_written_in_snake_case(name: str) -> None:
    described = _part(name)
    if described["additionalProperties"] is True:
        return
    names = {key: re.sub(r"[A-Z]", lambda upper: "_" + upper[0].lower(), key) for key in described["properties"]}
    for key, snake in names.items():
        if snake != key:
            same = {word: value for word, value in described["properties"][key].items() if word != "description"}
            found = described["patternProperties"][f"^{snake}$"]
            assert found == {"description": f"The same as `{key}`.", **same}


@each_of("text", ["90s", "15m", "1h", "1h30m", "2d", "1.5h", "", "90", "1m1h", "m", "1 h", "-5s", "5S"])
def test_the_schema_takes_the_times_that_ralph_reads(text: str) -> None:
    duration = Draft202012Validator(resources.schema("config")["$defs"]["duration"])
    assert duration.is_valid(text) == (seconds(text) is not None)


def test_templates_are_found_by_name() -> None:
    folder = resources.template_folder()
    assert folder.is_dir()
    name = next(file for file in folder.rglob("*") if file.is_file()).relative_to(folder).as_posix()
    assert resources.template_text(name) == (folder / name).read_text("utf-8")
