"""The files that come with Ralph: JSON Schemas, and templates of prompts and projects."""

import json
from functools import cache
from pathlib import Path
from typing import Any

SCHEMAS = ("prd", "iteration", "config", "report", "review", "judgement", "plan", "event")


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema of that name (one of SCHEMAS), freshly parsed."""
    parsed: dict[str, Any] = json.loads(_folder("schemas").joinpath(f"{name}.schema.json").read_bytes())
    return parsed


def template_folder() -> Path:
    """The folder of the templates."""
    return _folder("templates")


def template_text(name: str) -> str:
    """A template by its path below the folder, `/` between its parts."""
    return template_folder().joinpath(*name.split("/")).read_text(encoding="utf-8")


@cache
def _folder(name: str) -> Path:
    """Inside the package where it was installed from a wheel, beside it in a source tree or an editable install."""
    package = Path(__file__).resolve().parent
    inside = package / name
    return inside if inside.is_dir() else package.parent / name
