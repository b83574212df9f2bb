"""The official plugin that may drive instead (`--driver ralph-loop`): its names, and whether it is installed. Pure."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

MARKETPLACE = "claude-plugins-official"
NAMES = ("ralph-loop", "ralph-wiggum")
"""Its name, and the one that it had before."""

STATE_FILE = ".claude/ralph-loop.local.md"
"""Below the project's root; while it is there, the official hook keeps its session going."""

SETUP = "scripts/setup-ralph-loop.sh"
PROMISE = "ALL_TASKS_COMPLETE"

MISSING = (
    f"the plugin ralph-loop is not installed; in Claude Code: /plugin install {NAMES[0]}@{MARKETPLACE} "
    f"(before it was renamed: /plugin install {NAMES[1]}@{MARKETPLACE}); nothing was changed"
)


_T = TypeVar("_T")


class _Installed(msgspec.Struct):
    plugins: dict[str, Any] = {}


class _Settings(msgspec.Struct, rename="camel"):
    enabled_plugins: dict[str, Any] = {}


def install_path(installed: bytes, settings: tuple[bytes, ...], *, project: str) -> str | None:
    """Where it is installed for that project, by the content of `installed_plugins.json` and of the settings files, the
    weakest first; None where it is not, or switched off.
    """
    enabled: dict[str, object] = {}
    for content in settings:
        enabled |= _decoded(content, _Settings()).enabled_plugins
    plugins = _decoded(installed, _Installed()).plugins
    for name in NAMES:
        plugin = f"{name}@{MARKETPLACE}"
        if enabled.get(plugin) is not True:
            continue
        entries = plugins.get(plugin)
        for entry in entries if isinstance(entries, list) else [entries]:  # before version 2 there was one
            if isinstance(entry, Mapping) and _holds_for(entry, project) and isinstance(entry.get("installPath"), str):
                return str(entry["installPath"])
    return None


def _holds_for(entry: Mapping[str, object], project: str) -> bool:
    return entry.get("scope", "user") not in ("project", "local") or entry.get("projectPath") == project


def _decoded(content: bytes, empty: _T) -> _T:
    try:
        return msgspec.json.decode(content, type=type(empty))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return empty
