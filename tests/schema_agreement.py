"""Whether a reader of JSON and the schema that describes it take the same answers."""

from collections.abc import Iterator
from typing import Any

import msgspec
from jsonschema import Draft202012Validator
from referencing import Registry

OTHERS: tuple[Any, ...] = (None, 1, 3, -1, 1.5, True, [], {}, ["x"], [1], "", "x", "low", "met", "SHIP")


def require_agreement(answer: Any, reader: type[Any], schema: dict[str, Any]) -> None:
    """Both take an answer, and the same of all that come of it by one change; some of those, but not most."""
    validator = Draft202012Validator(schema, registry=Registry())
    verdicts = []
    for changed in changes(answer):
        try:
            msgspec.convert(changed, reader, strict=True)
            verdicts.append(True)
        except msgspec.ValidationError:
            verdicts.append(False)
        assert verdicts[-1] == validator.is_valid(changed), changed
    assert 5 < verdicts.count(True) < verdicts.count(False)
    assert verdicts[0]


def changes(value: Any) -> Iterator[Any]:
    """The value, then with each part of it replaced, left out or added to in turn."""
    yield value
    yield from OTHERS
    if isinstance(value, list):
        for place, each in enumerate(value):
            yield from ([*value[:place], changed, *value[place + 1 :]] for changed in changes(each))
    if isinstance(value, dict):
        yield {**value, "more": 1}
        for key, each in value.items():
            yield {name: kept for name, kept in value.items() if name != key}
            yield from ({**value, key: changed} for changed in changes(each))
