"""Layouts of a repository in which an attempt is captured and taken back as in any other; and attempts that git itself
would not add, or would not write back as they were.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from rulebook_ralph.errors import RalphError
from rulebook_ralph.workspace import guard
from rulebook_ralph.workspace.repository import Repository, check_out_branch, open_repository, require_commit
from rulebook_ralph.workspace.snapshot import Opening, Workspace
from tests.harness import make_project, picture
from tests.integration.test_bad_input import as_nobody, given_to_nobody
from tests.sampling import sample

BASE = "printf '*.o\\n' > .gitignore; echo a > a.txt; mkdir src; echo x > src/x; ln -s a.txt link"
PERSONS = "echo mine > notes.txt; echo mine > cache.o"


def sh(folder: Path, script: str) -> str:
    done = subprocess.run(
        ["sh", "-ec", script], cwd=folder, capture_output=True, text=True, errors="surrogateescape", check=False
    )
    assert done.returncode == 0, (script, done.stderr)
    return done.stdout


def files(root: Path) -> dict[str, tuple[int, bytes]]:
    return picture(root, without=lambda path: path.split("/")[0] == ".git")


@dataclass(frozen=True)
class Place:
    """A work tree in which an agent is about to begin."""

    root: Path
    repository: Repository
    workspace: Workspace
    guarded: guard.Guard
    opening: Opening


def begin(root: Path) -> Place:
    repository = open_repository(root, os.environ)
    workspace = Workspace(repository)
    return Place(root, repository, workspace, guard.remember(repository), workspace.open())


def attempt(place: Place, script: str) -> list[str]:
    """Let an agent work and take it back; returns what was seen of it, as `M path`."""
    status = sh(place.root, "git status --porcelain")
    refs = sh(place.root, "git for-each-ref")
    sh(place.root, script)
    place.guarded.restore()
    tree = place.workspace.capture(place.opening)
    seen = [f"{change.kind} {change.path}" for change in place.workspace.changes(place.opening.tree, tree)]
    place.workspace.restore(place.opening, tree)
    assert sh(place.root, "git status --porcelain") == status
    assert sh(place.root, "git for-each-ref") == refs
    assert place.repository.head() == place.opening.commit
    fresh = Workspace(place.repository)
    assert fresh.changes(place.opening.tree, fresh.capture(place.opening)) == ()
    return seen


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("template") / "toy"
    root.mkdir()
    who = "-c user.name=T -c user.email=t@ralph.invalid"
    sh(root, f"git init -q -b main --template= .; {BASE}; git add -A; git {who} commit -qm first; {PERSONS}")
    return root


@pytest.fixture
def root(template: Path, tmp_path: Path) -> Path:
    shutil.copytree(template, tmp_path / "toy", symlinks=True)
    return tmp_path / "toy"


# Where the work tree and the git folder are


def cloned(options: str) -> Callable[[Path], Path]:
    def make(root: Path) -> Path:
        sh(root.parent, f"git clone -q {options} 'file://{root}' clone")
        return root.parent / "clone"

    return make


def _bare(root: Path) -> Path:
    sh(root.parent, "git clone -q --bare toy toy.git && git -C toy.git worktree add -q -f ../tree main")
    return root.parent / "tree"


def _hidden_bare(root: Path) -> Path:
    sh(root.parent, "mkdir all && git clone -q --bare toy all/.git && git -C all/.git worktree add -q ../side")
    return root.parent / "all" / "side"


def _submodule(root: Path) -> Path:
    sh(
        root.parent,
        "git init -q outer && git -C outer -c protocol.file.allow=always submodule --quiet add ../toy inner",
    )
    return root.parent / "outer" / "inner"


def _separate(root: Path) -> Path:
    sh(root, "git init -q --separate-git-dir ../elsewhere")
    return root


def _link(root: Path) -> Path:
    link = root.with_name("to")
    link.symlink_to(root)
    return link


def _moved(name: str) -> Callable[[Path], Path]:
    def make(root: Path) -> Path:
        return root.rename(root.with_name(name))

    return make


_places: dict[str, Callable[[Path], Path]] = {
    "bare with a work tree": _bare,
    "bare in a hidden folder": _hidden_bare,
    "submodule": _submodule,
    "git folder elsewhere": _separate,
    "shallow": cloned("--depth 1"),
    "blobless": cloned("-c uploadpack.allowFilter=true --filter=blob:none"),
    "spaces and quotes": _moved(' it\'s "my" $toy; '),
    "no text": _moved(os.fsdecode(b"t\xff\xfey")),
    "link": _link,
}


@pytest.mark.parametrize("make", sample(_places.values(), always=[_bare, _submodule, _link]), ids=_places)
def test_places(make: Callable[[Path], Path], root: Path) -> None:
    place = begin(make(root))
    before = files(place.root)
    agent = "echo b > a.txt; echo n > src/new; rm link; git add -A; git commit -qm mine; git tag v1; git branch other"
    assert attempt(place, agent) == ["M a.txt", "D link", "A src/new"]
    assert files(place.root) == before


@pytest.mark.parametrize("where", ["root", "git folder"])
def test_a_line_break_in_a_path_is_said(where: str, root: Path) -> None:
    if where == "root":
        root = root.rename(root.with_name("to\ny"))
    else:
        sh(root, "git init -q --separate-git-dir '../else\nwhere'")
    with pytest.raises(RalphError, match="line break"):
        open_repository(root, os.environ)


# Work trees beside this one


@pytest.fixture
def linked(root: Path) -> Path:
    """Ralph's is a linked work tree; somebody works in the main one, on `main`."""
    sh(root, "git branch feature && git branch packed && git pack-refs --all && git worktree add -q -b ralph ../linked")
    return root.parent / "linked"


