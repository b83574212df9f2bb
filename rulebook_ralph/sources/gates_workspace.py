"""What the gates of a project need beside its files in git: installed dependencies and settings of this machine."""

from pathlib import Path

from rulebook_ralph.core.settings import Workspace

_INSTALLED = (
    ("package.json", "node_modules"),
    ("composer.json", "vendor"),
    ("Gemfile", "vendor/bundle"),
)
_SETTINGS = (".env", ".env.test")


def discover(root: Path) -> Workspace:
    """What is there in the project's root folder, whether git holds it or not. Runs nothing and never raises."""
    links = [folder for manifest, folder in _INSTALLED if (root / manifest).is_file() and (root / folder).is_dir()]
    links += [folder for folder in (".venv", "venv") if (root / folder / "pyvenv.cfg").is_file()]
    copies = [name for name in _SETTINGS if (root / name).is_file()]
    return Workspace(copy=tuple(copies), link=tuple(links))
