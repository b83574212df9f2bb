"""What Ralph would put into git for good is looked at before it does."""

from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop.crew import Crew
from rulebook_ralph.loop.project import Project
from rulebook_ralph.state import disk


class SecretToldError(RalphError):
    """A file that is committed with the state holds a secret."""


def require_no_secret(project: Project, crew: Crew) -> None:
    """Raises SecretToldError where config.yaml, which is committed with the state, holds a secret."""
    try:
        text = disk.read_file(project.folder.config).decode("utf-8", "replace")
    except OSError:
        return
    cleaned = crew.redactor().clean(text)
    if cleaned == text:
        return
    pairs = enumerate(zip(text.splitlines(), cleaned.splitlines(), strict=False), start=1)
    line = next((number for number, (before, after) in pairs if before != after), 1)
    raise SecretToldError(
        f"{project.folder.config}:{line}: holds a secret, and the file is committed with the state; put it into the "
        "environment, or into your own ~/.config/rulebook-ralph/config.yaml"
    )
