"""What the model that judges answered: read strictly, or refused with what is wrong (schemas/judgement.schema.json)."""

import re
from collections import Counter
from collections.abc import Collection
from typing import Literal

import msgspec

from rulebook_ralph.checks.model_answer import UnusableAnswerError, decoded, require_nonce

_FENCED = re.compile(
    r"^[ \t]*(`{3,})[ \t]*(?:json)?[ \t]*\n(.*?)\n[ \t]*\1[ \t]*$", re.DOTALL | re.MULTILINE | re.IGNORECASE
)


class Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line that the model points to; line 0 is what was said of the file itself."""

    file: str
    line: int
    quote: str


class Ruling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the model says of one criterion."""

    id: str
    verdict: Literal["met", "not_met", "unclear"]
    evidence: tuple[Place, ...]
    reason: str


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole answer."""

    nonce: str
    criteria: tuple[Ruling, ...]


def read_answer(text: str, *, nonce: str, ids: Collection[str]) -> dict[str, Ruling]:
    """The rulings by the id of their criterion, each of `ids` once. Raises UnusableAnswerError."""
    answer = decoded(_json_in(text), Answer)
    require_nonce(answer.nonce, nonce)
    counted = Counter(ruling.id for ruling in answer.criteria)
    if missing := [name for name in ids if name not in counted]:
        raise UnusableAnswerError(f"criteria without a judgement: {', '.join(missing)}")
    if unknown := [name for name in counted if name not in ids]:
        raise UnusableAnswerError(f"judgements of criteria that were not asked for: {', '.join(unknown)[:200]}")
    if repeated := [name for name, times in counted.items() if times > 1]:
        raise UnusableAnswerError(f"criteria with more than one judgement: {', '.join(repeated)}")
    return {ruling.id: ruling for ruling in answer.criteria}


def _json_in(text: str) -> str:
    """The answer without the code fence that some models put around it; a second fence would leave a choice."""
    whole = text.strip()
    if whole.startswith("{"):
        return whole
    fenced = _FENCED.findall(whole.replace("\r\n", "\n"))
    return str(fenced[0][1]) if len(fenced) == 1 else whole
