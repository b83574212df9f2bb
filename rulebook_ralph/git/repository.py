"""A git repository: what is asked of it, and git commands in it."""

import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from rulebook_ralph.errors import RalphError
from rulebook_ralph.git.command import GitError, run
from rulebook_ralph.git.objects import FOLDER, GITLINK, Entry, Objects
from rulebook_ralph.tasks.model import STATE_FOLDER

__all__ = ["GitError", "Repository", "config_entry", "open_repository", "read_plain", "unsupported", "within_state"]

_FIXED = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
_KEPT = re.compile(r"GIT_(?:AUTHOR|COMMITTER)_\w+|GIT_CONFIG_\w+|GIT_SSH\w*|GIT_ASKPASS|GIT_EXEC_PATH|GIT_PROXY\w*")
"""What a user's environment may set of git's own. All other variables lead git elsewhere or change its output."""
_OLDEST_GIT = (2, 38)
_NO_PLACE = {
    "not a git repository": "is not in a git repository; run 'git init' and make a first commit",
    "must be run in a work tree": "is a bare repository or a git folder; run ralph in a work tree of it",
    "HEAD^{commit}": "has no commit yet; make a first commit (git commit), then run ralph again",
}
"""What git says of a folder, and what a person is told."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A work tree at `root` with its git folder; `common_dir` is the one that linked work trees share.

    `environment` is the whole environment of its git commands; `hooks` where the user's are, where that is known.
    """

    root: Path
    git_dir: Path
    common_dir: Path
    environment: Mapping[str, str] = field(repr=False)
    hash_length: int
    objects: Objects = field(repr=False, compare=False)
    hooks: Path | None = None

    @property
    def private(self) -> Path:
        """Ralph's own folder in the git folder: the lock and files that are needed for a moment."""
        return self.git_dir / "ralph"

    def run(
        self,
        *arguments: str,
        stdin: bytes | None = None,
        index: Path | None = None,
        timeout: float | None = None,
        terminal: bool = False,
        output: IO[bytes] | None = None,
    ) -> bytes:
        """The output of a git command. Raises GitError where it fails, RalphError where there is no git.

        With `terminal` it may ask a person, as signing does; else ^C is for Ralph alone. With `output` that file gets
        what the command says.
        """
        environment = self.environment if index is None else {**self.environment, "GIT_INDEX_FILE": str(index)}
        return run(arguments, self.root, environment, stdin=stdin, output=output, timeout=timeout, group=not terminal)

    def text(self, *arguments: str, stdin: bytes | None = None, index: Path | None = None) -> str:
        """The output as text without the final newline; undecodable bytes are surrogates."""
        return os.fsdecode(self.run(*arguments, stdin=stdin, index=index)).rstrip("\n")

    def answer(self, *arguments: str) -> str | None:
        """The answer to a question that git may answer with no: None then. Raises GitError where it cannot tell."""
        try:
            return self.text(*arguments)
        except GitError as error:
            if error.code == 1 or (error.code > 0 and not error.stderr):
                return None
            raise

    def branch(self) -> str | None:
        """The branch that is checked out; None where HEAD is detached."""
        prefix, named = "ref: refs/heads/", os.fsdecode(read_plain(self.git_dir / "HEAD")).rstrip()
        if not named.startswith(prefix) or named.endswith("/.invalid"):  # refs may be in no files
            named = f"ref: {self.answer('symbolic-ref', '-q', 'HEAD') or ''}"
        return named.removeprefix(prefix) if named.startswith(prefix) else None

    def can_name_branch(self, name: str) -> bool:
        """Whether a branch can have that name."""
        return not name.startswith("-") and self.answer("check-ref-format", f"refs/heads/{name}") is not None

    def tip(self, branch: str) -> str | None:
        """The last commit of a branch, or None where there is no such branch."""
        return self.commit_of(f"refs/heads/{branch}")

    def commit_of(self, revision: str) -> str | None:
        """The commit that a revision names, or None. Raises GitError."""
        return self.objects.find(f"{revision}^{{commit}}")

    def head(self) -> str:
        """The commit that is checked out. Raises GitError."""
        if (commit := self.commit_of("HEAD")) is None:
            raise GitError(("rev-parse", "HEAD"), 128, "HEAD names no commit")
        return commit

    def tree_of(self, revision: str) -> str:
        """The tree of a commit. Raises GitError."""
        if (tree := self.objects.find(f"{revision}^{{tree}}")) is None:
            raise GitError(("rev-parse", revision), 128, f"{revision} names no tree")
        return tree

    def file_of(self, revision: str, path: str) -> bytes | None:
        """The content of a file in a commit or tree, or None. Raises GitError."""
        entry = self.entry(revision, path)
        return self.objects.read(entry.oid) if entry and entry.mode not in (FOLDER, GITLINK) else None

    def entry(self, revision: str, path: str) -> Entry | None:
        """What stands at a path of a commit or tree, or None. Raises GitError."""
        tree = self.objects.find(f"{revision}^{{tree}}")
        entry = Entry(FOLDER, tree) if tree else None
        for name in path.split("/"):
            entry = self.objects.tree(entry.oid).get(name) if entry and entry.mode == FOLDER else None
        return entry

    def entries(self, revision: str) -> dict[str, Entry]:
        """Every file of a commit or tree, by path. Raises GitError."""
        found = {}
        left = [("", self.tree_of(revision))]
        while left:
            above, oid = left.pop()
            for name, entry in self.objects.tree(oid).items():
                if entry.mode == FOLDER:
                    left.append((f"{above}{name}/", entry.oid))
                else:
                    found[above + name] = entry
        return found

    def contains(self, commit: str, *, within: str = "HEAD") -> bool:
        """Whether a revision has that commit in its history."""
        with suppress(GitError):
            return self.run("merge-base", "--is-ancestor", commit, within) == b""
        return False

    def merge_base(self, one: str, other: str) -> str | None:
        """The commit in which two histories part, or None."""
        return self.answer("merge-base", one, other)

    def recent_commits(self, count: int, *, until: str = "HEAD") -> tuple[str, ...]:
        """The last commits, one line each, newest first; of a merge what it was merged into."""
        lines: list[str] = []
        commit = self.commit_of(until)
        while commit and len(lines) < count and (content := self.objects.read(commit)):  # a shallow history breaks off
            head, _, message = content.decode("utf-8", "replace").partition("\n\n")
            subject = " ".join(message.strip().partition("\n\n")[0].split())
            lines.append(f"{commit[:8]} {subject}"[:200])
            commit = next((line[7:] for line in head.splitlines() if line.startswith("parent ")), None)
        return tuple(lines)

    def modified(self) -> tuple[str, ...]:
        """Tracked paths that differ from HEAD in the index or in the work tree, the state folder aside."""
        listing = self.run("status", "--porcelain=v1", "-z", "-uno", "--no-renames", "--ignore-submodules=none")
        names = (os.fsdecode(entry[3:]) for entry in listing.split(b"\0") if entry)
        return tuple(name for name in names if not within_state(name))

    def hooks_folder(self) -> Path:
        """Where the user's hooks are. Ralph's own git runs none of them."""
        if self.hooks is not None:
            return self.hooks
        listing = os.fsdecode(self.run("config", "-z", "--type=path", "--get-all", "core.hooksPath"))
        configured = listing.split("\0")[:-2]  # the last one is Ralph's own
        return self.root / configured[-1] if configured else self.common_dir / "hooks"

    def elsewhere(self, branch: str) -> Path | None:
        """Another work tree that has the branch checked out, or None."""
        for block in os.fsdecode(self.run("worktree", "list", "--porcelain", "-z")).split("\0\0"):
            place, *said = block.split("\0")  # of a bare repository it says no branch
            root = Path(place.removeprefix("worktree "))
            if f"branch refs/heads/{branch}" in said and root.resolve() != self.root.resolve():
                return root
        return None


