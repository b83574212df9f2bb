"""Any agent's work on any tree, and on git itself: what is saved of it, and that nothing of it stays after a rollback.

`test_snapshot.py` shows the same of single tricks; here they come together, in any order.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from rulebook_ralph.workspace import commits, guard, restoring
from rulebook_ralph.workspace.repository import open_repository
from rulebook_ralph.workspace.snapshot import Opening, Workspace
from rulebook_ralph.workspace.snapshot_refs import snapshot_reference
from tests.integration.test_snapshot import (
    _NAMES,
    WHO,
    Case,
    Node,
    Tree,
    _cases,
    _git,
    _hashed,
    _ignored,
    _listed,
    _nodes,
    _own_files,
    _put,
    _seen,
)

_ATTRIBUTES = (
    b"*.txt text eol=crlf\n",
    b"* text=auto\n",
    b"*.txt filter=upper\n-f filter=upper\n",
    b"* -text\nkeep export-ignore\n",
    b"*.txt ident binary\n",
    b"*.txt working-tree-encoding=UTF-16\n",  # the last, since no base can have it: git would not add it
)
_ATTRIBUTE_FILES = (".gitattributes", "a/.gitattributes", "keep/.gitattributes")
_SUBMODULE, _MINE = "vendor/sub", "vendor/mine"

_ON_GIT = (
    "echo '*' > .gitignore",
    "rm -f .gitignore",
    "mkdir -p .git/info && echo '*' > .git/info/exclude",
    "mkdir -p .git/info && echo '* text eol=crlf' > .git/info/attributes && git checkout -q -f .",
    "git config core.autocrlf true && rm -f .git/index && git reset -q --hard",
    "git config filter.upper.clean cat; git config filter.upper.smudge cat",
    "git config core.fileMode false; git config core.excludesFile /dev/null; git config core.worktree /tmp",
    "mkdir -p .git/hooks && printf '#!/bin/sh\\ntouch pwned\\n' > .git/hooks/post-checkout && chmod +x .git/hooks/*",
    "git ls-files -z | xargs -0 git update-index --assume-unchanged --",
    "git ls-files -z | xargs -0 git update-index --skip-worktree --",
    "git sparse-checkout set --no-cone /keep",
    "git add -A; git commit -qm agents",
    "git add -A -f; git commit -qm all",
    "git commit -q --amend --allow-empty -m amended",
    "git checkout -q -b agents && git branch -q -D main",
    "git checkout -q other",
    "git checkout -q --detach HEAD~1",
    "git reset -q --hard HEAD~1",
    "git merge -q other",
    "git merge -q --squash other",
    "git rebase -q other",
    "git cherry-pick other",
    "git bisect start -q HEAD HEAD~1",
    "git stash -q",
    "git stash -q -u",
    "git stash drop -q",
    "git stash pop -q",
    "git tag v1; git tag -d v0; git update-ref refs/notes/x HEAD",
    "git clean -q -f -d",
    "git clean -q -f -d -x",
    "git gc -q --prune=now",
    "git pack-refs --all",
    "git worktree add -q --detach ../tree",
    "git worktree add -q -f ../tree other && git -C ../tree commit -q --allow-empty -m there",
    "git worktree add -q --detach inside",
    "git rm -r -q --cached .",
    "rm -f .git/index",
    "git ls-files -z | xargs -0 chmod +x --",
    "git init -q --template= fresh && echo x > fresh/x && echo x > fresh/x.o",
    "git init -q --template= 'u dir' && cd 'u dir' && echo x > x2 && git add -A && git commit -qm x",
    "git init -q --template= a && cd a && echo x > x2 && git add -A && git commit -qm x",
    "git clone -q . fresh/deep && git clone -q . fresh/deep/deeper",
    "rm -f a.txt && mkfifo a.txt",
    "mkdir -p .GIT 'keep/git~1' && echo x > .GIT/x && ln -s a.txt .gitmodules",
    f"cd {_SUBMODULE} && echo dirty > file",
    f"cd {_SUBMODULE} && echo more > file && git commit -qam moved",
    f"rm -r {_SUBMODULE}",
    f"rm -r {_SUBMODULE} && echo x > {_SUBMODULE}",
    f"cd {_MINE} && echo agents > file && git add -A && git commit -qm agents",
)  # fmt: skip


@dataclass(frozen=True)
class Work:
    """A base and what a person has beside it, and an agent's work, step by step: a script, or files to be written,
    removed or moved.
    """

    case: Case
    repositories: tuple[str, ...]
    steps: tuple[str | Tree | tuple[str, ...], ...]

    @property
    def filtered(self) -> bool:
        """Whether what is committed may differ from what stands in the tree."""
        written = [self.case.base, *(step for step in self.steps if isinstance(step, dict))]
        return any(name.endswith(".gitattributes") for tree in written for name in tree)


@st.composite
def _attributes(draw: st.DrawFn) -> Tree:
    if draw(st.integers(0, 2)):
        return {}
    names = draw(st.lists(st.sampled_from(_ATTRIBUTE_FILES), unique=True, min_size=1))
    return {name: ("100644", draw(st.sampled_from(_ATTRIBUTES))) for name in names}


def _short(tree: Tree) -> Tree:
    """Without the long contents that `test_snapshot.py` has: Hypothesis prints all of an example."""
    return {name: (mode, content[:100]) for name, (mode, content) in tree.items()}


@st.composite
def _written(draw: st.DrawFn) -> Tree:
    name = draw(st.sampled_from(_NAMES))
    return _short({name: draw(_nodes(name))})


_steps = st.one_of(
    st.sampled_from(_ON_GIT[::-1]),
    st.sampled_from(_ON_GIT),
    _written(),
    _attributes(),
    st.tuples(st.sampled_from(_NAMES)),
    st.tuples(st.sampled_from(("a", "keep", "sub", "build", "u dir", "a.txt")), st.sampled_from(("b", "a", "c/d"))),
)


@st.composite
def _works(draw: st.DrawFn) -> Work:
    case = draw(_cases())
    attributes = {
        name: node
        for name, node in draw(_attributes()).items()
        if node[1] != _ATTRIBUTES[-1]
        and not any(other == (folder := name.rpartition("/")[0]) or other.startswith(f"{name}/") for other in case.base)
        and folder not in case.mine
    }
    base = _short(case.base | attributes)
    repositories = tuple(draw(st.lists(st.sampled_from((_SUBMODULE, _MINE)), unique=True)))
    first: list[Tree | tuple[str, ...]] = [*((name,) for name in case.deleted), _short(case.written)]
    more = draw(st.lists(_steps, min_size=1, max_size=7))
    return Work(Case(base, _short(case.mine), (), {}), repositories, tuple(draw(st.permutations([*first[:3], *more]))))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty repository with a filter, and a repository that others may have inside."""
    folder = tmp_path_factory.mktemp("template")
    for name in ("toy", "inner"):
        (folder / name).mkdir()
        _git(folder / name, "init", "-q", "-b", "main", "--template=")
    for half, command in (("clean", "tr a-z A-Z"), ("smudge", "tr A-Z a-z")):
        _git(folder / "toy", "config", f"filter.upper.{half}", command)
    _put(folder / "inner", {"file": ("100644", b"inner\n")})
    who = ("-c", "user.name=T", "-c", "user.email=t@ralph.invalid")
    _git(folder / "inner", "add", "-A")
    _git(folder / "inner", *who, "commit", "-qm", "inner")
    return folder


