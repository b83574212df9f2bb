"""What installing or removing the files of a plugin does to those that are there. Pure."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    """Files by their names below the plugin's folder. `edited` are those that a person changed or added; they stay."""

    writes: Mapping[str, bytes]
    removes: tuple[str, ...]
    edited: tuple[str, ...]


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def digests(files: Mapping[str, bytes]) -> dict[str, str]:
    """What is to be remembered of files that are written."""
    return {name: digest(content) for name, content in sorted(files.items())}


def change(
    wanted: Mapping[str, bytes], written: Mapping[str, str], there: Mapping[str, bytes], *, force: bool
) -> Change:
    """From what is `there` to what is `wanted`, where Ralph has `written` files of those digests before.

    A file that is as Ralph wrote it is replaced or removed; another is somebody's, and only `force` overrules that.
    """
    strange = {
        name
        for name, content in there.items()
        if content != wanted.get(name) and digest(content) != written.get(name)
        if name in wanted or name in written
    }
    edited = set() if force else strange
    return Change(
        writes={name: content for name, content in wanted.items() if there.get(name) != content and name not in edited},
        removes=tuple(sorted(name for name in written if name in there and name not in wanted and name not in edited)),
        edited=tuple(sorted(edited)),
    )
