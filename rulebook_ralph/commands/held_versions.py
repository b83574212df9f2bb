"""The versions of config.yaml and prd.json that came or could come with somebody's commits, and what they would run."""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rulebook_ralph import config
from rulebook_ralph.config_layers import LARGEST_FILE as LARGEST_CONFIG
from rulebook_ralph.core.configured_commands import ConfiguredCommand, commands_of_config, commands_of_tasks
from rulebook_ralph.core.model import STATE_FOLDER
from rulebook_ralph.errors import RalphError
from rulebook_ralph.state import codec
from rulebook_ralph.workspace.git import GitError
from rulebook_ralph.workspace.repository import Repository

MOST_VERSIONS = 400
"""Versions of the two files that are read; where more differ, a new command counts as one that came with them."""

MOST_BYTES = 512 * 1024 * 1024
"""Of all these versions together; the same holds where they are more."""

_LARGEST = {"config.yaml": LARGEST_CONFIG, "prd.json": codec.LARGEST_FILE}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_BARE = re.compile(r"[\s\"'\\]+")


@dataclass(frozen=True, slots=True)
class _Blob:
    name: str
    size: int


def tips_of(repository: Repository) -> tuple[str, ...]:
    """Every commit that somebody else's work could have come with: branches, tags, what was fetched, HEAD."""
    listed = repository.git.text("for-each-ref", "--format=%(objectname)", "refs/heads", "refs/remotes", "refs/tags")
    found = dict.fromkeys((repository.head(), *listed.split()))
    for name in ("FETCH_HEAD", "MERGE_HEAD"):
        try:
            text = (repository.git_folder / name).read_text("ascii", "replace")
        except OSError:
            continue
        found.update(dict.fromkeys(word for line in text.splitlines() for word in line.split()[:1] if word.isalnum()))
    return tuple(found)


def hold_state(repository: Repository, tips: tuple[str, ...]) -> bool:
    """Whether a state folder is in any of those commits; True where that cannot be told."""
    try:
        if _ignores_case(repository):
            return bool(_state_trees(repository, tips))
        questions = [f"{tip}:{STATE_FOLDER}" for tip in tips]
        return any(kind != "missing" for _, kind, _ in _asked(repository, questions))
    except (GitError, ValueError):
        return True


def digests_held(
    repository: Repository, tips: tuple[str, ...], wanted: Mapping[str, ConfiguredCommand]
) -> frozenset[str]:
    """Which of the wanted commands stand in config.yaml or prd.json of those commits; all where one cannot be told."""
    try:
        blobs = _blobs(repository, tips)
        if len(blobs) > MOST_VERSIONS or sum(blob.size for blob in blobs.values()) > MOST_BYTES:
            return frozenset(wanted)
        found: set[str] = set()
        for object_id, blob in blobs.items():
            found |= _held_in(blob.name, repository.git.raw("cat-file", "blob", object_id), wanted)
        return frozenset(found & wanted.keys())
    except (GitError, ValueError):
        return frozenset(wanted)


def _held_in(name: str, data: bytes, wanted: Mapping[str, ConfiguredCommand]) -> set[str]:
    try:
        if name == "prd.json":
            return {each.digest for each in commands_of_tasks(codec.decode_prd_quick(data).tasks)}
        return {each.digest for each in commands_of_config(config.parse(data))}
    except RalphError:
        return set(_told_in(data.decode("utf-8", "replace"), wanted))


def _told_in(text: str, wanted: Mapping[str, ConfiguredCommand]) -> Iterator[str]:
    """Those whose words occur in a file that cannot be read: plain or escaped, quoted or folded in any way."""
    texts = (_bare(text), _bare(_ESCAPE.sub(_unescaped, text)))
    for digest, command in wanted.items():
        words = [command.text]
        if command.place.startswith("agent ") or command.text.startswith("plug-in "):  # not written in one piece
            words = command.text.removeprefix("plug-in ").split()
        if any(all(_bare(word) in each for word in words) for each in texts):
            yield digest


def _bare(text: str) -> str:
    return _BARE.sub("", text)


def _unescaped(match: re.Match[str]) -> str:
    code = next((int(digits, 16) for digits in match.groups()[:3] if digits), None)
    if code is not None:
        return chr(code) if code <= sys.maxunicode else ""
    return "" if match[4] in "nrt" else match[4]


def _blobs(repository: Repository, tips: tuple[str, ...]) -> dict[str, _Blob]:
    """Every version of the two files, by its object; what is larger than Ralph would read could never be run."""
    if _ignores_case(repository):
        trees = _state_trees(repository, tips)
        entries = [entry for tree in _trees(repository, trees) for entry in tree]
        named = [(object_id, name.casefold()) for name, object_id in entries if name.casefold() in _LARGEST]
    else:
        named = [(f"{tip}:{STATE_FOLDER}/{name}", name) for tip in tips for name in _LARGEST]
    answers = _asked(repository, [question for question, _ in named])
    return {
        object_id: _Blob(name, size)
        for (object_id, kind, size), (_, name) in zip(answers, named, strict=True)
        if kind == "blob" and size <= _LARGEST[name]
    }


def _asked(repository: Repository, questions: list[str]) -> list[tuple[str, str, int]]:
    """Object, kind and size in bytes for each question; the kind `missing` where there is none."""
    stdin = os.fsencode("".join(f"{question}\n" for question in questions))
    return [_object(line) for line in repository.git.raw("cat-file", "--batch-check", stdin=stdin).splitlines()]


def _object(line: bytes) -> tuple[str, str, int]:
    """Object, kind and size as git tells them; without any, the question stands there with a word of its own."""
    match line.rsplit(b" ", 2):
        case object_id, kind, size if size.isdigit():
            return object_id.decode("ascii"), kind.decode("ascii"), int(size)
        case _:
            return "", "missing", 0


def _ignores_case(repository: Repository) -> bool:
    try:
        return repository.git.text("config", "--type=bool", "--get", "core.ignoreCase") == "true"
    except GitError:  # it is not set
        return False


def _state_trees(repository: Repository, tips: tuple[str, ...]) -> list[str]:
    """The state folders of those commits, however they are spelt."""
    roots = _trees(repository, [f"{tip}^{{tree}}" for tip in tips])
    found = (object_id for root in roots for name, object_id in root if name.casefold() == STATE_FOLDER)
    return list(dict.fromkeys(found))


def _trees(repository: Repository, names: list[str]) -> Iterator[list[tuple[str, str]]]:
    """Name and object of each entry, for each tree that is there."""
    stdin = os.fsencode("".join(f"{name}\n" for name in names))
    data, place = repository.git.raw("cat-file", "--batch", stdin=stdin), 0
    while place < len(data):
        end = data.index(b"\n", place)
        object_id, kind, size = _object(data[place:end])
        place = end + 1
        if object_id:
            if kind == "tree":
                yield list(_entries(data[place : place + size], len(object_id) // 2))
            place += size + 1


def _entries(tree: bytes, width: int) -> Iterator[tuple[str, str]]:
    place = 0
    while place < len(tree):
        end = tree.index(b"\0", place)
        name = tree[place:end].partition(b" ")[2].decode("utf-8", "surrogateescape")
        place = end + 1 + width
        yield name, tree[end + 1 : place].hex()
