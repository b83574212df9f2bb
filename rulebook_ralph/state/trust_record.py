"""Which commands of a project a person agreed to have run: a small file of the user's own, outside every repository."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from rulebook_ralph.errors import RalphError
from rulebook_ralph.state import disk

_LARGEST = 8 * 1024 * 1024


class TrustRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Digests of commands (core/configured_commands.py). `imported` came with task files that were imported, so that
    they are no one's own although no commit holds them.
    """

    repository: str
    agreed: frozenset[str] = frozenset()
    imported: frozenset[str] = frozenset()

    def with_agreed(self, digests: frozenset[str]) -> "TrustRecord":
        return TrustRecord(repository=self.repository, agreed=self.agreed | digests, imported=self.imported - digests)


def trust_folder(environment: Mapping[str, str], home: Path) -> Path:
    """Where the records are; a relative XDG_STATE_HOME is ignored, as its specification asks."""
    configured = Path(environment.get("XDG_STATE_HOME", ""))
    base = configured if configured.is_absolute() else home / ".local" / "state"
    return base / "rulebook-ralph" / "trust"


def read(folder: Path, repository: Path) -> TrustRecord | None:
    """The record of the project with that (shared) git folder; None where there is none that can be believed."""
    file = record_file(folder, repository)
    try:
        if file.is_symlink() or not file.is_file() or file.stat().st_size > _LARGEST or _is_within(file, repository):
            return None
        record = msgspec.json.decode(file.read_bytes(), type=TrustRecord)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return record if record.repository == _name(repository) else None


def write(folder: Path, repository: Path, *, agreed: frozenset[str], imported: frozenset[str] = frozenset()) -> None:
    """Replace the record. Raises RalphError where it cannot be written, or would lie in the project itself."""
    file = record_file(folder, repository)
    if _is_within(file, repository):
        raise RalphError(f"{file} would lie within the project; set XDG_STATE_HOME to a folder outside of it")
    disk.make_folder(file.parent)
    record = {"repository": _name(repository), "agreed": sorted(agreed), "imported": sorted(imported)}
    disk.replace_file(file, msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")


def record_file(folder: Path, repository: Path) -> Path:
    return folder / f"{hashlib.sha256(os.fsencode(repository)).hexdigest()[:32]}.json"


def _name(repository: Path) -> str:
    return os.fsencode(repository).decode("utf-8", "backslashreplace")


def _is_within(file: Path, repository: Path) -> bool:
    """Whether the record would be a file of the work tree, and could come with it."""
    return file.resolve().is_relative_to(repository.parent if repository.name == ".git" else repository)
