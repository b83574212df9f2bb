"""`ralph plugin`: the Claude Code plugin, written where Claude Code finds it without a marketplace; and the official
plugin that may keep a session going instead: whether it is there, and how its loop is started.
"""

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, get_args

import click
import msgspec

from rulebook_ralph import __version__, resources
from rulebook_ralph.cli.app import App
from rulebook_ralph.cli.places import project_root
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.run.session import Driver
from rulebook_ralph.tasks import disk
from rulebook_ralph.tasks.text import some

Scope = Literal["project", "user"]

_WRITTEN = ".claude-plugin/written-by-ralph.json"
_MANIFEST = ".claude-plugin/plugin.json"
_OTHER_DRIVER = "ralph-loop/"
_PLACE = (".claude", "skills", "ralph")
"""A folder with a plugin's manifest in the skills folder is loaded as a plugin."""

_SCOPE = click.option(
    "--scope",
    type=click.Choice(get_args(Scope)),
    default="project",
    show_default=True,
    help="For this project (.claude/skills/ralph), or for all of yours (the same in your home).",
)
_FORCE = click.option("--force", is_flag=True, help="Also files that were edited since.")

STATE_FILE = ".claude/ralph-loop.local.md"
"""Below the project's root; while it is there, the official hook keeps its session going."""
PROMISE = "ALL_TASKS_COMPLETE"
_MARKETPLACE = "claude-plugins-official"
_NAMES = ("ralph-loop", "ralph-wiggum")
"""The official plugin's name, and the one that it had before."""
_SCRIPT = "scripts/setup-ralph-loop.sh"
_SETTING_UP = 30.0


@click.group(short_help="Ralph inside Claude Code: /ralph:implement and the like")
def plugin_command() -> None:
    """Ralph inside Claude Code: /ralph:implement, /ralph:next, /ralph:status, /ralph:cancel."""


@plugin_command.command("install")
@_SCOPE
@click.option(
    "--driver",
    type=click.Choice(get_args(Driver)),
    default="ralph",
    show_default=True,
    help="What keeps a session going: Ralph's own Stop hook, or the official plugin ralph-loop.",
)
@_FORCE
@click.pass_obj
def install_command(app: App, /, *, scope: Scope, driver: Driver, force: bool) -> None:
    """Write the plugin, or bring it up to date. What was edited since stays, and is named."""
    folder = _folder(app, scope)
    if driver == "ralph-loop":
        script_of(app, _base(app, scope))
    changed = _carry_out(folder, files_for(driver), force=force)
    with app.console() as console:
        console.line(f"{folder}: {'written' if changed else 'up to date'}")
        if shutil.which("ralph", path=app.environment.get("PATH")) is None:
            console.line("there is no 'ralph' on PATH, where the plugin looks for it")
        console.line("in Claude Code, in a folder that it trusts, from the next session on: /ralph:implement")


@plugin_command.command("uninstall")
@_SCOPE
@_FORCE
@click.pass_obj
def uninstall_command(app: App, /, *, scope: Scope, force: bool) -> None:
    """Remove what 'ralph plugin install' wrote. What was edited since stays, and is named."""
    folder = _folder(app, scope)
    if not (folder / _WRITTEN).is_file():
        raise RalphError(f"there is no plugin of Ralph's in {folder}")
    _carry_out(folder, {}, force=force)
    with app.console() as console:
        console.line(f"{folder}: removed")


