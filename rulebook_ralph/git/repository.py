"""A git repository, and how git is run in it: argv lists, fixed settings, no hooks, no questions, and time limits."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, cast

from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks.model import STATE_FOLDER

_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.splitIndex=false",
    "core.trustctime=true",
    "core.checkStat=default",
    "core.quotePath=false",
    "core.safecrlf=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "core.fsync=committed",  # without it a power cut leaves refs whose objects are missing
)
OPTIONS = tuple(word for setting in _SETTINGS for word in ("-c", setting))
"""The settings that every git command of Ralph's gets."""

_FIXED = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
_KEPT = re.compile(r"GIT_(?:AUTHOR|COMMITTER)_\w+|GIT_CONFIG_\w+|GIT_SSH\w*|GIT_ASKPASS|GIT_EXEC_PATH|GIT_PROXY\w*")
"""What a user's environment may set of git's own. All other variables lead git elsewhere or change its output."""
_OLDEST_GIT = (2, 38)
_MOST_ANSWERS, _MOST_KEPT = 512, 64 * 1024
_SIGTERM_GRACE = 2.0


class GitError(Exception):
    """A git command that failed. `stderr` is git's message; `code` is -1 where it did not start or took too long."""

    def __init__(self, command: tuple[str, ...], code: int, stderr: str) -> None:
        super().__init__(f"git {command[0]} failed ({code}): {' '.join(stderr.split())[:500]}")
        self.command = command
        self.code = code
        self.stderr = stderr.strip()


