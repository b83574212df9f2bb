"""The words of a task as JSON (task_words) with some taken away and others laid over."""

from collections.abc import Iterable
from typing import Any

from rulebook_ralph.core.model import Json
from rulebook_ralph.core.struct_reading import camel

Place = tuple[str, ...]
"""Keys from the top of a task to one value of it."""


def reworded(words: Json, clear: Iterable[Place], merge: Json) -> Json:
    """The words without what `clear` names, and with `merge`, objects key by key."""
    for place in clear:
        words = _without(words, place)
    merge = _one_form(merge)
    return _merged(_without_old_configuration(words, merge), merge)


def _one_form(merge: Json) -> Json:
    """The same with criteria in camelCase."""
    if not isinstance(stages := merge.get("completion"), dict):
        return merge
    return {**merge, "completion": {stage: _camelled(each, "verificationConfig") for stage, each in stages.items()}}


def _without_old_configuration(words: Json, merge: Json) -> Json:
    """The words without the configuration of every stage that gets another method: it would not fit."""
    held, given = words.get("completion"), merge.get("completion")
    if not isinstance(held, dict) or not isinstance(given, dict):
        return words
    for stage, criteria in given.items():
        old = held.get(stage)
        if isinstance(old, dict) and isinstance(criteria, dict):
            method = old.get("verificationMethod", "string_match")
            if criteria.get("verificationMethod", method) != method:
                words = _without(words, ("completion", stage, "verificationConfig"))
    return words


def _camelled(value: Any, inside: str = "") -> Any:
    if not isinstance(value, dict):
        return value
    return {camel(key): _camelled(item) if camel(key) == inside else item for key, item in value.items()}


def _merged(below: Json, above: Json) -> Json:
    whole = dict(below)
    for key, value in above.items():
        held = whole.get(key)
        whole[key] = _merged(held, value) if isinstance(held, dict) and isinstance(value, dict) else value
    return whole


def _without(words: Json, place: Place) -> Json:
    if not place or place[0] not in words:
        return words
    key, *rest = place
    if rest and isinstance(words[key], dict):
        return {**words, key: _without(words[key], tuple(rest))}
    return {name: value for name, value in words.items() if name != key}
