"""What a commit changes, brought onto another tip: what git merges, what is a conflict, and who has no say in it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rulebook_ralph.errors import RalphError
from rulebook_ralph.workspace import rebasing
from rulebook_ralph.workspace.git import Git, GitError
from rulebook_ralph.workspace.rebasing import Rebased, rebased
from rulebook_ralph.workspace.repository import Repository, open_repository
from tests.harness import Project, make_project

LINES = "one\ntwo\nthree\nfour\nfive\nsix\n"
FILES = {"text": LINES, "other": LINES + "its own\n", "run.sh": "#!/bin/sh\n", "old/a": "a\n" * 9, "old/b": "b\n" * 9}

Act = Callable[[Project], object]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path, files=FILES)


def repository_of(project: Project) -> Repository:
    return open_repository(project.root, os.environ)


def upon(project: Project, commit: str, *, onto: str) -> Rebased:
    """What the commit changes of its parent, upon another one."""
    tree, base = project.git("rev-parse", f"{commit}^{{tree}}", f"{commit}^").splitlines()
    return rebased(repository_of(project), tree, base=base, onto=onto)


def beside(project: Project, mine: Act, theirs: Act) -> tuple[str, str]:
    """Two commits on one base, with nothing of them in the work tree."""
    made = []
    for act in (mine, theirs):
        project.git("checkout", "-q", "--detach", "main")
        act(project)
        project.git("add", "-A")
        project.git("commit", "-q", "-m", "work")
        made.append(project.git("rev-parse", "HEAD"))
    project.git("checkout", "-q", "main")
    return made[0], made[1]


def edit(name: str, old: str, new: str) -> Act:
    return lambda project: project.write({name: (project.root / name).read_text().replace(old, new)})


def brought(project: Project, mine: Act, theirs: Act) -> Rebased:
    commit, onto = beside(project, mine, theirs)
    before = project.git("status", "--porcelain"), project.refs()
    merged = upon(project, commit, onto=onto)
    assert (project.git("status", "--porcelain"), project.refs()) == before
    assert not [path for path in (project.root / ".git" / "ralph").iterdir() if path.name.startswith("nothing-")]
    return merged


def git_does(*arguments: str) -> Act:
    return lambda project: project.git(*arguments)


def link(project: Project) -> None:
    (project.root / "run.sh").unlink()
    (project.root / "run.sh").symlink_to("text")


def bytes_of(content: bytes) -> Act:
    return lambda project: (project.root / "text").write_bytes(content)


def test_on_its_own_parent_it_is_its_own_tree(project: Project) -> None:
    parent = project.git("rev-parse", "HEAD")
    commit = project.commit("more", text="other\n")
    merged = upon(project, commit, onto=parent)
    assert merged == Rebased(project.git("rev-parse", f"{commit}^{{tree}}"))


def test_what_a_person_dropped_from_the_branch_does_not_come_again(project: Project) -> None:
    """The work was begun on a commit that the branch has no more."""
    onto = project.git("rev-parse", "HEAD")
    project.commit("dropped", new="dropped\n", text=LINES.replace("one", "1"))
    commit = project.commit("work", text=LINES.replace("one", "1").replace("six", "6"))
    merged = upon(project, commit, onto=onto)
    assert merged.conflicts == ()
    assert project.git("show", f"{merged.tree}:text") == LINES.replace("six", "6").strip()
    assert project.git("diff-tree", "-r", "--name-only", onto, merged.tree) == "text"


def test_what_goes_together_is_one_tree(project: Project) -> None:
    def mine(project: Project) -> None:
        edit("text", "one", "1")(project)
        edit("old/a", "a\na\n", "a\nx\n")(project)
        project.write({"new": "mine\n"})

    def theirs(project: Project) -> None:
        edit("text", "six", "6")(project)
        project.git("mv", "old/a", "moved")
        (project.root / "run.sh").chmod(0o755)
        link_to = project.root / "link"
        link_to.symlink_to("text")

    merged = brought(project, mine, theirs)
    assert merged.conflicts == merged.told == ()
    listing = project.git("ls-tree", "-r", merged.tree).splitlines()
    modes = {line.split("\t")[1]: line.split()[0] for line in listing}
    assert modes["run.sh"] == "100755"
    assert modes["link"] == "120000"
    assert project.git("show", f"{merged.tree}:text") == "1\ntwo\nthree\nfour\nfive\n6"
    assert "x" in project.git("show", f"{merged.tree}:moved"), "an edit follows its file to its new name"
    assert {"new", "moved"} <= modes.keys()
    assert "old/a" not in modes


@pytest.mark.parametrize(
    ("mine", "theirs", "path", "kind"),
    [
        (edit("text", "one", "1"), edit("text", "one", "I"), "text", "content"),
        (edit("text", "one", "1"), git_does("rm", "-q", "text"), "text", "modify/delete"),
        (git_does("rm", "-q", "text"), edit("text", "one", "1"), "text", "modify/delete"),
        (link, edit("run.sh", "sh", "bash"), "run.sh", "distinct types"),
        (bytes_of(b"\0one"), bytes_of(b"\0two"), "text", "binary"),
        (git_does("mv", "text", "x"), git_does("mv", "text", "y"), "text", "rename/rename"),
        (lambda project: project.write({"old/new": "x\n"}), git_does("mv", "old", "gone"), "gone/new", "file location"),
    ],
)
def test_a_conflict_names_its_path_and_is_told(mine: Act, theirs: Act, path: str, kind: str, project: Project) -> None:
    merged = brought(project, mine, theirs)
    assert path in merged.conflicts
    assert any(kind in words and path in words for words in merged.told), merged.told


def test_a_submodule_that_both_moved_is_a_conflict(project: Project) -> None:
    head = project.git("rev-parse", "HEAD")
    other = project.git("commit-tree", "-m", "x", f"{head}^{{tree}}")
    third = project.git("commit-tree", "-m", "y", f"{head}^{{tree}}")

    def at(commit: str) -> str:
        project.git("update-index", "--add", "--cacheinfo", f"160000,{commit},sub")
        made = project.git("commit-tree", "-p", base, "-m", commit, project.git("write-tree"))
        project.git("reset", "-q")
        return made

    base = head
    base = at(head)
    merged = upon(project, at(other), onto=at(third))
    assert merged.conflicts == ("sub",)
    assert "submodule" in merged.told[0]
    merged = upon(project, at(other), onto=base)
    assert merged.conflicts == ()


def test_nobodys_driver_drops_a_change(project: Project) -> None:
    """As with `merge.ours.driver=true`, which many people have, and an agent that names it."""
    project.git("config", "merge.ours.driver", "true")
    project.git("config", "merge.default", "ours")
    (project.root / ".git" / "info").mkdir(exist_ok=True)
    (project.root / ".git" / "info" / "attributes").write_text("* merge=ours\n")
    attributes = {".gitattributes": "* merge=ours\n"}
    project.write(attributes)
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "the tip's own")
    merged = brought(project, edit("text", "one", "1"), edit("text", "six", "6"))
    assert project.git("show", f"{merged.tree}:text").split() == ["1", "two", "three", "four", "five", "6"]
    assert brought(project, edit("text", "one", "1"), edit("text", "one", "I")).conflicts == ("text",)


def test_attributes_are_those_of_the_tip_not_of_the_work(project: Project) -> None:
    def with_attributes(act: Act, content: str) -> Act:
        def both(project: Project) -> None:
            act(project)
            project.write({".gitattributes": content})

        return both

    mine, theirs = edit("text", "one", "1"), edit("text", "one", "I")
    assert brought(project, with_attributes(mine, "* merge=union\n"), theirs).conflicts == ("text",)
    merged = brought(project, mine, with_attributes(theirs, "text merge=union\n"))
    assert project.git("show", f"{merged.tree}:text").split()[:3] == ["I", "1", "two"], "neither side's lines are lost"
    apart = brought(project, mine, with_attributes(edit("text", "six", "6"), "text -merge\n"))
    assert apart.conflicts == ("text",)


def test_a_commit_that_is_not_there(project: Project) -> None:
    with pytest.raises(GitError):
        rebased(repository_of(project), "HEAD^{tree}", base="0" * 40, onto="HEAD")


def test_a_git_that_is_too_old(project: Project, tmp_path: Path) -> None:
    rebasing.require_merge(repository_of(project))
    (tmp_path / "git").write_text("#!/bin/sh\necho git version 2.37.9\n")
    (tmp_path / "git").chmod(0o755)
    repository = repository_of(project)
    old = Git(repository.root, {**repository.git.environment, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    with pytest.raises(RalphError, match=r"git version 2\.37\.9 is too old.*needs git 2\.38"):
        rebasing.require_merge(Repository(old, repository.root, repository.git_folder, repository.common_folder))