@dataclass(frozen=True, slots=True)
class Repository:
    """A work tree at `root` with its git folder; `common_dir` is the one that linked work trees share.

    `environment` is the whole environment of its git commands.
    """

    root: Path
    git_dir: Path
    common_dir: Path
    environment: Mapping[str, str] = field(repr=False)
    hash_length: int = 40
    _answers: dict[tuple[str, ...], bytes] = field(default_factory=dict, repr=False, compare=False)

    @property
    def private(self) -> Path:
        """Ralph's own folder in the git folder: the lock and files that are needed for a moment."""
        return self.git_dir / "ralph"

    @property
    def no_object(self) -> str:
        """The name that stands for no object: of a ref that is to be made, for instance."""
        return "0" * self.hash_length

    def run(
        self,
        *arguments: str,
        stdin: bytes | None = None,
        index: Path | None = None,
        timeout: float | None = None,
        cwd: Path | None = None,
        terminal: bool = False,
        output: IO[bytes] | None = None,
        lines: Iterable[bytes] | None = None,
    ) -> bytes:
        """The output of a git command. Raises GitError where it fails, RalphError where there is no git.

        With `terminal` it may ask a person, as signing does; else ^C is for Ralph alone. With `output` that file gets
        what the command says; `lines` are fed to it one by one, for a command that says next to nothing.
        """
        if any("\0" in argument for argument in arguments):
            raise GitError(arguments, -1, "a name holds a NUL character")
        environment = self.environment if index is None else {**self.environment, "GIT_INDEX_FILE": str(index)}
        try:
            process = subprocess.Popen(
                ("git", *OPTIONS, *arguments),
                cwd=cwd or self.root,
                env=environment,
                stdin=subprocess.DEVNULL if stdin is None and lines is None else subprocess.PIPE,
                stdout=output or subprocess.PIPE,
                stderr=subprocess.PIPE,
                process_group=None if terminal else 0,
            )
        except (FileNotFoundError, NotADirectoryError) as error:
            if str(error.filename) == str(cwd or self.root):
                raise GitError(arguments, -1, f"the folder {cwd or self.root} is not there") from None
            raise RalphError("git is not installed or not on PATH; install git") from None
        with process:
            try:
                if lines is not None:
                    _feed(process, lines)
                said, errors = process.communicate(stdin, timeout=timeout)
            except subprocess.TimeoutExpired:
                _end(process, group=not terminal)
                raise GitError(arguments, -1, f"no answer within {timeout} s") from None
            except BaseException:
                _end(process, group=not terminal)
                raise
        if process.returncode != 0:
            raise GitError(arguments, process.returncode, errors.decode("utf-8", "replace"))
        return said or b""

    def known(self, *arguments: str) -> bytes:
        """Like `run`, for a question about objects that are named by whole ids: its answer never changes, so git is
        asked once.
        """
        if arguments not in self._answers:
            said = self.run(*arguments)
            if len(said) > _MOST_KEPT:
                return said
            if len(self._answers) >= _MOST_ANSWERS:
                self._answers.clear()
            self._answers[arguments] = said
        return self._answers[arguments]

    def names_object(self, revision: str) -> bool:
        """Whether a revision is the whole id of an object."""
        return len(revision) == self.hash_length and not revision.strip("0123456789abcdef")

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
        try:
            named = (self.git_dir / "HEAD").read_text("utf-8").rstrip()
        except (OSError, UnicodeDecodeError):
            named = ""
        if not named.startswith("ref: refs/heads/") or named.endswith("/.invalid"):  # refs may be in no files
            named = f"ref: {self.answer('symbolic-ref', '-q', 'HEAD') or ''}"
        return named.removeprefix("ref: refs/heads/") if named.startswith("ref: refs/heads/") else None

    def can_name_branch(self, name: str) -> bool:
        """Whether a branch can have that name."""
        return not name.startswith("-") and self.answer("check-ref-format", f"refs/heads/{name}") is not None

    def tip(self, branch: str) -> str | None:
        """The last commit of a branch, or None where there is no such branch."""
        return self.commit_of(f"refs/heads/{branch}")

    def commit_of(self, revision: str) -> str | None:
        """The commit that a revision names, or None."""
        return self.answer("rev-parse", "--verify", "-q", "--end-of-options", f"{revision}^{{commit}}")

    def head(self) -> str:
        """The commit that is checked out. Raises GitError."""
        return self.text("rev-parse", "--verify", "HEAD^{commit}")

    def tree_of(self, revision: str) -> str:
        """The tree of a commit. Raises GitError."""
        asked = ("rev-parse", "--verify", "--end-of-options", f"{revision}^{{tree}}")
        return self.known(*asked).decode("ascii").strip() if self.names_object(revision) else self.text(*asked)

    def file_of(self, revision: str, path: str) -> bytes | None:
        """The content of a file in a commit or tree, or None."""
        try:
            return self.run("cat-file", "blob", f"{revision}:{path}")
        except GitError:
            return None

    def contains(self, commit: str, *, within: str = "HEAD") -> bool:
        """Whether a revision has that commit in its history."""
        with suppress(GitError):
            self.run("merge-base", "--is-ancestor", commit, within)
            return True
        return False

    def merge_base(self, one: str, other: str) -> str | None:
        """The commit in which two histories part, or None."""
        return self.answer("merge-base", one, other)

    def recent_commits(self, count: int, *, until: str = "HEAD") -> tuple[str, ...]:
        """The last commits, one line each, newest first."""
        text = self.text("log", f"-{count}", "--no-decorate", "--format=%h %s", until, "--")
        return tuple(line[:200] for line in text.splitlines())

    def modified(self) -> tuple[str, ...]:
        """Tracked paths that differ from HEAD in the index or in the work tree, the state folder aside."""
        listing = self.run("status", "--porcelain=v1", "-z", "-uno", "--no-renames", "--ignore-submodules=none")
        names = (os.fsdecode(entry[3:]) for entry in listing.split(b"\0") if entry)
        return tuple(name for name in names if not within_state(name))

    def hooks_folder(self) -> Path:
        """Where the user's hooks are. Ralph's own git runs none of them."""
        listing = os.fsdecode(self.run("config", "-z", "--type=path", "--get-all", "core.hooksPath"))
        configured = listing.split("\0")[:-2]  # the last one is Ralph's own
        return self.root / configured[-1] if configured else self.common_dir / "hooks"

    def work_trees(self) -> tuple[tuple[Path, str | None], ...]:
        """Every work tree of the repository, this one included, and the branch that each has checked out."""
        found = []
        for block in os.fsdecode(self.run("worktree", "list", "--porcelain", "-z")).split("\0\0"):
            said = dict(line.partition(" ")[::2] for line in block.strip("\0").split("\0"))
            if "worktree" in said and "bare" not in said:
                branch = said.get("branch", "").removeprefix("refs/heads/")
                found.append((Path(said["worktree"]), branch or None))
        return tuple(found)


def within_state(path: str) -> bool:
    """Whether a path of the repository is Ralph's state folder or lies in it."""
    return path == STATE_FOLDER or path.startswith(f"{STATE_FOLDER}/")


