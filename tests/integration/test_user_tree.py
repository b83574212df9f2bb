"""The user's tree and index after Ralph has moved the branch: brought along, and nothing of a person's lost."""

import itertools
import os
import shutil
import signal
import stat
import subprocess
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rulebook_ralph.workspace import index_entries, user_tree
from rulebook_ralph.workspace.git import GitError
from rulebook_ralph.workspace.repository import Repository, open_repository
from tests.harness import Project, make_project, picture

LINES = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\n"
FILES = {"text": LINES, "b": "b\n", "gone": "gone\n", "d/one": "1\n", "d/two": "2\n", "run.sh": "#!/bin/sh\n"}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path, files=FILES)


def repository_of(project: Project) -> Repository:
    return open_repository(project.root, os.environ)


def tree_after(project: Project, changes: dict[str, str | None]) -> str:
    """HEAD's tree with other contents; `LINK`, `RUN` and None say otherwise. Neither the tree nor the index moves."""
    index = {**os.environ, "GIT_INDEX_FILE": str(project.beside / "making-index")}

    def git(*arguments: str, stdin: bytes = b"") -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=project.root, env=index, input=stdin, capture_output=True, check=True
        )
        return done.stdout.decode().strip()

    git("read-tree", "HEAD")
    for name, content in sorted(changes.items(), key=lambda change: change[1] is not None):
        mode = {"LINK": "120000", "RUN": "100755"}.get(content or "", "100644")
        blob = git("hash-object", "-w", "--stdin", stdin=content.encode()) if content else "0" * 40
        entry = f"{mode if content else 0} {blob}\t{name}\0".encode()
        git("update-index", "--replace", "-z", "--index-info", stdin=entry)
    return git("write-tree")


def bring(project: Project, changes: dict[str, str | None]) -> tuple[str, ...]:
    """Move the branch as Ralph does, and bring the tree along; doing it again must change nothing."""
    old = project.git("rev-parse", "HEAD")
    new = project.git("commit-tree", "-p", old, "-m", "more", tree_after(project, changes))
    project.git("update-ref", "refs/heads/main", new)
    told = user_tree.bring_along(repository_of(project), old, new)
    assert not list((project.root / ".git").glob("index.lock"))
    before = seen(project)
    user_tree.bring_along(repository_of(project), old, new)
    assert seen(project) == before
    return told


def seen(project: Project) -> tuple[dict[str, tuple[int, bytes]], str]:
    work = picture(project.root, without=lambda path: path == ".git" or path.startswith(".git/"))
    return work, project.git("ls-files", "-s", "-v")


def test_an_untouched_tree_becomes_the_new_one(project: Project) -> None:
    changes = {
        "text": LINES + "ten\n",
        "gone": None,
        "d/one": None,
        "d/two": None,
        "d": "a file\n",
        "b": None,
        "b/c": "b\n",
        "run.sh": "RUN",
        "link": "LINK",
        "deep/new": "x\n",
    }
    assert bring(project, changes) == ()
    assert project.status() == []
    assert project.git("diff-files") == "", "the index knows the files as they stand"
    assert (project.root / "d").read_text() == "a file\n"
    assert (project.root / "link").readlink() == Path("LINK")
    assert os.access(project.root / "run.sh", os.X_OK)


def test_what_a_person_edited_is_merged_or_stays(project: Project) -> None:
    project.write({"text": LINES.replace("one", "1"), "b": "mine\n", "gone": "edited\n"})
    (project.root / "text").chmod(0o600)
    told = bring(project, {"text": LINES.replace("nine", "9"), "b": "other\n", "gone": None, "d/one": "2\n"})
    assert told == ("b", "gone")
    assert (project.root / "text").read_text() == LINES.replace("one", "1").replace("nine", "9")
    assert (project.root / "text").stat().st_mode & 0o777 == 0o600
    assert (project.root / "b").read_text() == "mine\n"
    assert (project.root / "gone").read_text() == "edited\n"
    assert project.status() == [" M b", " M text", "?? gone"]


