"""Scripts of a package.json that a gate reaches."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping

_CALL = re.compile(r"\b(?:npm|pnpm|yarn|bun)\b(?:\s+(?:run|run-script|-\S+))*\s+([\w:./-]+)")
_MANY = re.compile(r"\b(?:npm-run-all2?|run-s|run-p|concurrently|turbo(?:\s+run)?|wireit|nx)\b([^&|;]*)")
_OF_CHECKS = re.compile(
    r"test|lint|check|type|tsc|build|\bci\b|cov|verif|spec|e2e|format|prettier|valid", re.IGNORECASE
)


def changed_scripts(before: str, after: str, wanted: frozenset[str], *, all_count: bool) -> Iterator[str]:
    """Names of scripts that a gate reaches and that were changed, removed, or put before or after one of these.

    `wanted` are scripts that gates name; `all_count`: a gate may run any, so all that are for checks are reached.
    """
    old, new = _scripts(before), _scripts(after)
    reached = _reached(old, set(wanted))
    if all_count or not reached:
        reached |= _reached(old, {name for name in old if _OF_CHECKS.search(name)})
    around = {f"{when}{name}" for name in reached for when in ("pre", "post")}
    for name in sorted(reached | around):
        if old.get(name) != new.get(name):
            yield name


def commands_of(text: str, wanted: Iterable[str]) -> list[str]:
    """The commands of the scripts that are reached from those."""
    scripts = _scripts(text)
    return [scripts[name] for name in _reached(scripts, set(wanted))]


def _reached(scripts: Mapping[str, str], wanted: set[str]) -> set[str]:
    reached: set[str] = set()
    waiting = list(wanted)
    while waiting:
        name = waiting.pop()
        if name in reached or name not in scripts:
            continue
        reached.add(name)
        text = scripts[name]
        words = [
            *_CALL.findall(text),
            *(word for rest in _MANY.findall(text) for word in re.findall(r"[\w:.*-]+", rest)),
        ]
        for word in words:
            waiting += [other for other in scripts if _is_meant(word, other)]
        waiting += [f"pre{name}", f"post{name}"]
    return reached


def _is_meant(word: str, name: str) -> bool:
    """Whether a word (`test:*` among them) means a script; `t` and `test` are npm's own words."""
    return name == word or (word.endswith("*") and name.startswith(word.rstrip("*")))


def _scripts(text: str) -> dict[str, str]:
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    scripts = manifest.get("scripts") if isinstance(manifest, dict) else None
    if not isinstance(scripts, dict):
        return {}
    return {name: " ".join(command.split()) for name, command in scripts.items() if isinstance(command, str)}
