"""A git repository as Ralph sees it: where it is, what is checked out, what would stop a run."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rulebook_ralph.core.model import STATE_FOLDER
from rulebook_ralph.errors import RalphError
from rulebook_ralph.workspace.git import Git, GitError

_NONE_THERE = ("not a git repository", "must be run in a work tree")
_BRANCH = "refs/heads/"
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Repository:
    """The work tree's root, its git folder and the git folder that linked work trees share. Of a checkout that is none
    of its work trees, `own_scratch` is where its passing files go.
    """

    git: Git
    root: Path
    git_folder: Path
    common_folder: Path
    own_scratch: Path | None = None

    @property
    def private(self) -> Path:
        """Ralph's working files: lock, own index, raw output of a running agent."""
        return self.git_folder / "ralph"

    @property
    def scratch(self) -> Path:
        """Where files go that are needed for a moment, by one thread at a time."""
        return self.own_scratch or self.private

    @property
    def lock_file(self) -> Path:
        """What a run holds (state/lock.py)."""
        return self.private / "lock"

    def head(self) -> str:
        """The commit that is checked out."""
        said = self._said(self.git_folder / "HEAD")
        if said.startswith("ref: refs/") and ".." not in said:
            said = self._said(self.common_folder / said.removeprefix("ref: "))
        return said if _HASH.fullmatch(said) else self.git.text("rev-parse", "--verify", "HEAD^{commit}")

    def tip(self, branch: str) -> str | None:
        """The last commit on a branch, or None."""
        return self.commit_of(f"refs/heads/{branch}")

    def is_on(self, branch: str) -> bool:
        """Whether the branch is checked out."""
        return self.branch() == branch

    def branch(self) -> str | None:
        """The branch that is checked out, as HEAD names it; None when HEAD is detached."""
        named = self._said(self.git_folder / "HEAD").removeprefix("ref: ")
        if not named.startswith(_BRANCH) or named.endswith("/.invalid"):  # so it says where refs are in no files
            named = self.git.answer("symbolic-ref", "-q", "HEAD") or ""
        return named.removeprefix(_BRANCH) or None

    @staticmethod
    def _said(file: Path) -> str:
        """What a file of refs says; empty where it cannot be read. It is asked often, and a process takes its time."""
        try:
            return file.read_text("utf-8").rstrip(" \t\r\n\v\f")
        except (OSError, UnicodeDecodeError):
            return ""

    def commit_with_trailer(self, key: str, value: str) -> str | None:
        """The newest commit of HEAD's history with that trailer, or None."""
        wanted = f"%H %(trailers:key={key},valueonly,separator=%x20)"
        found = self.git.text("log", f"--format={wanted}", "--fixed-strings", f"--grep={key}: {value}", "HEAD", "--")
        pairs = (line.split(" ") for line in found.splitlines())  # one for each task that the commit completes
        return next((commit for commit, *named in pairs if value in named), None)

    def commit_of(self, revision: str) -> str | None:
        """The commit a revision names, or None."""
        return self._object(f"{revision}^{{commit}}")

    def _object(self, name: str) -> str | None:
        return self.git.answer("rev-parse", "--verify", "-q", "--end-of-options", name)

    def tree_of(self, revision: str) -> str:
        return self.git.text("rev-parse", "--verify", "--end-of-options", f"{revision}^{{tree}}")

    def tree_exists(self, tree: str) -> bool:
        return self._object(f"{tree}^{{tree}}") is not None

    def file_of(self, revision: str, path: str) -> bytes | None:
        """The content of a file in a revision, or None."""
        try:
            return self.git.raw("cat-file", "blob", f"{revision}:{path}")
        except GitError:
            return None

    def contains(self, commit: str, *, within: str = "HEAD") -> bool:
        """Whether HEAD, or another revision, has that commit in its history."""
        return self.git.succeeds("merge-base", "--is-ancestor", commit, within)

    def parting(self, commit: str) -> str | None:
        """The commit in which the histories of HEAD and of that commit part; None where they have none in common."""
        return self.git.answer("merge-base", commit, "HEAD")

    def hooks_folder(self) -> Path:
        """Where the repository's hooks are (core.hooksPath)."""
        try:
            configured = self.git.raw("config", "--type=path", "--get", "core.hooksPath", hooks=True)
        except GitError as error:
            if not error.is_a_no:
                raise
            return self.common_folder / "hooks"
        return self.root / os.fsdecode(configured).strip()

    def recent_commits(self, count: int, *, until: str = "HEAD") -> tuple[str, ...]:
        """The last commits, one line each, newest first."""
        text = self.git.text("log", f"-{count}", "--no-decorate", "--format=%h %s", until, "--")
        return tuple(line[:200] for line in text.splitlines())

    def modified(self) -> tuple[str, ...]:
        """Tracked paths that differ from HEAD in the index or the tree, the state folder aside."""
        output = self.git.raw(
            "status", "--porcelain=v1", "-z", "--untracked-files=no", "--no-renames", "--ignore-submodules=none"
        )
        paths = (os.fsdecode(entry[3:]) for entry in output.split(b"\0") if entry)
        return tuple(path for path in paths if not within_state(path))


def within_state(path: str) -> bool:
    """Whether a repository path lies in a state folder of the root."""
    return path == STATE_FOLDER or path.startswith(f"{STATE_FOLDER}/")


