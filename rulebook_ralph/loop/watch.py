"""Keeps the state folder as it is while code runs that is not Ralph's: agents, gates, checks, hooks."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from rulebook_ralph.core.enumeration import some
from rulebook_ralph.loop import leftovers
from rulebook_ralph.loop.project import Project
from rulebook_ralph.state import guard
from rulebook_ralph.state.editable import is_editable


class Watch:
    """What the state folder held when the others began; it is put back from that. `fetch` reads the saved history,
    `take` is given what stood in prd.json and returns what the rest of that edit begins with; None where there is none.
    """

    def __init__(
        self,
        project: Project,
        *,
        fetch: Callable[[str], bytes | None],
        take: Callable[[bytes], bytes | None],
        notice: Callable[[str, str], None],
    ) -> None:
        self._project = project
        self._fetch = fetch
        self._take = take
        self._notice = notice
        self._guard: guard.StateGuard | None = None
        self._number = 0
        self._untold: tuple[str, ...] = ()
        self._held: dict[Path, None] = {}

    @property
    def held(self) -> list[str]:
        """The versions that were put aside, could be a person's, and are still there."""
        return [str(path) for path in self._held if path.is_file()]

    @property
    def is_on(self) -> bool:
        """Whether others may be running now."""
        return self._guard is not None

    @property
    def number(self) -> int:
        """The iteration's, 0 before the first."""
        return self._number

    def begin(self, number: int, *, prd: bytes | None) -> None:
        """Remember the folder; `number` is the iteration's, 0 before the first. `prd` is what stands in prd.json, where
        it is known.
        """
        self._number, self._untold = number, ()
        self._guard = guard.remember(self._project.folder, prd=prd)

    def end(self) -> None:
        """Only Ralph and people write from now on."""
        self._guard = None

    def keep(self, name: str, content: bytes) -> None:
        """Ralph itself is about to write a file: after a crash that is what stood there."""
        if self._guard is not None:
            leftovers.renew(self._project, self._number, {name: content})

    def take(self, name: str, content: bytes) -> None:
        """Ralph itself has written a file."""
        if self._guard is not None:
            self._guard = self._guard.with_file(name, content)

    def content(self, name: str) -> bytes | None:
        """What a file at the top or a template is to have while others run; None where there is to be none."""
        return self._guard.contents.get(name) if self._guard is not None else None

    def put_back(self) -> tuple[str, ...]:
        """Undo what was changed in the folder, keep the other version aside; returns what the agent must be told."""
        told, self._untold = self._untold, ()
        restored = self._guard.restore(self._fetch) if self._guard is not None else ()
        put_back = [left for item in restored if (left := self._left_of(item)) is not None]
        if not put_back:
            return told
        names = some([item.name for item in put_back])
        kept = self._keep(put_back)
        offer = "; if it was yours: ralph accept" if any(_is_edit(item) for item in put_back) else ""
        self._notice(
            "warning",
            f"changed in .rulebook-ralph/ while an agent, gate or check ran, and put back: {names} "
            f"(the other version: {kept}){offer}",
        )
        return (*told, f"The folder .rulebook-ralph/ was changed ({names}); it was put back. Leave it alone.")

    def _left_of(self, item: guard.Restored) -> guard.Restored | None:
        """What is to be held of a change; None where all of it was taken over."""
        if item.name != "prd.json" or item.other is None:
            return item
        base = self._take(item.other)
        return None if base is None else replace(item, content=base)

    def _keep(self, restored: Iterable[guard.Restored]) -> Path:
        kept = leftovers.keep_aside(self._project, self._number, {})
        for item in restored:
            base = item.content if _is_edit(item) else None
            path = leftovers.hold(self._project, self._number, item.name, item.other, base=base)
            if _is_edit(item):
                self._held[path] = None
        return kept

    def put_back_meanwhile(self) -> None:
        """The same while the agent still works, which is told when it has ended."""
        self._untold = self.put_back()


def _is_edit(item: guard.Restored) -> bool:
    """Whether it could be a person's edit, for `ralph accept`."""
    return is_editable(item.name) and item.other is not None