def files_for(driver: Driver) -> dict[str, bytes]:
    """The plugin's files by their names below its folder."""
    root = resources.template_folder() / "claude-plugin"
    found = {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
    own = {name: content for name, content in found.items() if not name.startswith(_OTHER_DRIVER)}
    if driver == "ralph-loop":
        others = {name.removeprefix(_OTHER_DRIVER): content for name, content in found.items() if name not in own}
        own |= {name: content for name, content in others.items() if "/" in name}
        del own["commands/next.md"]  # that loop repeats one prompt until all is complete
    manifest = {**json.loads(own[_MANIFEST]), "version": __version__}
    return own | {_MANIFEST: (json.dumps(manifest, indent=2) + "\n").encode()}


def _base(app: App, scope: Scope) -> Path:
    return app.home if scope == "user" else project_root(app)


def _folder(app: App, scope: Scope) -> Path:
    """Where the plugin goes. Raises RalphError where a link would lead somewhere else."""
    folder = _base(app, scope).joinpath(*_PLACE)
    for above in [folder, *folder.parents][: len(_PLACE)]:
        if above.is_symlink() or (above.exists() and not above.is_dir()):
            raise RalphError(f"{above} is a link or no folder; the plugin is written to a folder of its own only")
    return folder


def _carry_out(folder: Path, wanted: dict[str, bytes], *, force: bool) -> bool:
    """Write what is wanted, remove what Ralph wrote before and nobody wants; whether something changed. Raises
    RalphError, with nothing changed, where a link stands in the folder, or a person edited a file and not `force`.
    """
    there = _there(folder)
    written = _members(there.pop(_WRITTEN, b""), "files")
    differs = {name for name in {*wanted, *written} if there.get(name) != wanted.get(name)}
    edited = [name for name in differs & there.keys() if written.get(name) != _digest(there[name])]
    if edited and not force:
        raise RalphError(f"edited since, and left as it is: {some(sorted(edited))}; to replace or remove it: --force")
    for name in sorted(differs):
        if name in wanted:
            disk.make_folder((folder / name).parent)
            disk.replace_file(folder / name, wanted[name])
        else:
            (folder / name).unlink(missing_ok=True)
    record = {"files": {name: _digest(content) for name, content in sorted(wanted.items())}}
    if wanted:
        disk.replace_file(folder / _WRITTEN, (json.dumps(record, indent=2) + "\n").encode())
    else:
        (folder / _WRITTEN).unlink(missing_ok=True)
        for path in sorted((path for path in (folder, *folder.rglob("*")) if path.is_dir()), reverse=True):
            if not any(path.iterdir()):  # what a person added stays, with the folders that it stands in
                path.rmdir()
    return bool(differs)


def _there(folder: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        if path.is_symlink():
            raise RalphError(f"{path} is a link; remove it, then give the command again")
        if path.is_file():
            found[path.relative_to(folder).as_posix()] = disk.read_file(path)
    return found


def _members(content: bytes, key: str) -> dict[str, Any]:
    """What stands under a key of a JSON object; nothing where it cannot be read."""
    with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        found = msgspec.json.decode(content, type=dict[str, Any]).get(key)
        return found if isinstance(found, dict) else {}
    return {}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# The official plugin


def script_of(app: App, root: Path) -> Path:
    """What starts its loop in a folder. Raises RalphError where it is not installed for it, or switched off."""
    home = Path(app.environment.get("CLAUDE_CONFIG_DIR") or app.home / ".claude")
    enabled: dict[str, object] = {}
    for path in (home / "settings.json", *(root / ".claude" / f"settings{middle}.json" for middle in ("", ".local"))):
        enabled |= _members(disk.content_of(path) or b"", "enabledPlugins")
    plugins = _members(disk.content_of(home / "plugins" / "installed_plugins.json") or b"", "plugins")
    for name in (f"{name}@{_MARKETPLACE}" for name in _NAMES):
        entries = plugins.get(name) if enabled.get(name) is True else None
        for each in entries if isinstance(entries, list) else [entries]:  # before version 2 there was one
            if not isinstance(each, Mapping):
                continue
            script = Path(str(each.get("installPath", ""))) / _SCRIPT
            is_for_all = each.get("scope", "user") not in ("project", "local")
            if (is_for_all or each.get("projectPath") == str(root)) and script.is_file():
                return script
    raise RalphError(
        f"the plugin ralph-loop is not installed; in Claude Code: /plugin install {_NAMES[0]}@{_MARKETPLACE} "
        f"(before it was renamed: /plugin install {_NAMES[1]}@{_MARKETPLACE}); nothing was changed"
    )


def start_official(app: App, root: Path, script: Path, prompt: str, *, most: int) -> None:
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
        raise RalphError(f"{script} failed: {error}", exit_code=ExitCode.AGENT) from error
    if done.returncode != 0:
        told = f"{script} failed ({done.returncode}): {done.stderr.strip()[:300]}"
        raise RalphError(told, exit_code=ExitCode.AGENT)