_FURNISH = """set -e
git add -A -f -- ':/' && git commit -q -m base && git rm -r -q --cached . && git reset -q --hard
git branch other HEAD~1 && git tag v0 && git checkout -q other && echo other > a.txt && git add -f a.txt
git commit -q -m other && git checkout -q -f main && git config branch.main.description mine
echo stashed > stashed && git add -f stashed && git stash -q
"""


def _furnish(template: Path, folder: Path, work: Work) -> Path:
    """The base with branches, a tag and a stash beside it, and what a person has in the tree."""
    root = folder / "toy"
    shutil.copytree(template / "toy", root)
    _git(root, "commit", "-q", "--allow-empty", "-m", "first")
    _put(root, work.case.base)
    if _SUBMODULE in work.repositories:
        shutil.copytree(template / "inner", root / _SUBMODULE)
    _run(root, _FURNISH, check=True)
    _put(root, work.case.mine)
    if _MINE in work.repositories:
        shutil.copytree(template / "inner", root / _MINE)
    return root


def _run(root: Path, script: str, *, check: bool = False) -> None:
    quiet = {**os.environ, "GIT_EDITOR": "true", "GIT_MERGE_AUTOEDIT": "no"}
    done = subprocess.run(["sh", "-c", script], cwd=root, env=quiet, capture_output=True, check=False)
    assert not check or done.returncode == 0, done.stderr


def _carry_out(root: Path, work: Work) -> None:
    for step in work.steps:
        if isinstance(step, str):
            event(step)
            _run(root, step)
        elif isinstance(step, dict):
            with suppress(OSError):
                _put(root, step)
        elif len(step) == 1:
            path = root / step[0]
            with suppress(OSError):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        else:
            with suppress(OSError):
                (root / step[1]).parent.mkdir(exist_ok=True)
                (root / step[0]).rename(root / step[1])


def _lines(root: Path, *arguments: str) -> set[bytes]:
    return set(_git(root, *arguments).split(b"\0"))


