"""A real repository for the tests of git/: files by name, commits, and what stands there."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from rulebook_ralph.git.repository import Repository, open_repository

Files = Mapping[str, str | bytes]


class Project:
    """A repository that a person works in."""

    def __init__(self, root: Path, files: Files, *, object_format: str = "sha1", opened: bool = True) -> None:
        self.root = root
        root.mkdir(parents=True)
        self.git("init", "-q", "-b", "main", f"--object-format={object_format}")
        self.write(files)
        self.commit("first")
        self.repository: Repository
        if opened:
            self.repository = open_repository(root, os.environ)

    def git(self, *arguments: str, check: bool = True, stdin: str | None = None) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=self.root, capture_output=True, text=True, check=False, input=stdin
        )
        assert not check or done.returncode == 0, done.stderr
        return done.stdout.strip()

    def output(self, *arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=self.root, capture_output=True, check=True)
        return os.fsdecode(done.stdout).rstrip("\n")

    def write(self, files: Files) -> None:
        write(self.root, files)

    def commit(self, message: str) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def tree(self, changed: Mapping[str, str | bytes | None], base: str = "HEAD") -> str:
        """A tree with those files changed, or removed, that no work tree has seen."""
        index = self.root / ".git" / "test-index"
        environment = {**os.environ, "GIT_INDEX_FILE": str(index)}

        def git(*arguments: str, stdin: bytes = b"") -> str:
            done = subprocess.run(
                ["git", *arguments], cwd=self.root, input=stdin, env=environment, capture_output=True, check=True
            )
            return done.stdout.decode().strip()

        index.unlink(missing_ok=True)
        git("read-tree", base)
        for path, content in changed.items():
            if content is None:
                git("update-index", "--force-remove", "--", path)
                continue
            oid = git("hash-object", "-w", "--stdin", stdin=content.encode() if isinstance(content, str) else content)
            git("update-index", "--add", "--replace", "--cacheinfo", f"100644,{oid},{path}")
        return git("write-tree")

    def commit_of(self, tree: str, *parents: str) -> str:
        return self.git("commit-tree", tree, *(word for parent in parents for word in ("-p", parent)), "-m", "made")

    def content(self, tree: str) -> dict[str, str]:
        """The files of a tree: path -> text."""
        listing = self.git("ls-tree", "-r", "-z", "--name-only", tree).split("\0")
        return {path: self.git("cat-file", "blob", f"{tree}:{path}") for path in listing if path}


def write(root: Path, files: Files) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def files_below(root: Path) -> dict[str, str]:
    """Every file below a folder but git's own: path -> text, or where a link leads."""
    found = {}
    for parent, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not (name == ".git" and Path(parent) == root)]
        for name in (*names, *(name for name in folders if Path(parent, name).is_symlink())):
            path = Path(parent, name)
            told = f"-> {path.readlink()}" if path.is_symlink() else path.read_text("utf-8", "surrogateescape")
            found[path.relative_to(root).as_posix()] = told
    return found
