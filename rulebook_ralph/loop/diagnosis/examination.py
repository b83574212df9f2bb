"""Everything that `ralph doctor` looks at, in groups; each matter is told as soon as it is known."""

from collections.abc import Callable, Iterable, Iterator
from threading import Event

from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop.crew import Crew
from rulebook_ralph.loop.diagnosis import of_agents, of_gates, of_git, of_lock, of_ralph, of_system
from rulebook_ralph.loop.diagnosis.diagnosis import Diagnosis, refused, wrong
from rulebook_ralph.loop.diagnosis.place import Place, private_as_found
from rulebook_ralph.workspace.git import GitError

Group = tuple[str, Iterator[Diagnosis]]


def examine(place: Place, *, version: str, gates: bool, cancelled: Event) -> Iterator[Group]:
    """The groups by name, each to be read to its end before the next. Raises checks.shell.Cancelled.

    Nothing is changed but by the gates; temporary files in the git folder are removed.
    """
    busy = of_lock.at_work(place.repository) is not None
    clean = Crew(place.config, place.environment).redactor().clean
    looks: tuple[tuple[str, Callable[[], Iterable[Diagnosis]]], ...] = (
        ("git", lambda: of_git.examine(place)),
        ("Ralph", lambda: of_ralph.examine(place, version=version)),
        ("agents", lambda: of_agents.examine(place)),
        ("lock", lambda: of_lock.examine(place)),
        ("system", lambda: of_system.examine(place)),
        ("gates", lambda: of_gates.examine(place, run=gates, busy=busy, clean=clean, cancelled=cancelled)),
    )
    with private_as_found(place.repository):
        for name, look in looks:
            yield name, _safely(look)


def _safely(look: Callable[[], Iterable[Diagnosis]]) -> Iterator[Diagnosis]:
    """What is found there; whatever breaks off the looking becomes a line of it."""
    try:
        yield from look()
    except RalphError as error:
        yield refused(error)
    except GitError as error:
        yield wrong(str(error), "see what git says there: git status")
    except OSError as error:
        yield wrong(f"cannot look further: {error.strerror or error}{f': {error.filename}' if error.filename else ''}")
    except (ValueError, RecursionError) as error:
        yield wrong(f"cannot look further: {type(error).__name__}: {str(error)[:200]}")