def _of_git(root: Path) -> tuple[object, ...]:
    return (
        _own_files(root),
        *(
            _git(root, *asked)
            for asked in (("for-each-ref",), ("ls-files", "-s"), ("ls-files", "-v"), ("stash", "list"))
        ),
    )


def _inside(name: str, folders: set[str]) -> bool:
    parts = name.split("/")
    return any("/".join(parts[:length]) in folders for length in range(1, len(parts)))


@settings(max_examples=settings().max_examples // 5, suppress_health_check=list(HealthCheck))
@given(_works())
def test_whatever_an_agent_does_it_is_saved_and_taken_back(template: Path, work: Work) -> None:
    with tempfile.TemporaryDirectory(dir=template) as folder:
        root = _furnish(template, Path(folder), work)
        repository = open_repository(root, os.environ)
        assert repository.modified() == ()
        workspace, guarded = Workspace(repository), guard.remember(repository)
        opening = workspace.open()
        before, of_git = _seen(root), _of_git(root)
        status = _lines(root, "status", "--porcelain", "-z", "-uall")

        _carry_out(root, work)
        after = _seen(root)

        told = guarded.restore()
        assert _of_git(root) == of_git
        tree = workspace.capture(opening)
        assert _seen(root) == after, "to capture it changes nothing"
        _assert_all_is_in_it(root, work, opening, tree, after)
        _assert_it_is_kept(root, tree, opening, told.new_tips, Path(folder), exact=not work.filtered)

        workspace.restore(opening, tree)
        restored = _seen(root)
        assert _of_git(root) == of_git
        assert repository.head() == opening.commit
        left = _lines(root, "status", "--porcelain", "-z", "-uall") - status
        assert {line for line in left if not _forbidden(line)} == set()
        tracked = set(_listed(root, opening.tree))
        assert {name: restored.get(name) for name in tracked & before.keys()} == {
            name: before[name] for name in tracked & before.keys()
        }
        persons = {name for name in before.keys() - tracked if not _inside(name, {_SUBMODULE})}
        assert {name: restored.get(name) for name in persons & after.keys()} == {
            name: after[name] for name in persons & after.keys()
        }, "what the agent left of a person's files stays as it is"
        fresh = Workspace(repository)
        assert fresh.changes(opening.tree, fresh.capture(opening)) == ()
        assert not (root / "pwned").exists() or "pwned" in after


def _forbidden(line: bytes) -> bool:
    """Names that no tree of git's can hold."""
    return b".GIT/" in line or b"git~1" in line or b".gitmodules" in line


def _assert_all_is_in_it(root: Path, work: Work, opening: Opening, tree: str, after: Tree) -> None:
    """Every file that stood there, but for what was ignored or a person's at opening and what lies in repositories."""
    listed = _listed(root, tree)
    links = {name for name, (mode, _) in listed.items() if mode == "160000"}
    links |= {name for name, (mode, _) in _listed(root, opening.tree).items() if mode == "160000"}
    mine = {*work.case.mine, *opening.untracked}
    wanted = {
        name: node
        for name, node in after.items()
        if name not in mine
        and not _inside(name, {*links, *mine})
        and "/.git/" not in f"/{name}/"
        and not _ignored(name, work.case.base)
        and not _forbidden(os.fsencode(f"{name}/" if name.startswith(".GIT") else name))
    }
    assert listed.keys() - links == wanted.keys() - links
    if not work.filtered:
        for name in links:
            listed.pop(name, None), wanted.pop(name, None)
        assert listed == _hashed(wanted)


def _assert_it_is_kept(
    root: Path, tree: str, opening: Opening, tips: tuple[str, ...], folder: Path, *, exact: bool
) -> None:
    """The snapshot's ref keeps the tree and the agent's commits; `ralph restore N --to FOLDER` writes all of it."""
    repository = open_repository(root, os.environ)
    output = repository.private / "output"
    output.write_bytes(b"raw output")
    reference = snapshot_reference("toy", "one", 1)
    snapshot = commits.Snapshot(reference, tree, opening.commit, "prompt", output, iter, "attempt", tips)
    saved = commits.save_snapshot(repository, WHO, snapshot, seconds=1)
    attempt = restoring.read_attempt(repository, saved)
    assert attempt is not None
    for tip in tips:
        kept = _git(root, "cat-file", "-t", tip) != b"commit\n"
        assert kept or _git(root, "merge-base", tip, reference).decode().strip() == tip
    restoring.write_to(repository, attempt, folder / "to")
    listed: Mapping[str, tuple[str, str]] = {
        name: what for name, what in _listed(root, tree).items() if what[0] != "160000"
    }
    written: dict[str, Node] = _seen(folder / "to")
    assert written.keys() == listed.keys()
    if exact:
        assert _hashed(written) == listed
    _git(root, "update-ref", "-d", reference)