def within_state(path: str) -> bool:
    """Whether a path of the repository is Ralph's state folder or lies in it."""
    return path == STATE_FOLDER or path.startswith(f"{STATE_FOLDER}/")


def open_repository(folder: Path, environment: Mapping[str, str], *, config_copy: Path | None = None) -> Repository:
    """The repository whose work tree has `folder` at its top. Raises RalphError where Ralph cannot work there.

    With `config_copy` (a folder) Ralph's git uses a copy of the user's configuration as it is now, which is made there.
    """
    kept = {name: value for name, value in environment.items() if not name.startswith("GIT_") or _KEPT.fullmatch(name)}
    environment = {**kept, **_FIXED}
    asked = ("rev-parse", "--show-toplevel", "--absolute-git-dir", "--git-common-dir", "HEAD^{commit}")
    try:
        answer = os.fsdecode(run(asked, folder, environment)).rstrip("\n")
    except GitError as error:
        raise _not_opened(folder, error) from None
    try:
        top, git_dir, common, head = answer.split("\n")
    except ValueError:
        raise RalphError(
            f"the path of {str(folder)!r} or of its git folder has a line break in it; rename it"
        ) from None
    root, common_dir = Path(top), (folder / common).resolve()
    if root.resolve() != folder.resolve():
        raise RalphError(f"{folder} is not the top of its git repository, which is {top}; work from there")
    environment |= {"GIT_DIR": git_dir, "GIT_WORK_TREE": top}
    objects = Objects(root, environment, common_dir / "objects", len(head))
    found = Repository(root, Path(git_dir), common_dir, environment, len(head), objects)
    return found if config_copy is None else _with_settings_copied(found, config_copy)


