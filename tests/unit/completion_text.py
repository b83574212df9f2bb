"""Writes tasks with completion criteria as YAML, in the keys of the specification, for completion_yaml to read."""

from collections.abc import Sequence
from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.representer import SafeRepresenter

from rulebook_ralph.core.criteria import STAGES
from rulebook_ralph.core.criteria_reading import canonical, canonical_overrides
from rulebook_ralph.core.model import Json, Task
from rulebook_ralph.sources.completion_task import SPEC_ID, snake

_WIDTH = 100


def _values(task: Task) -> Json:
    """What a person wrote of a task, as the plain values of a YAML file; not how far the task is."""
    metadata = dict(task.metadata)
    spec_id = metadata.pop(SPEC_ID) if metadata.get(SPEC_ID) and isinstance(metadata[SPEC_ID], str) else ""
    criteria = canonical(task.completion)
    completion: Json = {"outcome": task.outcome, "acceptance_criteria": list(task.acceptance_criteria)}
    completion |= {stage: _snake_keys(criteria[stage]) for stage in STAGES if stage in criteria}
    whole: Json = {
        "id": task.id,
        "spec_id": spec_id,
        "title": task.title,
        "description": task.description,
        "priority": task.priority,
        "dependencies": list(task.dependencies),
        "estimated_complexity": task.estimated_complexity,
        "relevant_files": list(task.relevant_files),
        "markers": list(task.markers),
        "notes": task.notes,
        "completion": _what_is_said(completion),
        "overrides": _snake_keys(canonical_overrides(task.overrides)),
        "metadata": metadata,
    }
    return _what_is_said(whole)


def to_text(tasks: Sequence[Task]) -> str:
    """The text of a YAML file: `task:` for one task, a list for any other number."""

    class Representer(SafeRepresenter):
        """Chooses the style of a text itself: ruamel's own choice loses control characters and some line breaks."""

        def text(self, text: str) -> Any:
            return self.represent_scalar("tag:yaml.org,2002:str", text, style=_style(text))

    Representer.add_representer(str, Representer.text)
    yaml = YAML(typ="safe", pure=True)
    yaml.Representer = Representer
    yaml.default_flow_style = False
    yaml.allow_unicode = True
    yaml.width = _WIDTH
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # ruamel's own annotation is None
    values = [_values(task) for task in tasks]
    stream = StringIO()
    yaml.dump({"task": values[0]} if len(values) == 1 else values, stream)
    return stream.getvalue()


def _style(text: str) -> str | None:
    """Lines for lines, quotes with escapes for whatever cannot be seen, else as plain as it can be."""
    if "\n" in text and all(line.isprintable() and line == line.strip() for line in text.split("\n")):
        return "|"
    return None if text.isprintable() else '"'


def _what_is_said(values: Json) -> Json:
    return {key: value for key, value in values.items() if value}


def _snake_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {snake(key): _snake_keys(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_snake_keys(item) for item in value]
    return value
