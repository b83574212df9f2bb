"""Refs as files: which commits they name, and which of them are somebody else's just now."""

import os
import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

from rulebook_ralph.workspace.raw_files import Files, contents, put
from rulebook_ralph.workspace.repository import Repository
from rulebook_ralph.workspace.syncing import sync_file

FREE_REFS = ("refs/ralph", "refs/remotes")
"""Folders of refs that are not compared as files."""
_HASH = re.compile(rb"[0-9a-f]{40}|[0-9a-f]{64}")
_BARE = re.compile(rb"^\s*bare\s*(=\s*(true|yes|on|1)\s*)?$", re.MULTILINE | re.IGNORECASE)


def tips_named(files: Files, paths: Iterable[str]) -> set[str]:
    """The commits that those of the files name."""
    named: set[str] = set()
    for path in paths:
        if path.endswith("/packed-refs"):
            named.update(packed_refs(files.get(path)).values())
        elif path in files and not path.endswith("/index") and _HASH.fullmatch(content := files[path][0].strip()):
            named.add(content.decode("ascii"))
    return named


def packed_refs(content: tuple[bytes, int] | None) -> dict[str, str]:
    """Ref -> object name, of packed-refs."""
    lines = [line.split(b" ", 1) for line in content[0].splitlines()] if content else []
    return {os.fsdecode(ref): name.decode("ascii") for name, *rest in lines for ref in rest if _HASH.fullmatch(name)}


def unpack_free(shared: Path, packed: dict[str, str], in_use: Collection[str]) -> None:
    """Free refs that the agent's git packed get their files again, since packed-refs is put back."""
    for ref, name in packed.items():
        path = shared / ref
        if (ref in in_use or ref.startswith(tuple(f"{free}/" for free in FREE_REFS))) and not path.exists():
            put(path, (f"{name}\n".encode("ascii"), 0o644))
            sync_file(path.parent)


def checked_out_elsewhere(repository: Repository) -> dict[str, str]:
    """The HEAD files of other work trees, each with the ref file of the branch that is checked out there."""
    shared = repository.common_folder
    heads = [Path(item.path, "HEAD") for item in entries(shared / "worktrees")]
    if not _is_bare(shared):  # what the HEAD of a bare repository names is checked out nowhere
        heads.append(shared / "HEAD")
    found = {}
    for head in heads:
        if head == repository.git_folder / "HEAD":
            continue
        with suppress(OSError, UnicodeDecodeError):
            text = head.read_text("utf-8").strip()
            if text.startswith("ref: refs/"):
                found[str(head)] = f"{shared}/{text.removeprefix('ref: ')}"
    return found


def _is_bare(shared: Path) -> bool:
    settings = contents(f"{shared}/{name}" for name in ("config", "config.worktree"))
    return any(_BARE.search(content) for content, _ in settings.values())


def entries(folder: Path) -> list[os.DirEntry[str]]:
    """What is in a folder; nothing where there is none."""
    try:
        with os.scandir(folder) as listing:
            return list(listing)
    except OSError:
        return []
