"""Finding the state folder for commands that only read: without git where it is there."""

from rulebook_ralph.app import App
from rulebook_ralph.errors import RalphError
from rulebook_ralph.state import store
from rulebook_ralph.state.store import StateFolder


def state_folder(app: App) -> StateFolder:
    """The state folder around the current folder. Raises RalphError where there is none, saying where it is."""
    root = store.find_root(app.cwd)
    if root is not None:
        return StateFolder(root)
    from rulebook_ralph.commands.projects import open_root  # noqa: PLC0415 - git is asked only without a state folder
    from rulebook_ralph.loop.project import refuse_second_state  # noqa: PLC0415

    root, repository = open_root(app)
    refuse_second_state(repository, StateFolder(root))
    raise RalphError(f"no task list in {root}; run 'ralph init' first")
