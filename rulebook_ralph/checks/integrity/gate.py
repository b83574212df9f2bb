"""What a gate runs and names, as a value."""

from dataclasses import dataclass, field

from rulebook_ralph.core.settings import StepKind

MANAGER = "a-package-manager"
"""Stands among the tools of a gate for whichever package manager it uses."""


@dataclass(slots=True)
class Gate:
    """What one step runs. `opaque`: by something that may run anything. `paths` are scripts of the repository that it
    starts itself, `patterns` globs of those (a folder stands for all in it); `targets` and `scripts` what it asks of
    make or just, and of package.json; `places` all its words.
    """

    name: str
    kind: StepKind
    folder: str
    tools: set[str] = field(default_factory=set)
    opaque: bool = False
    paths: set[str] = field(default_factory=set)
    makes: bool = False
    targets: set[str] = field(default_factory=set)
    scripts: set[str] = field(default_factory=set)
    places: set[str] = field(default_factory=set)
    programs: set[str] = field(default_factory=set)
    patterns: set[str] = field(default_factory=set)
    followed: dict[str, str] = field(default_factory=dict)
    """Those of `paths` whose own texts say what they start, and the folder they are started in."""
    given: set[str] = field(default_factory=set)
    """What programs are given that may start it: paths and globs."""
    seen: set[str] = field(default_factory=set)
    """What all other words name."""
    loose: bool = False
    """It starts something that its words do not tell: anything of `seen`, then."""
    open: bool = False
    """It may start scripts that nothing tells of."""
    lists: set[str] = field(default_factory=set)
    """Files whose lines may say what it starts."""
    inserted: set[str] = field(default_factory=set)
    """Files whose text stands among the words of its commands."""
    sourced: set[str] = field(default_factory=set)
    """Globs of scripts that become part of it, so that one can end it."""
    module_folders: set[str] = field(default_factory=set)
    """Folders in which its programs look for modules, by the environment."""
    homes: set[str] = field(default_factory=set)
    """Folders in which it uses make, just or a package manager."""
