"""`ralph plugin`: the Claude Code plugin, written where Claude Code finds it without a marketplace."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Literal, get_args

import click
import msgspec

from rulebook_ralph import __version__, resources
from rulebook_ralph.cli import official_loop
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


class _Written(msgspec.Struct):
    """What Ralph wrote: the files' SHA-256."""

    files: dict[str, str] = {}


@click.group(short_help="Ralph inside Claude Code: /ralph:implement and the like")
def command() -> None:
    """Ralph inside Claude Code: /ralph:implement, /ralph:next, /ralph:status, /ralph:cancel."""


@command.command("install")
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
def install_command(app: App, /, *, scope: Scope, driver: Driver, force: bool) -> int:
    """Write the plugin, or bring it up to date. What was edited since stays, and is named."""
    folder = _folder(app, scope)
    if driver == "ralph-loop":
        official_loop.script_of(app, _base(app, scope))
    changed, edited = _carry_out(folder, files_for(driver), force=force)
    with app.console() as console:
        if edited:
            console.error(f"edited since, and left as it is: {some(edited)}; to replace it: --force")
            return ExitCode.INVALID
        console.line(f"{folder}: {'written' if changed else 'up to date'}")
        if shutil.which("ralph", path=app.environment.get("PATH")) is None:
            console.line("there is no 'ralph' on PATH, where the plugin looks for it")
        console.line(
            "in Claude Code, in a folder that it was told to trust, from the next session on: /ralph:implement"
        )
    return ExitCode.OK


@command.command("uninstall")
@_SCOPE
@_FORCE
@click.pass_obj
def uninstall_command(app: App, /, *, scope: Scope, force: bool) -> int:
    """Remove what 'ralph plugin install' wrote. What was edited since stays, and is named."""
    folder = _folder(app, scope)
    if not (folder / _WRITTEN).is_file():
        raise RalphError(f"there is no plugin of Ralph's in {folder}")
    _, edited = _carry_out(folder, {}, force=force)
    with app.console() as console:
        if edited:
            console.error(f"edited since, and left as it is: {some(edited)}; to remove it: --force")
            return ExitCode.INVALID
        console.line(f"{folder}: removed")
    return ExitCode.OK


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


def _carry_out(folder: Path, wanted: dict[str, bytes], *, force: bool) -> tuple[bool, list[str]]:
    """Write what is wanted, remove what Ralph wrote before and nobody wants. Whether something changed, and which files
    a person edited: with any of them nothing is changed, unless `force` says otherwise. Raises RalphError where a link
    stands in the folder.
    """
    there = _there(folder)
    written = _written(there.pop(_WRITTEN, b"{}"))
    differs = {name for name in {*wanted, *written} if there.get(name) != wanted.get(name)}
    edited = {name for name in differs & there.keys() if written.get(name) != _digest(there[name]) and not force}
    if edited:
        return False, sorted(edited)
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
        _remove_empty(folder)
    return bool(differs), []


def _there(folder: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        if path.is_symlink():
            raise RalphError(f"{path} is a link; remove it, then give the command again")
        if path.is_file():
            found[path.relative_to(folder).as_posix()] = disk.read_file(path)
    return found


def _written(content: bytes) -> dict[str, str]:
    try:
        return msgspec.json.decode(content, type=_Written).files
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}


def _remove_empty(folder: Path) -> None:
    """What a person added stays, with the folders that it stands in."""
    for path in sorted((path for path in (folder, *folder.rglob("*")) if path.is_dir()), reverse=True):
        if not any(path.iterdir()):
            path.rmdir()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
