"""PRDs and iterations as bytes and back. Fast, and exact: what Ralph does not know in a file stays in it.

Text is UTF-8 with LF, indented by two spaces, keys in the order of the structs and then the unknown ones, so that a
change of one value is a change of one line in git.
"""

from collections.abc import Mapping
from functools import cache
from itertools import repeat
from math import isfinite
from types import GenericAlias
from typing import Any, TypeVar

import msgspec

from rulebook_ralph.core.criteria_reading import task_in_one_form
from rulebook_ralph.core.evidence import Iteration
from rulebook_ralph.core.model import PRD_VERSION, Json, Prd, Task, Totals, Value
from rulebook_ralph.core.nesting import nesting_faults
from rulebook_ralph.core.prd_rules import problems_of
from rulebook_ralph.core.problem import Fault, Problem, json_path
from rulebook_ralph.core.refusal import explained
from rulebook_ralph.errors import RalphError
from rulebook_ralph.state.json_position import line_of
from rulebook_ralph.state.malformed import malformation

PRD_NAME = ".rulebook-ralph/prd.json"
LARGEST_FILE = 256 * 1024 * 1024
"""Bytes; a larger prd.json or iteration file is refused instead of filling the memory."""

NEWER = f"is of a format newer than {PRD_VERSION}, made by a newer Ralph; upgrade Ralph to use it"

_EXTRA = "$extra"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_Members = dict[str, msgspec.Raw]
_V = TypeVar("_V", bound=Value)
_Kept = TypeVar("_Kept", Task, Prd, Totals)


