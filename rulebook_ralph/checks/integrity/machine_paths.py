"""Code that names folders of this machine: what lies there and is in no commit would decide how the work is judged."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from rulebook_ralph.checks.integrity.objection import Objection
from rulebook_ralph.core.diff import FileDiff, Versions

_CODE = re.compile(
    r"\.(?:pyi?|ipynb|[cm]?[jt]sx?|rb|pl|pm|php|lua|r|(?:ba|z|k|fi)?sh|bats|go|rs|java|kts?|scala|groovy|c|cc|cpp|cxx|"
    r"hh?|hpp|mm?|swift|cs|fs|exs?|erl|hs|mli?|zig|dart|vue|svelte|mk)$|(?:^|/)[^.]+$",
    re.IGNORECASE,
)
"""Files without an ending may be scripts."""
_LONGEST_LINE = 4000


def machine_paths(
    diff: Sequence[FileDiff],
    folders: Callable[[], Sequence[str]],
    read: Callable[[Sequence[FileDiff]], Mapping[str, Versions]],
    excused: Callable[[str], bool],
) -> Iterator[Objection]:
    """One for each file of code that names one of the folders and did not at the base; `folders` are absolute."""
    code = [file for file in diff if file.added and _CODE.search(file.path) and not file.is_link]
    named = [folder for folder in (folders() if code else ()) if len(folder) > 1]
    if not named:
        return
    pattern = re.compile(rf"(?:{'|'.join(map(re.escape, named))})(?![\w.-])")
    for file in code:
        line = next((line for line in file.added if pattern.search(line.text[:_LONGEST_LINE])), None)
        if line is None or excused(file.path):
            continue
        before = None if file.old_path is None else read([file])[file.path].before
        if before is None or not pattern.search(before):
            yield Objection(file.path, line.number, "names a folder of this machine, which nobody else has")
