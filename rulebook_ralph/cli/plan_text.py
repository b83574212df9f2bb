"""A plan as a person sees it before agreeing: all of it, uncut, nothing in it unseen."""

import json
import re
from collections.abc import Iterator
from typing import Any

from rulebook_ralph.tasks.model import Json, Prd
from rulebook_ralph.tasks.plan import Plan
from rulebook_ralph.tasks.results import Usage
from rulebook_ralph.tasks.text import counted, escaped, money
from rulebook_ralph.tasks.text import tokens as told_tokens

_BLANKS = re.compile(" {3,}")
_INDENTED = 40
_EMPTY_GLYPHS = re.compile("[\u034f\u115f\u1160\u2800\u3164\uffa0]")
"""They count as printable, and show nothing."""


def lines_of(plan: Plan, prd: Prd) -> Iterator[str]:
    """What the plan adds to the task list: a line with `+` for each that it brings."""
    yield f"prd.json: {counted(len(plan.tasks), 'new task')} beside the {len(prd.tasks)} there"
    for task in plan.tasks:
        yield ""
        yield from (f"+ {line}".rstrip() for line in _task(task))


def _task(task: Json) -> Iterator[str]:
    yield whole(f"{task['id']}: {task['title']}")
    facts = [f"priority {task['priority']}", task.get("estimatedComplexity", "")]
    if task["dependencies"]:
        facts.append(f"after {', '.join(task['dependencies'])}")
    yield f"  {whole(', '.join(filter(None, facts)))}"
    yield from (f"  {whole(line)}" for line in task["description"].strip().splitlines())
    yield f"  outcome: {whole(task['outcome'])}"
    yield from (f"  - {whole(criterion)}" for criterion in task["acceptanceCriteria"])
    if task["relevantFiles"]:
        yield f"  reads first: {whole(', '.join(task['relevantFiles']))}"
    for stage, criteria in task.get("completion", {}).items():
        yield from (f"  {stage}: {line}" for line in _criteria(criteria))


def _criteria(criteria: Json) -> Iterator[str]:
    """What verifies a stage, a command in plain words; whatever else stands there follows."""
    rest = dict(criteria)
    config = dict(rest.pop("verificationConfig", {}))
    method = rest.pop("verificationMethod", "")
    if "command" in config:
        yield f"runs: {whole(str(config.pop('command')))}"
    elif method:
        yield f"verified: {whole(str(method))}"
    yield from (f"{whole(key)}: {whole(_text(value))}" for key, value in (config | rest).items())


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def spent(usage: Usage, cost_usd: float | None) -> str:
    """What the planner took, as far as it was told."""
    parts = [told_tokens(usage.total)] if usage.total else []
    parts.append("cost unknown" if cost_usd is None else money(cost_usd))
    return ", ".join(parts)


def whole(text: str) -> str:
    """The text uncut, in one line. Three or more blanks are told by their number, unless they only indent it."""
    margin = len(text) - len(text.lstrip(" "))
    indent, rest = (text[:margin], text[margin:]) if margin <= _INDENTED else ("", text)
    seen = _EMPTY_GLYPHS.sub(lambda match: f"\\u{ord(match[0]):04x}", escaped(rest, len(rest)))
    return indent + _BLANKS.sub(lambda match: f"␣\u00d7{len(match[0])}", seen)
