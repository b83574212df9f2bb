"""What Ralph would put into git for good is looked at before it does."""

from collections.abc import Callable
from pathlib import Path

from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop import templates
from rulebook_ralph.loop.crew import Crew
from rulebook_ralph.loop.project import Project
from rulebook_ralph.state import disk


class SecretToldError(RalphError):
    """A file that is committed with the state holds a secret."""


def require_no_secret(project: Project, crew: Crew) -> None:
    """Raises SecretToldError where config.yaml or a template, which are committed with the state, holds a secret."""
    clean, config, folder = crew.redactor().clean, project.folder.config, project.folder.templates
    for path in (config, *(folder / name for name in templates.read(folder)[0].names)):
        if number := _line_with_secret(path, clean):
            way = "put it into the environment, or into your own ~/.config/rulebook-ralph/config.yaml"
            told = f"{path}:{number}: holds a secret, and the file is committed with the state"
            raise SecretToldError(f"{told}; {way if path == config else 'take it out'}")


def _line_with_secret(path: Path, clean: Callable[[str], str]) -> int:
    """0 where there is none."""
    try:
        text = disk.read_file(path).decode("utf-8", "replace")
    except OSError:
        return 0
    cleaned = clean(text)
    if cleaned == text:
        return 0
    pairs = enumerate(zip(text.splitlines(), cleaned.splitlines(), strict=False), start=1)
    return next((number for number, (before, after) in pairs if before != after), 1)
