"""How editors save a file. Only the standard library is imported: each save is a process of its own."""

import shutil
import subprocess
from pathlib import Path


def vim(path: Path, text: str) -> None:
    """Backup by renaming, then a new file of the name (backupcopy=no)."""
    backup = path.with_name(f"{path.name}~")
    path.rename(backup)
    path.write_text(text)
    backup.unlink()


def nano(path: Path, text: str) -> None:
    """The file is emptied and written in pieces."""
    with path.open("w") as file:
        for start in range(0, len(text), 100):
            file.write(text[start : start + 100])
            file.flush()


def code(path: Path, text: str) -> None:
    """In place, then once more for the last newline."""
    path.write_text(text.rstrip("\n"))
    path.write_text(text)


def emacs(path: Path, text: str) -> None:
    """The old one is copied to a backup, the new one written beside it and renamed over it."""
    shutil.copy2(path, path.with_name(f"{path.name}~"))
    temporary = path.with_name(f".#{path.name}")
    temporary.write_text(text)
    temporary.replace(path)
    path.with_name(f"{path.name}~").unlink()


def sed(path: Path, text: str) -> None:
    """The genuine one: a new file renamed over the old one."""
    assert "Do five as sed" in text
    subprocess.run(["sed", "-i", "s/Do five/Do five as sed/", str(path)], check=True)
