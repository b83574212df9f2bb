"""Work brought onto another tip: a merge of trees that touches no work tree, no index and no ref.

Nobody's configuration decides its outcome: a merge driver of a person's that an agent's `.gitattributes` names could
drop a change in silence. So git works in a git folder of Ralph's own, where no command is a driver, and attributes are
those of the tip, which was judged before. Of these `union` keeps the lines of both sides, and `-merge` is a conflict.
"""

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from rulebook_ralph.errors import RalphError
from rulebook_ralph.workspace.git import OPTIONS, Git, GitError
from rulebook_ralph.workspace.isolated_clone import format_settings
from rulebook_ralph.workspace.repository import Repository

_NEEDED = (2, 38)
"""The first git that merges trees without a work tree (`merge-tree --write-tree`)."""
_CONFLICTS = 1
_OF_NOBODY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "ralph"), ("EMAIL", "ralph"), ("DATE", "@0 +0000"))
}
"""Who makes the commits that are merged, which nothing names afterwards."""
_MOST_TOLD, _LONGEST = 20, 300
_MERGE = ("merge-tree", "--write-tree", "-z", "--name-only", "--messages")
_SETTINGS = ("core.attributesFile=/dev/null", "merge.directoryRenames=conflict")


@dataclass(frozen=True, slots=True)
class Rebased:
    """A tree on another tip. With `conflicts` (paths) it is none to go on with; `told` are git's words
    about them, a line each, the first of many.
    """

    tree: str
    conflicts: tuple[str, ...] = ()
    told: tuple[str, ...] = ()


def require_merge(repository: Repository) -> None:
    """Raises RalphError where git is too old for `rebased`."""
    told = repository.git.text("version")
    found = re.search(r"(\d+)\.(\d+)", told)
    if found is not None and (int(found[1]), int(found[2])) < _NEEDED:
        needed = ".".join(map(str, _NEEDED))
        raise RalphError(
            f"{told} is too old for isolated and parallel work, which needs git {needed}; install git {needed} or "
            "newer, or run without --parallel and --isolated"
        )


def rebased(repository: Repository, tree: str, *, base: str, onto: str) -> Rebased:
    """A tree that was made of the commit `base`, upon the commit `onto`; its objects are in the repository then. Raises
    GitError.

    History does not matter: a person may have taken back what the base holds, and it must not come again.
    """
    if base == onto:
        return Rebased(tree)
    before, there = repository.git.text("rev-parse", f"{base}^{{tree}}", f"{onto}^{{tree}}").splitlines()
    if there == before:
        return Rebased(tree)
    with _git_of_its_own(repository, onto) as git:
        start = git.text("commit-tree", before, "-m", "base")
        sides = [git.text("commit-tree", each, "-p", start, "-m", "side") for each in (there, tree)]
        command = ["git", *OPTIONS, *(word for setting in _SETTINGS for word in ("-c", setting)), *_MERGE, *sides]
        done = subprocess.run(
            command, cwd=git.root, env=dict(git.environment), capture_output=True, check=False, process_group=0
        )
    if done.returncode not in (0, _CONFLICTS):
        raise GitError(repository.root, _MERGE, done.returncode, done.stderr.decode("utf-8", "replace"))
    return _read(done.stdout, clean=done.returncode == 0)


def _read(output: bytes, *, clean: bool) -> Rebased:
    """The tree, the paths in conflict, an empty field; then of each message the number of its paths, these, its kind
    and its words.
    """
    fields = iter(os.fsdecode(output).split("\0"))
    tree = next(fields)
    if clean:
        return Rebased(tree)
    conflicts = tuple(dict.fromkeys(iter(lambda: next(fields, ""), "")))
    told = []
    while (count := next(fields, "")).isdecimal():
        paths = tuple(islice(fields, int(count)))
        kind, words = next(fields, ""), " ".join(next(fields, "").split())
        if kind.startswith("CONFLICT"):
            conflicts += tuple(path for path in paths[:1] if path not in conflicts)
            told.append(words[:_LONGEST])
    return Rebased(tree, conflicts, tuple(told[:_MOST_TOLD]))


@contextmanager
def _git_of_its_own(repository: Repository, tip: str) -> Iterator[Git]:
    """git with the repository's objects and the attributes files of that tip; else in an empty tree."""
    repository.private.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=repository.private, prefix="nothing-") as name:  # clear_passing knows it
        git_folder, tree = Path(name).absolute() / "git", Path(name).absolute() / "tree"
        for folder in (git_folder / "refs", tree):
            folder.mkdir(parents=True)
        (git_folder / "HEAD").write_text("ref: refs/heads/none\n")
        (git_folder / "config").write_text(format_settings(tip))
        shallow = repository.common_folder / "shallow"
        if shallow.is_file():
            (git_folder / "shallow").write_bytes(shallow.read_bytes())
        kept = {key: value for key, value in repository.git.environment.items() if not key.startswith("GIT_CONFIG")}
        own = {
            "GIT_DIR": str(git_folder),
            "GIT_WORK_TREE": str(tree),
            "GIT_INDEX_FILE": str(git_folder / "index"),
            "GIT_OBJECT_DIRECTORY": str(repository.common_folder / "objects"),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_ATTR_NOSYSTEM": "1",
            **_OF_NOBODY,
        }
        git = Git(tree, kept | own)
        git.raw("read-tree", tip)
        if attributes := git.raw("ls-files", "-z", "--", ":(top,glob)**/.gitattributes"):
            git.raw("checkout-index", "-q", "-z", "--stdin", stdin=attributes)
        (git_folder / "index").unlink()  # what stands in the tree is no work to be looked at
        yield git
