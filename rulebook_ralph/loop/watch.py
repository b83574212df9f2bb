"""Keeps the state folder as it is while code runs that is not Ralph's: agents, gates, checks, hooks."""

from collections.abc import Callable
from pathlib import Path

from rulebook_ralph.core.enumeration import some
from rulebook_ralph.loop import leftovers
from rulebook_ralph.loop.project import Project
from rulebook_ralph.state import guard

_EDITED_BY_PEOPLE = ("prd.json", "config.yaml")


class Watch:
    """What the state folder held when the others began; it is put back from that. `fetch` reads the saved history.

    `held` are the versions that were put aside and could be a person's.
    """

    def __init__(
        self, project: Project, *, fetch: Callable[[str], bytes | None], notice: Callable[[str, str], None]
    ) -> None:
        self._project = project
        self._fetch = fetch
        self._notice = notice
        self._guard: guard.StateGuard | None = None
        self._number = 0
        self._untold: tuple[str, ...] = ()
        self.held: list[str] = []

    @property
    def is_on(self) -> bool:
        """Whether others may be running now."""
        return self._guard is not None

    def begin(self, number: int, *, prd: bytes) -> None:
        """Remember the folder; `number` is the iteration's, 0 before the first."""
        self._number, self._untold = number, ()
        self._guard = guard.remember(self._project.folder, prd=prd)

    def end(self) -> None:
        """Only Ralph and people write from now on."""
        self._guard = None

    def keep(self, prd: bytes) -> None:
        """Ralph itself is about to write prd.json: after a crash that is what stood there."""
        if self._guard is not None:
            leftovers.renew(self._project, self._number, {"prd.json": prd})

    def take(self, prd: bytes) -> None:
        """Ralph itself has written prd.json."""
        if self._guard is not None:
            self._guard = self._guard.with_prd(prd)

    def put_back(self) -> tuple[str, ...]:
        """Undo what was changed in the folder, keep the other version aside; returns what the agent must be told."""
        told, self._untold = self._untold, ()
        restored = self._guard.restore(self._fetch) if self._guard is not None else ()
        if not restored:
            return told
        names = some([item.name for item in restored])
        kept = leftovers.keep_aside(self._project, self._number, {})
        for item in restored:
            place = _place(kept, item)
            leftovers.keep_aside(self._project, self._number, {place: item.other})
            path = str(kept / place)
            if item.name in _EDITED_BY_PEOPLE and item.other and path not in self.held:
                self.held.append(path)
        self._notice(
            "warning",
            f"changed in .rulebook-ralph/ while the agent worked, and put back: {names} (the other version: {kept})",
        )
        return (*told, f"The folder .rulebook-ralph/ was changed ({names}); it was put back. Leave it alone.")

    def put_back_meanwhile(self) -> None:
        """The same while the agent still works, which is told when it has ended."""
        self._untold = self.put_back()


def _place(folder: Path, item: guard.Restored) -> str:
    """A name in the folder under which no other version is kept: of two edits in one iteration neither is lost."""
    above = [folder / parent for parent in Path(item.name).parents]
    name = wanted = item.name.replace("/", "-") if any(path.is_file() for path in above) else item.name
    number = 1
    while (path := folder / name).exists() and not (path.is_file() and path.read_bytes() == item.other):
        number += 1
        name = f"{wanted}.{number}"
    return name
