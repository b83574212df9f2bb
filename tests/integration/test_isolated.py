"""A checkout in a folder of its own: exactly the tree it is to hold, whatever was done to it before."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rulebook_ralph.errors import RalphError
from rulebook_ralph.workspace import isolated, isolated_given, isolated_place, isolated_workspace
from rulebook_ralph.workspace.git import GitError
from rulebook_ralph.workspace.isolated import Isolated
from rulebook_ralph.workspace.isolated_clone import bring_commits
from rulebook_ralph.workspace.isolated_given import SpoiltError
from rulebook_ralph.workspace.repository import Repository, open_repository
from rulebook_ralph.workspace.snapshot import Opening, Workspace
from tests.harness import DEADLINE, Project, make_project, picture, wait_for

FILES = {
    "a.txt": "one\n",
    "src/b.py": "two\n",
    "src/deep/c": "three\n",
    "run.sh": "#!/bin/sh\n",
    ".gitignore": "*.o\n__pycache__/\nbuild/\n.env\ndeps\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path, files=FILES)


def repository_of(project: Project) -> Repository:
    return open_repository(project.root, {**os.environ, "XDG_CACHE_HOME": str(project.beside / "cache")})


def checkout(project: Project, **given: list[str]) -> Isolated:
    repository = repository_of(project)
    found = isolated_given.find(repository, copy=given.get("copy", []), link=given.get("link", []))
    return isolated.make(repository, isolated_workspace.claim(repository), given=found)


def tree_of(project: Project, revision: str = "HEAD") -> str:
    return project.git("rev-parse", f"{revision}^{{tree}}")


def hold(held: Isolated, project: Project, revision: str = "HEAD") -> None:
    held.hold(tree_of(project, revision), project.git("rev-parse", revision))


def work(root: Path) -> dict[str, tuple[int, bytes]]:
    return picture(root, without=lambda path: path == ".git" or path.startswith(".git/"))


def fresh(project: Project, folder: Path, revision: str) -> dict[str, tuple[int, bytes]]:
    """What a plain clone has of a revision."""
    subprocess.run(["git", "clone", "-q", "-s", "-n", str(project.root), str(folder)], check=True)
    subprocess.run(["git", "-C", str(folder), "checkout", "-q", project.git("rev-parse", revision)], check=True)
    return work(folder)


def in_it(held: Isolated, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=held.root, capture_output=True, text=True, check=True)
    return done.stdout.rstrip("\n")


NAMES = (
    "a.txt",
    "src/b.py",
    "src",
    "new",
    "src/deep",
    "src/deep/c",
    "x/y",
    "x",
    "a.o",
    "nön ascii\n",
    "build/z",
    "link",
)
ACTIONS = st.tuples(
    st.sampled_from(("write", "append", "remove", "folder", "link", "mode", "closed", "older")),
    st.sampled_from((*NAMES, ".git", ".git/config", ".git/index", ".git/hooks/pre-commit", "../../index")),
)
CHANGES = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(("one\n", "other\n", "LINK", "RUN")), max_size=5)


def act(root: Path, action: str, name: str) -> None:
    """Do something to a checkout that need not work."""
    path = root / name
    try:
        if action in ("write", "append"):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab" if action == "append" else "wb") as file:
                file.write(b"one\n")
        elif action == "remove":
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        elif action == "folder":
            path.mkdir(parents=True)
        elif action == "link":
            path.symlink_to("/etc")
        elif action == "mode":
            path.chmod(0o755)
        elif action == "closed":
            path.chmod(0o500)
        elif path.is_file():
            before = path.stat()
            path.write_bytes(bytes(reversed(path.read_bytes())))
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    except OSError:
        pass


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Project, Isolated]]:
    project = make_project(tmp_path_factory.mktemp("many"), files=FILES)
    held = checkout(project)
    yield project, held
    held.remove()


@given(changes=CHANGES, actions=st.lists(ACTIONS, max_size=6))
@settings(deadline=None)
def test_any_tree_after_any_other_and_any_damage(
    many: tuple[Project, Isolated], changes: dict[str, str], actions: list[tuple[str, str]]
) -> None:
    project, held = many
    index = project.beside / "index"
    environment = {**os.environ, "GIT_INDEX_FILE": str(index)}
    subprocess.run(["git", "read-tree", "HEAD"], cwd=project.root, env=environment, check=True)
    for name, content in sorted(changes.items()):
        mode = {"LINK": "120000", "RUN": "100755"}.get(content, "100644")
        blob = subprocess.run(
            ["git", "hash-object", "-w", "--stdin"],
            cwd=project.root,
            input=content.encode(),
            capture_output=True,
            check=True,
        )
        entry = f"{mode} {blob.stdout.decode().strip()}\t{name}\0".encode()
        update = ["git", "update-index", "--replace", "-z", "--index-info"]
        subprocess.run(update, cwd=project.root, env=environment, input=entry, check=True)
    done = subprocess.run(["git", "write-tree"], cwd=project.root, env=environment, capture_output=True, check=True)
    tree = done.stdout.decode().strip()
    for action, name in actions:
        act(held.root, action, name)
    held.hold(tree, project.git("rev-parse", "HEAD"))
    shutil.rmtree(wanted := project.beside / "wanted", ignore_errors=True)
    wanted.mkdir()
    subprocess.run(
        ["git", "--work-tree", wanted, "checkout-index", "-a"], cwd=project.root, env=environment, check=True
    )
    assert work(held.root) == work(wanted)
    assert in_it(held, "write-tree") == tree
    assert in_it(held, "ls-files", "-o", "--exclude-standard") == ""
    assert in_it(held, "diff-files") == ""


@pytest.mark.parametrize("made", ["mkdir -p {0}/x", "mkfifo {0}", "ln -s /dev/zero {0}", "true"])
def test_an_index_that_is_replaced_is_made_anew(project: Project, made: str) -> None:
    held = checkout(project)
    hold(held, project)
    index = held.root / "../../index"
    index.unlink()
    subprocess.run(["sh", "-c", made.format(shlex.quote(str(index)))], check=True)
    project.commit("more", more="x\n")
    hold(held, project)
    assert (held.root / "more").read_text() == "x\n"
    assert in_it(held, "write-tree") == tree_of(project)


def test_git_works_in_it(project: Project, tmp_path: Path) -> None:
    project.git("tag", "-a", "v1", "-m", "one")
    project.git("update-ref", "refs/remotes/origin/main", "HEAD")
    project.git("update-ref", "refs/ralph/toy/state", "HEAD")
    project.commit("second", more="x\n")
    project.git("config", "core.autocrlf", "input")
    project.git("config", "alias.x", "!true")
    held = checkout(project)
    before, head = project.git("rev-parse", "HEAD~1"), project.git("rev-parse", "HEAD")
    held.hold(tree_of(project), before)
    assert in_it(held, "rev-parse", "HEAD") == before
    assert in_it(held, "symbolic-ref", "HEAD") == "refs/heads/main"
    assert in_it(held, "describe") == "v1"
    assert in_it(held, "status", "--porcelain") == "A  more"
    assert in_it(held, "rev-parse", "origin/main") == before
    assert "refs/ralph" not in in_it(held, "for-each-ref")
    assert in_it(held, "config", "core.autocrlf") == "input"
    assert subprocess.run(["git", "config", "alias.x"], cwd=held.root, check=False).returncode == 1
    in_it(held, "commit", "-q", "-m", "there")
    held.hold(tree_of(project), head)
    assert in_it(held, "status", "--porcelain") == ""
    assert in_it(held, "rev-parse", "main") == project.git("rev-parse", "main") == head
    held.remove()
    assert not held.root.exists()


def test_how_files_are_written(project: Project, tmp_path: Path) -> None:
    """Attributes, filters, modes, links, and a change of attributes alone."""
    project.git("config", "filter.up.smudge", "tr a-z A-Z")
    project.git("config", "filter.up.clean", "tr A-Z a-z")
    project.write({".gitattributes": "*.up filter=up\n*.crlf text eol=crlf\n", "f.up": "loud\n", "g.crlf": "x\n"})
    (project.root / "run.sh").chmod(0o755)
    (project.root / "link").symlink_to("a.txt")
    project.commit("attributes")
    project.write({".gitattributes": "*.crlf -text\n"})
    project.commit("others")
    held = checkout(project)
    for revision in ("HEAD~1", "HEAD", "HEAD~2", "HEAD~1"):
        hold(held, project, revision)
        shutil.rmtree(tmp_path / "plain", ignore_errors=True)
        (tmp_path / "plain").mkdir()
        index = {**os.environ, "GIT_INDEX_FILE": str(tmp_path / "plain-index")}
        subprocess.run(["git", "read-tree", revision], cwd=project.root, env=index, check=True)
        plain = ["git", "--work-tree", str(tmp_path / "plain"), "checkout-index", "-a"]
        subprocess.run(plain, cwd=project.root, env=index, check=True)
        assert work(held.root) == work(tmp_path / "plain")
        assert in_it(held, "status", "--porcelain") == ""


def test_a_sparse_checkout_and_submodules(project: Project, tmp_path: Path) -> None:
    inner = make_project(tmp_path / "inner", files={"lib.py": "x = 1\n", "deep/y": "2\n"})
    project.git("-c", "protocol.file.allow=always", "submodule", "-q", "add", str(inner.root), "sub")
    project.commit("a submodule")
    project.git("sparse-checkout", "set", "--no-cone", "/*", "!/src/")
    held = checkout(project)
    hold(held, project)
    assert (held.root / "sub" / "deep" / "y").read_text() == "2\n"
    assert not (held.root / "src").exists()
    assert in_it(held, "status", "--porcelain") == ""
    (held.root / "sub" / "lib.py").write_text("x = 2\n")
    (held.root / "sub" / "more").write_text("x\n")
    opening = Workspace(repository_of(project)).open()
    assert held.capture(opening) == tree_of(project)
    hold(held, project)
    assert sorted(path.name for path in (held.root / "sub").iterdir()) == ["deep", "lib.py"]
    assert (held.root / "sub" / "lib.py").read_text() == "x = 1\n"
    hold(held, project, "HEAD~1")
    assert not (held.root / "sub").exists()


def test_what_was_changed_in_it_is_captured_by_the_rules_of_the_opening(project: Project) -> None:
    held, workspace = checkout(project), Workspace(repository_of(project))
    project.write({"mine.txt": "untracked\n"})
    opening = workspace.open()
    hold(held, project)
    assert held.capture(opening) == opening.tree
    (held.root / "x.o").write_text("")
    (held.root / "a.txt").touch()
    assert held.capture(opening) == opening.tree
    (held.root / "a.txt").write_text("other\n")
    (held.root / "mine.txt").write_text("a gate's\n")
    (held.root / "new" / "deep").mkdir(parents=True)
    (held.root / "new" / "deep" / "file").write_text("new\n")
    (held.root / "run.sh").unlink()
    (held.root / ".gitignore").write_text("new/\n!*.o\n")
    (held.root / ".rulebook-ralph").mkdir()
    (held.root / ".rulebook-ralph" / "prd.json").write_text("{}")
    made = held.capture(opening)
    assert project.git("diff-tree", "-r", "--name-status", opening.tree, made).split("\n") == [
        "M\t.gitignore",
        "M\ta.txt",
        "A\tnew/deep/file",
        "D\trun.sh",
    ]
    assert held.tidy(opening) is False
    left_out = ("x.o", "mine.txt", ".rulebook-ralph")
    assert not [name for name in left_out if (held.root / name).exists()], "it is no part of what is judged"
    assert (held.root / "new" / "deep" / "file").exists(), "git would hold it, so it is judged"
    hold(held, project)
    assert held.tidy(opening) is True
    assert held.capture(opening) == opening.tree


def test_what_is_given_is_there_as_it_was_at_first(project: Project) -> None:
    project.write({".env": "A=1\n", "deps/one": "1\n", "build/cache/x": "2\n"})
    (project.root / "build" / "link").symlink_to("nowhere")
    held = checkout(project, copy=[".env", "build", "no*.where"], link=["deps"])
    hold(held, project)
    given = {name: work(held.root)[name] for name in (".env", "build/cache/x", "build/link")}
    assert (held.root / "deps").resolve() == project.root / "deps"
    assert in_it(held, "status", "--porcelain", "-uall") == "", "given paths are ignored there"
    (held.root / ".env").write_text("A=2\n")
    (held.root / "build" / "cache" / "more").write_text("x")
    (held.root / "deps").unlink()
    hold(held, project)
    assert given.items() <= work(held.root).items()
    assert not (held.root / "build" / "cache" / "more").exists()
    assert (held.root / "deps" / "one").read_text() == "1\n"
    (project.root / ".env").write_text("A=3\n")
    hold(held, project)
    assert (held.root / ".env").read_text() == "A=1\n", "a later state of the user's tree is nobody's agreement"
    (held.root / ".env").unlink()
    with pytest.raises(SpoiltError, match=r"\.env"):
        hold(held, project)


def test_a_tree_wins_over_what_is_given(project: Project) -> None:
    project.write({"deps/one": "mine\n", ".env": "A=1\n"})
    held = checkout(project, copy=[".env"], link=["deps"])
    hold(held, project)
    project.git("add", "-f", ".env")
    blob = project.git("hash-object", "-w", "a.txt")
    project.git("update-index", "--add", "--cacheinfo", f"100644,{blob},deps/one")
    tree = project.git("write-tree")
    held.hold(tree, project.git("rev-parse", "HEAD"))
    assert not (held.root / "deps").is_symlink()
    assert (held.root / "deps" / "one").read_text() == "one\n"
    assert (project.root / "deps" / "one").read_text() == "mine\n"
    hold(held, project)
    assert (held.root / "deps").is_symlink()
    assert (held.root / ".env").read_text() == "A=1\n"


@pytest.mark.parametrize("path", ["a.txt", "src", ".rulebook-ralph", ".git"])
def test_only_what_git_does_not_hold_can_be_given(path: str, project: Project) -> None:
    project.write({".env": ""})
    with pytest.raises(RalphError, match=r"workspace\.link"):
        isolated_given.find(repository_of(project), copy=[], link=[path])
    with pytest.raises(RalphError, match=r"workspace\.copy"):
        isolated_given.find(repository_of(project), copy=[path], link=[])


def test_what_a_setup_made_stays_until_any_of_it_is_changed(project: Project) -> None:
    held = checkout(project)
    hold(held, project)
    (held.root / "build").mkdir()
    (held.root / "build" / "tool").write_text("tool\n")
    held.keep_as_prepared()
    project.commit("more", more="x\n")
    hold(held, project)
    assert (held.root / "build" / "tool").exists()
    assert not held.lost_prepared
    (held.root / "build" / "tool").write_text("lie\n")
    hold(held, project)
    assert held.lost_prepared
    assert not (held.root / "build").exists()


def test_places_of_dead_processes_and_of_vanished_repositories_go(project: Project, tmp_path: Path) -> None:
    repository = repository_of(project)
    environment = repository.git.environment
    code = (
        "import os, sys; from pathlib import Path; from rulebook_ralph.workspace import isolated_workspace\n"
        "from rulebook_ralph.workspace.repository import open_repository\n"
        "place = isolated_workspace.claim(open_repository(Path(sys.argv[1]), dict(os.environ)))\n"
        "(place.folder / 'x').mkdir(mode=0o500); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(project.root)], env=environment, check=False)
    folder = isolated_workspace.places_of(repository)
    assert len(list(folder.glob("*.lock"))) == 1
    living = isolated_workspace.claim(repository)
    assert [path.name for path in folder.glob("*.lock")] == [f"{living.folder.name}.lock"]
    assert isolated_place.remove_vanished(environment) == 0
    shutil.rmtree(project.root)
    assert isolated_place.remove_vanished(environment) == 0
    assert living.folder.is_dir(), "its process lives"
    living.give_up()
    isolated_place.remove_vanished(environment)
    assert not folder.exists()


def test_a_cache_within_the_repository_is_refused(project: Project) -> None:
    repository = open_repository(project.root, {**os.environ, "XDG_CACHE_HOME": str(project.root / "cache")})
    with pytest.raises(RalphError, match="XDG_CACHE_HOME"):
        isolated_workspace.claim(repository)


def test_a_workspace_for_an_agent(project: Project) -> None:
    """Opening, capture and the rest as in the user's tree, and nothing of it by the user's index."""
    project.git("update-index", "--assume-unchanged", "a.txt")
    project.write({".env": "A=1\n", "deps/one": "1\n", "local": "mine\n", "src/b.py": "a person's\n"})
    users = (project.root / ".git" / "index").read_bytes()
    held = checkout(project, copy=[".env", "local"], link=["deps"])
    hold(held, project)
    (held.root / "build").mkdir()
    (held.root / "build" / "tool").write_text("tool\n")
    (held.root / "tool.py").write_text("made by a setup\n")
    held.keep_as_prepared()
    workspace = held.ready()
    opening = workspace.open()
    assert opening.tree == tree_of(project)
    assert opening.untracked == {"local", "tool.py"}
    assert workspace.capture(opening) == opening.tree
    act(held.root, "write", "a.txt")
    act(held.root, "write", "new")
    act(held.root, "remove", "run.sh")
    (held.root / ".gitignore").write_text("")
    tree = workspace.capture(opening)
    assert {change.path for change in workspace.changes(opening.tree, tree)} == {".gitignore", "new", "run.sh"}
    assert workspace.recapture(opening, tree) == tree
    (held.root / "a.txt").write_text("other\n")
    now = workspace.recapture(opening, tree)
    assert workspace.file_in(now, "a.txt")[1] == b"other\n", "the user's flags are about another file"
    workspace.restore(opening, now)
    assert workspace.capture(opening) == opening.tree
    assert (held.root / "build" / "tool").exists()
    assert (project.root / ".git" / "index").read_bytes() == users
    assert (project.root / "src" / "b.py").read_text() == "a person's\n"


@pytest.mark.parametrize(
    "script",
    [
        "git add -A && git commit -q -m mine && git switch -q -c other",
        "rm -rf .git",
        "rm -rf .git && git init -q && git add -A && git commit -q -m mine",
        "git config core.worktree / && git config core.bare true",
        "git update-index --assume-unchanged a.txt && git stash -q",
    ],
)
def test_whatever_an_agent_does_to_its_git_folder(script: str, project: Project) -> None:
    held = checkout(project)
    hold(held, project)
    workspace = held.ready()
    opening = workspace.open()
    (held.root / "a.txt").write_text("other\n")
    (held.root / "new").write_text("new\n")
    refs = project.refs()
    subprocess.run(["sh", "-c", script], cwd=held.root, capture_output=True, check=False)
    if "stash" in script:
        (held.root / "a.txt").write_text("other\n")
    tree = workspace.capture(opening)
    assert {change.path for change in workspace.changes(opening.tree, tree)} == {"a.txt", "new"}
    held.renew_git_folder()
    assert in_it(held, "rev-parse", "--abbrev-ref", "HEAD") == "main"
    assert in_it(held, "rev-parse", "HEAD") == opening.commit
    assert in_it(held, "status", "--porcelain") == " M a.txt\n?? new"
    assert workspace.capture(opening) == tree
    assert project.refs() == refs


def test_commits_of_an_agent_come_into_the_repository(project: Project) -> None:
    held = checkout(project)
    hold(held, project)
    assert bring_commits(held.workspace.repository) == ()
    (held.root / "a.txt").write_text("other\n")
    in_it(held, "commit", "-q", "-am", "first")
    first = in_it(held, "rev-parse", "HEAD")
    in_it(held, "switch", "-q", "-c", "side")
    in_it(held, "commit", "-q", "--allow-empty", "-m", "second")
    second = in_it(held, "rev-parse", "HEAD")
    in_it(held, "switch", "-q", "--detach", "main")
    refs = project.refs()
    in_it(held, "config", "core.fsmonitor", f"touch {project.beside}/pwned; true")
    in_it(held, "config", "extensions.objectFormat", "none")
    assert set(bring_commits(held.workspace.repository)) == {first, second}
    hold(held, project)
    assert project.git("show", f"{second}:a.txt") == "other"
    assert project.git("fsck", "--strict", "--no-dangling") == ""
    assert project.refs() == refs
    assert not (project.beside / "pwned").exists()
    assert bring_commits(held.workspace.repository) == ()


def test_a_pipe_among_the_objects_is_not_waited_for(project: Project) -> None:
    held = checkout(project)
    hold(held, project)
    (held.root / ".git" / "refs" / "heads" / "x").write_text(f"{'abc':c<40}\n")
    pipe = held.root / ".git" / "objects" / "ab" / f"{'':c<38}"
    pipe.parent.mkdir()
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as beside:
        brought = beside.submit(bring_commits, held.workspace.repository)
        try:
            assert brought.result(DEADLINE / 4) == ()
        finally:
            os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))  # whoever waits there goes on


def test_forged_commits_of_an_agent_do_not_come(project: Project) -> None:
    held = checkout(project)
    hold(held, project)
    (held.root / "a.txt").write_text("other\n")
    in_it(held, "commit", "-q", "-am", "first")
    blob, other = in_it(held, "rev-parse", "HEAD:a.txt"), in_it(held, "hash-object", "-w", "run.sh")
    objects = held.root / ".git" / "objects"
    (objects / blob[:2] / blob[2:]).unlink()
    with pytest.raises(GitError):
        bring_commits(held.workspace.repository)
    assert not (project.root / ".git" / "objects" / blob[:2] / blob[2:]).exists()
    assert other == project.git("rev-parse", "HEAD:run.sh")
    shutil.rmtree(objects)
    objects.symlink_to(project.root / ".git" / "objects")
    assert bring_commits(held.workspace.repository) == ()


def test_work_in_a_dead_processs_place_is_taken_over(project: Project) -> None:
    project.write({"local": "mine\n"})
    repository = repository_of(project)
    code = (
        "import json, os, sys; from pathlib import Path\n"
        "from rulebook_ralph.workspace import isolated, isolated_given, isolated_workspace\n"
        "from rulebook_ralph.workspace.repository import open_repository\n"
        "repository = open_repository(Path(sys.argv[1]), dict(os.environ))\n"
        "place = isolated_workspace.claim(repository, keeps_work=True)\n"
        "given = isolated_given.find(repository, copy=['local'], link=[])\n"
        "held = isolated.make(repository, place, given=given)\n"
        "held.hold(repository.tree_of('HEAD'), repository.head())\n"
        "opening = held.ready().open()\n"
        "rules = {path: content.decode() for path, content in opening.ignore_files.items()}\n"
        "print(json.dumps([place.folder.name, opening.commit, opening.tree, list(opening.untracked), rules]), flush=True)\n"
        "(held.root / 'a.txt').write_text('partial\\n'); (held.root / '.gitignore').write_text('new\\n')\n"
        "(held.root / 'new').write_text('new\\n'); (held.root / 'x.o').write_text('')\n"
        "sys.stdin.read()"
    )
    run = [sys.executable, "-c", code, str(project.root)]
    with subprocess.Popen(
        run, env=repository.git.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        name, commit, tree, untracked, rules = json.loads(process.stdout.readline())
        wait_for(lambda: len(list(Path(project.beside / "cache").rglob("x.o"))) == 1, "its work")
        assert isolated_workspace.take_over(repository, name) is None, "its process lives"
        process.kill()
    isolated_workspace.claim(repository).give_up()
    place = isolated_workspace.take_over(repository, name)
    assert place is not None
    opening = Opening(commit, tree, frozenset(untracked), {path: text.encode() for path, text in rules.items()})
    workspace = isolated_workspace.reopen(repository, place, opening)
    assert workspace is not None
    made = workspace.capture(opening)
    assert {change.path for change in workspace.changes(tree, made)} == {"a.txt", ".gitignore", "new"}
    assert project.status() == ["?? local"]
    place.give_up()
    assert not place.folder.exists()
    assert isolated_workspace.take_over(repository, name) is None


def test_work_that_nobody_takes_over_can_be_removed(project: Project) -> None:
    repository = repository_of(project)
    code = (
        "import os, sys; from pathlib import Path; from rulebook_ralph.workspace import isolated_workspace\n"
        "from rulebook_ralph.workspace.repository import open_repository\n"
        "isolated_workspace.claim(open_repository(Path(sys.argv[1]), dict(os.environ)), keeps_work=True)"
    )
    environment = repository.git.environment
    for _ in range(2):
        subprocess.run([sys.executable, "-c", code, str(project.root)], env=environment, check=True)
    assert isolated_place.remove_vanished(environment) == 0
    assert isolated_workspace.remove_dead(repository) == 2
    subprocess.run([sys.executable, "-c", code, str(project.root)], env=environment, check=True)
    shutil.rmtree(project.root)
    assert isolated_place.remove_vanished(environment) == 1
    assert not any(isolated_place.cache_folder(environment).iterdir())
