"""Links in place of files: what they lead to must be what git holds, for nothing else is seen or committed."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from rulebook_ralph.checks.integrity.objection import Objection
from rulebook_ralph.core.diff import FileDiff

LinksOut = Callable[[Sequence[str]], Mapping[str, str]]
"""Those of the links of the judged tree that lead to nothing it holds, and where the last of each leads, if that is out
of it.
"""


def links_out(diff: Sequence[FileDiff], leading_out: LinksOut, excused: Callable[[str], bool]) -> Iterator[Objection]:
    """One for each new or changed link of that kind."""
    links = [file.path for file in diff if file.is_link and file.kind != "D" and not excused(file.path)]
    for path, target in (leading_out(links) if links else {}).items():
        where = f"out of the repository: {target}" if target else "to something that git does not hold"
        yield Objection(path, None, f"is a link {where}")