def _not_opened(folder: Path, error: GitError) -> RalphError:
    if error.code == -1 or not folder.is_dir():
        return RalphError(f"{folder} is no folder that can be read")
    if told := next((told for words, told in _NO_PLACE.items() if words in error.stderr), ""):
        return RalphError(f"{folder} {told}")
    problem = error.stderr.partition("\n")[0] or "it gave no reason"
    return RalphError(f"git refuses {folder}: {problem}; mend that, then give the command again")


def unsupported(repository: Repository) -> str | None:
    """Why Ralph cannot work in this repository, in one line with the remedy; None where it can."""
    told = repository.text("version")
    found = re.search(r"(\d+)\.(\d+)", told)
    if found and (int(found[1]), int(found[2])) < _OLDEST_GIT:
        needed = ".".join(map(str, _OLDEST_GIT))
        return f"{told} is too old; install git {needed} or newer"
    if repository.answer("config", "--get", "filter.lfs.required") == "true":
        asked = ("grep", "-q", "-F", "filter=lfs", "HEAD", "--", ":(glob)**/.gitattributes")
        path = repository.environment.get("PATH")
        if shutil.which("git-lfs", path=path) is None and repository.answer(*asked) is not None:
            return "files of this repository are in Git LFS, but git-lfs is not on PATH; install it"
    return None


# The user's settings as they were at the start


def _with_settings_copied(repository: Repository, folder: Path) -> Repository:
    """With a copy of the user's configuration, ignore rules and attributes: agents can reach the files."""
    fields = os.fsdecode(repository.run("config", "--list", "--show-scope", "--includes", "-z")).split("\0")
    entries = [entry for scope, entry in zip(fields[::2], fields[1::2], strict=False) if scope == "global"]
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for key, name in (("core.excludesfile", "ignore"), ("core.attributesfile", "attributes")):
            (folder / name).write_bytes(users_file(repository, key, name))
            entries.append(f"{key}\n{folder / name}")
        (folder / "config").write_bytes(os.fsencode("".join(map(config_entry, entries))))
    except OSError as error:
        raise RalphError(f"cannot write {folder}: {error.strerror}; make room there or change its owner") from None
    environment = {**repository.environment, "GIT_CONFIG_GLOBAL": str(folder / "config")}
    objects = Objects(repository.root, environment, repository.common_dir / "objects", repository.hash_length)
    return replace(repository, environment=environment, objects=objects, hooks=repository.hooks_folder())


def users_file(repository: Repository, key: str, default: str) -> bytes:
    """A file of rules that holds in all of the user's repositories."""
    named = repository.answer("config", "--type=path", "--get", key)
    home = Path(repository.environment.get("HOME") or "/")
    xdg = Path(repository.environment.get("XDG_CONFIG_HOME") or home / ".config") / "git"
    return read_plain(repository.root / named if named else xdg / default)


def config_entry(entry: str) -> str:
    """An entry of `git config --list -z`, as a file of git's configuration has it."""
    key, has_value, value = entry.partition("\n")
    section, _, name = key.rpartition(".")
    first, _, inner = section.partition(".")
    head = f"[{first} {_quoted(inner)}]" if inner else f"[{first}]"
    return f"{head}\n\t{name}{f' = {_quoted(value)}' if has_value else ''}\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def read_plain(path: Path) -> bytes:
    """The content of a plain file; nothing where there is none, or where it cannot be read."""
    try:
        return path.read_bytes() if path.is_file() else b""
    except OSError:
        return b""
