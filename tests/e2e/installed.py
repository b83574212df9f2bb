"""Where the genuine agents are: the folders in RALPH_E2E_CLIS (colon separated), the wheel that brings claude, PATH."""

import importlib.util
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

FOLDERS = "RALPH_E2E_CLIS"


def program(name: str, environment: Mapping[str, str]) -> Path | None:
    """The program of that name, through all links; a folder named may also be one that npm installed into."""
    named = [folder for folder in environment.get(FOLDERS, "").split(os.pathsep) if folder]
    below = [str(Path(folder) / "node_modules" / ".bin") for folder in named]
    found = (
        shutil.which(name, path=os.pathsep.join([*named, *below]))
        or (_bundled_claude() if name == "claude" else None)
        or shutil.which(name, path=environment.get("PATH", os.defpath))
    )
    return Path(found).resolve() if found else None


def _bundled_claude() -> str | None:
    wheel = importlib.util.find_spec("claude_agent_sdk")
    if wheel is None or wheel.origin is None:
        return None
    return shutil.which(str(Path(wheel.origin).parent / "_bundled" / "claude"))