def test_somebody_switches_branches_and_commits_in_the_main_work_tree(root: Path, linked: Path) -> None:
    """Neither the branch they left nor the one they work on is an agent's doing."""
    place = begin(linked)
    sh(root, "git commit -q --allow-empty -m one && git switch -q feature && git commit -q --allow-empty -m two")
    expected = sh(root, "git for-each-ref refs/heads")
    assert place.guarded.restore() == guard.Restored({}, {}, ())
    assert sh(root, "git for-each-ref refs/heads") == expected
    sh(root, "git pack-refs --all && git commit -q --allow-empty -m three && git pack-refs --all")
    expected = sh(root, "git for-each-ref refs/heads")
    guard.decoded(place.guarded.encoded(), place.repository).restore()
    assert sh(root, "git for-each-ref refs/heads") == expected


@pytest.mark.parametrize("branch", ["feature", "packed"])
def test_an_agent_moves_a_branch_in_a_work_tree_it_made(branch: str, root: Path, linked: Path) -> None:
    if branch == "feature":
        sh(root, "git switch -q feature && git commit -q --allow-empty -m loose && git switch -q main")
    place = begin(linked)
    before = sh(root, "git for-each-ref")
    sh(linked, f"git worktree add -q ../agents {branch} && git -C ../agents commit -q --allow-empty -m agents")
    tip = sh(root, f"git rev-parse {branch}").strip()
    assert place.guarded.restore().new_tips == (tip,)
    assert sh(root, "git for-each-ref") == before


# Settings and formats