def open_repository(folder: Path, environment: Mapping[str, str], *, config_copy: Path | None = None) -> Repository:
    """The repository whose work tree has `folder` at its top. Raises RalphError where Ralph cannot work there.

    With `config_copy` (a folder) Ralph's git uses a copy of the user's configuration as it is now, which is made there.
    """
    kept = {name: value for name, value in environment.items() if not name.startswith("GIT_") or _KEPT.fullmatch(name)}
    outside = Repository(folder, folder / ".git", folder / ".git", {**kept, **_FIXED})
    asked = ("--show-toplevel", "--absolute-git-dir", "--git-common-dir", "HEAD^{commit}")
    try:
        answer = outside.text("rev-parse", *asked)
    except GitError as error:
        raise _not_opened(folder, error) from None
    try:
        top, git_dir, common, head = answer.split("\n")
    except ValueError:
        raise RalphError(
            f"the path of {str(folder)!r} or of its git folder has a line break in it; rename it"
        ) from None
    root = Path(top)
    if root.resolve() != folder.resolve():
        raise RalphError(f"{folder} is not the top of its git repository, which is {top}; work from there")
    found = Repository(root, Path(git_dir), (folder / common).resolve(), outside.environment, len(head))
    if config_copy is not None:
        found = replace(found, environment=_with_copied_settings(found, config_copy))
    fixed = {"GIT_DIR": git_dir, "GIT_WORK_TREE": top}
    return replace(found, environment={**found.environment, **fixed})


def _not_opened(folder: Path, error: GitError) -> RalphError:
    said = error.stderr
    if error.code == -1 or not folder.is_dir():
        return RalphError(f"{folder} is no folder that can be read")
    if "not a git repository" in said:
        return RalphError(f"{folder} is not in a git repository; run 'git init' and make a first commit")
    if "must be run in a work tree" in said:
        return RalphError(f"{folder} is a bare repository or a git folder; run ralph in a work tree of it")
    if "HEAD^{commit}" in said:
        return RalphError(f"{folder} has no commit yet; make a first commit (git commit), then run ralph again")
    problem = said.partition("\n")[0] or "it gave no reason"
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


def _with_copied_settings(repository: Repository, folder: Path) -> dict[str, str]:
    """The environment with the user's configuration, ignore rules and attributes copied: agents can reach the files."""
    environment = {**repository.environment, "GIT_DIR": str(repository.git_dir), "GIT_WORK_TREE": str(repository.root)}
    asked = replace(repository, environment=environment)
    fields = os.fsdecode(asked.run("config", "--list", "--show-scope", "--includes", "-z")).split("\0")
    entries = [entry for scope, entry in zip(fields[::2], fields[1::2], strict=False) if scope == "global"]
    given = {entry.partition("\n")[0]: entry.partition("\n")[2] for entry in entries}
    home = Path(environment.get("HOME") or "/")
    xdg = Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "git"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for key, name in (("core.excludesfile", "ignore"), ("core.attributesfile", "attributes")):
            source = Path(given.get(key) or xdg / name)
            source = home / source.relative_to("~") if source.parts[:1] == ("~",) else source
            (folder / name).write_bytes(read_plain(repository.root / source))
            entries.append(f"{key}\n{folder / name}")
        (folder / "config").write_bytes(os.fsencode("".join(map(config_entry, entries))))
    except OSError as error:
        raise RalphError(f"cannot write {folder}: {error.strerror}; make room there or change its owner") from None
    return {**repository.environment, "GIT_CONFIG_GLOBAL": str(folder / "config")}


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


def _feed(process: "subprocess.Popen[bytes]", lines: Iterable[bytes]) -> None:
    with suppress(BrokenPipeError):  # git's own words say why
        for line in lines:
            cast("IO[bytes]", process.stdin).write(line)


def _end(process: "subprocess.Popen[bytes]", *, group: bool) -> None:
    """End a git command and what it started, filters for instance."""
    for number in (signal.SIGTERM, signal.SIGKILL):  # on SIGTERM git removes its lock files
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number) if group else process.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_SIGTERM_GRACE)
            break
    for pipe in (process.stdin, process.stdout, process.stderr):
        with suppress(OSError):
            if pipe is not None:
                pipe.close()