def test_a_merge_that_died_before_the_index_is_not_made_twice(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines that are alike can be merged twice without a conflict."""
    project.write({"text": "x\n" + LINES})
    old, new = project.git("rev-parse", "HEAD"), tree_after(project, {"text": LINES + "nine\n" * 2, "b": "c\n"})
    (project.root / ".git" / "index.lock").touch()
    monkeypatch.setattr(index_entries, "_TRIES", 1)
    with pytest.raises(GitError, match=r"another git is at work.*index\.lock"):
        user_tree.bring_along(repository_of(project), old, new)
    merged = (project.root / "text").read_text()
    assert merged == "x\n" + LINES + "nine\n" * 2
    (project.root / "text").write_text(edited := merged.replace("nine\nnine\n", "nine\n9\n"))
    (project.root / ".git" / "index.lock").unlink()
    assert user_tree.bring_along(repository_of(project), old, new) == ()
    assert (project.root / "text").read_text() == edited
    assert project.git("write-tree") == new


def test_killed_anywhere_it_is_mended_by_doing_it_again(project: Project, thorough: bool) -> None:
    changes = {
        "text": LINES + "nine\n",
        "gone": None,
        "d/one": None,
        "d/two": None,
        "d": "x\n",
        "b": None,
        "b/c": "y\n",
    }
    old, new = project.git("rev-parse", "HEAD"), tree_after(project, changes)
    repository = repository_of(project)
    wanted = None
    for steps in range(1, 100, 1 if thorough else 6):
        project.git("reset", "-q", "--hard")
        project.git("clean", "-fdxq")
        project.write({"text": "nine\n" + LINES, "mine": "mine\n"})
        was_killed = killed_after(steps, repository, old, new)
        (project.root / ".git" / "index.lock").unlink(missing_ok=True)  # as recovery does
        assert user_tree.bring_along(repository, old, new) == ()
        wanted = wanted or seen(project)
        assert seen(project) == wanted, f"killed after {steps} changes of files"
        if not was_killed:
            break
    assert steps > 12
    assert (project.root / "text").read_text() == "nine\n" + LINES + "nine\n"
    assert project.git("write-tree") == new


def killed_after(steps: int, repository: Repository, old: str, new: str) -> bool:
    """Bring along in a process that is killed before it changes a file for the time after so many; whether it was."""
    child = os.fork()
    if child == 0:
        done = itertools.count()

        def counting(name: str) -> None:
            real = getattr(os, name)

            def change(*arguments: object, **named: object) -> object:
                if next(done) == steps:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*arguments, **named)

            setattr(os, name, change)

        for name in ("replace", "rename", "unlink", "rmdir", "mkdir"):
            counting(name)
        user_tree.bring_along(repository, old, new)
        os._exit(0)
    return os.waitpid(child, 0)[1] != 0


def test_a_persons_git_that_holds_the_index_is_waited_for(project: Project) -> None:
    (lock := project.root / ".git" / "index.lock").touch()
    timer = threading.Timer(0.15, lock.unlink)
    timer.start()
    assert bring(project, {"b": "c\n"}) == ()
    timer.join()
    assert project.status() == []


def test_what_a_person_staged_stays_staged(project: Project) -> None:
    project.write({"text": "staged\n", "new": "mine\n", "b": "staged\n"})
    project.git("add", "text", "new", "b")
    project.write({"b": "b\n"})
    project.git("rm", "-q", "--cached", "gone")
    told = bring(project, {"text": LINES + "10\n", "new/er": "x\n", "b": "c\n", "gone": "more\n", "d/one": "3\n"})
    assert told == ("b", "gone", "new/er", "text")
    assert project.git("show", ":text") == "staged"
    assert project.git("show", ":new") == "mine"
    assert (project.root / "b").read_text() == "c\n", "it stood as the old tree had it"
    assert project.git("show", ":b") == "staged"
    assert project.git("ls-files", "gone", "new/er") == ""
    assert (project.root / "gone").read_text() == "more\n"


def test_what_is_in_the_way_or_was_deleted_stays_so(project: Project, tmp_path: Path) -> None:
    project.write({".git/info/exclude": "*.log\n", "x.log": "mine\n", "new": "mine\n", "p": "mine\n", "q/mine": ""})
    (tmp_path / "elsewhere").mkdir()
    (project.root / "away").symlink_to(tmp_path / "elsewhere")
    (project.root / "gone").unlink()
    new = {"x.log": "1\n", "new": "1\n", "p/q": "1\n", "q": "1\n", "away/x": "1\n", "gone": "1\n", "d/one": None}
    assert bring(project, new) == ("away/x", "gone", "new", "p/q", "q", "x.log")
    assert (project.root / "x.log").read_text() == "mine\n"
    assert (project.root / "q" / "mine").exists()
    assert not (project.root / "gone").exists()
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_files_are_written_as_git_writes_them(project: Project) -> None:
    project.git("config", "filter.up.smudge", "tr a-z A-Z")
    project.git("config", "filter.up.clean", "tr A-Z a-z")
    project.write({".gitattributes": "*.up filter=up\n", "f.up": "loud\n"})
    project.commit("filtered")
    (project.root / "f.up").unlink()
    project.git("checkout", "f.up")
    assert (
        bring(project, {"f.up": "louder\n", ".gitattributes": "*.up filter=up\n*.crlf eol=crlf\n", "g.crlf": "x\n"})
        == ()
    )
    assert (project.root / "f.up").read_text() == "LOUDER\n"
    assert (project.root / "g.crlf").read_bytes() == b"x\r\n"
    assert project.status() == []


def test_a_sparse_checkout_and_flags_and_submodules(project: Project) -> None:
    project.git("update-index", "--assume-unchanged", "b")
    project.write({"b": "mine\n"})
    project.git("sparse-checkout", "set", "--no-cone", "/*", "!/d/")
    commit = project.git("rev-parse", "HEAD")
    old, changed = project.git("rev-parse", "HEAD"), tree_after(project, {"b": "c\n", "d/one": "9\n", "d/new": "x\n"})
    project.git("config", "advice.addEmbeddedRepo", "false")
    listing = project.git("ls-tree", changed) + f"\n160000 commit {commit}\tsub"
    made = subprocess.run(
        ["git", "mktree", "--missing"], cwd=project.root, input=listing.encode(), capture_output=True, check=True
    )
    new = made.stdout.decode().strip()
    config = picture(project.root / ".git" / "info"), (project.root / ".git" / "config").read_bytes()
    assert user_tree.bring_along(repository_of(project), old, new) == ("b", "sub")
    assert (picture(project.root / ".git" / "info"), (project.root / ".git" / "config").read_bytes()) == config
    assert not (project.root / "d").exists()
    assert (project.root / "b").read_text() == "mine\n"
    assert project.git("write-tree") == new
    tags = {path: tag for tag, path in (line.split(" ") for line in project.git("ls-files", "-t").splitlines())}
    assert tags["d/new"] == tags["d/one"] == "S"
    assert tags["text"] == "H"


def test_a_sparse_checkout_without_the_state_folder_is_told_of_with_what_brings_it(project: Project) -> None:
    project.git("add", "-A")
    project.git("commit", "-qm", "the state")
    project.git("sparse-checkout", "set", "--cone", "d")
    told = f"error: the sparse checkout leaves {project.folder.path} out; bring it: "
    bring = "git sparse-checkout add .rulebook-ralph"
    for command in ("run", "resume"):
        refused = project.ralph(command)
        assert (refused.code, refused.err) == (2, f"{told}{bring}\n")
    project.git(*bring.split()[1:])
    project.ralph("resume", "--trust-commands", "--max-iterations", "1")
    assert len(project.records) == 1
    project.git("sparse-checkout", "set", "--cone", "d")
    refused = project.ralph("resume")  # there is a saved state now
    assert (refused.err, project.folder.path.exists()) == (f"{told}{bring}\n", False)


def test_the_state_folder_is_not_touched(project: Project) -> None:
    before = picture(project.folder.path)
    assert bring(project, {".rulebook-ralph/prd.json": "{}\n", "b": "c\n"}) == ()
    assert picture(project.folder.path) == before
    assert project.git("ls-files", ".rulebook-ralph") == ""


NAMES = ("text", "b", "b/c", "gone", "d", "d/one", "d/two", "new", "run.sh")
CONTENTS = st.sampled_from((LINES.replace("two", "2"), LINES.replace("eight", "8"), "LINK", "RUN", "b\n", None))
EDITS = st.dictionaries(
    st.sampled_from(NAMES), st.tuples(st.sampled_from((LINES.replace("four", "4"), "mine\n", None)), st.booleans())
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_project(tmp_path_factory.mktemp("made"), files=FILES)


@given(changes=st.dictionaries(st.sampled_from(NAMES), CONTENTS, min_size=1), edits=EDITS)
@settings(deadline=None)
def test_any_change_beside_any_edit(
    made: Project, changes: dict[str, str | None], edits: dict[str, tuple[str | None, bool]]
) -> None:
    """Each path is the new tree's, or the person's, or both merged; their staged changes stay; nothing else is told."""
    project = made
    project.git("reset", "-q", "--hard")
    project.git("clean", "-fdxq")
    new, old = tree_after(project, changes), project.git("rev-parse", "HEAD")
    for name, (content, staged) in edits.items():
        edit(project, name, content, staged=staged)
    mine, entries = files_in(project.root), entries_of(project)
    told = user_tree.bring_along(repository_of(project), old, new)
    now, now_entries = files_in(project.root), entries_of(project)
    theirs, base = written(project, new), written(project, old)
    old_entries, new_entries = of_tree(project, old), of_tree(project, new)
    differing = {path for path in theirs.keys() | base.keys() if theirs.get(path) != base.get(path)}
    for path in mine.keys() | now.keys() | theirs.keys():
        if now.get(path) == mine.get(path):
            is_known = entries.get(path) == new_entries.get(path)  # they staged just that, and went on
            assert path in told or path not in differing or now.get(path) == theirs.get(path) or is_known
        elif now.get(path) == theirs.get(path):
            assert mine.get(path) == base.get(path), f"{path} was a person's"
        else:
            assert b"4\n" in now[path][1], path
            assert {b"2\n", b"8\n"} & set(now[path][1].splitlines(keepends=True)), path
    for path in entries.keys() | now_entries.keys() | new_entries.keys():
        if entries.get(path) != old_entries.get(path):
            assert now_entries.get(path) == entries.get(path), f"{path} was staged"
        else:
            assert now_entries.get(path) in (new_entries.get(path), *((entries.get(path),) if path in told else ()))
    before = seen(project)
    user_tree.bring_along(repository_of(project), old, new)
    assert seen(project) == before


def edit(project: Project, name: str, content: str | None, *, staged: bool) -> None:
    path = project.root / name
    try:
        if content is None:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
    except OSError:
        return
    if staged:
        project.git("add", "-A", "--", name, check=False)


def files_in(root: Path) -> dict[str, tuple[int, bytes]]:
    found = picture(root, without=lambda path: path == ".git" or path.startswith((".git/", ".rulebook-ralph")))
    return {path: what for path, what in found.items() if not stat.S_ISDIR(what[0])}


def entries_of(project: Project) -> dict[str, str]:
    return by_path(project.git("ls-files", "-s"))


def by_path(listing: str) -> dict[str, str]:
    return {path: what for what, path in (line.split("\t", 1) for line in listing.splitlines())}


def of_tree(project: Project, tree: str) -> dict[str, str]:
    return by_path(project.git("ls-tree", "-r", "--format=%(objectmode) %(objectname) 0%x09%(path)", tree))


def written(project: Project, tree: str) -> dict[str, tuple[int, bytes]]:
    folder = project.beside / "written"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    environment = {**os.environ, "GIT_INDEX_FILE": str(project.beside / "written-index")}
    for command in (["read-tree", tree], ["--work-tree", str(folder), "checkout-index", "-a"]):
        subprocess.run(["git", *command], cwd=project.root, env=environment, check=True)
    return files_in(folder)
