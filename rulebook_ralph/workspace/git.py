"""Running git: argv lists only, a fixed locale, none of the repository's hooks, errors as values or one clear line."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rulebook_ralph.errors import RalphError

_DROPPED = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_PREFIX")
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.splitIndex=false",
    "core.quotePath=false",
    "core.safecrlf=false",
    "advice.addEmbeddedRepo=false",
    "gc.auto=0",
    "core.fsync=committed",  # else a power cut leaves refs without their objects: a repository that nothing opens
)
_NO = 1
OPTIONS = tuple(word for setting in _SETTINGS for word in ("-c", setting))


class GitError(Exception):
    """A git command that failed in the repository at `root`. `stderr` is git's own message."""

    def __init__(self, root: Path, arguments: Sequence[str], code: int, stderr: str) -> None:
        problem = " ".join(stderr.split())[:500]
        super().__init__(f"git {arguments[0]} failed in {root} ({code}): {problem}")
        self.code = code
        self.stderr = stderr.strip()

    @property
    def is_a_no(self) -> bool:
        """Whether git did its work, and the answer is no: a failure has a code of its own, and a message."""
        return self.code == _NO or not self.stderr


@dataclass(frozen=True, slots=True)
class Git:
    """git in one work tree. `environment` is the whole environment of the commands."""

    root: Path
    environment: Mapping[str, str]

    @classmethod
    def at(cls, root: Path, environment: Mapping[str, str]) -> "Git":
        """git for the work tree at `root`, cleaned of variables that would point it elsewhere."""
        kept = {name: value for name, value in environment.items() if name not in _DROPPED}
        fixed = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "GIT_LITERAL_PATHSPECS": "0"}
        return cls(root, kept | fixed)

    def raw(
        self,
        *arguments: str,
        stdin: bytes = b"",
        index: Path | None = None,
        hooks: bool = False,
        work_tree: Path | None = None,
        timeout: float | None = None,
    ) -> bytes:
        """Stdout of a git command. Raises GitError where it fails, RalphError where git is missing.

        A `timeout` (seconds) is for what may ask a person; Python polls for it, which costs a millisecond each time.
        """
        if any("\0" in argument for argument in arguments):
            raise GitError(self.root, arguments, _NO, "a name holds a NUL character")
        environment = dict(self.environment)
        if index is not None:
            environment["GIT_INDEX_FILE"] = str(index)
        if work_tree is not None:
            environment["GIT_WORK_TREE"] = str(work_tree)
        options = OPTIONS[2:] if hooks else OPTIONS
        try:
            done = subprocess.run(
                ["git", *options, *arguments],
                cwd=self.root,
                env=environment,
                input=stdin,
                capture_output=True,
                timeout=timeout,
                check=False,
                process_group=None if timeout else 0,  # ^C is for Ralph; but who signs may need the terminal
            )
        except (FileNotFoundError, NotADirectoryError) as error:
            if str(error.filename) == str(self.root):
                raise GitError(self.root, arguments, -1, "the folder is not there") from None
            raise RalphError("git is not installed or not on PATH; install git") from None
        except subprocess.TimeoutExpired:
            raise GitError(self.root, arguments, -1, f"no answer within {timeout} s") from None
        if done.returncode != 0:
            raise GitError(self.root, arguments, done.returncode, done.stderr.decode("utf-8", "replace"))
        return done.stdout

    def text(self, *arguments: str, stdin: bytes = b"", index: Path | None = None) -> str:
        """Stdout as text without the final newline; undecodable bytes survive as surrogates."""
        return self.raw(*arguments, stdin=stdin, index=index).decode("utf-8", "surrogateescape").rstrip("\n")

    def answer(self, *arguments: str) -> str | None:
        """Stdout of a question to which git may say no: None then. Raises GitError where it cannot tell."""
        try:
            return self.text(*arguments)
        except GitError as error:
            if error.is_a_no:
                return None
            raise

    def succeeds(self, *arguments: str) -> bool:
        """Whether a git command exits with 0."""
        try:
            self.raw(*arguments)
        except GitError:
            return False
        return True
