"""The official Claude Code plugin that may keep a session going instead: whether it is there, and how it is started."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from rulebook_ralph.cli.app import App
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.tasks import disk

STATE_FILE = ".claude/ralph-loop.local.md"
"""Below the project's root; while it is there, the official hook keeps its session going."""
PROMISE = "ALL_TASKS_COMPLETE"
_MARKETPLACE = "claude-plugins-official"
_NAMES = ("ralph-loop", "ralph-wiggum")
"""Its name, and the one that it had before."""
_SCRIPT = "scripts/setup-ralph-loop.sh"
_SETTING_UP = 30.0
_MISSING = (
    f"the plugin ralph-loop is not installed; in Claude Code: /plugin install {_NAMES[0]}@{_MARKETPLACE} "
    f"(before it was renamed: /plugin install {_NAMES[1]}@{_MARKETPLACE}); nothing was changed"
)
_T = TypeVar("_T")


class _Installed(msgspec.Struct):
    plugins: dict[str, Any] = {}


class _Settings(msgspec.Struct, rename="camel"):
    enabled_plugins: dict[str, Any] = {}


def script_of(app: App, root: Path) -> Path:
    """What starts its loop in a folder. Raises RalphError where it is not installed for it, or switched off."""
    home = Path(app.environment.get("CLAUDE_CONFIG_DIR") or app.home / ".claude")
    enabled: dict[str, object] = {}
    for path in (home / "settings.json", *(root / ".claude" / f"settings{middle}.json" for middle in ("", ".local"))):
        enabled |= _read(path, _Settings()).enabled_plugins
    plugins = _read(home / "plugins" / "installed_plugins.json", _Installed()).plugins
    for name in (f"{name}@{_MARKETPLACE}" for name in _NAMES):
        entries = plugins.get(name) if enabled.get(name) is True else None
        for each in entries if isinstance(entries, list) else [entries]:  # before version 2 there was one
            if isinstance(each, Mapping) and _holds_for(each, str(root)):
                script = Path(str(each.get("installPath", ""))) / _SCRIPT
                if script.is_file():
                    return script
    raise RalphError(_MISSING)


def start(app: App, root: Path, script: Path, prompt: str, *, most: int) -> None:
    """Begin its loop, by its own script. Raises RalphError."""
    arguments = [prompt, "--max-iterations", str(most), "--completion-promise", PROMISE]
    try:
        done = subprocess.run(
            ["/bin/bash", os.fspath(script), *arguments],
            cwd=root,
            env=dict(app.environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SETTING_UP,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        why = getattr(error, "strerror", None) or f"it has not ended within {_SETTING_UP:.0f} s"
        raise RalphError(f"{script} failed: {why}", exit_code=ExitCode.AGENT) from error
    if done.returncode != 0:
        why = done.stderr.strip()[:300]
        raise RalphError(f"{script} failed ({done.returncode}): {why}", exit_code=ExitCode.AGENT)


def _holds_for(entry: Mapping[str, object], project: str) -> bool:
    return entry.get("scope", "user") not in ("project", "local") or entry.get("projectPath") == project


def _read(path: Path, empty: _T) -> _T:
    try:
        return msgspec.json.decode(disk.content_of(path) or b"", type=type(empty))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return empty