_settings: dict[str, tuple[str, str, list[str]]] = {
    "sparse, cone": (
        "mkdir b; echo b > b/b; git add -A; git commit -qm more; git sparse-checkout set --cone src",
        "mkdir b c; echo x > b/b; echo n > b/new; echo c > c/c",
        ["M b/b", "A b/new", "A c/c"],
    ),
    "sparse, patterns": (
        "git sparse-checkout set --no-cone /src/ /.gitignore",
        "echo changed > a.txt; echo n > src/new; echo n > new",
        ["M a.txt", "A new", "A src/new"],
    ),
    "sparse index": (
        "mkdir b; echo b > b/b; git add -A; git commit -qm more; git sparse-checkout set --cone --sparse-index src",
        "mkdir b; echo x > b/b; echo n > b/new",
        ["M b/b", "A b/new"],
    ),
    "line ends": (
        "git config core.autocrlf true; printf 'a\\r\\nb\\r\\n' > crlf; git add crlf; git commit -qm crlf",
        "printf 'a\\nb\\n' > crlf; echo n > new",
        ["A new"],
    ),
    "modes do not count": ("git config core.fileMode false", "chmod +x a.txt; echo n > new; chmod +x new", ["A new"]),
    "links are files": (
        "git config core.symlinks false; rm link; git checkout -q link",
        "printf src > link; echo n > new",
        ["M link", "A new"],
    ),
    "names that differ in case": (
        "echo A > A.txt; git add -A; git commit -qm case; git config core.ignoreCase true",
        "echo b > A.txt; echo n > New; echo m > new; mkdir SRC; echo y > SRC/y",
        ["M A.txt", "A New", "A SRC/y", "A new"],
    ),
    "split index": ("git config core.splitIndex true; git update-index --split-index", "echo b > a.txt", ["M a.txt"]),
    "untracked cache": (
        "git config core.untrackedCache true; git update-index --untracked-cache; git status",
        "echo b > a.txt; echo n > src/new",
        ["M a.txt", "A src/new"],
    ),
    "file monitor that sees nothing": (
        (
            "printf '#!/bin/sh\\nprintf \"t\\\\0\"\\n' > .git/monitor; chmod +x .git/monitor; "
            'git config core.fsmonitor "$PWD/.git/monitor"; git status; git update-index --fsmonitor; git status'
        ),
        "echo b > a.txt; echo n > src/new; touch .git/x",
        ["M a.txt", "A src/new"],
    ),
    "read-only files": ("chmod 444 a.txt src/x", "rm -f a.txt; echo b > a.txt; chmod 400 a.txt", ["M a.txt"]),
    "large files by a filter": (
        (
            "git config filter.up.clean 'tr a-z A-Z'; git config filter.up.smudge 'tr A-Z a-z'; git config filter.up.required true; "
            "echo '*.up filter=up' > .gitattributes; echo big > x.up; git add -A; git commit -qm filter"
        ),
        "echo other > x.up; echo n > src/y.up; echo > .gitattributes",
        ["M .gitattributes", "A src/y.up", "M x.up"],
    ),
}


@pytest.mark.parametrize(("prepare", "agent", "seen"), sample(_settings.values(), 12), ids=_settings)
def test_settings(prepare: str, agent: str, seen: list[str], root: Path) -> None:
    sh(root, f"{{ {prepare}; }} > /dev/null")
    place = begin(root)
    before = files(root)
    assert attempt(place, agent) == seen
    assert {name: content for name, (_, content) in files(root).items()} == {
        name: content for name, (_, content) in before.items()
    }


def test_sha256(tmp_path: Path) -> None:
    root = tmp_path / "toy"
    root.mkdir()
    sh(
        root,
        f"git init -q -b main --template= --object-format=sha256 .; {BASE}; git add -A; git commit -qm first; {PERSONS}",
    )
    assert check_out_branch(open_repository(root, os.environ), "ralph/toy") == "created branch ralph/toy"
    place = begin(root)
    assert attempt(place, "echo b > a.txt; git commit -qam mine; git init -q sub") == ["M a.txt", "A sub"]


def test_sha256_from_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DEFAULT_HASH", "sha256")
    project = make_project(tmp_path)
    ran = project.ralph("run")
    assert ran.code == 0, ran.err
    assert len(project.task_commits()["one"]) == 64


def alike(repository: Repository) -> None:
    """What is read from files is what git says."""
    named = repository.git.answer("symbolic-ref", "-q", "HEAD")
    assert repository.branch() == (named.removeprefix("refs/heads/") if named else None)
    assert repository.head() == repository.git.text("rev-parse", "HEAD")


@pytest.mark.parametrize(
    "script",
    [
        *(
            "git pack-refs --all --prune",
            "git checkout -q --detach",
            "git switch -q -c a/b",
            "git tag main; git tag x; git switch -q -c x",
        ),
        *("ln -sf refs/heads/main .git/HEAD", "git switch -q -c 'y\u3000'", "git switch -q -c $(printf 'b\\351')"),
    ],
)
def test_what_is_checked_out_is_what_git_says(script: str, root: Path, linked: Path) -> None:
    sh(root, script)
    for place in (root, linked):
        alike(open_repository(place, os.environ))


