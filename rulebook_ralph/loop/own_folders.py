"""The folders of this machine in which the work is done and judged."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rulebook_ralph.errors import RalphError
from rulebook_ralph.workspace import isolated_workspace
from rulebook_ralph.workspace.repository import Repository


def own_folders(repository: Repository, tracked: Sequence[str]) -> tuple[str, ...]:
    """Absolute paths: the project and where its checkouts are made. Of a project right below `/`, whose path may be
    other things too (`/app` of a web address), what lies in it besides the names that are `tracked`.
    """
    roots = {repository.root, repository.root.resolve()}
    found = [
        path for root in roots for path in (_besides(root, tracked) if root.parent.parent == root.parent else [root])
    ]
    with suppress(RalphError):
        found.append(isolated_workspace.places_of(repository))
    return tuple(sorted(map(str, found)))


def _besides(root: Path, tracked: Sequence[str]) -> list[Path]:
    with suppress(OSError):
        return [path for path in root.iterdir() if path.name not in tracked]
    return []
