"""Where the checkouts of a repository are, and git on one of them: of this process, or left by a dead one."""

from dataclasses import replace
from pathlib import Path

from rulebook_ralph.workspace import isolated_given, isolated_place
from rulebook_ralph.workspace.git import Git
from rulebook_ralph.workspace.isolated_place import Place
from rulebook_ralph.workspace.isolated_tree import read_tree
from rulebook_ralph.workspace.repository import Repository
from rulebook_ralph.workspace.snapshot import Opening, Workspace


def places_of(repository: Repository) -> Path:
    """The folder of the repository's places. Raises RalphError where it would lie within the project."""
    return isolated_place.folder_of(repository.git.environment, repository.root, repository.git_folder)


def claim(repository: Repository, *, keeps_work: bool = False) -> Place:
    """A place for a checkout of the repository, in the user's cache. Raises OSError, RalphError.

    One that `keeps_work` stays when its process dies, until `take_over`.
    """
    return isolated_place.claim(places_of(repository), repository.git_folder, keeps_work=keeps_work)


def take_over(repository: Repository, name: str) -> Place | None:
    """The place of a dead process whose folder has that name; None where it lives, or is gone. Raises OSError,
    RalphError.
    """
    return isolated_place.take_over(places_of(repository) / Path(name).name)


def remove_dead(repository: Repository) -> int:
    """Remove the places of dead processes, with the work that is in them; how many. Raises RalphError."""
    return isolated_place.remove_dead(places_of(repository), with_work=True)


def reopen(repository: Repository, place: Place, opening: Opening) -> Workspace | None:
    """The workspace of a checkout that another process made in the place, for `capture` with its opening; None where no
    folder stands there any more. Raises OSError, GitError, RalphError.
    """
    workspace, index = workspace_in(place, repository), index_in(place)
    git = workspace.repository.git
    if any(folder.is_symlink() or not folder.is_dir() for folder in (git.root.parent, git.root)):
        return None
    isolated_place.open_up(git.root)
    index.unlink(missing_ok=True)
    read_tree(git, opening.tree, index, isolated_given.find(repository, copy=(), link=()).hidden)
    workspace.take_index(index, opening.tree)
    return workspace


def index_in(place: Place) -> Path:
    """The index of the checkout in a place."""
    return place.folder / "index"


def workspace_in(place: Place, repository: Repository) -> Workspace:
    """git on the checkout in a place, with the repository's git folder but never with the user's index."""
    root = place.folder / "tree" / repository.root.name
    environment = {
        **repository.git.environment,
        "GIT_DIR": str(repository.git_folder),
        "GIT_WORK_TREE": str(root),
        "GIT_INDEX_FILE": str(index_in(place)),
    }
    inside = replace(repository, git=Git(root, environment), root=root, own_scratch=place.folder)
    return Workspace(inside, index=str(place.folder / "captured"), users_index=index_in(place))
