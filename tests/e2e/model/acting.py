"""How a file is written and a command run with the tools that a request offers; their schemas say with what."""

from collections.abc import Sequence
from pathlib import Path

from .api import Json, Tools
from .turns import Say, Shell, Turn, Use, Write

_WRITERS = ("write", "write_file")
_SHELLS = ("bash", "shell_command", "exec_command", "run_shell_command", "shell")
_PATHS = ("file_path", "filePath", "path")
_LONGEST_COMMAND = {"timeout": 600_000, "yield_time_ms": 30_000}
"""In milliseconds, where a tool takes one: a hanging command is Ralph's to end."""


def with_tools(action: Write | Shell, tools: Tools, root: Path) -> Use:
    """The same as the use of a tool; of none that there is, where nothing of the kind is offered."""
    offered = {name.lower(): (name, schema) for name, schema in tools.items()}
    if isinstance(action, Shell):
        for name, schema in (offered[one] for one in _SHELLS if one in offered):
            return Use(
                name, example(schema or {}, {"command": action.command, "cmd": action.command, **_LONGEST_COMMAND})
            )
        return Use("no_tool_runs_commands", {})
    for name, schema in (offered[one] for one in _WRITERS if one in offered):
        given = dict.fromkeys(_PATHS, str(root / action.path))
        return Use(name, example(schema or {}, {**given, "content": action.content}))
    if "apply_patch" in offered:
        added = "".join(f"+{line}\n" for line in action.content.splitlines())
        patch = f"*** Begin Patch\n*** Add File: {action.path}\n{added}*** End Patch"
        return Use("apply_patch", patch if tools["apply_patch"] is None else {"input": patch})
    return Use("no_tool_writes_files", {})


def example(schema: Json, given: Json) -> Json:
    """The smallest object that a schema allows, with what is given of its properties."""
    properties = schema.get("properties") or {}
    needed = {name: _smallest(properties.get(name) or {}) for name in schema.get("required") or ()}
    return needed | {name: value for name, value in given.items() if name in properties}


def _smallest(schema: Json) -> object:
    kind = schema.get("type", "string")
    if schema.get("enum"):
        return schema["enum"][0]
    kind = str(kind[0] if isinstance(kind, list) else kind).lower()
    return {"object": {}, "array": [], "boolean": False, "integer": 1, "number": 1}.get(kind, "as scripted")


def one_answer(turns: Sequence[Turn]) -> Sequence[Turn]:
    """The first of the turns that are one answer to aider: what is written, with what is said after it."""
    acts = next((number for number, turn in enumerate(turns) if not isinstance(turn, Write | Shell)), len(turns))
    says = isinstance(turns[acts], Say) if acts < len(turns) else False
    return turns[: max(1, acts + says)]


def as_text(turns: Sequence[Turn]) -> Say:
    """An answer to aider, which offers no tools and runs nothing: each file whole, then what is said."""
    files = (f"{turn.path}\n```\n{turn.content}```\n" for turn in turns if isinstance(turn, Write))
    return Say("\n".join([*files, *(turn.text for turn in turns if isinstance(turn, Say))]))
