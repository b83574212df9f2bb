"""The state folder: where its files are, and the PRD's reading and writing. The manager is its only writer."""

from dataclasses import dataclass
from pathlib import Path

from rulebook_ralph.core.model import STATE_FOLDER, Prd
from rulebook_ralph.errors import RalphError
from rulebook_ralph.state import codec, disk

MAX_PRD_BYTES = 200 * 1024 * 1024
BASE_NAME = "prd.base.json"
"""In the saved state only: what a person's prd.json began with that could not be read; empty once it was merged."""


@dataclass(frozen=True, slots=True)
class StateFolder:
    """The paths below `.rulebook-ralph/` of a project's root."""

    root: Path

    @property
    def path(self) -> Path:
        return self.root / STATE_FOLDER

    @property
    def prd(self) -> Path:
        return self.path / "prd.json"

    @property
    def progress(self) -> Path:
        return self.path / "progress.txt"

    @property
    def config(self) -> Path:
        return self.path / "config.yaml"

    @property
    def templates(self) -> Path:
        return self.path / "templates"

    @property
    def history(self) -> Path:
        return self.path / "history"

    def iteration(self, number: int) -> Path:
        return self.history / f"iteration-{number}.json"


def find_root(start: Path) -> Path | None:
    """The nearest folder upwards that has a state folder, no further than the repository's top, or None."""
    for folder in (start, *start.parents):
        if (folder / STATE_FOLDER).is_dir():
            return folder
        if (folder / ".git").exists():
            return None
    return None


def read_prd_bytes(folder: StateFolder) -> bytes:
    """The raw PRD. Raises RalphError where it is missing, unreadable, no plain file or beyond reason."""
    path = folder.prd
    if folder.path.is_symlink() or path.is_symlink():
        raise RalphError(f"{path} {disk.IS_LINK}")
    try:
        if path.stat().st_size > MAX_PRD_BYTES:
            raise RalphError(f"{path} is larger than {MAX_PRD_BYTES // 2**20} MiB; split the task list")
        return disk.read_file(path, largest=MAX_PRD_BYTES)
    except FileNotFoundError:
        raise RalphError(f"no task list at {path}; run 'ralph init' first") from None
    except OSError as error:
        raise RalphError(f"cannot read {path}: {error.strerror}; check its permissions") from error


def read_prd(folder: StateFolder) -> Prd:
    """The PRD, whole and checked. Raises RalphError with line and column or JSON path."""
    return codec.decode_prd(read_prd_bytes(folder), name=str(folder.prd))


def write_prd(folder: StateFolder, prd: Prd) -> bytes:
    """Replace prd.json; returns the bytes written."""
    data = codec.encode_prd(prd)
    disk.replace_file(folder.prd, data)
    return data