def test_a_branch_that_leads_out_of_the_refs_is_none(root: Path) -> None:
    os.mkfifo(root.parent / "pipe")
    repository = open_repository(root, os.environ)
    for name in ("../../../pipe", "/dev/zero", "./main", "main/", "../heads/main"):
        assert repository.tip(name) is None


def test_an_unborn_branch(root: Path) -> None:
    sh(root, "git switch -q --orphan fresh")
    with pytest.raises(RalphError, match="no commit yet"):
        require_commit(open_repository(root, os.environ))


# Attempts that `git add` refuses as a whole


_refused: dict[str, tuple[str, str, list[str]]] = {
    "an encoding": ("", "echo '*.u working-tree-encoding=UTF-16' > .gitattributes; echo abc > x.u", ["A .gitattributes", "A x.u"]),
    "a filter": (
        ("git config filter.f.clean 'grep -v BAD'; git config filter.f.required true; git config filter.f.smudge cat; "
        "echo '*.f filter=f' > .gitattributes; echo a > a.f; git add -A; git commit -qm filter"),
        "echo BAD > a.f; echo n > new",
        ["M a.f", "A new"],
    ),
    "a pipe": ("", "rm a.txt; mkfifo a.txt pipe; echo n > new", ["D a.txt", "A new"]),
    "a repository without a commit in place of a file": (
        "", "rm a.txt; mkdir a.txt; git init -q a.txt/r; echo '*.c' > .gitignore", ["M .gitignore", "D a.txt", "A a.txt/r"],
    ),
    "a line break among them": ("", "echo n > 'new\nline'; git init -q r", ["A new\nline", "A r"]),
}  # fmt: skip


@pytest.mark.parametrize(("prepare", "agent", "seen"), sample(_refused.values(), 4), ids=_refused)
def test_what_git_refuses_to_add_is_seen_all_the_same(prepare: str, agent: str, seen: list[str], root: Path) -> None:
    sh(root, f"{prepare or ':'} > /dev/null")
    place = begin(root)
    before = files(root)
    assert attempt(place, agent) == seen
    assert {**before, **files(root)} == {**files(root), **before}


def test_names_that_git_forbids_hide_nothing_else(root: Path) -> None:
    place = begin(root)
    sh(root, "mkdir .GIT; echo x > .GIT/x; echo y > 'git~1'; ln -s a.txt .gitmodules; echo n > new; echo b > a.txt")
    tree = place.workspace.capture(place.opening)
    assert [change.path for change in place.workspace.changes(place.opening.tree, tree)] == ["a.txt", "new"]
    place.workspace.restore(place.opening, tree)
    assert (root / ".GIT" / "x").exists()
    assert place.workspace.capture(place.opening) == place.opening.tree


# Attempts that change how files are written


