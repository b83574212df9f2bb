"""What differs between two trees, line by line, whatever git's configuration and attributes say.

Both questions are asked from an empty folder with no index, so that a `.gitattributes` that an agent left can declare
no text binary and name no driver. A file of whose patch too much would be kept (patch.py) counts as binary and cut.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, cast

from rulebook_ralph.core.diff import FileDiff, Line, Versions
from rulebook_ralph.core.model import STATE_FOLDER
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.workspace.git import OPTIONS, GitError
from rulebook_ralph.workspace.patch import MOST_OF_A_FILE, read_files
from rulebook_ralph.workspace.repository import Repository

_NULS, _FEW_NULS, _UNREADABLE = 0.01, 3, 0.1
"""So much of a text may be NULs (a few in any case) and no UTF-8: a NUL in a program hides nothing of it."""

_SETTINGS = (
    "core.quotePath=true",  # a name can then forge no line of the output
    "core.attributesFile=/dev/null",
    f"core.bigFileThreshold={2 * MOST_OF_A_FILE}",
    "diff.suppressBlankEmpty=false",
)
_ARGUMENTS = (
    *("diff-tree", "-r", "-M", "--raw", "-p", "-U0", "--full-index"),
    *("--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=none"),
)
_BESIDES_STATE = ("--", f":(top,exclude,literal){STATE_FOLDER}")
_BLOCK = 1024 * 1024
_ASTRAY = (b"symlink", b"dangling", b"loop", b"notdir")
"""What git says of a link that leads out of the tree or to nothing in it, before the length of a text that follows."""
_SHA256 = 64
"""Digits of a name in repositories of the newer format."""


def read_diff(repository: Repository, before_tree: str, after_tree: str) -> tuple[FileDiff, ...]:
    """What changed from one tree to the other, the state folder aside. Raises GitError.

    A file that became a link counts as modified. Text in another encoding than UTF-8 has U+FFFD for what is not
    UTF-8. A text too large to be kept has `binary` and `cut` set.
    """
    if before_tree == after_tree:
        return ()
    with _reading(repository, (*_ARGUMENTS, before_tree, after_tree, *_BESIDES_STATE)) as output:
        found = list(read_files(output))
    doubtful = [file for file, by_git in found if by_git and file.kind != "D"]
    texts = read_versions(repository, before_tree, after_tree, doubtful) if doubtful else {}
    files = [_as_text(file, texts[file.path]) if file.path in texts else file for file, _ in found]
    cut = _texts_among(repository, after_tree, [file.path for file in files if file.binary and file.kind != "D"])
    return tuple(replace(file, cut=True) if file.path in cut else file for file in files)


def _as_text(file: FileDiff, texts: Versions) -> FileDiff:
    """A file that git took for binary, where it is a text with a few strange characters in it."""
    if texts.after is None:
        return file
    before, after = (texts.before or "").split("\n"), texts.after.split("\n")
    added, removed = (_lines_missing(a, b) for a, b in ((after, before), (before, after)))
    return replace(file, added=added, removed=removed, binary=False)


def _lines_missing(lines: Sequence[str], others: Sequence[str]) -> tuple[Line, ...]:
    known = {*others, ""}
    return tuple(Line(number, line) for number, line in enumerate(lines, start=1) if line not in known)


def read_versions(
    repository: Repository, before_tree: str, after_tree: str, files: Sequence[FileDiff]
) -> Mapping[str, Versions]:
    """The texts of those files in both trees, by `FileDiff.path`. None stands for a version that is not there, is no
    text, or is larger than `MOST_OF_A_FILE`. Raises GitError.
    """
    wanted: list[str] = []
    for file in files:
        if file.kind != "A":
            wanted.append(f"{before_tree}:{file.old_path or file.path}")
        if file.kind != "D":
            wanted.append(f"{after_tree}:{file.path}")
    texts = _texts(repository, wanted)
    return {
        file.path: Versions(
            before=texts.get(f"{before_tree}:{file.old_path or file.path}"),
            after=texts.get(f"{after_tree}:{file.path}") if file.kind != "D" else None,
        )
        for file in files
    }


def folders_among(repository: Repository, tree: str, paths: Sequence[str]) -> frozenset[str]:
    """Those of the paths that are folders in a tree. Raises GitError."""
    asked = [path for path in paths if "\n" not in path]
    if not asked:
        return frozenset()
    question = b"".join(os.fsencode(f"{tree}:{path}\n") for path in asked)
    with _reading(repository, ("cat-file", "--batch-check=%(objecttype)"), question) as output:
        return frozenset(path for path in asked if output.readline() == b"tree\n")


def links_out(repository: Repository, tree: str, paths: Sequence[str]) -> Mapping[str, str]:
    """Those of a tree's links that lead, through whatever links, to something that it does not hold and that is there
    in the work tree, or may be elsewhere; and where, if that is out of the repository. Raises GitError.
    """
    found: dict[str, str] = {}
    asked = [path for path in paths if "\n" not in path]
    question = b"".join(os.fsencode(f"{tree}:{path}\n") for path in asked)
    with _reading(repository, ("cat-file", "--batch-check=%(objecttype)", "--follow-symlinks"), question) as output:
        for path in asked:
            told = output.readline().split()
            if not told or told[0] not in _ASTRAY:
                continue
            said = os.fsdecode(output.read(int(told[1]) + 1)[:-1])
            target = said if told[0] == b"symlink" else ""
            if (target and not target.startswith("/")) or (repository.root / path).exists():
                found[path] = target
    return found


# The versions


def _texts(repository: Repository, wanted: Sequence[str]) -> dict[str, str | None]:
    """Texts by `tree:path`."""
    found: dict[str, str | None] = {}
    in_one = [name for name in wanted if "\n" not in name]  # a line of the question is a name
    if in_one:
        question = b"".join(os.fsencode(name) + b"\n" for name in in_one)
        with _reading(repository, ("cat-file", "--batch"), question) as output:
            for name in in_one:
                found[name] = _decoded(_next_object(output))
    for name in wanted:
        if "\n" in name:
            tree, _, path = name.partition(":")
            found[name] = _decoded(repository.file_of(tree, path))
    return found


def _next_object(output: IO[bytes]) -> bytes | None:
    head = output.readline().rstrip(b"\n").rsplit(b" ", 2)
    if len(head) < 3 or not head[2].isdigit():  # noqa: PLR2004 - object, type, size; or: name, missing
        return None
    size = int(head[2])
    content = output.read(size) if size <= MOST_OF_A_FILE else None
    left = 1 if content is not None else size + 1  # a line feed ends it
    while left > 0 and (block := output.read(min(left, _BLOCK))):
        left -= len(block)
    if head[1] != b"blob" or content is None:
        return None
    _verify(head[0].decode("ascii", "replace"), content)
    return content


def _verify(name: str, content: bytes) -> None:
    """Git does not look whether an object is what its name says; an agent can write into them. Raises RalphError."""
    digest = hashlib.new("sha256" if len(name) == _SHA256 else "sha1", usedforsecurity=False)
    digest.update(b"blob %d\0" % len(content))
    digest.update(content)
    if digest.hexdigest() != name:
        raise RalphError(
            f"the object {name} of this repository is not what it was; look with: git fsck --full",
            exit_code=ExitCode.UNEXPECTED,
        )


def _texts_among(repository: Repository, tree: str, paths: Sequence[str]) -> set[str]:
    """Those of the files of a tree that are texts, however large. Raises GitError, RalphError."""
    found: set[str] = set()
    in_one = [path for path in paths if "\n" not in path]
    if in_one:
        question = b"".join(os.fsencode(f"{tree}:{path}\n") for path in in_one)
        with _reading(repository, ("cat-file", "--batch"), question) as output:
            found |= {path for path in in_one if _next_is_text(output)}
    for path in paths:
        content = repository.file_of(tree, path) if "\n" in path else None
        if content is not None and not _is_binary(len(content), content.count(0), _strange(content)):
            found.add(path)
    return found


def _next_is_text(output: IO[bytes]) -> bool:
    """The same as `_decoded` asks of a small one, without keeping the content."""
    head = output.readline().rstrip(b"\n").rsplit(b" ", 2)
    if len(head) < 3 or not head[2].isdigit():  # noqa: PLR2004 - object, type, size; or: name, missing
        return False
    left = size = int(head[2])
    nuls = strange = 0
    while left > 0 and (block := output.read(min(left, _BLOCK))):
        left -= len(block)
        nuls += block.count(0)
        strange += _strange(block)
    output.read(1)
    return head[1] == b"blob" and not _is_binary(size, nuls, strange)


_ASCII = bytes(range(128))


def _strange(content: bytes) -> int:
    """How many bytes are not ASCII; to decode a large file would take long."""
    return len(content.translate(None, delete=_ASCII))


def _is_binary(size: int, nuls: int, unreadable: int) -> bool:
    return nuls > 0 and (nuls > max(_FEW_NULS, _NULS * size) or unreadable > _UNREADABLE * size)


def _decoded(content: bytes | None) -> str | None:
    if content is None or len(content) > MOST_OF_A_FILE:
        return None
    text = content.decode("utf-8", "replace")
    return None if _is_binary(len(text), text.count("\0"), text.count("\ufffd")) else text


@contextmanager
def _reading(repository: Repository, arguments: Sequence[str], stdin: bytes = b"") -> Iterator[IO[bytes]]:
    """The output of a git command, as it comes. Raises GitError where the command fails."""
    repository.private.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=repository.private, prefix="nothing-"))
    environment = {name: value for name, value in repository.git.environment.items() if name not in _MEDDLING}
    environment |= {
        "GIT_DIR": str(repository.git_folder.absolute()),
        "GIT_WORK_TREE": str(folder),
        "GIT_INDEX_FILE": str(folder / "none"),
        "GIT_ATTR_NOSYSTEM": "1",
    }
    settings = (word for setting in _SETTINGS for word in ("-c", setting))
    try:
        with tempfile.TemporaryFile() as question, tempfile.TemporaryFile() as problems:
            question.write(stdin)
            question.seek(0)
            process = _start(["git", *OPTIONS, *settings, *arguments], folder, environment, question, problems)
            with process:
                output = cast("IO[bytes]", process.stdout)
                try:
                    yield output
                    while output.read(_BLOCK):
                        pass
                except BaseException:
                    process.kill()
                    raise
            if process.returncode != 0:
                problems.seek(0)
                told = problems.read().decode("utf-8", "replace")
                raise GitError(repository.root, arguments, process.returncode, told)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


_MEDDLING = ("GIT_DIFF_OPTS", "GIT_EXTERNAL_DIFF", "GIT_ATTR_SOURCE")


def _start(
    command: list[str], folder: Path, environment: Mapping[str, str], stdin: IO[bytes], stderr: IO[bytes]
) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            process_group=0,
        )
    except FileNotFoundError:
        raise RalphError("git is not installed or not on PATH; install git") from None