def open_repository(root: Path, environment: Mapping[str, str]) -> Repository:
    """The repository whose work tree has `root` at its top. Raises RalphError where there is none, or no commit yet."""
    git = Git.at(root, environment)
    try:
        answer = git.text("rev-parse", "--show-toplevel", "--absolute-git-dir", "--git-common-dir")
    except GitError as error:
        if not any(words in error.stderr for words in _NONE_THERE):
            problem = error.stderr.partition("\n")[0] or "it gave no reason"
            raise RalphError(f"git refuses {root}: {problem}; mend that, then give the command again") from None
        raise RalphError(f"{root} is not in a git repository; run 'git init' and make a first commit") from None
    try:
        top, git_folder, common = answer.split("\n")
    except ValueError:
        raise RalphError(f"the path of {str(root)!r} or of its git folder has a line break in it; rename it") from None
    if Path(top).resolve() != root.resolve():
        raise RalphError(f"the state folder is in {root}, but the repository's top is {top}; run 'ralph init' there")
    return Repository(_by_the_disk(git, Path(git_folder)), root, Path(git_folder), (root / common).resolve())


def unopened(root: Path, git_folder: Path, environment: Mapping[str, str]) -> Repository:
    """The same while git may not be asked yet, as its configuration may be an agent's: for Ralph's own files in it."""
    try:
        common = (git_folder / (git_folder / "commondir").read_text("utf-8").strip()).resolve()
    except (OSError, UnicodeDecodeError):
        common = git_folder
    return Repository(Git.at(root, environment), root, git_folder, common)


def _by_the_disk(git: Git, git_folder: Path) -> Git:
    """git that takes names which differ in case for two where the disk does: the configuration may be from another."""
    count = git.environment.get("GIT_CONFIG_COUNT", "0")
    if (git_folder / "hEAD").exists() or not count.isdecimal():
        return git
    more = {"GIT_CONFIG_COUNT": f"{int(count) + 1}", f"GIT_CONFIG_KEY_{count}": "core.ignoreCase"}
    return Git(git.root, {**git.environment, **more, f"GIT_CONFIG_VALUE_{count}": "false"})


def require_commit(repository: Repository) -> None:
    """Raises RalphError in a repository without a commit."""
    if repository.commit_of("HEAD") is None:
        raise RalphError("the repository has no commit yet; make a first one, so that work can be undone to it")


def top_level(start: Path, environment: Mapping[str, str]) -> Path | None:
    """The top of the repository around `start`, or None."""
    try:
        return Path(Git.at(start, environment).text("rev-parse", "--show-toplevel"))
    except GitError:
        return None


def branches_with_state(repository: Repository) -> tuple[str, ...]:
    """Local branches that carry a task list."""
    names = repository.git.text("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads").splitlines()
    questions = "".join(f"refs/heads/{name}:{STATE_FOLDER}/prd.json\n" for name in names)
    answers = repository.git.text("cat-file", "--batch-check", stdin=os.fsencode(questions)).splitlines()
    return tuple(
        name for name, answer in zip(names, answers, strict=False) if answer and not answer.endswith(" missing")
    )


def is_left_out(repository: Repository, path: str) -> bool:
    """Whether a sparse checkout leaves that tracked file out; its path is from the top."""
    if not (repository.git_folder / "info" / "sparse-checkout").is_file():
        return False
    return repository.git.text("ls-files", "-t", "--", f":/{path}").startswith("S ")


def require_branch(repository: Repository, branch: str) -> None:
    """Raises RalphError where git would not make that branch, which is not there yet."""
    if not repository.git.succeeds("check-ref-format", "--branch", branch):
        raise RalphError(f"'{branch}' is no valid branch name; change \"branch\" in prd.json")
    reference = f"refs/heads/{branch}"
    first = "/".join(reference.split("/")[:3])
    there = repository.git.text("for-each-ref", "--format=%(refname)", first).splitlines()
    others = [name for name in there if f"{name}/".startswith(f"{reference}/") or reference.startswith(f"{name}/")]
    if reference in there or not others:
        return
    other = others[0].removeprefix("refs/heads/")
    raise RalphError(
        f"git has no room for branch {branch} beside branch {other}; rename that one: "
        f'git branch -m {other} NEW-NAME, or change "branch" in prd.json'
    )


def check_out_branch(repository: Repository, branch: str) -> str:
    """Put HEAD on `branch`, creating it once from HEAD; says what was done, "" where nothing. Raises RalphError.

    A branch that is new, or whose commits are all in HEAD (it was merged), goes to where HEAD is, and neither tree nor
    index moves.
    """
    before = repository.branch() or repository.head()
    if before == branch:
        return ""
    require_branch(repository, branch)
    reference = f"refs/heads/{branch}"
    there = repository.commit_of(reference)
    try:
        in_use = f"branch {reference}" in repository.git.text("worktree", "list", "--porcelain").splitlines()
        if not in_use and (there is None or repository.contains(there)):
            head = repository.head()
            repository.git.raw("update-ref", "-m", "ralph: begin", reference, head, there or "0" * len(head))
            moving = f"checkout: moving from {before} to {branch}"  # what makes `git switch -` lead back
            repository.git.raw("symbolic-ref", "-m", moving, "HEAD", reference)
            return f"created branch {branch}" if there is None else f"branch {branch} goes on from {before}"
        repository.git.raw("switch", "--no-guess", branch)
    except GitError as error:
        problem = " ".join(error.stderr.split())[:300] or "git refused"
        raise RalphError(
            f"cannot switch {repository.root} to branch {branch}: {problem}; switch yourself, then run again"
        ) from None
    return f"switched from {before} to branch {branch}, which has commits of its own"