_rewritten: dict[str, tuple[str, str, list[str]]] = {
    "names before .gitattributes": (
        ("printf '*.crlf text eol=crlf\\n' > .gitattributes; printf 'a\\r\\n' > -x.crlf; printf 'a\\r\\n' > src/+a.crlf; "
        "cp .gitattributes src"),
        "printf '* -text\\n' | tee .gitattributes > src/.gitattributes; echo b > ./-x.crlf; echo b > src/+a.crlf",
        ["M -x.crlf", "M .gitattributes", "M src/+a.crlf", "M src/.gitattributes"],
    ),
    "the same content with other line ends": (
        ":", "printf '*.txt text eol=crlf\\n' > .gitattributes; printf 'a\\r\\n' > a.txt", ["A .gitattributes"],
    ),
    "line ends without attributes": (
        "printf '*.crlf text eol=crlf\\n' > .gitattributes; printf 'a\\r\\n' > a.crlf", "rm .gitattributes; echo a > a.crlf",
        ["D .gitattributes"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("prepare", "agent", "seen"), _rewritten.values(), ids=_rewritten)
def test_attributes_of_an_attempt_leave_no_trace(prepare: str, agent: str, seen: list[str], root: Path) -> None:
    sh(root, f"{prepare}; git add '*.gitattributes' '*.crlf' || :; git commit -q --allow-empty -m more")
    place = begin(root)
    before = files(root)
    assert attempt(place, agent) == seen
    assert files(root) == before


def test_what_a_person_edits_while_an_attempt_is_judged_is_not_written_over(root: Path) -> None:
    place = begin(root)
    sh(root, "echo b > a.txt; touch src/x")
    tree = place.workspace.capture(place.opening)
    (root / "src" / "x").write_text("a person's\n")
    place.workspace.restore(place.opening, tree)
    assert ((root / "a.txt").read_text(), (root / "src" / "x").read_text()) == ("a\n", "a person's\n")


# Repositories in the tree


@pytest.mark.parametrize("persons", ["mine/notes.txt", "mine/cache.o"])
def test_a_repository_made_around_a_persons_files_leaves_without_them(persons: str, root: Path) -> None:
    sh(root, f"mkdir mine; echo mine > {persons}")
    place = begin(root)
    before = files(root)
    agent = "git init -q mine; cd mine; echo n > agents; git add agents; git commit -qm agents; git clone -q . deep/er"
    assert attempt(place, agent) == ["A mine"]
    assert files(root) == before
    held = [
        path.relative_to(place.repository.private).parts[2:] for path in place.repository.private.glob("held/**/agents")
    ]
    assert sorted(held) == [("mine", "agents"), ("mine", "deep", "er", "agents")]


def test_a_repository_made_around_tracked_files_hides_nothing(root: Path) -> None:
    place = begin(root)
    agent = "git init -q src; cd src; echo n > n; git add n; git commit -qm n; rm x; echo '*.c' > ../.gitignore"
    assert attempt(place, agent) == ["M .gitignore", "A src/n", "D src/x"]


_submodules: dict[str, tuple[str, str, bool]] = {
    "moved": ("echo more > inner/file; git -C inner commit -qam more", "M", True),
    "changed within": ("echo more > inner/file", "M", True),
    "gone": ("rm -r inner", "D", False),
    "replaced": ("rm -r inner; echo x > inner", "T", False),
}


@pytest.mark.parametrize(("agent", "kind", "comes_back"), _submodules.values(), ids=_submodules)
def test_a_submodule_that_an_attempt_changed(agent: str, kind: str, comes_back: bool, root: Path) -> None:
    """It is reported, so that integrity fails; after a rollback git sees none of it, and the agent's work is kept."""
    sh(root, "git init -q inner; echo one > inner/file; git -C inner add -A; git -C inner commit -qm one")
    sh(root, "git add inner 2> /dev/null; git commit -qm submodule")
    place = begin(root)
    assert attempt(place, agent) == [f"{kind} inner"]
    if comes_back:
        assert (root / "inner" / "file").read_text() == "one\n"
        assert (
            sh(root / "inner", "git for-each-ref --format='%(refname)' refs/ralph | xargs -I @ git show @:file")
            == "more\n"
        )


def test_ignore_rules_that_are_a_link_do_not_count(root: Path) -> None:
    """git does not follow them: by them nothing was ignored at opening."""
    sh(root, "echo '*.x' > rules; mkdir sub; ln -s ../rules sub/.gitignore; git add rules sub; git commit -qm link")
    place = begin(root)
    assert attempt(place, "echo n > sub/n.x; echo '*.c' > .gitignore") == ["M .gitignore", "A sub/n.x"]


def test_a_folder_that_an_attempt_closed_is_opened_for_the_way_back(tmp_path: Path) -> None:
    agent = "echo more >> docs/guide.md; echo n > docs/new; chmod 555 docs\n"
    project = make_project(tmp_path, agent=agent, attempts=1, git={"rollback": "reset"})
    given_to_nobody(project)
    ran = as_nobody(project, "run")
    assert ran.code == 3, ran.err
    assert (project.root / "docs" / "guide.md").read_text() == "# Guide\n"
    assert not (project.root / "docs" / "new").exists()


def test_a_message_that_waits_for_a_commit_is_taken_back(root: Path) -> None:
    place = begin(root)
    attempt(
        place,
        "git switch -q -c side; echo s > s; git add s; git commit -qm s; git switch -q main; git merge -q --squash side",
    )
    assert not (root / ".git" / "SQUASH_MSG").exists()
