"""Clones: exactly the tree that is asked for stands there, and whatever was done there is read as it is."""

import os
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.errors import RalphError
from rulebook_ralph.git.cache import cache_root, is_hidden, remove_vanished
from rulebook_ralph.git.capture import Captured
from rulebook_ralph.git.clone import Clone, Clones
from rulebook_ralph.git.repository import open_repository
from rulebook_ralph.process.box import NoBox, probe_box
from rulebook_ralph.verify.workspace import find_given, give
from tests.unit.git.project import Project, files_below, write

FILES = {
    "a.txt": "a\n",
    "src/b.py": "b = 1\n",
    "src/c.py": "c = 1\n",
    ".gitignore": "*.o\n/build/\n.env\n",
    "src/.gitignore": "made.py\n!kept.o\n",
    ".rulebook-ralph/prd.json": "1\n",
}
STANDING = {name: text for name, text in FILES.items() if not name.startswith(".rulebook")}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "r", FILES)


@pytest.fixture
def clones(project: Project, tmp_path: Path) -> Clones:
    return Clones(project.repository, tmp_path / "cache")


@pytest.fixture
def clone(clones: Clones) -> Clone:
    made = clones.open("agent-1")
    hold(made)
    return made


def git(clone: Clone, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=clone.root, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.rstrip("\n")


def hold(clone: Clone, *, tree: str | None = None, keep: bool = False) -> None:
    """Hold what the user has checked out."""
    clone.hold(clone._repository.head(), tree=tree, keep=keep)


def content(project: Project, captured: Captured) -> dict[str, str]:
    """The captured files, the state folder aside, which is always the base's."""
    found = project.content(captured.tree)
    assert found.pop(".rulebook-ralph/prd.json") == "1"
    return {name: f"{text}\n" if text else "" for name, text in found.items()}


# What stands there


def test_a_clone_looks_like_the_repository_but_for_the_state(project: Project, clones: Clones) -> None:
    project.git("tag", "v1")
    project.git("update-ref", "refs/remotes/origin/main", "HEAD")
    project.git("remote", "add", "origin", "/nowhere")
    project.git("branch", "other")
    project.git("update-ref", "refs/ralph/p/state", "HEAD")
    clone = clones.open("agent-1")
    hold(clone)
    head = project.git("rev-parse", "HEAD")
    assert files_below(clone.root) == STANDING
    assert git(clone, "status", "--porcelain") == ""
    assert (git(clone, "symbolic-ref", "HEAD"), git(clone, "rev-parse", "HEAD")) == ("refs/heads/main", head)
    names = git(clone, "for-each-ref", "--format=%(refname)").splitlines()
    assert names == ["refs/heads/main", "refs/heads/other", "refs/remotes/origin/main", "refs/tags/v1"]
    assert git(clone, "remote") == ""
    assert not any(part.startswith(".") for part in clone.root.parts)


def test_moving_from_tree_to_tree_leaves_nothing_behind(project: Project, clone: Clone) -> None:
    tree = project.tree({"a.txt": None, "src/b.py": "b = 2\n", "a.txt/deep/x": "x\n"})
    write(clone.root, {"src/b.py": "agent\n", "untracked": "u", "src/x.o": "o", "build/out": "o", "new/dir/f": "f"})
    (clone.root / "empty").mkdir()
    (clone.root / "src/c.py").unlink()
    hold(clone, tree=tree)
    assert files_below(clone.root) == {
        **{name: text for name, text in STANDING.items() if name != "a.txt"},
        "src/b.py": "b = 2\n",
        "a.txt/deep/x": "x\n",
    }
    assert not (clone.root / "empty").exists()
    assert git(clone, "diff", "--name-only", "HEAD").splitlines() == ["a.txt", "a.txt/deep/x", "src/b.py"]
    hold(clone)
    assert files_below(clone.root) == STANDING


def test_a_file_of_the_same_size_and_time_is_found_and_put_back(project: Project, clone: Clone) -> None:
    for name in ("a.txt", "src/b.py"):
        path = clone.root / name
        before = path.stat()
        path.write_bytes(b"#" * before.st_size)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert content(project, clone.capture())["a.txt"] == "##\n"
    path = clone.root / "a.txt"
    before = path.stat()
    path.write_bytes(b"%" * before.st_size)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    hold(clone)
    assert files_below(clone.root) == STANDING


def test_what_was_prepared_stays_and_is_watched(project: Project, clones: Clones) -> None:
    clone = clones.open("gate-1")
    assert clone.fresh
    hold(clone)
    write(clone.root, {"node_modules/x/index.js": "1", "src/pkg.egg-info/PKG": "1", ".env": "secret"})
    clone.mark_prepared()
    assert not clone.fresh
    write(clone.root, {"junk": "1", "src/junk.o": "1", "node_modules_too/x": "1"})
    hold(clone, tree=project.tree({"a.txt": "A\n"}))
    kept = {"node_modules/x/index.js": "1", "src/pkg.egg-info/PKG": "1", ".env": "secret"}
    assert files_below(clone.root) == {**STANDING, **kept, "a.txt": "A\n"}
    assert content(project, clone.capture()) == {**STANDING, "a.txt": "A\n"}
    assert clone.prepared_is_as_it_was()
    path = clone.root / "node_modules/x/index.js"
    before = path.stat()
    path.write_text("2")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not clone.prepared_is_as_it_was()
    clone.forget_prepared()
    hold(clone)
    assert files_below(clone.root) == STANDING


def test_an_agent_s_caches_stay_where_that_is_wanted(clone: Clone) -> None:
    write(clone.root, {"build/cache": "1", "src/x.o": "1", "src/kept.o": "1", "notes": "1"})
    hold(clone, keep=True)
    assert files_below(clone.root) == {**STANDING, "build/cache": "1", "src/x.o": "1"}
    hold(clone)
    assert files_below(clone.root) == STANDING


def test_an_index_that_a_power_cut_tore_is_made_anew(project: Project, clones: Clones, clone: Clone) -> None:
    write(clone.root, {"build/cache": "1"})
    clones.close()
    (clone._own.git_dir / "index").write_bytes(b"")
    after = Clones(project.repository, clones.root).open("agent-1")
    hold(after, keep=True)
    assert files_below(after.root) == STANDING


def test_a_folder_of_somebody_else_s_is_read_as_it_is(
    project: Project, clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(clone.root, {"data/x.txt": "x\n"})
    theirs = f"{clone.root}/data/"  # as a container leaves it
    can, change = os.access, Path.chmod

    def chmod(path: Path, mode: int) -> None:
        if path == Path(theirs):
            raise PermissionError(1, "Operation not permitted", theirs)
        change(path, mode)

    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != theirs and can(path, mode))
    monkeypatch.setattr(Path, "chmod", chmod)
    assert content(project, clone.capture())["data/x.txt"] == "x\n"


def _no_git(clone: Clone) -> None:
    subprocess.run(["rm", "-rf", ".git"], cwd=clone.root, check=True)


def _hidden_by_flags(clone: Clone) -> None:
    git(clone, "update-index", "--assume-unchanged", "a.txt")
    git(clone, "update-index", "--skip-worktree", "src/b.py")


def _hooks_and_settings(clone: Clone) -> None:
    write(clone.root, {".git/hooks/post-checkout": "#!/bin/sh\ntouch evil\n"})
    (clone.root / ".git/hooks/post-checkout").chmod(0o755)
    git(clone, "config", "core.fsmonitor", "touch evil")
    git(clone, "config", "core.worktree", "/")


def _committed(clone: Clone) -> None:
    write(clone.root, {"a.txt": "committed\n"})
    git(clone, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-a", "-m", "mine")
    git(clone, "checkout", "-q", "-b", "elsewhere")


def _git_is_a_link(clone: Clone) -> None:
    (clone.root / ".git").rename(clone.root / "moved")
    (clone.root / ".git").symlink_to("moved")


@pytest.mark.parametrize("done", [_no_git, _hidden_by_flags, _hooks_and_settings, _committed, _git_is_a_link])
def test_the_clone_s_own_git_folder_is_never_believed(
    project: Project, clone: Clone, done: Callable[[Clone], None]
) -> None:
    done(clone)
    write(clone.root, {"a.txt": "agent\n", "src/b.py": "agent\n"})
    tree = clone.capture().tree
    for name, expected in (("a.txt", b"agent\n"), ("src/b.py", b"agent\n"), ("evil", None)):
        assert project.repository.file_of(tree, name) == expected
    hold(clone)
    assert files_below(clone.root) == STANDING
    assert git(clone, "symbolic-ref", "HEAD") == "refs/heads/main"
    assert git(clone, "status", "--porcelain") == ""
    assert not (clone.root / ".git/hooks").exists()


# What is captured


def test_links_modes_odd_names_and_removals(project: Project, clone: Clone) -> None:
    odd = ["two words", "new\nline", 'quo"te', "-x", ":(top)a", "ünï", os.fsdecode(b"\xff\xfe"), "tab\tbed"]
    write(clone.root, dict.fromkeys(odd, "odd\n"))
    (clone.root / "a.txt").chmod(0o755)
    (clone.root / "src/b.py").unlink()
    (clone.root / "src/c.py").unlink()
    (clone.root / "src/c.py").mkdir()
    (clone.root / "src/c.py/inner").write_text("i\n")
    (clone.root / "link").symlink_to("/etc/passwd")
    tree = clone.capture().tree
    listing = project.output("ls-tree", "-r", "-z", tree).split("\0")
    found = {line.partition("\t")[2]: line.partition(" ")[0] for line in listing if line}
    assert found["a.txt"] == "100755"
    assert found["link"] == "120000"
    assert found["src/c.py/inner"] == "100644"
    assert not {"src/b.py", "src/c.py"} & found.keys()
    assert set(odd) <= found.keys()
    hold(clone, tree=tree)
    assert (clone.root / "link").readlink() == Path("/etc/passwd")
    hold(clone)
    assert files_below(clone.root) == STANDING


def test_a_folder_that_became_a_link_is_one(project: Project, clone: Clone, tmp_path: Path) -> None:
    (clone.root / "src").rename(tmp_path / "away")
    (clone.root / "src").symlink_to(tmp_path / "away")
    tree = clone.capture().tree
    assert project.git("ls-tree", tree, "src").startswith("120000")
    hold(clone)
    assert files_below(clone.root) == STANDING
    assert (tmp_path / "away/b.py").exists()


def test_pipes_and_sockets_stop_nothing(project: Project, clone: Clone) -> None:
    for name in ("src/.gitattributes", "n/.gitignore", "fifo"):
        (clone.root / name).parent.mkdir(exist_ok=True)
        os.mkfifo(clone.root / name)
    for name in ("a.txt", "src/.gitignore"):
        (clone.root / name).unlink()
        os.mkfifo(clone.root / name)
    here = Path.cwd()
    with socket.socket(socket.AF_UNIX) as bound:
        os.chdir(clone.root)
        try:
            bound.bind("sock")
        finally:
            os.chdir(here)
    write(clone.root, {"n/x.py": "x\n", "src/b.py": "agent\n"})
    begun = time.monotonic()
    captured = clone.capture()
    assert time.monotonic() - begun < 10
    assert [note.partition(": ")[2] for note in captured.notes] == [
        "no files that git can hold (pipes, for instance); taken away"
    ]
    assert content(project, captured) == {
        ".gitignore": FILES[".gitignore"],
        "src/b.py": "agent\n",
        "src/c.py": "c = 1\n",
        "n/x.py": "x\n",
    }
    os.mkfifo(clone.root / ".gitattributes")
    hold(clone)
    assert files_below(clone.root) == STANDING


def test_attributes_that_are_new_decide_nothing(tmp_path: Path) -> None:
    files = {**FILES, ".gitattributes": "*.dos text eol=crlf\n", "src/.gitattributes": "d.txt -text\n"}
    project = Project(tmp_path / "r", files)
    project.git("config", "filter.evil.clean", "echo filtered")
    project.git("config", "filter.evil.required", "true")
    clone = Clones(project.repository, tmp_path / "cache").open("agent-1")
    hold(clone)
    write(
        clone.root,
        {
            ".gitattributes": "*.py filter=evil\n*.txt working-tree-encoding=UTF-16\n",
            "src/b.py": "agent\n",
            "a.txt": "agent\n",
            "x.dos": "one\r\ntwo\r\n",
            "src/d.txt": "one\r\n",
        },
    )
    captured = clone.capture()
    raw = {
        name: project.repository.file_of(captured.tree, name) for name in ("src/b.py", "a.txt", "x.dos", "src/d.txt")
    }
    assert raw == {"src/b.py": b"agent\n", "a.txt": b"agent\n", "x.dos": b"one\ntwo\n", "src/d.txt": b"one\r\n"}
    hold(clone, tree=captured.tree)
    assert (clone.root / "x.dos").read_bytes() == b"one\r\ntwo\r\n"
    assert (clone.root / "a.txt").read_bytes() == b"agent\n"
    assert clone.capture().tree == captured.tree


def test_the_base_s_rules_say_what_is_ignored(project: Project, clone: Clone) -> None:
    write(
        clone.root,
        {
            ".gitignore": "!.env\n!*.o\nnode_modules/\n*\n!new.py\n!.gitignore\n",
            "src/.gitignore": "",
            ".env": "secret",
            "x.o": "o",
            "src/made.py": "m",
            "src/kept.o": "k\n",
            "build/out": "o",
            "node_modules/x/y.js": "y",
            "new.py": "n\n",
            "a.txt": "agent\n",
        },
    )
    found = content(project, clone.capture())
    assert found.keys() - STANDING.keys() == {"new.py"}
    assert found["a.txt"] == "agent\n"


def test_a_tool_s_cache_that_ignores_itself_is_left_out(project: Project, clone: Clone) -> None:
    write(clone.root, {".pytest_cache/.gitignore": "*\n", ".pytest_cache/v/x": "x", "src/n.py": "n\n"})
    assert content(project, clone.capture()) == {**STANDING, "src/n.py": "n\n"}


def test_a_user_s_own_excludes_count(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    write(home, {".gitconfig": "[core]\n\texcludesFile = ~/ignored\n[user]\n\tname = n\n", "ignored": "*.swp\n"})
    write(project.root, {".git/info/exclude": "mine.txt\n"})
    environment = {**os.environ, "HOME": str(home)}
    del environment["GIT_CONFIG_GLOBAL"]
    repository = open_repository(project.root, environment, config_copy=tmp_path / "settings")
    write(home, {"ignored": "", ".gitconfig": "[core]\n\tfsmonitor = touch evil\n"})
    clone = Clones(repository, tmp_path / "cache").open("agent-1")
    hold(clone)
    write(clone.root, {"x.swp": "x", "mine.txt": "m", "y": "y\n"})
    assert content(project, clone.capture()) == {**STANDING, "y": "y\n"}
    assert repository.answer("config", "user.name") == "n"


def test_repositories_within_are_taken_as_files(project: Project, clone: Clone) -> None:
    for name in ("inner", "src/c.py", "with-commit"):
        (clone.root / name).unlink(missing_ok=True)
        write(clone.root, {f"{name}/f.txt": "f\n"})
        subprocess.run(["git", "init", "-q"], cwd=clone.root / name, check=True)
    subprocess.run(["git", "commit", "-q", "--allow-empty", "-m", "x"], cwd=clone.root / "with-commit", check=True)
    captured = clone.capture()
    found = content(project, captured)
    assert found.keys() - STANDING.keys() == {"inner/f.txt", "src/c.py/f.txt", "with-commit/f.txt"}
    assert "160000" not in project.git("ls-tree", "-r", captured.tree)
    assert any("with-commit" in note for note in captured.notes)


def test_the_state_folder_an_agent_makes_is_no_part_of_it(project: Project, clone: Clone) -> None:
    write(clone.root, {".rulebook-ralph/prd.json": "mine\n", ".rulebook-ralph/config.yaml": "mine\n"})
    assert clone.capture().tree == project.repository.tree_of("HEAD")
    hold(clone)
    assert not (clone.root / ".rulebook-ralph").exists()


def test_what_git_can_not_hold_is_left_out(project: Project, clone: Clone) -> None:
    write(clone.root, {"d/git~1": "x", "d/y": "y\n", "a.txt": "agent\n"})
    assert content(project, clone.capture()) == {**STANDING, "a.txt": "agent\n", "d/y": "y\n"}


NAMES = ("a.txt", "src/b.py", "src/n.py", "x.o", "deep/er/f", "build/out", "deep", "ü")
ACTS = st.lists(
    st.tuples(
        st.sampled_from(["write", "link", "remove", "chmod"]), st.sampled_from(NAMES), st.sampled_from(["1", "2"])
    ),
    max_size=8,
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, Clone]:
    folder = tmp_path_factory.mktemp("shared")
    project = Project(folder / "r", FILES)
    return project, Clones(project.repository, folder / "cache").open("agent-1")


@given(ACTS)
def test_a_capture_is_what_stands_there_and_comes_back_whole(shared: tuple[Project, Clone], acts: list[Any]) -> None:
    _, clone = shared
    hold(clone)
    for act, name, text in acts:
        path = clone.root / name
        if (
            any(parent.is_file() or parent.is_symlink() for parent in path.parents if parent != clone.root)
            or path.is_dir()
        ):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if act == "chmod" and path.is_file() and not path.is_symlink():
            path.chmod(0o700)
        elif act in ("write", "link"):
            path.unlink(missing_ok=True)
            path.symlink_to(text) if act == "link" else path.write_text(text)
        elif act == "remove":
            path.unlink(missing_ok=True)
    standing = files_below(clone.root)
    expected = {name: text for name, text in standing.items() if not (name.endswith(".o") or name.startswith("build/"))}
    tree = clone.capture().tree
    assert clone.capture().tree == tree
    hold(clone)
    assert files_below(clone.root) == STANDING
    hold(clone, tree=tree)
    assert files_below(clone.root) == expected
    assert clone.capture().tree == tree


# Repositories of every kind


def test_a_clone_outlives_the_user_s_gc(project: Project, clone: Clone) -> None:
    project.write({"a.txt": "rewritten\n"})
    project.git("commit", "-q", "--amend", "-a", "-m", "rewritten")
    project.git("reflog", "expire", "--expire=now", "--all")
    project.git("gc", "-q", "--prune=now")
    assert len(git(clone, "log", "--format=%s").splitlines()) == 1
    assert git(clone, "status", "--porcelain") == ""
    write(clone.root, {"a.txt": "agent\n"})
    assert content(project, clone.capture())["a.txt"] == "agent\n"
    hold(clone)
    assert (clone.root / "a.txt").read_text() == "rewritten\n"


def _sha256(folder: Path) -> Path:
    return Project(folder / "r", FILES, object_format="sha256").root


def _linked(folder: Path) -> Path:
    Project(folder / "main", FILES).git("worktree", "add", "-q", "-b", "linked", str(folder / "r"))
    return folder / "r"


def _shallow(folder: Path) -> Path:
    source = Project(folder / "source", FILES)
    source.commit("second")
    subprocess.run(["git", "clone", "-q", "--depth=1", f"file://{source.root}", str(folder / "r")], check=True)
    return folder / "r"


def _partial(folder: Path) -> Path:
    source = Project(folder / "source", FILES)
    source.git("config", "uploadpack.allowFilter", "true")
    source.write({"a.txt": "second\n"})
    source.commit("second")
    source.git("revert", "--no-edit", "HEAD")
    order = ["git", "clone", "-q", "--filter=blob:none", f"file://{source.root}", str(folder / "r")]
    subprocess.run(order, check=True)
    return folder / "r"


def _borrowed(folder: Path) -> Path:
    source = Project(folder / "source", FILES)
    subprocess.run(["git", "clone", "-q", "--shared", str(source.root), str(folder / "middle")], check=True)
    subprocess.run(["git", "clone", "-q", "--shared", str(folder / "middle"), str(folder / "r")], check=True)
    (folder / "r/.git/objects/info/alternates").write_text("../../../middle/.git/objects\n")
    return folder / "r"


def _detached(folder: Path) -> Path:
    project = Project(folder / "r", FILES)
    project.git("switch", "-q", "--detach")
    return project.root


@pytest.mark.parametrize("made", [_sha256, _linked, _shallow, _partial, _borrowed, _detached])
def test_repositories_of_every_kind(tmp_path: Path, made: Callable[[Path], Path]) -> None:
    root = made(tmp_path)
    repository = open_repository(root, os.environ)
    clone = Clones(repository, tmp_path / "cache").open("agent-1")
    hold(clone)
    assert files_below(clone.root) == STANDING
    assert git(clone, "status", "--porcelain") == ""
    git(clone, "log", "--stat") if made is not _partial else None
    write(clone.root, {"a.txt": "agent\n"})
    git(clone, "commit", "-q", "-a", "-m", "agent")
    tree = clone.capture().tree
    assert repository.file_of(tree, "a.txt") == b"agent\n"
    hold(clone, tree=tree)
    assert git(clone, "diff", "--name-only", "HEAD") == "a.txt"


def test_submodules_can_be_read_and_stay_as_they_are(tmp_path: Path) -> None:
    inner = Project(tmp_path / "inner", {"lib.py": "lib\n"})
    project = Project(tmp_path / "r", FILES)
    project.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner.root), "vendor/lib")
    project.commit("with a submodule")
    clone = Clones(project.repository, tmp_path / "cache").open("agent-1")
    hold(clone)
    assert (clone.root / "vendor/lib/lib.py").read_text() == "lib\n"
    assert not (clone.root / "vendor/lib/.git").exists()
    write(clone.root, {"a.txt": "agent\n", "vendor/lib/lib.py": "agent\n"})
    tree = clone.capture().tree
    assert project.git("diff", "--name-only", "HEAD", tree) == "a.txt"
    hold(clone)
    assert (clone.root / "vendor/lib/lib.py").exists()


# The cache


def test_clones_are_kept_and_belong_to_one_process(project: Project, tmp_path: Path) -> None:
    first = Clones(project.repository, tmp_path / "cache")
    clone = first.open("agent-1")
    hold(clone)
    write(clone.root, {"node_modules/x": "x"})
    clone.mark_prepared()
    second = Clones(project.repository, tmp_path / "cache")
    with pytest.raises(RalphError, match="in use by another ralph"):
        second.open("agent-1")
    first.close()
    again = second.open("agent-1")
    assert not again.fresh
    hold(again)
    assert files_below(again.root) == {**STANDING, "node_modules/x": "x"}
    assert second.names("agent-") == ("agent-1",)
    assert second.names("gate-") == ()


def test_a_cache_that_was_deleted_is_made_again(project: Project, clones: Clones, clone: Clone) -> None:
    subprocess.run(["rm", "-rf", str(clones.root)], check=True)
    again = clones.open("agent-1")
    hold(again)
    assert files_below(again.root) == STANDING
    assert git(again, "status", "--porcelain") == ""


def test_where_the_cache_is(tmp_path: Path) -> None:
    home = Path("/home/x")
    assert cache_root({"RALPH_CACHE_DIR": "/elsewhere"}, home) == Path("/elsewhere")
    assert cache_root({"XDG_CACHE_HOME": "/caches"}, home) == Path("/caches/rulebook-ralph")
    for environment in ({}, {"XDG_CACHE_HOME": "/home/x/.cache"}, {"XDG_CACHE_HOME": "relative"}):
        assert not is_hidden(cache_root(environment, home))
    for wrong in ("relative", "/home/.hidden/x"):
        with pytest.raises(RalphError, match="RALPH_CACHE_DIR"):
            cache_root({"RALPH_CACHE_DIR": wrong}, home)


def test_a_cache_within_the_repository_or_that_cannot_be_written_is_refused(project: Project, tmp_path: Path) -> None:
    with pytest.raises(RalphError, match="within the repository"):
        Clones(project.repository, project.root / "cache")
    (tmp_path / "file").write_text("")
    with pytest.raises(RalphError, match="cannot write"):
        Clones(project.repository, tmp_path / "file" / "cache")


def test_clones_of_repositories_that_are_gone_are_removed(project: Project, clones: Clones, clone: Clone) -> None:
    assert remove_vanished(clones.root) == 0
    subprocess.run(["rm", "-rf", str(project.root)], check=True)
    assert remove_vanished(clones.root) == 1
    assert list(clones.root.iterdir()) == []


# What it is given, and its sandbox


def test_copies_and_links(project: Project, clone: Clone) -> None:
    write(project.root, {".env": "secret", "node_modules/x/y.js": "y", "local.conf": "l"})
    copies = find_given(project.repository, copy=("*.conf", ".env"), link=("node_modules", "missing"))
    give(project.repository, clone.root, copies=copies, links=("node_modules", "missing"), boxed=False)
    assert (clone.root / ".env").read_text() == "secret"
    assert (clone.root / "node_modules").readlink() == project.root / "node_modules"
    assert not (clone.root / "missing").exists()
    clone.mark_prepared()
    hold(clone)
    assert (clone.root / "node_modules/x/y.js").read_text() == "y"
    clone.forget_prepared()
    hold(clone)
    assert (project.root / "node_modules/x/y.js").read_text() == "y"


@pytest.mark.parametrize("named", ["a.txt", "src", "../x", "/etc/passwd", ".git/config", ".rulebook-ralph/prd.json"])
def test_only_what_git_does_not_hold_is_given(project: Project, named: str) -> None:
    with pytest.raises(RalphError, match=r"workspace\.link"):
        find_given(project.repository, copy=(), link=(named,))


def test_in_the_sandbox_the_clone_stands_in_the_repository_s_place(
    project: Project, clones: Clones, tmp_path: Path
) -> None:
    bwrap = probe_box(os.environ)
    if isinstance(bwrap, NoBox):
        pytest.skip(bwrap.reason)
    project.git("worktree", "add", "-q", "-b", "beside", str(tmp_path / "beside"))
    write(project.root, {"node_modules/x": "x", "untracked": "mine"})
    clone = clones.open("agent-1")
    hold(clone)
    give(project.repository, clone.root, copies=(), links=("node_modules",), boxed=True)
    box = clone.box(bwrap, hidden=(tmp_path / "nothing",), links=("node_modules",))
    script = (
        "set -e; git status --porcelain; git log -1 --format=%s; cat node_modules/x; test ! -e untracked;"
        f" test ! -e {tmp_path}/beside/a.txt; test ! -e .rulebook-ralph; ! touch node_modules/y 2>/dev/null;"
        " echo agent > a.txt; git commit -q -a -m agent; git gc -q; git fsck --no-dangling; pwd;"
        f" find {tmp_path} -name prd.json"
    )
    done = subprocess.run(
        box.argv(("sh", "-c", script), project.root, os.environ), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["?? node_modules/", "first", f"x{project.root}"]
    assert (project.root / "a.txt").read_text() == "a\n"
    assert project.git("log", "-1", "--format=%s") == "first"
    clone.mark_prepared()
    assert content(project, clone.capture())["a.txt"] == "agent\n"
