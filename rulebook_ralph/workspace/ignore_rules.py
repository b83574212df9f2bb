"""Ignore rules as they were at an opening: found, compared, and replayed after an agent has changed them."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rulebook_ralph.workspace.git import GitError
from rulebook_ralph.workspace.repository import Repository


def ignore_files(repository: Repository, index: Path) -> dict[str, bytes]:
    """Every ignore file that counts: tracked and untracked `.gitignore`, and the repository's own exclude file."""
    output = repository.git.raw("ls-files", "-c", "-o", "-z", "--", ":(top,glob)**/.gitignore", index=index)
    paths = {repository.root / os.fsdecode(name) for name in output.split(b"\0") if name}
    paths.add(repository.common_folder / "info" / "exclude")
    found = {}
    for path in paths:
        with suppress(OSError):
            if path.is_file():  # a pipe would block for ever
                found[str(path)] = path.read_bytes()
    return found


def ignored_by(repository: Repository, rules: dict[str, bytes], names: Sequence[bytes]) -> frozenset[bytes]:
    """Which of the paths those rules ignore, whatever the rules in the tree are now."""
    if not names:
        return frozenset()
    with _folder_of(repository, rules) as folder:
        try:
            output = repository.git.raw(
                "check-ignore", "--no-index", "-z", "--stdin", stdin=b"\0".join(names), work_tree=folder
            )
        except GitError:  # exit 1: none of them
            return frozenset()
    return frozenset(output.split(b"\0"))


@contextmanager
def _folder_of(repository: Repository, rules: dict[str, bytes]) -> Iterator[Path]:
    """A folder that holds the ignore files of the rules, and nothing else."""
    folder = repository.private / "ignore-rules"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        for name, content in rules.items():
            path = Path(name)
            if path.is_relative_to(repository.root) and path.name == ".gitignore":
                target = folder / path.relative_to(repository.root)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
