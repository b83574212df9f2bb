"""What a user's hook command is told of an attempt: schemas/hook-input.schema.json."""

from pathlib import Path
from typing import Any

import msgspec

from rulebook_ralph.core.evidence import CheckResult
from rulebook_ralph.core.model import Value
from rulebook_ralph.loop.evidence import Evidence, Gates
from rulebook_ralph.loop.rules.promise import promise_given

VERSION = 1
MOST_FILES = 1000
LONGEST_MESSAGE = 200_000
_CUT = "\n… left out …\n"


def hook_input(evidence: Evidence, *, root: Path, gates: Gates | None = None) -> dict[str, Any]:
    """The evidence as one JSON object, capped. `gates` is null in it where they have not been run."""
    result = evidence.result
    return {
        "version": VERSION,
        "root": str(root),
        "taskId": evidence.task.id,
        "title": evidence.task.title,
        "acceptanceCriteria": list(evidence.task.acceptance_criteria),
        "stage": evidence.stage,
        "attempt": evidence.attempt,
        "iterationNumber": evidence.iteration,
        "agent": result.agent,
        "agentStatus": result.status,
        "promise": evidence.promise,
        "promiseGiven": promise_given(evidence),
        "finalMessage": _capped(result.final_text),
        "toolResults": [whole(tool) for tool in result.tool_results],
        "parsed": whole(evidence.parsed),
        "filesChanged": [change.path for change in evidence.changes[:MOST_FILES]],
        "filesChangedCount": len(evidence.changes),
        "diffStat": [
            {
                "path": file.path,
                "kind": file.kind,
                "oldPath": file.old_path,
                "added": len(file.added),
                "removed": len(file.removed),
                "binary": file.binary,
            }
            for file in evidence.diff()[:MOST_FILES]
        ],
        "gates": None if gates is None else [_gate(each) for each in gates.results],
        "usage": whole(result.usage),
        "costUsd": result.cost_usd,
        "durationMs": result.duration_ms,
    }


def whole(value: Value) -> dict[str, Any]:
    """A value with all its keys, also those that a file would leave out."""
    return {
        field.encode_name: msgspec.to_builtins(getattr(value, field.name)) for field in msgspec.structs.fields(value)
    }


def _gate(result: CheckResult) -> dict[str, Any]:
    keys = ("step", "kind", "command", "passed", "required", "exitCode", "reason", "output", "durationMs")
    known = whole(result)
    return {key: known[key] for key in keys}


def _capped(text: str) -> str:
    half = LONGEST_MESSAGE // 2
    return text if len(text) <= LONGEST_MESSAGE else text[:half] + _CUT + text[-half:]