def _names(kind: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(kind.__struct_encode_fields__) - {_EXTRA}


TASK_KEYS = _names(Task)
PRD_KEYS = _names(Prd)
TOTALS_KEYS = _names(Totals)
ITERATION_KEYS = _names(Iteration)


def decode_prd(data: bytes, *, name: str = PRD_NAME) -> Prd:
    """The PRD in a file's bytes, whole and checked. Raises RalphError with file, line and what is wrong."""
    quick = decode_prd_quick(data, name=name)
    try:
        prd = _with_unknown_keys(quick, data)
    except (UnicodeDecodeError, msgspec.ValidationError):  # in what was skipped until now
        prd = _prd_of(_decoded(data, name), data, name)
    if faults := problems_of(prd):
        raise _refusal(name, data, faults[0], more=len(faults) - 1)
    return _in_one_form(prd)


def _in_one_form(prd: Prd) -> Prd:
    """The PRD with the criteria and overrides of its tasks in camelCase; the very one given where no task has any."""
    if not any(task.completion or task.overrides for task in prd.tasks):
        return prd
    tasks = (task_in_one_form(task) if task.completion or task.overrides else task for task in prd.tasks)
    return msgspec.structs.replace(prd, tasks=tuple(tasks))


def decode_prd_quick(data: bytes, *, name: str = PRD_NAME) -> Prd:
    """The PRD for reading only, never for writing: unknown keys are lost, ids and dependencies unchecked."""
    try:
        prd = msgspec.json.decode(data.removeprefix(_BYTE_ORDER_MARK), type=Prd)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _prd_of(_decoded(data, name), data, name)
    _refuse_newer(prd.version, name)
    if prd.extra or prd.totals.extra or any(task.extra for task in prd.tasks):  # the file has that key itself
        return _prd_of(_decoded(data, name), data, name)
    return prd


def encode_prd(prd: Prd) -> bytes:
    """The bytes of prd.json."""
    whole = _without_tasks(prd)
    _require_finite(sum(task.cost_usd for task in prd.tasks))
    whole["tasks"] = [_merged(task, TASK_KEYS) if task.extra else task for task in prd.tasks]
    return _text(whole)


class PrdEncoder:
    """Encodes one PRD again and again, to the same bytes as `encode_prd`: a task that is the same object is not encoded
    twice, so that a change of one task in thousands is cheap, and no change at all costs nothing.
    """

    def __init__(self) -> None:
        self._tasks: tuple[Task, ...] = ()
        self._texts: list[bytes] = []
        self._last: tuple[Prd | None, bytes] = (None, b"")

    def encode(self, prd: Prd) -> bytes:
        """The bytes of prd.json."""
        if self._last[0] is not prd:
            self._last = (prd, self._encoded(prd))
        return self._last[1]

    def _encoded(self, prd: Prd) -> bytes:
        head, _, tail = _text(_without_tasks(prd)).partition(_NO_TASKS)
        if len(prd.tasks) == len(self._tasks):
            known = zip(prd.tasks, self._tasks, self._texts, strict=True)
            self._texts = [text if task is before else _indented(task) for task, before, text in known]
        else:
            self._texts = [_indented(task) for task in prd.tasks]
        self._tasks = prd.tasks
        if not self._texts:
            return head + _NO_TASKS + tail
        return b"".join((head, b'"tasks": [\n    ', b",\n    ".join(self._texts), b"\n  ]", tail))


_NO_TASKS = b'"tasks": []'


def _indented(task: Task) -> bytes:
    _require_finite(task.cost_usd)
    return _text(_merged(task, TASK_KEYS) if task.extra else task).rstrip(b"\n").replace(b"\n", b"\n    ")


def _require_finite(cost: float) -> None:
    if not isfinite(cost):
        raise ValueError("a cost that is no finite number cannot be written")


def _without_tasks(prd: Prd) -> Json:
    """All of a PRD but its tasks, which are an empty list in their place."""
    _require_finite(prd.totals.cost_usd)
    whole: Json = msgspec.to_builtins(msgspec.structs.replace(prd, tasks=()))
    for last in ("tasks", "totals", _EXTRA):
        whole.pop(last, None)
    whole["tasks"] = []
    whole["totals"] = _merged(prd.totals, TOTALS_KEYS)
    return whole | unknown_members(prd.extra, PRD_KEYS)


def decode_iteration(data: bytes, *, name: str) -> Iteration:
    """The iteration in a file's bytes. Raises RalphError with file, line and what is wrong."""
    raw = _decoded(data, name)
    iteration = _convert(_split(raw, ITERATION_KEYS), Iteration, data, name)
    if fault := next(nesting_faults(iteration.extra, ()), None):
        raise _refusal(name, data, fault)
    return iteration


def encode_iteration(iteration: Iteration) -> bytes:
    """The bytes of history/iteration-N.json."""
    return _text(_merged(iteration, ITERATION_KEYS) if iteration.extra else iteration)


def _prd_of(raw: Any, data: bytes, name: str) -> Prd:
    """A decoded document as a PRD with its unknown keys kept; ids and dependencies unchecked. Changes `raw`."""
    if isinstance(raw, dict):
        _refuse_newer(raw.get("version"), name)
        if isinstance(tasks := raw.get("tasks"), list):
            raw["tasks"] = [_split(task, TASK_KEYS) for task in tasks]
        if "totals" in raw:
            raw["totals"] = _split(raw["totals"], TOTALS_KEYS)
    return _convert(_split(raw, PRD_KEYS), Prd, data, name)


def checked_document(data: bytes, name: str) -> Any:
    """The bytes as plain JSON values; raises RalphError where they are no JSON text."""
    return _decoded(data, name)


def _checked_text(data: bytes, name: str) -> str:
    """The bytes as text; raises RalphError where they are empty, too many or not UTF-8."""
    if len(data) > LARGEST_FILE:
        raise RalphError(f"{name}: is larger than {LARGEST_FILE // 1024**2} MB; split the project")
    try:
        text = data.removeprefix(_BYTE_ORDER_MARK).decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise RalphError(f"{name}:{line}: is not UTF-8 text (byte {error.start})") from None
    if not text or text.isspace():
        raise RalphError(f"{name}: is empty; restore it from git")
    return text


def _with_unknown_keys(prd: Prd, data: bytes) -> Prd:
    """The PRD with every key of the file that its structs do not have; only the values of those keys are parsed."""
    data = data.removeprefix(_BYTE_ORDER_MARK)
    try:
        _known_keys_only().decode(data)
    except msgspec.ValidationError:
        return _with_members(prd, msgspec.json.decode(data, type=_Members))
    return prd


@cache
def _known_keys_only() -> msgspec.json.Decoder[Any]:
    """Refuses a PRD with an unknown key, and looks at nothing else, in a third of the time it takes to read one."""

    def shape(keys: frozenset[str], **inner: Any) -> type[msgspec.Struct]:
        fields = [(key, inner.get(key, msgspec.Raw), None) for key in sorted(keys)]
        return msgspec.defstruct("Shape", fields, forbid_unknown_fields=True, gc=False)

    tasks = GenericAlias(list, (shape(TASK_KEYS),))
    return msgspec.json.Decoder(shape(PRD_KEYS, tasks=tasks, totals=shape(TOTALS_KEYS)))


def _with_members(prd: Prd, top: _Members) -> Prd:
    changes: dict[str, Any] = {}
    if "tasks" in top:
        members = msgspec.json.decode(top["tasks"], type=list[_Members])
        if not all(map(TASK_KEYS.issuperset, members)):
            changes["tasks"] = tuple(map(_with_rest, prd.tasks, members, repeat(TASK_KEYS)))
    if "totals" in top:
        changes["totals"] = _with_rest(prd.totals, msgspec.json.decode(top["totals"], type=_Members), TOTALS_KEYS)
    return _with_rest(msgspec.structs.replace(prd, **changes), top, PRD_KEYS)


def _with_rest(value: _Kept, members: _Members, known: frozenset[str]) -> _Kept:
    if known.issuperset(members):
        return value
    extra = {key: msgspec.json.decode(member) for key, member in members.items() if key not in known}
    return msgspec.structs.replace(value, extra=extra)


def _decoded(data: bytes, name: str) -> Any:
    text = _checked_text(data, name)
    try:
        return msgspec.json.decode(data.removeprefix(_BYTE_ORDER_MARK))
    except (msgspec.DecodeError, RecursionError) as error:
        raise RalphError(f"{name}:{malformation(text, error)}") from None


def _convert(raw: Any, kind: type[_V], data: bytes, name: str) -> _V:
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise _refused(error, kind, data, name) from None


def _refused(error: msgspec.ValidationError, kind: Any, data: bytes, name: str) -> RalphError:
    return _refusal(name, data, explained(error, kind))


def _refusal(name: str, data: bytes, fault: Fault, *, more: int = 0) -> RalphError:
    line = line_of(data.removeprefix(_BYTE_ORDER_MARK).decode(), fault.path)
    others = f" (and {more} more: ralph validate)" if more else ""
    return RalphError(f"{Problem(name, line, json_path(fault.path), fault.message)}{others}")


def _refuse_newer(version: object, name: str) -> None:
    if isinstance(version, int) and not isinstance(version, bool) and version > PRD_VERSION:
        raise RalphError(f"{name}: version {str(version)[:20]} {NEWER}")


def _split(raw: Any, known: frozenset[str]) -> Any:
    """Move the unknown keys of a decoded object to where the struct keeps them."""
    if isinstance(raw, dict) and not known >= raw.keys():
        unknown = [key for key in raw if key not in known]
        raw[_EXTRA] = {key: raw.pop(key) for key in unknown}
    return raw


def _merged(value: Value, known: frozenset[str]) -> Json:
    fields: Json = msgspec.to_builtins(value)
    return fields | unknown_members(fields.pop(_EXTRA, {}), known)


def unknown_members(members: Mapping[str, Any], known: frozenset[str]) -> Json:
    """Those of an object's members whose keys are not `known`, in their order."""
    return {key: value for key, value in members.items() if key not in known}


def _text(value: object) -> bytes:
    try:
        compact = msgspec.json.encode(value)
    except UnicodeEncodeError:  # a lone surrogate, from an agent's own JSON or a file's name
        compact = msgspec.json.encode(_without_surrogates(msgspec.to_builtins(value)))
    return msgspec.json.format(compact, indent=2) + b"\n"


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_surrogates(item) for item in value]
    return value
